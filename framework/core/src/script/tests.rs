//! Steps: what is written, what is taken, whose it is, and what cannot be.

use serde_json::json;

use super::*;

fn spec(value: serde_json::Value) -> StepSpec {
    serde_json::from_value(value).expect("a step")
}

const USERS: &[u8] = b"name,password\nada,\"a\"\"b, c\"\nbob,x\r\n\neve,z";

fn script(specs: &[(&str, StepSpec)], users: u32) -> Script {
    let all: Vec<(&str, &StepSpec)> = specs.iter().map(|(name, spec)| (*name, spec)).collect();
    Script::new(&all, users, &mut |_| Ok(Bytes::from_static(USERS))).expect("a script")
}

fn shop() -> [(&'static str, StepSpec); 2] {
    let login = json!({
        "path": "/login", "body": "{\"user\":\"{name}\",\"password\":\"{password}\"}", "rows": "users.csv",
        "extract": { "token": { "json": "/auth/token", "bytes": 4 }, "place": { "header": "X-Place" } },
    });
    let cart = json!({
        "path": "/carts/{place}?n={seq}", "headers": { "authorization": "Bearer {token}" },
        "expect": { "body_contains": "of {user}" },
    });
    [("login", spec(login)), ("cart", spec(cart))]
}

fn turn(user: u32, step: u16, count: u32) -> Turn {
    Turn { member: 0, user, step, count }
}

fn body(script: &Script, turn: Turn) -> String {
    let mut out = BytesMut::new();
    script.body(turn, 0, &mut out);
    String::from_utf8(out.to_vec()).expect("text")
}

fn hear(script: &Script, turn: Turn, place: &str, text: &str) -> bool {
    let header = |name: &str| (name == "x-place").then_some(place.as_bytes());
    script.hear(turn, &header, text.as_bytes())
}

#[test]
fn users_have_rows_and_what_was_answered_to_them() {
    let script = script(&shop(), 3);
    for (user, name) in [(0, "ada"), (1, "bob"), (2, "eve")] {
        let first = turn(user, 0, 0);
        assert_eq!(script.begin(first) as usize, body(&script, first).len());
        assert!(body(&script, first).contains(&format!("\"user\":\"{name}\"")), "{}", body(&script, first));
        let answer = format!(r#"{{"auth":{{"token":"t-{name}"}}}}"#);
        assert!(hear(&script, first, &format!("{name}/1"), &answer));
    }
    assert_eq!(body(&script, turn(0, 0, 0)), r#"{"user":"ada","password":"a\"b, c"}"#);
    let cart = script.write(turn(1, 1, 7), 0);
    assert_eq!(cart.path, b"/carts/bob%2F1?n=7");
    assert_eq!(cart.headers, [b"Bearer t-bob".to_vec()]);
    assert_eq!(cart.contains.as_deref(), Some(&b"of 2"[..]));
}

#[test]
fn what_is_not_known_has_its_usual_length() {
    let script = script(&shop(), 3);
    let cart = script.write(turn(0, 1, 0), 0);
    assert_eq!(cart.headers, [b"Bearer xxxx".to_vec()]);
    assert_eq!(script.step(0).usual_body_bytes() as usize, body(&script, turn(0, 0, 0)).len());
}

#[test]
fn an_answer_that_lacks_something_or_is_late_changes_nothing() {
    let script = script(&shop(), 3);
    let (first, second) = (turn(0, 0, 0), turn(0, 0, 1));
    script.begin(first);
    assert!(!hear(&script, first, "x", "{}") && !hear(&script, first, "x", "no JSON"));
    assert!(!script.hear(first, &|_| None, br#"{"auth":{"token":"t"}}"#), "the header is not there");
    script.begin(second);
    assert!(hear(&script, first, "x", r#"{"auth":{"token":"old"}}"#), "it has all, and is too late");
    assert_eq!(script.write(turn(0, 1, 0), 0).headers, [b"Bearer xxxx".to_vec()]);
    assert!(hear(&script, second, "x", r#"{"auth":{"token":7}}"#));
    assert_eq!(script.write(turn(0, 1, 0), 0).headers, [b"Bearer 7".to_vec()]);
}

#[test]
fn rows_are_the_users_own_or_go_on() {
    let rows = |take| spec(json!({ "path": "/{name}", "rows": "users.csv", "take": take }));
    let script = script(&[("a", rows("user")), ("b", rows("next"))], 2);
    let path = |user, step, count| String::from_utf8(script.write(turn(user, step, count), 0).path).expect("text");
    assert_eq!([0, 1, 2].map(|count| path(1, 0, count)), ["/bob"; 3]);
    // two users, three rows: 0 and 1, then 2 and 0, then 1 and 2
    assert_eq!([path(0, 1, 0), path(1, 1, 0), path(0, 1, 1), path(1, 1, 1)], ["/ada", "/bob", "/eve", "/ada"]);
}

#[test]
fn values_are_written_so_that_they_do_no_harm() {
    let all = spec(json!({
        "path": "/{v}", "headers": { "x": "{v}" }, "body": "[\"{v}\"]", "extract": { "v": { "regex": "<([^>]*)>" } },
    }));
    let script = script(&[("a", all)], 1);
    script.begin(turn(0, 0, 0));
    assert!(script.hear(turn(0, 0, 0), &|_| None, b"before <a\"\r\n/> behind"));
    let written = script.write(turn(0, 0, 1), 0);
    assert_eq!(written.path, b"/a%22%0D%0A%2F");
    assert_eq!(written.headers, [b"a\"  /".to_vec()]);
    assert_eq!(body(&script, turn(0, 0, 1)), r#"["a\"\u000D\u000A/"]"#);
    let long = format!("<{}>", "y".repeat(VALUE_BYTES_MAX + 1));
    script.begin(turn(0, 0, 2));
    assert!(!script.hear(turn(0, 0, 2), &|_| None, long.as_bytes()), "a value has a bound");
}

#[test]
fn every_request_has_a_uuid_of_its_own() {
    let one = || spec(json!({ "path": "/{uuid}" }));
    let script = script(&[("a", one()), ("b", one())], 2);
    let mut seen = std::collections::BTreeSet::new();
    for (user, step, count) in (0..2).flat_map(|u| (0..2).flat_map(move |s| (0..50).map(move |c| (u, s, c)))) {
        assert!(seen.insert(script.write(turn(user, step, count), 0).path), "{user}, {step}, {count}");
    }
    assert_eq!(Turn::of(3, 1, Turn { member: 3, user: 9, step: 1, count: 4 }.number()).user, 9);
}

#[test]
fn rows_of_a_file_are_checked_with_their_line() {
    for (text, why) in [
        ("", "no first row"),
        ("a,b\n", "no row behind"),
        ("a,a\n1,2", "two columns"),
        ("1a\nx", "`1a` names no column"),
        ("a,b\n1,2\n3", "line 3: it has 1 fields, and the first row names 2"),
        ("a\n\"x\ny\"\n\"z", "line 4: a quote is not closed"),
        ("a\n\"x\"y", "line 2: a field in quotes"),
    ] {
        let told = Rows::read(text.as_bytes()).expect_err(text);
        assert!(told.contains(why), "{text:?}: {told}");
    }
    let rows = Rows::read("\u{FEFF}a,b\r\n\"1\n2\",\r\n".as_bytes()).expect("rows");
    assert_eq!((rows.len(), &*rows.row(5)[0], &*rows.row(0)[1]), (1, "1\n2", ""));
}

#[test]
fn what_cannot_be_is_told_with_its_key() {
    for (value, key, why) in [
        (json!({ "method": "G T" }), "method", "is no method"),
        (json!({ "method": "HEAD" }), "method", "no answer to look at"),
        (json!({ "path": "x" }), "path", "does not begin"),
        (json!({ "path": "/a b" }), "path", "%20"),
        (json!({ "headers": { "Host": "x" } }), "headers", "follows from the rest"),
        (json!({ "headers": { "x": "a\nb" } }), "headers", "control character"),
        (json!({ "take": "next" }), "take", "which row of `rows`"),
        (json!({ "extract": { "user": { "json": "/a" } } }), "extract", "another word"),
        (json!({ "extract": { "t": {} } }), "extract", "by one of `json`, `header` and `regex`"),
        (json!({ "extract": { "t": { "json": "token" } } }), "extract", "begins with `/`"),
        (json!({ "extract": { "t": { "regex": "(" } } }), "extract", "no regular expression"),
        (json!({ "expect": { "status": [42] } }), "expect", "no status"),
        (json!({ "answer": "0B" }), "answer", "1B to"),
    ] {
        let faults = spec(value.clone()).faults();
        assert!(faults.iter().any(|(at, told)| *at == key && told.contains(why)), "{value}: {faults:?}");
    }
    let unknown = spec(json!({ "path": "/{id}" }));
    let told = Script::new(&[("a", &unknown)], 1, &mut |_| Ok(Bytes::new())).expect_err("nobody knows it");
    assert!(told.reason.contains("state `a`: nothing tells what `{id}` is"), "{}", told.reason);
}
