//! What comes of a step: losses, sums, moved parameters.

use phalanx::backend::cpu;
use phalanx::backend::cuda::update::{self, Moved, Target};
use phalanx::backend::cuda::{reduce, softmax};
use phalanx::nn::Tensor;
use phalanx::optim::{Mover, Part, Rule};

use super::{Check, Place, near, random};

pub const CHECKS: [Check; 4] = [
    ("softmax", losses),
    ("reduce", sums),
    ("update", updates),
    ("update_clip", clipping),
];

fn losses(place: &Place) {
    for &[n, classes] in place.shapes(&[[5, 10], [3, 33], [1, 1], [9, 2], [300, 4], [2, 1000]]) {
        let mut z = random(n * classes, 1);
        // Equal largest ones: the first counts.
        z[classes - 1] = z.iter().fold(0.0, |m: f32, &v| m.max(v));
        z[0] = z[classes - 1];
        let labels: Vec<u32> = (0..n).map(|i| (i * 7 % classes) as u32).collect();
        let mut expected = z.clone();
        let tally = cpu::softmax::cross_entropy(&mut expected, &labels, 0.25);
        let (mut on_z, on_labels) = (place.put(&z), place.stream.buffer(&labels).unwrap());
        // What is there already is added to.
        let mut on_tally = place.stream.buffer(&[2.0, 3.0]).unwrap();
        let mut work = place.scratch::<f64>(softmax::scratch(n));
        let (out, room) = (on_tally.view_mut(), work.view_mut());
        let logits = on_z.view_mut();
        softmax::cross_entropy(&place.stream, logits, on_labels.view(), 0.25, out, room).unwrap();
        near((n, classes), &place.get(on_z.view()), &expected, 1e-6);
        let got = place.stream.values(on_tally.view()).unwrap();
        let error = (got[0] - 2.0 - tally.loss).abs() / (1.0 + tally.loss);
        assert!(error < 1e-6, "{n} × {classes}: {got:?}, {tally:?}");
        assert_eq!(got[1], 3.0 + tally.correct as f64, "{n} × {classes}");
    }
    for odd in [f32::NAN, f32::INFINITY] {
        let (mut z, labels) = (
            place.put(&[0.0, odd, 0.0]),
            place.stream.buffer(&[0]).unwrap(),
        );
        let mut tally = place.stream.zeros::<f64>(2).unwrap();
        let mut work = place.scratch::<f64>(2);
        let (out, room) = (tally.view_mut(), work.view_mut());
        softmax::cross_entropy(&place.stream, z.view_mut(), labels.view(), 1.0, out, room).unwrap();
        let got = place.stream.values(tally.view()).unwrap();
        assert!(!got[0].is_finite(), "{odd} gives {got:?}");
    }
}

fn sums(place: &Place) {
    let stream = &place.stream;
    for &len in place.shapes(&[3000, 1, 0, 7, 256, 4097, 20_000]) {
        let x = random(len, 1);
        for first in [0, 1.min(len)] {
            let buffer = place.put(&x);
            let mut out = stream.buffer(&[f64::NAN]).unwrap();
            let mut work = place.scratch::<f64>(reduce::SCRATCH);
            let part = || buffer.part(first..len);
            let values = x[first..].iter().map(|&v| f64::from(v));
            reduce::sum(stream, part(), out.view_mut(), work.view_mut()).unwrap();
            let got = stream.values(out.view()).unwrap()[0];
            assert!((got - values.clone().sum::<f64>()).abs() < 1e-9, "{len}");
            reduce::squares(stream, part(), out.view_mut(), work.view_mut()).unwrap();
            let got = stream.values(out.view()).unwrap()[0];
            let squares: f64 = values.map(|v| v * v).sum();
            assert!((got - squares).abs() < 1e-9 * (1.0 + squares), "{len}");
        }
        let finite = |values: &[f32]| {
            let (buffer, mut word) = (place.put(values), stream.buffer(&[7]).unwrap());
            reduce::finite(stream, buffer.view(), word.view_mut()).unwrap();
            reduce::is_finite(stream.values(word.view()).unwrap()[0])
        };
        assert!(finite(&x), "{len}");
        for at in [0, len / 2, len.saturating_sub(1)] {
            for odd in [f32::NAN, f32::NEG_INFINITY] {
                let mut x = x.clone();
                if let Some(place) = x.get_mut(at) {
                    *place = odd;
                    assert!(!finite(&x), "{odd} at {at} of {len}");
                }
            }
        }
    }
}

const LEN: usize = 700;

/// A matrix and a bias.
fn tensors() -> [Tensor; 2] {
    let tensor = |shape: &[usize], range| Tensor {
        name: String::new(),
        shape: shape.to_vec(),
        range,
    };
    [tensor(&[2, 300], 0..600), tensor(&[100], 600..LEN)]
}

/// Parameters after three steps of an optimizer on the CPU.
fn by_cpu(rule: Rule, limit: Option<f64>) -> Vec<f32> {
    let mut mover = Mover::new(rule.build(&tensors(), limit));
    let mut params = random(LEN, 0);
    for step in 1..4 {
        let grads = random(LEN, step);
        let part = Part::whole(&mut params, &[0, LEN]);
        let gradient =
            |range: std::ops::Range<usize>, out: &mut [f32]| out.copy_from_slice(&grads[range]);
        mover.step(0.1, part, gradient, |_| {});
    }
    params
}

