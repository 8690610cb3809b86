//! Templates: packets by stream and time, in a file that is mapped instead of read.

mod builder;
mod error;
mod format;
pub mod library;
mod notes;
mod stream;
mod summary;

use std::fs::File;
use std::ops::{Deref, Range};
use std::path::{Path, PathBuf};

use crate::packet::Packet;
use crate::sys::map::Map;
use format::{ENTRY, Entry, HEADER, Header, MAGIC, NONE, RECORD, VERSION};

pub use builder::Builder;
pub use error::TemplateError;
pub use library::{Kept, Library, LibraryError};
pub use notes::{Ledger, Left, Notes};
pub use stream::{Carried, Endpoint, Host, Stream};
pub use summary::{Overview, Share};

/// Packets of one template at most.
pub const PACKETS_MAX: u32 = u32::MAX - 1;
/// Streams of one template at most. Assumed: while it is made, each takes some 200 bytes of memory.
pub const STREAMS_MAX: u32 = 1 << 24;
/// Bytes of one frame at most. Source: libpcap's largest snapshot length.
pub const FRAME_MAX: usize = 262_144;

/// A template, open for reading.
///
/// ```
/// use rehearsal_replay::Builder;
///
/// let mut builder = Builder::in_memory();
/// builder.push(5_000, &[0xff; 60])?;
/// builder.push(7_500, &[0xff; 60])?;
/// let template = builder.finish()?;
/// let times: Vec<u64> = template.packets().map(|packet| packet.at).collect();
/// assert_eq!(times, [0, 2_500]);
/// # Ok::<(), rehearsal_replay::template::TemplateError>(())
/// ```
#[derive(Debug)]
pub struct Template {
    whole: Whole,
    header: Header,
    bytes: Range<usize>,
    index: Range<usize>,
    streams: Vec<Stream>,
    notes: Notes,
}

/// All bytes of a template.
#[derive(Debug)]
enum Whole {
    Mapped(Map),
    Memory(Vec<u8>),
}

impl Template {
    /// Opens a file. Its frames are not read, its index is looked through once.
    ///
    /// # Errors
    /// When the file cannot be opened, is no template, or contradicts itself.
    pub fn open(path: &Path) -> Result<Template, TemplateError> {
        let file = File::open(path).map_err(TemplateError::file(path))?;
        let length = file.metadata().map_err(TemplateError::file(path))?.len();
        if length < HEADER as u64 {
            return Err(TemplateError::Foreign { path: path.to_owned() });
        }
        Template::of(Whole::Mapped(Map::of(&file).map_err(TemplateError::file(path))?), path)
    }

    /// Takes a template that is in memory already.
    ///
    /// # Errors
    /// As for [`Template::open`].
    pub fn from_bytes(bytes: Vec<u8>) -> Result<Template, TemplateError> {
        Template::of(Whole::Memory(bytes), Path::new("the template"))
    }

    fn of(whole: Whole, path: &Path) -> Result<Template, TemplateError> {
        let foreign = || TemplateError::Foreign { path: PathBuf::from(path) };
        let head: &[u8; HEADER] = whole.first_chunk().filter(|head| head.starts_with(&MAGIC)).ok_or_else(foreign)?;
        let version = u32::from_le_bytes([head[8], head[9], head[10], head[11]]);
        if version != VERSION {
            return Err(TemplateError::Version { path: path.to_owned(), version });
        }
        let (header, said) = Header::decode(head);
        let parts = [header.index_at(), header.streams_at(), header.notes_at(), header.length()];
        let whole_length = whole.len() as u64;
        let [Some(index), Some(streams), Some(notes), Some(end)] = parts else {
            return Err(TemplateError::damaged(path, "its header tells of more than a file can hold"));
        };
        if end != whole_length || said != end {
            let what = format!("it has {whole_length} bytes, its header says {said}");
            return Err(TemplateError::damaged(path, what));
        }
        // all of them are at most the length of what is in memory, which is a usize
        let range = |from: u64, to: u64| from as usize..to as usize;
        let records = whole[range(streams, notes)].chunks_exact(RECORD).map(format::decode_stream);
        let streams: Option<Vec<Stream>> = records.collect();
        let streams = streams.ok_or_else(|| TemplateError::damaged(path, "a stream cannot be read"))?;
        let notes = serde_json::from_slice(&whole[range(notes, end)])
            .map_err(|why| TemplateError::damaged(path, format!("its notes cannot be read: {why}")))?;
        let (bytes, index) = (range(HEADER as u64, index), range(index, header.streams_at().unwrap_or(index)));
        let template = Template { whole, header, bytes, index, streams, notes };
        template.verify_index().map_err(|what| TemplateError::damaged(path, what))?;
        Ok(template)
    }

