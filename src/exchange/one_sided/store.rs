//! Where the parameters of an asynchronous exchange are, and how updates get there.

use std::ops::Range;

use super::Placement;
use crate::Result;
use crate::comm::{Comm, Stripes, Window, block};

/// Parameters that every rank adds to and reads, without anybody's help.
pub(super) trait Store {
    /// Copies the parameters to `params`.
    fn pull(&mut self, params: &mut [f32]) -> Result<()>;
    /// Adds `deltas`, and copies the sums to `params`.
    fn add(&mut self, deltas: &[f32], params: &mut [f32]) -> Result<()>;
    /// The numbers of updates that parts of the parameters had had when they were last copied before the last `add`, and
    /// when that `add` came; nothing where updates have no order.
    fn versions(&self) -> (&[u32], &[u32]) {
        (&[], &[])
    }
    /// Gives the memory back; *collective*.
    fn close(self: Box<Self>) -> Result<()>;
}

/// Parameters once for a node, in stripes.
pub(super) struct Near {
    stripes: Stripes,
    /// The first stripe that this rank adds to: ranks begin at different ones.
    first: usize,
    /// Updates that each stripe had had when it was last copied, and those before the last `add`.
    seen: Vec<u32>,
    read: Vec<u32>,
    added: Vec<u32>,
}

impl Near {
    /// All ranks must be on one node; *collective*.
    pub(super) fn new(comm: &dyn Comm, params: &[f32], racy: bool) -> Result<Self> {
        let stripes = Stripes::new(comm, params, racy)?;
        let count = stripes.count();
        let none = vec![0; count];
        Ok(Self {
            first: block(count, comm.size(), comm.rank()).start,
            stripes,
            seen: none.clone(),
            read: none.clone(),
            added: none,
        })
    }
}

impl Store for Near {
    fn pull(&mut self, params: &mut [f32]) -> Result<()> {
        for stripe in 0..self.stripes.count() {
            let range = self.stripes.range(stripe);
            self.seen[stripe] = self.stripes.read(stripe, &mut params[range]);
        }
        Ok(())
    }

    fn add(&mut self, deltas: &[f32], params: &mut [f32]) -> Result<()> {
        let count = self.stripes.count();
        self.read.copy_from_slice(&self.seen);
        for i in 0..count {
            let stripe = (self.first + i) % count;
            let range = self.stripes.range(stripe);
            let before = (self.stripes).add(stripe, &deltas[range.clone()], &mut params[range]);
            self.added[stripe] = before;
            self.seen[stripe] = before.wrapping_add(1);
        }
        Ok(())
    }

    fn versions(&self) -> (&[u32], &[u32]) {
        (&self.read, &self.added)
    }

    fn close(self: Box<Self>) -> Result<()> {
        self.stripes.close()
    }
}

/// Parameters in windows of their owners: one call to each owner for an update and the parameters after it.
pub(super) struct Far {
    window: Box<dyn Window>,
    /// Owners and what they hold, in the order in which this rank calls them: ranks begin behind themselves.
    parts: Vec<(usize, Range<usize>)>,
}

impl Far {
    /// *Collective*.
    pub(super) fn new(comm: &dyn Comm, params: &[f32], placement: Placement) -> Result<Self> {
        let (size, rank) = (comm.size(), comm.rank());
        let mine = placement.part(params.len(), size, rank);
        let parts = (0..size).map(|i| (rank + i) % size);
        let parts = parts.map(|owner| (owner, placement.part(params.len(), size, owner)));
        Ok(Self {
            window: comm.window(&params[mine])?,
            parts: parts.filter(|(_, part)| !part.is_empty()).collect(),
        })
    }
}

impl Store for Far {
    fn pull(&mut self, params: &mut [f32]) -> Result<()> {
        let mut parts = self.parts.iter();
        parts.try_for_each(|(owner, part)| self.window.get(*owner, 0, &mut params[part.clone()]))
    }

    fn add(&mut self, deltas: &[f32], params: &mut [f32]) -> Result<()> {
        let mut parts = self.parts.iter();
        parts.try_for_each(|(owner, part)| {
            let (deltas, params) = (&deltas[part.clone()], &mut params[part.clone()]);
            self.window.add(*owner, 0, deltas, params)
        })
    }

    fn close(self: Box<Self>) -> Result<()> {
        self.window.close()
    }
}