/// The same on the device: `step` moves the parameters by one step of that number. Amounts are applied, or given and then added.
fn by_device(place: &Place, target: Target, mut step: impl FnMut(u64, Moved)) -> Vec<f32> {
    let mut params = place.put(&random(LEN, 0));
    for number in 1..4 {
        let mut grads = place.put(&random(LEN, number));
        let moved = Moved {
            params: params.view_mut(),
            grads: grads.view_mut(),
            target,
        };
        step(number, moved);
        if target == Target::Grads {
            update::add(&place.stream, grads.view(), params.view_mut()).unwrap();
        }
    }
    place.get(params.view())
}

fn updates(place: &Place) {
    let stream = &place.stream;
    let (momentum, weight_decay) = (0.9, 0.01);
    for target in [Target::Params, Target::Grads] {
        for decay in [0.0, weight_decay] {
            let rule = Rule::Sgd {
                weight_decay: decay,
            };
            let got = by_device(place, target, |_, moved| {
                update::sgd(stream, 0.1, decay as f32, moved).unwrap();
            });
            near(rule, &got, &by_cpu(rule, None), 2e-7);
        }
        for nesterov in [false, true] {
            let rule = match nesterov {
                true => Rule::Nesterov {
                    momentum,
                    weight_decay,
                },
                false => Rule::Momentum {
                    momentum,
                    weight_decay,
                },
            };
            let settings = update::Momentum {
                lr: 0.1,
                momentum: momentum as f32,
                nesterov,
                weight_decay: weight_decay as f32,
            };
            let mut velocity = stream.zeros(LEN).unwrap();
            let got = by_device(place, target, |_, moved| {
                update::momentum(stream, settings, moved, velocity.view_mut()).unwrap();
            });
            near(rule, &got, &by_cpu(rule, None), 2e-7);
        }
        for decoupled in [false, true] {
            adam(place, target, decoupled);
        }
        lars(place, target);
    }
}

fn adam(place: &Place, target: Target, decoupled: bool) {
    let (beta1, beta2, weight_decay) = (0.9, 0.99, 0.05);
    let rule = match decoupled {
        true => Rule::AdamW {
            beta1,
            beta2,
            weight_decay,
        },
        false => Rule::Adam {
            beta1,
            beta2,
            weight_decay,
        },
    };
    let zeros = || place.stream.zeros(LEN).unwrap();
    let (mut first, mut second) = (zeros(), zeros());
    let got = by_device(place, target, |step, moved| {
        let settings = update::Adam {
            lr: 0.1,
            beta1,
            beta2,
            weight_decay,
            decoupled,
            epsilon: 1e-8,
            step: step as i32,
        };
        let moments = [first.view_mut(), second.view_mut()];
        update::adam(&place.stream, settings, moved, moments).unwrap();
    });
    near(rule, &got, &by_cpu(rule, None), 1e-6);
}

fn lars(place: &Place, target: Target) {
    let (trust, momentum, weight_decay) = (0.1, 0.9, 0.01);
    let rule = Rule::Lars {
        trust,
        momentum,
        weight_decay,
    };
    let settings = update::Lars {
        lr: 0.1,
        trust,
        momentum,
        weight_decay,
    };
    let stream = &place.stream;
    let mut velocity = stream.zeros(LEN).unwrap();
    let (mut squares, mut work) = (place.scratch(2), place.scratch(reduce::SCRATCH));
    let got = by_device(place, target, |_, moved| {
        let (params, grads) = (moved.params.shared(), moved.grads.shared());
        for (i, values) in [params, grads].into_iter().enumerate() {
            let out = squares.part_mut(i..i + 1);
            reduce::squares(stream, values.part(0..600), out, work.view_mut()).unwrap();
        }
        let (params, biases) = moved.params.split_at(600);
        let (grads, their) = moved.grads.split_at(600);
        let (fast, slow) = velocity.view_mut().split_at(600);
        let matrix = Moved {
            params,
            grads,
            target,
        };
        update::lars(stream, settings, Some(squares.view()), matrix, fast).unwrap();
        let bias = Moved {
            params: biases,
            grads: their,
            target,
        };
        update::lars(stream, settings, None, bias, slow).unwrap();
    });
    near(rule, &got, &by_cpu(rule, None), 1e-6);
}

/// A limit that shortens every gradient, and one that shortens none.
fn clipping(place: &Place) {
    let stream = &place.stream;
    let rule = Rule::Sgd { weight_decay: 0.0 };
    for limit in [1.0, 1e6] {
        let (mut square, mut work) = (place.scratch(1), place.scratch(reduce::SCRATCH));
        let got = by_device(place, Target::Params, |_, mut moved| {
            let out = square.view_mut();
            reduce::squares(stream, moved.grads.shared(), out, work.view_mut()).unwrap();
            update::clip(stream, limit, square.view(), moved.grads.again()).unwrap();
            update::sgd(stream, 0.1, 0.0, moved).unwrap();
        });
        near(limit, &got, &by_cpu(rule, Some(limit)), 1e-6);
    }
}
