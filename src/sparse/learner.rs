//! One rank's side of training a sparse model: which rows, at which rate, and where the time goes.

use std::ops::Range;
use std::rc::Rc;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use super::exchange::{Exchange, Picked, Work};
use super::logistic::ClassWeights;
use super::order::Order;
use super::quality::{Quality, Summary};
use crate::board::{Board, Phase};
use crate::checkpoint::{Checkpoint, Snapshot};
use crate::comm::{Comm, agree, block};
use crate::data::Steps;
use crate::data::rows::RowSet;
use crate::exchange::{Conduct, Spent, Votes};
use crate::nn::Tally;
use crate::optim::Schedule;
use crate::train::{Inject, Moment, Times};
use crate::{Error, Result};

/// Rows that are evaluated at once.
const CHUNK: usize = 4096;

/// A rank's own numbers in a checkpoint.
#[derive(Serialize, Deserialize)]
struct Note {
    times: Times,
    sent: u64,
    progressive: Tally,
    conduct: Conduct,
}

impl Note {
    fn of(from: &Checkpoint, part: usize) -> Result<Self> {
        let text = from.note(part)?;
        serde_json::from_str(&text).map_err(|error| {
            let problem = format!("the note of part {part} is not understood: {error}");
            Error::file(from.path(), problem, "it was written by another phalanx")
        })
    }
}

/// Rows of a set that are evaluated.
#[derive(Clone)]
pub struct Part<'a> {
    /// The set.
    pub set: &'a RowSet,
    /// Which of its rows.
    pub rows: Range<usize>,
}

/// What a rank trains with.
pub struct Learner<'a> {
    /// What was chosen before.
    pub parts: Parts<'a>,
    /// Where the time went.
    pub times: Times,
    /// Bytes sent by messages.
    pub sent: u64,
    /// How this rank's updates were among those of others.
    pub conduct: Conduct,
    /// Where this rank shows what it does.
    pub board: Option<Rc<Board>>,
    /// Faults on demand.
    pub inject: Vec<Inject>,
    /// What this rank says about the run in the next step, and what all said in the last one, where they hear each other.
    pub votes: Votes,
    /// See `votes`.
    pub heard: Votes,
    /// How this rank's updates were before the run was resumed.
    past: Conduct,
    /// Steps claimed.
    claimed: u64,
    /// The sum of rates before a step.
    summed: (u64, f64),
    /// The next step where it is known, this rank's rows of it, and how many it has.
    ahead: Option<(u64, (Picked, usize))>,
}

/// What is chosen before training starts.
pub struct Parts<'a> {
    /// The training set, of whose first rows there are `steps`.
    pub set: &'a RowSet,
    /// How its rows are cut into steps.
    pub steps: Steps,
    /// In which order they come.
    pub order: Order,
    /// At which rate.
    pub schedule: Schedule,
    /// How much rows count.
    pub classes: ClassWeights,
    /// Whether gradients of a step that ranks take together are added up, not averaged.
    pub sum: bool,
    /// Parts that such a step is computed in, so that its sums do not depend on the number of ranks.
    pub shards: Option<usize>,
}

impl<'a> Learner<'a> {
    /// Nothing learnt yet.
    pub fn new(parts: Parts<'a>) -> Self {
        Self {
            parts,
            times: Times::start(),
            sent: 0,
            conduct: Conduct::default(),
            board: None,
            inject: Vec::new(),
            votes: Votes::default(),
            heard: Votes::default(),
            past: Conduct::default(),
            claimed: 0,
            summed: (0, 0.0),
            ahead: None,
        }
    }

    /// Shows on the board what this rank begins to do.
    pub fn turn(&self, phase: Phase) {
        if let Some(board) = &self.board {
            board.turn(phase);
        }
    }

    /// Where the run is after `taken` steps.
    pub fn moment(&self, taken: u64) -> Moment {
        let last = taken.saturating_sub(1);
        Moment {
            step: taken,
            total: self.parts.steps.total(),
            epoch: self.parts.steps.epochs(taken),
            samples: self.parts.steps.seen(taken),
            lr: self.parts.schedule.at(last, &self.parts.steps),
            batch: self.parts.steps.batch(last),
            noise_scale: None,
        }
    }

