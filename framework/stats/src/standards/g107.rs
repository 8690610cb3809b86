//! Speech quality by the E-model: ITU-T G.107 (06/2015), with its default values but for delay, codec and loss.
//!
//! R = 93.2 − Idd − Ie,eff, where 93.2 is what its defaults leave of the basic signal-to-noise ratio; Idd is the impairment by
//! absolute delay (clause 7.4), Ie,eff by codec and random loss (clause 7.5). Echo and talker volume stay at their defaults.

/// What the defaults leave of R without delay, codec and loss. Source: G.107 clause 7.7.
const R_DEFAULT: f64 = 93.2;

/// A codec's impairment and its robustness against loss. Source: G.113 (11/2007), appendix I.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Impairment {
    /// Equipment impairment factor Ie.
    pub ie: f64,
    /// Packet-loss robustness factor Bpl.
    pub bpl: f64,
}

impl Impairment {
    /// G.711 that hides losses by its appendix I.
    pub const G711: Impairment = Impairment { ie: 0.0, bpl: 25.1 };
    /// G.729 A with voice activity detection.
    pub const G729: Impairment = Impairment { ie: 11.0, bpl: 19.0 };
    /// G.723.1 at 6.3 kbit/s with voice activity detection.
    pub const G7231: Impairment = Impairment { ie: 15.0, bpl: 16.1 };
    /// GSM enhanced full rate, which AMR at 12.2 kbit/s is.
    pub const AMR122: Impairment = Impairment { ie: 5.0, bpl: 10.0 };
}

/// The transmission rating R for a one-way delay, mouth to ear, and a share of packets that are lost at random.
pub fn rating(impairment: Impairment, delay_ms: f64, loss: f64) -> f64 {
    let Impairment { ie, bpl } = impairment;
    let percent = loss * 100.0;
    let effective = ie + (95.0 - ie) * percent / (percent + bpl);
    R_DEFAULT - delay_impairment(delay_ms) - effective
}

/// Idd of an absolute delay Ta above 100 ms.
fn delay_impairment(delay_ms: f64) -> f64 {
    if delay_ms <= 100.0 {
        return 0.0;
    }
    let x = (delay_ms / 100.0).log2();
    let root = |x: f64| (1.0 + x.powi(6)).powf(1.0 / 6.0);
    25.0 * (root(x) - 3.0 * root(x / 3.0) + 2.0)
}

/// The mean opinion score that a rating stands for (conversational quality, estimated). Source: G.107 annex B.
pub fn opinion(rating: f64) -> f64 {
    match rating {
        r if r <= 0.0 => 1.0,
        r if r >= 100.0 => 4.5,
        r => (1.0 + 0.035 * r + r * (r - 60.0) * (100.0 - r) * 7e-6).max(1.0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_defaults_have_the_rating_of_the_recommendation() {
        let rating = rating(Impairment::G711, 0.0, 0.0);
        assert_eq!(rating, 93.2);
        // G.107 clause 7.7: R = 93.2 stands for a score of 4.41
        assert!((opinion(rating) - 4.41).abs() < 0.005, "{}", opinion(rating));
        assert_eq!([opinion(-5.0), opinion(120.0)], [1.0, 4.5]);
    }

    #[test]
    fn delay_and_loss_take_from_it() {
        // by hand at 400 ms: x = 2, 25 · (65^(1/6) − 3 · (1 + 64/729)^(1/6) + 2) = 24.07
        let late = 93.2 - rating(Impairment::G711, 400.0, 0.0);
        assert!((late - 24.07).abs() < 0.005, "{late}");
        assert_eq!(rating(Impairment::G711, 100.0, 0.0), 93.2);
        // G.729 with 2 % of loss: 11 + 84 · 2 / 21 = 19
        assert!((93.2 - rating(Impairment::G729, 50.0, 0.02) - 19.0).abs() < 1e-9);
        let falls = |d: f64| opinion(rating(Impairment::AMR122, d, 0.01));
        assert!(falls(100.0) > falls(200.0) && falls(200.0) > falls(400.0));
    }
}
