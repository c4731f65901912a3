//! What is done beside steps in a turn, by what does it in a run.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::Value;

use super::{EVERY, Extra, Scratch, Steady};
use crate::checkpoint::{Keeper, Store, When};
use crate::comm::agree;
use crate::observe::resources::{Pulse, Records, Sampler, Who};
use crate::observe::tensorboard::EventFile;
use crate::observe::timeline::{self, Log};
use crate::train::{Events, Every, Journal, Saver, Tap, Terms, Watched, rank_folder};
use crate::{Error, Result};

/// How many times as often as in a run samples are taken.
const OFTEN: u32 = 20;
/// Checkpoints that are kept, as by default.
const KEEP: usize = 2;

/// What does it.
pub(super) enum Beside {
    Trace(Option<Log>),
    /// Takes note of steps, and looks at gradients now and then.
    Journal(Box<Journal>, Option<Tap>),
    Resources(Who),
    Checkpoint(Store),
}

impl Beside {
    /// Made ready; *collective*.
    pub(super) fn new(extra: Extra, steady: &Steady, scratch: &Scratch) -> Result<Self> {
        let Steady { comm, trainer, .. } = steady;
        let (rank, steps) = (comm.rank(), trainer.steps());
        let folder = rank_folder(&scratch.path, rank);
        // As `phalanx train` does where nothing else is asked for.
        let every = (Every::Epoch.at_first(steps) / 10).max(1);
        match extra {
            Extra::Trace => {
                timeline::start(comm.size());
                Ok(Self::Trace(timeline::take()))
            }
            Extra::Progress => {
                let path = scratch.path.join("metrics.csv");
                let journal = match rank {
                    0 => Journal::create(&path, Watched::Test, every, steps.total()),
                    _ => Ok(Journal::none()),
                };
                Ok(Self::Journal(Box::new(agree(*comm, journal)?), None))
            }
            Extra::TensorBoard => {
                let file = agree(*comm, EventFile::create(&folder))?;
                let pulse = Arc::new(Pulse::default());
                let events = Events::new(file, (every, 0), Watched::Test, pulse.clone());
                let mut journal = Journal::none();
                journal.attach(pulse, Some(events));
                journal.begin(&trainer.times);
                let tap = (rank == 0).then(|| Tap::new(Every::Epoch, trainer.times.steps, steps));
                Ok(Self::Journal(Box::new(journal), tap))
            }
            Extra::Resources => Ok(Self::Resources(Who {
                rank,
                ranks: comm.size(),
                is_first: comm.local_rank() == 0,
                folder,
                gpu: None,
            })),
            Extra::Checkpoint => Ok(Self::Checkpoint(Store::of(&scratch.path))),
        }
    }

    /// A turn with it: how long that took, and how often it was done in a unit of its own; *collective*.
    pub(super) fn turn(&mut self, steady: &mut Steady, steps: u64) -> Result<(f64, f64)> {
        let none = &mut Saver::none();
        match self {
            Self::Trace(log) => {
                if let Some(log) = log.take() {
                    timeline::go_on(log);
                }
                let taken = steady.take(steps);
                *log = timeline::take();
                Ok((taken?, 1.0))
            }
            Self::Journal(journal, tap) => {
                steady.trainer.tap = tap.take();
                let taken = steady.take_with(steps, journal, none);
                *tap = steady.trainer.tap.take();
                Ok((taken?, 1.0))
            }
            Self::Resources(who) => {
                let pulse = Arc::new(Pulse::default());
                let mut journal = Journal::none();
                journal.attach(pulse.clone(), None);
                journal.begin(&steady.trainer.times);
                let sampler = Sampler::open(Records::Csv, who.clone(), pulse, None).often(OFTEN);
                let taken = sampler.over(None, || steady.take_with(steps, &mut journal, none));
                Ok((taken?, f64::from(OFTEN)))
            }
            Self::Checkpoint(store) => checkpoints(store, steady, steps),
        }
    }

    /// How often it is done, in the unit of `turn`, in so many seconds of a run.
    pub(super) fn in_a_run(&self, seconds: f64) -> f64 {
        match self {
            Self::Checkpoint(_) => seconds / EVERY,
            // Those say in every turn how many times as often it was.
            _ => 2.0,
        }
    }
}

/// A turn in which checkpoints are written one behind the other, the last one waited for, and how many that were; *collective*.
fn checkpoints(store: &Store, steady: &mut Steady, steps: u64) -> Result<(f64, f64)> {
    let comm = steady.comm;
    let terms = Terms {
        every: Some(When::Time(Duration::ZERO)),
        until: None,
        facts: BTreeMap::new(),
        choices: Value::Null,
    };
    let keeper = agree(comm, Keeper::new(comm, store.clone(), KEEP, Vec::new()))?;
    // A new one each time: ranks that go their own ways have nothing left to do for the one before.
    let mut saver = Saver::new(comm, keeper, terms, steady.meeting())?;
    let trainer = &steady.trainer;
    saver.start(trainer.times.steps, trainer.steps(), None);
    let mut time = steady.take_with(steps, &mut Journal::none(), &mut saver)?;
    let begin = Instant::now();
    saver.finish();
    time += begin.elapsed().as_secs_f64();
    let mut counts = [0, 0];
    if let Some(kept) = saver.kept() {
        counts = [kept.written, kept.failed];
    }
    comm.broadcast(0, &mut counts);
    saver.close()?;
    match counts {
        [written, 0] => Ok((time, written as f64)),
        [_, failed] => {
            let problem = format!("{failed} checkpoints were not written");
            let hint = "the warning above says why";
            Err(Error::file(store.path(), problem, hint))
        }
    }
}
