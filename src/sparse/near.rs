//! Asynchronous on one node: weights once in shared memory, read and written by every rank without locks, as in Hogwild!
//! (Niu, Recht, Ré and Wright, 2011).
//!
//! Each row is learnt from at once. Its features' lines of memory are asked for some rows ahead. A plain load and a plain
//! store make an update: of two at the same moment one may be lost, which rare features seldom meet. Features that are in many
//! rows, and the bias, are moved in copies of each rank's own ([`Copies`]), which are added up exactly.
//!
//! Cost of a row: one line of memory for each feature that is neither hot nor in the cache; of a merge, 8·W bytes for each of
//! up to 1024 hot features.

use std::cell::Cell as Counter;
use std::ops::Range;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use super::exchange::{Agreed, Exchange, Work, no_number, no_such_feature};
use super::hot::{Copies, HotFeatures};
use super::known::{FULL, Known, load, store, touch};
use super::logistic::{Noted, slope};
use super::rule::Move;
use crate::Result;
use crate::backend::cpu::{Cell, Work as Wide, prefetch_line, wide};
use crate::comm::{Comm, Shared, block};
use crate::data::rows::{Row, RowSet};
use crate::exchange::{Clock, Conduct};
use crate::nn::Tally;
use crate::train::readable;

/// Rows that lie between asking for a row's features and learning from it.
const AHEAD: usize = 8;
/// The most rows from one merge of copies to the next.
const PERIOD: usize = 512;
/// Merges of very hot copies for one of the others, which rows move that many times as seldom.
const SELDOM: usize = 16;

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
}

/// Where features are kept.
#[derive(Clone, Copy)]
struct Places<'a, const W: usize> {
    cold: &'a [Cell<W>],
    /// The bias, and hot features behind it.
    copies: &'a [Cell<W>],
    hot: &'a HotFeatures,
}

impl<'a, const W: usize> Places<'a, W> {
    /// Where a feature is kept, and whether that is a copy.
    #[inline(always)]
    fn cell(self, feature: u32) -> Option<(&'a Cell<W>, bool)> {
        match self.hot.slot(feature) {
            Some(slot) => Some((&self.copies[slot + 1], true)),
            None => (self.cold.get(feature as usize)).map(|cell| (cell, false)),
        }
    }
}

/// A row whose features have been asked for.
struct Asked<'a, const W: usize> {
    row: Row<'a>,
    /// Where they are, and behind them the spare one, up to a multiple of [`FULL`].
    cells: Vec<&'a Cell<W>>,
    /// Which of the cells are copies, where a rule tells these from others.
    copied: Vec<bool>,
}

/// Learning from all rows of `work`, in order, compiled for the widest vectors that there are.
struct Learning<'a, 'c, M, const W: usize> {
    near: &'a Near<'c, M, W>,
    work: &'a Work<'a>,
    tally: &'a mut Result<Tally>,
}

impl<M: Move<W>, const W: usize> Wide for Learning<'_, '_, M, W> {
    #[inline(always)]
    fn run(self) {
        *self.tally = self.near.learn_all(self.work);
    }
}

/// Loading and storing all that learning from the rows of `work` would, in the same order and asked for as early, and
/// computing nothing.
struct Touching<'a, 'c, M, const W: usize> {
    near: &'a Near<'c, M, W>,
    work: &'a Work<'a>,
}

