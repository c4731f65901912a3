//! Synthetic colour images of any size and number of classes, to exercise networks of the scale of AlexNet.

use crate::rng::Stream;
use std::f32::consts::{PI, TAU};
use std::ops::Range;

const PURPOSE: u64 = 0x696d_6167_6573;

/// Paints sample `index` of the set that `seed` names and returns its class, `0..classes`.
///
/// `shape` and `pixels` are `(c, h, w)`. A class is a grating (orientation, frequency, colour) behind a figure (outline,
/// colour) and looks the same under every seed. Samples vary phase, position, size, contrast, brightness and noise: a
/// pixel by itself says little about the class. The same arguments give the same bytes on every machine.
pub fn paint(
    seed: u64,
    index: u64,
    shape: (usize, usize, usize),
    classes: u32,
    pixels: &mut [u8],
) -> u32 {
    let (c, h, w) = shape;
    assert!(classes > 0, "images need at least one class");
    assert_eq!(pixels.len(), c * h * w, "pixels of shape {shape:?}");
    let mut stream = Stream::new(&[PURPOSE, seed, index]);
    let class = stream.below(u64::from(classes)) as u32;
    let look = Look::new(class);
    let grating = Grating::new(&mut stream, &look, h, w);
    let figure = Figure::new(&mut stream, &look, h, w);
    // A white balance of its own for each image: contrasts tell the class, levels hardly do.
    let light: Vec<f32> = (0..c).map(|_| stream.between(85.0, 170.0)).collect();
    let grain = stream.between(0.1, 0.4);

    let mut wave = vec![0.0; w];
    for y in 0..h {
        grating.fill(y, &mut wave);
        let spans = figure.spans(y);
        for (k, light) in light.iter().enumerate() {
            // Half a turn of hue only swaps the stripes, which is a change of phase.
            let stripes = grating.contrast * colour(0.5 * look.grating_hue, k, c);
            let body = figure.contrast * colour(look.figure_hue, k, c);
            let start = (k * h + y) * w;
            let row = &mut pixels[start..start + w];
            for (pixel, wave) in row.iter_mut().zip(&wave) {
                *pixel = (light + stripes * wave) as u8;
            }
            for span in &spans {
                row[span.clone()].fill((light + body) as u8);
            }
            roughen(&mut stream, grain, row);
        }
    }
    class
}

/// What the samples of a class have in common, each property in `0.0..1.0`.
struct Look {
    angle: f32,
    frequency: f32,
    grating_hue: f32,
    figure_hue: f32,
    outline: Outline,
}

#[derive(Clone, Copy)]
enum Outline {
    Disc,
    Square,
    Diamond,
    Ring,
    Bars,
}

impl Look {
    /// Spreads the classes evenly over all looks, however many there are: each property steps by its own irrational
    /// number, the inverse powers of the root of x⁵ = x + 1, here in units of 2⁻⁶⁴.
    fn new(class: u32) -> Self {
        let spread = |step: u64| {
            let turn = step.wrapping_mul(u64::from(class) + 1);
            (turn >> 40) as f32 / (1u32 << 24) as f32
        };
        Self {
            angle: spread(0xdb4f_0b91_75ae_2165),
            frequency: spread(0xbbe0_5633_03a4_615f),
            grating_hue: spread(0xa0f2_ec75_a1fe_1575),
            figure_hue: spread(0x89e1_8285_7d9e_d688),
            outline: match class % 5 {
                0 => Outline::Disc,
                1 => Outline::Square,
                2 => Outline::Diamond,
                3 => Outline::Ring,
                _ => Outline::Bars,
            },
        }
    }
}

/// A plane wave over the image, as sine and cosine of its phase along each axis.
struct Grating {
    across: Vec<(f32, f32)>,
    down: Vec<(f32, f32)>,
    contrast: f32,
}

impl Grating {
    fn new(stream: &mut Stream, look: &Look, h: usize, w: usize) -> Self {
        let side = h.min(w) as f32;
        let angle = PI * look.angle + 0.03 * stream.normal();
        // From two waves to sixteen, but none shorter than four pixels.
        let finest = (side / 4.0).min(16.0);
        let waves = 2.0 + (finest - 2.0).max(0.0) * look.frequency;
        let pace = TAU * waves / side * stream.between(0.96, 1.04);
        let phase = TAU * stream.uniform();
        let axis = |length: usize, pace: f32, phase: f32| {
            let turn = |i: usize| libm::sincosf(pace * i as f32 + phase);
            (0..length).map(turn).collect()
        };
        Self {
            across: axis(w, pace * libm::cosf(angle), phase),
            down: axis(h, pace * libm::sinf(angle), 0.0),
            contrast: stream.between(30.0, 70.0),
        }
    }

    /// Row `y` of the wave: the sine of the sum of both phases.
    fn fill(&self, y: usize, wave: &mut [f32]) {
        let (sin, cos) = self.down[y];
        for (value, (s, c)) in wave.iter_mut().zip(&self.across) {
            *value = s * cos + c * sin;
        }
    }
}

