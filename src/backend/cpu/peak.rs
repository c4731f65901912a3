//! The most that a core can do, to tell how far from it a kernel is.

use std::hint::black_box;
use std::time::{Duration, Instant};

use super::isa::Vectors;
#[cfg(target_arch = "x86_64")]
use super::isa::{Avx2, Avx512};
use super::{Work, linear};

/// Time of one trial, short enough to fall between two disturbances.
const TRIAL: Duration = Duration::from_millis(4);
const TRIALS: usize = 12;
/// Side of the matrices that BLAS multiplies.
const SIDE: usize = 384;

/// FLOP/s of this core in single precision: the best of several trials of products and sums that stay in registers, or
/// of BLAS where that does better. Takes a tenth of a second.
pub fn peak_flops() -> f64 {
    let (x, mut y) = (vec![0.5f32; SIDE * SIDE], vec![0.0f32; SIDE * SIDE]);
    let g = linear::Geometry {
        n: SIDE,
        ci: SIDE,
        co: SIDE,
    };
    let mut blas = || {
        linear::grad_input(g, &x, &x, &mut y);
        black_box(&y);
        2.0 * (SIDE * SIDE * SIDE) as f64
    };
    let trials = (0..TRIALS).map(|_| rate(&mut blas).max(rate(&mut registers)));
    trials.fold(0.0, f64::max)
}

/// FLOP/s of work that returns its FLOP.
fn rate(work: &mut impl FnMut() -> f64) -> f64 {
    let (start, mut flop) = (Instant::now(), 0.0);
    while start.elapsed() < TRIAL {
        flop += work();
    }
    flop / start.elapsed().as_secs_f64()
}

/// Vectors that are worked on at once: enough to fill two units of five cycles of latency.
const STRANDS: usize = 12;
const ROUNDS: usize = 1000;

/// Multiplies and adds in registers; gives the FLOP done.
fn registers() -> f64 {
    #[cfg(target_arch = "x86_64")]
    {
        if let Some(isa) = Avx512::here() {
            return turns(isa);
        }
        if let Some(isa) = Avx2::here() {
            return turns(isa);
        }
    }
    let mut strands = black_box([1.0f32; 4 * STRANDS]);
    for _ in 0..ROUNDS {
        strands.iter_mut().for_each(|s| *s = *s * 0.999 + 0.001);
    }
    black_box(strands);
    (2 * 4 * STRANDS * ROUNDS) as f64
}

fn turns<I: Vectors>(isa: I) -> f64 {
    isa.run(Turns(isa));
    (2 * I::LANES * STRANDS * ROUNDS) as f64
}

struct Turns<I>(I);

impl<I: Vectors> Work for Turns<I> {
    #[inline(always)]
    fn run(self) {
        let isa = self.0;
        let mut strands = [isa.splat(black_box(1.0)); STRANDS];
        let (a, b) = (isa.splat(0.999), isa.splat(0.001));
        for _ in 0..ROUNDS {
            for strand in &mut strands {
                *strand = isa.mul_add(*strand, a, b);
            }
        }
        let mut sum = strands[0];
        for strand in &strands[1..] {
            sum = isa.add(sum, *strand);
        }
        black_box(isa.across(sum));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_peak_is_above_what_plain_sums_reach_and_below_what_no_core_does() {
        let peak = peak_flops();
        assert!((1e8..1e13).contains(&peak), "{peak}");
    }
}
