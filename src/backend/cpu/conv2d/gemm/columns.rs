//! Patches of the input as columns of a matrix, and back.

use std::ops::Range;

use super::Geometry;

/// The patches of a block as columns; zeros where they reach into the padding.
pub(super) fn pack(g: &Geometry, x: &[f32], pixels: Range<usize>, columns: &mut [f32]) {
    let q = pixels.len();
    for run in runs(g, pixels) {
        each_tap(g, &run, |k, source, live| {
            let row = &mut columns[k * q + run.at..][..run.columns.len()];
            let Some(start) = source else {
                return row.fill(0.0);
            };
            row[..live.start].fill(0.0);
            row[live.end..].fill(0.0);
            let row = &mut row[live];
            if g.stride == 1 {
                row.copy_from_slice(&x[start..start + row.len()]);
            } else {
                let x = x[start..].iter().step_by(g.stride);
                row.iter_mut().zip(x).for_each(|(to, x)| *to = *x);
            }
        });
    }
}

/// Adds the columns of a block to the pixels of `dx` that [`pack`] would have read.
pub(super) fn unpack(g: &Geometry, columns: &[f32], pixels: Range<usize>, dx: &mut [f32]) {
    let q = pixels.len();
    for run in runs(g, pixels) {
        each_tap(g, &run, |k, source, live| {
            let Some(start) = source else { return };
            let row = &columns[k * q + run.at..][..run.columns.len()][live];
            if g.stride == 1 {
                let dx = &mut dx[start..start + row.len()];
                dx.iter_mut().zip(row).for_each(|(dx, v)| *dx += v);
            } else {
                let dx = dx[start..].iter_mut().step_by(g.stride);
                dx.zip(row).for_each(|(dx, v)| *dx += v);
            }
        });
    }
}

/// Neighbouring pixels of one output row.
struct Run {
    sample: usize,
    row: usize,
    columns: Range<usize>,
    /// Position of the first one in its block.
    at: usize,
}

fn runs(g: &Geometry, pixels: Range<usize>) -> impl Iterator<Item = Run> {
    let (oh, ow) = (g.oh(), g.ow());
    (pixels.start / ow..pixels.end.div_ceil(ow)).map(move |line| {
        let from = pixels.start.max(line * ow);
        let to = pixels.end.min((line + 1) * ow);
        Run {
            sample: line / oh,
            row: line % oh,
            columns: from - line * ow..to - line * ow,
            at: from - pixels.start,
        }
    })
}

/// Calls `f` for each row k of the columns with the part of the run that lies in the input, and where that part
/// starts there; with `None` if there is no such part.
fn each_tap(g: &Geometry, run: &Run, mut f: impl FnMut(usize, Option<usize>, Range<usize>)) {
    for c in 0..g.ci {
        for p in 0..g.kh {
            let line = (run.row * g.stride + p).wrapping_sub(g.pad);
            for q in 0..g.kw {
                let k = (c * g.kh + p) * g.kw + q;
                let live = inside(g, q, g.w, g.ow());
                let start = live.start.max(run.columns.start);
                let end = live.end.min(run.columns.end);
                if line >= g.h || start >= end {
                    f(k, None, 0..0);
                    continue;
                }
                let source = ((run.sample * g.ci + c) * g.h + line) * g.w;
                let source = source + start * g.stride + q - g.pad;
                let first = run.columns.start;
                f(k, Some(source), start - first..end - first);
            }
        }
    }
}

/// The outputs, along one axis, for which this tap of the kernel lies in the input and not in the padding.
fn inside(g: &Geometry, tap: usize, size: usize, outputs: usize) -> Range<usize> {
    let first = g.pad.saturating_sub(tap).div_ceil(g.stride).min(outputs);
    let end = (size + g.pad).saturating_sub(tap).div_ceil(g.stride);
    first..end.clamp(first, outputs)
}
