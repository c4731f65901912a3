//! Convolution by its own loops on vectors, for few channels, where BLAS spends more time on packing than on products.
//!
//! As many samples as a vector has lanes lie side by side (see [`lanes`](super::super::lanes)). So every kernel, stride
//! and padding runs at full width, and a batch that is no multiple of that costs as much as the next one that is.
//! [`Group`] works on samples that lie so already; the passes here bring them into that order, a vector's at a time, in
//! scratch memory.
#![cfg_attr(not(target_arch = "x86_64"), allow(dead_code))]

mod group;
mod points;
mod rows;
mod transforms;
mod weights;
mod window;

pub(in super::super) use group::Group;

use super::super::isa::Vectors;
#[cfg(target_arch = "x86_64")]
use super::super::isa::{Avx2, Avx512};
use super::super::{Isa, Work, isa};
use super::{Geometry, Pass};
use window::Window;

/// Floats of memory beyond which the planes of a vector's samples are far from any cache.
const MOST: usize = 1 << 22;

/// Whether these loops can do this pass here.
pub(super) fn can(g: &Geometry, pass: Pass) -> bool {
    isa() > Isa::Portable && memory(g, pass) <= MOST
}

/// Floats needed by this pass.
pub(super) fn memory(g: &Geometry, pass: Pass) -> usize {
    let lanes = lanes();
    let padded = g.ci * (g.h + 2 * g.pad) * (g.w + 2 * g.pad) * lanes;
    let weights = g.weights().next_multiple_of(lanes);
    match pass {
        Pass::Forward => weights + padded,
        Pass::GradParams => padded + (g.outputs() + g.weights()) * lanes,
        Pass::GradInput => weights + g.co * (g.h + g.kh - 1) * (g.w + g.kw - 1) * lanes,
    }
}

/// Samples that these loops take at a time.
fn lanes() -> usize {
    if isa() >= Isa::Avx512 { 16 } else { 8 }
}

/// Floats to set aside so that what follows starts on a vector.
fn room<I: Vectors>(len: usize) -> usize {
    len.next_multiple_of(I::LANES)
}

/// `y = x ∗ w + b`.
pub(super) fn forward(
    g: &Geometry,
    x: &[f32],
    w: &[f32],
    b: &[f32],
    y: &mut [f32],
    scratch: &mut [f32],
) {
    assert!(scratch.len() >= memory(g, Pass::Forward));
    slide(&Window::forward(g), x, (w, b), y, scratch);
}

/// `dx = dy ∗ w`, with the kernel turned round.
pub(super) fn grad_input(g: &Geometry, dy: &[f32], w: &[f32], dx: &mut [f32], scratch: &mut [f32]) {
    assert!(scratch.len() >= memory(g, Pass::GradInput));
    slide(&Window::grad_input(g), dy, (w, &[]), dx, scratch);
}

/// A window over all samples, by the widest vectors.
fn slide(
    window: &Window,
    from: &[f32],
    params: (&[f32], &[f32]),
    to: &mut [f32],
    scratch: &mut [f32],
) {
    #[cfg(target_arch = "x86_64")]
    {
        if let Some(isa) = Avx512::here() {
            return rows::slide(isa, window, from, params, to, scratch);
        }
        if let Some(isa) = Avx2::here() {
            return rows::slide(isa, window, from, params, to, scratch);
        }
    }
    unreachable!("asked before");
}

/// `dw = Σ dy · x` over samples and pixels.
pub(super) fn grad_weights(
    g: &Geometry,
    x: &[f32],
    dy: &[f32],
    dw: &mut [f32],
    scratch: &mut [f32],
) {
    assert!(scratch.len() >= memory(g, Pass::GradParams));
    #[cfg(target_arch = "x86_64")]
    {
        if let Some(isa) = Avx512::here() {
            return rows::grad_weights(isa, g, x, dy, dw, scratch);
        }
        if let Some(isa) = Avx2::here() {
            return rows::grad_weights(isa, g, x, dy, dw, scratch);
        }
    }
    unreachable!("asked before");
}
