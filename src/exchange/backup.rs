//! Synchronous with backup: a step takes the first gradients that are ready, and goes on without those that are late.
//!
//! After Chen et al. (2016). The step's samples are divided over all P ranks, and the mean is taken over those of the first
//! N. The rank that completes them adds up and moves the parameters, alone; then the next step begins. A rank that is late
//! throws its gradients away, and leaves out all steps that have been taken meanwhile. Parameters and what the optimizer
//! remembers are in shared memory of one node, so that any rank may be the one that moves them. Cost of a step with n
//! parameters: 4·n·(N + 2) bytes read or written by one rank, as much as the optimizer remembers read and written twice,
//! and 4·n bytes copied by each rank that begins the next step.

use std::ops::Range;
use std::time::{Duration, Instant};

use super::{Conduct, Exchange, FINISHED, Spent, Start, Tail, saved};
use crate::Result;
use crate::checkpoint::{Checkpoint, Snapshot};
use crate::comm::{Comm, Gate, Moving, Pause, block, tree_sum};
use crate::nn::{Arenas, Grads, Params};
use crate::observe::timeline::{self, Kind};
use crate::optim::{Mover, Part};

/// Steps are taken by the first ranks that are ready.
pub struct Backup<'c> {
    comm: &'c dyn Comm,
    alone: Box<dyn Comm>,
    gate: Gate,
    /// Gradients that a step takes.
    take: usize,
    /// The parameters that this rank's step began with.
    params: Vec<f32>,
    cuts: [usize; 2],
    step: u64,
    conduct: Conduct,
}

impl<'c> Backup<'c> {
    /// Takes steps from `params`, equal on every rank, each with the first `take` gradients, by an optimizer that remembers
    /// so many values of each parameter as the start says; all ranks must be on one node; *collective*.
    pub fn new(comm: &'c dyn Comm, params: &[f32], take: usize, start: &Start) -> Result<Self> {
        let gate = Gate::new(comm, params, start.state * params.len(), Tail::LEN)?;
        gate.skip_to(start.first);
        comm.barrier();
        Ok(Self {
            comm,
            alone: comm.split(comm.rank()),
            gate,
            take,
            params: params.to_vec(),
            cuts: [0, params.len()],
            step: 0,
            conduct: Conduct::default(),
        })
    }

    /// Waits until `step` is the next one or past; gives the next one.
    fn wait_for(&self, step: u64) -> u64 {
        let (start, mut pause) = (Instant::now(), Pause::default());
        loop {
            let next = self.gate.next();
            if next >= step {
                timeline::span(Kind::Wait, 0, start);
                return next;
            }
            pause.once();
        }
    }

    /// A step whose gradients are not used.
    fn late(&mut self) -> Tail {
        self.conduct.dropped += 1;
        Tail::default()
    }
}

/// Moves the parameters along the mean of the gradients that are there, unless one has a fault; gives the sum of their tails,
/// and whether it did.
fn advance(moving: Moving, lr: f32, cuts: &[usize], mover: &mut Mover) -> (Vec<f32>, bool) {
    let Moving {
        params,
        extra,
        updates,
        arrived,
    } = moving;
    let len = params.len();
    let mut tail = vec![0.0; Tail::LEN];
    tree_sum(arrived.len(), |i| &arrived[i][len..], &mut tail);
    let team = Tail::read(&tail);
    if team.faults > 0 {
        return (tail, false);
    }
    // Gradients are shares of the mean over all samples of the step; those that are there are to count for all.
    let factor = (1.0 / team.share) as f32;
    mover.resume(0..len, updates, extra);
    let gradient = |range: Range<usize>, out: &mut [f32]| {
        tree_sum(arrived.len(), |i| &arrived[i][range.clone()], out);
        out.iter_mut().for_each(|value| *value *= factor);
    };
    mover.step(lr, Part::whole(params, cuts), gradient, |_| {});
    mover.remember(extra);
    (tail, true)
}

