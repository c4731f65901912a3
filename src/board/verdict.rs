//! Who is to blame when ranks do not move: pure functions of what a watchdog sees.

use std::time::Duration;

use super::{Phase, Row};

/// A heart that has not beaten for so long, of a rank that does not move either, is a process that does not run.
const FROZEN: Duration = Duration::from_secs(2);

/// What a watchdog sees of a rank.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Seen {
    pub(super) rank: usize,
    pub(super) phase: Phase,
    pub(super) step: u64,
    /// Since its main thread last moved.
    pub(super) still: Duration,
    /// Since its heart last beat.
    pub(super) silent: Duration,
}

impl Seen {
    /// Whether its process does not run.
    pub(super) fn is_frozen(&self, timeout: Duration) -> bool {
        self.silent >= timeout.min(FROZEN)
    }

    fn is_waiting(&self) -> bool {
        self.phase.waits()
    }
}

/// What is wrong on a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// These ranks hold the others up, and this one tells.
    Culprits {
        /// World ranks.
        ranks: Vec<usize>,
        /// The one whose watchdog tells.
        teller: usize,
    },
    /// All that are not over have been waiting at least so long, for each other or for another node.
    Waiting(Duration),
}

/// What is wrong with `ranks`, those of one node, if anything is.
pub(super) fn verdict(ranks: &[Seen], timeout: Duration) -> Option<Verdict> {
    let busy = ranks.iter().filter(|seen| seen.phase != Phase::Done);
    let busy: Vec<&Seen> = busy.collect();
    let late =
        |seen: &&&Seen| seen.silent >= timeout || (!seen.is_waiting() && seen.still >= timeout);
    let late: Vec<&Seen> = busy.iter().filter(late).copied().collect();
    if late.is_empty() {
        let shortest = busy.iter().map(|seen| seen.still).min()?;
        let all_wait = busy.iter().all(|seen| seen.is_waiting());
        return (all_wait && shortest >= timeout).then_some(Verdict::Waiting(shortest));
    }
    // A process that does not run is a better reason than one that runs and does not move: that may follow from it.
    let frozen = late.iter().filter(|seen| seen.is_frozen(timeout));
    let frozen: Vec<usize> = frozen.map(|seen| seen.rank).collect();
    let culprits = match frozen.is_empty() {
        true => late.iter().map(|seen| seen.rank).collect(),
        false => frozen,
    };
    // If only the culprit is left, its own watchdog tells.
    let alive = || busy.iter().filter(|seen| !seen.is_frozen(timeout));
    let teller = alive()
        .find(|seen| !culprits.contains(&seen.rank))
        .or_else(|| alive().next())?
        .rank;
    Some(Verdict::Culprits {
        ranks: culprits,
        teller,
    })
}

/// Turns rows into times: when each rank was last seen to move, and its heart to beat.
///
/// The clock is the watchdog's own: time in which it did not run itself (a suspended job, a machine asleep) does not
/// count, so that nobody is blamed for it.
pub(super) struct Observer {
    now: Duration,
    last: Vec<(Row, Duration, Duration)>,
}

impl Observer {
    pub(super) fn new(rows: &[Row]) -> Self {
        let zero = Duration::ZERO;
        Self {
            now: zero,
            last: rows.iter().map(|&row| (row, zero, zero)).collect(),
        }
    }

    /// The time by this clock.
    pub(super) fn now(&self) -> Duration {
        self.now
    }

    /// Looks again, `passed` later.
    pub(super) fn look(&mut self, rows: &[Row], passed: Duration) {
        self.now += passed;
        for ((last, moved, beat), row) in self.last.iter_mut().zip(rows) {
            if row.moves != last.moves {
                *moved = self.now;
            }
            if row.beats != last.beats {
                *beat = self.now;
            }
            *last = *row;
        }
    }

