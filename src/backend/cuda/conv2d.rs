//! Launches `kernels/conv2d.cu`, as [`crate::backend::cpu::conv2d`].

use super::launch::{Arg, Grid, int};
use super::module::Source;
use super::tiles::{COLUMNS, Tiles};
use super::{Stream, View, ViewMut};
use crate::Result;
use crate::backend::cpu::conv2d::Geometry;

/// The sizes, as the kernels read them.
#[repr(C)]
#[derive(Clone, Copy)]
struct Sizes {
    n: i32,
    ci: i32,
    h: i32,
    w: i32,
    co: i32,
    kh: i32,
    kw: i32,
    stride: i32,
    pad: i32,
    oh: i32,
    ow: i32,
}

/// One layer's convolution.
#[derive(Clone, Copy, Debug)]
pub struct Conv2d {
    g: Geometry,
}

impl Conv2d {
    /// A convolution of this geometry. The kernel must fit in the padded input.
    pub fn new(g: Geometry) -> Self {
        assert!(
            g.stride > 0 && g.kh > 0 && g.kw > 0 && g.ci > 0 && g.co > 0,
            "no size of a convolution is zero: {g:?}"
        );
        assert!(
            g.kh <= g.h + 2 * g.pad && g.kw <= g.w + 2 * g.pad,
            "the kernel fits in the padded input: {g:?}"
        );
        Self { g }
    }

    /// Samples at most: columns are counted in 31 bits, outputs and inputs of a channel of all samples, up to the end of the last
    /// tile and part.
    pub fn most(&self) -> usize {
        let columns = (2 * self.cells()).max(self.g.h * self.g.w);
        (i32::MAX as usize - COLUMNS) / columns.max(1)
    }

    /// Floats that [`grad_params`](Self::grad_params) of up to `n` samples works in.
    pub fn scratch(&self, n: usize) -> usize {
        self.params_tiles(n).most * self.g.co * (self.taps() + 1)
    }

    /// `y = x ∗ w + b` for `n` samples.
    pub fn forward(
        &self,
        stream: &Stream,
        n: usize,
        x: View<f32>,
        w: View<f32>,
        b: View<f32>,
        y: ViewMut<f32>,
    ) -> Result<()> {
        let g = self.g;
        assert!(x.len() == n * g.inputs() && y.len() == n * g.outputs());
        assert!(w.len() == g.weights() && b.len() == g.co);
        if n == 0 {
            return Ok(());
        }
        let tiles = Tiles::whole(g.co, n * self.cells(), self.taps());
        let name = match tiles.narrow {
            true => "conv2d_forward_narrow",
            false => "conv2d_forward",
        };
        let kernel = stream.device().kernel(Source::Conv2d, name)?;
        let args = [self.sizes(n), x.into(), w.into(), b.into(), (&y).into()];
        kernel.start(stream, tiles.grid(), args)
    }

    /// Sets `dw` and `db` to the gradients of weights and biases, summed over `n` samples.
    #[allow(clippy::too_many_arguments)]
    pub fn grad_params(
        &self,
        stream: &Stream,
        n: usize,
        x: View<f32>,
        dy: View<f32>,
        dw: ViewMut<f32>,
        db: ViewMut<f32>,
        scratch: ViewMut<f32>,
    ) -> Result<()> {
        let g = self.g;
        assert!(x.len() == n * g.inputs() && dy.len() == n * g.outputs());
        assert!(dw.len() == g.weights() && db.len() == g.co);
        if n == 0 {
            stream.clear(dw)?;
            return stream.clear(db);
        }
        let tiles = self.params_tiles(n);
        let sums = g.co * (self.taps() + 1);
        assert!(
            scratch.len() >= tiles.parts * sums,
            "room for parts of sums"
        );
        let name = match tiles.narrow {
            true => "conv2d_grad_params_narrow",
            false => "conv2d_grad_params",
        };
        let kernel = stream.device().kernel(Source::Conv2d, name)?;
        let part = Arg::int(tiles.part);
        let args = [self.sizes(n), x.into(), dy.into(), (&scratch).into(), part];
        kernel.start(stream, tiles.grid(), args)?;
        let args = [
            (&scratch).into(),
            Arg::int(tiles.parts),
            Arg::int(g.co),
            Arg::int(self.taps()),
            (&dw).into(),
            (&db).into(),
        ];
        let kernel = stream.device().kernel(Source::Conv2d, "conv2d_collect")?;
        kernel.start(stream, Grid::over(sums), args)
    }

    /// Sets `dx` to the gradient of the input of `n` samples.
    pub fn grad_input(
        &self,
        stream: &Stream,
        n: usize,
        dy: View<f32>,
        w: View<f32>,
        dx: ViewMut<f32>,
    ) -> Result<()> {
        let g = self.g;
        assert!(dy.len() == n * g.outputs() && dx.len() == n * g.inputs());
        assert!(w.len() == g.weights());
        if n == 0 {
            return Ok(());
        }
        let tiles = Tiles::whole(g.ci, n * g.h * g.w, g.co * g.kh * g.kw);
        let name = match tiles.narrow {
            true => "conv2d_grad_input_narrow",
            false => "conv2d_grad_input",
        };
        let kernel = stream.device().kernel(Source::Conv2d, name)?;
        let args = [self.sizes(n), dy.into(), w.into(), (&dx).into()];
        kernel.start(stream, tiles.grid(), args)
    }

    fn params_tiles(&self, n: usize) -> Tiles {
        Tiles::in_parts(self.g.co, self.taps() + 1, n * self.cells())
    }

    /// Weights of an output channel.
    fn taps(&self) -> usize {
        self.g.ci * self.g.kh * self.g.kw
    }

    /// Cells of an output plane.
    fn cells(&self) -> usize {
        self.g.oh() * self.g.ow()
    }

    fn sizes(&self, n: usize) -> Arg {
        let g = self.g;
        assert!(n <= self.most(), "{n} samples are more than are counted");
        int(g.inputs());
        int(g.outputs());
        Arg::of(Sizes {
            n: int(n),
            ci: int(g.ci),
            h: int(g.h),
            w: int(g.w),
            co: int(g.co),
            kh: int(g.kh),
            kw: int(g.kw),
            stride: int(g.stride),
            pad: int(g.pad),
            oh: int(g.oh()),
            ow: int(g.ow()),
        })
    }
}
