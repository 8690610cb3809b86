//! ITU-T Y.1541: which classes of network quality of service a measured transfer meets.
//!
//! The objectives are upper bounds of a whole path, network interface to network interface. Class 5 has none, so it is
//! always met; classes 6 and 7 are provisional, and their IPDV is of the 1 − 10⁻⁵ quantile. IPER is not judged: a broken packet never reaches an application.

use serde::Serialize;

use super::Held;
use super::y1540::Transfer;

/// Packets without a single loss of which, at 95 % confidence, a loss ratio of 1 / n can be claimed: 3 n (rule of three).
const RULE_OF_THREE: f64 = 3.0;

/// The objectives of one class; `None` where it has none.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Class {
    /// Its number.
    pub number: u8,
    /// Upper bound of the mean delay, ns.
    pub iptd_ns_max: Option<f64>,
    /// Upper bound of delay variation, ns.
    pub ipdv_ns_max: Option<f64>,
    /// Whether that is of the 1 − 10⁻⁵ quantile of delay rather than of the 1 − 10⁻³ quantile.
    pub ipdv_strict: bool,
    /// Upper bound of the loss ratio.
    pub iplr_max: Option<f64>,
}

const fn class(number: u8, iptd_ms: f64, ipdv_ms: Option<f64>, iplr: f64) -> Class {
    let ipdv_ns_max = match ipdv_ms {
        Some(ms) => Some(ms * 1e6),
        None => None,
    };
    // Source: Y.1541, table 3 against table 1
    let ipdv_strict = number >= 6;
    Class { number, iptd_ns_max: Some(iptd_ms * 1e6), ipdv_ns_max, ipdv_strict, iplr_max: Some(iplr) }
}

/// All classes. Source: Y.1541 (12/2011), tables 1 and 3.
pub const CLASSES: [Class; 8] = [
    class(0, 100.0, Some(50.0), 1e-3),
    class(1, 400.0, Some(50.0), 1e-3),
    class(2, 100.0, None, 1e-3),
    class(3, 400.0, None, 1e-3),
    class(4, 1000.0, None, 1e-3),
    Class { number: 5, iptd_ns_max: None, ipdv_ns_max: None, ipdv_strict: false, iplr_max: None },
    class(6, 100.0, Some(50.0), 1e-5),
    class(7, 400.0, Some(50.0), 1e-5),
];

/// Whether a transfer meets a class.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ClassCheck {
    /// The class.
    pub class: Class,
    /// The worst of its objectives: one that does not hold outranks one that cannot be told.
    pub held: Held,
    /// The objectives that do not hold or cannot be told, such as `IPLR`.
    pub why: Vec<&'static str>,
}

/// Holds a transfer against every class. That few packets are lost can be told only from enough of them: without any
/// loss from 3 / IPLR.
pub fn check(transfer: &Transfer) -> Vec<ClassCheck> {
    CLASSES.iter().map(|class| against(*class, transfer)).collect()
}

fn against(class: Class, transfer: &Transfer) -> ClassCheck {
    let ipdv = if class.ipdv_strict { transfer.ipdv_strict_ns() } else { transfer.ipdv_ns() };
    let objectives = [
        ("IPTD", class.iptd_ns_max.map(|max| below(transfer.iptd_mean_ns, max))),
        ("IPDV", class.ipdv_ns_max.map(|max| below(ipdv, max))),
        ("IPLR", class.iplr_max.map(|max| loss(transfer, max))),
    ];
    let failing: Vec<(&str, Held)> = objectives
        .into_iter()
        .filter_map(|(name, held)| held.filter(|h| *h != Held::Holds).map(|h| (name, h)))
        .collect();
    let held = if failing.iter().any(|(_, held)| *held == Held::DoesNot) {
        Held::DoesNot
    } else if failing.is_empty() {
        Held::Holds
    } else {
        Held::CannotBeTold
    };
    ClassCheck { class, held, why: failing.into_iter().map(|(name, _)| name).collect() }
}

