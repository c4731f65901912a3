//! Every method and pass against loops in double precision.

use super::super::with_each_set;
use super::*;

/// Numbers in −1..1 that repeat late.
fn noise(len: usize, seed: u64) -> Vec<f32> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    (0..len)
        .map(|_| {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            (state >> 40) as f32 / (1u64 << 23) as f32 - 1.0
        })
        .collect()
}

/// Calls `f` with the places in output, weights and input of every product of the convolution.
fn each_product(g: &Geometry, n: usize, mut f: impl FnMut(usize, usize, usize)) {
    let (oh, ow) = (g.oh(), g.ow());
    for (s, o, i, j) in (0..n * g.co * oh * ow).map(|at| {
        let (at, j) = (at / ow, at % ow);
        let (at, i) = (at / oh, at % oh);
        (at / g.co, at % g.co, i, j)
    }) {
        let y = ((s * g.co + o) * oh + i) * ow + j;
        for c in 0..g.ci {
            for p in 0..g.kh {
                for q in 0..g.kw {
                    let row = (i * g.stride + p).wrapping_sub(g.pad);
                    let column = (j * g.stride + q).wrapping_sub(g.pad);
                    if row < g.h && column < g.w {
                        let w = ((o * g.ci + c) * g.kh + p) * g.kw + q;
                        f(y, w, ((s * g.ci + c) * g.h + row) * g.w + column);
                    }
                }
            }
        }
    }
}

/// Fails unless all values are within `tolerance` of the largest expected one.
fn assert_near(what: &str, got: &[f32], expected: &[f64], tolerance: f64) {
    assert_eq!(got.len(), expected.len(), "{what}");
    let largest = expected.iter().fold(1e-3, |m: f64, v| m.max(v.abs()));
    for (i, (got, expected)) in got.iter().zip(expected).enumerate() {
        let error = (f64::from(*got) - expected).abs() / largest;
        assert!(
            error <= tolerance,
            "{what}: value {i} is {got}, not {expected}"
        );
    }
}

/// Checks all passes with every method that can do them, for `n` samples.
fn check(g: Geometry, n: usize) {
    let (x, w) = (noise(n * g.inputs(), 1), noise(g.weights(), 2));
    let (b, dy) = (noise(g.co, 3), noise(n * g.outputs(), 4));
    let plane = g.oh() * g.ow();
    let mut y: Vec<f64> = (0..dy.len())
        .map(|i| f64::from(b[i / plane % g.co]))
        .collect();
    let (mut dw, mut dx) = (vec![0.0; w.len()], vec![0.0; x.len()]);
    let mut db = vec![0.0; g.co];
    each_product(&g, n, |i, k, j| {
        y[i] += f64::from(w[k]) * f64::from(x[j]);
        dw[k] += f64::from(dy[i]) * f64::from(x[j]);
        dx[j] += f64::from(dy[i]) * f64::from(w[k]);
    });
    for (i, dy) in dy.iter().enumerate() {
        db[i / plane % g.co] += f64::from(*dy);
    }
    let scratch = &mut Scratch::default();
    with_each_set(|isa| {
        let mut conv = Conv2d::new(g);
        let all = Pass::ALL
            .into_iter()
            .flat_map(|pass| conv.methods(pass).into_iter().map(move |m| (pass, m)));
        for (pass, method) in all.collect::<Vec<_>>() {
            let what = format!("{method:?} {pass:?} of {n} × {g:?} with {isa}");
            let tolerance = match method {
                Method::Winograd => 3e-5,
                _ => 1e-5,
            };
            conv.select(pass, method);
            // Buffers start as NaN: what is left of them shows.
            match pass {
                Pass::Forward => {
                    let mut got = vec![f32::NAN; y.len()];
                    conv.forward(n, &x, &w, &b, &mut got, scratch);
                    assert_near(&what, &got, &y, tolerance);
                }
                Pass::GradParams => {
                    let (mut got, mut bias) = (vec![f32::NAN; w.len()], vec![f32::NAN; g.co]);
                    conv.grad_params(n, &x, &dy, &mut got, &mut bias, scratch);
                    assert_near(&what, &got, &dw, tolerance);
                    assert_near(&what, &bias, &db, tolerance);
                }
                Pass::GradInput => {
                    let mut got = vec![f32::NAN; x.len()];
                    conv.grad_input(n, &dy, &w, &mut got, scratch);
                    assert_near(&what, &got, &dx, tolerance);
                }
            }
        }
    });
}

