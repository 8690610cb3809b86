//! Bundles that are being written, so that a process that is ended at once leaves nothing half-written behind.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError, RwLock};

/// The folders of bundles under way, shared with the thread that listens for signals.
#[derive(Clone, Default, Debug)]
pub struct Unfinished(Arc<State>);

#[derive(Default, Debug)]
struct State {
    /// Each partial folder, and whether it holds records that cannot be had again.
    folders: Mutex<BTreeMap<PathBuf, bool>>,
    base: Mutex<Option<PathBuf>>,
    /// Read while a bundle is being made or given its name, so that none is taken away in the middle of that.
    changing: RwLock<()>,
}

impl Unfinished {
    /// `base` was made for repetitions; it goes too if none was finished.
    pub fn inside(&self, base: &Path) {
        *self.0.base.lock().unwrap_or_else(PoisonError::into_inner) = Some(base.to_owned());
    }

    /// Begins a bundle in the folder that `create` gives.
    ///
    /// # Errors
    /// Those of `create`.
    pub fn begin<T, E>(&self, create: impl FnOnce() -> Result<(PathBuf, T), E>) -> Result<(PathBuf, T), E> {
        let _whole = self.0.changing.read().unwrap_or_else(PoisonError::into_inner);
        let (partial, begun) = create()?;
        self.folders(|folders| folders.insert(partial.clone(), false));
        Ok((partial, begun))
    }

    /// `partial` holds records of a real run.
    pub fn keep(&self, partial: &Path) {
        self.folders(|folders| folders.get_mut(partial).map(|kept| *kept = true));
    }

    /// Finishes the bundle in `partial`.
    pub fn finish<T>(&self, partial: &Path, finish: impl FnOnce() -> T) -> T {
        let _whole = self.0.changing.read().unwrap_or_else(PoisonError::into_inner);
        let finished = finish();
        self.folders(|folders| folders.remove(partial));
        finished
    }

    /// Takes away what holds nothing, and calls `end`, which does not come back. Before that, `told` hears of each folder
    /// that stays.
    pub fn abandon(&self, mut told: impl FnMut(&Path), end: impl FnOnce()) {
        let folders = self.folders(|folders| folders.clone());
        for (partial, _) in folders.iter().filter(|(_, kept)| **kept) {
            told(partial);
        }
        if !folders.is_empty() && folders.values().all(|kept| *kept) {
            return end();
        }
        // nothing is begun or finished from here on
        let _whole = self.0.changing.write().unwrap_or_else(PoisonError::into_inner);
        for (partial, _) in self.folders(|folders| folders.clone()).into_iter().filter(|(_, kept)| !kept) {
            // nobody is left to be told, and a remainder is named by the next attempt
            let _ = fs::remove_dir_all(&partial);
        }
        if let Some(base) = self.0.base.lock().unwrap_or_else(PoisonError::into_inner).take() {
            // fails if it holds a finished repetition, as it should
            let _ = fs::remove_dir(base);
        }
        end();
    }

    fn folders<T>(&self, change: impl FnOnce(&mut BTreeMap<PathBuf, bool>) -> T) -> T {
        change(&mut self.0.folders.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_holds_records_stays_and_is_named() {
        let base = std::env::temp_dir().join(format!("rehearsal-unfinished-{}", std::process::id()));
        let [empty, full, whole] = ["empty.partial", "full.partial", "whole.partial"].map(|name| base.join(name));
        let unfinished = Unfinished::default();
        unfinished.inside(&base);
        for path in [&empty, &full, &whole] {
            let create = || fs::create_dir_all(path).map(|()| (path.clone(), ()));
            assert_eq!(unfinished.begin(create).unwrap().0, *path);
        }
        unfinished.keep(&full);
        unfinished.finish(&whole, || ());
        let (mut told, mut ended) = (Vec::new(), false);
        unfinished.abandon(|path| told.push(path.to_owned()), || ended = true);
        assert_eq!((told, ended), (vec![full.clone()], true));
        assert_eq!([empty, full, whole].map(|path| path.exists()), [false, true, true]);
        fs::remove_dir_all(base).unwrap();
    }
}
