//! `rehearsal template`: captures become templates of a library, are listed, told, and written as captures again.

use std::fs::File;
use std::io::{BufWriter, Write as _};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context as _, Result};
use rehearsal_core::Span;
use rehearsal_core::units::UnitError;
use rehearsal_replay::capture::{self, CaptureError, Fault, Filter, Writer};
use rehearsal_replay::template::library::name_of;
use rehearsal_replay::template::{Kept, Library, LibraryError, TemplateError};
use rehearsal_replay::{Editor, Template};

use crate::cli::{Export, Format, Import, List, Place, ShowTemplate, TemplateAction};
use crate::exit::{Refused, UsageError};
use crate::{cli, report};
use lab::Lab;

pub mod edits;
mod lab;
mod text;

/// Bytes that are gathered before they are written.
const BUFFER: usize = 1 << 18;

/// Runs the verb.
///
/// # Errors
/// When a capture cannot be read, or a template cannot be found, made or written.
pub fn template(args: &cli::Template) -> Result<ExitCode> {
    match &args.action {
        TemplateAction::Import(args) => import(args)?,
        TemplateAction::List(args) => list(args)?,
        TemplateAction::Show(args) => show(args)?,
        TemplateAction::Export(args) => export(args)?,
    }
    Ok(ExitCode::SUCCESS)
}

/// The library of this host.
///
/// # Errors
/// When no folder is named and the user has no home.
pub fn library(folder: Option<&Path>) -> Result<Library> {
    if let Some(folder) = folder {
        return Ok(Library::at(folder));
    }
    // an empty or relative one counts as none. Source: XDG Base Directory Specification
    let absolute = |name: &str| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let data = absolute("XDG_DATA_HOME").or_else(|| absolute("HOME").map(|home| home.join(".local/share")));
    let data =
        data.ok_or_else(|| UsageError("--library DIR is needed: neither XDG_DATA_HOME nor HOME is set".to_owned()))?;
    Ok(Library::at(&data.join("rehearsal").join("templates")))
}

/// Opens a template by its name, and holds it against its digest. One that only the lab's library has is fetched first.
///
/// # Errors
/// When there is none of that name, several, or it is damaged.
pub fn open(place: &Place, wanted: &str) -> Result<(Kept, Template)> {
    let library = library(place.library.as_deref())?;
    let missing = match library.open(wanted) {
        Err(why @ LibraryError::Unknown { .. }) => why,
        other => return other.map_err(refused),
    };
    let Some(lab) = Lab::open(&place.nats)? else { return Err(refused(missing)) };
    let called = lab.find(wanted)?;
    let draft = Draft(library.draft().map_err(refused)?);
    lab.get(&called, &draft.0)?;
    let name = called.rsplit_once('@').map_or(called.as_str(), |(name, _)| name);
    let kept = library.keep(&draft.0, name).map_err(refused)?;
    if kept.called() != called {
        let found = kept.called();
        // what somebody else put there under that name is not what the name says
        let _ = std::fs::remove_file(&kept.path);
        return Err(Refused(format!("what {} has as {called} is {found}", lab.server())).into());
    }
    library.open(&called).map_err(refused)
}

fn import(args: &Import) -> Result<()> {
    let options = capture::Options {
        filter: args.filter.as_deref().map(str::parse::<Filter>).transpose().map_err(|why| usage(&why))?,
        from: time("--from", args.from.as_deref())?,
        to: time("--to", args.to.as_deref())?,
        limit: args.limit,
        whole_only: args.whole,
        salvage: args.salvage,
    };
    if let (Some(from), Some(to)) = (options.from, options.to)
        && from >= to
    {
        return Err(UsageError("--from is not before --to; nothing would be left".to_owned()).into());
    }
    let library = library(args.place.library.as_deref())?;
    let name = args.name.clone().unwrap_or_else(|| name_of(&args.file));
    rehearsal_replay::template::library::check_name(&name).map_err(|why| usage(&why))?;
    // a server that is not there is told before the work, not after it
    let lab = Lab::open(&args.place.nats)?;
    let draft = Draft(library.draft().map_err(refused)?);
    let template = capture::import(&args.file, &draft.0, &options).map_err(broken)?;
    for warning in &template.notes().ledger.warnings {
        eprintln!("warning: {warning}");
    }
    let kept = library.keep(&draft.0, &name).map_err(refused)?;
    if let Some(lab) = lab {
        lab.put(&kept, &template)?;
        eprintln!("note: shared at {}", lab.server());
    }
    match args.format {
        Format::Json => report::print(&text::json(&kept.called(), &template, 0)?),
        Format::Text => report::print(&text::imported(&kept, &template)),
    }
}

