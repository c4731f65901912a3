//! A convolution of samples that lie in lanes.
#![allow(unsafe_code)]

use super::super::super::isa::Vectors;
use super::super::super::lanes::{Planes, mask};
use super::points::Points;
use super::window::{Finish, Out, Pixel, Window, tiles};
use super::{Geometry, weights};

/// Pixels that go through all tiles of channels together: their windows stay in the first-level cache.
const CHUNK: usize = 96;

/// One layer's convolution in lanes: its sizes, its weights as they are read, and the sums of its gradients.
#[derive(Debug)]
pub(in super::super::super) struct Group<I: Vectors> {
    isa: I,
    g: Geometry,
    way: Way<I>,
    /// Where the output goes, and, but for a model's first layer, the gradient of the input.
    y: Planes,
    dx: Option<Planes>,
    /// Of the biases' gradients.
    biases: Vec<I::Vector>,
}

#[derive(Debug)]
enum Way<I: Vectors> {
    /// A window over the planes as they are.
    Plain(Box<Plain<I>>),
    /// Fewer products, for kernels of five rows.
    Points(Box<Points<I>>),
}

/// Windows, the weights in their order, and the sums of the weights' gradients.
#[derive(Debug)]
struct Plain<I: Vectors> {
    forward: Slide,
    back: Option<Slide>,
    arranged: Vec<f32>,
    turned: Vec<f32>,
    sums: Vec<I::Vector>,
}

impl<I: Vectors> Group<I> {
    /// Writes its output to planes like `y`, and the gradient of its input, where asked for, to planes like `dx`.
    pub fn new(isa: I, g: Geometry, y: Planes, dx: Option<Planes>) -> Self {
        let way = if Points::<I>::suits(&g) {
            Way::Points(Box::new(Points::new(isa, g, dx.is_none())))
        } else {
            Way::Plain(Box::new(Plain {
                forward: Slide::new(Window::forward(&g), y),
                back: dx.map(|dx| Slide::new(Window::grad_input(&g), dx)),
                arranged: vec![0.0; g.weights()],
                turned: vec![0.0; g.weights()],
                sums: vec![I::Vector::default(); g.weights()],
            }))
        };
        Self {
            isa,
            g,
            way,
            y,
            dx,
            biases: vec![I::Vector::default(); g.co],
        }
    }

    /// The planes of the output's gradient, for a layer that is not the first.
    pub fn slopes(g: &Geometry) -> Planes {
        if Points::<I>::suits(g) {
            Planes::tight(g.co, g.oh(), g.ow())
        } else {
            Window::grad_input(g).from
        }
    }

    /// Takes the weights for calls of [`forward`](Self::forward).
    pub fn prepare(&mut self, w: &[f32]) {
        match &mut self.way {
            Way::Plain(plain) => plain.forward.window.arrange::<I>(w, &mut plain.arranged),
            Way::Points(points) => points.prepare(w, false),
        }
    }

    /// `y = x ∗ w + b`, rectified if there are `bits` to tell where it is positive.
    pub fn forward(
        &mut self,
        x: &[I::Vector],
        b: &[f32],
        y: &mut [I::Vector],
        bits: Option<&mut [I::Bits]>,
    ) {
        match &mut self.way {
            Way::Plain(plain) => {
                let bits = bits.map_or(Bits::None, Bits::Rectify);
                plain.forward.run(self.isa, &plain.arranged, x, b, y, bits);
            }
            Way::Points(points) => points.forward(x, b, (y, &self.y), bits),
        }
    }

    /// Takes the weights for calls of [`grad_input`](Self::grad_input), and starts the gradients' sums.
    pub fn prepare_back(&mut self, w: &[f32]) {
        self.biases.fill(I::Vector::default());
        match &mut self.way {
            Way::Plain(plain) => {
                plain.sums.fill(I::Vector::default());
                if let Some(back) = &plain.back {
                    back.window.arrange::<I>(w, &mut plain.turned);
                }
            }
            Way::Points(points) => points.prepare(w, true),
        }
    }

