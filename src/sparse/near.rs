//! Asynchronous on one node: weights once in shared memory, read and written by every rank without locks, as in Hogwild!
//! (Niu, Recht, Ré and Wright, 2011).
//!
//! Rows are learnt from one by one. A row's features' lines of memory are asked for some rows ahead, and its logit is computed
//! while the row before is on its way through the exponential and the roots of its update: it does not know of that one update.
//! The update itself is made to the features as they are then. A plain load and a plain store make it: of two at the same moment
//! one may be lost, which rare features seldom meet. Features that are in many rows, and the bias, are moved in copies of each
//! rank's own ([`Copies`]), which are added up exactly.
//!
//! A rank that gets no core for a while comes back with copies and a rate that are old. It notices by what others have done
//! meanwhile, and goes on with what they have learnt, at the rate of the moment: at the end of a run nobody would make good for it.
//!
//! Cost of a row: one line of memory for each feature that is neither hot nor in the cache; of a merge, 8·W bytes for each of
//! up to 1024 hot features.

use std::cell::Cell as Counter;
use std::ops::Range;
use std::sync::atomic::AtomicU32;
use std::time::Duration;

use super::asked::{Asked, Asker, Places};
use super::exchange::{Agreed, Exchange, Work, no_number, no_such_feature};
use super::hot::{Copies, HotFeatures};
use super::known::{Rules, load, store, touch};
use super::logistic::{Noted, slope};
use super::rule::Move;
use super::saved;
use crate::Result;
use crate::backend::cpu::{Cell, LANES, LaneWork, Lanes, in_lanes};
use crate::checkpoint::{Checkpoint, Snapshot};
use crate::comm::{Comm, Shared, agree, block};
use crate::data::rows::RowSet;
use crate::exchange::{Clock, Conduct};
use crate::nn::Tally;
use crate::train::readable;

/// Rows that lie between asking for a row's features and learning from it.
const AHEAD: usize = 8;
/// Features that are asked for at once: half of those that are read and written meanwhile, which is done in two turns.
const AT_ONCE: usize = LANES / 2;
/// The most rows from one merge of copies to the next.
const PERIOD: usize = 512;
/// Merges of very hot copies for one of the others, which rows move that many times as seldom.
const SELDOM: usize = 16;
/// Rows that others learn from, each, while a rank was away.
const AWAY: usize = 2 * PERIOD;

/// Rows that save, with weights in huge pages, the time that one of these takes to get: 0.3 ms, of 0.1 µs each, roughly.
const ROWS_PER_PAGE: u64 = 3_000;

/// Weights in the shared memory of one node.
pub(super) struct Near<'c, M, const W: usize> {
    comm: &'c dyn Comm,
    features: usize,
    memory: Shared,
    hot: HotFeatures,
    /// In which pages the memory is.
    pages: String,
    /// Of hot features, and of the bias behind them.
    copies: Copies<W>,
    clock: Clock<'c>,
    /// As it was in the last step.
    rule: M,
    /// The sum of rates of this rank's own rows, by which its copies are pulled to zero.
    own_time: f32,
    /// Stands where a row has no feature, to fill vectors: zeros, and always moved by nothing.
    spare: Cell<W>,
    /// Rows learnt from since each tier of copies was last added up, and after how many that is due for the first.
    since: [Counter<usize>; 2],
    period: Counter<usize>,
    /// Updates that others had made, since this rank's last one, when it last looked.
    missed: Counter<u64>,
}

/// Learning from all rows of `work`, in order, compiled for the vectors that there are.
struct Learning<'a, 'c, M, const W: usize> {
    near: &'a Near<'c, M, W>,
    work: &'a Work<'a>,
    /// And the sum of their rates.
    tally: &'a mut Result<(Tally, f32)>,
}

impl<M: Move<W>, const W: usize> LaneWork for Learning<'_, '_, M, W> {
    #[inline(always)]
    fn run(self, lanes: impl Lanes) {
        *self.tally = self.near.learn_all(lanes, self.work);
    }
}

/// Loading and storing all that learning from the rows of `work` would, in the same order and asked for as early, and
/// computing nothing.
struct Touching<'a, 'c, M, const W: usize> {
    near: &'a Near<'c, M, W>,
    work: &'a Work<'a>,
}

impl<M: Move<W>, const W: usize> LaneWork for Touching<'_, '_, M, W> {
    #[inline(always)]
    fn run(self, lanes: impl Lanes) {
        // A row that cannot be learnt from is found when it is.
        let _ = self.near.walk(self.work, |_, [_, now], _| {
            touch(lanes, &now.cells);
            Ok(())
        });
    }
}

