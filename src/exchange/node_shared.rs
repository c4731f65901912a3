//! Synchronous: ranks of a node add up gradients in shared memory, each its slice, without a message; owners of the same
//! slice on other nodes add it up by messages.
//!
//! Parameters are there once for each node, and gradients are computed where others can read them: nothing is copied.
//! Cost of a step with n parameters and P ranks on a node: two meetings, and 4·n·(1 + 2/P) bytes read or written by each
//! rank: its slice of everyone's gradients, and its slice of the parameters. With N nodes, each rank takes part in one
//! `MPI_Allreduce` of its slice, 4·n/P bytes over N ranks, all slices at the same time, and in one of the tail. Sums run by
//! a tree over ranks, on one rank only, so the result repeats and is the same bits everywhere. Optimizer and its state are
//! spread over ranks with the slices; one that must know norms reads gradients twice and costs an `MPI_Allreduce` of these
//! few numbers.

use std::rc::Rc;
use std::time::Instant;

use super::{Exchange, Spent, Tail, saved};
use crate::Result;
use crate::checkpoint::{Checkpoint, Snapshot};
use crate::comm::{BUCKET, Comm, Division, Slices, block, cuts};
use crate::nn::{Arenas, Grads, Params};
use crate::observe::timeline::{self, Kind};
use crate::optim::{Mover, Part};

/// All ranks are one team.
pub struct NodeShared<'c> {
    comm: &'c dyn Comm,
    node: Rc<dyn Comm>,
    slices: Slices,
    /// The owners of this rank's slice, one of each node, if there are others.
    across: Option<Box<dyn Comm>>,
    /// Where this rank's slice is cut into leaves.
    cuts: Vec<usize>,
    /// Whether sums do not depend on the number of ranks.
    reproducible: bool,
}

impl<'c> NodeShared<'c> {
    /// Takes steps from `params`, equal on every rank; *collective*. With `shards`, sums are the same bits for any number
    /// of ranks that divides them.
    pub fn new(comm: &'c dyn Comm, params: Vec<f32>, shards: Option<usize>) -> Result<Self> {
        let owners = owners(comm);
        let leaves = shards.unwrap_or(owners);
        let division = Division { owners, leaves };
        let across = (comm.local_size() < comm.size())
            .then(|| comm.split(comm.local_rank().min(owners)))
            // Those without a slice have nothing to add up.
            .filter(|_| comm.local_rank() < owners);
        let node: Rc<dyn Comm> = comm.node().into();
        let cuts = cuts(params.len(), leaves, division.of(comm.local_rank()));
        let slices = Slices::new(node.clone(), params, Tail::LEN, division)?;
        Ok(Self {
            comm,
            node,
            across,
            cuts,
            slices,
            reproducible: shards.is_some(),
        })
    }

    /// Whether there are other nodes.
    fn spans_nodes(&self) -> bool {
        self.comm.local_size() < self.comm.size()
    }
}

/// The ranks of each node that own a slice: as many as the node with the fewest ranks has; *collective*.
fn owners(comm: &dyn Comm) -> usize {
    let mut most_missing = [(comm.size() - comm.local_size()) as u64];
    comm.max(&mut most_missing);
    comm.size() - most_missing[0] as usize
}

impl Exchange for NodeShared<'_> {
    fn team(&self) -> &dyn Comm {
        self.comm
    }

    fn params(&self) -> Params<'_> {
        Params::Host(self.slices.params())
    }

    fn arenas(&mut self) -> Arenas<'_> {
        let (params, values) = self.slices.arenas();
        let grads = &mut values[..params.len()];
        let team = self.comm;
        Arenas {
            team,
            params: Params::Host(params),
            grads: Grads::Host(grads),
            courier: None,
        }
    }

    fn step(&mut self, mine: Tail, lr: f32, mover: &mut Mover) -> Result<(Tail, Spent)> {
        let start = Instant::now();
        let spans_nodes = self.spans_nodes();
        let (params, values) = self.slices.arenas();
        mine.write(&mut values[params.len()..]);
        let mut team = Tail::default();
        let (comm, node, across) = (self.comm, &self.node, &self.across);
        let (reproducible, cuts) = (self.reproducible, &self.cuts);
        let wait = self.slices.round(|round| {
            let sums = round.sums();
            let mut tail = [0.0; Tail::LEN];
            if spans_nodes {
                mine.write(&mut tail);
                add_up(comm, reproducible, &mut tail);
            } else {
                sums.tail(&mut tail);
            }
            team = Tail::read(&tail);
            if team.faults > 0 {
                return;
            }
            let total = |sums: &mut [f64]| match reproducible {
                true => node.tree_sum(sums),
                false => node.sum(sums),
            };
            let (at, params) = (round.at, round.params);
            let part = Part { at, params, cuts };
            let mut begin = Instant::now();
            match across {
                None => mover.step(lr, part, |range, out| sums.grads(range, out), total),
                Some(across) => {
                    let mut number = 0;
                    let all = sums.settle(BUCKET, |bucket| {
                        let begin = Instant::now();
                        add_up(&**across, reproducible, bucket);
                        timeline::span(Kind::Bucket, number, begin);
                        number += 1;
                    });
                    begin = Instant::now();
                    mover.step(
                        lr,
                        part,
                        |range, out| out.copy_from_slice(&all[range]),
                        total,
                    );
                }
            }
            timeline::span(Kind::Update, 0, begin);
        });
        let exchange = start.elapsed().saturating_sub(wait);
        Ok((team, Spent { exchange, wait }))
    }

    fn save(&mut self, mover: &mut Mover, to: &mut Snapshot) -> Result<()> {
        let held = self.slices.mine();
        // Owners of the same slice divide it among themselves.
        let (nodes, node) = (self.across.as_ref()).map_or((1, 0), |all| (all.size(), all.rank()));
        let part = block(held.len(), nodes, node);
        let share = held.start + part.start..held.start + part.end;
        saved::save(to, mover, self.slices.params(), held, share);
        Ok(())
    }

    fn load(
        &mut self,
        mover: &mut Mover,
        updates: u64,
        from: &Checkpoint,
        _part: usize,
    ) -> Result<()> {
        saved::load(from, mover, updates, self.slices.mine())
    }

    fn settle(self: Box<Self>) -> Result<Vec<f32>> {
        let mut params = self.slices.settle()?;
        if self.comm.local_size() < self.comm.size() {
            // MPI advises, but does not promise, that all nodes get the same bits from a sum.
            self.comm.broadcast(0, &mut params[..]);
        }
        Ok(params)
    }
}

/// The sum over ranks, by the tree if it is not to depend on their number.
fn add_up(comm: &dyn Comm, reproducible: bool, values: &mut [f32]) {
    match reproducible {
        true => comm.tree_sum(values),
        false => comm.sum(values),
    }
}