impl Exchange for Backup<'_> {
    fn team(&self) -> &dyn Comm {
        &*self.alone
    }

    fn place(&self) -> (usize, usize) {
        (self.comm.rank(), self.comm.size())
    }

    fn claim(&mut self, claimed: u64) -> Result<u64> {
        // Only the end is ever so far ahead.
        let next = self.gate.next();
        Ok(if next >= FINISHED { next } else { claimed })
    }

    fn ready(&mut self, step: u64) -> Result<Option<Duration>> {
        let start = Instant::now();
        self.step = step;
        if self.wait_for(step) > step {
            self.late();
            return Ok(None);
        }
        let wait = start.elapsed();
        self.gate.read(&mut self.params);
        Ok(Some(wait))
    }

    fn params(&self) -> Params<'_> {
        Params::Host(&self.params)
    }

    fn arenas(&mut self) -> Arenas<'_> {
        let len = self.params.len();
        Arenas {
            team: &*self.alone,
            params: Params::Host(&self.params),
            grads: Grads::Host(&mut self.gate.grads()[..len]),
            courier: None,
        }
    }

    fn step(&mut self, mine: Tail, lr: f32, mover: &mut Mover) -> Result<(Tail, Spent)> {
        let start = Instant::now();
        let len = self.params.len();
        mine.write(&mut self.gate.grads()[len..]);
        let (step, cuts) = (self.step, self.cuts);
        let work = |moving: Moving| advance(moving, lr, &cuts, mover);
        let in_time = self.gate.arrive(step, self.take, work);
        let exchange = start.elapsed();
        if !in_time {
            let wait = Duration::ZERO;
            return Ok((self.late(), Spent { exchange, wait }));
        }
        let next = self.wait_for(step + 1);
        let wait = start.elapsed() - exchange;
        if next >= FINISHED {
            // The run ended while this rank waited for others.
            self.gate.withdraw();
            return Ok((self.late(), Spent { exchange, wait }));
        }
        self.conduct.updates += 1;
        let mut tail = [0.0; Tail::LEN];
        self.gate.result(&mut tail);
        Ok((Tail::read(&tail), Spent { exchange, wait }))
    }

    fn finish(&mut self) -> Result<()> {
        self.gate.skip_to(FINISHED);
        Ok(())
    }

    fn conduct(&self) -> Conduct {
        self.conduct.clone()
    }

    /// As the parameters are now, whoever has moved them last; this rank's block of them.
    fn save(&mut self, mover: &mut Mover, to: &mut Snapshot) -> Result<()> {
        let of = self.params.len();
        let share = block(of, self.comm.size(), self.comm.rank());
        let (start, len) = (share.start, share.len());
        let values = to.common(saved::PARAMETERS, start, len, of);
        let updates = self.gate.copy(share.clone(), values);
        for i in 0..mover.state() {
            let values = to.common(&saved::memory(i), start, len, of);
            let there = (i + 1) * of + share.start..(i + 1) * of + share.end;
            self.gate.copy(there, values);
        }
        mover.go_on(updates);
        Ok(())
    }

    fn load(
        &mut self,
        mover: &mut Mover,
        updates: u64,
        from: &Checkpoint,
        _part: usize,
    ) -> Result<()> {
        let of = self.params.len();
        if self.comm.rank() == 0 {
            let mut values = vec![0.0; of];
            for i in 0..mover.state() {
                from.read(&saved::memory(i), 0..of, &mut values)?;
                self.gate.fill((i + 1) * of, &values);
            }
            self.gate.go_on(updates);
        }
        self.comm.barrier();
        Ok(())
    }

    fn settle(mut self: Box<Self>) -> Result<Vec<f32>> {
        self.comm.barrier();
        self.gate.read(&mut self.params);
        self.comm.barrier();
        self.gate.close_all()?;
        Ok(self.params)
    }
}
