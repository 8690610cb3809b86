//! Steps of users: login, token, call, against a service that is not ours and against receivers; what answers give belongs to the
//! user that got them, in both engines.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, TcpStream};
use std::process::{Child, Command, Stdio};

use serde_json::Value;

use crate::errors::must_fail;
use crate::support::{Bundle, Scratch, at_once, beside};

const SHOP: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../tests/python/shop.py");

/// A service in Python; it ends with the test.
struct Shop {
    child: Child,
    port: u16,
}

impl Shop {
    /// Each of its tokens is good for `uses` requests. `None` without Python.
    fn start(uses: u32) -> Option<Shop> {
        let mut command = Command::new("python3");
        let child = command.args([SHOP, &uses.to_string()]).stdout(Stdio::piped()).stderr(Stdio::null()).spawn();
        let Ok(mut child) = child else {
            eprintln!("there is no python3: the service that is not ours was left out");
            return None;
        };
        let mut line = String::new();
        BufReader::new(child.stdout.take()?).read_line(&mut line).expect("its port");
        let port = line.trim().parse().expect("a port");
        Some(Shop { child, port })
    }

    /// What it answered.
    fn stats(&self) -> Value {
        let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, self.port)).expect("it listens");
        stream.write_all(b"GET /stats HTTP/1.1\r\nhost: shop\r\nconnection: close\r\n\r\n").expect("it reads");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).expect("an answer");
        let (_, body) = answer.split_once("\r\n\r\n").expect("a head");
        serde_json::from_str(body).expect("JSON")
    }
}

