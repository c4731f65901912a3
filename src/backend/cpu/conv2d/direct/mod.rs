//! Convolution by its own loops on AVX2, for few channels, where BLAS spends more time on packing than on products.
//!
//! Eight samples lie side by side in the lanes of a vector (see [`lanes`](super::super::lanes)). So every kernel,
//! stride and padding runs at full width, and a batch that is no multiple of eight costs as much as the next one that
//! is. [`Group`] works on samples that lie so already; the passes here bring them into that order, eight at a time, in
//! scratch memory.

#![allow(unsafe_code)]

#[cfg(not(target_arch = "x86_64"))]
mod elsewhere;
#[cfg(target_arch = "x86_64")]
mod group;
#[cfg(target_arch = "x86_64")]
mod points;
#[cfg(target_arch = "x86_64")]
mod rows;
#[cfg(target_arch = "x86_64")]
mod weights;
#[cfg(target_arch = "x86_64")]
mod window;

#[cfg(target_arch = "x86_64")]
pub(in super::super) use group::Group;

#[cfg(not(target_arch = "x86_64"))]
pub(in super::super) use elsewhere::Group;

use super::super::lanes::LANES;
use super::{Geometry, Pass};

/// Floats of memory beyond which the planes of eight samples are far from any cache.
const MOST: usize = 1 << 22;

/// Whether these loops can do this pass here.
pub(super) fn can(g: &Geometry, pass: Pass) -> bool {
    cfg!(target_arch = "x86_64") && super::super::has_avx2() && memory(g, pass) <= MOST
}

/// Floats needed by this pass.
pub(super) fn memory(g: &Geometry, pass: Pass) -> usize {
    let padded = g.ci * (g.h + 2 * g.pad) * (g.w + 2 * g.pad) * LANES;
    match pass {
        Pass::Forward => room(g.weights()) + padded,
        Pass::GradParams => padded + (g.outputs() + g.weights()) * LANES,
        Pass::GradInput => room(g.weights()) + g.co * (g.h + g.kh - 1) * (g.w + g.kw - 1) * LANES,
    }
}

/// Floats to set aside so that what follows starts on a vector.
fn room(len: usize) -> usize {
    len.next_multiple_of(LANES)
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
    assert!(can(g, Pass::Forward) && scratch.len() >= memory(g, Pass::Forward));
    #[cfg(target_arch = "x86_64")]
    // SAFETY: AVX2 and FMA were just found.
    unsafe {
        rows::slide(&window::Window::forward(g), x, (w, b), y, scratch)
    }
}

/// `dw = Σ dy · x` over samples and pixels.
pub(super) fn grad_weights(
    g: &Geometry,
    x: &[f32],
    dy: &[f32],
    dw: &mut [f32],
    scratch: &mut [f32],
) {
    assert!(can(g, Pass::GradParams) && scratch.len() >= memory(g, Pass::GradParams));
    #[cfg(target_arch = "x86_64")]
    // SAFETY: AVX2 and FMA were just found.
    unsafe {
        rows::grad_weights(g, x, dy, dw, scratch)
    }
}

/// `dx = dy ∗ w`, with the kernel turned round.
pub(super) fn grad_input(g: &Geometry, dy: &[f32], w: &[f32], dx: &mut [f32], scratch: &mut [f32]) {
    assert!(can(g, Pass::GradInput) && scratch.len() >= memory(g, Pass::GradInput));
    #[cfg(target_arch = "x86_64")]
    // SAFETY: AVX2 and FMA were just found.
    unsafe {
        rows::slide(&window::Window::grad_input(g), dy, (w, &[]), dx, scratch)
    }
}
