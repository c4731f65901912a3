//! Products: convolution, fully connected layers, blocks of matrices.

use ndarray::ArrayView2;

use super::case::{Case, Make, Sizes, random, worst};
use crate::Result;
use crate::backend::cpu::conv2d::{Conv2d as Reference, Geometry as Conv};
use crate::backend::cpu::linear::{self as reference, Geometry as Linear};
use crate::backend::cpu::{Input, Scratch};
use crate::backend::cuda::conv2d::Conv2d;
use crate::backend::cuda::gemm::{self, Geometry as Block};
use crate::backend::cuda::{Buffer, Stream, linear};

pub(super) const CASES: [Make; 3] = [convolution, fully_connected, matrices];

/// The second layer of AlexNet, or of LeNet.
fn convolution(stream: &Stream, sizes: &Sizes) -> Result<Vec<Case>> {
    let n = sizes.n;
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
    let shape = || format!("{n}×{ci}×{h}×{w} ∗ {co}×{ci}×{kh}×{kw}");
    let flops = 2.0 * (n * g.weights() * g.oh() * g.ow()) as f64;
    let cost = (
        flops,
        4.0 * (n * (g.inputs() + g.outputs()) + g.weights()) as f64,
    );
    let (x, filters) = (random(n * g.inputs(), 1), random(g.weights(), 2));
    let (b, dy) = (random(co, 3), random(n * g.outputs(), 4));
    let (kernel, mut scratch, own) = (Reference::new(g), Scratch::default(), Conv2d::new(g));
    let put = |values: &[f32]| stream.buffer(values);
    let room = |len: usize| Buffer::new(stream.device(), len);

    let mut expected = vec![0.0; dy.len()];
    kernel.forward(n, &x, &filters, &b, &mut expected, &mut scratch);
    let (on_x, on_w, on_b) = (put(&x)?, put(&filters)?, put(&b)?);
    let name = ("conv2d forward", shape());
    let forward = Case::checked(
        stream,
        name,
        cost,
        room(dy.len())?,
        &expected,
        move |s, y| own.forward(s, n, on_x.view(), on_w.view(), on_b.view(), y),
    )?;

    let mut expected = vec![0.0; x.len()];
    kernel.grad_input(n, &dy, &filters, &mut expected, &mut scratch);
    let (on_dy, on_w) = (put(&dy)?, put(&filters)?);
    let name = ("conv2d grad_input", shape());
    let input = Case::checked(
        stream,
        name,
        cost,
        room(x.len())?,
        &expected,
        move |s, dx| own.grad_input(s, n, on_dy.view(), on_w.view(), dx),
    )?;

    // Filters and biases in one buffer: both are compared.
    let mut expected = vec![0.0; g.weights() + co];
    let (dw, db) = expected.split_at_mut(g.weights());
    kernel.grad_params(n, &x, &dy, dw, db, &mut scratch);
    let (on_x, on_dy, mut work) = (put(&x)?, put(&dy)?, room(own.scratch(n))?);
    let (name, out) = (("conv2d grad_params", shape()), room(expected.len())?);
    let params = Case::checked(stream, name, cost, out, &expected, move |s, grads| {
        let (dw, db) = grads.split_at(g.weights());
        let inputs = (on_x.view(), on_dy.view());
        own.grad_params(s, n, inputs.0, inputs.1, dw, db, work.view_mut())
    })?;
    Ok(vec![forward, input, params])
}

