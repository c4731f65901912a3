//! Synchronous, with parameters, gradients and the optimizer's state on a device of each rank.
//!
//! Cost of a step: with one rank nothing crosses to the host but the tally. With several, each rank's gradients are added up over
//! all, `MPI_Allreduce` of 4·n bytes for n parameters: in the devices' memory where MPI can, else bucket by bucket
//! through pinned memory, whose copies begin while gradients of the layers before are still computed. Every rank then
//! takes the whole step on its device.

mod outbox;

use std::rc::Rc;
use std::time::Instant;

use super::{Exchange, Spent, Start, Tail, saved};
use crate::backend::cuda::{Buffer, Stream, reduce};
use crate::checkpoint::{Checkpoint, Snapshot};
use crate::comm::{Comm, block};
use crate::nn::{Arenas, Grads, Outlet, Params};
use crate::optim::{Mover, There};
use crate::{Error, Result};
use outbox::Outbox;

/// One step in so many starts with a barrier, which tells waiting from exchanging; the others are split in the same
/// proportion.
const PROBE_EVERY: u64 = 16;

/// All ranks are one team.
pub struct OnDevice<'c> {
    comm: &'c dyn Comm,
    stream: Rc<Stream>,
    params: Buffer<f32>,
    grads: Buffer<f32>,
    /// What the optimizer remembers, needs to know, and works in.
    memory: Buffer<f32>,
    sums: Buffer<f64>,
    scratch: Buffer<f64>,
    /// How gradients reach other ranks, if there are any: by way of the host, or into a place for their sums.
    way: Way,
    taken: u64,
    /// Share of the exchange that was waiting, when last measured.
    waiting: f64,
}

/// How gradients reach other ranks.
enum Way {
    Alone,
    Staged(Outbox),
    Direct(Buffer<f32>),
}

impl<'c> OnDevice<'c> {
    /// Takes steps from `params`, equal on every rank.
    pub fn new(comm: &'c dyn Comm, params: Vec<f32>, start: Start) -> Result<Self> {
        let stream = start.stream.ok_or_else(|| {
            Error::Usage("an exchange on devices needs a model on a device".into())
        })?;
        let (device, len) = (stream.device(), params.len());
        let way = match comm.sums_on_devices() {
            _ if comm.size() == 1 => Way::Alone,
            true => Way::Direct(Buffer::new(device, len)?),
            false => Way::Staged(Outbox::new(device, len)?),
        };
        Ok(Self {
            comm,
            params: stream.buffer(&params)?,
            grads: stream.zeros(len)?,
            memory: stream.zeros(len * start.state)?,
            sums: stream.zeros(start.sums)?,
            scratch: Buffer::new(device, reduce::SCRATCH)?,
            way,
            taken: 0,
            waiting: 0.0,
            stream,
        })
    }

    /// How gradients reach other ranks, for the user.
    pub fn way(comm: &dyn Comm) -> &'static str {
        match comm.sums_on_devices() {
            _ if comm.size() == 1 => "nothing leaves the device but the tally",
            true => "gradients added up there by a CUDA-aware MPI",
            false => "gradients added up by way of pinned memory",
        }
    }

    /// Bytes that it takes on a device for so many parameters, of which the optimizer remembers `state` values each.
    pub fn bytes(comm: &dyn Comm, params: usize, state: usize) -> u64 {
        let sums = usize::from(comm.size() > 1 && comm.sums_on_devices());
        (4 * params * (2 + sums + state) + 8 * (reduce::SCRATCH + 1)) as u64
    }

    /// Adds the gradients up over all ranks.
    fn add_up(&mut self) -> Result<()> {
        match &mut self.way {
            Way::Alone => Ok(()),
            Way::Staged(outbox) => outbox.add_up(self.comm, &self.stream, self.grads.view_mut()),
            Way::Direct(sums) => {
                // MPI reads what kernels have written, and writes what they have read.
                self.stream.wait()?;
                (self.comm).sum_on_device(self.grads.view(), sums.view_mut())?;
                std::mem::swap(&mut self.grads, sums);
                Ok(())
            }
        }
    }

    fn update(&mut self, lr: f32, mover: &mut Mover) -> Result<()> {
        mover.step_there(
            lr,
            There {
                stream: &self.stream,
                params: self.params.view_mut(),
                grads: self.grads.view_mut(),
                memory: self.memory.view_mut(),
                sums: self.sums.view_mut(),
                scratch: self.scratch.view_mut(),
            },
        )
    }
}

impl Exchange for OnDevice<'_> {
    fn team(&self) -> &dyn Comm {
        self.comm
    }

    fn params(&self) -> Params<'_> {
        Params::Device(&self.stream, self.params.view())
    }

    fn arenas(&mut self) -> Arenas<'_> {
        let outlet = match &mut self.way {
            Way::Staged(outbox) => Some(outbox as &mut dyn Outlet),
            _ => None,
        };
        Arenas {
            team: self.comm,
            params: Params::Device(&self.stream, self.params.view()),
            grads: Grads::Device(self.grads.view_mut(), outlet),
            courier: None,
        }
    }

    fn step(&mut self, mine: Tail, lr: f32, mover: &mut Mover) -> Result<(Tail, Spent)> {
        let start = Instant::now();
        let probe = self.taken.is_multiple_of(PROBE_EVERY) && self.comm.size() > 1;
        self.taken += 1;
        if probe {
            self.comm.barrier();
        }
        let arrived = start.elapsed();
        let mut tail = [0.0; Tail::LEN];
        mine.write(&mut tail);
        self.comm.sum(&mut tail[..]);
        let team = Tail::read(&tail);
        self.add_up()?;
        if team.faults == 0 {
            self.update(lr, mover)?;
        }
        let total = start.elapsed();
        if probe {
            self.waiting = arrived.as_secs_f64() / total.as_secs_f64().max(1e-9);
        }
        let wait = total.mul_f64(self.waiting);
        let exchange = total - wait;
        Ok((team, Spent { exchange, wait }))
    }

    fn save(&mut self, mover: &mut Mover, to: &mut Snapshot) -> Result<()> {
        let of = self.params.len();
        let share = block(of, self.comm.size(), self.comm.rank());
        let (start, len) = (share.start, share.len());
        let values = to.common(saved::PARAMETERS, start, len, of);
        (self.stream).download(self.params.view().part(share.clone()), values)?;
        for i in 0..mover.state() {
            let values = to.common(&saved::memory(i), start, len, of);
            let there = i * of + share.start..i * of + share.end;
            (self.stream).download(self.memory.view().part(there), values)?;
        }
        Ok(())
    }

    fn load(
        &mut self,
        mover: &mut Mover,
        updates: u64,
        from: &Checkpoint,
        _part: usize,
    ) -> Result<()> {
        mover.go_on(updates);
        let of = self.params.len();
        let mut values = vec![0.0; of];
        for i in 0..mover.state() {
            from.read(&saved::memory(i), 0..of, &mut values)?;
            let there = self.memory.view_mut().part(i * of..(i + 1) * of);
            self.stream.upload(&values, there)?;
        }
        Ok(())
    }

    fn settle(self: Box<Self>) -> Result<Vec<f32>> {
        let mut params = self.stream.values(self.params.view())?;
        // MPI advises, but does not promise, that all ranks get the same bits from a sum.
        self.comm.broadcast(0, &mut params[..]);
        Ok(params)
    }
}
