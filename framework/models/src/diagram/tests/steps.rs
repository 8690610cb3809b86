//! Steps: how they are walked and drawn, and who may not come to one.

use rehearsal_core::script::StepSpec;

use super::*;

/// Users rest, log in for a token, and call with it.
fn shop() -> Diagram {
    let text = r#"{
        "start": { "rest": 1 },
        "states": {
            "rest": { "stay": { "dist": "constant", "value": "1s" }, "to": { "login": 1 } },
            "login": { "step": { "body": "by {user}", "extract": { "token": { "json": "/token", "bytes": 20 } } },
                "to": { "call": 1 }, "failed": { "rest": 1 } },
            "call": { "step": { "path": "/x", "body": "{token}", "answer": "1kB" }, "to": { "rest": 1 } }
        }
    }"#;
    serde_json::from_str(text).expect("a diagram")
}

#[test]
fn a_step_is_a_request_with_an_answer() {
    let chain = Arc::new(Chain::new(&shop()).expect("a chain"));
    assert_eq!(
        chain.modules.iter().map(|m| (m.name.as_str(), m.step)).collect::<Vec<_>>(),
        [("call", Some(0)), ("login", Some(1))]
    );
    let trial = Trial::run(&chain, 3, Span::from_millis(10_500), rng("shop", 0));
    // a second of rest, then two requests that take no time; 1 kB comes back from one
    assert_eq!((trial.flows.done, trial.packets, trial.bytes), (60, 60, 30_000));
    let long = chain.stationary().expect("a long run");
    assert!((long.total().packets - 2.0).abs() < 1e-9 && (long.total().bytes - 1000.0).abs() < 1e-6, "{long:?}");
    assert_eq!(chain.modules[0].module.request_bytes(), 20, "a token as long as it says");
    assert!(shop().dot().contains("POST /x") && shop().svg().contains("POST /"));
}

#[test]
fn nobody_comes_to_a_step_without_what_it_uses() {
    let flaw = |change: &dyn Fn(&mut Diagram)| {
        let mut diagram = shop();
        change(&mut diagram);
        diagram.flaws().into_iter().next().map(|flaw| (flaw.path.join("."), flaw.reason)).unwrap_or_default()
    };
    fn state<'d>(diagram: &'d mut Diagram, name: &str) -> &'d mut State {
        diagram.states.get_mut(name).expect("a state")
    }
    fn step<'d>(diagram: &'d mut Diagram, name: &str) -> &'d mut StepSpec {
        state(diagram, name).step.as_mut().expect("a step")
    }
    assert_eq!(flaw(&|_| {}), Default::default());
    let (path, reason) = flaw(&|d| state(d, "login").failed.clear());
    assert!(path == "states.call.step" && reason.contains("from `login` without it, after a failure"), "{reason}");
    let (_, reason) = flaw(&|d| d.start = to(&[("call", 1.0)]));
    assert!(reason.contains("may begin there"), "{reason}");
    let (_, reason) = flaw(&|d| state(d, "rest").to = to(&[("login", 0.5), ("call", 0.5)]));
    assert!(reason.contains("from `rest` without it"), "{reason}");
    let (_, reason) = flaw(&|d| {
        let patience = constant(Span::from_secs(1));
        state(d, "login").impatience = Some(patience);
    });
    assert!(reason.contains("from `login` without it"), "who gives up has none: {reason}");
    let (path, reason) = flaw(&|d| step(d, "call").path = Some("/{tokn}".to_owned()));
    assert!(path == "states.call.step" && reason.contains("what `{tokn}` is (`{token}`)"), "{reason}");
    let (path, reason) = flaw(&|d| step(d, "call").path = Some("x".to_owned()));
    assert!(path == "states.call.step.path" && reason.contains("does not begin"), "{path}: {reason}");
    let (path, _) = flaw(&|d| state(d, "call").module = Some("m".to_owned()));
    assert_eq!(path, "states.call.step");
    assert_eq!(shop().first_use(), Some(("call", "token")));
}
