//! Local descent: each rank takes steps on parameters of its own, and every so many steps they are averaged.
//!
//! Cost of an averaging: a barrier, and `MPI_Allreduce` of seven numbers and then of
//! 4·parameters bytes, bucket by bucket, once in `every` steps of a rank.
//! After McMahan et al. (2017) and Stich (2019); elastic averaging after Zhang, Choromanska and LeCun (2015).

use std::time::Instant;

use super::{Exchange, FINISHED, Spent, Tail, Votes, saved};
use crate::Result;
use crate::checkpoint::{Checkpoint, Snapshot};
use crate::comm::{BUCKET, Comm, block};
use crate::nn::{Arenas, Grads, Params};
use crate::observe::timeline::{self, Kind};
use crate::optim::{Mover, Part};

/// In checkpoints: the parameters of a rank that only elastic averaging makes like those of others.
const OWN: &str = "own_parameters";

/// When and how ranks average.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Averaging {
    /// Steps of a rank from one averaging to the next.
    pub every: u64,
    /// Elastic: ranks and a common centre are drawn towards each other, the centre by this share of the way to the ranks'
    /// mean and each rank by that share over the number of ranks. Else all ranks get the mean.
    pub elastic: Option<f32>,
}

impl Averaging {
    pub(super) fn describe(self) -> String {
        let Self { every, elastic } = self;
        match elastic {
            None => format!("local (each rank by itself, averaged every {every} steps)"),
            Some(beta) => {
                format!("local (each rank by itself, elastic averaging {beta} every {every} steps)")
            }
        }
    }
}

/// Every rank is a team of its own between two averagings.
pub struct Local<'c> {
    comm: &'c dyn Comm,
    alone: Box<dyn Comm>,
    averaging: Averaging,
    params: Vec<f32>,
    grads: Vec<f32>,
    /// The centre that ranks are drawn to, if averaging is elastic; the same on all.
    centre: Vec<f32>,
    cuts: [usize; 2],
    taken: u64,
    /// Whether this rank wants the run to end, and whether all know that one does.
    ends: bool,
    over: bool,
}

impl<'c> Local<'c> {
    /// Takes steps from `params`, equal on every rank; *collective*.
    pub fn new(comm: &'c dyn Comm, averaging: Averaging, params: Vec<f32>) -> Self {
        let centre = match averaging.elastic {
            Some(_) => params.clone(),
            None => Vec::new(),
        };
        Self {
            comm,
            alone: comm.split(comm.rank()),
            averaging,
            grads: vec![0.0; params.len()],
            centre,
            cuts: [0, params.len()],
            params,
            taken: 0,
            ends: false,
            over: false,
        }
    }

    /// Averages; gives how many ranks are going on, and their votes if all are; *collective*.
    fn average(&mut self, goes_on: bool, votes: Votes) -> (u64, Votes) {
        let ranks = self.comm.size() as f32;
        let mut flags = [0; 7];
        flags[..2].copy_from_slice(&[u64::from(goes_on), u64::from(self.ends)]);
        flags[2..].copy_from_slice(&votes.numbers());
        self.comm.sum(&mut flags);
        self.over = flags[1] > 0;
        let [going, _, votes @ ..] = flags;
        let votes = match going == self.comm.size() as u64 {
            true => Votes::of(votes),
            false => Votes::default(),
        };
        let grads = &mut self.grads;
        match self.averaging.elastic {
            None => {
                for bucket in self.params.chunks_mut(BUCKET) {
                    self.comm.sum(bucket);
                    bucket.iter_mut().for_each(|param| *param /= ranks);
                }
            }
            Some(beta) => {
                // Gradients are written anew before they are read: here is room.
                let pairs = self.params.iter().zip(&self.centre);
                let sums = grads.iter_mut();
                sums.zip(pairs)
                    .for_each(|(sum, (param, centre))| *sum = param - centre);
                let pairs = self.params.iter_mut().zip(&*grads);
                pairs.for_each(|(param, apart)| *param -= beta / ranks * apart);
                let buckets = self.centre.chunks_mut(BUCKET);
                for (centre, apart) in buckets.zip(grads.chunks_mut(BUCKET)) {
                    self.comm.sum(&mut *apart);
                    let pairs = centre.iter_mut().zip(&*apart);
                    pairs.for_each(|(centre, apart)| *centre += beta / ranks * apart);
                }
            }
        }
        (going, votes)
    }

