//! Layers that are bound by memory: pooling and normalisation.

use super::case::{Case, Make, Sizes, random};
use crate::Result;
use crate::backend::cpu::batch_norm::{Channels, Gradient, Statistics as Reference};
use crate::backend::cpu::local_response::LocalResponse;
use crate::backend::cpu::pool::{self as reference, Geometry};
use crate::backend::cuda::batch_norm::{self, Normal, Statistics};
use crate::backend::cuda::pool::{average, max};
use crate::backend::cuda::{Buffer, Stream, local_response};

pub(super) const CASES: [Make; 3] = [pooling, neighbours, batches];

/// The first pooling of AlexNet, or a small one.
fn pooling(stream: &Stream, sizes: &Sizes) -> Result<Vec<Case>> {
    let (c, h) = if sizes.small { (6, 15) } else { (64, 55) };
    let (n, w, k, stride, pad) = (sizes.n, h, 3, 2, 0);
    let g = Geometry {
        c,
        h,
        w,
        k,
        stride,
        pad,
    };
    let shape = || format!("{n}×{c}×{h}×{w}, windows of {k} by {stride}");
    let (inputs, outputs) = (n * c * h * w, n * c * g.oh() * g.ow());
    let (x, dy) = (random(inputs, 1), random(outputs, 2));
    let room = |len: usize| Buffer::new(stream.device(), len);
    let cost = |of_output: usize| (0.0, (4 * inputs + of_output * outputs) as f64);

    let (mut y, mut places) = (vec![0.0; outputs], vec![0; outputs]);
    reference::max::forward(g, &x, &mut y, &mut places);
    let (on_x, mut on_places) = (
        stream.buffer(&x)?,
        Buffer::<u32>::new(stream.device(), outputs)?,
    );
    let name = ("max_pool forward", shape());
    let forward = Case::checked(stream, name, cost(8), room(outputs)?, &y, move |s, y| {
        max::forward(s, g, on_x.view(), y, on_places.view_mut())
    })?;

    let mut dx = vec![0.0; inputs];
    reference::max::backward(g, &places, &dy, &mut dx);
    let (on_places, on_dy) = (stream.buffer(&places)?, stream.buffer(&dy)?);
    let name = ("max_pool backward", shape());
    let backward = Case::checked(stream, name, cost(8), room(inputs)?, &dx, move |s, dx| {
        max::backward(s, g, on_places.view(), on_dy.view(), dx)
    })?;

    reference::average::forward(g, &x, &mut y);
    let on_x = stream.buffer(&x)?;
    let name = ("average_pool forward", shape());
    let mean = Case::checked(stream, name, cost(4), room(outputs)?, &y, move |s, y| {
        average::forward(s, g, on_x.view(), y)
    })?;

    let mut y = vec![0.0; n * c];
    reference::average::global(h * w, &x, &mut y);
    let on_x = stream.buffer(&x)?;
    let name = ("global_average", format!("{n}×{c}×{h}×{w}"));
    let bytes = (0.0, (4 * (inputs + n * c)) as f64);
    let global = Case::checked(stream, name, bytes, room(n * c)?, &y, move |s, y| {
        average::global(s, h * w, on_x.view(), y)
    })?;
    Ok(vec![forward, backward, mean, global])
}

/// The first normalisation of AlexNet, or a small one.
fn neighbours(stream: &Stream, sizes: &Sizes) -> Result<Vec<Case>> {
    let (c, plane) = if sizes.small { (8, 49) } else { (64, 55 * 55) };
    let layer = LocalResponse {
        c,
        plane,
        size: 5,
        alpha: 1e-4,
        beta: 0.75,
        k: 2.0,
    };
    let len = sizes.n * c * plane;
    let (x, dy) = (random(len, 1), random(len, 2));
    let (mut y, mut dx) = (vec![0.0; len], vec![0.0; len]);
    layer.forward(&x, &mut y);
    layer.backward(&x, &dy, &mut dx, &mut Vec::new());
    let shape = || format!("{}×{c}×{plane}, windows of 5", sizes.n);
    let room = || Buffer::new(stream.device(), len);
    let (on_x, name) = (stream.buffer(&x)?, ("local_response forward", shape()));
    let cost = (0.0, 8.0 * len as f64);
    let forward = Case::checked(stream, name, cost, room()?, &y, move |s, y| {
        local_response::forward(s, layer, on_x.view(), y)
    })?;
    let (on_x, on_dy, mut work) = (stream.buffer(&x)?, stream.buffer(&dy)?, room()?);
    let (name, cost) = (
        ("local_response backward", shape()),
        (0.0, 32.0 * len as f64),
    );
    let backward = Case::checked(stream, name, cost, room()?, &dx, move |s, dx| {
        local_response::backward(s, layer, on_x.view(), on_dy.view(), dx, work.view_mut())
    })?;
    Ok(vec![forward, backward])
}

