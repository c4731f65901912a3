//! Sums and dot products as if in twice the precision of `f64`, with a bound on what is still missing.
//!
//! Sum2 and Dot2 of Ogita, Rump and Oishi: each addition and each product leaves an error that is itself a number, and
//! these are added up beside the sum. [`LANES`] strands in a fixed order fill wide vectors. An error of a product is one
//! fused multiply-add, which rounds once whether a machine has it or its C library computes it: the bits are the same.

use std::ops::{Add, AddAssign};

use super::{Precision, Real};
use crate::backend::cpu::{Work, wide};

/// Sums that run side by side: two vectors of four, enough to hide how long an addition takes.
const LANES: usize = 8;
/// The most that one rounding changes, relatively.
const ROUNDOFF: f64 = f64::EPSILON / 2.0;
/// The least number above zero: twice what underflow can take from a product.
const TINY: f64 = f64::from_bits(1);
/// Makes a bound stay above what it bounds through the few roundings of its own computation.
const UP: f64 = 1.0 + 8.0 * f64::EPSILON;

/// The sum of two numbers as the nearest one and, exactly, what that is off by.
#[inline(always)]
fn two_sum(a: f64, b: f64) -> (f64, f64) {
    let sum = a + b;
    let part = sum - a;
    (sum, (a - (sum - part)) + (b - part))
}

/// The most that `n` roundings in a row change, relatively: γₙ = nu / (1 − nu).
pub(super) fn gamma(n: usize, roundoff: f64) -> f64 {
    let most = n as f64 * roundoff;
    match most < 0.5 {
        true => most / (1.0 - most) * UP,
        false => f64::INFINITY,
    }
}

/// A number of about 106 bits: `high + low`, where `high` is the `f64` next to it.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Sum {
    /// The nearest `f64`.
    pub high: f64,
    /// What is missing to it.
    pub low: f64,
}

impl Sum {
    /// `a + b`, exactly.
    pub fn new(a: f64, b: f64) -> Self {
        let (high, low) = two_sum(a, b);
        Self { high, low }
    }
}

impl Add for Sum {
    type Output = Self;

    /// Off by at most 3u² / (1 − 4u) of the result, u = 2⁻⁵³ (AccurateDWPlusDW of Joldes, Muller and Popescu).
    fn add(self, other: Self) -> Self {
        let (high, error) = two_sum(self.high, other.high);
        let (low, least) = two_sum(self.low, other.low);
        let (high, error) = two_sum(high, error + low);
        Self::new(high, least + error)
    }
}

/// A sum, the sum of its terms' absolute values, and how far the sum can be from the exact one.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Total {
    /// The sum.
    pub sum: Sum,
    /// The sum of absolute values, or a little more.
    pub size: f64,
    /// `sum` is at most this far from the exact sum.
    pub error: f64,
}

impl Total {
    /// Bytes of `to_bytes`.
    pub const BYTES: usize = 32;

    /// Twice as much, exactly.
    pub fn twice(self) -> Self {
        Self {
            sum: Sum {
                high: 2.0 * self.sum.high,
                low: 2.0 * self.sum.low,
            },
            size: 2.0 * self.size,
            error: 2.0 * self.error,
        }
    }

    /// How far `sum.high` can be from the exact sum.
    pub fn bound(&self) -> f64 {
        (self.sum.low.abs() + self.error) * UP
    }

    /// For another rank.
    pub fn to_bytes(self) -> [u8; Self::BYTES] {
        let mut bytes = [0; Self::BYTES];
        let values = [self.sum.high, self.sum.low, self.size, self.error];
        for (place, value) in bytes.chunks_exact_mut(8).zip(values) {
            place.copy_from_slice(&value.to_le_bytes());
        }
        bytes
    }

    /// From another rank.
    pub fn from_bytes(bytes: &[u8; Self::BYTES]) -> Self {
        let (values, _) = bytes.as_chunks();
        let [high, low, size, error] = [0, 1, 2, 3].map(|i| f64::from_le_bytes(values[i]));
        Self {
            sum: Sum { high, low },
            size,
            error,
        }
    }
}

impl AddAssign for Total {
    fn add_assign(&mut self, other: Self) {
        self.sum = self.sum + other.sum;
        self.size = (self.size + other.size) * UP;
        let rounding = 4.0 * ROUNDOFF * ROUNDOFF * self.sum.high.abs();
        self.error = (self.error + other.error + rounding) * UP;
    }
}

/// `x₀ + x₁ + …`
pub fn sum<T: Real>(x: &[T]) -> Total {
    let mut strands = Strands::default();
    wide(Terms {
        x,
        out: &mut strands,
    });
    strands.total()
}

