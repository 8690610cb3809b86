//! The plan of a good experiment, its resolved text and its explanation.

use rehearsal_core::assembly::AssemblyError;
use rehearsal_core::kind::{BuildError, Role};
use rehearsal_core::plan::{Carrier, Plan};
use rehearsal_core::time::Span;
use rehearsal_scenario::{explain, init_template};

use super::support::{GOOD, good, tells};

/// Everything of a plan that can be compared, except the folder it stands in.
fn text(plan: &Plan) -> String {
    let Plan { info, seed, record_requests, repetition, base: _, hosts, nodes, links, routes } = plan;
    format!("{info:#?}\n{seed} {record_requests} {repetition}\n{hosts:#?}\n{nodes:#?}\n{links:#?}\n{routes:#?}")
}

#[test]
fn counts_are_multiplied_out_and_services_added() {
    let plan = good(&GOOD.replace("requests = 100", "requests = 100\ncount = 3")).plan(2);
    assert_eq!((plan.info.run.as_str(), plan.seed, plan.repetition), ("small", 1, 2));
    let groups: Vec<String> = plan
        .nodes
        .iter()
        .flat_map(|node| {
            node.groups.iter().map(|g| format!("{}/{} {} {}+{}", node.name, g.actor, g.kind, g.first, g.count))
        })
        .collect();
    assert_eq!(
        groups,
        [
            "sensor-1/main sensor 0+3",
            "sensor-1/logger logger 0+1",
            "sensor-2/main sensor 3+3",
            "sensor-2/logger logger 1+1",
            "receiver/main receiver 0+1",
            "receiver/logger logger 0+1",
            "control/controller controller 0+1",
            "control/aggregator aggregator 0+1",
            "control/logger logger 0+1",
        ]
    );
    assert_eq!(plan.nodes.iter().map(|node| node.measured).collect::<Vec<_>>(), [true, true, true, false]);
    assert_eq!(plan.info.nodes.iter().filter(|node| node.sends).count(), 2);
    assert_eq!(plan.nodes[0].groups[0].role, Role::Sender);
    assert_eq!((plan.nodes[0].host, plan.nodes[2].host), (Some(0), None));
    assert_eq!(plan.link(0, 2).delay, Span::from_millis(1));
    assert_eq!(plan.link(2, 0).delay, Span::ZERO);
}

