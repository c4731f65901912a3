//! The thread that writes checkpoints while training goes on. It never enters MPI.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use super::part::{self, Place};
use super::{Manifest, Snapshot, Store};
use crate::{Error, Result};

/// What the thread is to do, one after the other.
pub(super) enum Job {
    /// Write this rank's part.
    Part(Snapshot, Place),
    /// Give a checkpoint of so many parts its manifest and its name, and then keep so many.
    Commit(Box<Manifest>, usize, usize),
    /// Remove what there is of one that failed.
    Abandon(u64),
}

/// What it has done.
pub(super) enum Done {
    Part(Snapshot, Result<()>),
    Commit(u64, Result<()>),
    Abandon,
}

pub(super) struct Writer {
    /// None only while it ends.
    jobs: Option<Sender<Job>>,
    done: Receiver<Done>,
    /// Grows with every step forward.
    moves: Arc<AtomicU64>,
    thread: Option<JoinHandle<()>>,
}

impl Writer {
    /// Writes into `store`; before a checkpoint gets its name, the files `before` are made as durable.
    pub(super) fn start(store: Store, before: Vec<PathBuf>) -> Result<Self> {
        let (jobs, todo) = channel();
        let (tell, done) = channel();
        let moves = Arc::new(AtomicU64::new(0));
        let seen = moves.clone();
        let work = move || {
            let advanced = || {
                seen.fetch_add(1, Ordering::Relaxed);
            };
            while let Ok(job) = todo.recv() {
                // Who does not listen any more has ended.
                let _ = tell.send(work(&store, &before, job, &advanced));
            }
        };
        let thread = thread::Builder::new()
            .name("phalanx checkpoint".into())
            .spawn(work)
            .map_err(Error::io("start a thread for", "checkpoints"))?;
        Ok(Self {
            jobs: Some(jobs),
            done,
            moves,
            thread: Some(thread),
        })
    }

    pub(super) fn send(&self, job: Job) {
        let jobs = self.jobs.as_ref().expect("it has not ended");
        jobs.send(job)
            .expect("the thread listens until it is told to end");
    }

    /// What has been done, if anything has since the last call.
    pub(super) fn poll(&self) -> Option<Done> {
        self.done.try_recv().ok()
    }

    /// Waits for the next thing done; `show` is called now and then while it goes forward.
    pub(super) fn wait(&self, show: &mut dyn FnMut()) -> Done {
        let mut last = self.moves.load(Ordering::Relaxed);
        loop {
            match self.done.recv_timeout(Duration::from_millis(50)) {
                Ok(done) => return done,
                Err(RecvTimeoutError::Timeout) => {
                    let moves = self.moves.load(Ordering::Relaxed);
                    if moves != last {
                        last = moves;
                        show();
                    }
                }
                Err(RecvTimeoutError::Disconnected) => panic!("the thread that writes is gone"),
            }
        }
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        self.jobs = None;
        if let Some(thread) = self.thread.take() {
            // A panic in it has been told by itself.
            let _ = thread.join();
        }
    }
}

fn work(store: &Store, before: &[PathBuf], job: Job, advanced: &dyn Fn()) -> Done {
    match job {
        Job::Part(snapshot, place) => {
            let written = part::write(&store.staging(place.step), place, &snapshot, advanced);
            Done::Part(snapshot, written)
        }
        Job::Commit(manifest, ranks, keep) => {
            let step = manifest.step;
            let put = store.commit(*manifest, ranks, before);
            if put.is_ok()
                && let Err(error) = store.prune(step, keep)
            {
                log::warn!("an old checkpoint stays: {error}");
            }
            advanced();
            Done::Commit(step, put)
        }
        Job::Abandon(step) => {
            store.abandon(step);
            Done::Abandon
        }
    }
}
