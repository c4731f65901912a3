//! Features that nearly every row has: each rank moves a copy of its own, and copies are added up now and then, so that
//! ranks do not fight over the lines of memory that all of them write.

use std::cell::RefCell;
use std::sync::atomic::{AtomicU32, Ordering};

use crate::Result;
use crate::comm::{Comm, Stripes};
use crate::data::rows::RowSet;

/// Rows that are looked at to find them.
const SAMPLE: usize = 1 << 14;
/// Rows of the sample that lie beside each other.
const STRETCH: usize = 256;
/// A feature is hot if it is in at least one of so many rows.
const RARE: usize = 256;
/// And very hot if it is in one of so many.
const VERY_RARE: usize = 16;
/// The most of them.
const MOST: usize = 1024;
/// Places of the table, a power of two: one look tells whether a feature is hot.
const PLACES: usize = 4096;

/// The hot features of a set, the same on every rank.
pub struct HotFeatures {
    /// For each place the only feature that may be there; of an empty place, one that belongs elsewhere.
    keys: Box<[u32; PLACES]>,
    /// For each place the number of its feature among the hot ones.
    slots: Box<[u16; PLACES]>,
    /// The features.
    features: Vec<u32>,
    /// How many of them are very hot.
    very: usize,
}

#[inline(always)]
fn place(feature: u32) -> usize {
    // The golden ratio spreads numbers that are close to each other.
    (feature.wrapping_mul(0x9e37_79b9) >> (32 - PLACES.ilog2())) as usize
}

impl HotFeatures {
    /// No feature is hot.
    pub fn none() -> Self {
        Self::of(std::iter::empty())
    }

    /// Of a sample of `rows`.
    pub fn find(rows: &RowSet) -> Self {
        let stretches = SAMPLE / STRETCH;
        let mut all: Vec<u32> = Vec::new();
        let mut looked = 0;
        for i in 0..stretches {
            let start = rows.len() / stretches * i;
            let end = (start + STRETCH.min(rows.len().div_ceil(stretches))).min(rows.len());
            looked += end - start;
            rows.rows(start..end)
                .for_each(|row| all.extend_from_slice(row.indices));
        }
        // What is none of the set's features is found where it is used.
        all.retain(|&feature| (feature as usize) < rows.about.features);
        all.sort_unstable();
        let counted = all.chunk_by(|a, b| a == b);
        let often = counted.filter(|same| same.len() * RARE >= looked);
        let mut often: Vec<(usize, u32)> = often.map(|same| (same.len(), same[0])).collect();
        often.sort_unstable_by(|a, b| b.cmp(a));
        let is_very = |count: usize| count * VERY_RARE >= looked;
        Self::of(
            often
                .into_iter()
                .map(|(count, feature)| (feature, is_very(count))),
        )
    }

    /// Of features, the hottest first, and whether they are very hot; of two that belong to one place the first is taken.
    fn of(features: impl Iterator<Item = (u32, bool)>) -> Self {
        // A feature that belongs elsewhere is found at no place but its own.
        let elsewhere = |at: usize| (0..).find(|&feature| place(feature) != at);
        let key = |at: usize| elsewhere(at).expect("two places are enough");
        let mut found = Self {
            keys: Box::new(std::array::from_fn(key)),
            slots: Box::new([0; PLACES]),
            features: Vec::new(),
            very: 0,
        };
        for (feature, is_very) in features {
            let at = place(feature);
            if place(found.keys[at]) != at && found.features.len() < MOST {
                found.keys[at] = feature;
                found.slots[at] = found.features.len() as u16;
                found.features.push(feature);
                found.very += usize::from(is_very);
            }
        }
        found
    }

    /// How many of them, the first, are very hot.
    pub fn very(&self) -> usize {
        self.very
    }

    /// The hot features, in the order of their numbers.
    pub fn features(&self) -> &[u32] {
        &self.features
    }

    /// The number of a feature among the hot ones, if it is one.
    pub fn slot(&self, feature: u32) -> Option<usize> {
        self.table().slot(feature)
    }

    /// What tells the number of a feature.
    pub(super) fn table(&self) -> Table<'_> {
        Table {
            keys: &self.keys,
            slots: &self.slots,
        }
    }
}

/// Tells the number of a feature; small enough to be kept in registers.
#[derive(Clone, Copy)]
pub(super) struct Table<'a> {
    keys: &'a [u32; PLACES],
    slots: &'a [u16; PLACES],
}

impl Table<'_> {
    /// The number of a feature among the hot ones, if it is one.
    #[inline(always)]
    pub(super) fn slot(self, feature: u32) -> Option<usize> {
        let at = place(feature);
        (self.keys[at] == feature).then(|| usize::from(self.slots[at]))
    }
}

/// This rank's copies of what a rule remembers of hot features, in tiers that are added up by themselves.
pub(super) struct Copies<const W: usize> {
    mine: Vec<[AtomicU32; W]>,
    tiers: Vec<RefCell<Tier>>,
    /// Which of the floats is a time, and each rank's own.
    time: Option<usize>,
}

