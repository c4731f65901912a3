//! Products: convolution, fully connected layers, blocks of matrices.

use ndarray::{ArrayView2, linalg::general_mat_mul};

use super::case::{Case, Sizes, random, worst};
use crate::Result;
use crate::backend::cpu::conv2d::{Conv2d as Reference, Geometry as Conv};
use crate::backend::cpu::linear::{self as reference, Geometry as Linear};
use crate::backend::cpu::{Input, Scratch};
use crate::backend::cuda::conv2d::Conv2d;
use crate::backend::cuda::gemm::{self, Geometry as Block, Number};
use crate::backend::cuda::{Stream, linear};

/// What makes cases of one operation.
pub(super) type Make = fn(&Stream, &Sizes) -> Result<Vec<Case>>;

pub(super) const CASES: [Make; 3] = [convolution, fully_connected, matrices];

/// The second layer of AlexNet, or of LeNet.
fn convolution(stream: &Stream, sizes: &Sizes) -> Result<Vec<Case>> {
    let (ci, h, co, pad) = match sizes.small {
        true => (6, 14, 16, 0),
        false => (64, 27, 192, 2),
    };
    let (w, kh, kw, stride) = (h, 5, 5, 1);
    let g = Conv {
        ci,
        h,
        w,
        co,
        kh,
        kw,
        stride,
        pad,
    };
    let n = sizes.n;
    let shape = format!("{n}×{ci}×{h}×{w} ∗ {co}×{ci}×{kh}×{kw}");
    let flops = 2.0 * (n * g.weights() * g.oh() * g.ow()) as f64;
    let bytes = 4.0 * (n * (g.inputs() + g.outputs()) + g.weights()) as f64;
    let (x, weights) = (random(n * g.inputs(), 1), random(g.weights(), 2));
    let (b, dy) = (random(co, 3), random(n * g.outputs(), 4));
    let (kernel, mut scratch, own) = (Reference::new(g), Scratch::default(), Conv2d::new(g));
    let put = |values: &[f32]| stream.buffer(values);

    let (on_x, on_w, on_b) = (put(&x)?, put(&weights)?, put(&b)?);
    let (mut y, mut expected) = (put(&dy)?, dy.clone());
    kernel.forward(n, &x, &weights, &b, &mut expected, &mut scratch);
    let mut launch = move |stream: &Stream| {
        let inputs = (on_x.view(), on_w.view(), on_b.view());
        own.forward(stream, n, inputs.0, inputs.1, inputs.2, y.view_mut())?;
        Ok(y.len())
    };
    // Taken apart so that results can be looked at before the buffers move into the case.
    let (on_x, on_w, on_b, mut y) = {
        launch(stream)?;
        let mut y = put(&dy)?;
        let (on_x, on_w, on_b) = (put(&x)?, put(&weights)?, put(&b)?);
        let inputs = (on_x.view(), on_w.view(), on_b.view());
        own.forward(stream, n, inputs.0, inputs.1, inputs.2, y.view_mut())?;
        (on_x, on_w, on_b, y)
    };
    let error = worst(&stream.values(y.view())?, &expected);
    let forward = Case::new("conv2d forward", shape.clone(), (flops, bytes), error, move |s| {
        let inputs = (on_x.view(), on_w.view(), on_b.view());
        own.forward(s, n, inputs.0, inputs.1, inputs.2, y.view_mut())
    });
    let _ = launch;
    Ok(vec![forward])
}
