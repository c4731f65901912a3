//! When checkpoints are written and when a run stops, so that all ranks do it together.
//!
//! Ranks in step say what they want behind their gradients ([`Votes`]), hear the sum after the step and act on it at once, all
//! of them alike. Ranks that go their own ways have counters in common: the first one asks for a checkpoint and everybody
//! follows after its next step. Nothing of this waits; only the last checkpoint of a run does.

use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::Every;
use crate::board::{Board, Phase};
use crate::checkpoint::{Keeper, Kept, Manifest, Snapshot, When};
use crate::comm::{Comm, Counters};
use crate::data::Steps;
use crate::exchange::{Kind, Votes};
use crate::{Result, interrupt};

/// Counters of ranks that go their own ways: checkpoints asked for, the step of the last, ranks that want to stop, parts that
/// are over and those of them that failed.
const ASKED: usize = 0;
const STEP: usize = 1;
const STOP: usize = 2;
const OVER: usize = 3;
const FAILED: usize = 4;

/// When to write checkpoints, and when to stop.
#[derive(Clone, Debug)]
pub struct Terms {
    /// From one checkpoint to the next, if there are to be any.
    pub every: Option<When>,
    /// When the run is to stop, by the first rank's clock.
    pub until: Option<Instant>,
    /// What must be the same when the run goes on.
    pub facts: BTreeMap<String, String>,
    /// What was chosen by measurement.
    pub choices: Value,
}

/// A run that checkpoints are written of while it goes on.
pub trait Running {
    /// What trains: `dense` or `sparse`.
    fn kind(&self) -> &'static str;
    /// How its samples are cut into steps.
    fn steps(&self) -> &Steps;
    /// What ranks said in the last step, where they hear each other.
    fn heard(&self) -> Votes;
    /// Steps that this rank knows to be taken.
    fn taken(&self) -> u64;
    /// How many steps all ranks have taken when this one has taken `step`.
    fn reached(&self, step: u64) -> u64 {
        step + 1
    }
    /// How good the model was when it was last looked at, less being better.
    fn score(&self) -> Option<f64>;
    /// Small numbers that all ranks have in common.
    fn state(&self) -> Value;
    /// Copies what this rank gives.
    fn save(&mut self, comm: &dyn Comm, to: &mut Snapshot) -> Result<()>;
}

/// How the ranks of a run meet.
#[derive(Clone, Copy, Debug)]
pub struct Meeting {
    /// Whether they hear each other's votes in every step.
    pub hears: bool,
    /// Whether they come to the end of the run at different steps, and still meet until the exchange has ended.
    pub apart: bool,
}

impl Meeting {
    /// That of ranks which agree by `kind`.
    pub fn of(kind: Kind) -> Self {
        Self {
            hears: kind.hears_votes(),
            apart: matches!(kind, Kind::Local(_)),
        }
    }
}

/// One rank's side of it.
pub struct Saver<'c>(Option<Inner<'c>>);

struct Inner<'c> {
    comm: &'c dyn Comm,
    keeper: Keeper,
    terms: Terms,
    board: Option<Rc<Board>>,
    /// Where ranks do not hear each other's votes.
    counters: Option<Box<dyn Counters>>,
    /// Whether ranks come to the end of the run at different steps, and still meet until the exchange has ended.
    apart: bool,
    /// Checkpoints that were due so far, and whether one is due that has not begun.
    due: u64,
    wanted: bool,
    /// When the last one began.
    last: Instant,
    /// The step of the checkpoint that the run goes on from.
    from: Option<u64>,
    /// Of ranks that go their own ways: checkpoints begun here, failures known, and whether this rank has asked to stop and told
    /// that its part is over.
    served: u64,
    failures: u64,
    asked: bool,
    told: bool,
}

impl<'c> Saver<'c> {
    /// For runs that write none and do not stop.
    pub fn none() -> Self {
        Self(None)
    }

    /// Writes by `keeper`; ranks that do not hear each other's votes get counters; *collective*.
    pub fn new(comm: &'c dyn Comm, keeper: Keeper, terms: Terms, ranks: Meeting) -> Result<Self> {
        let counters = (!ranks.hears).then(|| comm.counters(5));
        let counters = counters.transpose()?;
        Ok(Self(Some(Inner {
            comm,
            keeper,
            terms,
            board: None,
            counters,
            apart: ranks.apart,
            due: 0,
            wanted: false,
            last: Instant::now(),
            from: None,
            served: 0,
            failures: 0,
            asked: false,
            told: true,
        })))
    }

