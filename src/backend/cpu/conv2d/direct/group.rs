//! A convolution of eight samples that lie in lanes.
#![allow(unsafe_code)]

use super::super::super::lanes::{Eight, Planes};
use super::window::{Finish, Out, Pixel, Window, tiles};
use super::{Geometry, weights};

/// Pixels that go through all tiles of channels together: their windows stay in the first-level cache.
const CHUNK: usize = 96;

/// One layer's convolution in lanes: its sizes, its weights as they are read, and the sums of its gradients.
#[derive(Debug)]
pub(in super::super::super) struct Group {
    g: Geometry,
    forward: Slide,
    /// None for a model's first layer.
    back: Option<Slide>,
    /// Of `(co, taps)` and of `co` biases.
    sums: Vec<Eight>,
}

/// A window, where its pixels are, and the weights in its order.
#[derive(Debug)]
struct Slide {
    window: Window,
    to: Planes,
    pixels: Vec<Pixel>,
    weights: Vec<f32>,
}

impl Group {
    /// Writes its output to planes like `y`, and the gradient of its input, where asked for, to planes like `dx`.
    pub fn new(g: Geometry, y: Planes, dx: Option<Planes>) -> Self {
        Self {
            g,
            forward: Slide::new(Window::forward(&g), y),
            back: dx.map(|dx| Slide::new(Window::grad_input(&g), dx)),
            sums: vec![Eight::default(); g.weights() + g.co],
        }
    }

    /// The planes that [`grad_input`](Self::grad_input) reads.
    pub fn slopes(g: &Geometry) -> Planes {
        Window::grad_input(g).from
    }

    /// Takes the weights for calls of [`forward`](Self::forward).
    pub fn prepare(&mut self, w: &[f32]) {
        self.forward.window.arrange(w, &mut self.forward.weights);
    }

    /// `y = x ∗ w + b`, rectified if there are `bits` to tell where it is positive.
    pub fn forward(&self, x: &[Eight], b: &[f32], y: &mut [Eight], bits: Option<&mut [u8]>) {
        self.forward.run(
            x,
            b,
            y,
            match bits {
                Some(bits) => Bits::Rectify(bits),
                None => Bits::None,
            },
        );
    }

    /// Takes the weights for calls of [`grad_input`](Self::grad_input), and starts the gradients' sums.
    pub fn prepare_back(&mut self, w: &[f32]) {
        if let Some(back) = &mut self.back {
            back.window.arrange(w, &mut back.weights);
        }
        self.sums.fill(Eight::default());
    }

    /// Adds to the gradients of weights and biases.
    pub fn add(&mut self, x: &[Eight], dy: &[Eight], slopes: &Planes) {
        let g = &self.g;
        assert!(x.len() >= self.forward.window.from.len() && dy.len() >= slopes.len());
        assert_eq!((slopes.channels, slopes.size), (g.co, (g.oh(), g.ow())));
        let (sums, biases) = self.sums.split_at_mut(g.weights());
        // SAFETY: a group is made only where AVX2 is, and the planes were just found to have their sizes.
        unsafe {
            weights::add(g, x, (dy, slopes), sums);
            weights::add_biases((dy, slopes), biases);
        }
    }

    /// `dx = dy ∗ w`, kept where the bits of what was rectified before are set.
    pub fn grad_input(&self, dy: &[Eight], dx: &mut [Eight], bits: Option<&[u8]>) {
        let back = self.back.as_ref().expect("not the first layer");
        back.run(
            dy,
            &[],
            dx,
            match bits {
                Some(bits) => Bits::Mask(bits),
                None => Bits::None,
            },
        );
    }

    /// Sets the gradients of weights and biases to their sums.
    pub fn gradients(&self, grads: &mut [f32]) {
        for (grad, sum) in grads.iter_mut().zip(&self.sums) {
            *grad = sum.sum();
        }
    }
}

/// Bits of all channels.
enum Bits<'a> {
    None,
    Rectify(&'a mut [u8]),
    Mask(&'a [u8]),
}

impl Slide {
    fn new(window: Window, to: Planes) -> Self {
        let (outputs, oh, ow) = window.out;
        assert_eq!((to.channels, to.size), (outputs, (oh, ow)));
        let mut pixels = vec![Pixel::default(); oh * ow];
        window.locate(0, &mut pixels);
        for (i, pixel) in pixels.iter_mut().enumerate() {
            pixel.place = to.place(0, i / ow, i % ow);
        }
        Self {
            window,
            to,
            weights: vec![0.0; outputs * window.taps()],
            pixels,
        }
    }

    fn run(&self, from: &[Eight], biases: &[f32], to: &mut [Eight], mut bits: Bits) {
        assert!(from.len() >= self.window.from.len() && to.len() >= self.to.len());
        let plane = self.pixels.len();
        for (i, pixels) in self.pixels.chunks(CHUNK).enumerate() {
            for (first, channels) in tiles(self.window.out.0) {
                let start = first * plane + i * CHUNK;
                let mut out = Out {
                    to: &mut to[first * self.to.plane()..],
                    plane: self.to.plane(),
                    finish: match &mut bits {
                        Bits::None => Finish::Plain,
                        Bits::Rectify(bits) => Finish::Rectify(&mut bits[start..], plane),
                        Bits::Mask(bits) => Finish::Mask(&bits[start..], plane),
                    },
                };
                let work = (from, &self.weights[..], biases);
                // SAFETY: a group is made only where AVX2 is; the pixels are the window's, and the places checked.
                unsafe { self.window.sum((first, channels), work, pixels, &mut out) };
            }
        }
    }
}
