//! What is replayed: a template, or edited copies of its packets.

use crate::edit::Editor;
use crate::packet::Packet;
use crate::template::Template;

/// A template and what is changed in copies of its packets.
#[derive(Clone, Copy, Debug)]
pub struct Material<'t> {
    /// The template.
    pub template: &'t Template,
    /// The edit, if there is one.
    pub editor: Option<&'t Editor>,
    /// After so many loops, from 1, edits begin again with those of the first: their streams are held. `None`: never.
    pub laps: Option<u64>,
}

impl<'t> Material<'t> {
    /// A template as it is.
    pub fn plain(template: &'t Template) -> Self {
        Material { template, editor: None, laps: None }
    }

    /// Streams that are to be held, if any are.
    pub fn streams_held(&self) -> Option<u64> {
        self.laps.map(|laps| laps.saturating_mul(self.template.streams().len() as u64))
    }

    /// Which lap of the edit a loop is, both from 0.
    #[inline]
    pub fn lap(&self, round: u64) -> u64 {
        self.laps.map_or(round, |laps| round % laps.max(1))
    }

    /// The frame of a packet in a loop, from 0; `copy` holds it if it was edited.
    #[inline]
    pub fn frame<'a>(&self, packet: &Packet<'t>, round: u64, copy: &'a mut Vec<u8>) -> &'a [u8]
    where
        't: 'a,
    {
        match self.editor {
            None => packet.bytes,
            Some(editor) => {
                editor.apply(packet, self.lap(round), copy);
                copy
            }
        }
    }

    /// Whether loops differ.
    pub fn varies(&self) -> bool {
        self.editor.is_some_and(Editor::varies)
    }
}
