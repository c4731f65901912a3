//! Layers in lanes against the same layers in rows.

use super::*;
use crate::backend::cpu::{Isa, has_avx2, with_each_set};
use crate::data::{Batch, Images, Scaling};
use crate::nn::LayerSpec;
use crate::nn::LayerSpec::{Relu, Tanh};

fn conv(outputs: usize, kernel: usize, stride: usize, pad: usize) -> LayerSpec {
    LayerSpec::Conv2d {
        outputs,
        kernel,
        stride,
        pad,
    }
}

fn average(kernel: usize, stride: usize, pad: usize) -> LayerSpec {
    LayerSpec::AveragePool {
        kernel,
        stride: Some(stride),
        pad,
    }
}

fn max(kernel: usize, stride: usize, pad: usize) -> LayerSpec {
    LayerSpec::MaxPool {
        kernel,
        stride: Some(stride),
        pad,
    }
}

/// Stacks of every kind of layer before and behind every other, with ragged sizes.
fn stacks() -> Vec<Vec<LayerSpec>> {
    vec![
        vec![
            conv(6, 5, 1, 2),
            Relu,
            average(2, 2, 0),
            conv(16, 5, 1, 0),
            Relu,
            average(2, 2, 0),
        ],
        vec![
            conv(5, 3, 1, 1),
            Relu,
            conv(7, 5, 1, 2),
            Tanh,
            conv(4, 5, 1, 1),
            Relu,
        ],
        vec![
            conv(3, 3, 1, 1),
            Tanh,
            max(2, 2, 0),
            conv(4, 2, 2, 0),
            Relu,
            average(2, 1, 1),
        ],
        vec![conv(5, 3, 2, 1), Relu, conv(7, 3, 1, 2), Relu, max(3, 2, 1)],
        vec![
            conv(2, 3, 1, 0),
            conv(1, 1, 1, 0),
            Tanh,
            conv(3, 3, 3, 1),
            Relu,
        ],
        vec![
            max(2, 1, 0),
            Relu,
            conv(4, 4, 2, 3),
            Tanh,
            Relu,
            average(3, 2, 1),
            conv(2, 2, 1, 1),
        ],
        vec![
            Tanh,
            average(2, 3, 0),
            conv(9, 2, 1, 1),
            max(3, 1, 1),
            Relu,
            Relu,
        ],
        vec![
            conv(12, 3, 1, 1),
            Relu,
            average(2, 2, 1),
            conv(8, 3, 2, 2),
            Tanh,
            Tanh,
            max(2, 2, 0),
        ],
    ]
}

fn model(layers: &[LayerSpec], shape: Shape) -> Model {
    let mut layers = layers.to_vec();
    layers.push(LayerSpec::Linear {
        outputs: None,
        zero: false,
    });
    let name = "a".into();
    let origin = None;
    let spec = Spec {
        name,
        layers,
        origin,
    };
    spec.build(shape, 4).unwrap()
}

/// The same model without lanes.
fn in_rows(mut model: Model) -> Model {
    model.head = None;
    model.tape.takes_bytes = model.layers[0].takes_bytes();
    model
}

fn batches(shape: Shape, n: usize) -> Vec<Batch> {
    let mut stream = Stream::new(&[n as u64, 3]);
    let bytes: Vec<u8> = (0..n * shape.len())
        .map(|_| stream.below(256) as u8)
        .collect();
    let floats = (0..bytes.len()).map(|_| stream.normal()).collect();
    let labels: Vec<u32> = (0..n).map(|_| stream.below(4) as u32).collect();
    let each = Scaling::normal(&[0.4, 0.5][..shape.c], &[0.3, 0.2][..shape.c]);
    [
        (Images::Bytes(bytes.clone()), Scaling::unit(shape.c)),
        (Images::Bytes(bytes), each),
        (Images::Floats(floats), Scaling::unit(shape.c)),
    ]
    .map(|(images, scaling)| Batch::of(images, scaling, labels.clone()))
    .into()
}