/// An aggregator that was added can have a node of its own, and the resolved experiment loads to the same plan; one that
/// the file places stays.
#[test]
fn an_added_aggregator_can_be_set_apart() {
    let mut experiment = good(GOOD);
    assert_eq!(experiment.set_aggregator_apart().as_deref(), Some("aggregator"));
    assert_eq!(experiment.set_aggregator_apart().as_deref(), Some("aggregator"), "twice is once");
    let plan = experiment.plan(0);
    let last: Vec<String> = plan.nodes[plan.nodes.len() - 2..]
        .iter()
        .map(|node| {
            format!("{} {:?} {}", node.name, node.groups.iter().map(|g| g.kind).collect::<Vec<_>>(), node.measured)
        })
        .collect();
    let wanted = [r#"control ["controller", "logger"] false"#, r#"aggregator ["aggregator", "logger"] false"#];
    assert_eq!(last, wanted);
    assert_eq!(text(&good(&experiment.resolved_toml()).plan(0)), text(&plan));
    let together = "[nodes.lead.actors.a]\nkind = \"controller\"\n[nodes.lead.actors.b]\nkind = \"aggregator\"\n";
    assert_eq!(good(&format!("{GOOD}{together}")).set_aggregator_apart(), None);
    let apart = "[nodes.lead.actors.a]\nkind = \"controller\"\n[nodes.books.actors.b]\nkind = \"aggregator\"\n";
    assert_eq!(good(&format!("{GOOD}{apart}")).set_aggregator_apart().as_deref(), Some("books"));
}

#[test]
fn nodes_and_actors_keep_the_order_of_the_file() {
    let file = GOOD.replace("nodes.receiver.", "nodes.a-receiver.").replace("receiver/main", "a-receiver/main");
    let file = file.replace("sensor->receiver", "sensor->a-receiver");
    let names: Vec<String> = good(&file).nodes.into_iter().map(|node| node.name).collect();
    assert_eq!(names, ["sensor", "a-receiver", "control"]);
}

#[test]
fn links_take_what_they_leave_out_from_the_default() {
    let file = format!("{GOOD}[links.default]\ncarrier = \"udp\"\ndelay = \"5ms\"\n");
    let experiment = good(&file);
    assert_eq!(experiment.link_to("sensor", "receiver/main").carrier, Carrier::Udp);
    assert_eq!(experiment.link_to("sensor", "receiver/main").delay, Span::from_millis(1));
    assert_eq!(experiment.link_to("receiver", "sensor/main").delay, Span::from_millis(5));
}

#[test]
fn the_resolved_text_loads_to_the_same_plan() {
    let rich = GOOD
        .replace("requests = 100", "requests = 100\nlimit = { deadline = \"100ms\" }\nstreams = 2")
        .replace("workers = 8", "analyzer = { pause = \"20ms\" }\nlisten = \"127.0.0.1:7001\"")
        .replace("name = \"small\"", "name = \"small\"\ndescription = \"with \\\"quotes\\\"\\nand lines\"");
    let rich = format!("{rich}[thresholds]\n\"response.p99\" = \"<100ms\"\n\"lost.ratio\" = \"<0.1%\"\n");
    let experiment = good(&rich);
    let resolved = experiment.resolved_toml();
    tells(
        &resolved,
        &[
            "# Experiment `small`",
            "[nodes.sensor.actors.main.limit]",
            "timeout = \"10s\"",
            "[nodes.control.actors.aggregator]",
        ],
    );
    let again = good(&resolved);
    assert_eq!(text(&again.plan(0)), text(&experiment.plan(0)));
    assert_eq!(again.resolved_toml(), resolved);
    assert_eq!(again.thresholds, experiment.thresholds);
    assert_eq!(again.description, experiment.description);
}

#[test]
fn totals_are_known_where_they_can_be() {
    let totals = good(GOOD).totals();
    assert_eq!((totals.senders, totals.streams, totals.requests, totals.rate), (2, 2, Some(200), Some(50.0)));
    assert_eq!(totals.payload.map(|p| (p.min.0, p.max.0)), Some((200_000, 200_000)));
    let by_time = good(&GOOD.replace("requests = 100\n", "")).totals();
    assert_eq!(by_time.requests, Some(500));
    let short = good(&GOOD.replace("requests = 100", "requests = 1000"));
    assert_eq!(short.totals().requests, Some(500));
    assert!(
        short.notes.contains(&"sensor/main: its requests take 40 s at their rate, the run only 10 s".to_owned()),
        "{:?}",
        short.notes
    );
    let counted = good(&GOOD.replace("duration = \"10s\"", "stop = \"all-requests-done\""));
    assert_eq!(counted.paced_duration(), Some(Span::from_secs(4)));
    let closed = good(&GOOD.replace("rate = \"25/s\"\n", "")).totals();
    assert_eq!((closed.requests, closed.rate), (None, None));
    assert_eq!(good(&GOOD.replace("rate = \"25/s\"\n", "")).paced_duration(), None);
}

#[test]
fn the_explanation_is_aligned_and_complete() {
    let file = format!("{GOOD}[thresholds]\n\"response.p99\" = \"<100ms\"\n").replace("vcpu = 1", "vcpu = 3");
    assert_eq!(
        explain(&good(&file)),
        "\
experiment small
  ends 10 s after the start; 1 run with seed 1

hosts
  lab  4 cores  6 vCPU asked by sensor ×2

nodes
  sensor ×2  3 vCPU  on lab  main (sensor), logger
  receiver                   main (receiver), logger
  control                    controller, aggregator, logger  not measured

traffic of one run
  sensor/main -> receiver/main  2 streams  at 25/s each  50 requests/s  200 requests  200 kB  http1, connections kept, 1 ms delay
  all                           2 streams                50 requests/s  200 requests  200 kB

thresholds
  response.p99 <100ms

notes
  host `lab` is overcommitted: its nodes may use 6 vCPU of 4 cores
  node `receiver` is on no host, so its CPU is not limited
"
    );
}

#[test]
fn what_cannot_be_built_is_shown_in_the_file() {
    let experiment = good(GOOD);
    let error = |actor: &str, source| AssemblyError { node: "receiver".into(), actor: actor.into(), source };
    let told = |error: AssemblyError| experiment.explain_build(&error).to_string();
    assert_eq!(
        told(error("main", BuildError::of("workers", "too many"))),
        "x.toml:22:11: `workers`: too many (for actor `receiver/main`)\n 22 | workers = 8\n    |           ^"
    );
    tells(&told(error("main", BuildError::of("listen", "in use"))), &["x.toml:20:1: `listen`: in use"]);
    tells(&told(error("main", BuildError::group("no"))), &["x.toml:20:1: actor `receiver/main`: no"]);
    assert_eq!(told(error("logger", BuildError::group("no"))), "actor `receiver/logger`: no");
}

#[test]
fn the_first_experiment_loads() {
    let experiment = good(init_template());
    assert_eq!(experiment.totals().requests, Some(2000));
    assert_eq!(experiment.thresholds.len(), 2);
    assert!(experiment.notes.is_empty(), "{:?}", experiment.notes);
}
