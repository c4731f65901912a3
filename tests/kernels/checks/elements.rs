//! Operations on each element by itself: activations, scaling, dropout, biases.

use phalanx::backend::cpu;
use phalanx::backend::cpu::dropout::Mask;
use phalanx::backend::cuda::{activation, bias, dropout, scale};
use phalanx::data::Scaling;
use phalanx::rng::Stream as Random;

use super::{Check, Place, near, random, same};

pub const CHECKS: [Check; 4] = [
    ("activation", activations),
    ("scale", scaling),
    ("dropout", drops),
    ("bias", biases),
];

/// Numbers that are, and are not, whole fours; more than one block.
const LENGTHS: [usize; 6] = [37, 1, 4, 300, 1024, 2051];

fn activations(place: &Place) {
    let stream = &place.stream;
    for &len in place.shapes(&LENGTHS) {
        let mut x = random(len, 1);
        x[0] = f32::NAN;
        let d = random(len, 2);
        for first in [0, 1.min(len - 1)] {
            // From the second on, no vector of four is aligned.
            let mut y = x.clone();
            cpu::activation::relu(&mut y[first..]);
            let mut buffer = place.put(&x);
            activation::relu(stream, buffer.part_mut(first..len)).unwrap();
            let got = place.get(buffer.view());
            assert!(got[0].is_nan());
            same(("relu", len), &got[1..], &y[1..]);
            let mut expected = d.clone();
            cpu::activation::relu_backward(&y[first..], &mut expected[first..]);
            let mut back = place.put(&d);
            activation::relu_backward(stream, buffer.part(first..len), back.part_mut(first..len))
                .unwrap();
            same(("relu back", len), &place.get(back.view()), &expected);
        }
        let (mut y, mut expected) = (random(len, 3), d.clone());
        let mut buffer = place.put(&y);
        let mut back = place.put(&d);
        activation::tanh(stream, buffer.view_mut()).unwrap();
        cpu::activation::tanh(&mut y);
        near(("tanh", len), &place.get(buffer.view()), &y, 5e-7);
        activation::tanh_backward(stream, buffer.view(), back.view_mut()).unwrap();
        cpu::activation::tanh_backward(&y, &mut expected);
        near(("tanh back", len), &place.get(back.view()), &expected, 2e-6);
    }
}

fn scaling(place: &Place) {
    let stream = &place.stream;
    for &len in place.shapes(&LENGTHS) {
        let mut random = Random::new(&[len as u64]);
        let pixels: Vec<u8> = (0..len).map(|_| random.below(256) as u8).collect();
        let mut expected = vec![0.0; len];
        cpu::scale::bytes(&pixels, 0.37, -0.2, &mut expected);
        let (bytes, mut out) = (stream.buffer(&pixels).unwrap(), place.room(len));
        scale::bytes(stream, bytes.view(), 0.37, -0.2, out.view_mut()).unwrap();
        same(("bytes", len), &place.get(out.view()), &expected);
    }
    for &[n, c, plane] in place.shapes(&[[2, 3, 25], [1, 1, 784], [3, 2, 7]]) {
        let (factors, shifts) = (random(c, 1), random(c, 2));
        let pixels: Vec<u8> = (0..n * c * plane).map(|i| (i * 7 % 256) as u8).collect();
        let mut expected = vec![0.0; pixels.len()];
        Scaling::of_channels(&factors, &shifts).bytes(plane, &pixels, &mut expected);
        let factors: Vec<f32> = factors.iter().map(|factor| factor / 255.0).collect();
        let (factors, shifts) = (place.put(&factors), place.put(&shifts));
        let (bytes, mut out) = (stream.buffer(&pixels).unwrap(), place.room(pixels.len()));
        let (factors, shifts) = (factors.view(), shifts.view());
        let out_view = out.view_mut();
        scale::channels(stream, plane, bytes.view(), factors, shifts, out_view).unwrap();
        same(("channels", c), &place.get(out.view()), &expected);
    }
}

fn drops(place: &Place) {
    let stream = &place.stream;
    for &(rows, len, rate) in place.shapes(&[
        (3, 1030, 0.5f32),
        (2, 1, 0.3),
        (5, 1024, 0.1),
        (1, 2500, 0.9),
        (2, 50, 0.0),
        (2, 50, 1.0),
    ]) {
        let mask = Mask {
            seed: 7,
            layer: 2,
            step: 1 << 40,
            rate,
        };
        let samples: Vec<u64> = (0..rows as u64)
            .map(|row| row * row + (row << 33))
            .collect();
        let values = random(rows * len, 3);
        let mut expected = values.clone();
        mask.apply(&samples, &mut expected);
        let (names, mut buffer) = (stream.buffer(&samples).unwrap(), place.put(&values));
        dropout::apply(stream, mask, names.view(), buffer.view_mut()).unwrap();
        same((rows, len, rate), &place.get(buffer.view()), &expected);
    }
}

fn biases(place: &Place) {
    for &[n, co, plane] in place.shapes(&[[3, 5, 49], [2, 300, 1], [7, 1, 256], [1, 2, 1000]]) {
        let (b, y) = (random(co, 1), random(n * co * plane, 2));
        let channel = |i: usize| i / plane % co;
        let expected: Vec<f32> = (0..y.len()).map(|i| y[i] + b[channel(i)]).collect();
        let (b, mut buffer) = (place.put(&b), place.put(&y));
        bias::add(&place.stream, plane, b.view(), buffer.view_mut()).unwrap();
        same((n, co, plane), &place.get(buffer.view()), &expected);
        let mut sums = vec![0.0f32; co];
        for (i, v) in y.iter().enumerate() {
            sums[channel(i)] += v;
        }
        let (dy, mut db) = (place.put(&y), place.room(co));
        bias::grad(&place.stream, plane, dy.view(), db.view_mut()).unwrap();
        near((n, co, plane), &place.get(db.view()), &sums, 1e-5);
    }
}
