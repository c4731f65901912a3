//! Tiles or kernels side by side: eight in arrays that the compiler turns into vectors, or sixteen in a register.

use super::Isa;

/// Values of a tile's row at the most.
pub(super) const ROW: usize = 8;

/// Lanes of the widest vectors.
pub(super) const MOST_LANES: usize = 16;

/// Rows of as many tiles as there are lanes, of which a part is to be read.
pub(super) struct Rows<'a> {
    pub(super) x: &'a [f32],
    /// Where each row starts; wraps around where that is in front of `x`.
    pub(super) starts: [usize; MOST_LANES],
    /// Which values are read, all bits or none; the others count as zeros.
    pub(super) masks: [&'a Mask; MOST_LANES],
}

/// A choice among the values of a row.
pub(super) type Mask = [i32; ROW];

/// The mask of no value.
pub(super) const NONE: Mask = [0; ROW];

/// One place of several tiles.
pub(super) trait Lanes: Copy {
    /// What tells that the machine has the instructions.
    type Set: Copy;
    /// Tiles side by side.
    const WIDTH: usize;

    /// The same in all lanes.
    fn splat(set: Self::Set, x: f32) -> Self;

    /// The first floats.
    fn load(set: Self::Set, from: &[f32]) -> Self;

    /// To the first places.
    fn store(&self, set: Self::Set, to: &mut [f32]);

    /// `self · factor + other`.
    fn times_plus(&self, set: Self::Set, factor: f32, other: Self) -> Self;

    /// The columns of rows.
    fn columns(set: Self::Set, rows: &Rows) -> [Self; ROW];

    /// Four columns as rows, one for each lane.
    fn rows(set: Self::Set, columns: &[Self; 4]) -> [[f32; 4]; MOST_LANES];
}

impl Lanes for [f32; 8] {
    type Set = Isa;

    const WIDTH: usize = 8;

    #[inline(always)]
    fn splat(_set: Isa, x: f32) -> Self {
        [x; 8]
    }

    #[inline(always)]
    fn load(_set: Isa, from: &[f32]) -> Self {
        *from.first_chunk().expect("rows are whole vectors")
    }

    #[inline(always)]
    fn store(&self, _set: Isa, to: &mut [f32]) {
        to[..8].copy_from_slice(self);
    }

    #[inline(always)]
    fn times_plus(&self, _set: Isa, factor: f32, mut other: Self) -> Self {
        for (other, x) in other.iter_mut().zip(self) {
            *other += factor * x;
        }
        other
    }

    #[inline(always)]
    fn columns(set: Isa, rows: &Rows) -> [Self; ROW] {
        #[cfg(target_arch = "x86_64")]
        if set >= Isa::Avx2 {
            return super::turn::columns(rows);
        }
        let _ = set;
        let mut values = [[0.0; 8]; ROW];
        for (lane, (start, mask)) in rows.starts.iter().zip(&rows.masks).enumerate().take(8) {
            for i in (0..ROW).filter(|&i| mask[i] != 0) {
                values[i][lane] = rows.x[start.wrapping_add(i)];
            }
        }
        values
    }

    #[inline(always)]
    fn rows(set: Isa, columns: &[Self; 4]) -> [[f32; 4]; MOST_LANES] {
        #[cfg(target_arch = "x86_64")]
        if set >= Isa::Avx2 {
            return super::turn::rows(columns);
        }
        let _ = set;
        let mut rows = [[0.0; 4]; MOST_LANES];
        for (j, column) in columns.iter().enumerate() {
            (0..8).for_each(|lane| rows[lane][j] = column[lane]);
        }
        rows
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn some_rows<T>(check: impl Fn(&Rows) -> T) -> T {
        let x: Vec<f32> = (1..=128).map(|i| i as f32).collect();
        let some: Mask = std::array::from_fn(|i| if (2..6).contains(&i) { -1 } else { 0 });
        let all: Mask = [-1; ROW];
        check(&Rows {
            x: &x,
            starts: std::array::from_fn(|lane| (lane * 8).wrapping_sub(2 * usize::from(lane == 0))),
            masks: std::array::from_fn(|lane| [&some, &all, &NONE][lane % 3]),
        })
    }

    #[test]
    fn all_ways_to_turn_rows_agree() {
        some_rows(|rows| {
            let plain = <[f32; 8]>::columns(Isa::Portable, rows);
            assert_eq!(plain[3][..4], [2.0, 12.0, 0.0, 28.0]);
            if Isa::found() >= Isa::Avx2 {
                assert_eq!(plain, <[f32; 8]>::columns(Isa::Avx2, rows));
                let four = plain.first_chunk().unwrap();
                let back = <[f32; 8]>::rows(Isa::Portable, four);
                assert_eq!(back, <[f32; 8]>::rows(Isa::Avx2, four));
            }
        });
    }

    #[cfg(target_arch = "x86_64")]
    #[test]
    fn sixteen_lanes_are_twice_eight() {
        use super::super::sixteen::Register;
        use crate::backend::cpu::isa::{Avx512, Vectors};

        let Some(set) = Avx512::here() else { return };
        some_rows(|rows| {
            let mut later = Rows { ..*rows };
            later.starts.rotate_left(8);
            later.masks.rotate_left(8);
            let halves = [rows, &later].map(|rows| <[f32; 8]>::columns(Isa::Portable, rows));
            let both = Register::columns(set, rows);
            for (i, column) in both.iter().enumerate() {
                let mut values = [0.0; 16];
                column.store(set, &mut values);
                assert_eq!(values, *[halves[0][i], halves[1][i]].as_flattened());
            }
            let turned = Register::rows(set, both.first_chunk().unwrap());
            for (lane, row) in turned.iter().enumerate() {
                let expected: [f32; 4] = std::array::from_fn(|i| halves[lane / 8][i][lane % 8]);
                assert_eq!(*row, expected);
            }
        });
    }
}
