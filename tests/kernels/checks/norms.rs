//! Normalisation: by the batch, and by neighbouring channels.

use phalanx::backend::cpu::batch_norm::{Channels, Gradient, Running, Statistics as Reference};
use phalanx::backend::cpu::local_response::LocalResponse;
use phalanx::backend::cuda::batch_norm::{self, Normal, Statistics};
use phalanx::backend::cuda::local_response;

use super::{Check, Place, near, random};

pub const CHECKS: [Check; 3] = [
    ("batch_norm", batches),
    ("batch_norm_running", estimates),
    ("local_response", responses),
];

const EPS: f32 = 1e-3;

/// n, c, plane.
const BATCHES: [[usize; 3]; 5] = [[3, 5, 37], [2, 3, 1], [1, 1, 100], [7, 2, 2000], [0, 3, 4]];

fn close(what: &str, got: &[f64], expected: &[f64]) {
    assert_eq!(got.len(), expected.len(), "{what}");
    for (got, expected) in got.iter().zip(expected) {
        let error = (got - expected).abs() / (1.0 + expected.abs());
        assert!(error < 1e-9, "{what}: {got}, not {expected}");
    }
}

fn batches(place: &Place) {
    for &[n, c, plane] in place.shapes(&BATCHES) {
        let (g, len, stream) = (Channels { c, plane }, n * c * plane, &place.stream);
        let x: Vec<f32> = random(len, 1).iter().map(|v| 2.0 * v + 3.0).collect();
        let (dy, gamma, beta) = (random(len, 2), random(c, 3), random(c, 4));
        let (on_x, on_dy) = (place.put(&x), place.put(&dy));
        let (on_gamma, on_beta) = (place.put(&gamma), place.put(&beta));
        let mut work = place.scratch::<f64>(batch_norm::scratch(g));

        let mut sums = vec![0.0; 2 * c + 1];
        g.sums(&x, &mut sums);
        let mut on_sums = place.scratch::<f64>(2 * c + 1);
        let (out, room) = (on_sums.view_mut(), work.view_mut());
        batch_norm::sums(stream, g, on_x.view(), out, room).unwrap();
        close("sums", &stream.values(on_sums.view()).unwrap(), &sums);
        if n == 0 {
            continue;
        }
        let mut stats = Reference::new(c);
        stats.of_batch(&sums, EPS);
        let mut on_stats = Statistics::new(&place.device, c).unwrap();
        on_stats.of_batch(stream, on_sums.view(), EPS).unwrap();
        near("mean", &place.get(on_stats.mean.view()), &stats.mean, 1e-6);
        let inv_std = place.get(on_stats.inv_std.view());
        near("inv_std", &inv_std, &stats.inv_std, 1e-6);

        let normal = Normal {
            mean: on_stats.mean.view(),
            inv_std: on_stats.inv_std.view(),
            gamma: on_gamma.view(),
        };
        let (mut y, mut on_y) = (vec![0.0; len], place.room(len));
        g.forward(&x, &stats, &gamma, &beta, &mut y);
        let out = on_y.view_mut();
        batch_norm::forward(stream, g, on_x.view(), normal, on_beta.view(), out).unwrap();
        near(("forward", g), &place.get(on_y.view()), &y, 1e-6);

        let mut slopes = vec![0.0; 2 * c];
        g.backward_sums(&x, &dy, &stats, &mut slopes);
        let mut on_slopes = place.scratch::<f64>(2 * c);
        let (out, room) = (on_slopes.view_mut(), work.view_mut());
        let inputs = (on_x.view(), on_dy.view());
        batch_norm::backward_sums(stream, g, inputs.0, inputs.1, normal, out, room).unwrap();
        let (got, single) = (stream.values(on_slopes.view()).unwrap(), |v: &[f64]| {
            v.iter().map(|&v| v as f32).collect::<Vec<_>>()
        });
        near(("slopes", g), &single(&got), &single(&slopes), 1e-5);
        let (mut dgamma, mut dbeta) = (place.room(c), place.room(c));
        let outputs = (dgamma.view_mut(), dbeta.view_mut());
        batch_norm::grads(stream, on_slopes.view(), outputs.0, outputs.1).unwrap();
        near("dgamma", &place.get(dgamma.view()), &single(&got[c..]), 0.0);
        near("dbeta", &place.get(dbeta.view()), &single(&got[..c]), 0.0);

        let layer = Gradient {
            stats: &stats,
            gamma: &gamma,
            sums: &slopes,
            count: sums[2 * c],
        };
        let (mut dx, mut on_dx) = (vec![0.0; len], place.room(len));
        g.backward(&x, &dy, layer, &mut dx);
        let (out, sums) = (on_dx.view_mut(), on_slopes.view());
        batch_norm::backward(
            stream,
            g,
            inputs.0,
            inputs.1,
            normal,
            sums,
            layer.count,
            out,
        )
        .unwrap();
        near(("backward", g), &place.get(on_dx.view()), &dx, 1e-5);
    }
}