    /// Every entry, once: nothing needs to be looked at again when packets are read.
    fn verify_index(&self) -> Result<(), String> {
        if self.header.packets > u64::from(PACKETS_MAX) || self.header.streams > u64::from(STREAMS_MAX) {
            return Err("it has more packets or streams than a template can hold".to_owned());
        }
        let (index, mut last) = (&self.whole[self.index.clone()], 0);
        for number in 0..index.len() / ENTRY {
            let entry = Entry::of(index, number);
            let ends = entry.offset.checked_add(u64::from(entry.length));
            let inside = ends.is_some_and(|end| end <= self.bytes.len() as u64) && entry.length > 0;
            let known = (entry.stream as usize) < self.streams.len();
            let before = entry.after == NONE || (entry.after as usize) < number;
            if !(inside && known && before && entry.at >= last && entry.at <= self.header.duration) {
                return Err(format!("the entry of packet {number} cannot be true"));
            }
            last = entry.at;
        }
        if last != self.header.duration {
            return Err("its last packet is not where its duration ends".to_owned());
        }
        self.verify_sums()
    }

    /// What streams and notes say fits the whole, so that nobody who adds it up gets more than a number holds.
    fn verify_sums(&self) -> Result<(), String> {
        let sum = |of: fn(&Stream) -> [u64; 2]| {
            self.streams.iter().flat_map(of).try_fold(0_u64, |sum, part| sum.checked_add(part))
        };
        let (packets, bytes) = (sum(|stream| stream.packets), sum(|stream| stream.bytes));
        if packets != Some(self.header.packets) || bytes != Some(self.header.bytes) {
            return Err("its streams do not add up to all of its packets".to_owned());
        }
        if !self.streams.iter().all(|stream| stream.first <= stream.last && stream.last <= self.header.duration) {
            return Err("a stream is outside of its duration".to_owned());
        }
        if self.notes.began.checked_add(self.header.duration).is_none() {
            return Err("it ends behind the last time that can be told".to_owned());
        }
        Ok(())
    }

    /// How many packets.
    pub fn len(&self) -> u32 {
        // checked when it was opened
        self.header.packets as u32
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.header.packets == 0
    }

    /// Nanoseconds from the first packet to the last.
    pub fn duration(&self) -> u64 {
        self.header.duration
    }

    /// Bytes of all frames.
    pub fn bytes(&self) -> u64 {
        self.header.bytes
    }

    /// The streams, by number.
    pub fn streams(&self) -> &[Stream] {
        &self.streams
    }

    /// Where it came from.
    pub fn notes(&self) -> &Notes {
        &self.notes
    }

    /// The file's bytes, as they are stored and digested.
    pub fn as_bytes(&self) -> &[u8] {
        &self.whole
    }

    /// A packet by its number, in constant time.
    ///
    /// # Panics
    /// When there is no such packet.
    #[inline]
    pub fn packet(&self, index: u32) -> Packet<'_> {
        let table = &self.whole[self.index.clone()];
        let entry = Entry::of(table, index as usize);
        let after = (entry.after != NONE).then_some(entry.after);
        let think = after.map_or(0, |before| entry.at - Entry::of(table, before as usize).at);
        let from = self.bytes.start + entry.offset as usize;
        let bytes = &self.whole[from..from + entry.length as usize];
        let Entry { at, stream, direction, original, .. } = entry;
        Packet { index, at, stream, direction, after, think, original, bytes }
    }

    /// All packets, in order of time.
    pub fn packets(&self) -> impl ExactSizeIterator<Item = Packet<'_>> + '_ {
        // a range of u32 knows its length only as far as a usize holds it
        (0..self.header.packets as usize).map(|index| self.packet(index as u32))
    }
}

impl Deref for Whole {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match self {
            Whole::Mapped(map) => map,
            Whole::Memory(bytes) => bytes,
        }
    }
}

#[cfg(test)]
mod tests;
