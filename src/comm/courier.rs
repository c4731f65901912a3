//! A second thread that adds up over ranks while the first one computes.
#![allow(unsafe_code)]

use std::sync::mpsc::channel;
use std::thread;

use super::{BUCKET, Comm};
use crate::{Error, Result};

/// Talks to other ranks on a thread of its own: adds up parts of the gradients as soon as they are there, or brings the next
/// panel of a matrix while the last one is multiplied.
///
/// Blocking calls on a second thread overlap where non-blocking ones would not: MPI makes progress only while some thread is
/// inside it. It pays where a core is free for that thread.
pub struct Courier {
    /// Groups that nobody else talks to.
    comms: Vec<Box<dyn Comm>>,
}

/// What the second thread gets of a courier.
struct Loan<'a>(&'a [Box<dyn Comm>]);

// SAFETY: the groups are the courier's alone, and the courier is borrowed for as long as the second thread lives: only one
// thread uses them at a time. MPI was asked whether another thread than the first may call it.
unsafe impl Send for Loan<'_> {}

impl Courier {
    /// For the ranks of `comm`; *collective*.
    pub fn new(comm: &dyn Comm) -> Result<Self> {
        if !super::mpi::other_threads_may_talk() {
            let problem = "--overlap needs an MPI that lets another thread than the first call it (MPI_THREAD_SERIALIZED)";
            return Err(Error::Usage(problem.into()));
        }
        Ok(Self {
            comms: vec![comm.split(0)],
        })
    }

    /// For groups that nobody else will talk to.
    pub fn of(comms: Vec<Box<dyn Comm>>) -> Self {
        Self { comms }
    }

    /// Lets `talk` use the groups while `work`, which must not talk to other ranks, is done; one behind the other where MPI
    /// does not let another thread than the first call it.
    pub fn beside<R, T>(
        &mut self,
        talk: impl FnOnce(&[Box<dyn Comm>]) -> R + Send,
        work: impl FnOnce() -> T,
    ) -> (R, T)
    where
        R: Send,
    {
        if !super::mpi::other_threads_may_talk() {
            return (talk(&self.comms), work());
        }
        let loan = Loan(&self.comms);
        thread::scope(|scope| {
            let talks = move || {
                let loan = loan;
                talk(loan.0)
            };
            let talking = scope.spawn(talks);
            let done = work();
            (talking.join().expect("talking does not panic"), done)
        })
    }

    /// Lets `talk` use the groups.
    pub fn alone<R>(&mut self, talk: impl FnOnce(&[Box<dyn Comm>]) -> R) -> R {
        talk(&self.comms)
    }

    /// Does `work`, which hands over parts as they are ready, the same ones in the same order on every rank; when it
    /// returns, all of them hold their sums over ranks. `work` itself must not talk to other ranks; *collective*.
    pub fn overlap<'a, T>(&mut self, work: impl FnOnce(&mut dyn FnMut(&'a mut [f32])) -> T) -> T {
        thread::scope(|scope| {
            let (hand, parts) = channel::<&'a mut [f32]>();
            let loan = Loan(&self.comms);
            let adds = move || {
                let loan = loan;
                for part in parts {
                    part.chunks_mut(BUCKET)
                        .for_each(|bucket| loan.0[0].sum(bucket));
                }
            };
            let adder = scope.spawn(adds);
            // A thread that is gone has panicked, which ends the job.
            let done = work(&mut |part| hand.send(part).expect("the adding thread is there"));
            drop(hand);
            adder.join().expect("sums do not panic");
            done
        })
    }
}