fn below(found: Option<f64>, max: f64) -> Held {
    match found {
        Some(value) if value <= max => Held::Holds,
        Some(_) => Held::DoesNot,
        None => Held::CannotBeTold,
    }
}

fn loss(transfer: &Transfer, max: f64) -> Held {
    if transfer.iplr() > max {
        Held::DoesNot
    } else if (transfer.transmitted as f64) < RULE_OF_THREE / max {
        Held::CannotBeTold
    } else {
        Held::Holds
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn transfer(transmitted: u64, lost: u64, mean_ms: f64, upper_ms: f64) -> Transfer {
        Transfer {
            transmitted,
            lost,
            iptd_mean_ns: Some(mean_ms * 1e6),
            iptd_min_ns: Some(5e6),
            iptd_upper_ns: Some(upper_ms * 1e6),
            iptd_strict_upper_ns: Some(upper_ms * 1e6),
        }
    }

    fn met(transfer: &Transfer) -> Vec<u8> {
        check(transfer).into_iter().filter(|c| c.held == Held::Holds).map(|c| c.class.number).collect()
    }

    #[test]
    fn classes_by_hand() {
        // 20 ms, variation 35 ms, no loss in a million: all classes
        assert_eq!(met(&transfer(1_000_000, 0, 20.0, 40.0)), [0, 1, 2, 3, 4, 5, 6, 7]);
        // 1 in 2,000 lost: not 6 and 7
        assert_eq!(met(&transfer(1_000_000, 500, 20.0, 40.0)), [0, 1, 2, 3, 4, 5]);
        // 150 ms: not the classes of 100 ms
        assert_eq!(met(&transfer(1_000_000, 500, 150.0, 40.0)), [1, 3, 4, 5]);
        // variation 55 ms: only those without an objective for it
        assert_eq!(met(&transfer(1_000_000, 500, 150.0, 60.0)), [3, 4, 5]);
        // the bounds themselves are met
        assert_eq!(met(&transfer(1_000_000, 1000, 100.0, 55.0)), [0, 1, 2, 3, 4, 5]);
    }

    #[test]
    fn few_packets_prove_no_small_loss() {
        let few = check(&transfer(2_999, 0, 20.0, 40.0));
        assert_eq!((few[0].held, few[0].why.as_slice()), (Held::CannotBeTold, &["IPLR"][..]));
        assert_eq!(few[5].held, Held::Holds);
        assert_eq!(check(&transfer(3_000, 0, 20.0, 40.0))[0].held, Held::Holds);
        let bad = check(&transfer(100, 50, 200.0, 40.0));
        assert_eq!((bad[0].held, bad[0].why.as_slice()), (Held::DoesNot, &["IPTD", "IPLR"][..]));
    }

    #[test]
    fn without_delays_nothing_is_claimed() {
        let known = transfer(10_000, 0, 20.0, 40.0);
        let blind = Transfer {
            iptd_mean_ns: None,
            iptd_min_ns: None,
            iptd_upper_ns: None,
            iptd_strict_upper_ns: None,
            ..known
        };
        assert_eq!((check(&blind)[0].held, met(&blind).as_slice()), (Held::CannotBeTold, &[5][..]));
    }

    #[test]
    fn the_provisional_classes_look_at_rarer_delays() {
        // all but one in a thousand within 35 ms of the least, one in ten thousand beyond 50 ms
        let rare = Transfer { iptd_strict_upper_ns: Some(60e6), ..transfer(1_000_000, 0, 20.0, 40.0) };
        assert_eq!(met(&rare), [0, 1, 2, 3, 4, 5]);
        let unknown = Transfer { iptd_strict_upper_ns: None, ..rare };
        assert_eq!((check(&unknown)[6].held, check(&unknown)[0].held), (Held::CannotBeTold, Held::Holds));
    }
}