    /// Adds to the gradients of weights and biases.
    pub fn add(&mut self, x: &[I::Vector], dy: &[I::Vector], slopes: &Planes) {
        let g = &self.g;
        let padded = g.ci * (g.h + 2 * g.pad) * (g.w + 2 * g.pad);
        assert!(x.len() >= padded && dy.len() >= slopes.len());
        assert_eq!((slopes.channels, slopes.size), (g.co, (g.oh(), g.ow())));
        weights::add_biases(self.isa, (dy, slopes), &mut self.biases);
        match &mut self.way {
            // SAFETY: the planes were just found to have their sizes.
            Way::Plain(plain) => unsafe {
                weights::add(self.isa, g, x, (dy, slopes), &mut plain.sums)
            },
            Way::Points(points) => points.add(x, dy),
        }
    }

    /// `dx = dy ∗ w`, kept where the bits of what was rectified before are set; after [`add`](Self::add) with `dy`.
    pub fn grad_input(&mut self, dy: &[I::Vector], dx: &mut [I::Vector], bits: Option<&[I::Bits]>) {
        let planes = self.dx.as_ref().expect("not the first layer");
        match &mut self.way {
            Way::Plain(plain) => {
                let back = plain.back.as_ref().expect("not the first layer");
                let bits = bits.map_or(Bits::None, Bits::Mask);
                back.run(self.isa, &plain.turned, dy, &[], dx, bits);
            }
            Way::Points(points) => {
                points.grad_input((dx, planes));
                if let Some(bits) = bits {
                    mask(self.isa, bits, (dx, planes));
                }
            }
        }
    }

    /// Sets the gradients of weights and biases to their sums.
    pub fn gradients(&self, grads: &mut [f32]) {
        let (dw, db) = grads.split_at_mut(self.g.weights());
        match &self.way {
            Way::Plain(plain) => total(&plain.sums, dw),
            Way::Points(points) => points.gradients(dw),
        }
        total(&self.biases, db);
    }
}

fn total<V: AsRef<[f32]>>(sums: &[V], to: &mut [f32]) {
    to.iter_mut()
        .zip(sums)
        .for_each(|(to, sum)| *to = sum.as_ref().iter().sum());
}

/// Bits of all channels.
pub(super) enum Bits<'a, I: Vectors> {
    None,
    Rectify(&'a mut [I::Bits]),
    Mask(&'a [I::Bits]),
}

/// A window, and where each of its pixels goes.
#[derive(Debug)]
pub(super) struct Slide {
    pub(super) window: Window,
    to: Planes,
    pixels: Vec<Pixel>,
}

impl Slide {
    pub(super) fn new(window: Window, to: Planes) -> Self {
        let (outputs, oh, ow) = window.out;
        assert_eq!((to.channels, to.size), (outputs, (oh, ow)));
        let mut pixels = vec![Pixel::default(); oh * ow];
        window.locate(0, &mut pixels);
        for (i, pixel) in pixels.iter_mut().enumerate() {
            pixel.place = to.place(0, i / ow, i % ow);
        }
        Self { window, to, pixels }
    }

    /// One group of samples, with weights in the window's order; no biases stand for zeros.
    pub(super) fn run<I: Vectors>(
        &self,
        isa: I,
        weights: &[f32],
        from: &[I::Vector],
        biases: &[f32],
        to: &mut [I::Vector],
        mut bits: Bits<I>,
    ) {
        let plane = self.pixels.len();
        assert!(from.len() >= self.window.from.len() && to.len() >= self.to.len());
        match &bits {
            Bits::None => {}
            Bits::Rectify(bits) => assert!(bits.len() >= self.window.out.0 * plane),
            Bits::Mask(bits) => assert!(bits.len() >= self.window.out.0 * plane),
        }
        for (i, pixels) in self.pixels.chunks(CHUNK).enumerate() {
            for (first, channels) in tiles::<I>(self.window.out.0) {
                let start = first * plane + i * CHUNK;
                let out = Out {
                    to: &mut to[first * self.to.plane()..],
                    plane: self.to.plane(),
                    finish: match &mut bits {
                        Bits::None => Finish::Plain,
                        Bits::Rectify(bits) => Finish::Rectify(&mut bits[start..], plane),
                        Bits::Mask(bits) => Finish::Mask(&bits[start..], plane),
                    },
                };
                // SAFETY: the pixels are the window's, and the places checked.
                unsafe {
                    let work = (from, weights, biases);
                    (self.window).sum(isa, (first, channels), work, pixels, out);
                }
            }
        }
    }
}
