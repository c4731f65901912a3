//! Launches `kernels/pool.cu`, as [`crate::backend::cpu::pool`].

pub mod average;
pub mod max;

use super::launch::{Arg, Divisor, int};
use crate::backend::cpu::pool::Geometry;

/// The sizes, as the kernels read them.
#[repr(C)]
#[derive(Clone, Copy)]
struct Sizes {
    h: i32,
    w: i32,
    k: i32,
    pad: i32,
    oh: i32,
    ow: i32,
    stride: Divisor,
    inputs: Divisor,
    columns: Divisor,
    outputs: Divisor,
    out_columns: Divisor,
}

/// The sizes of a layer, after checking that so many values in and out are whole planes of it.
fn sizes(g: Geometry, inputs: usize, outputs: usize) -> Arg {
    assert!(g.pad <= g.k / 2 && g.stride > 0, "{g:?}");
    let planes = inputs / (g.h * g.w);
    assert_eq!(planes * g.h * g.w, inputs, "whole planes");
    assert_eq!(planes % g.c, 0, "whole samples of {g:?}");
    assert_eq!(planes * g.oh() * g.ow(), outputs, "outputs of {g:?}");
    int(inputs);
    // A layer without outputs launches nothing: what it would divide by does not matter.
    let (oh, ow) = (g.oh().max(1), g.ow().max(1));
    Arg::of(Sizes {
        h: int(g.h),
        w: int(g.w),
        k: int(g.k),
        pad: int(g.pad),
        oh: int(oh),
        ow: int(ow),
        stride: Divisor::new(g.stride),
        inputs: Divisor::new(g.h * g.w),
        columns: Divisor::new(g.w),
        outputs: Divisor::new(oh * ow),
        out_columns: Divisor::new(ow),
    })
}
