//! No silent hang: each rank shows on a board in shared memory what it does, and a thread of each rank watches it.
//!
//! A rank's main thread marks its row as it goes on ([`Board::mark`]), which takes a few stores. Its watchdog thread
//! adds to the row's heartbeat and reads all rows of the node. It never enters MPI, where the main thread may be stuck:
//! between nodes the first rank of each sends its node's rows by datagrams ([`Watch`]). Who has not moved for too long is
//! named, and the job ends.

mod report;
mod ring;
mod shown;
mod verdict;
mod watch;

pub use shown::Shown;
pub use watch::Watch;

use std::sync::atomic::{AtomicU32, Ordering};

use serde::Serialize;

use crate::Result;
use crate::comm::{Comm, Shared};

/// Cells of a row, so that ranks do not share cache lines.
const ROW: usize = 32;
const MOVES: usize = 0;
const PHASE: usize = 1;
const STEP: usize = 2;
const STEP_HIGH: usize = 3;
const BEATS: usize = 4;

/// What a rank is doing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Phase {
    /// Setting up the exchange with the others.
    #[default]
    Start,
    /// Waiting for its batch.
    Load,
    /// Forward and backward.
    Compute,
    /// Exchanging with the others.
    Exchange,
    /// Waiting for the others.
    Wait,
    /// Evaluating its block of a set.
    Evaluate,
    /// Becoming equal with the others.
    Settle,
    /// Writing into the run folder.
    Write,
    /// Waiting for its part of a checkpoint to be written.
    Checkpoint,
    /// Over.
    Done,
}

impl Phase {
    const ALL: [Self; 10] = [
        Self::Start,
        Self::Load,
        Self::Compute,
        Self::Exchange,
        Self::Wait,
        Self::Evaluate,
        Self::Settle,
        Self::Write,
        Self::Checkpoint,
        Self::Done,
    ];

    fn from_number(number: u32) -> Option<Self> {
        Self::ALL.get(number as usize).copied()
    }

    /// As the user reads it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Start => "start",
            Self::Load => "load",
            Self::Compute => "compute",
            Self::Exchange => "exchange",
            Self::Wait => "wait",
            Self::Evaluate => "evaluate",
            Self::Settle => "settle",
            Self::Write => "write",
            Self::Checkpoint => "checkpoint",
            Self::Done => "done",
        }
    }

    /// Whether a rank that stays in it may be waiting for others, and is not to blame.
    fn waits(self) -> bool {
        matches!(
            self,
            Self::Start | Self::Exchange | Self::Wait | Self::Settle
        )
    }
}

/// The rows of a node's ranks, as one of them sees them.
pub struct Board {
    cells: Shared,
    /// This rank's place on the node.
    mine: usize,
    /// How many ranks the node has.
    size: usize,
}

/// What stands in a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Row {
    phase: Phase,
    step: u64,
    /// Marks so far, and beats of the watchdog's heart: both only ever compared for change.
    moves: u32,
    beats: u32,
}

impl Row {
    fn read(cells: &[AtomicU32]) -> Self {
        let cell = |at: usize| cells[at].load(Ordering::Relaxed);
        Self {
            phase: Phase::from_number(cell(PHASE)).unwrap_or_default(),
            step: u64::from(cell(STEP)) | u64::from(cell(STEP_HIGH)) << 32,
            moves: cell(MOVES),
            beats: cell(BEATS),
        }
    }
}

impl Board {
    /// A board for the ranks of `node`; *collective* over it.
    fn open(node: &dyn Comm) -> Result<Self> {
        Ok(Self {
            cells: node.shared(ROW)?,
            mine: node.rank(),
            size: node.size(),
        })
    }

    /// Says what this rank's main thread begins to do, in which step (from 1). It alone may call this.
    pub fn mark(&self, step: u64, phase: Phase) {
        let row = self.cells.of(self.mine);
        row[PHASE].store(phase as u32, Ordering::Relaxed);
        row[STEP].store(step as u32, Ordering::Relaxed);
        row[STEP_HIGH].store((step >> 32) as u32, Ordering::Relaxed);
        self.moved(row);
    }

    /// Says that this rank's main thread begins to do something else in the same step.
    pub fn turn(&self, phase: Phase) {
        let row = self.cells.of(self.mine);
        row[PHASE].store(phase as u32, Ordering::Relaxed);
        self.moved(row);
    }

    fn moved(&self, row: &[AtomicU32]) {
        // Plain load and store: one thread writes it.
        let moves = row[MOVES].load(Ordering::Relaxed);
        row[MOVES].store(moves.wrapping_add(1), Ordering::Relaxed);
    }

    /// This rank's row, in a form that another thread may look at while this one lives.
    pub fn glance(&self) -> Glance<'_> {
        Glance(self.cells.of(self.mine))
    }

    /// The rows, in a form that another thread may use while this one lives.
    fn rows(&self) -> Rows<'_> {
        Rows {
            rows: (0..self.size).map(|rank| self.cells.of(rank)).collect(),
            mine: self.mine,
        }
    }

    /// Gives the memory back; *collective* over the node.
    fn close(self) -> Result<()> {
        self.cells.close()
    }
}

/// One rank's row.
pub struct Glance<'a>(&'a [AtomicU32]);

impl Glance<'_> {
    /// The step that the rank is in, from 1, and what it does there.
    pub fn read(&self) -> (u64, Phase) {
        let row = Row::read(self.0);
        (row.step, row.phase)
    }
}

/// A board as the watchdog thread has it.
struct Rows<'a> {
    rows: Vec<&'a [AtomicU32]>,
    mine: usize,
}

impl Rows<'_> {
    /// Shows that this rank's process runs.
    fn beat(&self) {
        self.rows[self.mine][BEATS].fetch_add(1, Ordering::Relaxed);
    }

    /// All rows. A row that is being marked may be read half old and half new: nobody draws conclusions from one that moves.
    fn read(&self) -> Vec<Row> {
        self.rows.iter().map(|row| Row::read(row)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::comm::run_ranks;

    #[test]
    fn every_rank_reads_what_each_has_marked() {
        let seen = run_ranks(3, |comm| {
            let board = Board::open(comm).unwrap();
            let rank = comm.rank() as u64;
            board.mark((1 << 40) + rank, Phase::ALL[comm.rank() + 2]);
            board.turn(Phase::ALL[comm.rank() + 3]);
            board.rows().beat();
            comm.barrier();
            let rows = board.rows().read();
            let mine = board.glance().read();
            assert_eq!(mine, (rows[comm.rank()].step, rows[comm.rank()].phase));
            comm.barrier();
            board.close().unwrap();
            rows
        });
        for rows in seen {
            for (rank, row) in rows.into_iter().enumerate() {
                let expected = Row {
                    phase: Phase::ALL[rank + 3],
                    step: (1 << 40) + rank as u64,
                    moves: 2,
                    beats: 1,
                };
                assert_eq!(row, expected);
            }
        }
    }

    #[test]
    fn phases_keep_their_numbers() {
        for (number, phase) in Phase::ALL.into_iter().enumerate() {
            assert_eq!(phase as usize, number);
            assert_eq!(Phase::from_number(number as u32), Some(phase));
            assert_eq!(serde_json::to_value(phase).unwrap(), phase.name());
        }
        assert_eq!(Phase::from_number(10), None);
    }
}
