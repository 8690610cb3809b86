//! Makes a template of packets, in memory or in a file. A capture of any size needs memory for its streams only: frames and
//! index go to files as they come.

use std::fs::{File, OpenOptions};
use std::io::{self, BufWriter, Read as _, Seek as _, SeekFrom, Write};
use std::path::{Path, PathBuf};

use super::error::TemplateError;
use super::format::{ENTRY, Entry, HEADER, Header, NONE, encode_stream};
use super::notes::Notes;
use super::stream::Table;
use super::{FRAME_MAX, PACKETS_MAX, STREAMS_MAX, Template, Whole};
use crate::frame::Layers;
use crate::sys::map::Map;

/// Bytes that are gathered before they are written.
const BUFFER: usize = 1 << 18;

/// Collects packets; [`Builder::finish`] makes the template.
#[derive(Debug)]
pub struct Builder {
    to: Target,
    table: Table,
    header: Header,
    /// Whether a packet came that is older than one before.
    disordered: bool,
    newest: u64,
    backward: u64,
    streams_max: u32,
}

/// Where the parts go until they are put together.
#[derive(Debug)]
enum Target {
    Memory { whole: Vec<u8>, spool: Vec<u8> },
    Files(Files),
}

/// The template under another name, and a spool of its index. Both go when this is dropped.
#[derive(Debug)]
struct Files {
    path: PathBuf,
    whole: BufWriter<File>,
    spool: BufWriter<File>,
}

impl Builder {
    /// Keeps everything in memory: for packets that a program makes.
    pub fn in_memory() -> Builder {
        Builder::to(Target::Memory { whole: vec![0; HEADER], spool: Vec::new() })
    }

    /// Writes to `path`, where the template appears when it is whole.
    ///
    /// # Errors
    /// When files cannot be made beside `path`.
    pub fn in_file(path: &Path) -> Result<Builder, TemplateError> {
        let failed = TemplateError::file(path);
        Files::new(path).map(|files| Builder::to(Target::Files(files))).map_err(failed)
    }

    fn to(to: Target) -> Builder {
        Builder {
            to,
            table: Table::default(),
            header: Header::default(),
            disordered: false,
            newest: 0,
            backward: 0,
            streams_max: STREAMS_MAX,
        }
    }

    /// Adds a frame that was whole, at a time in nanoseconds since anything.
    ///
    /// # Errors
    /// When there are too many packets or streams, the frame is empty or too long, or cannot be written.
    pub fn push(&mut self, at: u64, frame: &[u8]) -> Result<(), TemplateError> {
        self.push_cut(at, u32::try_from(frame.len()).unwrap_or(u32::MAX), frame)
    }

    /// Adds what a capture kept of a frame of `original` bytes.
    ///
    /// # Errors
    /// As for [`Builder::push`].
    pub fn push_cut(&mut self, at: u64, original: u32, frame: &[u8]) -> Result<(), TemplateError> {
        if frame.is_empty() || frame.len() > FRAME_MAX {
            return Err(TemplateError::Length(frame.len()));
        }
        if self.header.packets == u64::from(PACKETS_MAX) {
            return Err(TemplateError::Packets(PACKETS_MAX));
        }
        let layers = Layers::of(frame);
        let found = self.table.find(frame, &layers, self.streams_max);
        let found = found.map_err(|_| TemplateError::Streams(self.streams_max))?;
        let length = frame.len() as u32;
        let entry = Entry {
            at,
            offset: self.header.bytes,
            length,
            original: original.max(length),
            stream: found.stream,
            after: NONE,
            direction: found.direction,
            opens: found.opens,
        };
        self.to.write(frame, &entry)?;
        self.table.count(&found, u64::from(length));
        if at < self.newest && self.header.packets > 0 {
            self.disordered = true;
            self.backward += 1;
        }
        self.newest = self.newest.max(at);
        self.header.packets += 1;
        self.header.bytes += u64::from(length);
        Ok(())
    }

    /// Packets so far that were older than one before.
    pub fn backward(&self) -> u64 {
        self.backward
    }

    /// Puts the parts together, without notes.
    ///
    /// # Errors
    /// When files cannot be written or read back.
    pub fn finish(self) -> Result<Template, TemplateError> {
        self.finish_noted(Notes::default())
    }