    /// Claims a step, if one is left.
    pub fn claim(&mut self, exchange: &mut dyn Exchange) -> Result<Option<u64>> {
        let step = exchange.claim(self.claimed)?;
        self.claimed += 1;
        Ok((step < self.parts.steps.total()).then_some(step))
    }

    /// Takes `step`; gives the tally of all ranks that took it, from before they learnt.
    pub fn step(
        &mut self,
        comm: &dyn Comm,
        exchange: &mut dyn Exchange,
        step: u64,
    ) -> Result<Tally> {
        let start = Instant::now();
        self.show(step, Phase::Exchange);
        let together = exchange.is_together();
        let (mine, samples) = match self.ahead.take() {
            Some((known, rows)) if known == step => rows,
            _ => self.rows(comm, together, step),
        };
        let following = (together && step + 1 < self.parts.steps.total()).then_some(step + 1);
        self.ahead = following.map(|step| (step, self.rows(comm, together, step)));
        let time = self.time(step, together);
        let Parts {
            schedule, steps, ..
        } = &self.parts;
        let rate = |step: u64| schedule.at(step.min(steps.total() - 1), steps);
        let lr = rate(step);
        let unit = if together { 1.0 } else { samples as f64 };
        let work = Work {
            set: self.parts.set,
            rows: &mine,
            next: self.ahead.as_ref().map(|(_, (picked, _))| picked),
            step,
            lr,
            rate: &rate,
            time: time as f32,
            time_after: (time + f64::from(lr) * unit) as f32,
            samples,
            scale: match self.parts.sum {
                true => 1.0,
                false => 1.0 / samples as f32,
            },
            classes: self.parts.classes,
            votes: self.votes,
        };
        let picked = Instant::now();
        let waited = exchange.fetch(&work)?;
        let fetched = Instant::now();
        self.show(step, Phase::Compute);
        let tally = exchange.learn(&work)?;
        for fault in &self.inject {
            fault.strike(step + 1, fetched);
        }
        let learnt = Instant::now();
        self.show(step, Phase::Exchange);
        let agreed = exchange.agree(&work, tally)?;
        let wait = waited + agreed.wait;
        let spent = Spent {
            exchange: (fetched - picked + learnt.elapsed()).saturating_sub(wait),
            wait,
        };
        let compute = (picked - start) + (learnt - fetched);
        self.times.add(Duration::ZERO, compute, spent, tally.count);
        self.sent += agreed.sent;
        self.heard = agreed.votes;
        Ok(agreed.tally)
    }

    /// As [`step`](Self::step), but nothing is learnt: only memory is moved. Says whether the exchange can do so.
    pub fn touch(&mut self, exchange: &mut dyn Exchange, step: u64) -> bool {
        let rows = self.parts.order.rows(step, &self.parts.steps);
        let work = Work {
            set: self.parts.set,
            rows: &rows,
            next: None,
            step,
            lr: 0.0,
            rate: &|_| 0.0,
            time: 0.0,
            time_after: 0.0,
            samples: rows.len(),
            scale: 1.0,
            classes: self.parts.classes,
            votes: Votes::default(),
        };
        exchange.touch(&work)
    }

    /// How this rank's updates were among those of others, those before the run was resumed too.
    pub fn conduct(&self, exchange: &dyn Exchange) -> Conduct {
        let mut conduct = exchange.conduct();
        conduct.merge(&self.past);
        conduct
    }

    /// Copies what this rank gives to a checkpoint after `taken` steps; `progressive` is what it knows of the loss so far.
    pub fn save(
        &mut self,
        exchange: &mut dyn Exchange,
        (taken, progressive): (u64, Tally),
        to: &mut Snapshot,
    ) -> Result<()> {
        let time = self.time(taken, exchange.is_together());
        exchange.save(time as f32, to)?;
        let note = Note {
            times: self.times.now(),
            sent: self.sent,
            progressive,
            conduct: self.conduct(exchange),
        };
        to.note = serde_json::to_string(&note).expect("plain values");
        Ok(())
    }

    /// Goes on from a checkpoint; gives what ranks knew of the loss so far; *collective*.
    pub fn go_on(
        &mut self,
        comm: &dyn Comm,
        exchange: &mut dyn Exchange,
        from: &Checkpoint,
    ) -> Result<Tally> {
        exchange.load(from)?;
        let progressive = self.take_back(comm, exchange.is_together(), from);
        agree(comm, progressive)
    }