/// Fails unless losses and gradients agree to 1e-5 of the largest of each tensor.
fn compare(lanes: &mut Model, rows: &mut Model, batch: &Batch, what: &str) {
    let params = lanes.init(Init::default(), 7);
    let (mut got, mut truth) = (vec![f32::NAN; params.len()], vec![f32::NAN; params.len()]);
    let tally = lanes.gradients(
        &params,
        batch.all(),
        Draw::default(),
        0.5,
        Peers::default(),
        &mut got,
    );
    let expected = rows.gradients(
        &params,
        batch.all(),
        Draw::default(),
        0.5,
        Peers::default(),
        &mut truth,
    );
    let near = (tally.loss - expected.loss).abs() <= 1e-5 * expected.loss;
    assert!(near, "{what}: loss {} for {}", tally.loss, expected.loss);
    assert_eq!(tally, lanes.evaluate(&params, batch.all()), "{what}");
    for tensor in rows.tensors() {
        let range = tensor.range.clone();
        let largest = truth[range.clone()]
            .iter()
            .fold(1e-6f32, |m, v| m.max(v.abs()));
        for i in range {
            let error = (got[i] - truth[i]).abs() / largest;
            let (name, got, truth) = (&tensor.name, got[i], truth[i]);
            assert!(error <= 1e-5, "{what}: {name} at {i}: {got} for {truth}");
        }
    }
}

#[test]
fn layers_in_lanes_equal_layers_in_rows() {
    with_each_set(|isa| {
        for (c, h, w) in [(1, 16, 16), (2, 17, 13)] {
            let shape = Shape { c, h, w };
            for (s, layers) in stacks().iter().enumerate() {
                let (mut lanes, mut rows) = (model(layers, shape), in_rows(model(layers, shape)));
                let taken = lanes.head.as_ref().map(|head| head.layers);
                let expected = (isa > Isa::Portable).then_some(layers.len());
                assert_eq!(taken, expected, "stack {s}");
                // Sizes go up and down: what a larger batch left must not show.
                for n in [1, 7, 20, 8, 9, 16, 33, 0] {
                    for (b, batch) in batches(shape, n).iter().enumerate() {
                        let what = format!("stack {s}, {shape}, {n} samples, batch {b}, {isa}");
                        compare(&mut lanes, &mut rows, batch, &what);
                    }
                }
            }
        }
    });
}

#[test]
fn a_stack_ends_where_a_layer_cannot_work_in_lanes() {
    let shape = Shape { c: 1, h: 12, w: 12 };
    let taken = |layers: &[LayerSpec]| model(layers, shape).head.map_or(0, |head| head.layers);
    let found = |layers| if has_avx2() { layers } else { 0 };
    let dropout = LayerSpec::Dropout { rate: 0.5 };
    assert_eq!(
        taken(&[conv(3, 3, 1, 1), Relu, dropout, conv(3, 3, 1, 1)]),
        found(2)
    );
    assert_eq!(taken(&[conv(3, 3, 1, 1), conv(3, 2, 1, 2)]), found(1));
    // Without a convolution there is nothing to gain; beyond the caches neither.
    assert_eq!(taken(&[max(2, 2, 0), Relu]), 0);
    assert_eq!(taken(&[conv(1000, 3, 1, 1), Relu]), 0);
}

#[test]
fn lanes_allocate_nothing_after_the_first_step() {
    let shape = Shape { c: 1, h: 16, w: 16 };
    let mut model = model(&stacks()[0], shape);
    let params = model.init(Init::default(), 1);
    let mut grads = vec![0.0; params.len()];
    let mut step = |n: usize| {
        let batch = &batches(shape, n)[0];
        model.gradients(
            &params,
            batch.all(),
            Draw::default(),
            1.0,
            Peers::default(),
            &mut grads,
        );
        model.evaluate(&params, batch.all());
        model.head.as_ref().map(|head| head.stack.memory())
    };
    assert_eq!(step(20), step(9));
}