    /// Training begins now, after `taken` steps.
    pub fn start(&mut self, taken: u64, steps: &Steps, board: Option<Rc<Board>>) {
        if let Some(inner) = &mut self.0 {
            inner.due = inner.count(taken, steps);
            inner.from = Some(taken).filter(|&taken| taken > 0);
            inner.last = Instant::now();
            inner.board = board;
        }
    }

    /// What this rank says in the step that follows.
    pub fn votes(&mut self) -> Votes {
        let Some(inner) = self.0.as_mut().filter(|inner| inner.counters.is_none()) else {
            return Votes::default();
        };
        let over = inner.keeper.is_over();
        Votes {
            stop: u64::from(inner.wants_to_stop()),
            save: u64::from(inner.is_late()),
            over: u64::from(over.is_some()),
            failed: u64::from(over == Some(false)),
            asked: 1,
        }
    }

    /// After `step`: begins and concludes checkpoints. Tells whether the run is to stop here.
    pub fn turn(&mut self, step: u64, run: &mut dyn Running) -> Result<bool> {
        match &mut self.0 {
            None => Ok(false),
            Some(inner) if inner.counters.is_some() => inner.turn_alone(step, run),
            Some(inner) => inner.turn_together(step, run),
        }
    }

    /// When no rank takes a step any more: tells whether the run was `stopped` on any of them; *collective* where they go
    /// their own ways.
    pub fn is_stopped(&self, stopped: bool) -> bool {
        let mut flag = [u64::from(stopped)];
        if let Some(inner) = self.0.as_ref().filter(|inner| inner.counters.is_some()) {
            inner.comm.max(&mut flag);
        }
        flag[0] > 0
    }

    /// Writes the last checkpoint of a run that was `stopped`, which must not fail, or has come to its end; *collective*.
    pub fn last(&mut self, stopped: bool, run: &mut dyn Running) -> Result<()> {
        let Some(inner) = self.0.as_mut().filter(|inner| stopped || !inner.apart) else {
            return Ok(());
        };
        let mut show = showing(inner.board.clone());
        inner.keeper.finish(inner.comm, &mut show);
        let mut step = [run.taken()];
        if inner.counters.is_some() {
            inner.comm.max(&mut step);
        } else if let Some(last) = step[0].checked_sub(1) {
            step[0] = run.reached(last);
        }
        // What is there already is left alone: nothing takes the place of a whole checkpoint but for a reason.
        let newest = inner.keeper.kept().newest.or(inner.from);
        let mut there = [u64::from(newest == Some(step[0]))];
        inner.comm.max(&mut there);
        if there[0] > 0 || (!stopped && inner.terms.every.is_none()) {
            return Ok(());
        }
        let manifest = inner.manifest(step[0], run);
        let comm = inner.comm;
        let written = inner
            .keeper
            .write(comm, manifest, |to| run.save(comm, to), &mut show);
        match stopped {
            true => written,
            // The run has ended well without it, and the warning has been told.
            false => Ok(()),
        }
    }

    /// What became of the checkpoints, as the first rank knows; none where there were none.
    pub fn kept(&mut self) -> Option<Kept> {
        let kept = self.0.as_mut()?.keeper.kept();
        Some(kept).filter(|kept| *kept != Kept::default())
    }

    /// Waits until nothing is being written any more; *collective*.
    pub fn finish(&mut self) {
        if let Some(inner) = &mut self.0 {
            let mut show = showing(inner.board.clone());
            inner.keeper.finish(inner.comm, &mut show);
        }
    }

    /// Why the run was stopped, in words; *collective*.
    pub fn why(&self) -> String {
        let Some(inner) = &self.0 else {
            return String::new();
        };
        let mine = match interrupt::asked() {
            Some(signal) => signal,
            None if inner.is_out_of_time() => "the time limit",
            None => "",
        };
        let all = inner.comm.gather(mine.as_bytes());
        let first = all.iter().position(|why| !why.is_empty());
        let Some(rank) = first else {
            return "asked to".into();
        };
        let why = String::from_utf8_lossy(&all[rank]);
        match why.starts_with("SIG") {
            true => format!("{why} on rank {rank}"),
            false => why.into(),
        }
    }

    /// Gives counters back; *collective*.
    pub fn close(self) -> Result<()> {
        let counters = self.0.and_then(|inner| inner.counters);
        counters.map_or(Ok(()), Counters::close)
    }
}