impl<'c, M: Move<W>, const W: usize> Near<'c, M, W> {
    /// Weights of zero for the features of `set`; all ranks are on one node; *collective*.
    pub(super) fn new(
        comm: &'c dyn Comm,
        set: &RowSet,
        rule: M,
        (bound, rows): (Option<u64>, u64),
    ) -> Result<Self> {
        let features = set.about.features;
        // A rank alone fights with nobody.
        let hot = match comm.size() {
            1 => HotFeatures::none(),
            _ => HotFeatures::find(set),
        };
        let mut near = Self {
            comm,
            features,
            memory: comm.common(features * W)?,
            copies: {
                let very = hot.very();
                Copies::new(comm, &[1 + very, hot.features().len() - very], M::TIME)?
            },
            hot,
            pages: String::new(),
            clock: Clock::new(comm, bound, 0)?,
            rule,
            own_time: 0.0,
            spare: std::array::from_fn(|_| AtomicU32::new(0)),
            since: Default::default(),
            period: Counter::new(AHEAD),
            missed: Counter::new(0),
        };
        near.enlarge(rows)?;
        Ok(near)
    }

    /// Gets huge pages if so many `rows` are worth the time; *collective*.
    fn enlarge(&mut self, rows: u64) -> Result<()> {
        let bytes = 4 * W * self.features;
        let pages = bytes / (2 << 20);
        self.pages = match pages as u64 * ROWS_PER_PAGE {
            0 => "small pages: the weights are few".into(),
            worth if rows < worth => {
                format!("small pages: huge ones pay from {worth} rows on, here are {rows}")
            }
            _ => {
                let huge = [self.enlarged()?];
                match huge[0] {
                    0 => "small pages: the system gave no huge ones".into(),
                    huge => format!(
                        "{} of {} in huge pages",
                        readable(huge),
                        readable(bytes as u64)
                    ),
                }
            }
        };
        Ok(())
    }

    /// Has the first rank get huge pages; gives the bytes that are in them; *collective*.
    fn enlarged(&self) -> Result<u64> {
        // The system needs a moment on every core for each page: ranks that wait must not take theirs.
        let counters = self.comm.counters(2)?;
        if self.comm.rank() == 0 {
            counters.add(0, self.memory.enlarge_pages() as u64)?;
            counters.add(1, 1)?;
        }
        let mut counts = [0; 2];
        while counts[1] == 0 {
            counters.read(&mut counts)?;
            std::thread::sleep(Duration::from_millis(1));
        }
        self.comm.barrier();
        counters.close()?;
        Ok(counts[0])
    }

    /// The rule for copies.
    fn own_rule(&self) -> M {
        self.rule.at_time(self.own_time)
    }

    fn cold(&self) -> &[Cell<W>] {
        self.memory.of(0).as_chunks().0
    }

    /// This rank's block of all features and the bias, and the cells of it in common memory, where the bias has none.
    fn block(&self) -> (Range<usize>, &[Cell<W>]) {
        let mine = block(self.features + 1, self.comm.size(), self.comm.rank());
        let [start, end] = [mine.start, mine.end].map(|at| at.min(self.features));
        let cold = &self.cold()[start..end];
        (mine, cold)
    }

    /// The bias and the hot features that are in `range`, and their copies.
    fn copied(&self, range: &Range<usize>) -> impl Iterator<Item = (usize, &Cell<W>)> {
        let hot = self.hot.features().iter().map(|&feature| feature as usize);
        let copied = std::iter::once(self.features).chain(hot);
        let copied = copied.zip(self.copies.cells());
        copied.filter(|(feature, _)| range.contains(feature))
    }