fn list(args: &List) -> Result<()> {
    let library = library(args.place.library.as_deref())?;
    let mut rows = Vec::new();
    for kept in library.list().map_err(refused)? {
        match Template::open(&kept.path) {
            Ok(template) => rows.push((kept, template)),
            // one broken template is no reason to hide the others
            Err(why) => eprintln!("warning: {}; it is left out", report::chain(&why)),
        }
    }
    let lab = Lab::open(&args.place.nats)?;
    let shared = lab.as_ref().map(Lab::list).transpose()?.unwrap_or_default();
    let all = text::rows(&rows, &shared);
    match args.format {
        Format::Json => report::print(&serde_json::to_string_pretty(&all)?),
        Format::Text => report::print(&text::list(&library, &all)),
    }
}

fn show(args: &ShowTemplate) -> Result<()> {
    let (kept, template) = open(&args.place, &args.template)?;
    match args.format {
        Format::Json => report::print(&text::json(&kept.called(), &template, args.streams)?),
        Format::Text => report::print(&text::shown(&kept.called(), &template, args.streams)),
    }
}

fn export(args: &Export) -> Result<()> {
    let edit = edits::read(&args.edits)?;
    let (_, template) = open(&args.place, &args.template)?;
    let editor = Editor::new(&edit, &template).map_err(|why| usage(&why))?;
    for note in editor.notes() {
        eprintln!("note: {note}");
    }
    let failed = || format!("{} cannot be written", args.out.display());
    let file = File::create_new(&args.out);
    let file =
        file.map_err(|why| Refused(format!("{}: {why}; an existing file is never overwritten", args.out.display())))?;
    let mut writer = Writer::new(BufWriter::with_capacity(BUFFER, file)).with_context(failed)?;
    let began = template.notes().began;
    let mut frame = Vec::new();
    for packet in template.packets() {
        let original = editor.apply(&packet, 0, &mut frame);
        writer.packet(began + packet.at, original, &frame).with_context(failed)?;
    }
    writer.finish().with_context(failed)?.flush().with_context(failed)?;
    report::print(&format!("{} packets written to {}", template.len(), args.out.display()))
}

/// A template that is being made; what is left of it goes.
struct Draft(PathBuf);

impl Drop for Draft {
    fn drop(&mut self) {
        // it has another name when all went well
        let _ = std::fs::remove_file(&self.0);
    }
}

fn time(flag: &str, text: Option<&str>) -> Result<Option<u64>> {
    let parsed = text.map(str::parse::<Span>).transpose();
    parsed.map(|span| span.map(Span::as_nanos)).map_err(|why: UnitError| UsageError(format!("{flag}: {why}")).into())
}

fn usage(why: &dyn std::error::Error) -> anyhow::Error {
    UsageError(report::chain(why)).into()
}

fn refused(why: LibraryError) -> anyhow::Error {
    match &why {
        LibraryError::Name(_) | LibraryError::Unknown { .. } | LibraryError::Ambiguous { .. } => usage(&why),
        LibraryError::Folder { .. } | LibraryError::Template(_) => Refused(report::chain(&why)).into(),
    }
}

/// What is wrong with a capture, and what could be done about it.
fn broken(why: CaptureError) -> anyhow::Error {
    let mut text = report::chain(&why);
    if why.source.is_damage() && why.read > 0 {
        text += &format!("; {} packets come before; --salvage keeps them", why.read);
    }
    match why.source {
        Fault::Template(TemplateError::File { .. }) => Refused(text).into(),
        _ => UsageError(text).into(),
    }
}
