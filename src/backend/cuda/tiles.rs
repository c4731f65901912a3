//! How products are cut into tiles and their sums into parts: what `kernels/tile.cuh` expects.

use super::launch::Grid;

/// Columns of a tile, and threads of its block.
pub(super) const COLUMNS: usize = 128;

/// Up to so many rows go into low tiles.
const NARROW: usize = 32;

/// Blocks that keep a large device busy: a product with fewer tiles is cut along its sum.
const BLOCKS: usize = 256;

/// A part of a sum has at least so many terms.
const SHORTEST: usize = 256;

/// One product's tiles and parts; from its sizes alone, so that it rounds alike on every device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Tiles {
    /// Whether tiles are low.
    pub(super) narrow: bool,
    rows: usize,
    columns: usize,
    /// Terms of each part but the last.
    pub(super) part: usize,
    /// Number of parts.
    pub(super) parts: usize,
    /// Parts at most of a product with as many or fewer terms.
    pub(super) most: usize,
}

impl Tiles {
    /// Of a product (m, n) with sums of k terms, in one part.
    pub(super) fn whole(m: usize, n: usize, k: usize) -> Self {
        let narrow = m <= NARROW;
        Self {
            narrow,
            rows: m.div_ceil(if narrow { 32 } else { 64 }),
            columns: n.div_ceil(COLUMNS),
            part: k,
            parts: 1,
            most: 1,
        }
    }

    /// The same in as many parts as make enough blocks.
    pub(super) fn in_parts(m: usize, n: usize, k: usize) -> Self {
        let whole = Self::whole(m, n, k);
        let wanted = BLOCKS.div_ceil((whole.rows * whole.columns).max(1));
        let parts = wanted.min(k / SHORTEST).max(1);
        // Whole steps of 8: only the last part ends within one.
        let part = k.div_ceil(parts).next_multiple_of(8).max(8);
        Self {
            part,
            parts: k.div_ceil(part).max(1),
            most: parts,
            ..whole
        }
    }

    pub(super) fn grid(&self) -> Grid {
        self.grid_of(self.rows)
    }

    /// The same with so many rows of tiles.
    pub(super) fn grid_of(&self, rows: usize) -> Grid {
        Grid::with([self.columns, rows, self.parts], COLUMNS as u32)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_cover_the_sum_once_and_are_whole_steps() {
        for (m, n, k) in [
            (6, 26, 78_400),
            (10, 785, 100),
            (500, 4097, 64),
            (1, 1, 1),
            (64, 64, 5000),
        ] {
            let tiles = Tiles::in_parts(m, n, k);
            assert_eq!(tiles.part % 8, 0, "{tiles:?}");
            assert!(
                tiles.part * tiles.parts >= k && tiles.part * (tiles.parts - 1) < k,
                "{tiles:?}"
            );
            for fewer in (1..=k).step_by(97) {
                assert!(Tiles::in_parts(m, n, fewer).parts <= tiles.most);
            }
            assert!(tiles.parts == 1 || tiles.part >= SHORTEST, "{tiles:?}");
        }
    }
}
