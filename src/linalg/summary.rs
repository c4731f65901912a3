//! What is told of a matrix that is too large to be looked at.

use ndarray::ArrayView2;

use super::real::Real;
use crate::comm::Comm;

/// Numbers that depend on all elements, and not on how they are cut into blocks.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Summary {
    /// Σ c².
    squares: f64,
    /// The greatest |c|.
    pub greatest: f64,
    /// Σ c.
    pub sum: f64,
    /// Σ (bits + 1)·odd(i, j) modulo 2⁶⁴: another one if any bit of any element is another.
    pub checksum: u64,
}

impl Summary {
    /// Takes note of a block whose first element is at (`row`, `col`).
    pub fn add<T: Real>(&mut self, row: usize, col: usize, block: ArrayView2<T>) {
        for (i, values) in block.rows().into_iter().enumerate() {
            let (mut squares, mut sum, mut greatest, mut checksum) = (0.0, 0.0, 0.0f64, 0u64);
            let place = ((row + i) as u64) << 32;
            for (j, &value) in values.iter().enumerate() {
                let wide = value.wide();
                squares += wide * wide;
                sum += wide;
                greatest = greatest.max(wide.abs());
                let odd = (place + (col + j) as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
                checksum = checksum.wrapping_add((value.bits() + 1).wrapping_mul(odd));
            }
            self.squares += squares;
            self.sum += sum;
            self.greatest = self.greatest.max(greatest);
            self.checksum = self.checksum.wrapping_add(checksum);
        }
    }

    /// That of all ranks' blocks; *collective*.
    pub fn together(mut self, comm: &dyn Comm) -> Self {
        let (mut sums, mut greatest) = ([self.squares, self.sum], [self.greatest]);
        comm.sum(&mut sums);
        comm.max(&mut greatest);
        let words = comm.gather(&self.checksum.to_le_bytes());
        let words = words.iter().flat_map(|bytes| bytes.as_chunks().0);
        let checksums = words.map(|&word| u64::from_le_bytes(word));
        self.checksum = checksums.fold(0, u64::wrapping_add);
        [self.squares, self.sum] = sums;
        [self.greatest] = greatest;
        self
    }

    /// The Frobenius norm, √Σ c².
    pub fn norm(&self) -> f64 {
        self.squares.sqrt()
    }
}

#[cfg(test)]
mod tests {
    use ndarray::{Array2, s};

    use super::*;
    use crate::comm::run_ranks;

    #[test]
    fn a_summary_is_that_of_all_blocks_and_changes_with_any_bit() {
        let all = Array2::from_shape_fn((6, 10), |(i, j)| i as f64 - 0.5 * j as f64);
        let mut whole = Summary::default();
        whole.add(0, 0, all.view());
        assert!((whole.norm() - all.mapv(|x| x * x).sum().sqrt()).abs() < 1e-12);
        assert_eq!((whole.greatest, whole.sum), (5.0, all.sum()));
        let parts = run_ranks(3, |comm| {
            let rows = 2 * comm.rank()..2 * comm.rank() + 2;
            let mut part = Summary::default();
            part.add(rows.start, 7, all.slice(s![rows.clone(), 7..]));
            part.add(rows.start, 0, all.slice(s![rows, ..7]));
            part.together(comm)
        });
        for part in parts {
            assert_eq!(
                (part.checksum, part.greatest),
                (whole.checksum, whole.greatest)
            );
            assert!((part.norm() - whole.norm()).abs() < 1e-12);
        }
        let mut other = all.clone();
        other[(3, 4)] = f64::from_bits(other[(3, 4)].to_bits() ^ 1);
        let mut changed = Summary::default();
        changed.add(0, 0, other.view());
        assert_ne!(changed.checksum, whole.checksum);
        other.swap((0, 1), (1, 0));
        let mut swapped = Summary::default();
        swapped.add(0, 0, other.view());
        assert_ne!(swapped.checksum, changed.checksum);
    }
}
