//! What goes over elements: activations, scaling, dropout, losses, sums, steps of optimizers.

use super::case::{Case, Make, Sizes, random};
use crate::Result;
use crate::backend::cpu;
use crate::backend::cpu::dropout::Mask;
use crate::backend::cuda::update::{self, Moved, Target};
use crate::backend::cuda::{Buffer, Stream, activation, bias, dropout, reduce, scale, softmax};

pub(super) const CASES: [Make; 5] = [activations, inputs, losses, sums, updates];

fn activations(stream: &Stream, sizes: &Sizes) -> Result<Vec<Case>> {
    let n = sizes.elements;
    let cost = |bytes: usize| (0.0, (bytes * n) as f64);
    let (x, shape) = (random(n, 1), || n.to_string());
    let put = || stream.buffer(&x);
    let mut y = x.clone();
    cpu::activation::relu(&mut y);
    let name = ("relu", shape());
    let relu = Case::checked(stream, name, cost(8), put()?, &y, activation::relu)?;
    let mut d = x.clone();
    cpu::activation::relu_backward(&y, &mut d);
    let (on_y, name) = (stream.buffer(&y)?, ("relu backward", shape()));
    let back = Case::checked(stream, name, cost(12), put()?, &d, move |s, d| {
        activation::relu_backward(s, on_y.view(), d)
    })?;
    let mut y = x.clone();
    cpu::activation::tanh(&mut y);
    let name = ("tanh", shape());
    let tanh = Case::checked(stream, name, cost(8), put()?, &y, activation::tanh)?;
    let mut d = x.clone();
    cpu::activation::tanh_backward(&y, &mut d);
    let (on_y, name) = (stream.buffer(&y)?, ("tanh backward", shape()));
    let tanh_back = Case::checked(stream, name, cost(12), put()?, &d, move |s, d| {
        activation::tanh_backward(s, on_y.view(), d)
    })?;
    Ok(vec![relu, back, tanh, tanh_back])
}

/// Scaling of pixels, dropout, biases.
fn inputs(stream: &Stream, sizes: &Sizes) -> Result<Vec<Case>> {
    let rows = 7;
    let n = sizes.elements / rows * rows;
    let pixels: Vec<u8> = (0..n).map(|i| (i * 31 % 256) as u8).collect();
    let mut expected = vec![0.0; n];
    cpu::scale::bytes(&pixels, 1.0 / 255.0, -0.5, &mut expected);
    let on_pixels = stream.buffer(&pixels)?;
    let room = || Buffer::new(stream.device(), n);
    let (name, cost) = (("scale bytes", n.to_string()), (0.0, 5.0 * n as f64));
    let scaled = Case::checked(stream, name, cost, room()?, &expected, move |s, out| {
        scale::bytes(s, on_pixels.view(), 1.0 / 255.0, -0.5, out)
    })?;

    let x = random(n, 1);
    let (mask, samples) = (
        Mask {
            seed: 1,
            layer: 2,
            step: 3,
            rate: 0.5,
        },
        [0, 1, 2, 3, 4, 5, 6],
    );
    let mut expected = x.clone();
    mask.apply(&samples, &mut expected);
    let names = stream.buffer(&samples)?;
    let name = ("dropout", format!("{rows}×{}", n / rows));
    let cost = (0.0, 8.0 * n as f64);
    let out = stream.buffer(&x)?;
    let dropped = Case::checked(stream, name, cost, out, &expected, move |s, values| {
        dropout::apply(s, mask, names.view(), values)
    })?;

    let b = random(rows, 2);
    let expected: Vec<f32> = (0..n).map(|i| x[i] + b[i % rows]).collect();
    let on_b = stream.buffer(&b)?;
    let (name, out) = (
        ("bias add", format!("{}×{rows}", n / rows)),
        stream.buffer(&x)?,
    );
    let biased = Case::checked(stream, name, cost, out, &expected, move |s, y| {
        bias::add(s, 1, on_b.view(), y)
    })?;
    Ok(vec![scaled, dropped, biased])
}

