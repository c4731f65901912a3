//! Cells of shared memory that lie anywhere, eight at a time, and their floats side by side in vectors.
//!
//! Each cell is read and written by itself, in one move where the machine has one that wide, and goes between memory and
//! vectors in registers: floats that were stored one by one could not be loaded as a vector before they have reached the
//! cache, behind every store that still waits for its line.

#[cfg(target_arch = "x86_64")]
mod x86;

use std::sync::atomic::{AtomicU32, Ordering};

use super::Work;
#[cfg(target_arch = "x86_64")]
use super::isa::{Avx2, Avx512, Vectors};

/// A few floats that belong together.
pub type Cell<const W: usize> = [AtomicU32; W];

/// Cells at a time.
pub const LANES: usize = 8;

/// Eight floats at a time, by whatever the machine has. All kinds give the same bits.
pub trait Lanes: Copy {
    /// The floats.
    type Floats: Copy;

    /// These floats.
    fn of(self, floats: [f32; LANES]) -> Self::Floats;
    /// The floats one by one.
    fn each(self, x: Self::Floats) -> [f32; LANES];
    /// `a + b`.
    fn add(self, a: Self::Floats, b: Self::Floats) -> Self::Floats;
    /// `a − b`.
    fn sub(self, a: Self::Floats, b: Self::Floats) -> Self::Floats;
    /// `a · b`.
    fn mul(self, a: Self::Floats, b: Self::Floats) -> Self::Floats;
    /// `a / b`.
    fn div(self, a: Self::Floats, b: Self::Floats) -> Self::Floats;
    /// `√x`.
    fn sqrt(self, x: Self::Floats) -> Self::Floats;

    /// The same in all lanes.
    #[inline(always)]
    fn splat(self, x: f32) -> Self::Floats {
        self.of([x; LANES])
    }

    /// The sum of all.
    #[inline(always)]
    fn sum(self, x: Self::Floats) -> f32 {
        let [a, b, c, d, e, f, g, h] = self.each(x);
        ((a + e) + (c + g)) + ((b + f) + (d + h))
    }

    /// The first float of each cell, then the second of each …
    #[inline(always)]
    fn read<const W: usize>(self, cells: &[&Cell<W>; LANES]) -> [Self::Floats; W] {
        let mut floats = [self.splat(0.0); W];
        for (i, floats) in floats.iter_mut().enumerate() {
            let mut all = [0.0; LANES];
            for lane in 0..LANES {
                all[lane] = f32::from_bits(cells[lane][i].load(Ordering::Relaxed));
            }
            *floats = self.of(all);
        }
        floats
    }

    /// Writes what [`read`](Self::read) gives.
    #[inline(always)]
    fn write<const W: usize>(self, cells: &[&Cell<W>; LANES], floats: [Self::Floats; W]) {
        for (i, floats) in floats.into_iter().enumerate() {
            let all = self.each(floats);
            for lane in 0..LANES {
                cells[lane][i].store(all[lane].to_bits(), Ordering::Relaxed);
            }
        }
    }
}

/// Something to do with lanes; `run` is `#[inline(always)]`.
pub trait LaneWork {
    /// Does it.
    fn run(self, lanes: impl Lanes);
}

/// Does `work` with the best lanes that this machine has, compiled for them.
#[inline(always)]
pub fn in_lanes(work: impl LaneWork) {
    #[cfg(target_arch = "x86_64")]
    {
        if let Some(isa) = Avx512::here() {
            return Vectors::run(isa, With(work, isa));
        }
        if let Some(isa) = Avx2::here() {
            return Vectors::run(isa, With(work, isa));
        }
    }
    work.run(Plain);
}

/// Work and what to do it with.
struct With<T, L>(T, L);

impl<T: LaneWork, L: Lanes> Work for With<T, L> {
    #[inline(always)]
    fn run(self) {
        self.0.run(self.1);
    }
}

/// What every machine can do.
#[derive(Clone, Copy)]
struct Plain;

/// `f` of each pair.
#[inline(always)]
fn pairs(a: [f32; LANES], b: [f32; LANES], f: impl Fn(f32, f32) -> f32) -> [f32; LANES] {
    let mut all = [0.0; LANES];
    for lane in 0..LANES {
        all[lane] = f(a[lane], b[lane]);
    }
    all
}

