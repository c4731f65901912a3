//! The layers' arithmetic against plain sums in double precision.

use phalanx::backend::cpu::Input;
use phalanx::backend::cpu::linear::{Geometry, forward, grad_input, grad_params, takes_bytes};
use phalanx::data::{Dataset, Scaling};
use phalanx::nn::{Draw, Peers, zoo};
use phalanx::rng::Stream;

fn random(stream: &mut Stream, len: usize) -> Vec<f32> {
    (0..len).map(|_| stream.normal()).collect()
}

/// Shapes around every edge of the tiles: samples by 2, outputs by 5, inputs by 8 and 16; and those that go to BLAS.
fn shapes() -> impl Iterator<Item = Geometry> {
    let outputs = [1, 2, 3, 4, 5, 6, 9, 10, 11, 20, 21, 64];
    let inputs = [1, 7, 15, 16, 17, 24, 31, 32, 100, 784];
    let sizes = outputs
        .into_iter()
        .flat_map(move |co| inputs.map(|ci| (ci, co)));
    sizes.flat_map(|(ci, co)| [0, 1, 2, 5].map(|n| Geometry { n, ci, co }))
}

fn close(what: &str, g: Geometry, got: &[f32], truth: impl Iterator<Item = f64>) {
    for (i, (&got, truth)) in got.iter().zip(truth).enumerate() {
        let error = (f64::from(got) - truth).abs();
        assert!(
            error <= 2e-5 * (1.0 + truth.abs()) * (g.ci as f64).sqrt(),
            "{what} {g:?} at {i}: {got} for {truth}"
        );
    }
}

#[test]
fn linear_layers_match_plain_sums_for_floats_and_bytes() {
    let mut stream = Stream::new(&[1]);
    for g @ Geometry { n, ci, co } in shapes() {
        let (w, b, dy) = (
            random(&mut stream, co * ci),
            random(&mut stream, co),
            random(&mut stream, n * co),
        );
        let pixels: Vec<u8> = (0..n * ci).map(|_| stream.below(256) as u8).collect();
        let (factor, shift) = (1.0 / 255.0, -0.25);
        let floats: Vec<f32> = pixels
            .iter()
            .map(|&p| f32::from(p) * factor + shift)
            .collect();
        let mut inputs = vec![Input::Floats(&floats)];
        if takes_bytes(g) {
            inputs.push(Input::Bytes {
                pixels: &pixels,
                factor,
                shift,
            });
        }
        let x = |i: usize, k: usize| f64::from(floats[i * ci + k]);
        for input in inputs {
            let (mut y, mut dw, mut db) = (
                vec![f32::NAN; n * co],
                vec![f32::NAN; co * ci],
                vec![f32::NAN; co],
            );
            forward(g, input, &w, &b, &mut y);
            let product = |i: usize, o: usize| {
                (0..ci)
                    .map(|k| x(i, k) * f64::from(w[o * ci + k]))
                    .sum::<f64>()
            };
            close(
                "y",
                g,
                &y,
                (0..n * co).map(|at| product(at / co, at % co) + f64::from(b[at % co])),
            );
            grad_params(g, input, &dy, &mut dw, &mut db);
            let slope = |o: usize, k: usize| {
                (0..n)
                    .map(|i| f64::from(dy[i * co + o]) * x(i, k))
                    .sum::<f64>()
            };
            close("dw", g, &dw, (0..co * ci).map(|at| slope(at / ci, at % ci)));
            close(
                "db",
                g,
                &db,
                (0..co).map(|o| (0..n).map(|i| f64::from(dy[i * co + o])).sum::<f64>()),
            );
        }
        let mut dx = vec![f32::NAN; n * ci];
        grad_input(g, &dy, &w, &mut dx);
        let back = |i: usize, k: usize| {
            (0..co)
                .map(|o| f64::from(dy[i * co + o] * w[o * ci + k]))
                .sum::<f64>()
        };
        close("dx", g, &dx, (0..n * ci).map(|at| back(at / ci, at % ci)));
    }
}

#[test]
fn a_models_gradients_match_central_differences() {
    let fixture = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/contiguous.h5");
    let data = Dataset::open(fixture.as_ref()).unwrap();
    for scaling in [Scaling::unit(1), Scaling::normal(&[0.4], &[0.3])] {
        let mut model = zoo::build("softmax", data.shape, data.classes).unwrap();
        let mut batch = phalanx::data::Batch::new(&data, &scaling);
        batch.gather(&data, 0..20).unwrap();
        let mut stream = Stream::new(&[2]);
        let params: Vec<f32> = (0..model.params()).map(|_| 0.1 * stream.normal()).collect();
        let mut grads = vec![0.0; params.len()];
        let tally = model.gradients(
            &params,
            batch.all(),
            Draw::default(),
            1.0,
            Peers::default(),
            &mut grads,
        );
        assert_eq!(tally, model.evaluate(&params, batch.all()));
        assert_eq!(tally.count, 20);
        for i in (0..params.len()).step_by(7) {
            let mut loss = |h: f32| {
                let mut moved = params.clone();
                moved[i] += h;
                model.evaluate(&moved, batch.all()).loss
            };
            let slope = (loss(1e-2) - loss(-1e-2)) / 2e-2;
            assert!(
                (slope - f64::from(grads[i])).abs() < 5e-3 * (1.0 + slope.abs()),
                "{i}: {slope}, {}",
                grads[i]
            );
        }
    }
}
