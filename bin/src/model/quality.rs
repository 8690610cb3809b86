//! The quality of speech of a model's codec, by the E-model.

use std::path::Path;

use anyhow::Result;
use rehearsal_core::Span;
use rehearsal_core::units::Fraction;
use rehearsal_models::diagram::module::Codec;
use rehearsal_scenario::load_model;
use rehearsal_stats::standards::g107::{Impairment, opinion, rating};

use crate::cli::Quality;
use crate::exit::UsageError;

/// One line for each codec of the model.
///
/// # Errors
/// A model that is wrong or has no codec whose impairment is known, or a delay or loss that is none.
pub(super) fn quality(args: &Quality) -> Result<String> {
    let delay: Span = args.delay.parse().map_err(|why| UsageError(format!("--delay {}: {why}", args.delay)))?;
    let loss: Fraction = args.loss.parse().map_err(|why| UsageError(format!("--loss {}: {why}", args.loss)))?;
    let model = load_model(Path::new(&args.file))?;
    let known = model.modules.iter().filter_map(|(name, module)| Some((name, impairment(module.codec?)?)));
    let lines: Vec<String> = known
        .map(|(name, of)| {
            let rating = rating(of, delay.as_secs_f64() * 1e3, loss.0);
            let (score, words) = (opinion(rating), words(rating));
            format!("{name}: R {rating:.1}, opinion score {score:.2} at {delay} and {loss} ({words})\n")
        })
        .collect();
    if lines.is_empty() {
        return Err(UsageError(format!(
            "{}: none of its modules has a codec of known impairment",
            args.file.display()
        ))
        .into());
    }
    Ok(lines.concat())
}

/// Source: ITU-T G.113 appendix I; G.726 stands there for other losses than ours.
pub(crate) fn impairment(codec: Codec) -> Option<Impairment> {
    match codec {
        Codec::G711 => Some(Impairment::G711),
        Codec::G729 => Some(Impairment::G729),
        Codec::G7231 => Some(Impairment::G7231),
        Codec::Amr122 => Some(Impairment::AMR122),
        Codec::G726 => None,
    }
}

/// What a codec hears of the next packet before it can send one, ms. Source: ITU-T G.114, annex A; AMR: 3GPP TS 26.090.
pub(crate) fn look_ahead_ms(codec: Codec) -> f64 {
    match codec {
        Codec::G711 | Codec::G726 => 0.0,
        Codec::G729 | Codec::Amr122 => 5.0,
        Codec::G7231 => 7.5,
    }
}

/// How satisfied users are. Source: ITU-T G.109 table 1.
pub(crate) fn words(rating: f64) -> &'static str {
    match rating {
        r if r >= 90.0 => "users very satisfied",
        r if r >= 80.0 => "users satisfied",
        r if r >= 70.0 => "some users dissatisfied",
        r if r >= 60.0 => "many users dissatisfied",
        r if r >= 50.0 => "nearly all users dissatisfied",
        _ => "not recommended",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_has_its_quality() {
        let of = |name: &str, delay: &str, loss: &str| {
            let file = format!("{}/../configs/models/{name}.toml", env!("CARGO_MANIFEST_DIR")).into();
            quality(&Quality { file, delay: delay.to_owned(), loss: loss.to_owned() })
        };
        let text = of("voip-g711", "50ms", "0%").expect("a quality");
        assert!(text.contains("R 93.2, opinion score 4.41") && text.contains("very satisfied"), "{text}");
        assert!(of("voip-g729", "400ms", "5%").expect("a quality").contains("not recommended"));
        assert!(of("gensyn-cbr", "50ms", "0%").is_err() && of("voip-g711", "50", "0%").is_err());
    }
}
