//! Keys that go together, and what is known of arrivals before a run.

use super::*;

fn read(text: &str) -> Result<Course, String> {
    let arrivals: Arrivals = serde_json::from_str(text).expect("it is read");
    arrivals.course()
}

fn near(value: f64, expected: f64) {
    assert!((value - expected).abs() < 1e-6 * expected.abs().max(1e-9), "{value} and not {expected}");
}

const ON_OFF: &str = r#"{"process":"on-off","gaps":{"dist":"constant","value":"10ms"},
    "on":{"dist":"exponential","mean":"1s"},"off":{"dist":"constant","value":"3s"}}"#;
const MMPP: &str = r#"{"process":"mmpp","states":{"busy":{"rate":"200/s","to":{"idle":"2/s"}},
    "idle":{"rate":"10/s","to":{"busy":"1/2s"}}}}"#;
const STAGES: &str = r#"{"process":"stages","stages":[{"duration":"10s","target":"100/s"},
    {"duration":"10s","target":"100/s"},{"duration":"10s"}]}"#;

#[test]
fn the_mean_the_peak_and_the_dispersion_are_known_before() {
    let poisson = read(r#"{"process":"poisson","rate":"100/s"}"#).expect("a course");
    near(poisson.per_second(), 100.0);
    assert_eq!((poisson.rate(), poisson.dispersion()), (Some(Rate::per_second(100)), Some(1.0)));
    let gamma = read(r#"{"process":"renewal","gaps":{"dist":"gamma","mean":"10ms","cv":2}}"#).expect("a course");
    near(gamma.dispersion().expect("known"), 4.0);
    assert_eq!(gamma.words(), "random gaps, mean 100/s each, CV 2");
    let on_off = read(ON_OFF).expect("a course");
    near(on_off.per_second(), 25.0);
    near(on_off.peak_per_second().expect("a peak"), 100.0);
    assert_eq!(on_off.words(), "on/off, mean 25/s each, peak 100/s (4 times the mean)");
    // busy a fifth of the time: 0.2 · 200 + 0.8 · 10; 1 + 2 · 190² · 1 / (2.5² · (200 · 0.5 + 10 · 2))
    let mmpp = read(MMPP).expect("a course");
    near(mmpp.per_second(), 48.0);
    near(mmpp.dispersion().expect("two states"), 1.0 + 72_200.0 / 750.0);
}

#[test]
fn three_states_have_the_shares_of_a_birth_and_death_chain() {
    // up at 1 and 1, down at 2 and 4: shares 1 : 1/2 : 1/8
    let text = r#"{"process":"mmpp","states":{"a":{"to":{"b":"1/s"}},"b":{"to":{"a":"2/s","c":"1/s"}},
        "c":{"rate":"130/s","to":{"b":"4/s"}}}}"#;
    let course = read(text).expect("a course");
    let Course::Modulated(chain) = &course else { panic!("{course:?}") };
    for (share, expected) in chain.shares.iter().zip([8.0 / 13.0, 4.0 / 13.0, 1.0 / 13.0]) {
        near(*share, expected);
    }
    near(course.per_second(), 10.0);
    assert_eq!(course.dispersion(), None);
}

#[test]
fn stages_and_traces_add_up() {
    let stages = read(STAGES).expect("a course");
    near(stages.ends_after().expect("it ends"), 2000.0);
    near(stages.per_second(), 2000.0 / 30.0);
    for (seconds, expected) in [(5, 125.0), (10, 500.0), (15, 1000.0), (25, 1875.0), (60, 2000.0)] {
        near(stages.expected(Span::from_secs(seconds)), expected);
    }
    let trace = r#"{"process":"trace","rows":"times","trace":["1s","1s","4s"],"repeat":true}"#;
    let trace = read(trace).expect("a course");
    assert_eq!(trace, Course::Trace { gaps: vec![1_000_000_000, 0, 3_000_000_000], repeat: true });
    near(trace.per_second(), 0.75);
    near(trace.expected(Span::from_secs(10)), 8.0);
}

#[test]
fn what_does_not_go_together_is_told_with_what_to_write() {
    let cases = [
        (r#"{"process":"poisson"}"#, "`poisson` needs `rate`"),
        (r#"{"process":"poisson","rate":"1/s","repeat":true}"#, "`poisson` has no `repeat`; it takes `rate`"),
        (r#"{"process":"renewal","gaps":{"dist":"gamma"}}"#, "`gaps`: `gamma` takes"),
        (r#"{"process":"renewal","gaps":{"dist":"constant","value":"10ns"}}"#, "at least 1us is possible"),
        (r#"{"process":"mmpp","states":{"a":{"rate":"1/s","to":{}}}}"#, "2 to 16 states"),
        (r#"{"process":"mmpp","states":{"a":{"rate":"1/s","to":{"b":"1/s"}},"b":{"to":{}}}}"#, "from state `b` to `a`"),
        (r#"{"process":"mmpp","states":{"a":{"to":{"c":"1/s"}},"b":{"to":{}}}}"#, "no other state"),
        (r#"{"process":"mmpp","states":{"a":{"to":{"b":"1/s"}},"b":{"to":{"a":"1/s"}}}}"#, "no state has a `rate`"),
        (r#"{"process":"stages","stages":[{"duration":"10s"}]}"#, "no exchange"),
        (r#"{"process":"trace","rows":"times","trace":["2s","1s"]}"#, "row 2: 1s comes before 2s"),
        (r#"{"process":"trace","rows":"gaps","trace":["0s"]}"#, "take no time"),
        (r#"{"process":"trace","rows":"gaps"}"#, "no row"),
    ];
    for (text, why) in cases {
        let told = read(text).expect_err(text);
        assert!(told.contains(why), "{text}: {told}");
    }
}
