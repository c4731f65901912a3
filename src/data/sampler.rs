//! The order of samples: a pure function of seed, epoch and position, whatever the number of ranks.

use crate::rng::Stream;

/// Rounds of the Feistel network; even, so that its two unequal halves end where they began.
const ROUNDS: usize = 6;

/// A permutation of `0..n` that is computed, not stored (Feistel network with cycle-walking).
#[derive(Clone, Debug)]
pub struct Permutation {
    n: u64,
    /// Bits of the two halves: together the fewest that can count to n.
    bits: [u32; 2],
    keys: [u64; ROUNDS],
}

impl Permutation {
    /// The permutation of `0..n` that `seed` and `epoch` name.
    pub fn new(n: usize, seed: u64, epoch: u64) -> Self {
        let mut stream = Stream::new(&[seed, epoch, 0x006f_7264_6572]);
        let all = (n.max(2) as u64 - 1).ilog2() + 1;
        let bits = [all / 2, all - all / 2];
        Self {
            n: n as u64,
            bits,
            keys: std::array::from_fn(|_| stream.bits()),
        }
    }

    /// The sample at position `k`.
    pub fn at(&self, k: usize) -> usize {
        debug_assert!((k as u64) < self.n);
        let mut x = k as u64;
        // Values past n are walked on: the network permutes at most 2n values, so two rounds trips on average do.
        loop {
            x = self.scramble(x);
            if x < self.n {
                return x as usize;
            }
        }
    }

    fn scramble(&self, x: u64) -> u64 {
        let [mut low_bits, mut high_bits] = self.bits;
        let (mut low, mut high) = (x & ((1 << low_bits) - 1), x >> low_bits);
        for key in self.keys {
            let hash = (high ^ key).wrapping_mul(0x9e37_79b9_7f4a_7c15);
            let hash = (hash ^ (hash >> 32)).wrapping_mul(0xd6e8_feb8_6659_fd93) >> 32;
            (low, high) = (high, low ^ (hash & ((1 << low_bits) - 1)));
            (low_bits, high_bits) = (high_bits, low_bits);
        }
        debug_assert_eq!([low_bits, high_bits], self.bits);
        low | (high << low_bits)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_sample_comes_once_an_epoch() {
        for n in [1, 2, 3, 5, 64, 65, 1000, 4097] {
            let order = Permutation::new(n, 1, 0);
            let mut seen = vec![false; n];
            (0..n).for_each(|k| {
                assert!(
                    !std::mem::replace(&mut seen[order.at(k)], true),
                    "n {n}, k {k}"
                )
            });
        }
    }

    #[test]
    fn epochs_and_seeds_have_unrelated_orders() {
        let n = 10_000;
        let order = |seed, epoch| Permutation::new(n, seed, epoch);
        for (a, b) in [(order(1, 0), order(1, 1)), (order(1, 0), order(2, 0))] {
            // Two random permutations agree in one place on average.
            let same = (0..n).filter(|&k| a.at(k) == b.at(k)).count();
            assert!(same < 8, "{same} of {n} positions agree");
        }
    }

    #[test]
    fn neighbours_in_the_file_are_spread_over_the_epoch() {
        // Chi-square over a 16 × 16 table of (quarter of position, place): 225 degrees of freedom, deviation 21.
        let n = 64_000;
        let order = Permutation::new(n, 7, 3);
        let mut table = [[0f64; 16]; 16];
        (0..n).for_each(|k| table[k * 16 / n][order.at(k) * 16 / n] += 1.0);
        let expected = n as f64 / 256.0;
        let chi: f64 = table
            .iter()
            .flatten()
            .map(|x| (x - expected).powi(2) / expected)
            .sum();
        assert!(
            (225.0 - 100.0..225.0 + 100.0).contains(&chi),
            "chi-square {chi}"
        );
    }
}
