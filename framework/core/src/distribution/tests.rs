//! Parameters that go together, and moments against closed forms.

use super::*;

fn read(text: &str) -> Result<Law, String> {
    let distribution: Distribution<Span> = serde_json::from_str(text).expect("it is read");
    distribution.law()
}

fn near(law: &Law, mean_ms: f64, sd_ms: f64) {
    let Moments { mean, sd } = law.moments();
    assert!((mean / 1e6 / mean_ms - 1.0).abs() < 1e-4, "{law:?}: mean {mean} and not {mean_ms} ms");
    assert!((sd / 1e6 - sd_ms).abs() < 1e-3 * mean_ms, "{law:?}: deviation {sd} and not {sd_ms} ms");
}

#[test]
fn moments_are_those_of_the_closed_forms() {
    let cases = [
        (r#"{"dist":"constant","value":"10ms"}"#, 10.0, 0.0),
        (r#"{"dist":"uniform","low":"5ms","high":"15ms"}"#, 10.0, 2.886_751),
        (r#"{"dist":"exponential","mean":"10ms"}"#, 10.0, 10.0),
        (r#"{"dist":"gamma","mean":"10ms","cv":2}"#, 10.0, 20.0),
        (r#"{"dist":"gamma","shape":4,"scale":"2500us"}"#, 10.0, 5.0),
        // Γ(3) = 2 and Γ(5) = 24
        (r#"{"dist":"weibull","shape":0.5,"scale":"5ms"}"#, 10.0, 22.360_68),
        (r#"{"dist":"weibull","shape":0.5,"mean":"10ms"}"#, 10.0, 22.360_68),
        (r#"{"dist":"pareto","shape":3,"scale":"10ms"}"#, 15.0, 8.660_254),
        (r#"{"dist":"lognormal","mean":"10ms","cv":1.5}"#, 10.0, 15.0),
        // α / (α + β) = 3 / 7, variance 12 / (49 · 8)
        (r#"{"dist":"beta","low":"0s","high":"10s","alpha":3,"beta":4}"#, 4285.714, 1749.636),
    ];
    for (text, mean, sd) in cases {
        near(&read(text).expect(text), mean, sd);
    }
    let heavy = read(r#"{"dist":"pareto","shape":1.5,"mean":"30ms"}"#).expect("it has a mean");
    assert!((heavy.moments().mean - 30e6).abs() < 1.0 && heavy.moments().sd.is_infinite());
}

#[test]
fn truncated_moments_are_those_of_the_closed_forms() {
    let cases = [
        // half normal on both sides of its mean: rejection at 0 and 20 ms, φ(1) and Φ(1): variance 1 − 2 φ(1) / (2 Φ(1) − 1)
        (r#"{"dist":"normal","mean":"10ms","sd":"10ms","max":"20ms","truncate":"reject"}"#, 10.0, 5.396_2),
        // clamped at zero: σ φ(1) + μ Φ(1) = 10.833 ms; E X² = (μ² + σ²) Φ(1) + μ σ φ(1) = 192.47 ms²
        (r#"{"dist":"normal","mean":"10ms","cv":1,"truncate":"clamp"}"#, 10.833_15, 8.666_5),
        // exponential above 10 ms, moved to 10 ms: 10 + 10 / e; drawn again: 10 + 10
        (r#"{"dist":"exponential","mean":"10ms","min":"10ms","truncate":"clamp"}"#, 13.678_794, 7.748_7),
        (r#"{"dist":"exponential","mean":"10ms","min":"10ms","truncate":"reject"}"#, 20.0, 10.0),
        // Pareto of shape 1 clamped at 100 times its scale: 1 + ln 100; E X² = 1 + 2 · 99
        (r#"{"dist":"pareto","shape":1,"scale":"1ms","max":"100ms","truncate":"clamp"}"#, 5.605_170, 12.945_7),
        // drawn again: 100 / 99 · ln 100; E X² = 100
        (r#"{"dist":"pareto","shape":1,"scale":"1ms","max":"100ms","truncate":"reject"}"#, 4.651_687, 8.852_3),
        // Cauchy within one scale of its median is symmetric; E (x − m)² = s² (4 / π − 1)
        (
            r#"{"dist":"cauchy","median":"10ms","scale":"5ms","min":"5ms","max":"15ms","truncate":"reject"}"#,
            10.0,
            2.613_6,
        ),
        // a truncation that cuts next to nothing: 55 + γ · 6, π / √6 · 6
        (r#"{"dist":"gumbel","mode":"55ms","scale":"6ms","truncate":"clamp"}"#, 58.463_3, 7.695_3),
        (r#"{"dist":"gumbel","mean":"55ms","sd":"6ms","truncate":"clamp"}"#, 55.0, 6.0),
        // a truncation that cuts nothing changes nothing: gamma, lognormal, Weibull by their survival functions
        (r#"{"dist":"gamma","mean":"10ms","cv":2,"max":"24h","truncate":"clamp"}"#, 10.0, 20.0),
        (r#"{"dist":"gamma","shape":4,"scale":"2500us","max":"10s","truncate":"reject"}"#, 10.0, 5.0),
        (r#"{"dist":"lognormal","mean":"10ms","cv":1.5,"min":"1ns","truncate":"clamp"}"#, 10.0, 15.0),
        (r#"{"dist":"weibull","shape":0.5,"mean":"10ms","max":"1h","truncate":"clamp"}"#, 10.0, 22.360_68),
    ];
    for (text, mean, sd) in cases {
        near(&read(text).expect(text), mean, sd);
    }
}

#[test]
fn what_does_not_go_together_is_told_with_what_to_write() {
    let cases = [
        (r#"{"dist":"gamma","mean":"10ms"}"#, "`gamma` takes `mean` and `cv`, or `scale` and `shape`; this has `mean`"),
        (r#"{"dist":"exponential"}"#, "this has none of them"),
        (r#"{"dist":"exponential","mean":"1s","cv":2}"#, "takes `mean`; this has `mean` and `cv`"),
        (r#"{"dist":"uniform","low":"2s","high":"1s"}"#, "`low` must be below `high`"),
        (r#"{"dist":"normal","mean":"10ms","cv":0.1}"#, "below zero: say `truncate"),
        (r#"{"dist":"cauchy","median":"10ms","scale":"1ms","truncate":"clamp"}"#, "give a `max`"),
        (r#"{"dist":"pareto","shape":1,"scale":"10ms"}"#, "give a `max`"),
        (r#"{"dist":"pareto","shape":1,"mean":"10ms"}"#, "has no mean"),
        (r#"{"dist":"gamma","mean":"10ms","cv":1,"max":"1s"}"#, "say `truncate"),
        (r#"{"dist":"gamma","mean":"10ms","cv":1,"truncate":"clamp"}"#, "means nothing without"),
        (r#"{"dist":"gamma","mean":"10ms","cv":1,"min":"2s","max":"1s","truncate":"clamp"}"#, "`min` must be below"),
        (r#"{"dist":"exponential","mean":"1ms","min":"10ms","truncate":"reject"}"#, "rejection needs 10 %"),
        (r#"{"dist":"constant","value":"1s","max":"2s"}"#, "bounds of its own"),
        (r#"{"dist":"constant","value":"0s"}"#, "above zero"),
        (r#"{"dist":"gumbel","mode":"1s","scale":"1s"}"#, "below zero: say `truncate"),
        (r#"{"dist":"beta","low":"1s","high":"1s","alpha":1,"beta":1}"#, "`low` must be below"),
        (r#"{"dist":"beta","low":"0s","high":"1s","alpha":0.001,"beta":1}"#, "`alpha` and `beta`"),
    ];
    for (text, why) in cases {
        let told = read(text).expect_err(text);
        assert!(told.contains(why), "{text}: {told}");
    }
}

#[test]
fn special_functions_have_their_known_values() {
    // Γ(½) = √π, Γ(5) = 24
    assert!((special::ln_gamma(0.5) - std::f64::consts::PI.ln() / 2.0).abs() < 1e-12);
    assert!((special::ln_gamma(5.0) - 24_f64.ln()).abs() < 1e-12);
    // Q(1, x) = e^−x on both sides of the change of method; P(Z > 1.96) = 0.0249979
    for x in [0.1, 1.9, 2.1, 30.0] {
        assert!((special::gamma_q(1.0, x) / (-x).exp() - 1.0).abs() < 1e-11, "{x}");
    }
    // I_x(1, 1) = x; I_x(3, 4) = x³ (20 − 45 x + 36 x² − 10 x³), on both sides of the change of method
    for x in [0.1_f64, 0.4, 0.6, 0.9] {
        assert!((special::beta_i(1.0, 1.0, x) - x).abs() < 1e-12, "{x}");
        let polynomial = x.powi(3) * (20.0 - 45.0 * x + 36.0 * x * x - 10.0 * x.powi(3));
        assert!((special::beta_i(3.0, 4.0, x) - polynomial).abs() < 1e-12, "{x}");
    }
    assert!((special::normal_survival(1.96) - 0.024_997_895).abs() < 1e-8);
    assert!((special::normal_survival(-1.0) - 0.841_344_746).abs() < 1e-8);
}