    fn take_back(&mut self, comm: &dyn Comm, together: bool, from: &Checkpoint) -> Result<Tally> {
        let (parts, step) = (from.manifest.parts.len(), from.manifest.step);
        let (rank, size) = (comm.rank(), comm.size());
        let mine = Note::of(from, rank.min(parts - 1))?;
        self.claimed = match together {
            true => step,
            false => step / size as u64,
        };
        self.times = mine.times;
        self.times.go_on();
        let mut progressive = mine.progressive;
        if parts == size {
            self.sent = mine.sent;
            self.past = mine.conduct;
            return Ok(progressive);
        }
        // Other ranks than now: what they have seen and sent is still counted once, by those that there are.
        let (mut sum, mut steps) = (Tally::default(), 0);
        self.times.samples = 0;
        for part in (rank..parts).step_by(size) {
            let other = Note::of(from, part)?;
            self.times.samples += other.times.samples;
            self.sent += other.sent;
            steps += other.times.steps;
            sum = sum.plus(other.progressive);
        }
        if !together {
            progressive = sum;
            self.times.steps = steps;
        }
        Ok(progressive)
    }

    /// This rank's rows of `step`, and how many rows the step has.
    fn rows(&mut self, comm: &dyn Comm, together: bool, step: u64) -> (Picked, usize) {
        let all = self.parts.order.rows(step, &self.parts.steps);
        let n = all.len();
        if !together {
            return (all, n);
        }
        let (size, rank) = (comm.size(), comm.rank());
        let shards = self.parts.shards.unwrap_or(size);
        let each = shards / size;
        let [first, last] = [rank * each, (rank + 1) * each - 1].map(|i| block(n, shards, i));
        (all.part(first.start..last.end), n)
    }

    /// Shows on the board what this rank begins to do in `step`.
    fn show(&self, step: u64, phase: Phase) {
        if let Some(board) = &self.board {
            board.mark(step + 1, phase);
        }
    }

    /// The sum of rates before `step`, which is not before one that was asked for earlier: of each step, or of each of its
    /// rows where they are learnt from one by one.
    pub fn time(&mut self, step: u64, together: bool) -> f64 {
        while self.summed.0 < step {
            let unit = match together {
                true => 1.0,
                false => self.parts.steps.place(self.summed.0).positions.len() as f64,
            };
            self.summed.1 +=
                f64::from(self.parts.schedule.at(self.summed.0, &self.parts.steps)) * unit;
            self.summed.0 += 1;
        }
        self.summed.1
    }

    /// How good the weights are as they are now on `part`: this rank's block of it if all `comm` evaluate together, and then
    /// *collective*; all of it otherwise.
    pub fn evaluate(
        &mut self,
        comm: Option<&dyn Comm>,
        exchange: &mut dyn Exchange,
        part: &Part,
    ) -> Result<Summary> {
        let start = Instant::now();
        let (size, rank) = comm.map_or((1, 0), |comm| (comm.size(), comm.rank()));
        let all = part.rows.len();
        let mine = block(all, size, rank);
        // Ranks that answer each other do so equally often.
        let rounds = all.div_ceil(size).div_ceil(CHUNK);
        let (mut quality, mut logits) = (Quality::default(), Vec::new());
        for round in 0..rounds {
            self.turn(Phase::Evaluate);
            let begin = (mine.start + round * CHUNK).min(mine.end);
            let range = begin..(begin + CHUNK).min(mine.end);
            let range = part.rows.start + range.start..part.rows.start + range.end;
            exchange.logits(part.set, range.clone(), &mut logits)?;
            let pairs = logits.iter().zip(part.set.rows(range));
            pairs.for_each(|(&logit, row)| quality.add(logit, row.label));
        }
        if let Some(comm) = comm {
            self.turn(Phase::Wait);
            quality.merge_over(comm);
        }
        self.times.evaluate += start.elapsed();
        let diverged = |value: f64| Error::Diverged {
            what: format!("the logit of a row of {}", part.set.path.display()),
            value,
            step: self.claimed,
            rank: None,
            lr: self.parts.schedule.at(self.claimed, &self.parts.steps),
        };
        match quality.summary() {
            Some(summary) if quality.not_finite() == 0 => Ok(summary),
            _ => Err(diverged(f64::NAN)),
        }
    }
}
