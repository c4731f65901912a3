//! Launches `kernels/batch_norm.cu`, as [`crate::backend::cpu::batch_norm`].

use super::launch::{Arg, Divisor, Grid, Kernel};
use super::module::Source;
use super::{Buffer, Device, Stream, View, ViewMut};
use crate::Result;
use crate::backend::cpu::batch_norm::Channels;

/// Blocks at most that share a channel.
const BLOCKS: usize = 32;

/// What each channel is normalised by, and with.
#[derive(Clone, Copy)]
pub struct Normal<'a> {
    /// Subtracted.
    pub mean: View<'a, f32>,
    /// Multiplied by: `1 / √(variance + eps)`.
    pub inv_std: View<'a, f32>,
    /// Multiplied by too.
    pub gamma: View<'a, f32>,
}

/// Memory for [`Normal::mean`] and [`Normal::inv_std`].
pub struct Statistics {
    /// Subtracted.
    pub mean: Buffer<f32>,
    /// Multiplied by.
    pub inv_std: Buffer<f32>,
}

impl Statistics {
    /// Of `c` channels, not yet anything.
    pub fn new(device: &Device, c: usize) -> Result<Self> {
        Ok(Self {
            mean: Buffer::new(device, c)?,
            inv_std: Buffer::new(device, c)?,
        })
    }

    /// For training: from the sums that [`sums`] gave, added up over ranks. At least one element.
    pub fn of_batch(&mut self, stream: &Stream, sums: View<f64>, eps: f32) -> Result<()> {
        let c = self.mean.len();
        assert_eq!(sums.len(), 2 * c + 1, "sums, squares and a count");
        let args = [
            Arg::int(c),
            sums.into(),
            eps.into(),
            (&self.mean.view_mut()).into(),
            (&self.inv_std.view_mut()).into(),
        ];
        kernel(stream, "batch_norm_of_batch")?.start(stream, Grid::over(c), args)
    }

    /// For evaluation: from the running estimates.
    pub fn of_run(
        &mut self,
        stream: &Stream,
        mean: View<f32>,
        var: View<f32>,
        eps: f32,
    ) -> Result<()> {
        let c = self.mean.len();
        assert_eq!((mean.len(), var.len()), (c, c), "estimates of all channels");
        let args = [
            Arg::int(c),
            mean.into(),
            var.into(),
            eps.into(),
            (&self.mean.view_mut()).into(),
            (&self.inv_std.view_mut()).into(),
        ];
        kernel(stream, "batch_norm_of_run")?.start(stream, Grid::over(c), args)
    }
}

/// Doubles that sums over channels work in.
pub fn scratch(c: Channels) -> usize {
    2 * c.c * BLOCKS
}

/// Of each channel of `x` the sum, of each the sum of squares, and the number of elements of a channel, into `sums: (2c + 1)`.
pub fn sums(
    stream: &Stream,
    c: Channels,
    x: View<f32>,
    sums: ViewMut<f64>,
    scratch: ViewMut<f64>,
) -> Result<()> {
    assert_eq!(sums.len(), 2 * c.c + 1, "sums, squares and a count");
    let (of_channel, blocks) = shares(c, x.len());
    if of_channel == 0 {
        return stream.clear(sums);
    }
    assert!(
        scratch.len() >= 2 * c.c * blocks,
        "room for what blocks have"
    );
    let (channels, plane) = (Arg::int(c.c), Divisor::new(c.plane).into());
    let n = Arg::int(of_channel);
    let args = [channels, plane, n, x.into(), (&scratch).into()];
    let grid = Grid::with([c.c, blocks, 1], 256);
    kernel(stream, "batch_norm_sums")?.start(stream, grid, args)?;
    collect(stream, c, blocks, of_channel as f64, scratch.shared(), sums)
}

/// Moves running estimates towards the batch whose sums these are.
pub fn running(
    stream: &Stream,
    sums: View<f64>,
    momentum: f32,
    mean: ViewMut<f32>,
    var: ViewMut<f32>,
) -> Result<()> {
    let c = mean.len();
    assert_eq!((sums.len(), var.len()), (2 * c + 1, c), "of all channels");
    let args = [
        Arg::int(c),
        sums.into(),
        momentum.into(),
        (&mean).into(),
        (&var).into(),
    ];
    kernel(stream, "batch_norm_running")?.start(stream, Grid::of(1, 256), args)
}

