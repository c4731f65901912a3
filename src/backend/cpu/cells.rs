//! Cells of shared memory that lie anywhere, four at a time, and their floats side by side.
//!
//! Each cell is read and written by itself, in one move where the machine has one that wide, and goes between memory and
//! vectors in registers: floats that were stored one by one could not be loaded as a vector before they have reached the
//! cache, behind every store that still waits for its line.
#![allow(unsafe_code)]

use std::sync::atomic::AtomicU32;
#[cfg(not(target_arch = "x86_64"))]
use std::sync::atomic::Ordering;

/// A few floats that belong together.
pub type Cell<const W: usize> = [AtomicU32; W];

/// Cells at a time: as many as every machine has vectors for. Wider ones gain nothing, as most of the time goes to the cells.
pub const LANES: usize = 4;

/// The first float of each cell, then the second of each …
#[inline(always)]
pub fn read_cells<const W: usize>(cells: &[&Cell<W>; LANES]) -> [[f32; LANES]; W] {
    #[cfg(target_arch = "x86_64")]
    {
        x86::read(cells)
    }
    #[cfg(not(target_arch = "x86_64"))]
    {
        let float = |cell: &AtomicU32| f32::from_bits(cell.load(Ordering::Relaxed));
        std::array::from_fn(|i| std::array::from_fn(|lane| float(&cells[lane][i])))
    }
}

/// Writes what [`read_cells`] gives.
#[inline(always)]
pub fn write_cells<const W: usize>(cells: &[&Cell<W>; LANES], floats: &[[f32; LANES]; W]) {
    #[cfg(target_arch = "x86_64")]
    x86::write(cells, floats);
    #[cfg(not(target_arch = "x86_64"))]
    for (lane, cell) in cells.iter().enumerate() {
        for (i, float) in cell.iter().enumerate() {
            float.store(floats[i][lane].to_bits(), Ordering::Relaxed);
        }
    }
}

#[cfg(target_arch = "x86_64")]
mod x86 {
    use std::arch::x86_64::*;
    use std::ptr;

    use super::{Cell, LANES};

    #[inline(always)]
    pub(super) fn read<const W: usize>(&[a, b, c, d]: &[&Cell<W>; LANES]) -> [[f32; LANES]; W] {
        let mut floats = [[0.0; LANES]; W];
        // SAFETY: as many floats are read as each cell has, with instructions of every such machine. Others may write them
        // at the same moment: the moves are the processor's own, out of which no aligned float comes torn.
        unsafe {
            match W {
                1 => {
                    let low = _mm_unpacklo_ps(_mm_load_ss(start(a)), _mm_load_ss(start(b)));
                    let high = _mm_unpacklo_ps(_mm_load_ss(start(c)), _mm_load_ss(start(d)));
                    floats[0] = lanes(_mm_movelh_ps(low, high));
                }
                2 => {
                    let (low, high) = (two(start(a), start(b)), two(start(c), start(d)));
                    floats[0] = lanes(_mm_shuffle_ps::<0b10_00_10_00>(low, high));
                    floats[1] = lanes(_mm_shuffle_ps::<0b11_01_11_01>(low, high));
                }
                4 => {
                    let (mut x, mut y) = (_mm_loadu_ps(start(a)), _mm_loadu_ps(start(b)));
                    let (mut z, mut w) = (_mm_loadu_ps(start(c)), _mm_loadu_ps(start(d)));
                    _MM_TRANSPOSE4_PS(&mut x, &mut y, &mut z, &mut w);
                    floats[0] = lanes(x);
                    floats[1] = lanes(y);
                    floats[2] = lanes(z);
                    floats[3] = lanes(w);
                }
                _ => unreachable!("rules remember 1, 2 or 4 floats"),
            }
        }
        floats
    }

    #[inline(always)]
    pub(super) fn write<const W: usize>(
        &[a, b, c, d]: &[&Cell<W>; LANES],
        floats: &[[f32; LANES]; W],
    ) {
        // SAFETY: as in `read`; whoever has a reference to a cell may write it.
        unsafe {
            match W {
                1 => {
                    let [x, y, z, w] = floats[0];
                    start(a).write(x);
                    start(b).write(y);
                    start(c).write(z);
                    start(d).write(w);
                }
                2 => {
                    let (x, y) = (vector(floats[0]), vector(floats[1]));
                    let low = _mm_castps_pd(_mm_unpacklo_ps(x, y));
                    let high = _mm_castps_pd(_mm_unpackhi_ps(x, y));
                    _mm_storel_pd(start(a).cast(), low);
                    _mm_storeh_pd(start(b).cast(), low);
                    _mm_storel_pd(start(c).cast(), high);
                    _mm_storeh_pd(start(d).cast(), high);
                }
                4 => {
                    let (mut x, mut y) = (vector(floats[0]), vector(floats[1]));
                    let (mut z, mut w) = (vector(floats[2]), vector(floats[3]));
                    _MM_TRANSPOSE4_PS(&mut x, &mut y, &mut z, &mut w);
                    _mm_storeu_ps(start(a), x);
                    _mm_storeu_ps(start(b), y);
                    _mm_storeu_ps(start(c), z);
                    _mm_storeu_ps(start(d), w);
                }
                _ => unreachable!("rules remember 1, 2 or 4 floats"),
            }
        }
    }

    /// Where a cell begins.
    #[inline(always)]
    fn start<const W: usize>(cell: &Cell<W>) -> *mut f32 {
        ptr::from_ref(cell).cast::<f32>().cast_mut()
    }

    /// Two floats from either place.
    #[inline(always)]
    unsafe fn two(a: *const f32, b: *const f32) -> __m128 {
        // SAFETY: the caller knows that they are there.
        unsafe { _mm_castpd_ps(_mm_loadh_pd(_mm_load_sd(a.cast()), b.cast())) }
    }

    #[inline(always)]
    fn lanes(x: __m128) -> [f32; LANES] {
        // SAFETY: both are four floats, and any bits are a float.
        unsafe { std::mem::transmute(x) }
    }

    #[inline(always)]
    fn vector(x: [f32; LANES]) -> __m128 {
        // SAFETY: as in `lanes`.
        unsafe { std::mem::transmute(x) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::Ordering;

    fn come_back_as_they_were_written<const W: usize>() {
        let cells: Vec<Cell<W>> = (0..20)
            .map(|cell| std::array::from_fn(|i| AtomicU32::new((cell * 10 + i) as u32)))
            .collect();
        let picked: [usize; LANES] = [3, 19, 0, 12];
        let some = picked.map(|at| &cells[at]);
        let floats = read_cells(&some);
        for (i, floats) in floats.iter().enumerate() {
            let expected = picked.map(|at| (at * 10 + i) as u32);
            assert_eq!(floats.map(f32::to_bits), expected, "float {i} of {W}");
        }
        write_cells(&some, &floats.map(|floats| floats.map(|x| x + 1.0)));
        for (at, cell) in cells.iter().enumerate() {
            for (i, float) in cell.iter().enumerate() {
                let before = f32::from_bits((at * 10 + i) as u32);
                let expected = if picked.contains(&at) {
                    before + 1.0
                } else {
                    before
                };
                let got = f32::from_bits(float.load(Ordering::Relaxed));
                assert_eq!(got, expected, "cell {at}, float {i} of {W}");
            }
        }
    }

    #[test]
    fn cells_that_lie_anywhere_come_back_as_they_were_written() {
        come_back_as_they_were_written::<1>();
        come_back_as_they_were_written::<2>();
        come_back_as_they_were_written::<4>();
    }
}