struct Tier {
    /// Where its floats begin among all.
    start: usize,
    common: Stripes,
    /// What the copies were when last added up.
    base: Vec<f32>,
    /// Room for what was done since, and for the sums.
    deltas: Vec<f32>,
    sums: Vec<f32>,
}

impl<const W: usize> Copies<W> {
    /// As many features of zeros as `tiers` say together; all ranks are on one node; *collective*.
    pub(super) fn new(comm: &dyn Comm, tiers: &[usize], time: Option<usize>) -> Result<Self> {
        let cell = || std::array::from_fn(|_| AtomicU32::new(0));
        let mut start = 0;
        let mut tier = |count: usize| -> Result<_> {
            let zeros = vec![0.0; count * W];
            let tier = Tier {
                start,
                common: Stripes::new(comm, &zeros, false)?,
                base: zeros.clone(),
                deltas: zeros.clone(),
                sums: zeros,
            };
            start += count * W;
            Ok(RefCell::new(tier))
        };
        Ok(Self {
            tiers: tiers.iter().map(|&n| tier(n)).collect::<Result<_>>()?,
            mine: (0..tiers.iter().sum()).map(|_| cell()).collect(),
            time,
        })
    }

    /// The copies.
    pub(super) fn cells(&self) -> &[[AtomicU32; W]] {
        &self.mine
    }

    /// Adds what this rank did to a tier since it last came here to what others did, and takes the sums.
    pub(super) fn merge(&self, tier: usize) {
        let tier = &mut *self.tiers[tier].borrow_mut();
        let cells = &self.mine.as_flattened()[tier.start..][..tier.base.len()];
        let is_time = |i: usize| self.time == Some(i % W);
        let each = cells.iter().zip(&tier.base).zip(&mut tier.deltas);
        for (i, ((cell, base), delta)) in each.enumerate() {
            let value = f32::from_bits(cell.load(Ordering::Relaxed));
            *delta = if is_time(i) { 0.0 } else { value - base };
        }
        for stripe in 0..tier.common.count() {
            let range = tier.common.range(stripe);
            let (deltas, sums) = (&tier.deltas[range.clone()], &mut tier.sums[range]);
            tier.common.add(stripe, deltas, sums);
        }
        for (i, (cell, &sum)) in cells.iter().zip(&tier.sums).enumerate() {
            if !is_time(i) {
                cell.store(sum.to_bits(), Ordering::Relaxed);
            }
        }
        std::mem::swap(&mut tier.base, &mut tier.sums);
    }

    /// As `merge`, of all tiers.
    pub(super) fn merge_all(&self) {
        (0..self.tiers.len()).for_each(|tier| self.merge(tier));
    }

    /// Gives the common memory back; *collective*.
    pub(super) fn close(self) -> Result<()> {
        let mut tiers = self.tiers.into_iter();
        tiers.try_for_each(|tier| tier.into_inner().common.close())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::comm::run_ranks;

    #[test]
    fn a_hot_feature_is_found_and_no_other_is_taken_for_one() {
        let hot = HotFeatures::of(
            [5, 0, 17, 3_000_000, u32::MAX, 5]
                .map(|i| (i, i == 5))
                .into_iter(),
        );
        assert_eq!(hot.very(), 1, "each counts once");
        assert_eq!(hot.features(), [5, 0, 17, 3_000_000, u32::MAX]);
        for (i, &feature) in hot.features().iter().enumerate() {
            assert_eq!(hot.slot(feature), Some(i));
        }
        let others = (0..100_000).chain(u32::MAX - 100_000..=u32::MAX);
        let found = others.filter(|&feature| hot.slot(feature).is_some());
        assert_eq!(found.collect::<Vec<_>>(), [0, 5, 17, u32::MAX]);
        let nothing = HotFeatures::of(std::iter::empty());
        assert!((0..100_000).all(|feature| nothing.slot(feature).is_none()));
    }

    #[test]
    fn what_ranks_add_to_their_copies_is_added_up() {
        run_ranks(3, |comm| {
            let copies = Copies::<2>::new(comm, &[3, 5000], Some(1)).unwrap();
            for round in 0..10 {
                for cell in copies.cells() {
                    let value = f32::from_bits(cell[0].load(Ordering::Relaxed));
                    cell[0].store((value + 1.0).to_bits(), Ordering::Relaxed);
                    cell[1].store((round as f32).to_bits(), Ordering::Relaxed);
                }
                copies.merge_all();
            }
            comm.barrier();
            copies.merge_all();
            for cell in copies.cells() {
                let [sum, time] = [0, 1].map(|i| f32::from_bits(cell[i].load(Ordering::Relaxed)));
                assert_eq!((sum, time), (30.0, 9.0), "times are each rank's own");
            }
            copies.close().unwrap();
        });
    }
}
