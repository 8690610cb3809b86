//! What shards tell their supervisor.

use rehearsal_core::messages::StopReason;
use rehearsal_core::steer::{Answer, Ask, Steer};
use tokio::sync::mpsc;

/// Notes that may wait. Those that end a run always find room: mere facts stay below [`RESERVED`] free places.
const NOTES_MAX: usize = 1024;
const RESERVED: usize = 512;

/// A shard's way to the supervisor. Never waits.
#[derive(Clone, Debug)]
pub(crate) struct Notes(mpsc::Sender<Note>);

/// Something that the supervisor must know.
#[derive(Debug)]
pub(crate) enum Note {
    /// It is known when traffic begins.
    Start,
    /// The run is to stop.
    Stop(StopReason),
    /// A shard can no longer work: a bug.
    Broken(usize),
    /// The load is steered.
    Steer(Steer),
    /// The controller answers somebody who watches.
    Answer(Answer),
    /// Somebody on the bus asks something, and waits for the answer there.
    Ask(Ask, String),
    /// A fact for the verdict's notes.
    Fact(String),
}

impl Notes {
    /// The way and its end.
    pub(crate) fn channel() -> (Notes, mpsc::Receiver<Note>) {
        let (sender, receiver) = mpsc::channel(NOTES_MAX);
        (Notes(sender), receiver)
    }

    pub(crate) fn start(&self) {
        self.send(Note::Start);
    }

    pub(crate) fn stop(&self, reason: StopReason) {
        self.send(Note::Stop(reason));
    }

    pub(crate) fn steer(&self, steer: Steer) {
        self.send(Note::Steer(steer));
    }

    pub(crate) fn answer(&self, answer: Answer) {
        self.send(Note::Answer(answer));
    }

    /// A question: who finds no room gets no answer, and asks again.
    pub(crate) fn ask(&self, ask: Ask, reply: String) {
        if self.0.capacity() > RESERVED {
            self.send(Note::Ask(ask, reply));
        }
    }

    pub(crate) fn broken(&self, shard: usize) {
        self.send(Note::Broken(shard));
    }

    /// Facts repeat themselves: what finds no room was most likely said before.
    pub(crate) fn note(&self, text: String) {
        if self.0.capacity() > RESERVED {
            self.send(Note::Fact(text));
        }
    }

    fn send(&self, note: Note) {
        // without a supervisor there is no run any more
        let _ = self.0.try_send(note);
    }
}