/// Both parts of each pass: sums, then what is made from them.
fn batches(stream: &Stream, sizes: &Sizes) -> Result<Vec<Case>> {
    let (c, plane) = if sizes.small { (6, 49) } else { (64, 56 * 56) };
    let (g, len) = (Channels { c, plane }, sizes.n * c * plane);
    let (x, dy, gamma, beta) = (random(len, 1), random(len, 2), random(c, 3), random(c, 4));
    let (mut sums, mut slopes) = (vec![0.0; 2 * c + 1], vec![0.0; 2 * c]);
    let (mut stats, mut y, mut dx) = (Reference::new(c), vec![0.0; len], vec![0.0; len]);
    g.sums(&x, &mut sums);
    stats.of_batch(&sums, 1e-5);
    g.forward(&x, &stats, &gamma, &beta, &mut y);
    g.backward_sums(&x, &dy, &stats, &mut slopes);
    let count = sums[2 * c];
    let layer = Gradient {
        stats: &stats,
        gamma: &gamma,
        sums: &slopes,
        count,
    };
    g.backward(&x, &dy, layer, &mut dx);

    let shape = || format!("{}×{c}×{plane}", sizes.n);
    let put = |values: &[f32]| stream.buffer(values);
    let doubles = |len: usize| Buffer::<f64>::new(stream.device(), len);
    let room = || Buffer::new(stream.device(), len);
    let (on_x, on_gamma, on_beta) = (put(&x)?, put(&gamma)?, put(&beta)?);
    let mut on_stats = Statistics::new(stream.device(), c)?;
    let (mut on_sums, mut work) = (doubles(2 * c + 1)?, doubles(batch_norm::scratch(g))?);
    let (name, cost) = (("batch_norm forward", shape()), (0.0, 12.0 * len as f64));
    let forward = Case::checked(stream, name, cost, room()?, &y, move |s, y| {
        batch_norm::sums(s, g, on_x.view(), on_sums.view_mut(), work.view_mut())?;
        on_stats.of_batch(s, on_sums.view(), 1e-5)?;
        let normal = Normal {
            mean: on_stats.mean.view(),
            inv_std: on_stats.inv_std.view(),
            gamma: on_gamma.view(),
        };
        batch_norm::forward(s, g, on_x.view(), normal, on_beta.view(), y)
    })?;

    let (on_x, on_dy, on_gamma) = (put(&x)?, put(&dy)?, put(&gamma)?);
    let (mean, inv_std) = (put(&stats.mean)?, put(&stats.inv_std)?);
    let (mut on_sums, mut work) = (doubles(2 * c)?, doubles(batch_norm::scratch(g))?);
    let (name, cost) = (("batch_norm backward", shape()), (0.0, 20.0 * len as f64));
    let backward = Case::checked(stream, name, cost, room()?, &dx, move |s, dx| {
        let normal = Normal {
            mean: mean.view(),
            inv_std: inv_std.view(),
            gamma: on_gamma.view(),
        };
        let (inputs, sums) = ((on_x.view(), on_dy.view()), on_sums.view_mut());
        batch_norm::backward_sums(s, g, inputs.0, inputs.1, normal, sums, work.view_mut())?;
        let sums = on_sums.view();
        batch_norm::backward(s, g, inputs.0, inputs.1, normal, sums, count, dx)
    })?;
    Ok(vec![forward, backward])
}
