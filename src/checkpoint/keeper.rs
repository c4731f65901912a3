//! One rank's side of a run's checkpoints: what is being written, and what became of it.

use std::path::PathBuf;

use super::part::Place;
use super::writer::{Done, Job, Writer};
use super::{Manifest, Snapshot, Store};
use crate::comm::{Comm, agree};
use crate::{Error, Result};

/// Has this rank's parts written by a thread of its own, and on the first rank the manifests too.
///
/// One checkpoint at a time: [`begin`](Self::begin) on every rank at its turn; [`is_over`](Self::is_over) tells when the rank's
/// part is; once the ranks know that all are, by whatever way they have, [`conclude`](Self::conclude) on every rank. None of
/// these waits or enters MPI. [`finish`](Self::finish) and [`write`](Self::write) do both.
pub struct Keeper {
    writer: Writer,
    rank: usize,
    ranks: usize,
    keep: usize,
    /// The memory of the last snapshot, unless it is being written.
    spare: Option<Snapshot>,
    pending: Option<Pending>,
    /// Manifests and removals on their way.
    errands: usize,
    kept: Kept,
    /// Why the last one failed.
    fault: Option<Error>,
}

struct Pending {
    step: u64,
    /// On the first rank.
    manifest: Option<Box<Manifest>>,
    /// What became of this rank's part; none while it is being written.
    mine: Option<Result<()>>,
}

/// How many checkpoints a run has written, as its first rank knows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Kept {
    /// Whole ones.
    pub written: u64,
    /// Those that were not.
    pub failed: u64,
    /// The step of the newest.
    pub newest: Option<u64>,
}

impl Keeper {
    /// Writes into `store`, and keeps the `keep` newest and the best; `before` are files that must be as durable as a checkpoint
    /// when it appears.
    pub fn new(comm: &dyn Comm, store: Store, keep: usize, before: Vec<PathBuf>) -> Result<Self> {
        Ok(Self {
            writer: Writer::start(store, before)?,
            rank: comm.rank(),
            ranks: comm.size(),
            keep,
            spare: Some(Snapshot::default()),
            pending: None,
            errands: 0,
            kept: Kept::default(),
            fault: None,
        })
    }

    /// The step of the checkpoint that is being written, if one is.
    pub fn pending(&self) -> Option<u64> {
        self.pending.as_ref().map(|pending| pending.step)
    }

    /// What the first rank knows of those written so far.
    pub fn kept(&mut self) -> Kept {
        self.poll();
        self.kept
    }

    /// Begins the checkpoint of `manifest.step`: has `fill` copy what this rank gives to it, and has that written. Only the
    /// first rank's manifest counts. The one before must be concluded.
    pub fn begin(
        &mut self,
        manifest: Manifest,
        fill: impl FnOnce(&mut Snapshot) -> Result<()>,
    ) -> Result<()> {
        assert!(self.pending.is_none(), "one checkpoint at a time");
        let step = manifest.step;
        let mut snapshot = self.spare.take().expect("no part is being written");
        snapshot.clear();
        if let Err(error) = fill(&mut snapshot) {
            self.spare = Some(snapshot);
            return Err(error);
        }
        let (rank, ranks) = (self.rank, self.ranks);
        (self.writer).send(Job::Part(snapshot, Place { step, rank, ranks }));
        self.pending = Some(Pending {
            step,
            manifest: (rank == 0).then(|| Box::new(manifest)),
            mine: None,
        });
        Ok(())
    }

    /// Whether this rank's part of the pending checkpoint is over, and if so whether it is good.
    pub fn is_over(&mut self) -> Option<bool> {
        self.poll();
        let mine = self.pending.as_ref()?.mine.as_ref()?;
        Some(mine.is_ok())
    }

    /// The parts of all ranks are over, and all `good` or not: the checkpoint gets its manifest and its name, or is removed.
    pub fn conclude(&mut self, good: bool) {
        self.kept.failed += u64::from(self.rank == 0 && !good);
        self.close(good);
    }

    fn close(&mut self, good: bool) {
        let pending = self.pending.take().expect("one is pending");
        let mine = pending.mine.expect("all parts are over");
        if let Err(error) = mine {
            self.fault = Some(error);
        }
        let Some(manifest) = pending.manifest else {
            return;
        };
        self.errands += 1;
        match good {
            true => (self.writer).send(Job::Commit(manifest, self.ranks, self.keep)),
            false => self.writer.send(Job::Abandon(manifest.step)),
        }
    }

    /// Waits until nothing is being written any more, and concludes what is pending; `show` is called while writing goes
    /// forward; *collective*. One that not all ranks have begun is given up.
    pub fn finish(&mut self, comm: &dyn Comm, show: &mut dyn FnMut()) {
        self.wait_for_part(show);
        let begun = self.pending().map_or(0, |step| step + 1);
        let failed = self.is_over() == Some(false);
        let mut most = [begun, !begun, u64::from(failed)];
        comm.max(&mut most);
        match most[0] == !most[1] {
            _ if self.pending.is_none() => {}
            true => self.conclude(most[2] == 0),
            false => self.close(false),
        }
        self.wait_for_errands(show);
    }

    /// Writes a whole checkpoint before it returns, and tells on every rank why it could not; `show` is called while writing
    /// goes forward; *collective*.
    pub fn write(
        &mut self,
        comm: &dyn Comm,
        manifest: Manifest,
        fill: impl FnOnce(&mut Snapshot) -> Result<()>,
        show: &mut dyn FnMut(),
    ) -> Result<()> {
        self.finish(comm, show);
        self.fault = None;
        let begun = self.begin(manifest, fill);
        agree(comm, begun)?;
        self.finish(comm, show);
        agree(comm, self.fault.take().map_or(Ok(()), Err))
    }

    fn wait_for_part(&mut self, show: &mut dyn FnMut()) {
        while self.pending.is_some() && self.is_over().is_none() {
            let done = self.writer.wait(show);
            self.note(done);
        }
    }

    fn wait_for_errands(&mut self, show: &mut dyn FnMut()) {
        while self.errands > 0 {
            let done = self.writer.wait(show);
            self.note(done);
        }
    }

    fn poll(&mut self) {
        while let Some(done) = self.writer.poll() {
            self.note(done);
        }
    }

    fn note(&mut self, done: Done) {
        let warn = |step: u64, error: &Error| {
            log::warn!(
                "the checkpoint of step {step} was not written: {error}; training goes on, and older checkpoints stay"
            );
        };
        match done {
            Done::Part(snapshot, written) => {
                self.spare = Some(snapshot);
                let pending = self.pending.as_mut().expect("its part is not concluded");
                if let Err(error) = &written {
                    warn(pending.step, error);
                }
                pending.mine = Some(written);
            }
            Done::Abandon => self.errands -= 1,
            Done::Commit(step, Ok(())) => {
                self.errands -= 1;
                self.kept.written += 1;
                self.kept.newest = Some(step);
            }
            Done::Commit(step, Err(error)) => {
                self.errands -= 1;
                self.kept.failed += 1;
                warn(step, &error);
                self.fault = Some(error);
            }
        }
    }
}
