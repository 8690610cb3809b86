//! Finds the place in the file that an actor's constructor is not content with.

use std::path::Path;

use rehearsal_core::assembly::AssemblyError;
use rehearsal_core::dialogue::Casting;
use rehearsal_core::kind::{BuildError, Offer};
use rehearsal_core::plan::{Carrier, Stop};
use rehearsal_core::recording::TemplateRequest;

use crate::error::{Problem, ScenarioErrors};
use crate::experiment::Experiment;

/// The key whose file stands in the experiment's base folder.
pub(crate) const MEDIA: &str = "media";

impl Experiment {
    /// Fills in what senders offer that replay templates: `read` tells, of a template, packets per second and bytes in the mean
    /// and packets of one loop, or of one side of its conversations.
    ///
    /// # Errors
    /// The first template that cannot be read, with its place in the file.
    pub fn offer_templates(
        &mut self,
        mut read: impl FnMut(&Path, &TemplateRequest, Option<&Casting>) -> Result<(Option<f64>, f64, u64), BuildError>,
    ) -> Result<(), ScenarioErrors> {
        let once = (self.stop == Stop::AllRequestsDone).then_some(1);
        let mut found = Vec::new();
        for (row, node) in self.nodes.iter().enumerate() {
            for (column, actor) in node.actors.iter().enumerate() {
                let Some(sender) = &actor.sender else { continue };
                let frames = self.carrier_to(&node.name, &sender.to) == Carrier::Frames;
                let Some((request, loops)) = actor.build.template(frames) else { continue };
                let casting = actor.build.meeting().map(|meeting| meeting.casting);
                let loops = if casting.is_some() { Some(1) } else { loops.or(once) };
                let told = read(&self.base, &request, casting.as_ref()).map_err(|source| {
                    self.explain_build(&AssemblyError { node: node.name.clone(), actor: actor.name.clone(), source })
                });
                found.push((row, column, told?, loops));
            }
        }
        for (row, column, (per_second, bytes, packets), loops) in found {
            let offers = &mut self.nodes[row].actors[column].offers;
            let text = offers.take().unwrap_or_default().text;
            let total = loops.map(|loops| loops.saturating_mul(packets));
            *offers = Some(Offer { text, per_second, bytes: Some(bytes), total });
        }
        Ok(())
    }

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
