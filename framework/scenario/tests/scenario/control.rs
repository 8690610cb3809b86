//! `[[experiment.control]]` and `on_loss`: what is read, what is refused, and what is printed again.

use rehearsal_core::life::OnLoss;
use rehearsal_core::steer::Steering;
use rehearsal_core::time::Span;
use rehearsal_core::units::Rate;

use super::support::{GOOD, bad, good, tells};

fn with(steps: &str) -> String {
    GOOD.replace("[hosts.lab]", &format!("{steps}\n[hosts.lab]"))
}

fn step(lines: &str) -> String {
    with(&format!("[[experiment.control]]\n{lines}\n"))
}

#[test]
fn steps_are_read_in_the_order_of_time_and_written_again() {
    let late = "[[experiment.control]]\nat = \"5s\"\ndo = \"rate\"\nrate = \"10/s\"\nnode = \"sensor\"\n";
    let early =
        "[[experiment.control]]\nat = \"1s\"\ndo = \"pause\"\n[[experiment.control]]\nat = \"2s\"\ndo = \"resume\"\n";
    let experiment = good(&with(&format!("{late}{early}")));
    let plan = experiment.plan(0);
    let steps: Vec<_> = plan.info.control.iter().map(|s| (s.at, s.node.as_deref(), s.step)).collect();
    let second = Span::from_secs;
    assert_eq!(
        steps,
        [
            (second(1), None, Steering::Pause),
            (second(2), None, Steering::Resume),
            (second(5), Some("sensor"), Steering::Rate(Rate::per_second(10))),
        ]
    );
    let again = good(&experiment.resolved_toml());
    assert_eq!((again.control, again.on_loss), (experiment.control, OnLoss::Abort));
}

#[test]
fn steps_that_make_no_sense_are_refused() {
    let refused = |lines: &str| bad(&step(lines));
    tells(&refused("at = \"1s\"\ndo = \"rate\""), &["step 1 of `control` needs either `factor` or `rate`"]);
    tells(&refused("at = \"1s\"\ndo = \"rate\"\nfactor = 2\nrate = \"1/s\""), &["needs either `factor` or `rate`"]);
    tells(&refused("at = \"1s\"\ndo = \"pause\"\nfactor = 2"), &["step 1 of `control` has no `factor` and no `rate`"]);
    tells(&refused("at = \"1s\"\ndo = \"rate\"\nfactor = 0"), &["`factor` must be above zero", "do = \"pause\""]);
    tells(&refused("at = \"10s\"\ndo = \"stop\""), &["is at 10s, when the run is over"]);
    tells(&refused("at = \"1s\"\ndo = \"pause\"\nnode = \"camera\""), &["there is no node `camera`"]);
    tells(&refused("at = 1\ndo = \"pause\""), &["`1` has no unit; write for instance `1s`"]);
    tells(&refused("at = \"1s\"\ndo = \"wait\""), &["wait"]);
    tells(&refused("at = \"1s\"\ndo = \"pause\"\nnodes = \"sensor\""), &["nodes"]);
    let many = "[[experiment.control]]\nat = \"1s\"\ndo = \"pause\"\n".repeat(65);
    tells(&bad(&with(&many)), &["`control` has 65 steps, at most 64 are possible"]);
}

#[test]
fn a_policy_is_one_of_three() {
    let policy = |word: &str| GOOD.replace("[hosts.lab]", &format!("on_loss = \"{word}\"\n[hosts.lab]"));
    for (word, expected) in
        [("abort", OnLoss::Abort), ("continue", OnLoss::Continue), ("restart-node", OnLoss::RestartNode)]
    {
        assert_eq!(good(&policy(word)).plan(0).info.on_loss, expected);
    }
    tells(&bad(&policy("restart")), &["on_loss"]);
}