    /// What is seen of each, whose world ranks are `ranks`.
    pub(super) fn seen(&self, ranks: &[usize]) -> Vec<Seen> {
        let seen = |(&rank, &(row, moved, beat)): (&usize, &(Row, Duration, Duration))| Seen {
            rank,
            phase: row.phase,
            step: row.step,
            still: self.now - moved,
            silent: self.now - beat,
        };
        ranks.iter().zip(&self.last).map(seen).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMIT: Duration = Duration::from_secs(10);

    fn seen(rank: usize, phase: Phase, still: u64, silent: u64) -> Seen {
        Seen {
            rank,
            phase,
            step: 7,
            still: Duration::from_secs(still),
            silent: Duration::from_secs(silent),
        }
    }

    fn culprits(ranks: &[usize], teller: usize) -> Option<Verdict> {
        Some(Verdict::Culprits {
            ranks: ranks.to_vec(),
            teller,
        })
    }

    #[test]
    fn a_rank_that_computes_for_too_long_is_named_by_the_lowest_other() {
        let mut ranks = [
            seen(4, Phase::Compute, 10, 0),
            seen(5, Phase::Exchange, 9, 0),
            seen(6, Phase::Wait, 9, 0),
        ];
        assert_eq!(verdict(&ranks, LIMIT), culprits(&[4], 5));
        ranks[0].still = Duration::from_secs(9);
        assert_eq!(verdict(&ranks, LIMIT), None);
    }

    #[test]
    fn a_process_that_does_not_run_is_to_blame_whatever_it_did() {
        for phase in [Phase::Exchange, Phase::Compute, Phase::Evaluate] {
            let ranks = [
                seen(0, phase, 11, 10),
                seen(1, Phase::Exchange, 10, 0),
                seen(2, Phase::Exchange, 10, 0),
            ];
            assert_eq!(verdict(&ranks, LIMIT), culprits(&[0], 1));
        }
        // Both are late, and one has a reason.
        let ranks = [seen(0, Phase::Load, 12, 0), seen(1, Phase::Compute, 12, 11)];
        assert_eq!(verdict(&ranks, LIMIT), culprits(&[1], 0));
    }

    #[test]
    fn a_heart_that_stopped_behind_the_last_move_counts() {
        // It had computed for 5 s when it was stopped.
        let ranks = [seen(0, Phase::Compute, 10, 5), seen(1, Phase::Wait, 9, 0)];
        assert_eq!(verdict(&ranks, LIMIT), culprits(&[0], 1));
        assert!(ranks[0].is_frozen(LIMIT) && !ranks[1].is_frozen(LIMIT));
    }

    #[test]
    fn ranks_may_wait_as_long_as_somebody_moves() {
        let ranks = [
            seen(0, Phase::Evaluate, 1, 0),
            seen(1, Phase::Settle, 500, 0),
            seen(2, Phase::Wait, 500, 0),
        ];
        assert_eq!(verdict(&ranks, LIMIT), None);
    }

    #[test]
    fn all_waiting_for_each_other_is_nobodys_fault_alone() {
        let ranks = [
            seen(0, Phase::Exchange, 30, 0),
            seen(1, Phase::Settle, 12, 0),
            seen(2, Phase::Done, 300, 300),
        ];
        let twelve = Duration::from_secs(12);
        assert_eq!(verdict(&ranks, LIMIT), Some(Verdict::Waiting(twelve)));
    }

    #[test]
    fn who_is_done_is_neither_blamed_nor_asked_to_tell() {
        let ranks = [
            seen(0, Phase::Done, 300, 300),
            seen(1, Phase::Write, 20, 0),
            seen(2, Phase::Wait, 20, 0),
        ];
        assert_eq!(verdict(&ranks, LIMIT), culprits(&[1], 2));
        assert_eq!(verdict(&ranks[..1], LIMIT), None);
    }

    #[test]
    fn the_last_one_tells_of_itself_if_its_heart_beats() {
        let stuck = [seen(3, Phase::Load, 20, 0)];
        assert_eq!(verdict(&stuck, LIMIT), culprits(&[3], 3));
        let frozen = [seen(3, Phase::Load, 20, 20)];
        assert_eq!(verdict(&frozen, LIMIT), None);
    }

    #[test]
    fn times_run_from_the_last_change() {
        let row = Row {
            phase: Phase::Load,
            step: 1,
            moves: u32::MAX,
            beats: 0,
        };
        let mut observer = Observer::new(&[row, row]);
        let second = Duration::from_secs(1);
        let (moved, beaten) = (Row { moves: 0, ..row }, Row { beats: 1, ..row });
        observer.look(&[moved, beaten], second);
        observer.look(&[moved, beaten], second);
        let seen = observer.seen(&[8, 9]);
        assert_eq!((seen[0].still, seen[0].silent), (second, 2 * second));
        assert_eq!((seen[1].still, seen[1].silent), (2 * second, second));
        assert_eq!((seen[0].rank, seen[1].rank), (8, 9));
    }
}