impl Inner<'_> {
    fn turn_together(&mut self, step: u64, run: &mut dyn Running) -> Result<bool> {
        let (heard, ranks) = (run.heard(), self.comm.size() as u64);
        if heard.asked < ranks {
            return Ok(false);
        }
        if self.keeper.pending().is_some() && heard.over == ranks {
            self.keeper.conclude(heard.failed == 0);
        }
        let reached = run.reached(step);
        let count = self.count(reached, run.steps());
        self.wanted |= heard.save > 0 || count > self.due;
        self.due = count;
        if heard.stop > 0 {
            return Ok(true);
        }
        if self.wanted && self.keeper.pending().is_none() {
            self.begin(reached, run)?;
        }
        Ok(false)
    }

    fn turn_alone(&mut self, step: u64, run: &mut dyn Running) -> Result<bool> {
        let counters = self
            .counters
            .as_ref()
            .expect("ranks that go alone have them");
        if let Some(good) = self.keeper.is_over().filter(|_| !self.told) {
            counters.add(FAILED, u64::from(!good))?;
            counters.add(OVER, 1)?;
            self.told = true;
        }
        if !self.asked && self.wants_to_stop() {
            counters.add(STOP, 1)?;
            self.asked = true;
        }
        let mut counts = [0; 5];
        counters.read(&mut counts)?;
        if counts[STOP] > 0 {
            return Ok(true);
        }
        if self.comm.rank() > 0 {
            if self.told && self.keeper.pending().is_some() {
                self.keeper.conclude(true);
            }
            if counts[ASKED] > self.served && self.keeper.pending().is_none() {
                self.begin(counts[STEP], run)?;
            }
            return Ok(false);
        }
        let all = self.served * self.comm.size() as u64;
        if self.keeper.pending().is_some() && counts[OVER] == all {
            self.keeper.conclude(counts[FAILED] == self.failures);
            self.failures = counts[FAILED];
        }
        let count = self.count(step + 1, run.steps());
        self.wanted |= self.is_late() || count > self.due;
        self.due = self.due.max(count);
        if self.wanted && self.keeper.pending().is_none() {
            let counters = self.counters.as_ref().expect("as above");
            counters.add(STEP, (step + 1).wrapping_sub(counts[STEP]))?;
            counters.add(ASKED, 1)?;
            self.begin(step + 1, run)?;
        }
        Ok(false)
    }

    fn begin(&mut self, step: u64, run: &mut dyn Running) -> Result<()> {
        self.wanted = false;
        self.last = Instant::now();
        self.served += 1;
        self.told = false;
        let manifest = self.manifest(step, run);
        let comm = self.comm;
        self.keeper.begin(manifest, |to| run.save(comm, to))
    }

    fn manifest(&self, step: u64, run: &dyn Running) -> Manifest {
        Manifest {
            step,
            kind: run.kind().into(),
            score: run.score(),
            facts: self.terms.facts.clone(),
            state: json!({"run": run.state(), "choices": self.terms.choices}),
            parts: Vec::new(),
        }
    }

    /// Checkpoints that are due after so many steps, not counting those by the clock.
    fn count(&self, taken: u64, steps: &Steps) -> u64 {
        match self.terms.every {
            Some(When::Steps(every)) => Every::Steps(every).due(taken, steps),
            Some(When::Epoch) => Every::Epoch.due(taken, steps),
            Some(When::Time(_)) | None => 0,
        }
    }

    /// Whether one is due by the first rank's clock.
    fn is_late(&self) -> bool {
        let every = match self.terms.every {
            Some(When::Time(every)) if self.comm.rank() == 0 => every,
            _ => return false,
        };
        self.last.elapsed() >= every
    }

    fn wants_to_stop(&self) -> bool {
        interrupt::asked().is_some() || self.is_out_of_time()
    }

    /// Whether the time is up by the first rank's clock.
    fn is_out_of_time(&self) -> bool {
        let until = self.terms.until.filter(|_| self.comm.rank() == 0);
        until.is_some_and(|until| until.saturating_duration_since(Instant::now()) == Duration::ZERO)
    }
}

/// Shows on the board that a checkpoint makes its way.
fn showing(board: Option<Rc<Board>>) -> impl FnMut() {
    let show = move || {
        if let Some(board) = &board {
            board.turn(Phase::Checkpoint);
        }
    };
    show();
    show
}
