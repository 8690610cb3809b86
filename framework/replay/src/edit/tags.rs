//! VLAN tags: pushed, popped, renumbered.

use super::EditError;
use crate::frame::{be16, ethertype};

/// Offset of the first tag, behind both Ethernet addresses.
const AT: usize = 12;
/// Tags of one frame that are looked at.
const ROW_MAX: usize = 32;
const HELP: &str =
    "write `pop`, `pop all`, `push 100`, `push 100 priority 5`, `push-service 100`, `100 -> 200` or `any -> 200`";

/// One change of tags.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Change {
    Pop,
    PopAll,
    Push { kind: u16, tag: u16 },
    Rewrite { from: Option<u16>, to: u16 },
}

impl Change {
    pub(super) fn read(text: &str) -> Result<Change, EditError> {
        let wrong = || EditError::new("vlan", format!("`{text}` is no change of tags; {HELP}"));
        let number = |word: &str| word.parse::<u16>().ok().filter(|number| *number < 4096).ok_or_else(wrong);
        let words: Vec<&str> = text.split_whitespace().collect();
        Ok(match words.as_slice() {
            ["pop"] => Change::Pop,
            ["pop", "all"] => Change::PopAll,
            ["any", "->", to] => Change::Rewrite { from: None, to: number(to)? },
            [from, "->", to] => Change::Rewrite { from: Some(number(from)?), to: number(to)? },
            [push @ ("push" | "push-service"), rest @ ..] => {
                let kind = if *push == "push" { ethertype::VLAN } else { ethertype::SERVICE_VLAN };
                let tag = match rest {
                    [tag] => number(tag)?,
                    [tag, "priority", priority] => {
                        let priority = priority.parse::<u16>().ok().filter(|p| *p < 8).ok_or_else(wrong)?;
                        number(tag)? | priority << 13
                    }
                    _ => return Err(wrong()),
                };
                Change::Push { kind, tag }
            }
            _ => return Err(wrong()),
        })
    }

    /// Changes a frame, which may become longer or shorter.
    pub(super) fn apply(self, frame: &mut Vec<u8>) {
        match self {
            Change::Pop => {
                pop(frame);
            }
            Change::PopAll => {
                for _ in 0..ROW_MAX {
                    if !pop(frame) {
                        break;
                    }
                }
            }
            Change::Push { kind, tag } => {
                if frame.len() >= AT {
                    let [a, b, c, d] = [kind.to_be_bytes(), tag.to_be_bytes()].concat()[..] else { return };
                    frame.splice(AT..AT, [a, b, c, d]);
                }
            }
            Change::Rewrite { from, to } => {
                let mut at = AT;
                for _ in 0..ROW_MAX {
                    let (true, Some(tag)) = (is_tag(frame, at), be16(frame, at + 2)) else { return };
                    if from.is_none_or(|from| tag & 0x0fff == from) {
                        frame[at + 2..at + 4].copy_from_slice(&(tag & 0xf000 | to).to_be_bytes());
                    }
                    at += 4;
                }
            }
        }
    }
}

fn pop(frame: &mut Vec<u8>) -> bool {
    let tagged = is_tag(frame, AT) && frame.len() >= AT + 6;
    if tagged {
        frame.drain(AT..AT + 4);
    }
    tagged
}

fn is_tag(frame: &[u8], at: usize) -> bool {
    matches!(be16(frame, at), Some(ethertype::VLAN | ethertype::SERVICE_VLAN | ethertype::OLD_VLAN))
}