/// `x₀y₀ + x₁y₁ + …`; both are of the same length.
pub fn dot<T: Real>(x: &[T], y: &[T]) -> Total {
    assert_eq!(x.len(), y.len(), "as many of both");
    let mut strands = Strands::default();
    wide(Products {
        x,
        y,
        out: &mut strands,
    });
    strands.total()
}

/// Sums that run side by side, each with the errors it has made and the sum of absolute values.
#[derive(Clone, Copy, Default)]
pub(super) struct Strands {
    high: [f64; LANES],
    low: [f64; LANES],
    size: [f64; LANES],
    /// Terms of the longest strand.
    steps: usize,
    /// How many of them are products whose error may underflow.
    products: usize,
}

impl Strands {
    /// Adds a term to a strand: `value`, and what that is off by.
    #[inline(always)]
    fn add(&mut self, lane: usize, value: f64, off: f64) {
        let (sum, error) = two_sum(self.high[lane], value);
        self.high[lane] = sum;
        self.low[lane] += error + off;
        self.size[lane] += value.abs();
    }

    #[inline(always)]
    fn step<T: Real>(&mut self, x: &[T; LANES]) {
        for (lane, x) in x.iter().enumerate() {
            self.add(lane, x.wide(), 0.0);
        }
    }

    #[inline(always)]
    fn step_product<T: Real>(&mut self, x: &[T; LANES], y: &[T; LANES]) {
        for lane in 0..LANES {
            let (value, off) = product(x[lane], y[lane]);
            self.add(lane, value, off);
        }
    }

    /// Adds all of `x`.
    #[inline(always)]
    fn terms<T: Real>(&mut self, x: &[T]) {
        let (chunks, rest) = x.as_chunks();
        chunks.iter().for_each(|x| self.step(x));
        if !rest.is_empty() {
            self.step(&padded(rest));
        }
        self.steps += x.len().div_ceil(LANES);
    }

    /// Adds the products of `x` and `y`.
    #[inline(always)]
    pub(super) fn products<T: Real>(&mut self, x: &[T], y: &[T]) {
        let (xs, x_rest) = x.as_chunks();
        let (ys, y_rest) = y.as_chunks();
        for (x, y) in xs.iter().zip(ys) {
            self.step_product(x, y);
        }
        if !x_rest.is_empty() {
            self.step_product(&padded(x_rest), &padded(y_rest));
        }
        let steps = x.len().div_ceil(LANES);
        self.steps += steps;
        if T::PRECISION == Precision::Double {
            self.products += steps;
        }
    }

    /// All strands together, in their order.
    ///
    /// A strand of m terms with absolute values S makes errors of at most u(m + 1)S / (1 − mu) together, and adding those up
    /// loses at most γₘ of that: γ² S with γ of m + 1. Products that underflow lose a little more.
    pub(super) fn total(&self) -> Total {
        let gamma = gamma(self.steps + 1, ROUNDOFF);
        let strand = |lane: usize| {
            let size = self.size[lane] * (1.0 + gamma) * UP;
            Total {
                sum: Sum::new(self.high[lane], self.low[lane]),
                size,
                error: (gamma * gamma * size + self.products as f64 * TINY) * UP,
            }
        };
        let mut total = strand(0);
        (1..LANES).for_each(|lane| total += strand(lane));
        total
    }
}

/// A product as the nearest `f64` and, but for underflow exactly, what that is off by.
#[inline(always)]
fn product<T: Real>(x: T, y: T) -> (f64, f64) {
    let (x, y) = (x.wide(), y.wide());
    let value = x * y;
    match T::PRECISION {
        // Twice 24 bits are fewer than 53.
        Precision::Single => (value, 0.0),
        Precision::Double => (value, x.mul_add(y, -value)),
    }
}

/// A last step with zeros for what is missing: they change nothing, and all lanes stay alike.
// Inlined, its copy cuts the lanes into uneven vectors: half the speed of dot products, as measured.
#[inline(never)]
fn padded<T: Real>(rest: &[T]) -> [T; LANES] {
    let mut all = [T::zero(); LANES];
    all[..rest.len()].copy_from_slice(rest);
    all
}

struct Terms<'a, T> {
    x: &'a [T],
    out: &'a mut Strands,
}

impl<T: Real> Work for Terms<'_, T> {
    #[inline(always)]
    fn run(self) {
        // Begun here, where the compiler sees that all lanes are alike.
        let mut strands = Strands::default();
        strands.terms(self.x);
        *self.out = strands;
    }
}

struct Products<'a, T> {
    x: &'a [T],
    y: &'a [T],
    out: &'a mut Strands,
}

impl<T: Real> Work for Products<'_, T> {
    #[inline(always)]
    fn run(self) {
        // Begun here, where the compiler sees that all lanes are alike.
        let mut strands = Strands::default();
        strands.products(self.x, self.y);
        *self.out = strands;
    }
}

#[cfg(test)]
mod tests;