    /// Where features are kept.
    #[inline(always)]
    fn places(&self) -> Places<'_, W> {
        Places {
            cold: self.cold(),
            copies: self.copies.cells(),
            hot: self.hot.table(),
            spare: &self.spare,
            tells: M::TIME.is_some(),
        }
    }

    /// Takes rows to `visit` one by one, with their numbers, some rows after their features were asked for; each with the row
    /// before it, and with what asks for the features of another row, which is to be done in between. Behind the last row comes
    /// one without features.
    #[inline(always)]
    fn walk<'a>(
        &'a self,
        work: &'a Work,
        mut visit: impl FnMut(usize, [&Asked<'a, W>; 2], &mut Asker<'a, '_, W>) -> Result<()>,
    ) -> Result<()> {
        let places = self.places();
        let mut rows = work.rows.iter(work.set);
        let mut ring: [Asked<W>; AHEAD + 2] = std::array::from_fn(|_| Asked::nothing());
        let refuse = |number: usize, bad: Option<u32>| match bad {
            None => Ok(()),
            Some(feature) => {
                let row = work.rows.number(number);
                Err(no_such_feature(work.set, row, feature))
            }
        };
        for (number, asked) in ring[..AHEAD].iter_mut().enumerate() {
            refuse(number, Asker::new(places, asked, rows.next()).rest())?;
        }
        for number in 0..=work.rows.len() {
            let three = [number + AHEAD + 1, number, number + AHEAD];
            let three = three.map(|number| number % (AHEAD + 2));
            let [before, now, later] = ring.get_disjoint_mut(three).expect("they are three");
            let mut asker = Asker::new(places, later, rows.next());
            visit(number, [before, now], &mut asker)?;
            refuse(number + AHEAD, asker.rest())?;
        }
        Ok(())
    }

    /// Learns from all rows of `work`, in order; gives the sum of their rates too.
    #[inline(always)]
    fn learn_all(&self, lanes: impl Lanes, work: &Work) -> Result<(Tally, f32)> {
        let (mut tally, mut noted) = (Tally::default(), Noted::default());
        let several = self.comm.size() > 1;
        let mut rules = Rules {
            common: self.rule,
            own: self.own_rule(),
        };
        let bias = &self.copies.cells()[0];
        let mut waiting = None;
        // Up to which row the rates are summed up.
        let (mut lr, mut rates, mut summed) = (work.lr, 0.0, 0);
        self.walk(work, |number, [before, now], asker| {
            let offset = rules.own.weight(load(bias));
            let logit = offset + rules.logit(lanes, now, || asker.some(AT_ONCE));
            if let Some(logit) = waiting.replace(logit) {
                let label = before.row.label;
                let slope = work.classes.of(label) * slope(logit, label);
                let both = (slope, self.own_time);
                rules.learn(lanes, before, both, || asker.some(AT_ONCE));
                let state = load(bias);
                store(bias, rules.own.moved(state, rules.own.weight(state), slope));
                noted.add(logit, label, &mut tally);
                if several && number % AHEAD == 0 {
                    self.merge(AHEAD);
                    if let Some(now) = self.after_absence(work)? {
                        rates += lr * (number - summed) as f32;
                        (lr, summed) = (now, number);
                        rules = rules.at_rate(lr);
                    }
                }
            }
            match logit.is_finite() || number == work.rows.len() {
                true => Ok(()),
                false => Err(no_number(work, work.rows.number(number), logit)),
            }
        })?;
        noted.count(&mut tally);
        if several {
            self.merge(work.rows.len() % AHEAD);
        }
        rates += lr * (work.rows.len() - summed) as f32;
        Ok((tally, rates))
    }

    /// If this rank was away since it last looked: takes over what others have learnt, and gives the rate of the moment.
    #[inline(never)]
    fn after_absence(&self, work: &Work) -> Result<Option<f32>> {
        let missed = self.clock.missed()?;
        let new = missed.saturating_sub(self.missed.replace(missed)) as usize;
        if new.saturating_mul(work.rows.len()) < AWAY * self.comm.size() {
            return Ok(None);
        }
        self.copies.merge_all();
        self.since.iter().for_each(|since| since.set(0));
        Ok(Some((work.rate)(work.step + missed)))
    }

    /// Adds copies up where that is due, after so many more `rows`.
    ///
    /// Between two merges each rank goes its own way, and then all go all the ways: together they must not go further than
    /// to the optimum. A row moves a very hot weight by at most η/4 of its distance to it, where η is how far a gradient of 1
    /// moves the bias; so P ranks may take 2/(η·P) rows until half of it is gone.
    fn merge(&self, rows: usize) {
        let [often, seldom] = &self.since;
        often.set(often.get() + rows);
        seldom.set(seldom.get() + rows);
        if often.get() < self.period.get() {
            return;
        }
        self.copies.merge(0);
        often.set(0);
        if seldom.get() >= PERIOD.min(SELDOM * self.period.get()) {
            self.copies.merge(1);
            seldom.set(0);
        }
        let (own, state) = (self.own_rule(), load(&self.copies.cells()[0]));
        let weight = own.weight(state);
        let far = (own.weight(own.moved(state, weight, 1.0)) - weight).abs();
        let period = 2.0 / (far * self.comm.size() as f32);
        self.period.set((period as usize).clamp(AHEAD, PERIOD));
    }
}

