//! The disk goes on while numbers are added up: a thread asks the system for the square of tiles that comes next.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::mpsc::{Sender, channel};
use std::thread::{Builder, JoinHandle};

use super::plan::{Plan, Tile};
use super::{Factor, Job};
use crate::linalg::Source;

/// Asks for squares of tiles, each while the one before is added up.
pub(super) struct Ahead {
    /// Squares that were not asked for yet, by the number of the first tile of the square before.
    squares: VecDeque<(usize, Tile)>,
    /// Who does, as long as there is something to ask for.
    thread: Option<(Sender<Tile>, JoinHandle<()>)>,
}

impl Ahead {
    /// For the tiles of a rank.
    pub(super) fn new(job: &Job, plan: &Plan, mine: &[Tile]) -> Self {
        let other = match &job.factor {
            Factor::None => None,
            Factor::Itself => Some(&job.a),
            Factor::Other(other) => Some(other),
        };
        let Some(other) = other.filter(|other| other.is_file() || job.a.is_file()) else {
            return Self {
                squares: VecDeque::new(),
                thread: None,
            };
        };
        let (firsts, squares): (Vec<usize>, Vec<Tile>) = plan.squares(mine).into_iter().unzip();
        // The first two before anything is read.
        let when = firsts.first().copied().into_iter().chain(firsts);
        let (a, other, side) = (job.a.clone(), other.clone(), plan.side);
        let (sender, wanted) = channel();
        let work = move || wanted.iter().for_each(|tile| ask(&a, &other, &tile, side));
        // Without a thread the tiles are read all the same.
        let thread = Builder::new().spawn(work).ok();
        Self {
            squares: when.zip(squares).collect(),
            thread: thread.map(|thread| (sender, thread)),
        }
    }

    /// Before tile number `at` is read.
    pub(super) fn before(&mut self, at: usize) {
        while let Some((_, square)) = self.squares.pop_front_if(|(when, _)| *when <= at) {
            if let Some((sender, _)) = &self.thread {
                // A thread that is gone has panicked, and is not needed.
                let _ = sender.send(square);
            }
        }
    }
}

impl Drop for Ahead {
    fn drop(&mut self) {
        if let Some((sender, thread)) = self.thread.take() {
            drop(sender);
            let _ = thread.join();
        }
    }
}

/// Asks for the tiles of a square in the order in which they will be read: a row of A's tiles meets a column of the other's.
fn ask(a: &Source, other: &Source, square: &Tile, side: usize) {
    let Tile { rows, cols } = square;
    let first = rows.end.min(rows.start + side);
    let band = |rows: Range<usize>| a.read_ahead(rows, cols.clone());
    band(rows.start..first);
    other.read_ahead(cols.clone(), rows.clone());
    band(first..rows.end);
}
