//! Who takes a step together: the ranks of a team, and the threads of each.

use crate::comm::Comm;

/// The others of a step, as one thread sees them. Every thread of every rank must ask for the same sums.
#[derive(Clone, Copy, Default)]
pub struct Peers<'a> {
    /// The ranks, if there are others. Only the first thread of a rank talks to them.
    pub team: Option<&'a dyn Comm>,
    /// The threads of this rank, if there are others.
    pub threads: Option<&'a dyn Comm>,
}

impl Peers<'_> {
    /// Adds up over the threads of the rank, in their order, and then over the ranks if it is to be `across_ranks`;
    /// *collective* over all of them.
    pub fn sum(&self, across_ranks: bool, values: &mut [f64]) {
        if let Some(threads) = self.threads {
            threads.sum(values);
        }
        if !across_ranks {
            return;
        }
        if let Some(team) = self.team {
            team.sum(values);
        }
        if let Some(threads) = self.threads {
            threads.broadcast(0, values);
        }
    }
}
