//! Whole models on a device against the same models on the CPU: losses, gradients, state and faults.

use phalanx::backend::Gemm;
use phalanx::comm::{Comm, threads_of_one_rank};
use phalanx::data::{Batch, Images, Scaling, Shape};
use phalanx::nn::{
    Arenas, Backend, Crew, DeviceModel, Draw, Found, Grads, Init, Model, Params, Share, Spec,
    Tally, device, zoo,
};
use phalanx::rng::Stream as Random;

use super::{Check, Place};

pub const CHECKS: [Check; 4] = [
    ("models of every layer step as on the CPU", steps),
    (
        "models evaluate as on the CPU, in as many parts as fit",
        evaluations,
    ),
    ("a value that is not finite is named as on the CPU", faults),
    (
        "models take the memory that was planned, and no more",
        memory,
    ),
];

/// Every kind of layer, ragged sizes, strides and paddings.
const LAYERS: [&str; 3] = [
    "conv2d outputs=5 kernel=3 stride=2 pad=1, local_response, relu, max_pool kernel=3 stride=2, conv2d outputs=4 kernel=2 pad=1, \
     batch_norm, relu, average_pool kernel=2, flatten, dropout rate=0.5, linear outputs=7, tanh, linear",
    "conv2d outputs=3 kernel=3, tanh, relu, max_pool kernel=2 stride=1 pad=1, batch_norm, global_average_pool, linear",
    "flatten, tanh, linear outputs=9, relu, dropout rate=0.3, linear",
];

/// A model of these layers, on 2 channels of 11×9 and for 4 classes.
fn model(layers: &str) -> Model {
    let mut text = String::from("name = \"a\"\n");
    for layer in layers.split(", ") {
        let mut words = layer.split_whitespace();
        text += &format!("[[layer]]\nkind = \"{}\"\n", words.next().unwrap());
        words.for_each(|field| text += &format!("{}\n", field.replace('=', " = ")));
    }
    let shape = Shape { c: 2, h: 11, w: 9 };
    Spec::parse(&text).unwrap().build(shape, 4).unwrap()
}

/// Bytes scaled alike, bytes scaled by channel, and floats.
fn batches(n: usize) -> [Batch; 3] {
    let mut random = Random::new(&[n as u64]);
    let bytes: Vec<u8> = (0..n * 2 * 11 * 9)
        .map(|_| random.below(256) as u8)
        .collect();
    let floats = bytes.iter().map(|_| random.normal()).collect();
    let labels: Vec<u32> = (0..n).map(|_| random.below(4) as u32).collect();
    let each = Scaling::normal(&[0.4, 0.5], &[0.3, 0.2]);
    [
        (Images::Bytes(bytes.clone()), Scaling::unit(2)),
        (Images::Bytes(bytes), each),
        (Images::Floats(floats), Scaling::unit(2)),
    ]
    .map(|(images, scaling)| Batch::of(images, scaling, labels.clone()))
}

/// One step; gradients are NaN before.
fn step(backend: &mut dyn Backend, params: &[f32], batch: &Batch, step: u64) -> (Found, Vec<f32>) {
    let comm = &threads_of_one_rank(1)[0] as &dyn Comm;
    let mut grads = vec![f32::NAN; params.len()];
    let share = Share {
        batch,
        cuts: &[],
        draw: Draw { seed: 5, step },
        scale: 0.25,
        measured: Some(8),
    };
    let arenas = Arenas {
        team: comm,
        params: Params::Host(params),
        grads: Grads::Host(&mut grads),
        courier: None,
    };
    backend.begin(&share, arenas).unwrap();
    let (params, there) = (Params::Host(params), Grads::Host(&mut grads));
    (backend.end(params, there).unwrap(), grads)
}

fn near(what: &str, found: f64, expected: f64) {
    let error = (found - expected).abs();
    assert!(
        error <= 2e-5 * expected.abs().max(1e-3),
        "{what}: {found} for {expected}"
    );
}

fn same_tally(what: &str, found: Tally, expected: Tally) {
    near(what, found.loss, expected.loss);
    assert_eq!(
        (found.correct, found.count),
        (expected.correct, expected.count),
        "{what}"
    );
}

/// The largest of values, at least `least`.
fn largest(values: &[f32], least: f32) -> f32 {
    let sizes = values.iter().map(|value| value.abs());
    sizes.fold(least, f32::max)
}

/// Fails unless all are near, measured by the largest of them or by `least`.
fn same_values(what: &str, found: &[f32], expected: &[f32], least: f32) {
    assert_eq!(found.len(), expected.len(), "{what}");
    let largest = largest(expected, least);
    for (i, (found, expected)) in found.iter().zip(expected).enumerate() {
        let error = (found - expected).abs() / largest;
        assert!(error <= 5e-5, "{what} at {i}: {found} for {expected}");
    }
}

