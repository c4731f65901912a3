//! Random numbers of a matrix: each a pure function of seed, row and column, made many at a time in wide vectors.
//!
//! The bits are those of Philox 4×32 with ten rounds (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", 2011):
//! a bijection of a 128-bit counter under a 64-bit key. Seven rounds pass every test of BigCrush, ten are what its authors
//! use, and its 32 × 32-bit products are what AVX2 can multiply. The key is of the seed and of the kind of numbers, so that
//! normal and uniform matrices of one seed are independent; the counter is the row and the place among the columns, so
//! that a_ij and a_ji are different counters.

use std::marker::PhantomData;

use super::Real;
use super::normal::pair;
use crate::backend::cpu::{Work, wide};
use crate::rng::Stream;

/// Numbers that are made at once. Which bits make which number depends on it: another value is another matrix.
const CHUNK: usize = 64;

const LOW: u64 = 0xffff_ffff;
const ROUNDS: u32 = 10;
/// The multipliers of a round, and what the key grows by between two.
const FACTORS: [u64; 2] = [0xd251_1f53, 0xcd9e_8d57];
const GROWTH: [u64; 2] = [0x9e37_79b9, 0xbb67_ae85];

const ONE: u64 = 0x3ff0_0000_0000_0000;

/// How random numbers are distributed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Law {
    /// Normal with mean 0 and variance 1.
    Normal,
    /// Uniform from 0 to 1, in steps of 2⁻⁵².
    Uniform,
    /// 1 or -1.
    Sign,
}

/// The numbers of one law that a seed names.
#[derive(Clone, Copy, Debug)]
pub(super) struct Random {
    law: Law,
    key: [u64; 2],
}

impl Random {
    pub(super) fn new(law: Law, seed: u64) -> Self {
        let bits = Stream::new(&[seed, law as u64]).bits();
        Self {
            law,
            key: [bits & LOW, bits >> 32],
        }
    }

    /// Writes those of `row` from column `col` on.
    pub(super) fn fill<T: Real>(self, row: usize, col: usize, out: &mut [T]) {
        let place = Place {
            key: self.key,
            row: row as u64,
            chunk: (col / CHUNK) as u64,
        };
        let skip = col % CHUNK;
        match self.law {
            Law::Normal => wide(Fill::<Normal, T>::new(place, skip, out)),
            Law::Uniform => wide(Fill::<Uniform, T>::new(place, skip, out)),
            Law::Sign => wide(Fill::<Sign, T>::new(place, skip, out)),
        }
    }
}

/// Which chunk of a matrix.
#[derive(Clone, Copy)]
struct Place {
    key: [u64; 2],
    row: u64,
    chunk: u64,
}

impl Place {
    /// The four words of lane `lane` of `lanes`; only the lower half of each counts.
    #[inline(always)]
    fn words(self, lane: usize, lanes: usize) -> [u64; 4] {
        let lane = self.chunk * lanes as u64 + lane as u64;
        philox([lane, lane >> 32, self.row, self.row >> 32], self.key)
    }
}

/// Philox on the lower halves of `words`; what is in the upper ones is of no use and does no harm.
#[inline(always)]
fn philox(mut words: [u64; 4], key: [u64; 2]) -> [u64; 4] {
    let [mut k, mut l] = key;
    for _ in 0..ROUNDS {
        let first = (words[0] & LOW) * FACTORS[0];
        let second = (words[2] & LOW) * FACTORS[1];
        words = [
            (second >> 32) ^ words[1] ^ k,
            second,
            (first >> 32) ^ words[3] ^ l,
            first,
        ];
        k = k.wrapping_add(GROWTH[0]);
        l = l.wrapping_add(GROWTH[1]);
    }
    words
}

/// Makes a chunk of numbers. A type for each law, not a function: only what is always inlined gets wide vectors.
trait Chunk {
    fn make(place: Place, numbers: &mut [f64; CHUNK]);
}

/// Numbers of a row from a chunk on, of which the first few are left out.
struct Fill<'a, C, T> {
    law: PhantomData<C>,
    place: Place,
    skip: usize,
    out: &'a mut [T],
}

impl<'a, C, T> Fill<'a, C, T> {
    fn new(place: Place, skip: usize, out: &'a mut [T]) -> Self {
        Self {
            law: PhantomData,
            place,
            skip,
            out,
        }
    }
}

impl<C: Chunk, T: Real> Work for Fill<'_, C, T> {
    #[inline(always)]
    fn run(self) {
        let (mut place, mut skip, mut rest) = (self.place, self.skip, self.out);
        let mut numbers = [0.0; CHUNK];
        while !rest.is_empty() {
            C::make(place, &mut numbers);
            let take = rest.len().min(CHUNK - skip);
            let (now, later) = rest.split_at_mut(take);
            for (out, &number) in now.iter_mut().zip(&numbers[skip..]) {
                *out = T::nearest(number);
            }
            rest = later;
            place.chunk += 1;
            skip = 0;
        }
    }
}

/// Four numbers of each lane, a quarter of the chunk apart, so that neighbours in a vector are neighbours in the row.
struct Normal;

impl Chunk for Normal {
    #[inline(always)]
    fn make(place: Place, numbers: &mut [f64; CHUNK]) {
        const LANES: usize = CHUNK / 4;
        let (front, back) = numbers.split_at_mut(2 * LANES);
        let (a, b) = front.split_at_mut(LANES);
        let (c, d) = back.split_at_mut(LANES);
        for lane in 0..LANES {
            let words = place.words(lane, LANES);
            (a[lane], b[lane]) = pair(words[0], words[1]);
            (c[lane], d[lane]) = pair(words[2], words[3]);
        }
    }
}

/// Two numbers of each lane, of 52 bits.
struct Uniform;

impl Chunk for Uniform {
    #[inline(always)]
    fn make(place: Place, numbers: &mut [f64; CHUNK]) {
        const LANES: usize = CHUNK / 2;
        let number = |high: u64, low: u64| {
            let bits = (high & LOW) << 20 | (low & LOW) >> 12;
            f64::from_bits(ONE | bits) - 1.0
        };
        let (front, back) = numbers.split_at_mut(LANES);
        for lane in 0..LANES {
            let words = place.words(lane, LANES);
            front[lane] = number(words[0], words[1]);
            back[lane] = number(words[2], words[3]);
        }
    }
}

/// Four numbers of each lane: the highest bit of each word is the sign.
struct Sign;

impl Chunk for Sign {
    #[inline(always)]
    fn make(place: Place, numbers: &mut [f64; CHUNK]) {
        const LANES: usize = CHUNK / 4;
        let number = |word: u64| f64::from_bits(ONE | (word & 0x8000_0000) << 32);
        for lane in 0..LANES {
            let words = place.words(lane, LANES);
            for (quarter, word) in words.into_iter().enumerate() {
                numbers[quarter * LANES + lane] = number(word);
            }
        }
    }
}

#[cfg(test)]
mod tests;
