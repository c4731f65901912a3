//! Launches `kernels/gemm.cu`: products of blocks of matrices, `c = a·b` or `c + a·b`.

use super::launch::{Arg, int};
use super::module::Source;
use super::tiles::Tiles;
use super::{Element, Stream, View, ViewMut};
use crate::Result;

/// Sizes of one product: a: (m, k), b: (k, n), c: (m, n), and how far the rows of each are apart.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Geometry {
    m: i32,
    n: i32,
    k: i32,
    lda: i32,
    ldb: i32,
    ldc: i32,
    add: i32,
}

impl Geometry {
    /// Of matrices without gaps; `add` says whether c is added to.
    pub fn new(m: usize, n: usize, k: usize, add: bool) -> Self {
        Self {
            m: int(m),
            n: int(n),
            k: int(k),
            lda: int(k),
            ldb: int(n),
            ldc: int(n),
            add: i32::from(add),
        }
    }

    /// The same with rows of a, b and c so far apart.
    pub fn strided(self, lda: usize, ldb: usize, ldc: usize) -> Self {
        let apart = [lda, ldb, ldc].map(int);
        assert!(apart[0] >= self.k && apart[1] >= self.n && apart[2] >= self.n);
        let [lda, ldb, ldc] = apart;
        Self {
            lda,
            ldb,
            ldc,
            ..self
        }
    }
}

/// What products are of.
pub trait Number: Element {
    /// The kernels, for many and for few rows.
    const KERNELS: [&'static str; 2];
    /// Rows of a tile, for many and for few rows.
    const ROWS: [usize; 2];
}

impl Number for f32 {
    const KERNELS: [&'static str; 2] = ["gemm_f32", "gemm_f32_narrow"];
    const ROWS: [usize; 2] = [64, 32];
}

impl Number for f64 {
    const KERNELS: [&'static str; 2] = ["gemm_f64", "gemm_f64"];
    const ROWS: [usize; 2] = [32, 32];
}

/// The product.
pub fn product<T: Number>(
    stream: &Stream,
    g: Geometry,
    a: View<T>,
    b: View<T>,
    c: ViewMut<T>,
) -> Result<()> {
    let [m, n, k] = [g.m, g.n, g.k].map(|size| size as usize);
    if m == 0 || n == 0 {
        return Ok(());
    }
    let span = |rows: usize, apart: i32, row: usize| match rows * row {
        0 => 0,
        _ => (rows - 1) * apart as usize + row,
    };
    assert!(a.len() >= span(m, g.lda, k), "a of {g:?}");
    assert!(b.len() >= span(k, g.ldb, n), "b of {g:?}");
    assert!(c.len() >= span(m, g.ldc, n), "c of {g:?}");
    let tiles = Tiles::whole(m, n, k);
    let kind = usize::from(tiles.narrow);
    let kernel = stream.device().kernel(Source::Gemm, T::KERNELS[kind])?;
    let grid = tiles.grid_of(m.div_ceil(T::ROWS[kind]));
    kernel.start(stream, grid, [Arg::of(g), a.into(), b.into(), (&c).into()])
}