fn geometry(ci: usize, co: usize, (h, w): (usize, usize), k: (usize, usize)) -> Geometry {
    Geometry {
        ci,
        h,
        w,
        co,
        kh: k.0,
        kw: k.1,
        stride: 1,
        pad: 0,
    }
}

#[test]
fn every_method_equals_the_loops_for_all_channels() {
    for ci in [1, 2, 3, 6, 16, 17] {
        for co in [1, 2, 3, 4, 5, 6, 7, 16, 17] {
            for k in [1, 3, 5] {
                let g = geometry(ci, co, (7, 9), (k, k));
                check(Geometry { pad: k / 2, ..g }, 3);
            }
        }
    }
}

#[test]
fn every_method_equals_the_loops_for_all_kernels_strides_and_paddings() {
    for k in [1, 2, 3, 5, 11] {
        for stride in 1..=4 {
            for pad in 0..=4 {
                for (h, w) in [(5, 13), (12, 11), (1, 8)] {
                    let g = geometry(2, 3, (h, w), (k, k));
                    if k <= h + 2 * pad && k <= w + 2 * pad {
                        check(Geometry { stride, pad, ..g }, 3);
                    }
                }
            }
        }
    }
}

#[test]
fn every_method_takes_any_number_of_samples() {
    for n in [0, 1, 3, 7, 8, 9, 17] {
        for (k, pad) in [(1, 0), (3, 1), (5, 2)] {
            let g = geometry(3, 7, (9, 6), (k, k));
            check(Geometry { pad, ..g }, n);
        }
    }
}

#[test]
fn kernels_need_not_be_square() {
    for k in [(1, 4), (4, 1), (2, 3), (3, 1)] {
        check(geometry(3, 5, (6, 8), k), 3);
        let g = geometry(3, 5, (6, 8), k);
        check(
            Geometry {
                stride: 2,
                pad: 2,
                ..g
            },
            3,
        );
    }
}

#[test]
fn every_method_equals_the_loops_on_the_layers_of_lenet() {
    let first = geometry(1, 6, (28, 28), (5, 5));
    check(Geometry { pad: 2, ..first }, 11);
    check(geometry(6, 16, (14, 14), (5, 5)), 11);
}

#[test]
fn blocks_that_cut_samples_lose_nothing() {
    let g = geometry(40, 9, (40, 33), (3, 3));
    check(Geometry { pad: 1, ..g }, 2);
}

#[test]
fn tiles_of_many_samples_and_channels_lose_nothing() {
    for (k, pad) in [(3, 1), (5, 2), (5, 1), (5, 0)] {
        let g = geometry(90, 35, (13, 13), (k, k));
        check(Geometry { pad, ..g }, 9);
    }
}

#[test]
fn every_method_equals_the_loops_on_the_second_layer_of_alexnet() {
    let g = geometry(64, 192, (27, 27), (5, 5));
    check(Geometry { pad: 2, ..g }, 1);
}

#[test]
fn memory_is_allocated_once() {
    let conv = Conv2d::new(geometry(3, 5, (9, 9), (3, 3)));
    let scratch = &mut Scratch::default();
    let g = conv.geometry();
    let (mut y, mut dw, mut db) = (vec![0.0; g.outputs()], noise(g.weights(), 1), [0.0; 5]);
    let mut x = noise(g.inputs(), 2);
    let w = dw.clone();
    conv.forward(1, &x, &w, &db, &mut y, scratch);
    let before = scratch.place();
    conv.grad_params(1, &x, &y, &mut dw, &mut db, scratch);
    conv.grad_input(1, &y, &w, &mut x, scratch);
    assert_eq!(before, scratch.place());
}

#[test]
fn tuning_keeps_a_method_that_can_do_the_pass_and_allocates_ahead() {
    let g = geometry(3, 5, (9, 9), (3, 3));
    let mut conv = Conv2d::new(g);
    let scratch = &mut Scratch::default();
    conv.tune(9, scratch);
    let before = scratch.place();
    for pass in Pass::ALL {
        assert!(conv.methods(pass).contains(&conv.method(pass)));
    }
    let (x, w, b) = (noise(g.inputs(), 1), noise(g.weights(), 2), noise(g.co, 3));
    conv.forward(1, &x, &w, &b, &mut vec![0.0; g.outputs()], scratch);
    assert_eq!(before, scratch.place());
    Conv2d::new(g).tune(0, scratch);
}