    /// The parameters that stand for all ranks'.
    fn common(&self) -> &[f32] {
        match self.averaging.elastic {
            Some(_) => &self.centre,
            None => &self.params,
        }
    }
}

impl Exchange for Local<'_> {
    fn team(&self) -> &dyn Comm {
        &*self.alone
    }

    /// Ranks take turns, so that all take as many steps.
    fn claim(&mut self, claimed: u64) -> Result<u64> {
        let next = claimed * self.comm.size() as u64 + self.comm.rank() as u64;
        Ok(if self.over { FINISHED } else { next })
    }

    fn params(&self) -> Params<'_> {
        Params::Host(self.common())
    }

    fn arenas(&mut self) -> Arenas<'_> {
        Arenas {
            team: &*self.alone,
            params: Params::Host(&self.params),
            grads: Grads::Host(&mut self.grads),
            courier: None,
        }
    }

    fn step(&mut self, mine: Tail, lr: f32, mover: &mut Mover) -> Result<(Tail, Spent)> {
        let start = Instant::now();
        if mine.faults == 0 {
            let grads = &self.grads;
            let part = Part::whole(&mut self.params, &self.cuts);
            let gradient = |range, out: &mut [f32]| out.copy_from_slice(&grads[range]);
            mover.step(lr, part, gradient, |_| {});
        }
        self.taken += 1;
        let moved = start.elapsed();
        let mut arrived = moved;
        let mut votes = Votes::default();
        if self.taken.is_multiple_of(self.averaging.every) {
            let begin = Instant::now();
            self.comm.barrier();
            timeline::span(Kind::Wait, 0, begin);
            arrived = start.elapsed();
            (_, votes) = self.average(true, mine.votes);
        }
        let wait = arrived - moved;
        let exchange = start.elapsed() - wait;
        Ok((Tail { votes, ..mine }, Spent { exchange, wait }))
    }

    fn finish(&mut self) -> Result<()> {
        self.ends = true;
        Ok(())
    }

    /// Ranks take turns: with this step's round, all have taken theirs.
    fn reached(&self, step: u64) -> u64 {
        let ranks = self.comm.size() as u64;
        (step / ranks + 1) * ranks
    }

    fn save(&mut self, mover: &mut Mover, to: &mut Snapshot) -> Result<()> {
        let len = self.params.len();
        let share = block(len, self.comm.size(), self.comm.rank());
        saved::save_own(to, mover, self.common(), share);
        if self.averaging.elastic.is_some() {
            to.own(OWN, len).copy_from_slice(&self.params);
        }
        Ok(())
    }

    fn load(
        &mut self,
        mover: &mut Mover,
        updates: u64,
        from: &Checkpoint,
        part: usize,
    ) -> Result<()> {
        if self.averaging.elastic.is_some() {
            saved::own(from, part, OWN, &mut self.params)?;
        }
        saved::load_own(from, part, mover, updates, self.params.len())
    }

    fn settle(mut self: Box<Self>) -> Result<Vec<f32>> {
        // Ranks with steps left average with those that have none, until all are here.
        loop {
            self.comm.barrier();
            if self.average(false, Votes::default()).0 == 0 {
                break;
            }
        }
        let mut params = match self.averaging.elastic {
            Some(_) => self.centre,
            None => self.params,
        };
        // MPI advises, but does not promise, that all ranks get the same bits from a sum.
        self.comm.broadcast(0, &mut params[..]);
        Ok(params)
    }
}
