//! Pooling.

use phalanx::backend::cpu::pool::{self as reference, Geometry};
use phalanx::backend::cuda::pool::{average, max};
use phalanx::rng::Stream as Random;

use super::{Check, Place, near, random, same};

pub const CHECKS: [Check; 3] = [
    ("max_pool", maxima),
    ("average_pool", means),
    ("global_average", planes),
];

/// c, h, w, k, stride, pad: overlapping windows, gaps between them, padding, cells that no window sees.
const SHAPES: [[usize; 6]; 10] = [
    [2, 7, 9, 2, 2, 0],
    [3, 9, 14, 3, 2, 1],
    [1, 1, 1, 3, 2, 1],
    [2, 6, 5, 3, 1, 1],
    [1, 5, 11, 1, 3, 0],
    [2, 11, 8, 5, 3, 2],
    [1, 2, 1, 4, 2, 2],
    [6, 13, 13, 3, 2, 0],
    [1, 6, 6, 6, 1, 0],
    [1, 2, 3, 3, 1, 0],
];

fn geometry([c, h, w, k, stride, pad]: [usize; 6]) -> Geometry {
    Geometry {
        c,
        h,
        w,
        k,
        stride,
        pad,
    }
}

/// Values with many equal ones, and a few that are odd.
fn ties(len: usize) -> Vec<f32> {
    let mut random = Random::new(&[len as u64]);
    let value = |number: u64| match number {
        9 => f32::NEG_INFINITY,
        10 => f32::NAN,
        number => number as f32 - 4.0,
    };
    (0..len).map(|_| value(random.below(11))).collect()
}

fn maxima(place: &Place) {
    for &shape in place.shapes(&SHAPES) {
        let g = geometry(shape);
        let (x, outputs) = (ties(2 * g.c * g.h * g.w), 2 * g.c * g.oh() * g.ow());
        let (mut y, mut places) = (vec![0.0; outputs], vec![0; outputs]);
        reference::max::forward(g, &x, &mut y, &mut places);
        let (on_x, mut on_y) = (place.put(&x), place.room(outputs));
        let mut on_places = place.stream.buffer(&vec![u32::MAX; outputs]).unwrap();
        let (out, at) = (on_y.view_mut(), on_places.view_mut());
        max::forward(&place.stream, g, on_x.view(), out, at).unwrap();
        let numbers =
            |values: Vec<f32>| values.iter().map(|v| v.to_bits() << 1).collect::<Vec<_>>();
        assert_eq!(numbers(place.get(on_y.view())), numbers(y), "{g:?}");
        assert_eq!(
            place.stream.values(on_places.view()).unwrap(),
            places,
            "{g:?}"
        );

        let (dy, mut dx) = (random(outputs, 1), vec![0.0; x.len()]);
        reference::max::backward(g, &places, &dy, &mut dx);
        let (on_dy, mut on_dx) = (place.put(&dy), place.room(x.len()));
        let out = on_dx.view_mut();
        max::backward(&place.stream, g, on_places.view(), on_dy.view(), out).unwrap();
        same(("back", g), &place.get(on_dx.view()), &dx);
    }
}

fn means(place: &Place) {
    for &shape in place.shapes(&SHAPES) {
        let g = geometry(shape);
        let (inputs, outputs) = (2 * g.c * g.h * g.w, 2 * g.c * g.oh() * g.ow());
        let (x, dy) = (random(inputs, 1), random(outputs, 2));
        let (mut y, mut dx) = (vec![0.0; outputs], vec![0.0; inputs]);
        reference::average::forward(g, &x, &mut y);
        reference::average::backward(g, &dy, &mut dx);
        let (on_x, mut on_y) = (place.put(&x), place.room(outputs));
        let (on_dy, mut on_dx) = (place.put(&dy), place.room(inputs));
        average::forward(&place.stream, g, on_x.view(), on_y.view_mut()).unwrap();
        average::backward(&place.stream, g, on_dy.view(), on_dx.view_mut()).unwrap();
        near(g, &place.get(on_y.view()), &y, 1e-6);
        near(("back", g), &place.get(on_dx.view()), &dx, 1e-6);
    }
}

fn planes(place: &Place) {
    for &[planes, plane] in place.shapes(&[[9, 49], [3, 1], [17, 32], [1, 1000]]) {
        let (x, dy) = (random(planes * plane, 1), random(planes, 2));
        let (mut y, mut dx) = (vec![0.0; planes], vec![0.0; x.len()]);
        reference::average::global(plane, &x, &mut y);
        reference::average::global_backward(plane, &dy, &mut dx);
        let (on_x, mut on_y) = (place.put(&x), place.room(planes));
        let (on_dy, mut on_dx) = (place.put(&dy), place.room(x.len()));
        average::global(&place.stream, plane, on_x.view(), on_y.view_mut()).unwrap();
        average::global_backward(&place.stream, plane, on_dy.view(), on_dx.view_mut()).unwrap();
        near((planes, plane), &place.get(on_y.view()), &y, 1e-6);
        same((planes, plane), &place.get(on_dx.view()), &dx);
    }
}
