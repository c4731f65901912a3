//! Products in tiles: convolution, fully connected layers, blocks of matrices.

use phalanx::backend::cpu::conv2d::{Conv2d as Reference, Geometry as Conv};
use phalanx::backend::cpu::linear::{self as reference, Geometry as Linear};
use phalanx::backend::cpu::{Input, Scratch};
use phalanx::backend::cuda::conv2d::Conv2d;
use phalanx::backend::cuda::gemm::{self, Geometry as Block};
use phalanx::backend::cuda::linear;

use super::{Check, Place, near, random, same};

pub const CHECKS: [Check; 5] = [
    ("conv2d", convolutions),
    ("conv2d_in_parts", parts_of_sums),
    ("linear", linear_layers),
    ("gemm", blocks),
    ("products_repeat_bit_by_bit", repeats),
];

/// n, ci, h, w, co, kh, kw, stride, pad: ragged in every direction, tiles low and high, more than one of each.
const CONVOLUTIONS: [[usize; 9]; 14] = [
    [2, 3, 7, 9, 5, 3, 3, 1, 1],
    [3, 2, 12, 11, 40, 3, 2, 2, 1],
    [1, 1, 1, 1, 1, 1, 1, 1, 0],
    [3, 1, 28, 28, 6, 5, 5, 1, 2],
    [2, 6, 14, 14, 16, 5, 5, 1, 0],
    [2, 40, 6, 5, 70, 3, 3, 1, 1],
    [1, 3, 35, 35, 64, 11, 11, 4, 2],
    [5, 2, 8, 8, 3, 2, 2, 3, 0],
    [2, 3, 9, 6, 33, 1, 4, 2, 2],
    [1, 2, 5, 13, 3, 5, 5, 4, 4],
    [9, 4, 4, 4, 32, 4, 4, 1, 0],
    [1, 65, 3, 3, 2, 3, 3, 1, 1],
    [4, 1, 8, 1, 2, 3, 1, 2, 1],
    [2, 33, 5, 5, 65, 1, 1, 1, 0],
];

fn convolution([n, ci, h, w, co, kh, kw, stride, pad]: [usize; 9]) -> (usize, Conv) {
    let g = Conv {
        ci,
        h,
        w,
        co,
        kh,
        kw,
        stride,
        pad,
    };
    (n, g)
}

fn convolutions(place: &Place) {
    for &shape in place.shapes(&CONVOLUTIONS) {
        let (n, g) = convolution(shape);
        check_convolution(place, n, g);
    }
}

fn check_convolution(place: &Place, n: usize, g: Conv) {
    let stream = &place.stream;
    let (x, w) = (random(n * g.inputs(), 1), random(g.weights(), 2));
    let (b, dy) = (random(g.co, 3), random(n * g.outputs(), 4));
    let (kernel, mut scratch) = (Reference::new(g), Scratch::default());
    let own = Conv2d::new(g);
    let (on_x, on_w, on_b, on_dy) = (place.put(&x), place.put(&w), place.put(&b), place.put(&dy));

    let (mut expected, mut y) = (vec![0.0; dy.len()], place.room(dy.len()));
    kernel.forward(n, &x, &w, &b, &mut expected, &mut scratch);
    let inputs = (on_x.view(), on_w.view());
    own.forward(stream, n, inputs.0, inputs.1, on_b.view(), y.view_mut())
        .unwrap();
    near(("forward", n, g), &place.get(y.view()), &expected, 3e-5);

    let (mut expected, mut dx) = (vec![0.0; x.len()], place.room(x.len()));
    kernel.grad_input(n, &dy, &w, &mut expected, &mut scratch);
    own.grad_input(stream, n, on_dy.view(), on_w.view(), dx.view_mut())
        .unwrap();
    near(("grad input", n, g), &place.get(dx.view()), &expected, 3e-5);

    let (mut dw, mut db) = (vec![0.0; w.len()], vec![0.0; g.co]);
    kernel.grad_params(n, &x, &dy, &mut dw, &mut db, &mut scratch);
    let (mut on_dw, mut on_db) = (place.room(w.len()), place.room(g.co));
    let mut work = place.scratch(own.scratch(n));
    let outputs = (on_dw.view_mut(), on_db.view_mut());
    own.grad_params(
        stream,
        n,
        on_x.view(),
        on_dy.view(),
        outputs.0,
        outputs.1,
        work.view_mut(),
    )
    .unwrap();
    near(("grad weights", n, g), &place.get(on_dw.view()), &dw, 3e-5);
    near(("grad biases", n, g), &place.get(on_db.view()), &db, 3e-5);
}

