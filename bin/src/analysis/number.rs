//! Numbers as a table shows them: as many decimals as their spread allows.

use rehearsal_stats::Described;

/// Decimals at which a deviation shows two digits; without one, at which the mean shows four.
pub fn decimals(d: &Described) -> usize {
    let (scale, digits) = match d.sd {
        Some(sd) if sd > 0.0 => (sd, 2),
        _ if d.mean.fract() == 0.0 => return 0,
        _ => (d.mean.abs(), 4),
    };
    let before = scale.log10().floor() as i64 + 1;
    usize::try_from(digits - before).unwrap_or(0).min(6)
}

/// With so many decimals; no minus before a zero.
pub fn fixed(value: f64, places: usize) -> String {
    let text = format!("{value:.places$}");
    match text.strip_prefix('-') {
        Some(rest) if rest.chars().all(|c| c == '0' || c == '.') => rest.to_owned(),
        _ => text,
    }
}

/// Below a thousandth only how small it is.
pub fn p_value(p: f64) -> String {
    match p {
        p if p < 1e-300 => "< 1e-300".to_owned(),
        p if p < 1e-3 => format!("{p:.0e}"),
        p => format!("{p:.3}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn described(mean: f64, sd: Option<f64>) -> Described {
        Described { n: 2, mean, sd, half_width: None, level: 0.95, min: mean, max: mean }
    }

    #[test]
    fn deviations_show_two_digits() {
        let table = [(Some(0.271), 2), (Some(1.46), 1), (Some(14.6), 0), (Some(0.0099), 4), (Some(0.0), 2), (None, 2)];
        for (sd, places) in table {
            assert_eq!(decimals(&described(13.598, sd)), places, "{sd:?}");
        }
        assert_eq!(decimals(&described(790_800.0, None)), 0);
    }

    #[test]
    fn small_numbers_are_told_as_such() {
        assert_eq!((fixed(-0.001, 2), fixed(-1.5, 0), fixed(2.345, 1)), ("0.00".into(), "-2".into(), "2.3".into()));
        assert_eq!(
            (p_value(0.0), p_value(1.64e-7), p_value(0.0461)),
            ("< 1e-300".into(), "2e-7".into(), "0.046".into())
        );
    }
}
