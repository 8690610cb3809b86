//! What cannot be is refused, with the state and the key at fault.

use rehearsal_core::units::Rate;

use super::*;

/// The only flaw of the calls after a change: its path and reason.
fn flaw(change: impl FnOnce(&mut Diagram)) -> (String, String) {
    let mut diagram = calls();
    change(&mut diagram);
    let flaws = diagram.flaws();
    let first = flaws.first().unwrap_or_else(|| panic!("it is fine: {diagram:?}"));
    assert!(Chain::new(&diagram).is_err(), "what has a flaw is no chain");
    (first.path.join("."), first.reason.clone())
}

fn state<'a>(diagram: &'a mut Diagram, name: &str) -> &'a mut State {
    diagram.states.get_mut(name).expect("a state")
}

#[test]
fn what_has_no_flaw_is_a_chain() {
    assert_eq!(calls().flaws(), []);
    assert!(Chain::new(&calls()).is_ok());
}

#[test]
fn states_that_are_never_reached_or_never_left_are_told() {
    let lonely = |diagram: &mut Diagram| {
        let stay = State { stay: Some(constant(Span::from_secs(1))), to: to(&[("idle", 1.0)]), ..State::default() };
        diagram.states.insert("lonely".to_owned(), stay);
    };
    assert_eq!(flaw(lonely), ("states.lonely".into(), "state `lonely` is never reached".into()));
    let (path, reason) = flaw(|d| state(d, "idle").to.clear());
    assert!(path == "states.idle" && reason.contains("`idle` is absorbing"), "{path}: {reason}");
    let (path, reason) = flaw(|d| state(d, "idle").to = to(&[("idle", 1.0)]));
    assert!(path == "states.idle.to" && reason.contains("leads to itself alone"), "{path}: {reason}");
    let twice = |diagram: &mut Diagram| {
        for (name, other) in [("a", "b"), ("b", "a")] {
            let stay = State { stay: Some(constant(Span::from_secs(1))), to: to(&[(other, 1.0)]), ..State::default() };
            diagram.states.insert(name.to_owned(), stay);
        }
    };
    let (path, reason) = flaw(twice);
    assert!(path == "states" && reason.contains("never come to `call`, `idle`"), "{path}: {reason}");
}

#[test]
fn probabilities_and_rates_are_checked() {
    let (path, reason) = flaw(|d| state(d, "idle").to = to(&[("call", 0.7), ("idle", 0.4)]));
    assert_eq!((path.as_str(), reason.as_str()), ("states.idle.to", "`to` of state `idle` add up to 1.1, not to 1"));
    let (path, reason) = flaw(|d| state(d, "idle").to = to(&[("call", -0.5), ("idle", 1.5)]));
    assert!(path == "states.idle.to" && reason.contains("hold -0.5, which is no probability"), "{path}: {reason}");
    let (path, reason) = flaw(|d| state(d, "idle").to = to(&[("cal", 1.0)]));
    assert_eq!((path.as_str(), reason.as_str()), ("states.idle.to.cal", "state `idle`: there is no state `cal`"));
    let rates = |d: &mut Diagram| {
        let idle = state(d, "idle");
        (idle.stay, idle.to) = (None, BTreeMap::new());
        idle.rates.insert("idle".to_owned(), Rate::per_second(1));
    };
    assert!(flaw(rates).1.contains("a rate to itself changes nothing"));
    let (path, _) = flaw(|d| state(d, "idle").stay = Some(law(rehearsal_core::distribution::Name::Gamma, |_| {})));
    assert_eq!(path, "states.idle.stay");
    let (path, reason) = flaw(|d| {
        let idle = state(d, "idle");
        idle.stay = None;
        idle.hyper = vec![Branch { share: 0.5, mean: Span::from_secs(1) }];
    });
    assert!(path == "states.idle.hyper" && reason.contains("add up to 0.5"), "{path}: {reason}");
}

#[test]
fn modules_are_checked() {
    let (path, reason) = flaw(|d| state(d, "call").module = Some("video".into()));
    assert!(path == "states.call.module" && reason.contains("there is no module `video`; the modules are: `voice`"));
    fn voice(d: &mut Diagram) -> &mut Module {
        d.modules.get_mut("voice").expect("a module")
    }
    let (path, reason) = flaw(|d| voice(d).every = None);
    assert!(path == "modules.voice.kind" && reason.contains("`cbr` needs `every`"), "{path}: {reason}");
    let (path, reason) = flaw(|d| voice(d).gop = Some("IPB".into()));
    assert!(path == "modules.voice.gop" && reason.contains("`cbr` has no `gop`"), "{path}: {reason}");
    let (path, reason) = flaw(|d| voice(d).count = Some(3));
    assert!(path == "modules.voice.count" && reason.contains("exclude each other"), "{path}: {reason}");
    let (path, reason) = flaw(|d| voice(d).talk = Some(constant(Span::from_secs(1))));
    assert!(path == "modules.voice.talk" && reason.contains("go together"), "{path}: {reason}");
    let (path, reason) = flaw(|d| {
        let spare = voice(d).clone();
        d.modules.insert("spare".into(), spare);
    });
    assert_eq!((path.as_str(), reason.as_str()), ("modules.spare", "no state uses module `spare`"));
}

#[test]
fn conditions_and_starts_are_checked() {
    let when = |state: &str, below| Condition { state: state.into(), at_least: None, below };
    let (path, reason) = flaw(|d| drop(state(d, "idle").when.insert("call".into(), when("cal", Some(3)))));
    assert!(path == "states.idle.when.call" && reason.contains("no state `cal`"), "{path}: {reason}");
    let (_, reason) = flaw(|d| drop(state(d, "idle").when.insert("call".into(), when("call", None))));
    assert!(reason.contains("needs `at_least` or `below`"), "{reason}");
    let (_, reason) = flaw(|d| drop(state(d, "call").when.insert("idle".into(), when("call", Some(1)))));
    assert!(reason.contains("cannot wait for a condition"), "{reason}");
    let (path, _) = flaw(|d| d.start = to(&[("idle", 0.5)]));
    assert_eq!(path, "start");
    let (path, _) = flaw(|d| d.start = to(&[("nowhere", 1.0)]));
    assert_eq!(path, "start.nowhere");
    let (_, reason) = flaw(|d| state(d, "idle").impatience = Some(constant(Span::from_secs(1))));
    assert!(reason.contains("only a state with a `module` or a `step` has `impatience`"), "{reason}");
}