fn steps(place: &Place) {
    for layers in &LAYERS[..if place.few { 1 } else { 3 }] {
        let mut cpu = Crew::new(model(layers), 1).unwrap();
        let mut there = DeviceModel::new(model(layers), &place.device, 7, Gemm::Own).unwrap();
        let params = cpu.model().init(Init::default(), 7);
        // Sizes go up and down: what a larger batch left must not show.
        let sizes = if place.few {
            &[3][..]
        } else {
            &[3, 7, 1, 0, 5]
        };
        for (i, &n) in sizes.iter().enumerate() {
            for (b, batch) in batches(n).iter().enumerate() {
                let what = format!("{layers}: {n} samples, batch {b}");
                let number = (3 * i + b) as u64;
                let (expected, slopes) = step(&mut cpu, &params, batch, number);
                if b == 1 {
                    there.stage(number, batch).unwrap();
                }
                let (found, grads) = step(&mut there, &params, batch, number);
                same_tally(&what, found.sums.tally, expected.sums.tally);
                near(&what, found.sums.norm, expected.sums.norm);
                assert_eq!((found.fault, expected.fault), (None, None), "{what}");
                // What batch normalisation takes away again has gradients of rounding alone.
                let least = 0.1 * largest(&slopes, 1e-6);
                for tensor in cpu.model().tensors() {
                    let range = tensor.range.clone();
                    let what = format!("{what}: {}", tensor.name);
                    same_values(&what, &grads[range.clone()], &slopes[range], least);
                }
                let state = Backend::state(&mut cpu).unwrap();
                same_values(&what, &there.state().unwrap(), &state, 1e-6);
            }
        }
    }
}

fn memory(place: &Place) {
    for layers in LAYERS {
        let (before, _) = place.device.allocated();
        let mut there = DeviceModel::new(model(layers), &place.device, 6, Gemm::Own).unwrap();
        let params = there.model().init(Init::default(), 1);
        for number in 0..3 {
            step(&mut there, &params, &batches(6)[0], number);
        }
        let taken = place.device.allocated().0 - before;
        let arenas = 2 * 4 * params.len() as u64;
        let planned = device::bytes(&mut model(layers), 6, true) + arenas;
        assert_eq!(taken, planned, "{layers}");
    }
    // 11092 samples have just below 2^31 values in 64 planes of 55×55.
    let shape = |c, h| Shape { c, h, w: h };
    let mut alexnet = zoo::build("alexnet", shape(3, 224), 1000).unwrap();
    assert_eq!(device::most(&mut alexnet), 11_092);
    // Of few values, as many samples as a grid has rows of tiles for.
    let mut softmax = zoo::build("softmax", shape(1, 1), 2).unwrap();
    assert_eq!(device::most(&mut softmax), 65_535 * 64);
}

fn evaluations(place: &Place) {
    for layers in &LAYERS[..if place.few { 1 } else { 3 }] {
        let mut cpu = Crew::new(model(layers), 1).unwrap();
        let mut there = DeviceModel::new(model(layers), &place.device, 4, Gemm::Own).unwrap();
        let params = cpu.model().init(Init::default(), 8);
        let mut state = cpu.model().state();
        state.iter_mut().for_each(|value| *value += 0.25);
        cpu.set_state(&state);
        there.set_state(&state).unwrap();
        let all = |backend: &mut dyn Backend| {
            let mut rest = [9, 3, 5].into_iter();
            let mut next = |batch: &mut Batch| {
                let n = rest.next();
                n.into_iter().for_each(|n| *batch = batches(n)[1].clone());
                Ok(n.is_some())
            };
            let params = Params::Host(&params);
            (backend.evaluate(params, &mut batches(1)[0].clone(), &mut next)).unwrap()
        };
        same_tally(layers, all(&mut there), all(&mut cpu));
        assert_eq!(there.state().unwrap(), state, "{layers}");
    }
}

fn faults(place: &Place) {
    let layers = "conv2d outputs=3 kernel=3, relu, flatten, linear";
    let mut cpu = Crew::new(model(layers), 1).unwrap();
    let mut there = DeviceModel::new(model(layers), &place.device, 3, Gemm::Own).unwrap();
    let params = cpu.model().init(Init::default(), 9);
    let [_, _, good] = batches(3);
    let mut named = |params: &[f32], batch: &Batch| {
        let (expected, _) = step(&mut cpu, params, batch, 0);
        let (found, _) = step(&mut there, params, batch, 0);
        let (expected, found) = (expected.fault.unwrap(), found.fault.unwrap());
        assert_eq!(found.what, expected.what);
        found.what
    };
    let with = |value: f32, batch: &Batch| {
        let mut batch = batch.clone();
        if let Images::Floats(values) = &mut batch.images {
            values[..50].fill(value);
        }
        batch
    };
    assert_eq!(named(&params, &with(f32::NAN, &good)), "the input");
    let too_large = with(3e38, &good);
    let large: Vec<f32> = params.iter().map(|param| 1e3 * param).collect();
    assert_eq!(named(&large, &too_large), "the output of layer 0 (conv2d)");
    let mut bad = params.clone();
    bad[3] = f32::INFINITY;
    assert_eq!(named(&bad, &good), "a parameter in 0.conv2d.weight");
}
