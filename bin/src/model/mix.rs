//! How many users of some models load a link as wanted: each model's share of the bytes, divided by what one user offers in
//! the long run. A user is counted with all bytes on the wire, headers and frame gaps included.

use std::fmt::Write as _;
use std::path::Path;

use anyhow::Result;
use rehearsal_core::units::{BitRate, Fraction};
use rehearsal_models::diagram::Chain;
use rehearsal_scenario::load_model;

use super::bits;
use crate::cli::Mix;
use crate::exit::UsageError;

/// The table of users.
///
/// # Errors
/// A model that is wrong or has no long run, a share, rate or load that is none, or shares that do not add up to 100 %.
pub(super) fn users(args: &Mix) -> Result<String> {
    let link: BitRate = args.link.parse().map_err(|why| UsageError(format!("--link {}: {why}", args.link)))?;
    let load: Fraction = args.load.parse().map_err(|why| UsageError(format!("--load {}: {why}", args.load)))?;
    if load.0 <= 0.0 {
        return Err(UsageError(format!("--load {}: it must be above 0%", args.load)).into());
    }
    let mut rows = Vec::new();
    for text in &args.models {
        let (file, share) = match text.rsplit_once('=') {
            Some((file, share)) => {
                let read: Fraction = share.parse().map_err(|why| UsageError(format!("`{text}`: {why}")))?;
                (file, read.0)
            }
            None if args.models.len() == 1 => (text.as_str(), 1.0),
            None => return Err(UsageError(format!("`{text}` has no share: write for instance `{text}=50%`")).into()),
        };
        rows.push((file, share, each(file)?));
    }
    let sum: f64 = rows.iter().map(|(_, share, _)| share).sum();
    if (sum - 1.0).abs() > 1e-6 {
        return Err(UsageError(format!("the shares add up to {:.4} %, not to 100 %", sum * 100.0)).into());
    }
    let wanted = link.0 as f64 * load.0;
    let mut text =
        format!("{load} of {link} on the wire\n{:>12} {:>8} {:>14} {:>14}  model\n", "users", "share", "each", "all");
    for (file, share, each) in rows {
        let users = (wanted * share / each).round();
        let _ =
            writeln!(text, "{users:>12} {:>7.2}% {:>14} {:>14}  {file}", share * 100.0, bits(each), bits(users * each));
    }
    Ok(text)
}

/// Bit/s of one user on the wire in the long run: what waits for answers by HTTP/1.1, other packets by UDP.
fn each(file: &str) -> Result<f64> {
    let diagram = load_model(Path::new(file))?;
    let chain = Chain::new(&diagram).map_err(|why| UsageError(format!("{file}: {}", why.reason)))?;
    let long = chain.stationary();
    let none = || UsageError(format!("{file}: what its users offer in the long run cannot be told"));
    let bits = chain.load(&long.ok_or_else(none)?).total() * 8.0;
    if bits > 0.0 { Ok(bits) } else { Err(none().into()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn library(name: &str) -> String {
        format!("{}/../configs/models/{name}.toml", env!("CARGO_MANIFEST_DIR"))
    }

    fn mix(models: &[String], link: &str, load: &str) -> Result<String> {
        users(&Mix { models: models.to_vec(), link: link.to_owned(), load: load.to_owned() })
    }

    #[test]
    fn users_follow_from_the_long_run() {
        // half the time 8 packets/s of 1024 B, each 1024 + 8 + 20 + 38 B on the wire: 34,880 bit/s; 70 Mbit/s are 2007 of them
        let text = mix(&[library("gensyn-cbr")], "100Mbit/s", "70%").expect("users");
        assert!(text.lines().nth(2).is_some_and(|row| row.trim_start().starts_with("2007 ")), "{text}");
        let both = [library("web-3gpp") + "=85%", library("gensyn-voip") + "=15%"];
        let text = mix(&both, "100Mbit/s", "70%").expect("users");
        let rates: Vec<&str> = text.lines().skip(2).filter_map(|row| row.split_whitespace().nth(4)).collect();
        assert_eq!(rates, ["59.50", "10.50"], "{text}");
    }

    #[test]
    fn what_makes_no_sense_is_refused() {
        let one = || vec![library("gensyn-cbr")];
        assert!(mix(&one(), "100", "70%").is_err() && mix(&one(), "1Mbit/s", "0%").is_err());
        let lacking = [library("web-3gpp") + "=85%", library("gensyn-voip") + "=5%"];
        assert!(mix(&lacking, "1Mbit/s", "50%").expect_err("shares").to_string().contains("add up to 90"));
        assert!(mix(&[library("mtc-uniform")], "1Mbit/s", "50%").is_err(), "it has no long run");
    }
}
