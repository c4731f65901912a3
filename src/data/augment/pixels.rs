//! Random changes of training images: from the pixels that are stored to those that are trained on.

use super::{Augment, Draw};
use crate::Result;
use crate::data::{Dataset, Scaling, Shape};

/// An image as seen after turns by right angles and flips: pixel (y, x) is at `start + y·down + x·right` of a plane.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct View {
    start: isize,
    down: isize,
    right: isize,
}

impl View {
    pub(super) fn of(shape: Shape) -> Self {
        Self {
            start: 0,
            down: shape.w as isize,
            right: 1,
        }
    }

    pub(super) fn flip(&mut self, shape: Shape) {
        self.start += self.right * (shape.w as isize - 1);
        self.right = -self.right;
    }

    pub(super) fn flip_vertical(&mut self, shape: Shape) {
        self.start += self.down * (shape.h as isize - 1);
        self.down = -self.down;
    }

    /// A quarter to the left; only where rows are as many as columns.
    pub(super) fn turn(&mut self, shape: Shape) {
        self.start += self.right * (shape.w as isize - 1);
        (self.down, self.right) = (-self.right, self.down);
    }

    fn at(&self, y: usize, x: usize) -> usize {
        (self.start + y as isize * self.down + x as isize * self.right) as usize
    }

    /// Every pixel of `from`, as it is, to its place in `to`.
    fn copy<T: Copy + Into<U>, U>(&self, shape: Shape, from: &[T], to: &mut [U]) {
        let plane = shape.h * shape.w;
        for (from, to) in from.chunks_exact(plane).zip(to.chunks_exact_mut(plane)) {
            for (y, row) in to.chunks_exact_mut(shape.w).enumerate() {
                for (x, to) in row.iter_mut().enumerate() {
                    *to = from[self.at(y, x)].into();
                }
            }
        }
    }
}

/// Where the pixels of the result come from: pixel (y, x) from (row, column) `at + y·down + x·right`.
#[derive(Debug, PartialEq)]
pub(super) struct Window {
    at: (f32, f32),
    down: (f32, f32),
    right: (f32, f32),
}

impl Window {
    /// A part with the shares `(h, w)` of rows and columns, turned clockwise by `angle` around its middle; `place` says where between
    /// the first and the last that it can be.
    pub(super) fn new(shape: Shape, place: (f32, f32), (h, w): (f32, f32), angle: f32) -> Self {
        let (rows, columns) = (shape.h as f32, shape.w as f32);
        let (sin, cos) = (libm::sinf(angle), libm::cosf(angle));
        let (down, right) = ((h * cos, h * sin), (-w * sin, w * cos));
        // Pixels are squares around their middles: the first one's is half a step from the edge.
        let middle = |place: f32, share: f32, all: f32| {
            (all - all * share) * place + 0.5 * all * share - 0.5
        };
        let (y, x) = (0.5 * rows - 0.5, 0.5 * columns - 0.5);
        Self {
            at: (
                middle(place.0, h, rows) - y * down.0 - x * right.0,
                middle(place.1, w, columns) - y * down.1 - x * right.1,
            ),
            down,
            right,
        }
    }

    /// Pixels of `from`, seen by `view`, on a line between neighbours; beyond the edge is what is at the edge.
    fn sample<T: Copy + Into<f32>>(&self, shape: Shape, view: &View, from: &[T], to: &mut [f32]) {
        let (h, w, plane) = (shape.h, shape.w, shape.h * shape.w);
        let between = |value: f32, last: usize| {
            let value = value.clamp(0.0, last as f32);
            let low = value as usize;
            (low, (low + 1).min(last), value - low as f32)
        };
        for pixel in 0..plane {
            let (y, x) = ((pixel / w) as f32, (pixel % w) as f32);
            let row = self.at.0 + y * self.down.0 + x * self.right.0;
            let column = self.at.1 + y * self.down.1 + x * self.right.1;
            let (top, bottom, lower) = between(row, h - 1);
            let (left, right, later) = between(column, w - 1);
            let corners = [(top, left), (top, right), (bottom, left), (bottom, right)];
            let corners = corners.map(|(y, x)| view.at(y, x));
            let planes = from.chunks_exact(plane).zip(to.chunks_exact_mut(plane));
            for (from, to) in planes {
                let [a, b, c, d] = corners.map(|at| -> f32 { from[at].into() });
                let (top, bottom) = (a + (b - a) * later, c + (d - c) * later);
                to[pixel] = top + (bottom - top) * lower;
            }
        }
    }
}

