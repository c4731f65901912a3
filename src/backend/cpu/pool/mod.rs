//! Pooling: each output looks at a square window of its plane, by its largest value ([`max`]) or its mean ([`average`]).

pub mod average;
pub mod max;
#[cfg(target_arch = "x86_64")]
mod max_avx2;

use std::ops::Range;

/// Sizes of one pooling layer, `x: (n, c, h, w)` to `y: (n, c, oh, ow)`; n is taken from the slices.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Geometry {
    /// Channels.
    pub c: usize,
    /// Height of a plane.
    pub h: usize,
    /// Width of a plane.
    pub w: usize,
    /// Side of the window.
    pub k: usize,
    /// From one window to the next.
    pub stride: usize,
    /// Cells around the plane, at most `k / 2`.
    pub pad: usize,
}

impl Geometry {
    /// Height of an output plane; windows that would reach over the padding are left out.
    pub fn oh(self) -> usize {
        self.outputs(self.h)
    }

    /// Width of an output plane; windows that would reach over the padding are left out.
    pub fn ow(self) -> usize {
        self.outputs(self.w)
    }

    fn outputs(self, size: usize) -> usize {
        let room = (size + 2 * self.pad).checked_sub(self.k);
        room.map_or(0, |room| room / self.stride + 1)
    }

    /// Rows (or, of `size` = w, columns) of the plane that output `o` looks at.
    pub(super) fn window(self, o: usize, size: usize) -> Range<usize> {
        let start = o * self.stride;
        start.saturating_sub(self.pad)..(start + self.k - self.pad).min(size)
    }

    /// Outputs, of so many rows or columns, whose windows lie over row or column `i`.
    pub(super) fn over(self, i: usize, outputs: usize) -> Range<usize> {
        let end = ((i + self.pad) / self.stride + 1).min(outputs);
        let first = (i + self.pad + 1).saturating_sub(self.k);
        first.div_ceil(self.stride).min(end)..end
    }

    /// Outputs of a row whose windows lie inside it.
    fn inside(self) -> Range<usize> {
        let room = (self.w + self.pad).checked_sub(self.k);
        let end = room.map_or(0, |room| room / self.stride + 1).min(self.ow());
        self.pad.div_ceil(self.stride).min(end)..end
    }

    /// Number of planes, `n × c`, after checking that both sides have it.
    fn planes(self, x: &[f32], y: &[f32]) -> usize {
        assert!(self.pad <= self.k / 2 && self.stride > 0, "{self:?}");
        let planes = x.len() / (self.h * self.w);
        assert_eq!(planes * self.h * self.w, x.len(), "whole planes");
        assert_eq!(planes % self.c, 0, "whole samples of {self:?}");
        assert_eq!(
            planes * self.oh() * self.ow(),
            y.len(),
            "outputs of {self:?}"
        );
        planes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Ragged shapes: fast paths with and without padding, windows that leave cells out, gaps between windows.
    pub const SHAPES: [[usize; 6]; 12] = [
        [1, 2, 2, 2, 2, 0],
        [2, 7, 9, 2, 2, 0],
        [3, 8, 40, 2, 2, 1],
        [2, 7, 7, 3, 2, 0],
        [1, 8, 37, 3, 2, 0],
        [3, 9, 14, 3, 2, 1],
        [2, 6, 5, 3, 1, 1],
        [1, 5, 11, 1, 3, 0],
        [2, 11, 8, 5, 3, 2],
        [1, 1, 1, 3, 2, 1],
        [1, 2, 1, 4, 2, 2],
        [1, 6, 6, 6, 1, 0],
    ];

    pub fn geometry([c, h, w, k, stride, pad]: [usize; 6]) -> Geometry {
        Geometry {
            c,
            h,
            w,
            k,
            stride,
            pad,
        }
    }

    /// Places `(iy, ix)` of the real cells of one window, straight from the definition.
    pub fn cells(g: Geometry, oy: usize, ox: usize) -> Vec<usize> {
        let mut cells = Vec::new();
        for ky in 0..g.k {
            for kx in 0..g.k {
                let (iy, ix) = (oy * g.stride + ky, ox * g.stride + kx);
                if (g.pad..g.pad + g.h).contains(&iy) && (g.pad..g.pad + g.w).contains(&ix) {
                    cells.push((iy - g.pad) * g.w + ix - g.pad);
                }
            }
        }
        cells
    }

    #[test]
    fn output_sizes_are_those_of_alexnet_and_resnet() {
        let sizes = |shape| (geometry(shape).oh(), geometry(shape).ow());
        assert_eq!(sizes([64, 55, 55, 3, 2, 0]), (27, 27));
        assert_eq!(sizes([192, 27, 27, 3, 2, 0]), (13, 13));
        assert_eq!(sizes([256, 13, 13, 3, 2, 0]), (6, 6));
        assert_eq!(sizes([64, 112, 112, 3, 2, 1]), (56, 56));
        assert_eq!(sizes([1, 5, 8, 2, 2, 0]), (2, 4));
        assert_eq!(sizes([1, 2, 3, 3, 1, 0]), (0, 1));
    }

    #[test]
    fn the_inside_of_a_row_is_where_windows_have_all_their_columns() {
        for shape in SHAPES {
            let g = geometry(shape);
            for o in 0..g.ow() {
                let whole = g.window(o, g.w).len() == g.k;
                assert_eq!(g.inside().contains(&o), whole, "{g:?} {o}");
            }
        }
    }
}