/// `y = (x − mean) · inv_std · gamma + beta`.
pub fn forward(
    stream: &Stream,
    c: Channels,
    x: View<f32>,
    normal: Normal,
    beta: View<f32>,
    y: ViewMut<f32>,
) -> Result<()> {
    assert_eq!(x.len(), y.len(), "as many outputs as inputs");
    let [channels, plane] = sizes(c);
    if shares(c, x.len()).0 == 0 {
        return Ok(());
    }
    let args = [
        channels,
        plane,
        x.into(),
        normal.mean.into(),
        normal.inv_std.into(),
        normal.gamma.into(),
        beta.into(),
        (&y).into(),
        Arg::int(y.len()),
    ];
    kernel(stream, "batch_norm_forward")?.start(stream, Grid::over(y.len()), args)
}

/// Of each channel `Σ dy`, of each `Σ dy·x̂`, into `sums: (2c)`. Before ranks add them up they are the gradients of beta and of gamma.
pub fn backward_sums(
    stream: &Stream,
    c: Channels,
    x: View<f32>,
    dy: View<f32>,
    normal: Normal,
    sums: ViewMut<f64>,
    scratch: ViewMut<f64>,
) -> Result<()> {
    assert_eq!(sums.len(), 2 * c.c, "two sums a channel");
    assert_eq!(x.len(), dy.len(), "as many gradients as outputs");
    let (of_channel, blocks) = shares(c, x.len());
    if of_channel == 0 {
        return stream.clear(sums);
    }
    assert!(
        scratch.len() >= 2 * c.c * blocks,
        "room for what blocks have"
    );
    let args = [
        Arg::int(c.c),
        Divisor::new(c.plane).into(),
        Arg::int(of_channel),
        x.into(),
        dy.into(),
        normal.mean.into(),
        normal.inv_std.into(),
        (&scratch).into(),
    ];
    let grid = Grid::with([c.c, blocks, 1], 256);
    kernel(stream, "batch_norm_backward_sums")?.start(stream, grid, args)?;
    collect(stream, c, blocks, -1.0, scratch.shared(), sums)
}

/// Gradients of gamma and beta, from what [`backward_sums`] gave.
pub fn grads(
    stream: &Stream,
    sums: View<f64>,
    dgamma: ViewMut<f32>,
    dbeta: ViewMut<f32>,
) -> Result<()> {
    let c = dgamma.len();
    assert_eq!((sums.len(), dbeta.len()), (2 * c, c), "of all channels");
    let args = [Arg::int(c), sums.into(), (&dgamma).into(), (&dbeta).into()];
    kernel(stream, "batch_norm_grads")?.start(stream, Grid::over(c), args)
}

/// `dx` with the sums and the count of elements of a channel, of all ranks.
#[allow(clippy::too_many_arguments)]
pub fn backward(
    stream: &Stream,
    c: Channels,
    x: View<f32>,
    dy: View<f32>,
    normal: Normal,
    sums: View<f64>,
    count: f64,
    dx: ViewMut<f32>,
) -> Result<()> {
    assert_eq!(x.len(), dy.len(), "as many gradients as outputs");
    assert_eq!(x.len(), dx.len(), "as many gradients out as inputs");
    assert_eq!(sums.len(), 2 * c.c, "two sums a channel");
    let [channels, plane] = sizes(c);
    if shares(c, x.len()).0 == 0 {
        return Ok(());
    }
    let args = [
        channels,
        plane,
        x.into(),
        dy.into(),
        normal.mean.into(),
        normal.inv_std.into(),
        normal.gamma.into(),
        sums.into(),
        (1.0 / count).into(),
        (&dx).into(),
        Arg::int(dx.len()),
    ];
    kernel(stream, "batch_norm_backward")?.start(stream, Grid::over(dx.len()), args)
}

/// Elements of a channel, and blocks that share them: from sizes alone, so that sums round alike on every device.
fn shares(c: Channels, len: usize) -> (usize, usize) {
    assert_eq!(len % (c.c * c.plane), 0, "samples of {c:?}");
    super::launch::int(len);
    let of_channel = len / c.c;
    (of_channel, of_channel.div_ceil(4096).clamp(1, BLOCKS))
}

fn collect(
    stream: &Stream,
    c: Channels,
    blocks: usize,
    count: f64,
    parts: View<f64>,
    sums: ViewMut<f64>,
) -> Result<()> {
    let args = [
        parts.into(),
        Arg::int(blocks),
        Arg::int(2 * c.c),
        count.into(),
        (&sums).into(),
    ];
    kernel(stream, "batch_norm_collect")?.start(stream, Grid::over(2 * c.c), args)
}

fn sizes(c: Channels) -> [Arg; 2] {
    [Divisor::new(c.c).into(), Divisor::new(c.plane).into()]
}

fn kernel(stream: &Stream, name: &'static str) -> Result<Kernel> {
    stream.device().kernel(Source::BatchNorm, name)
}