/// A large layer of AlexNet, or one of LeNet.
fn fully_connected(stream: &Stream, sizes: &Sizes) -> Result<Vec<Case>> {
    let n = sizes.n;
    let (ci, co) = if sizes.small {
        (400, 120)
    } else {
        (4096, 4096)
    };
    let g = Linear { n, ci, co };
    let shape = || format!("{n}×{ci} · {ci}×{co}");
    let bytes = 4.0 * (n * (ci + co) + ci * co) as f64;
    let cost = (2.0 * (n * ci * co) as f64, bytes);
    let (x, w) = (random(n * ci, 1), random(ci * co, 2));
    let (b, dy) = (random(co, 3), random(n * co, 4));
    let put = |values: &[f32]| stream.buffer(values);
    let room = |len: usize| Buffer::new(stream.device(), len);
    let work = || Buffer::new(stream.device(), linear::scratch(g));

    let mut expected = vec![0.0; n * co];
    reference::forward(g, Input::Floats(&x), &w, &b, &mut expected);
    let (on_x, on_w, on_b, mut scratch) = (put(&x)?, put(&w)?, put(&b)?, work()?);
    let name = ("linear forward", shape());
    let forward = Case::checked(stream, name, cost, room(n * co)?, &expected, move |s, y| {
        let inputs = (on_x.view(), on_w.view(), on_b.view());
        linear::forward(s, g, inputs.0, inputs.1, inputs.2, y, scratch.view_mut())
    })?;

    let mut expected = vec![0.0; n * ci];
    reference::grad_input(g, &dy, &w, &mut expected);
    let (on_dy, on_w, mut scratch) = (put(&dy)?, put(&w)?, work()?);
    let name = ("linear grad_input", shape());
    let input = Case::checked(
        stream,
        name,
        cost,
        room(n * ci)?,
        &expected,
        move |s, dx| linear::grad_input(s, g, on_dy.view(), on_w.view(), dx, scratch.view_mut()),
    )?;

    let mut expected = vec![0.0; ci * co + co];
    let (dw, db) = expected.split_at_mut(ci * co);
    reference::grad_params(g, Input::Floats(&x), &dy, dw, db);
    let (on_x, on_dy, mut scratch) = (put(&x)?, put(&dy)?, work()?);
    let (name, out) = (("linear grad_params", shape()), room(expected.len())?);
    let params = Case::checked(stream, name, cost, out, &expected, move |s, grads| {
        let (dw, db) = grads.split_at(ci * co);
        let inputs = (on_x.view(), on_dy.view());
        linear::grad_params(s, g, inputs.0, inputs.1, dw, db, scratch.view_mut())
    })?;
    Ok(vec![forward, input, params])
}

fn matrices(stream: &Stream, sizes: &Sizes) -> Result<Vec<Case>> {
    let side = sizes.side;
    let g = Block::new(side, side, side, false);
    let shape = || format!("{side}×{side} · {side}×{side}");
    let (flops, numbers) = (2.0 * (side as f64).powi(3), 3.0 * (side * side) as f64);
    let (a, b) = (random(side * side, 1), random(side * side, 2));
    let matrix = |values| {
        ArrayView2::from_shape((side, side), values).expect("as many values as the square has")
    };
    let product = matrix(&a).dot(&matrix(&b));
    let expected = product.as_slice().expect("a product has no gaps");
    let (on_a, on_b) = (stream.buffer(&a)?, stream.buffer(&b)?);
    let out = Buffer::new(stream.device(), side * side)?;
    let (name, cost) = (("gemm f32", shape()), (flops, 4.0 * numbers));
    let single = Case::checked(stream, name, cost, out, expected, move |s, c| {
        gemm::product(s, g, on_a.view(), on_b.view(), c)
    })?;

    let wide = |values: &[f32]| values.iter().map(|&v| f64::from(v)).collect::<Vec<_>>();
    let (on_a, on_b) = (stream.buffer(&wide(&a))?, stream.buffer(&wide(&b))?);
    let mut c = Buffer::<f64>::new(stream.device(), side * side)?;
    gemm::product(stream, g, on_a.view(), on_b.view(), c.view_mut())?;
    let got = stream.values(c.view())?;
    let got: Vec<f32> = got.into_iter().map(|v| v as f32).collect();
    let double = Case {
        name: "gemm f64",
        shape: shape(),
        flops,
        bytes: 8.0 * numbers,
        double: true,
        error: worst(&got, expected),
        tolerance: 1e-4,
        launch: Box::new(move |s| gemm::product(s, g, on_a.view(), on_b.view(), c.view_mut())),
    };
    Ok(vec![single, double])
}