/// Sums so long that they are cut into parts, the last of them shorter.
fn parts_of_sums(place: &Place) {
    let (n, g) = convolution([13, 1, 20, 20, 3, 5, 5, 1, 2]);
    check_convolution(place, if place.few { 3 } else { n }, g);
    let none = Conv2d::new(g);
    let (mut dw, mut db) = (place.room(g.weights()), place.room(g.co));
    let (x, dy, mut work) = (place.put(&[]), place.put(&[]), place.scratch(0));
    let outputs = (dw.view_mut(), db.view_mut());
    none.grad_params(
        &place.stream,
        0,
        x.view(),
        dy.view(),
        outputs.0,
        outputs.1,
        work.view_mut(),
    )
    .unwrap();
    assert!(place.get(dw.view()).iter().all(|&v| v == 0.0), "no samples");
    assert!(place.get(db.view()).iter().all(|&v| v == 0.0), "no samples");
}

/// n, ci, co.
const LINEAR: [[usize; 3]; 10] = [
    [5, 33, 10],
    [40, 12, 130],
    [1, 1, 1],
    [2, 784, 10],
    [70, 20, 9],
    [33, 131, 129],
    [3, 600, 7],
    [300, 9, 70],
    [0, 5, 6],
    [64, 64, 128],
];

fn linear_layers(place: &Place) {
    for &[n, ci, co] in place.shapes(&LINEAR) {
        let g = Linear { n, ci, co };
        let stream = &place.stream;
        let (x, w) = (random(n * ci, 1), random(ci * co, 2));
        let (b, dy) = (random(co, 3), random(n * co, 4));
        let (on_x, on_w, on_b, on_dy) =
            (place.put(&x), place.put(&w), place.put(&b), place.put(&dy));
        let mut work = place.scratch(linear::scratch(g));

        let (mut expected, mut y) = (vec![0.0; n * co], place.room(n * co));
        reference::forward(g, Input::Floats(&x), &w, &b, &mut expected);
        let inputs = (on_x.view(), on_w.view(), on_b.view());
        let work_view = work.view_mut();
        linear::forward(
            stream,
            g,
            inputs.0,
            inputs.1,
            inputs.2,
            y.view_mut(),
            work_view,
        )
        .unwrap();
        near(("forward", g), &place.get(y.view()), &expected, 2e-5);

        let (mut expected, mut dx) = (vec![0.0; n * ci], place.room(n * ci));
        reference::grad_input(g, &dy, &w, &mut expected);
        let work_view = work.view_mut();
        linear::grad_input(
            stream,
            g,
            on_dy.view(),
            on_w.view(),
            dx.view_mut(),
            work_view,
        )
        .unwrap();
        near(("grad input", g), &place.get(dx.view()), &expected, 2e-5);

        let (mut dw, mut db) = (vec![0.0; w.len()], vec![0.0; co]);
        reference::grad_params(g, Input::Floats(&x), &dy, &mut dw, &mut db);
        let (mut on_dw, mut on_db) = (place.room(w.len()), place.room(co));
        let outputs = (on_dw.view_mut(), on_db.view_mut());
        let work_view = work.view_mut();
        linear::grad_params(
            stream,
            g,
            on_x.view(),
            on_dy.view(),
            outputs.0,
            outputs.1,
            work_view,
        )
        .unwrap();
        near(("grad weights", g), &place.get(on_dw.view()), &dw, 2e-5);
        near(("grad biases", g), &place.get(on_db.view()), &db, 2e-5);
    }
}

