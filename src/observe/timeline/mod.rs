//! A trace of all ranks on one clock, for ui.perfetto.dev and chrome://tracing.
//!
//! Each rank's own thread notes what it does from when to when, into memory that is taken once: the first 200,000/P spans of each of P
//! ranks, and the last as many; what lies between is counted and dropped. Off, a span costs a look at a variable of the thread.

mod clock;
mod write;

pub use clock::Offset;
pub use write::{Written, write};

use std::cell::RefCell;
use std::time::Instant;

/// Spans that a trace may have of all ranks together: about 50 MB of text.
const MOST: usize = 400_000;
/// Spans that each rank has at the least.
const LEAST: usize = 4_000;

/// What a span is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Kind {
    /// Waiting for a batch.
    Load,
    /// Forward and backward of a step.
    Compute,
    /// A layer's outputs from its inputs.
    Forward,
    /// A layer's gradients of parameters.
    GradParams,
    /// A layer's gradients of inputs.
    GradInput,
    /// The exchange of a step.
    Exchange,
    /// The sum over ranks of one bucket of gradients.
    Bucket,
    /// The update of this rank's slice, with the sums over ranks in it where they are in shared memory.
    Update,
    /// Waiting for other ranks.
    Wait,
    /// Evaluating.
    Evaluate,
    /// Copying what goes into a checkpoint.
    Checkpoint,
}

impl Kind {
    const ALL: [Self; 11] = [
        Self::Load,
        Self::Compute,
        Self::Forward,
        Self::GradParams,
        Self::GradInput,
        Self::Exchange,
        Self::Bucket,
        Self::Update,
        Self::Wait,
        Self::Evaluate,
        Self::Checkpoint,
    ];
}

/// One span, in nanoseconds since the recording began.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Span {
    kind: Kind,
    /// Of a layer or bucket: its number.
    number: u32,
    step: u64,
    from: u64,
    to: u64,
}

/// What a thread has noted.
pub struct Log {
    begun: Instant,
    step: u64,
    first: Vec<Span>,
    /// The last ones, as a ring once it is full.
    last: Vec<Span>,
    next: usize,
    /// How many each of the two holds.
    room: usize,
    dropped: u64,
}

thread_local! {
    static LOG: RefCell<Option<Log>> = const { RefCell::new(None) };
}

/// This thread, which is one of `ranks`, notes spans from now on.
pub fn start(ranks: usize) {
    let room = (MOST / ranks.max(1)).max(LEAST) / 2;
    LOG.set(Some(Log::new(room)));
}

/// Whether this thread notes spans.
#[inline]
pub fn is_on() -> bool {
    LOG.with_borrow(Option::is_some)
}

/// Spans from now on are of `step`, from 1.
#[inline]
pub fn step(step: u64) {
    LOG.with_borrow_mut(|log| {
        if let Some(log) = log {
            log.step = step;
        }
    });
}

/// A span that began at `from` ends now.
#[inline]
pub fn span(kind: Kind, number: usize, from: Instant) {
    if is_on() {
        between(kind, number, from, Instant::now());
    }
}

/// A span from a moment to another.
pub fn between(kind: Kind, number: usize, from: Instant, to: Instant) {
    LOG.with_borrow_mut(|log| {
        if let Some(log) = log {
            log.add(kind, number as u32, from, to);
        }
    });
}

/// This thread goes on with notes that it has taken before.
pub fn go_on(log: Log) {
    LOG.set(Some(log));
}

/// Ends the notes of this thread, and gives them.
pub fn take() -> Option<Log> {
    LOG.take()
}

impl Log {
    fn new(room: usize) -> Self {
        Self {
            begun: Instant::now(),
            step: 0,
            first: Vec::with_capacity(room),
            last: Vec::with_capacity(room),
            next: 0,
            room,
            dropped: 0,
        }
    }

    fn add(&mut self, kind: Kind, number: u32, from: Instant, to: Instant) {
        let since = |time: Instant| time.saturating_duration_since(self.begun).as_nanos() as u64;
        let span = Span {
            kind,
            number,
            step: self.step,
            from: since(from),
            to: since(to),
        };
        if self.first.len() < self.room {
            self.first.push(span);
        } else if self.last.len() < self.room {
            self.last.push(span);
        } else {
            self.last[self.next] = span;
            self.next = (self.next + 1) % self.room;
            self.dropped += 1;
        }
    }

    /// All spans that are left, in the order in which they ended.
    fn spans(&self) -> impl Iterator<Item = &Span> {
        let (newer, older) = self.last.split_at(self.next);
        self.first.iter().chain(older).chain(newer)
    }
}

#[cfg(test)]
mod tests;