impl<M: Move<W>, const W: usize> Exchange for Near<'_, M, W> {
    fn is_together(&self) -> bool {
        false
    }

    fn claim(&mut self, claimed: u64) -> Result<u64> {
        self.clock.claim(claimed)
    }

    fn fetch(&mut self, _work: &Work) -> Result<Duration> {
        // Weights are read when they are learnt from.
        self.clock.begin(|_| Ok(()))
    }

    fn learn(&mut self, work: &Work) -> Result<Tally> {
        self.rule = self.rule.at(work.lr, work.time);
        let mut tally = Ok((Tally::default(), 0.0));
        in_lanes(Learning {
            near: self,
            work,
            tally: &mut tally,
        });
        let (tally, rates) = tally?;
        self.own_time += rates;
        Ok(tally)
    }

    fn touch(&mut self, work: &Work) -> bool {
        in_lanes(Touching { near: self, work });
        true
    }

    fn agree(&mut self, _work: &Work, tally: Tally) -> Result<Agreed> {
        let wait = self.clock.in_step()?;
        self.clock.update(|| Ok(()))?;
        self.missed.set(0);
        self.clock.end()?;
        Ok(Agreed {
            tally,
            wait,
            ..Agreed::default()
        })
    }

    fn logits(&mut self, rows: &RowSet, range: Range<usize>, out: &mut Vec<f32>) -> Result<()> {
        out.clear();
        self.copies.merge_all();
        let (rule, own) = (self.rule, self.own_rule());
        let places = self.places();
        let bias = own.weight(load(&places.copies[0]));
        for (number, row) in rows.rows(range.clone()).enumerate() {
            let mut logit = bias;
            for (i, &feature) in row.indices.iter().enumerate() {
                let Some((cell, copied)) = places.cell(feature) else {
                    return Err(no_such_feature(rows, range.start + number, feature));
                };
                let weight = if copied { own } else { rule }.weight(load(cell));
                logit += weight * row.values.map_or(1.0, |values| values[i]);
            }
            out.push(logit);
        }
        Ok(())
    }

    fn finish(&mut self) -> Result<()> {
        self.clock.finish()
    }

    fn leave(&mut self, time: f32) -> Result<()> {
        self.copies.merge_all();
        self.rule = self.rule.at_time(time);
        self.clock.leave()
    }

    fn describe(&self) -> Option<String> {
        let hot = match self.hot.features().len() {
            0 => "no hot features".into(),
            hot => format!("{hot} hot features copied"),
        };
        Some(format!("{}; {hot}", self.pages))
    }

    fn conduct(&self) -> Conduct {
        self.clock.conduct().clone()
    }

    fn weights(&mut self, weights: &mut Vec<f32>) -> Result<()> {
        self.comm.barrier();
        self.copies.merge_all();
        let (rule, own) = (self.rule, self.own_rule());
        let (mine, cold) = self.block();
        weights.clear();
        weights.extend(cold.iter().map(|cell| rule.weight(load(cell))));
        weights.resize(mine.len(), 0.0);
        for (feature, cell) in self.copied(&mine) {
            weights[feature - mine.start] = own.weight(load(cell));
        }
        Ok(())
    }

    fn save(&mut self, time: f32, to: &mut Snapshot) -> Result<()> {
        self.copies.merge_all();
        let own = self.own_rule();
        let (mine, cold) = self.block();
        let states = saved::room(to, mine.clone(), self.features + 1);
        let both = states.iter_mut().zip(cold);
        both.for_each(|(state, cell)| *state = load(cell));
        for (feature, cell) in self.copied(&mine) {
            let mut state = load(cell);
            if let Some(at) = M::TIME {
                // Brought up to date by this rank's own time, and from now on by that of all.
                state = own.moved(state, own.weight(state), 0.0);
                state[at] = time;
            }
            states[feature - mine.start] = state;
        }
        Ok(())
    }

    fn load(&mut self, from: &Checkpoint) -> Result<()> {
        let comm = self.comm;
        let (mine, cold) = self.block();
        let mut states = vec![[0.0; W]; mine.len()];
        agree(comm, saved::read(from, mine.clone(), &mut states))?;
        cold.iter()
            .zip(&states)
            .for_each(|(cell, &state)| store(cell, state));
        comm.barrier();
        // One rank brings the copies, and the others take them over: the one that has read the bias.
        if mine.contains(&self.features) {
            let bias = states[self.features - mine.start];
            for (feature, cell) in self.copied(&(0..self.features + 1)) {
                let cold = self.cold().get(feature);
                let mut state = cold.map_or(bias, load);
                if let Some(at) = M::TIME {
                    // Its own time begins at zero.
                    state[at] = 0.0;
                }
                store(cell, state);
            }
            self.copies.merge_all();
        }
        comm.barrier();
        self.copies.merge_all();
        self.clock.go_on(from.manifest.step)
    }

    fn close(self: Box<Self>) -> Result<()> {
        self.memory.close()?;
        self.copies.close()?;
        self.clock.close()
    }
}
