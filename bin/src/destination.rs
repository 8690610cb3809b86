//! Where bundles go: `results/<experiment>-<engine>-<time>` unless `--out` names a folder.

use std::path::{Path, PathBuf};

use crate::facts::unix_ns;

/// The folder of a run, or of all its repetitions.
pub struct Destination {
    base: PathBuf,
    repetitions: u32,
}

impl Destination {
    /// The folder for `repetitions` repetitions of `experiment` on `engine`.
    pub fn new(out: Option<&Path>, experiment: &str, engine: &str, repetitions: u32) -> Self {
        let base = out.map_or_else(|| fresh(experiment, engine), Path::to_owned);
        Destination { base, repetitions }
    }

    /// The whole folder.
    pub fn base(&self) -> &Path {
        &self.base
    }

    /// The bundle of one repetition, from 0.
    pub fn bundle(&self, repetition: u32) -> PathBuf {
        if self.repetitions == 1 { self.base.clone() } else { self.base.join(format!("rep-{:02}", repetition + 1)) }
    }
}

/// A default name that is not taken.
fn fresh(experiment: &str, engine: &str) -> PathBuf {
    let stem = format!("results/{experiment}-{engine}-{}", stamp(unix_ns() / 1_000_000_000));
    let taken = |p: &Path| p.exists() || p.with_extension("partial").exists();
    let numbered = (2..1000).map(|n| PathBuf::from(format!("{stem}-{n}")));
    std::iter::once(PathBuf::from(&stem)).chain(numbered).find(|p| !taken(p)).unwrap_or_else(|| stem.into())
}

/// `20261130-181232`, UTC, of a Unix time in seconds.
pub fn stamp(unix_s: u64) -> String {
    let (year, month, day, second) = civil(unix_s);
    format!("{year:04}{month:02}{day:02}-{:02}{:02}{:02}", second / 3600, second / 60 % 60, second % 60)
}

/// Year, month, day and second of the day, UTC, of a Unix time in seconds.
pub fn civil(unix_s: u64) -> (u64, u64, u64, u64) {
    let (days, second) = (unix_s / 86_400, unix_s % 86_400);
    // civil date from a day count, in eras of 400 years that begin on 1 March
    let z = days + 719_468;
    let (era, day_of_era) = (z / 146_097, z % 146_097);
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted = (5 * day_of_year + 2) / 153;
    let (day, month) =
        (day_of_year - (153 * shifted + 2) / 5 + 1, if shifted < 10 { shifted + 3 } else { shifted - 9 });
    (era * 400 + year_of_era + u64::from(month <= 2), month, day, second)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stamps_are_utc_dates() {
        assert_eq!(stamp(0), "19700101-000000");
        assert_eq!(stamp(951_782_399), "20000228-235959");
        assert_eq!(stamp(951_782_400), "20000229-000000");
        assert_eq!(stamp(1_796_062_352), "20261130-181232");
    }

    #[test]
    fn repetitions_have_folders_of_their_own() {
        let one = Destination::new(Some(Path::new("x")), "e", "simulate", 1);
        assert_eq!(one.bundle(0), Path::new("x"));
        let ten = Destination::new(Some(Path::new("x")), "e", "simulate", 10);
        assert_eq!(ten.bundle(9), Path::new("x/rep-10"));
    }
}