fn losses(stream: &Stream, sizes: &Sizes) -> Result<Vec<Case>> {
    let (n, classes) = if sizes.small {
        (sizes.n, 10)
    } else {
        (8 * sizes.n, 1000)
    };
    let z = random(n * classes, 1);
    let labels: Vec<u32> = (0..n).map(|i| (i * 7 % classes) as u32).collect();
    let mut expected = z.clone();
    cpu::softmax::cross_entropy(&mut expected, &labels, 1.0);
    let on_labels = stream.buffer(&labels)?;
    let mut tally = stream.zeros::<f64>(2)?;
    let mut work = Buffer::new(stream.device(), softmax::scratch(n))?;
    let name = ("softmax", format!("{n}×{classes}"));
    let (cost, out) = ((0.0, (8 * n * classes) as f64), stream.buffer(&z)?);
    let case = Case::checked(stream, name, cost, out, &expected, move |s, z| {
        let (tally, work) = (tally.view_mut(), work.view_mut());
        softmax::cross_entropy(s, z, on_labels.view(), 1.0, tally, work)
    })?;
    Ok(vec![case])
}

/// A sum of squares is compared by way of a gradient that it clips.
fn sums(stream: &Stream, sizes: &Sizes) -> Result<Vec<Case>> {
    let n = sizes.elements;
    let grads = random(n, 1);
    let squares: f64 = grads.iter().map(|&g| f64::from(g).powi(2)).sum();
    let factor = (1.0 / (squares.sqrt() + 1e-6)) as f32;
    let expected: Vec<f32> = grads.iter().map(|g| g * factor).collect();
    let on_grads = stream.buffer(&grads)?;
    let mut square = Buffer::new(stream.device(), 1)?;
    let mut work = Buffer::new(stream.device(), reduce::SCRATCH)?;
    let name = ("reduce squares, clip", n.to_string());
    let (cost, out) = ((0.0, 12.0 * n as f64), stream.buffer(&grads)?);
    let case = Case::checked(stream, name, cost, out, &expected, move |s, grads| {
        reduce::squares(s, on_grads.view(), square.view_mut(), work.view_mut())?;
        update::clip(s, 1.0, square.view(), grads)
    })?;
    Ok(vec![case])
}

fn updates(stream: &Stream, sizes: &Sizes) -> Result<Vec<Case>> {
    let n = sizes.elements;
    let (params, grads) = (random(n, 1), random(n, 2));
    let mut on_grads = stream.buffer(&grads)?;
    let target = Target::Params;
    let expected: Vec<f32> = params
        .iter()
        .zip(&grads)
        .map(|(p, g)| p - 0.1 * g)
        .collect();
    let cost = |bytes: usize| (0.0, (bytes * n) as f64);
    let (name, out) = (("update sgd", n.to_string()), stream.buffer(&params)?);
    let sgd = Case::checked(stream, name, cost(12), out, &expected, move |s, params| {
        let grads = on_grads.view_mut();
        let moved = Moved {
            params,
            grads,
            target,
        };
        update::sgd(s, 0.1, 0.0, moved)
    })?;

    // The first step of momentum is one of plain descent.
    let (mut on_grads, mut velocity) = (stream.buffer(&grads)?, stream.zeros(n)?);
    let settings = update::Momentum {
        lr: 0.1,
        momentum: 0.9,
        nesterov: false,
        weight_decay: 0.0,
    };
    let (name, out) = (("update momentum", n.to_string()), stream.buffer(&params)?);
    let momentum = Case::checked(stream, name, cost(20), out, &expected, move |s, params| {
        let grads = on_grads.view_mut();
        let moved = Moved {
            params,
            grads,
            target,
        };
        update::momentum(s, settings, moved, velocity.view_mut())
    })?;

    // The first step of Adam goes as far as the rate, whatever the gradient.
    let step = |(p, g): (&f32, &f32)| p - 0.1 * g.signum();
    let expected: Vec<f32> = params.iter().zip(&grads).map(step).collect();
    let settings = update::Adam {
        lr: 0.1,
        beta1: 0.9,
        beta2: 0.999,
        weight_decay: 0.0,
        decoupled: false,
        epsilon: 1e-8,
        step: 1,
    };
    let (mut on_grads, mut first, mut second) =
        (stream.buffer(&grads)?, stream.zeros(n)?, stream.zeros(n)?);
    let (name, out) = (("update adam", n.to_string()), stream.buffer(&params)?);
    let adam = Case::checked(stream, name, cost(28), out, &expected, move |s, params| {
        let grads = on_grads.view_mut();
        let moved = Moved {
            params,
            grads,
            target,
        };
        update::adam(s, settings, moved, [first.view_mut(), second.view_mut()])
    })?;
    Ok(vec![sgd, momentum, adam])
}
