//! Samples in rows: into lanes eight at a time, through the loops, and back.
#![allow(unsafe_code)]

use super::super::super::Input;
use super::super::super::lanes::pack::{pack, unpack};
use super::super::super::lanes::{Eight, LANES, Planes};
use super::window::{Finish, Out, Pixel, TILE, Window, tiles};
use super::{Geometry, room, weights};

/// Pixels between two visits to the output: their sums stay in the first-level cache.
const CHUNK: usize = 32;

/// A window over all samples; no biases stand for zeros.
///
/// # Safety
/// `scratch` must have the pass's size, and start on a vector.
#[target_feature(enable = "avx2,fma")]
pub(super) unsafe fn slide(
    window: &Window,
    from: &[f32],
    (w, biases): (&[f32], &[f32]),
    to: &mut [f32],
    scratch: &mut [f32],
) {
    let (weights, planes) = scratch.split_at_mut(room(w.len()));
    window.arrange(w, weights);
    let (outputs, oh, ow) = window.out;
    let (sample_in, sample_out) = (window.from.sample(), outputs * oh * ow);
    let planes = &mut vectors(planes)[..window.from.len()];
    planes.fill(Eight::default());
    let mut pixels: [Pixel; CHUNK] = std::array::from_fn(|_| Pixel::default());
    let mut sums = [Eight::default(); TILE * CHUNK];
    let samples = from.chunks(LANES * sample_in);
    for (from, to) in samples.zip(to.chunks_mut(LANES * sample_out)) {
        pack(&window.from, Input::Floats(from), planes);
        let count = from.len() / sample_in;
        for start in (0..oh * ow).step_by(CHUNK) {
            let len = CHUNK.min(oh * ow - start);
            window.locate(start, &mut pixels[..len]);
            for (first, channels) in tiles(outputs) {
                let mut out = Out {
                    to: &mut sums,
                    plane: CHUNK,
                    finish: Finish::Plain,
                };
                let work = (&*planes, &*weights, biases);
                // SAFETY: the weights were arranged, the pixels found, and the sums have room for a tile of a chunk.
                unsafe { window.sum((first, channels), work, &pixels[..len], &mut out) };
                for (o, sums) in sums.chunks_exact(CHUNK).enumerate().take(channels) {
                    let place = (first + o) * oh * ow + start;
                    unpack(&sums[..len], (count, sample_out), &mut to[place..]);
                }
            }
        }
    }
}

/// `dw = Σ dy · x`.
///
/// # Safety
/// `scratch` must have the pass's size, and start on a vector.
#[target_feature(enable = "avx2,fma")]
pub(super) unsafe fn grad_weights(
    g: &Geometry,
    x: &[f32],
    dy: &[f32],
    dw: &mut [f32],
    scratch: &mut [f32],
) {
    let input = Window::forward(g).from;
    let output = Planes::tight(g.co, g.oh(), g.ow());
    let (planes, rest) = vectors(scratch).split_at_mut(input.len());
    let (grads, rest) = rest.split_at_mut(output.len());
    let sums = &mut rest[..g.weights()];
    planes.fill(Eight::default());
    sums.fill(Eight::default());
    let samples = x.chunks(LANES * input.sample());
    for (x, dy) in samples.zip(dy.chunks(LANES * output.sample())) {
        pack(&input, Input::Floats(x), planes);
        pack(&output, Input::Floats(dy), grads);
        // SAFETY: the planes have the geometry's sizes.
        unsafe { weights::add(g, planes, (grads, &output), sums) };
    }
    for (dw, sum) in dw.iter_mut().zip(sums) {
        *dw = sum.sum();
    }
}

/// Floats that start on a vector, as vectors.
fn vectors(floats: &mut [f32]) -> &mut [Eight] {
    // SAFETY: any floats are an `Eight`.
    let (before, vectors, _) = unsafe { floats.align_to_mut::<Eight>() };
    assert!(before.is_empty(), "scratch memory starts on a vector");
    vectors
}