fn blocks(place: &Place) {
    let shapes = [
        [5usize, 7, 9],
        [70, 130, 20],
        [1, 1, 1],
        [33, 129, 8],
        [64, 128, 17],
        [3, 300, 1],
        [65, 2, 65],
    ];
    for &[m, n, k] in place.shapes(&shapes) {
        for add in [false, true] {
            let g = Block::new(m, n, k, add);
            let (a, b, c) = (random(m * k, 1), random(k * n, 2), random(m * n, 3));
            let wide = |values: &[f32]| values.iter().map(|&v| f64::from(v)).collect::<Vec<_>>();
            let element = |at: usize| {
                let (i, j) = (at / n, at % n);
                let terms = (0..k).map(|l| f64::from(a[i * k + l]) * f64::from(b[l * n + j]));
                terms.sum::<f64>() + if add { f64::from(c[at]) } else { 0.0 }
            };
            let expected: Vec<f64> = (0..m * n).map(element).collect();
            let narrow: Vec<f32> = expected.iter().map(|&v| v as f32).collect();
            let (on_a, on_b, mut on_c) = (place.put(&a), place.put(&b), place.put(&c));
            gemm::product(&place.stream, g, on_a.view(), on_b.view(), on_c.view_mut()).unwrap();
            near(("f32", m, n, k), &place.get(on_c.view()), &narrow, 1e-5);

            let put = |values: &[f32]| place.stream.buffer(&wide(values)).unwrap();
            let (on_a, on_b, mut on_c) = (put(&a), put(&b), put(&c));
            gemm::product(&place.stream, g, on_a.view(), on_b.view(), on_c.view_mut()).unwrap();
            let got = place.stream.values(on_c.view()).unwrap();
            for (got, expected) in got.iter().zip(&expected) {
                assert!((got - expected).abs() < 1e-12, "f64 {m} {n} {k}");
            }
        }
    }
    strided(place);
}

/// The middle of larger matrices; what is around the middle of c stays.
fn strided(place: &Place) {
    let (a, b, c) = (random(100, 1), random(100, 2), random(100, 3));
    let mut expected = c.clone();
    for i in 0..5 {
        for j in 0..6 {
            let terms = (0..4).map(|l| a[(i + 1) * 10 + l + 2] * b[(l + 3) * 10 + j + 1]);
            expected[(i + 2) * 10 + j + 3] = terms.sum();
        }
    }
    let (on_a, on_b, mut on_c) = (place.put(&a), place.put(&b), place.put(&c));
    let g = Block::new(5, 6, 4, false).strided(10, 10, 10);
    let (from_a, from_b) = (on_a.part(12..100), on_b.part(31..100));
    gemm::product(&place.stream, g, from_a, from_b, on_c.part_mut(23..100)).unwrap();
    near("strided", &place.get(on_c.view()), &expected, 1e-6);
}

fn repeats(place: &Place) {
    let (n, g) = convolution([4, 3, 16, 16, 5, 3, 3, 1, 1]);
    let own = Conv2d::new(g);
    let (x, dy) = (random(n * g.inputs(), 1), random(n * g.outputs(), 2));
    let (x, dy) = (place.put(&x), place.put(&dy));
    let once = || {
        let (mut dw, mut db) = (place.room(g.weights()), place.room(g.co));
        let mut work = place.scratch(own.scratch(n));
        let outputs = (dw.view_mut(), db.view_mut());
        own.grad_params(
            &place.stream,
            n,
            x.view(),
            dy.view(),
            outputs.0,
            outputs.1,
            work.view_mut(),
        )
        .unwrap();
        [place.get(dw.view()), place.get(db.view())].concat()
    };
    same("gradients", &once(), &once());
}