impl Drop for Shop {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Users of the shop at `to`: they log in with their row, open a cart and look into it.
fn shopping(to: &str) -> String {
    format!(
        r#"[experiment]
name = "shopping"
duration = "3s"

[nodes.u.actors.main]
kind = "population"
to = "{to}"
users = 20
mode = "individual"
retries = 0
service = {{ time = "1ms" }}

[nodes.u.actors.main.diagram]
start = {{ rest = 1 }}

[nodes.u.actors.main.diagram.states]
rest = {{ stay = {{ dist = "exponential", mean = "100ms" }}, to = {{ login = 1 }} }}
think = {{ stay = {{ dist = "exponential", mean = "50ms" }}, to = {{ look = 0.8, open = 0.2 }} }}

[nodes.u.actors.main.diagram.states.login]
to = {{ open = 1 }}
failed = {{ rest = 1 }}
[nodes.u.actors.main.diagram.states.login.step]
path = "/login"
body = '{{"user": "{{name}}", "password": "{{password}}"}}'
rows = "users.csv"
extract = {{ token = {{ json = "/auth/token" }} }}

[nodes.u.actors.main.diagram.states.open]
to = {{ look = 1 }}
failed = {{ rest = 1 }}
[nodes.u.actors.main.diagram.states.open.step]
method = "POST"
path = "/carts"
headers = {{ authorization = "Bearer {{token}}" }}
extract = {{ cart = {{ header = "x-cart" }} }}
expect = {{ status = [201] }}

[nodes.u.actors.main.diagram.states.look]
to = {{ think = 1 }}
failed = {{ rest = 1 }}
[nodes.u.actors.main.diagram.states.look.step]
path = "/carts/{{cart}}?n={{seq}}"
headers = {{ authorization = "Bearer {{token}}" }}
rows = "users.csv"
expect = {{ status = [200], body_contains = '"of": "{{name}}"' }}
"#
    )
}

fn users(scratch: &Scratch) {
    let rows = (1..=20).map(|n| format!("user{n},\"secret of user{n}\"\n"));
    scratch.write("users.csv", format!("name,password\n{}", rows.collect::<String>()));
}

fn count(bundle: &Bundle, name: &str) -> u64 {
    bundle.summary["total"]["counts"][name].as_u64().unwrap_or(0)
}

#[test]
fn users_log_in_and_use_the_token_that_they_got() {
    let _busy = beside();
    let scratch = Scratch::new();
    let Some(shop) = Shop::start(1_000_000) else { return };
    users(&scratch);
    scratch.write("trial.toml", shopping(&format!("http://127.0.0.1:{}", shop.port)));
    let [simulated, emulated] = scratch.both("trial.toml", "shop", &[]);
    let stats = shop.stats();
    assert_eq!((&stats["refused"], &stats["wrong"], &stats["expired"]), (&0.into(), &0.into(), &0.into()), "{stats}");
    assert_eq!(stats["login"], 20, "each user logs in once: {stats}");
    assert!(stats["item"].as_u64() > Some(100) && stats["cart"].as_u64() > Some(20), "{stats}");
    for bundle in [&simulated, &emulated] {
        assert_eq!(count(bundle, "flows_failed"), 0);
        assert!(bundle.total("success") > 140, "{}", bundle.total("success"));
        assert_eq!(bundle.total("invalid") + bundle.total("failed") + bundle.total("lost"), 0);
    }
    let served = ["login", "cart", "item"].map(|name| stats[name].as_u64().expect("a count")).iter().sum::<u64>();
    assert!(served - emulated.total("success") <= 20, "{served}: what the stop broke off is at most one of each user");
}

#[test]
fn a_user_whose_token_has_expired_logs_in_again() {
    let _busy = beside();
    let scratch = Scratch::new();
    let Some(shop) = Shop::start(7) else { return };
    users(&scratch);
    scratch.write("trial.toml", shopping(&format!("http://127.0.0.1:{}", shop.port)));
    let bundle = scratch.bundle("emulate", "trial.toml", "expiring", &[], &[0, 20]);
    let stats = shop.stats();
    assert_eq!((&stats["refused"], &stats["wrong"]), (&0.into(), &0.into()), "an old token is not used again: {stats}");
    let (logins, expired) = (stats["login"].as_u64().expect("a count"), stats["expired"].as_u64().expect("a count"));
    assert!(expired > 0 && logins > 20 && logins <= 20 + expired, "{stats}");
    let failed = count(&bundle, "flows_failed");
    // what was refused at the end failed for nobody
    let invalid = bundle.total("invalid");
    assert!((failed..=expired).contains(&invalid) && expired - failed <= 20, "{failed} and {invalid} failed: {stats}");
}

/// Users who take a token from a receiver and call it.
fn receiver(carrier: &str, token: bool) -> String {
    format!(
        r#"[experiment]
name = "tokens"
duration = "2s"
[nodes.u.actors.main]
kind = "population"
to = "r/main"
users = 10
mode = "individual"
[nodes.u.actors.main.diagram]
start = {{ login = 1 }}
[nodes.u.actors.main.diagram.states]
login = {{ to = {{ think = 1 }}, failed = {{ pause = 1 }}, step = {{ body = '{{"user": {{user}}}}', extract = {{ token = {{ json = "/token" }} }} }} }}
pause = {{ stay = {{ dist = "constant", value = "200ms" }}, to = {{ login = 1 }} }}
think = {{ stay = {{ dist = "constant", value = "100ms" }}, to = {{ call = 1 }} }}
call = {{ to = {{ think = 1 }}, step = {{ method = "PUT", path = "/calls/{{token}}", headers = {{ x-token = "{{token}}" }}, body = "by {{token}}", answer = "300B" }} }}
[nodes.r.actors.main]
kind = "receiver"
token = {token}
[links.default]
carrier = "{carrier}"
delay = "1ms"
impose = "userspace"
"#
    )
}

#[test]
fn receivers_give_tokens_over_every_version_of_http() {
    let _busy = beside();
    at_once(["http1", "http2", "http3"], |carrier| {
        let scratch = Scratch::new();
        scratch.write("trial.toml", receiver(carrier, true));
        let [simulated, emulated] = scratch.both("trial.toml", carrier, &[]);
        for bundle in [&simulated, &emulated] {
            let calls = bundle.total("success") - 10;
            assert!(calls > 100, "{carrier}: {calls}");
            assert_eq!(count(bundle, "flows_failed"), 0, "{carrier}");
            // a token has 32 digits, as dry runs take it to have; `{"user": 1}` has 11 characters, that of the tenth one more
            assert_eq!(bundle.total("bytes_sent"), 35 * (bundle.total("attempts") - 10) + 10 * 11 + 1, "{carrier}");
            assert_eq!(bundle.total("bytes_replied"), 300 * calls + 10 * 72, "{carrier}");
        }
    });
}

#[test]
fn an_answer_without_what_is_taken_from_it_is_a_failure() {
    let _busy = beside();
    let scratch = Scratch::new();
    scratch.write("trial.toml", receiver("http1", false));
    let simulated = scratch.simulate("trial.toml", "dry", &[]);
    // that nothing succeeded is in doubt, and rightly so
    let emulated = scratch.bundle("emulate", "trial.toml", "real", &[], &[0, 20]);
    assert_eq!(count(&simulated, "flows_failed"), 0, "a dry run takes it that all is there");
    let failed = count(&emulated, "flows_failed");
    assert!(failed > 20 && emulated.total("invalid") >= failed && emulated.total("success") == 0, "{failed}");
}

/// What a receiver fails is drawn from the request's place, so both engines fail the same: forty users call ten times each.
#[test]
fn a_receiver_fails_the_same_requests_in_both_engines() {
    let _busy = beside();
    let scratch = Scratch::new();
    let call = |n: u32| {
        let next = if n == 9 { "done".to_owned() } else { format!("call{}", n + 1) };
        format!(r#"call{n} = {{ to = {{ {next} = 1 }}, step = {{ path = "/{n}", expect = {{ status = [200] }} }} }}"#)
    };
    let calls: Vec<String> = (0..10).map(call).collect();
    let text = format!(
        r#"[experiment]
name = "fails"
duration = "4s"
[nodes.u.actors.main]
kind = "population"
to = "r/main"
users = 40
mode = "individual"
[nodes.u.actors.main.diagram]
start = {{ comes = 1 }}
[nodes.u.actors.main.diagram.states]
comes = {{ stay = {{ dist = "uniform", low = "0s", high = "1s" }}, to = {{ call0 = 1 }} }}
{}
done = {{ final = true }}
[nodes.r.actors.main]
kind = "receiver"
fail = {{ share = "20%" }}
[links.default]
delay = "1ms"
impose = "userspace"
"#,
        calls.join("\n")
    );
    scratch.write("trial.toml", &text);
    let bundles = scratch.both("trial.toml", "fails", &[]);
    let [dry, real] = bundles.each_ref().map(|b| (b.total("attempts"), b.total("failed"), count(b, "flows_failed")));
    assert_eq!(dry, real);
    assert!(dry.0 == 400 && dry.1 == dry.2 && (50..110).contains(&dry.1), "{dry:?}");
    scratch.write("trial.toml", text.replacen("\"20%\"", "\"20%\", status = 404", 1));
    must_fail(&scratch.run(&["check", "trial.toml"]), 2, &["cannot fail with 404; `status` is 400, 500 or 503"]);
}

/// A bundle holds the rows of its users, so it runs again where their file is no more; and what was in it is in the manifest.
#[test]
fn a_bundle_with_rows_runs_again_by_itself() {
    let scratch = Scratch::new();
    users(&scratch);
    let body = r#"rows = "data/users.csv", body = '{"user": "{name}"}'"#;
    let text = receiver("http1", true).replacen(r#"body = '{"user": {user}}'"#, body, 1);
    assert!(text.contains(body), "{text}");
    std::fs::create_dir(scratch.path("data")).expect("a folder");
    std::fs::rename(scratch.path("users.csv"), scratch.path("data/users.csv")).expect("it moves");
    scratch.write("trial.toml", text);
    let first = scratch.simulate("trial.toml", "first", &[]);
    std::fs::remove_dir_all(scratch.path("data")).expect("it goes");
    must_fail(&scratch.run(&["check", "trial.toml"]), 2, &["data/users.csv"]);
    let again = scratch.simulate("first/experiment.toml", "again", &[]);
    assert!(first.total("success") > 100 && first.summary["total"] == again.summary["total"], "{}", again.summary);
    scratch.write("first/data/users.csv", "name\nada\n");
    let done = scratch.run(&["report", "first"]);
    let told = format!("{}{}", done.stdout, done.stderr);
    assert!(told.contains("changed since the run: data/users.csv"), "{told}");
}

#[test]
fn mistakes_in_steps_are_told_with_what_to_write() {
    let scratch = Scratch::new();
    users(&scratch);
    let good = shopping("http://127.0.0.1:9");
    for (from, to, told) in [
        ("mode = \"individual\"", "mode = \"composed\"", "uses `{cart}`, which belongs to the user that got it"),
        ("Bearer {token}", "Bearer {tokn}", "nothing tells what `{tokn}` is (`{cart}`, `{token}`)"),
        ("failed = { rest = 1 }", "failed = { think = 1 }", "may come from `think` without it"),
        ("start = { rest = 1 }", "start = { think = 1 }", "uses `{cart}`, and users may come from `think` without it"),
        ("json = \"/auth/token\"", "json = \"token\"", "begins with `/`"),
        ("rows = \"users.csv\"", "rows = \"none.csv\"", "none.csv"),
        ("{password}", "{passwort}", "nothing tells what `{passwort}` is; there are `{name}`, `{password}`"),
        ("path = \"/login\"", "path = \"login\"", "does not begin with `/`"),
        ("path = \"/login\"", "module = \"x\"", "unknown"),
    ] {
        scratch.write("trial.toml", good.replacen(from, to, 1));
        must_fail(&scratch.run(&["check", "trial.toml"]), 2, &[told]);
    }
    let over = receiver("tcp", true);
    scratch.write("trial.toml", over);
    must_fail(&scratch.run(&["check", "trial.toml"]), 2, &["it needs `http1`, `http2` or `http3`"]);
}

/// Users who wait for answers go on when these come. Individual ones draw from generators of their own, so that who is answered
/// first changes nothing in what they do next.
#[test]
fn individual_users_draw_the_same_whoever_is_answered_first() {
    let _busy = beside();
    let scratch = Scratch::new();
    let text = r#"[experiment]
name = "pages"
duration = "4s"
[nodes.u.actors.main]
kind = "population"
to = "r/main"
users = 30
mode = "individual"
[nodes.u.actors.main.diagram]
start = { read = 1 }
states.read = { stay = { dist = "exponential", mean = "300ms" }, to = { load = 1 } }
states.load = { module = "page", to = { read = 1 } }
[nodes.u.actors.main.diagram.modules.page]
kind = "web"
main = { dist = "lognormal", mean = "10kB", cv = 2, max = "200kB", truncate = "clamp" }
embedded = { dist = "lognormal", mean = "5kB", cv = 2, max = "100kB", truncate = "clamp" }
objects = { dist = "uniform", low = 1, high = 6 }
[nodes.r.actors.main]
kind = "receiver"
workers = 64
[links.default]
delay = "2ms"
impose = "userspace"
"#;
    scratch.write("trial.toml", text);
    // seconds in which users arrive are counted too, which is told
    let run = |verb: &str| scratch.bundle(verb, "trial.toml", verb, &[], &[0, 20]);
    let (simulated, emulated) = (run("simulate"), run("emulate"));
    let both = |of: &dyn Fn(&Bundle) -> u64| (of(&simulated) as f64, of(&emulated) as f64);
    let (dry, real) = both(&|bundle| count(bundle, "flows"));
    // some 340 pages; what differs is where the end falls
    assert!(dry > 200.0 && (real / dry - 1.0).abs() < 0.06, "{dry} and {real} pages");
    let (dry, real) = both(&|bundle| bundle.total("bytes_replied"));
    assert!((real / dry - 1.0).abs() < 0.1, "{dry} and {real} B");
}
