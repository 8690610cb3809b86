//! What is replayed: a template of the library, a template file, or a capture that becomes a template on the way.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Result;
use rehearsal_replay::Template;
use rehearsal_replay::capture::{self, CaptureError};
use rehearsal_replay::template::TemplateError;

use crate::cli::Place;
use crate::exit::UsageError;
use crate::report::chain;
use crate::template;

/// A template, and what it is called.
#[derive(Debug)]
pub struct Source {
    pub called: String,
    pub template: Template,
}

impl Source {
    /// A file if there is one of that name, otherwise a template of the library.
    pub fn open(place: &Place, what: &str) -> Result<Self> {
        let path = Path::new(what);
        if !path.is_file() {
            let (kept, template) = template::open(place, what)?;
            return Ok(Source { called: kept.called(), template });
        }
        let template = match Template::open(path) {
            Err(TemplateError::Foreign { .. }) => converted(path)?,
            opened => opened.map_err(|why| UsageError(chain(&why)))?,
        };
        Ok(Source { called: what.to_owned(), template })
    }
}

/// A capture as a template that has no name any more: it goes with this process.
fn converted(path: &Path) -> Result<Template> {
    let draft = Draft(std::env::temp_dir().join(format!("rehearsal-replay-{}.template", std::process::id())));
    let made = capture::import(path, &draft.0, &capture::Options::default());
    let template = made.map_err(|why: CaptureError| UsageError(chain(&why)))?;
    for warning in &template.notes().ledger.warnings {
        eprintln!("warning: {warning}");
    }
    Ok(template)
}

/// A file that is removed in any case; what is mapped stays.
struct Draft(PathBuf);

impl Drop for Draft {
    fn drop(&mut self) {
        // it may never have been made
        let _ = fs::remove_file(&self.0);
    }
}
