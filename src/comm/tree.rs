//! Sums by a binary tree over numbered parts: one order of additions, whoever holds the parts.
//!
//! The tree over parts `0..n` halves them, the first half the larger one, until one part is left. So an aligned power of two
//! of parts is a whole subtree, and a rank or thread that holds such a part of them may add it up by itself.

use std::ops::Range;

use crate::backend::cpu::wide;

/// Values that are added up at once: the stack of a tree stays in the first-level cache.
const CHUNK: usize = 512;
/// Half sums that wait for their other half: enough for 512 parts.
const DEPTH: usize = 8;

/// Sets `sums` to the sum over `parts` (at least one) of what `part` gives of each, by the tree.
///
/// # Panics
/// Panics if there are more than 512 parts.
pub fn tree_sum<'a>(parts: usize, part: impl Fn(usize) -> &'a [f32], sums: &mut [f32]) {
    assert!((1..=2 << DEPTH).contains(&parts), "{parts} parts");
    if parts == 1 {
        return sums.copy_from_slice(part(0));
    }
    if parts == 2 {
        return add(0..2, &(0..sums.len()), &part, sums, &mut []);
    }
    let mut spare = [0.0; CHUNK * DEPTH];
    for start in (0..sums.len()).step_by(CHUNK) {
        let range = start..sums.len().min(start + CHUNK);
        add(
            0..parts,
            &range,
            &part,
            &mut sums[range.clone()],
            &mut spare,
        );
    }
}

fn add<'a>(
    parts: Range<usize>,
    range: &Range<usize>,
    part: &impl Fn(usize) -> &'a [f32],
    sums: &mut [f32],
    spare: &mut [f32],
) {
    let of = |i: usize| &part(i)[range.clone()];
    let middle = middle(&parts);
    if parts.len() == 2 {
        let pairs = of(parts.start).iter().zip(of(middle));
        let pairs = sums.iter_mut().zip(pairs);
        return wide(|| pairs.for_each(|(sum, (a, b))| *sum = a + b));
    }
    add(parts.start..middle, range, part, sums, spare);
    if parts.end - middle == 1 {
        return plus(sums, of(middle));
    }
    let (theirs, spare) = spare.split_at_mut(CHUNK);
    let theirs = &mut theirs[..sums.len()];
    add(middle..parts.end, range, part, theirs, spare);
    plus(sums, theirs);
}

/// Where the second half of a tree of two parts or more begins.
pub(crate) fn middle(parts: &Range<usize>) -> usize {
    parts.start + parts.len().div_ceil(2)
}

/// Adds `values` to `sums`.
pub(crate) fn plus(sums: &mut [f32], values: &[f32]) {
    let pairs = sums.iter_mut().zip(values);
    wide(|| pairs.for_each(|(sum, value)| *sum += value));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_part_is_added_once_in_the_order_of_the_tree() {
        // Values so far apart that every order of additions has bits of its own.
        let value = |part: usize, i: usize| {
            ((part * 7919 + i * 31) % 1009) as f32 * 1.1f32.powi(part as i32 % 40)
        };
        for parts in [1, 2, 3, 4, 5, 7, 8, 16, 33] {
            let len = CHUNK + 77;
            let all: Vec<Vec<f32>> = (0..parts)
                .map(|part| (0..len).map(|i| value(part, i)).collect())
                .collect();
            let mut sums = vec![0.0; len];
            tree_sum(parts, |part| &all[part], &mut sums);
            fn expected(all: &[Vec<f32>], i: usize) -> f32 {
                match all {
                    [one] => one[i],
                    _ => {
                        let (low, high) = all.split_at(all.len().div_ceil(2));
                        expected(low, i) + expected(high, i)
                    }
                }
            }
            assert!(
                (0..len).all(|i| sums[i] == expected(&all, i)),
                "{parts} parts"
            );
        }
    }
}