/// Running estimates follow a batch, and stay where it is too small or not finite; evaluation takes them.
fn estimates(place: &Place) {
    let good = [10.0, -4.0, 30.0, 5.0, 8.0];
    let small = [1.0, 2.0, 1.0, 4.0, 1.0];
    let bad = [10.0, f64::NAN, 30.0, 5.0, 8.0];
    for sums in [good, small, bad] {
        let mut running = Running::new(2);
        running.update(&sums, 0.1);
        let on_sums = place.stream.buffer(&sums).unwrap();
        let (mut mean, mut var) = (place.put(&[0.0; 2]), place.put(&[1.0; 2]));
        let (m, v) = (mean.view_mut(), var.view_mut());
        batch_norm::running(&place.stream, on_sums.view(), 0.1, m, v).unwrap();
        near(("mean", sums), &place.get(mean.view()), &running.mean, 1e-6);
        near(("var", sums), &place.get(var.view()), &running.var, 1e-6);
        let mut stats = Reference::new(2);
        stats.of_run(&running, EPS);
        let mut on_stats = Statistics::new(&place.device, 2).unwrap();
        let estimates = (mean.view(), var.view());
        on_stats
            .of_run(&place.stream, estimates.0, estimates.1, EPS)
            .unwrap();
        near("mean", &place.get(on_stats.mean.view()), &stats.mean, 1e-6);
        let inv_std = place.get(on_stats.inv_std.view());
        near("inv_std", &inv_std, &stats.inv_std, 1e-6);
    }
}

fn responses(place: &Place) {
    let layer = |c, plane, size, beta| LocalResponse {
        c,
        plane,
        size,
        alpha: 0.3,
        beta,
        k: 1.5,
    };
    let layers = [
        layer(8, 30, 5, 0.75),
        layer(7, 9, 4, 0.5),
        layer(3, 64, 5, 0.75),
        layer(1, 1, 1, 1.0),
        layer(2, 65, 2, 0.6),
        layer(5, 70, 3, 1.0),
    ];
    for &l in place.shapes(&layers) {
        let len = 2 * l.c * l.plane;
        let (x, dy) = (random(len, 1), random(len, 2));
        let (mut y, mut dx) = (vec![0.0; len], vec![0.0; len]);
        l.forward(&x, &mut y);
        l.backward(&x, &dy, &mut dx, &mut Vec::new());
        let (on_x, on_dy) = (place.put(&x), place.put(&dy));
        let (mut on_y, mut on_dx, mut work) =
            (place.room(len), place.room(len), place.scratch(len));
        local_response::forward(&place.stream, l, on_x.view(), on_y.view_mut()).unwrap();
        let (out, room) = (on_dx.view_mut(), work.view_mut());
        local_response::backward(&place.stream, l, on_x.view(), on_dy.view(), out, room).unwrap();
        near(l, &place.get(on_y.view()), &y, 2e-6);
        near(("back", l), &place.get(on_dx.view()), &dx, 2e-6);
    }
}