impl<M: Move<W>, const W: usize> Wide for Touching<'_, '_, M, W> {
    #[inline(always)]
    fn run(self) {
        // A row that cannot be learnt from is found when it is.
        let _ = self.near.walk(self.work, |_, asked| {
            touch(&asked.cells[..asked.row.indices.len()]);
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

    /// Where features are kept.
    #[inline(always)]
    fn places(&self) -> Places<'_, W> {
        Places {
            cold: self.cold(),
            copies: self.copies.cells(),
            hot: &self.hot,
        }
    }

    /// Takes rows to `visit` one by one, with their numbers, some rows after their features were asked for.
    #[inline(always)]
    fn walk<'a>(
        &'a self,
        work: &'a Work,
        mut visit: impl FnMut(usize, &Asked<'a, W>) -> Result<()>,
    ) -> Result<()> {
        let mut rows = work.rows.iter(work.set);
        let mut ring: Vec<Asked<W>> = Vec::with_capacity(AHEAD);
        for number in 0..work.rows.len().min(AHEAD) {
            let mut asked = Asked {
                row: rows.next().expect("so many are there"),
                cells: Vec::new(),
                copied: Vec::new(),
            };
            self.ask(work, number, &mut asked)?;
            ring.push(asked);
        }
        for number in 0..work.rows.len() {
            let asked = &mut ring[number % AHEAD];
            visit(number, asked)?;
            if let Some(row) = rows.next() {
                asked.row = row;
                self.ask(work, number + AHEAD, asked)?;
            }
        }
        Ok(())
    }

    /// Asks for the features of a row.
    #[inline(always)]
    fn ask<'a>(&'a self, work: &Work, number: usize, asked: &mut Asked<'a, W>) -> Result<()> {
        let indices = asked.row.indices;
        let places = self.places();
        asked.cells.clear();
        asked
            .cells
            .resize(indices.len().next_multiple_of(FULL), &self.spare);
        asked.copied.clear();
        for (place, &feature) in asked.cells.iter_mut().zip(indices) {
            let Some((cell, copied)) = places.cell(feature) else {
                let row = work.rows.number(number);
                return Err(no_such_feature(work.set, row, feature));
            };
            prefetch_line(cell);
            *place = cell;
            if M::TIME.is_some() {
                asked.copied.push(copied);
            }
        }
        Ok(())
    }

    /// Learns from all rows of `work`, in order.
    #[inline(always)]
    fn learn_all(&self, work: &Work) -> Result<Tally> {
        let (mut tally, mut noted) = (Tally::default(), Noted::default());
        let (mut known, several) = (Known::new(), self.comm.size() > 1);
        self.walk(work, |number, asked| {
            let logit = self.learn(work, asked, &mut known);
            if !logit.is_finite() {
                return Err(no_number(work, work.rows.number(number), logit));
            }
            noted.add(logit, asked.row.label, &mut tally);
            if several && (number + 1) % AHEAD == 0 {
                self.merge(AHEAD);
            }
            Ok(())
        })?;
        noted.count(&mut tally);
        if several {
            self.merge(work.rows.len() % AHEAD);
        }
        Ok(tally)
    }

    /// Learns from a row unless its logit, which it gives, is no finite number.
    #[inline(always)]
    fn learn(&self, work: &Work, asked: &Asked<W>, known: &mut Known<W>) -> f32 {
        let (rule, own) = (self.rule, self.own_rule());
        let bias = &self.copies.cells()[0];
        let (row, cells) = (asked.row, &asked.cells[..]);
        let offset = own.weight(load(bias));
        let mut logit = offset + known.load(rule, cells, (row.values, row.indices.len()));
        // A pull to zero has another time for copies.
        let copies = asked.copied.iter().enumerate();
        let copies = copies.filter(|(_, copied)| **copied);
        for (at, _) in copies.clone() {
            logit += known.replace(at, own.weight(load(cells[at])));
        }
        if !logit.is_finite() {
            return logit;
        }
        let slope = work.classes.of(row.label) * slope(logit, row.label);
        known.store(rule, cells, slope);
        for (at, _) in copies {
            let time = M::TIME.expect("only such rules tell copies from others");
            cells[at][time].store(self.own_time.to_bits(), Ordering::Relaxed);
        }
        store(bias, own.moved(load(bias), offset, slope));
        logit
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
        let mut tally = Ok(Tally::default());
        wide(Learning {
            near: self,
            work,
            tally: &mut tally,
        });
        self.own_time += work.lr * work.rows.len() as f32;
        tally
    }

    fn touch(&mut self, work: &Work) -> bool {
        wide(Touching { near: self, work });
        true
    }

    fn agree(&mut self, _work: &Work, tally: Tally) -> Result<Agreed> {
        let wait = self.clock.in_step()?;
        self.clock.update(|| Ok(()))?;
        self.clock.end()?;
        Ok(Agreed {
            tally,
            wait,
            sent: 0,
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
        let (size, rank) = (self.comm.size(), self.comm.rank());
        let mine = block(self.features + 1, size, rank);
        let cold = &self.cold()[mine.start..mine.end.min(self.features)];
        weights.clear();
        weights.extend(cold.iter().map(|cell| rule.weight(load(cell))));
        weights.resize(mine.len(), 0.0);
        let hot = self.hot.features().iter().map(|&feature| feature as usize);
        let copied = std::iter::once(self.features)
            .chain(hot)
            .zip(self.copies.cells());
        for (feature, cell) in copied.filter(|(feature, _)| mine.contains(feature)) {
            weights[feature - mine.start] = own.weight(load(cell));
        }
        Ok(())
    }

    fn close(self: Box<Self>) -> Result<()> {
        self.memory.close()?;
        self.copies.close()?;
        self.clock.close()
    }
}
