//! The order of samples: a pure function of seed, epoch and position, whatever the number of ranks.

use std::ops::Range;
use std::sync::Arc;

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
        Self::keyed(n, &[seed, epoch, 0x006f_7264_6572])
    }

    /// The permutation of `0..n` that `key` names.
    fn keyed(n: usize, key: &[u64]) -> Self {
        let mut stream = Stream::new(key);
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

/// Which samples are drawn from, one behind the other.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Shuffle {
    /// Every sample from all of the set.
    #[default]
    Samples,
    /// Shards in random order; each sample from so many that follow each other in it. For sets that memory does not hold: a
    /// disk reads what is beside each other far faster.
    Shards(usize),
}

/// Names the orders of shards and of samples in the buffer: "shrd" and "bffr".
const SHARDS: u64 = 0x7368_7264;
const BUFFER: u64 = 0x6266_6672;

/// The order of one epoch: a pure function of seed, epoch and position in both ways to shuffle.
#[derive(Clone, Debug)]
pub enum Order {
    /// Every sample from all of the set.
    Samples(Permutation),
    /// From a buffer that is filled shard by shard.
    Shards(ByShard),
}

impl Order {
    /// The order of `n` samples in `epoch`, where shards begin at `starts`.
    pub fn new(shuffle: Shuffle, (n, starts): (usize, &[usize]), seed: u64, epoch: u64) -> Self {
        match shuffle {
            Shuffle::Samples => Self::Samples(Permutation::new(n, seed, epoch)),
            Shuffle::Shards(buffer) => {
                Self::Shards(ByShard::new((n, starts), buffer, [seed, epoch]))
            }
        }
    }

    /// The sample at position `k`.
    pub fn at(&self, k: usize) -> usize {
        match self {
            Self::Samples(order) => order.at(k),
            Self::Shards(order) => order.at(k),
        }
    }
}

/// Shards in random order, cut into stretches as long as the buffer, each of which is shuffled in itself.
#[derive(Clone, Debug)]
pub struct ByShard {
    n: usize,
    buffer: usize,
    key: [u64; 2],
    /// In the order of the epoch: where each shard begins in it, and its first sample.
    shards: Arc<[(usize, usize)]>,
}

impl ByShard {
    fn new((n, starts): (usize, &[usize]), buffer: usize, key: [u64; 2]) -> Self {
        let [seed, epoch] = key;
        let order = Permutation::keyed(starts.len(), &[seed, epoch, SHARDS]);
        let mut shards = Vec::with_capacity(starts.len());
        let mut begin = 0;
        for shard in (0..starts.len()).map(|i| order.at(i)) {
            shards.push((begin, starts[shard]));
            begin += starts.get(shard + 1).unwrap_or(&n) - starts[shard];
        }
        Self {
            n,
            buffer: buffer.max(1),
            key,
            shards: shards.into(),
        }
    }

    fn at(&self, k: usize) -> usize {
        let [seed, epoch] = self.key;
        let (number, range) = self.stretch(k);
        let order = Permutation::keyed(range.len(), &[seed, epoch, number as u64, BUFFER]);
        self.sample(range.start + order.at(k - range.start))
    }

    /// The stretch that position `k` is in: its number, and its positions.
    fn stretch(&self, k: usize) -> (usize, Range<usize>) {
        let start = k - k % self.buffer;
        (
            k / self.buffer,
            start..self.n.min(start.saturating_add(self.buffer)),
        )
    }

    /// The sample at a position before the buffer.
    fn sample(&self, position: usize) -> usize {
        let after = self.shards.partition_point(|&(begin, _)| begin <= position);
        let (begin, first) = self.shards[after - 1];
        first + position - begin
    }

    /// First and last samples of what is read while the stretch of position `k` is in use: of the next one, shard by shard.
    pub(super) fn next(&self, k: usize) -> Vec<(usize, usize)> {
        let (_, now) = self.stretch(k);
        let (_, next) = self.stretch(now.end);
        let next = now.end..next.end.max(now.end);
        let inside = |&&(begin, _): &&(usize, usize)| next.start < begin && begin < next.end;
        let inside = self.shards.iter().filter(inside).map(|&(begin, _)| begin);
        let cuts: Vec<usize> = std::iter::once(next.start)
            .chain(inside)
            .chain([next.end])
            .collect();
        (cuts.windows(2))
            .filter(|cut| cut[0] < cut[1])
            .map(|cut| (self.sample(cut[0]), self.sample(cut[1] - 1)))
            .collect()
    }

    /// The stretch that position `k` is in.
    pub(super) fn number(&self, k: usize) -> usize {
        k / self.buffer
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

    #[test]
    fn shards_in_any_order_give_every_sample_once() {
        let starts = [0, 7, 8, 20, 33];
        for (buffer, epoch) in [(1, 0), (3, 1), (10, 2), (40, 3), (1000, 4)] {
            let shuffle = Shuffle::Shards(buffer);
            let order = Order::new(shuffle, (40, &starts), 5, epoch);
            let all: Vec<usize> = (0..40).map(|k| order.at(k)).collect();
            let mut sorted = all.clone();
            sorted.sort();
            assert_eq!(sorted, (0..40).collect::<Vec<_>>(), "buffer {buffer}");
            let again = Order::new(shuffle, (40, &starts), 5, epoch);
            assert!((0..40).all(|k| again.at(k) == all[k]));
            let other = Order::new(shuffle, (40, &starts), 5, epoch + 1);
            assert!((0..40).any(|k| other.at(k) != all[k]));
        }
    }

    #[test]
    fn a_buffer_takes_neighbours_and_tells_of_the_next() {
        let starts: Vec<usize> = (0..1000).step_by(100).collect();
        let order = ByShard::new((1000, &starts), 50, [3, 1]);
        for stretch in 0..20 {
            let samples: Vec<usize> = (0..50).map(|k| order.at(50 * stretch + k)).collect();
            let (least, most) = (samples.iter().min().unwrap(), samples.iter().max().unwrap());
            assert_eq!(most - least, 49, "all of half a shard");
            assert!(samples.windows(2).any(|pair| pair[1] != pair[0] + 1));
            let told = match stretch {
                0 => continue,
                _ => order.next(50 * stretch - 1),
            };
            assert_eq!(told, [(*least, *most)]);
        }
        assert_eq!(order.next(999), []);
        let wide = ByShard::new((1000, &starts), 250, [3, 1]);
        let next = wide.next(0);
        let samples: usize = next.iter().map(|(first, last)| last - first + 1).sum();
        assert_eq!((next.len(), samples), (3, 250), "{next:?}");
    }
}
