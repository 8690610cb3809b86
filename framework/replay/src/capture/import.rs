//! From a capture to a template, packet by packet, with a ledger of every one.

use std::path::Path;

use super::{Capture, CaptureError, Fault, Filter, Item, LinkType, Recorded};
use crate::frame::Layers;
use crate::template::{Builder, Ledger, Left, Notes, Template};

/// What is taken of a capture.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// Only what this wants.
    pub filter: Option<Filter>,
    /// Not before, nanoseconds since the capture's first packet.
    pub from: Option<u64>,
    /// Not from then on, nanoseconds since the capture's first packet.
    pub to: Option<u64>,
    /// At most so many packets; the rest is not read.
    pub limit: Option<u64>,
    /// Leave out packets that the capture cut.
    pub whole_only: bool,
    /// Of a damaged capture, keep what comes before the damage.
    pub salvage: bool,
}

/// Reads a file and writes a template to `to`.
///
/// # Errors
/// [`CaptureError`] when the capture cannot be read to its end (without [`Options::salvage`]), holds nothing but packets of
/// links that have no Ethernet form, or the template cannot be written.
pub fn import(path: &Path, to: &Path, options: &Options) -> Result<Template, CaptureError> {
    let mut read = 0;
    let mut made = || -> Result<Template, Fault> {
        let capture = Capture::open(path)?;
        import_capture(capture, Builder::in_file(to)?, options, &mut read)
    };
    made().map_err(|source| CaptureError { path: path.to_owned(), source, read })
}

/// The same for a capture and a builder of any kind; `read` counts packets also when it fails.
///
/// # Errors
/// [`Fault`] as for [`import`].
pub fn import_capture(
    mut capture: Capture,
    builder: Builder,
    options: &Options,
    read: &mut u64,
) -> Result<Template, Fault> {
    if let Some(link) = capture.link_type().filter(|link| !link.is_known()) {
        return Err(Fault::Link(link));
    }
    let mut taker =
        Taker { builder, options, ledger: Ledger::default(), first: None, last: 0, odd: None, made: Vec::new() };
    loop {
        *read = taker.ledger.read;
        match capture.next() {
            Ok(Some(item)) => {
                if !taker.take(item)? {
                    break;
                }
            }
            Ok(None) => break,
            Err(why) if options.salvage && why.is_damage() => {
                taker.ledger.warn(format!("damaged, and what follows is lost: {why}"));
                break;
            }
            Err(why) => return Err(why),
        }
    }
    for what in capture.warnings() {
        taker.ledger.warn(what.clone());
    }
    taker.finish(capture.format())
}

struct Taker<'a> {
    builder: Builder,
    options: &'a Options,
    ledger: Ledger,
    /// Time of the first packet.
    first: Option<u64>,
    /// Time of the packet before.
    last: u64,
    /// A link type that has no Ethernet form.
    odd: Option<LinkType>,
    /// A frame that got another header.
    made: Vec<u8>,
}

impl Taker<'_> {
    /// Takes or leaves a packet; false when no more are wanted.
    fn take(&mut self, item: Item<'_>) -> Result<bool, Fault> {
        if self.options.limit.is_some_and(|limit| self.ledger.loaded >= limit) {
            return Ok(false);
        }
        self.ledger.read += 1;
        match item {
            Item::Left(why) => self.ledger.leave(why),
            Item::Packet(packet) => {
                if let Some(why) = self.packet(&packet)? {
                    self.ledger.leave(why);
                }
            }
        }
        Ok(true)
    }

    /// Loads a packet, or says why not.
    fn packet(&mut self, packet: &Recorded<'_>) -> Result<Option<Left>, Fault> {
        let at = packet.at.unwrap_or(self.last);
        self.last = at;
        let since = at.saturating_sub(*self.first.get_or_insert(at));
        if self.options.from.is_some_and(|from| since < from) || self.options.to.is_some_and(|to| since >= to) {
            return Ok(Some(Left::Range));
        }
        let form = match packet.link.form(packet.bytes) {
            Ok(form) => form,
            Err(why) => {
                if why == Left::LinkType {
                    self.odd = Some(packet.link);
                    self.ledger.warn(format!("packets of link type {} cannot be made into frames", packet.link));
                }
                return Ok(Some(why));
            }
        };
        let (frame, original) = match form {
            None => (packet.bytes, packet.original),
            Some(form) => {
                form.write(packet.bytes, &mut self.made);
                (self.made.as_slice(), form.original(packet.original))
            }
        };
        if let Some(filter) = &self.options.filter
            && !filter.wants(frame, &Layers::of(frame), original)
        {
            return Ok(Some(Left::Filter));
        }
        let cut = original as usize > frame.len();
        if cut && self.options.whole_only {
            return Ok(Some(Left::Cut));
        }
        self.builder.push_cut(at, original, frame)?;
        self.ledger.loaded += 1;
        self.ledger.cut += u64::from(cut);
        self.ledger.trimmed += u64::from(packet.trimmed);
        self.ledger.untimed += u64::from(packet.at.is_none());
        self.ledger.headed += u64::from(form.is_some());
        match self.ledger.link_types.get_mut(&packet.link.0) {
            Some(count) => *count += 1,
            None => {
                self.ledger.link_types.insert(packet.link.0, 1);
            }
        }
        Ok(None)
    }

    fn finish(mut self, format: &str) -> Result<Template, Fault> {
        let Options { filter, from, to, limit, .. } = self.options;
        if let Some(link) = self.odd.filter(|_| self.ledger.loaded == 0) {
            return Err(Fault::Link(link));
        }
        if self.ledger.untimed > 0 && self.ledger.untimed == self.ledger.loaded {
            self.ledger.warn("no packet has a time: they cannot be replayed at original timing".to_owned());
        }
        self.ledger.backward = self.builder.backward();
        debug_assert_eq!(
            self.ledger.read,
            self.ledger.loaded + self.ledger.left_out(),
            "every packet is accounted for"
        );
        let range = (from.is_some() || to.is_some()).then(|| (from.unwrap_or(0), to.unwrap_or(u64::MAX)));
        let filter = filter.as_ref().map(|filter| filter.text().to_owned());
        let notes =
            Notes { format: Some(format.to_owned()), began: 0, filter, range, limit: *limit, ledger: self.ledger };
        Ok(self.builder.finish_noted(notes)?)
    }
}
