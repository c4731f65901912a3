//! Ranks in rows, columns and layers: which part of a product each of them has.

use std::fmt::{self, Write};
use std::ops::Range;

use crate::comm::block;

/// The most rows or columns of ranks that are drawn.
const DRAWN: usize = 16;

/// An arrangement of the first ranks; others have nothing to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Grid {
    /// Blocks that the rows of C are cut into.
    pub rows: usize,
    /// Blocks that the columns of C are cut into.
    pub cols: usize,
    /// Blocks that the sum over k is cut into.
    pub layers: usize,
    /// Rows and columns of the part of a layer whose ranks follow one another, so that they are on one node.
    pub near: (usize, usize),
}

/// Where a rank is in a grid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// Its row.
    pub row: usize,
    /// Its column.
    pub col: usize,
    /// Its layer.
    pub layer: usize,
}

impl Grid {
    /// With the ranks of a row one behind the other.
    pub fn new(rows: usize, cols: usize, layers: usize) -> Self {
        Self {
            rows,
            cols,
            layers,
            near: (1, cols),
        }
    }

    /// How many ranks it takes.
    pub fn size(self) -> usize {
        self.rows * self.cols * self.layers
    }

    /// Where `rank` is; nowhere if it has nothing to do.
    pub fn place(self, rank: usize) -> Option<Place> {
        let layer = self.rows * self.cols;
        let (height, width) = self.near;
        let (group, inside) = (rank % layer / (height * width), rank % (height * width));
        let wide = self.cols / width;
        (rank < self.size()).then(|| Place {
            row: group / wide * height + inside / width,
            col: group % wide * width + inside % width,
            layer: rank / layer,
        })
    }

    /// The rank at a place.
    pub fn rank(self, place: Place) -> usize {
        let (height, width) = self.near;
        let group = place.row / height * (self.cols / width) + place.col / width;
        let inside = place.row % height * width + place.col % width;
        place.layer * self.rows * self.cols + group * height * width + inside
    }

    /// A picture of who has which block of C: a number for each rank of the first layer.
    pub fn picture(self) -> String {
        let mut text = String::new();
        let (rows, cols) = (self.rows.min(DRAWN), self.cols.min(DRAWN));
        for row in 0..rows {
            for col in 0..cols {
                let place = Place { row, col, layer: 0 };
                let rank = self.rank(place);
                write!(text, "{rank:>4}").expect("memory takes all that is written");
            }
            text.push_str(if cols < self.cols { " …\n" } else { "\n" });
        }
        if rows < self.rows {
            text.push_str("   …\n");
        }
        text
    }
}

impl fmt::Display for Grid {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        write!(f, "{}x{}x{}", self.rows, self.cols, self.layers)
    }
}

/// Part `i` of `parts` of `0..len`, cut at multiples of `unit` only.
pub fn part(len: usize, unit: usize, parts: usize, i: usize) -> Range<usize> {
    let units = block(len.div_ceil(unit), parts, i);
    (units.start * unit).min(len)..(units.end * unit).min(len)
}

/// The longest of such parts.
pub fn longest(len: usize, unit: usize, parts: usize) -> usize {
    part(len, unit, parts, 0).len()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_rank_has_one_place_and_neighbours_are_near() {
        for (rows, cols, layers, near) in [
            (1, 1, 1, (1, 1)),
            (2, 3, 2, (1, 3)),
            (4, 4, 1, (2, 2)),
            (4, 6, 2, (2, 3)),
        ] {
            let grid = Grid {
                near,
                ..Grid::new(rows, cols, layers)
            };
            for rank in 0..grid.size() {
                let place = grid.place(rank).unwrap();
                assert!(place.row < rows && place.col < cols && place.layer < layers);
                assert_eq!(grid.rank(place), rank);
            }
            assert_eq!(grid.place(grid.size()), None);
        }
        let grid = Grid {
            near: (2, 2),
            ..Grid::new(4, 4, 1)
        };
        assert!(
            grid.picture()
                .starts_with("   0   1   4   5\n   2   3   6   7\n")
        );
    }

    #[test]
    fn parts_are_cut_at_units() {
        let parts: Vec<_> = (0..3).map(|i| part(1000, 256, 3, i)).collect();
        assert_eq!(parts, [0..512, 512..768, 768..1000]);
        assert_eq!(longest(1000, 256, 3), 512);
        assert_eq!(part(3, 1, 7, 5), 3..3);
    }
}
