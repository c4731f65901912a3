//! Samples in rows: into lanes a vector's at a time, through the loops, and back.
#![allow(unsafe_code)]

use super::super::super::Input;
use super::super::super::isa::Vectors;
use super::super::super::lanes::Planes;
use super::super::super::lanes::pack::{pack, unpack};
use super::window::{Finish, Out, Pixel, TILE, Window, tiles};
use super::{Geometry, room, weights};

/// Pixels between two visits to the output: their sums stay in the first-level cache.
const CHUNK: usize = 32;

/// A window over all samples; no biases stand for zeros.
///
/// `scratch` has the pass's size, and starts on a vector.
pub(super) fn slide<I: Vectors>(
    isa: I,
    window: &Window,
    from: &[f32],
    (w, biases): (&[f32], &[f32]),
    to: &mut [f32],
    scratch: &mut [f32],
) {
    let (weights, planes) = scratch.split_at_mut(room::<I>(w.len()));
    window.arrange::<I>(w, weights);
    let (outputs, oh, ow) = window.out;
    let (sample_in, sample_out) = (window.from.sample(), outputs * oh * ow);
    let planes = &mut vectors::<I>(planes)[..window.from.len()];
    planes.fill(I::Vector::default());
    let mut pixels: [Pixel; CHUNK] = std::array::from_fn(|_| Pixel::default());
    let mut sums = [I::Vector::default(); TILE * CHUNK];
    let samples = from.chunks(I::LANES * sample_in);
    for (from, to) in samples.zip(to.chunks_mut(I::LANES * sample_out)) {
        pack(isa, &window.from, Input::Floats(from), planes);
        let count = from.len() / sample_in;
        for start in (0..oh * ow).step_by(CHUNK) {
            let len = CHUNK.min(oh * ow - start);
            window.locate(start, &mut pixels[..len]);
            for (first, channels) in tiles::<I>(outputs) {
                let out = Out {
                    to: &mut sums,
                    plane: CHUNK,
                    finish: Finish::Plain,
                };
                let work = (&*planes, &*weights, biases);
                // SAFETY: the weights were arranged, the pixels found, and the sums have room for a tile of a chunk.
                unsafe { window.sum(isa, (first, channels), work, &pixels[..len], out) };
                for (o, sums) in sums.chunks_exact(CHUNK).enumerate().take(channels) {
                    let place = (first + o) * oh * ow + start;
                    unpack(isa, &sums[..len], (count, sample_out), &mut to[place..]);
                }
            }
        }
    }
}

/// `dw = Σ dy · x`.
///
/// `scratch` has the pass's size, and starts on a vector.
pub(super) fn grad_weights<I: Vectors>(
    isa: I,
    g: &Geometry,
    x: &[f32],
    dy: &[f32],
    dw: &mut [f32],
    scratch: &mut [f32],
) {
    let input = Window::forward(g).from;
    let output = Planes::tight(g.co, g.oh(), g.ow());
    let (planes, rest) = vectors::<I>(scratch).split_at_mut(input.len());
    let (grads, rest) = rest.split_at_mut(output.len());
    let sums = &mut rest[..g.weights()];
    planes.fill(I::Vector::default());
    sums.fill(I::Vector::default());
    let samples = x.chunks(I::LANES * input.sample());
    for (x, dy) in samples.zip(dy.chunks(I::LANES * output.sample())) {
        pack(isa, &input, Input::Floats(x), planes);
        pack(isa, &output, Input::Floats(dy), grads);
        // SAFETY: the planes have the geometry's sizes.
        unsafe { weights::add(isa, g, planes, (grads, &output), sums) };
    }
    for (dw, sum) in dw.iter_mut().zip(sums) {
        *dw = sum.as_ref().iter().sum();
    }
}

/// Floats that start on a vector, as vectors.
fn vectors<I: Vectors>(floats: &mut [f32]) -> &mut [I::Vector] {
    // SAFETY: any floats are a vector.
    let (before, vectors, _) = unsafe { floats.align_to_mut::<I::Vector>() };
    assert!(before.is_empty(), "scratch memory starts on a vector");
    vectors
}