/// Factors: of all values, of their distance from the image's mean, and of that of a pixel's channels from its grey.
#[derive(Debug, PartialEq)]
pub(super) struct Colour {
    pub(super) brightness: f32,
    pub(super) contrast: f32,
    pub(super) saturation: f32,
}

impl Colour {
    pub(super) fn apply(&self, shape: Shape, values: &mut [f32]) {
        let sum: f64 = values.iter().map(|&value| f64::from(value)).sum();
        let mean = (sum / values.len() as f64) as f32;
        for value in &mut *values {
            *value = (mean + (*value - mean) * self.contrast) * self.brightness;
        }
        let plane = shape.h * shape.w;
        let (red, rest) = values.split_at_mut(plane);
        if shape.c != 3 {
            return;
        }
        let (green, blue) = rest.split_at_mut(plane);
        for ((red, green), blue) in red.iter_mut().zip(green).zip(blue) {
            // How bright the eye finds them (Rec. 601).
            let grey = 0.299 * *red + 0.587 * *green + 0.114 * *blue;
            for value in [red, green, blue] {
                *value = grey + (*value - grey) * self.saturation;
            }
        }
    }
}

/// Changes samples on their way into a batch, without allocating.
#[derive(Clone)]
pub(in crate::data) struct Augmenter {
    augment: Augment,
    seed: u64,
    shape: Shape,
    /// Leaves floats as they are stored.
    stored: Scaling,
    /// One sample.
    values: Vec<f32>,
}

impl Augmenter {
    /// Changes samples of `shape`, drawn by `seed`.
    pub(in crate::data) fn new(augment: Augment, seed: u64, shape: Shape) -> Self {
        Self {
            augment,
            seed,
            shape,
            stored: Scaling::unit(shape.c),
            values: vec![0.0; shape.len()],
        }
    }

    /// Changes the bytes of a sample.
    pub(in crate::data) fn bytes(&mut self, epoch: u64, sample: u64, from: &[u8], to: &mut [u8]) {
        let draw = self.augment.draw(self.seed, epoch, sample, self.shape);
        if draw.window.is_none() && draw.colour.is_none() {
            return draw.view.copy(self.shape, from, to);
        }
        draw.apply(self.shape, from, &mut self.values);
        for (to, value) in to.iter_mut().zip(&self.values) {
            // The cast cuts what is below 0 or above 255.
            *to = (value + 0.5) as u8;
        }
    }

    /// Writes sample `sample` of `data`, whose pixels are floats, changed and then scaled, and returns its label.
    pub(in crate::data) fn floats(
        &mut self,
        epoch: u64,
        (data, sample): (&Dataset, u64),
        scaling: &Scaling,
        to: &mut [f32],
    ) -> Result<u32> {
        let label = data.sample(sample as usize, &self.stored, &mut self.values)?;
        let draw = self.augment.draw(self.seed, epoch, sample, self.shape);
        draw.apply(self.shape, &self.values, to);
        scaling.values(self.shape.h * self.shape.w, to);
        Ok(label)
    }
}

impl Draw {
    pub(super) fn apply<T: Copy + Into<f32>>(&self, shape: Shape, from: &[T], to: &mut [f32]) {
        match &self.window {
            Some(window) => window.sample(shape, &self.view, from, to),
            None => self.view.copy(shape, from, to),
        }
        if let Some(colour) = &self.colour {
            colour.apply(shape, to);
        }
    }
}
