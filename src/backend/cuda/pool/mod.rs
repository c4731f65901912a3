//! Launches `kernels/pool.cu`, as [`crate::backend::cpu::pool`].

pub mod average;
pub mod max;

use super::launch::{Arg, int};
use crate::backend::cpu::pool::Geometry;

/// The sizes, as the kernels read them.
#[repr(C)]
#[derive(Clone, Copy)]
struct Sizes {
    h: i32,
    w: i32,
    k: i32,
    stride: i32,
    pad: i32,
    oh: i32,
    ow: i32,
}

/// The sizes of a layer, after checking that so many values in and out are whole planes of it.
fn sizes(g: Geometry, inputs: usize, outputs: usize) -> Arg {
    assert!(g.pad <= g.k / 2 && g.stride > 0, "{g:?}");
    let planes = inputs / (g.h * g.w);
    assert_eq!(planes * g.h * g.w, inputs, "whole planes");
    assert_eq!(planes % g.c, 0, "whole samples of {g:?}");
    assert_eq!(planes * g.oh() * g.ow(), outputs, "outputs of {g:?}");
    int(g.h * g.w);
    Arg::of(Sizes {
        h: int(g.h),
        w: int(g.w),
        k: int(g.k),
        stride: int(g.stride),
        pad: int(g.pad),
        oh: int(g.oh()),
        ow: int(g.ow()),
    })
}
