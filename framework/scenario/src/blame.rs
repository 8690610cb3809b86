//! Finds the place in the file that an actor's constructor is not content with.

use std::path::Path;

use rehearsal_core::assembly::AssemblyError;

use crate::error::{Problem, ScenarioErrors};
use crate::experiment::Experiment;

/// The key whose file stands in the experiment's base folder.
pub(crate) const MEDIA: &str = "media";

impl Experiment {
    /// An error of building the plan, with its place in the file where the actor was written there.
    pub fn explain_build(&self, error: &AssemblyError) -> ScenarioErrors {
        let name = format!("{}/{}", error.node, error.actor);
        let nodes = self.nodes.iter().filter(|node| node.name == error.node);
        let actor = nodes.flat_map(|node| &node.actors).find(|actor| actor.name == error.actor);
        let keys = actor.and_then(|actor| actor.keys.as_ref());
        let place = keys.map(|keys| self.sources.place(keys.at(error.source.key.unwrap_or_default())));
        let reason = &error.source.reason;
        let problem = match error.source.key {
            Some(key) => Problem::Value { key: key.to_owned(), reason: format!("{reason} (for actor `{name}`)") },
            None => Problem::Rule { reason: format!("actor `{name}`: {reason}") },
        };
        let media = actor.and_then(|actor| actor.own.get(MEDIA)).and_then(toml::Value::as_str);
        let missing = media.filter(|path| error.source.key == Some(MEDIA) && !self.base.join(path).exists());
        let help =
            missing.map(|_| format!("it is looked for in `{}`; `--base DIR` names another folder", folder(&self.base)));
        ScenarioErrors::single(problem, place, help.as_deref())
    }
}

fn folder(base: &Path) -> String {
    if base.as_os_str().is_empty() { ".".to_owned() } else { base.display().to_string() }
}