    /// Puts the parts together.
    ///
    /// # Errors
    /// When files cannot be written or read back.
    pub fn finish_noted(mut self, mut notes: Notes) -> Result<Template, TemplateError> {
        let (mut target, header) = (self.to, self.header);
        let path = target.path();
        let failed = || TemplateError::file(&path);
        let spool = target.spool().map_err(failed())?;
        let order = self.disordered.then(|| {
            let mut order: Vec<u32> = (0..header.packets as u32).collect();
            order.sort_by_key(|index| Entry::of(&spool, *index as usize).at);
            order
        });
        let nth = |index: usize| order.as_ref().map_or(index, |order| order[index] as usize);
        let base = if header.packets == 0 { 0 } else { Entry::of(&spool, nth(0)).at };
        let mut last = vec![[NONE; 2]; self.table.streams().len()];
        let mut duration = 0;
        for index in 0..header.packets as usize {
            let mut entry = Entry::of(&spool, nth(index));
            entry.at -= base;
            duration = entry.at;
            let seen = &mut last[entry.stream as usize];
            entry.after = if entry.opens { NONE } else { seen[entry.direction.other().index()] };
            seen[entry.direction.index()] = index as u32;
            entry.opens = false;
            self.table.seen(entry.stream, entry.at);
            target.append(&entry.encode()).map_err(failed())?;
        }
        for stream in self.table.streams() {
            target.append(&encode_stream(stream)).map_err(failed())?;
        }
        if notes.format.is_none() {
            (notes.ledger.read, notes.ledger.loaded) = (header.packets, header.packets);
        }
        notes.began = base;
        let notes = serde_json::to_vec(&notes).map_err(|why| TemplateError::damaged(&path, why.to_string()))?;
        target.append(&notes).map_err(failed())?;
        target.seal(&Header { streams: last.len() as u64, notes: notes.len() as u64, duration, ..header })
    }

    #[cfg(test)]
    pub(super) fn with_streams_max(mut self, most: u32) -> Builder {
        self.streams_max = most;
        self
    }
}

impl Target {
    fn path(&self) -> PathBuf {
        match self {
            Target::Memory { .. } => PathBuf::from("the template"),
            Target::Files(files) => files.path.clone(),
        }
    }

    fn write(&mut self, frame: &[u8], entry: &Entry) -> Result<(), TemplateError> {
        match self {
            Target::Memory { whole, spool } => {
                whole.extend_from_slice(frame);
                spool.extend_from_slice(&entry.encode());
                Ok(())
            }
            Target::Files(files) => {
                let written = files.whole.write_all(frame).and_then(|()| files.spool.write_all(&entry.encode()));
                written.map_err(TemplateError::file(&files.path))
            }
        }
    }

    fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
        match self {
            Target::Memory { whole, .. } => whole.write_all(bytes),
            Target::Files(files) => files.whole.write_all(bytes),
        }
    }

    fn spool(&mut self) -> io::Result<Whole> {
        match self {
            Target::Memory { spool, .. } => Ok(Whole::Memory(std::mem::take(spool))),
            Target::Files(files) => {
                files.spool.flush()?;
                let file = files.spool.get_mut();
                if file.metadata()?.len() >= ENTRY as u64 {
                    return Map::of(file).map(Whole::Mapped);
                }
                let mut rest = Vec::new();
                file.seek(SeekFrom::Start(0))?;
                file.take(ENTRY as u64).read_to_end(&mut rest)?;
                Ok(Whole::Memory(rest))
            }
        }
    }

    fn seal(self, header: &Header) -> Result<Template, TemplateError> {
        match self {
            Target::Memory { mut whole, .. } => {
                whole[..HEADER].copy_from_slice(&header.encode());
                Template::from_bytes(whole)
            }
            Target::Files(mut files) => {
                let path = files.path.clone();
                let written = files.whole.flush().and_then(|()| {
                    let file = files.whole.get_mut();
                    file.seek(SeekFrom::Start(0))?;
                    file.write_all(&header.encode())?;
                    std::fs::rename(partial(&path), &path)
                });
                written.map_err(TemplateError::file(&path))?;
                Template::open(&path)
            }
        }
    }
}

impl Files {
    fn new(path: &Path) -> io::Result<Files> {
        let open = |path: &Path| OpenOptions::new().read(true).write(true).create(true).truncate(true).open(path);
        let buffered = |file| BufWriter::with_capacity(BUFFER, file);
        let whole = open(&partial(path))?;
        let mut files = Files { path: path.to_owned(), whole: buffered(whole), spool: buffered(open(&spool(path))?) };
        files.whole.write_all(&[0; HEADER])?;
        Ok(files)
    }
}

impl Drop for Files {
    fn drop(&mut self) {
        // the first is gone already when all went well
        let _ = std::fs::remove_file(partial(&self.path));
        let _ = std::fs::remove_file(spool(&self.path));
    }
}

fn partial(path: &Path) -> PathBuf {
    beside(path, "partial")
}

fn spool(path: &Path) -> PathBuf {
    beside(path, "index")
}

fn beside(path: &Path, ending: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    // two processes may make the same template
    name.push(format!(".{}.{ending}", std::process::id()));
    PathBuf::from(name)
}
