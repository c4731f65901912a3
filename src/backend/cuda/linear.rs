//! Launches `kernels/linear.cu`: `y = x·wᵀ + b` and its gradients, as [`crate::backend::cpu::linear`].

use super::launch::{Arg, Grid, int};
use super::module::Source;
use super::tiles::Tiles;
use super::{Stream, View, ViewMut};
use crate::Result;
use crate::backend::cpu::linear::Geometry;

/// The sizes, as the kernels read them.
#[repr(C)]
#[derive(Clone, Copy)]
struct Sizes {
    n: i32,
    ci: i32,
    co: i32,
}

/// Samples at most: as many tiles one below the other as a device launches.
pub const MOST: usize = 65_535 * 64;

/// Floats that any pass of up to `g.n` samples works in.
pub fn scratch(g: Geometry) -> usize {
    let need = |n: usize| {
        let forward = forward_tiles(Geometry { n, ..g }).parts * n * g.co;
        let params = params_tiles(Geometry { n, ..g }).parts * g.co * (g.ci + 1);
        let input = input_tiles(Geometry { n, ..g }).parts * n * g.ci;
        forward.max(params).max(input)
    };
    // Fewer samples may be cut into more parts, and so need more: all that occur are asked.
    (0..=g.n).map(need).max().unwrap_or(0)
}

/// `y = x·wᵀ + b`.
pub fn forward(
    stream: &Stream,
    g: Geometry,
    x: View<f32>,
    w: View<f32>,
    b: View<f32>,
    y: ViewMut<f32>,
    scratch: ViewMut<f32>,
) -> Result<()> {
    check(g, x, w, y.shared());
    assert_eq!(b.len(), g.co, "a bias an output");
    let name = ["linear_forward", "linear_forward_narrow"];
    let tiles = forward_tiles(g);
    multiply(stream, g, tiles, name, [x, w], &scratch, g.n * g.co)?;
    collect(stream, tiles, [g.n, g.co], scratch.shared(), Some(b), y)
}

/// `dw = dyᵀ·x`, `db = Σ dy` over samples.
pub fn grad_params(
    stream: &Stream,
    g: Geometry,
    x: View<f32>,
    dy: View<f32>,
    dw: ViewMut<f32>,
    db: ViewMut<f32>,
    scratch: ViewMut<f32>,
) -> Result<()> {
    check(g, x, dw.shared(), dy);
    assert_eq!(db.len(), g.co, "a bias an output");
    if g.n == 0 {
        stream.clear(dw)?;
        return stream.clear(db);
    }
    let name = ["linear_grad_params", "linear_grad_params_narrow"];
    let (tiles, sums) = (params_tiles(g), g.co * (g.ci + 1));
    multiply(stream, g, tiles, name, [x, dy], &scratch, sums)?;
    let kernel = stream
        .device()
        .kernel(Source::Linear, "linear_collect_params")?;
    let args = [
        (&scratch).into(),
        Arg::int(tiles.parts),
        Arg::int(g.co),
        Arg::int(g.ci),
        (&dw).into(),
        (&db).into(),
    ];
    kernel.start(stream, Grid::over(sums), args)
}

/// `dx = dy·w`.
pub fn grad_input(
    stream: &Stream,
    g: Geometry,
    dy: View<f32>,
    w: View<f32>,
    dx: ViewMut<f32>,
    scratch: ViewMut<f32>,
) -> Result<()> {
    check(g, dx.shared(), w, dy);
    let name = ["linear_grad_input", "linear_grad_input_narrow"];
    let tiles = input_tiles(g);
    multiply(stream, g, tiles, name, [dy, w], &scratch, g.n * g.ci)?;
    collect(stream, tiles, [g.n, g.ci], scratch.shared(), None, dx)
}

fn check(g: Geometry, x: View<f32>, w: View<f32>, y: View<f32>) {
    let sizes = (x.len(), w.len(), y.len());
    assert_eq!(sizes, (g.n * g.ci, g.co * g.ci, g.n * g.co), "{g:?}");
}

fn forward_tiles(g: Geometry) -> Tiles {
    Tiles::in_parts(g.n, g.co, g.ci)
}

fn params_tiles(g: Geometry) -> Tiles {
    Tiles::in_parts(g.co, g.ci + 1, g.n)
}

fn input_tiles(g: Geometry) -> Tiles {
    Tiles::in_parts(g.n, g.ci, g.co)
}

/// One product, its parts into `scratch`; nothing for no samples.
fn multiply(
    stream: &Stream,
    g: Geometry,
    tiles: Tiles,
    [wide, narrow]: [&'static str; 2],
    [a, b]: [View<f32>; 2],
    scratch: &ViewMut<f32>,
    sums: usize,
) -> Result<()> {
    if g.n == 0 {
        return Ok(());
    }
    assert!(
        scratch.len() >= tiles.parts * sums,
        "room for parts of sums"
    );
    let name = if tiles.narrow { narrow } else { wide };
    let kernel = stream.device().kernel(Source::Linear, name)?;
    let sizes = Sizes {
        n: int(g.n),
        ci: int(g.ci),
        co: int(g.co),
    };
    let part = Arg::int(tiles.part);
    let args = [Arg::of(sizes), a.into(), b.into(), scratch.into(), part];
    kernel.start(stream, tiles.grid(), args)
}

/// `y`, of so many rows and columns, from parts of its sums; with `b` added if there is one.
fn collect(
    stream: &Stream,
    tiles: Tiles,
    [rows, columns]: [usize; 2],
    parts: View<f32>,
    b: Option<View<f32>>,
    y: ViewMut<f32>,
) -> Result<()> {
    if rows == 0 {
        return Ok(());
    }
    int(rows * columns);
    let kernel = stream.device().kernel(Source::Linear, "linear_collect")?;
    let args = [
        parts.into(),
        Arg::int(tiles.parts),
        Arg::int(rows),
        Arg::int(columns),
        b.map_or(Arg::of(0u64), Arg::from),
        (&y).into(),
    ];
    kernel.start(stream, Grid::over(rows * columns), args)
}