/// The figure of one sample, in pixels.
struct Figure {
    outline: Outline,
    centre: (f32, f32),
    radius: f32,
    contrast: f32,
    w: usize,
}

impl Figure {
    fn new(stream: &mut Stream, look: &Look, h: usize, w: usize) -> Self {
        let place = |length: usize, at: f32| length as f32 * at;
        Self {
            outline: look.outline,
            centre: (
                place(w, stream.between(0.15, 0.85)),
                place(h, stream.between(0.15, 0.85)),
            ),
            radius: place(h.min(w), stream.between(0.15, 0.25)),
            contrast: stream.between(40.0, 80.0),
            w,
        }
    }

    /// The pixels of row `y` that the figure covers: one span or two, possibly empty.
    fn spans(&self, y: usize) -> [Range<usize>; 2] {
        let dy = (y as f32 + 0.5 - self.centre.1) / self.radius;
        let chord = |radius: f32| (radius * radius - dy * dy).max(0.0).sqrt();
        let (outer, inner) = match self.outline {
            Outline::Disc => (chord(1.0), 0.0),
            Outline::Square => (if dy.abs() < 0.9 { 0.9 } else { 0.0 }, 0.0),
            Outline::Diamond => ((1.2 - dy.abs()).max(0.0), 0.0),
            Outline::Ring => (chord(1.1), chord(0.6)),
            Outline::Bars => (if dy.abs() < 1.1 { 1.1 } else { 0.0 }, 0.4),
        };
        let pixel = |x: f32| ((self.centre.0 + self.radius * x + 0.5) as usize).min(self.w);
        [
            pixel(-outer)..pixel(-inner.min(outer)),
            pixel(inner.min(outer))..pixel(outer),
        ]
    }
}

/// How strongly channel `k` of `c` takes part in a hue, `-1.0..=1.0`; a single channel knows no hues.
fn colour(hue: f32, k: usize, c: usize) -> f32 {
    match c {
        1 => 1.0,
        _ => libm::cosf(TAU * (hue + k as f32 / 3.0)),
    }
}

/// Adds noise, eight pixels from each draw of the stream.
fn roughen(stream: &mut Stream, grain: f32, row: &mut [u8]) {
    for eight in row.chunks_mut(8) {
        let noise = stream.bits().to_le_bytes();
        for (pixel, byte) in eight.iter_mut().zip(noise) {
            *pixel = (f32::from(*pixel) + grain * (f32::from(byte) - 127.5)) as u8;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(index: u64, shape: (usize, usize, usize), classes: u32) -> (u32, Vec<u8>) {
        let mut pixels = vec![7; shape.0 * shape.1 * shape.2];
        (paint(1, index, shape, classes, &mut pixels), pixels)
    }

    fn fnv(bytes: impl Iterator<Item = u8>) -> u64 {
        bytes.fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
        })
    }

    #[test]
    fn the_first_images_of_a_seed_never_change() {
        let images = (0..20).map(|index| sample(index, (3, 20, 24), 1000));
        let sum = fnv(images.flat_map(|(class, pixels)| pixels.into_iter().chain([class as u8])));
        assert_eq!(
            sum, 0x1be2_4bfa_7455_f7ad,
            "the data set is now another one: {sum:#x}"
        );
    }

    #[test]
    fn every_class_occurs_and_none_beyond() {
        let mut seen = [false; 50];
        for index in 0..1_000 {
            seen[sample(index, (1, 2, 2), 50).0 as usize] = true;
        }
        assert!(seen.iter().all(|seen| *seen), "{seen:?}");
    }

    #[test]
    fn ragged_shapes_are_painted_all_over() {
        for shape in [(1, 9, 8), (2, 5, 33), (3, 61, 7), (4, 16, 16), (3, 1, 1)] {
            for index in 0..20 {
                let (_, pixels) = sample(index, shape, 7);
                let flat = pixels.iter().all(|pixel| *pixel == pixels[0]);
                assert!(!flat, "shape {shape:?}, image {index}");
            }
        }
    }

    #[test]
    fn a_thousand_classes_look_different() {
        let looks: Vec<Look> = (0..1000).map(Look::new).collect();
        let apart = |a: f32, b: f32| {
            let d = (a - b).abs();
            d.min(1.0 - d)
        };
        for (i, a) in looks.iter().enumerate() {
            for (j, b) in looks[..i]
                .iter()
                .enumerate()
                .filter(|(j, _)| i % 5 == j % 5)
            {
                let most = apart(a.angle, b.angle)
                    .max((a.frequency - b.frequency).abs())
                    .max(apart(a.grating_hue, b.grating_hue))
                    .max(apart(a.figure_hue, b.figure_hue));
                assert!(most > 0.03, "classes {i} and {j}: {most}");
            }
        }
    }
}