impl Lanes for Plain {
    type Floats = [f32; LANES];

    #[inline(always)]
    fn of(self, floats: [f32; LANES]) -> [f32; LANES] {
        floats
    }

    #[inline(always)]
    fn each(self, x: [f32; LANES]) -> [f32; LANES] {
        x
    }

    #[inline(always)]
    fn add(self, a: [f32; LANES], b: [f32; LANES]) -> [f32; LANES] {
        pairs(a, b, |a, b| a + b)
    }

    #[inline(always)]
    fn sub(self, a: [f32; LANES], b: [f32; LANES]) -> [f32; LANES] {
        pairs(a, b, |a, b| a - b)
    }

    #[inline(always)]
    fn mul(self, a: [f32; LANES], b: [f32; LANES]) -> [f32; LANES] {
        pairs(a, b, |a, b| a * b)
    }

    #[inline(always)]
    fn div(self, a: [f32; LANES], b: [f32; LANES]) -> [f32; LANES] {
        pairs(a, b, |a, b| a / b)
    }

    #[inline(always)]
    fn sqrt(self, x: [f32; LANES]) -> [f32; LANES] {
        pairs(x, x, |x, _| x.sqrt())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backend::cpu::with_each_set;

    struct Back<'a, const W: usize>(&'a [Cell<W>]);

    impl<const W: usize> LaneWork for Back<'_, W> {
        #[inline(always)]
        fn run(self, lanes: impl Lanes) {
            let picked: [usize; LANES] = [3, 19, 0, 7, 8, 11, 2, 12];
            let some = picked.map(|at| &self.0[at]);
            let floats = lanes.read(&some);
            for (i, floats) in floats.into_iter().enumerate() {
                let expected = picked.map(|at| (at * 10 + i) as f32);
                assert_eq!(lanes.each(floats), expected, "float {i} of {W}");
            }
            let more = floats.map(|floats| lanes.add(floats, lanes.splat(0.5)));
            lanes.write(&some, more);
            for (at, cell) in self.0.iter().enumerate() {
                for (i, float) in cell.iter().enumerate() {
                    let more = if picked.contains(&at) { 0.5 } else { 0.0 };
                    let got = f32::from_bits(float.load(Ordering::Relaxed));
                    assert_eq!(
                        got,
                        (at * 10 + i) as f32 + more,
                        "cell {at}, float {i} of {W}"
                    );
                }
            }
        }
    }

    fn back<const W: usize>() {
        let float = |at: usize, i: usize| AtomicU32::new(((at * 10 + i) as f32).to_bits());
        let cell = |at: usize| std::array::from_fn(|i| float(at, i));
        in_lanes(Back::<W>(&(0..20).map(cell).collect::<Vec<_>>()));
    }

    #[test]
    fn cells_that_lie_anywhere_come_back_as_they_were_written() {
        with_each_set(|_| {
            back::<1>();
            back::<2>();
            back::<4>();
        });
    }

    struct Bits<'a>(&'a mut Vec<u32>);

    impl LaneWork for Bits<'_> {
        #[inline(always)]
        fn run(self, lanes: impl Lanes) {
            let a = lanes.of([1.5, 0.1, 3e-20, 7.0, 1e30, 2.5, 0.3, 1.0]);
            let b = lanes.of([0.7, 0.3, 2e-20, 3.0, 1e25, 1.5, 0.7, 9.0]);
            let all = [
                lanes.add(a, b),
                lanes.sub(a, b),
                lanes.mul(a, b),
                lanes.div(a, b),
                lanes.sqrt(a),
                lanes.splat(lanes.sum(a)),
            ];
            let each = all.into_iter().flat_map(|x| lanes.each(x));
            self.0.extend(each.map(f32::to_bits));
        }
    }

    #[test]
    fn all_sets_give_the_same_bits() {
        let mut found = Vec::new();
        with_each_set(|_| {
            let mut bits = Vec::new();
            in_lanes(Bits(&mut bits));
            found.push(bits);
        });
        assert!(found.windows(2).all(|two| two[0] == two[1]), "{found:?}");
        assert_eq!(found[0][0], 2.2f32.to_bits());
    }
}
