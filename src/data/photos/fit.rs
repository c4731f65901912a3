//! Bringing a photo to the size of all others, upright.

use std::fmt;
use std::str::FromStr;

use fast_image_resize::images::{Image, ImageRef};
use fast_image_resize::{FilterType, PixelType, ResizeAlg, ResizeOptions, Resizer};

use super::decode::Picture;
use crate::backend::cpu::wide;
use crate::data::Shape;

/// How photos of other proportions become the size that is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fit {
    /// The middle, as large as it can be; the rest is cut off.
    Crop,
    /// All of it, with black around.
    Pad,
    /// All of it, distorted.
    Stretch,
}

impl fmt::Display for Fit {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str(match self {
            Self::Crop => "crop",
            Self::Pad => "pad",
            Self::Stretch => "stretch",
        })
    }
}

impl FromStr for Fit {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        [Self::Crop, Self::Pad, Self::Stretch]
            .into_iter()
            .find(|fit| fit.to_string() == text)
            .ok_or_else(|| format!("there is no `{text}`; there are crop, pad and stretch"))
    }
}

/// Scales photos, with memory that is used again.
#[derive(Default)]
pub(super) struct Fitter {
    resizer: Resizer,
    scaled: Vec<u8>,
}

impl Fitter {
    /// Writes `picture` as `out` (c, h, w), upright: each value the mean over what it covers, weighted by a triangle.
    pub(super) fn fit(&mut self, picture: &Picture, shape: Shape, fit: Fit, out: &mut [u8]) {
        let inner = inner(picture, shape, fit);
        let turned = Turn::new(picture.orientation, inner);
        let (left, top) = ((shape.w - inner.0) / 2, (shape.h - inner.1) / 2);
        if inner != (shape.w, shape.h) {
            out.fill(0);
        }
        let c = picture.channels;
        let scaled = match (picture.w, picture.h) == turned.size {
            true => &picture.pixels,
            false => self.scale(picture, turned.size, fit),
        };
        if turned.is_upright() && c == 3 {
            apart(scaled, inner, shape, (left, top), out);
            return;
        }
        for (channel, plane) in out.chunks_exact_mut(shape.w * shape.h).enumerate() {
            for y in 0..inner.1 {
                let row = &mut plane[(top + y) * shape.w + left..][..inner.0];
                let (start, step) = turned.row(y);
                let mut at = start * c as isize + channel as isize;
                for value in row {
                    *value = scaled[at as usize];
                    at += step * c as isize;
                }
            }
        }
    }

    /// `picture`, or its middle, scaled to `size`.
    fn scale(&mut self, picture: &Picture, size: (usize, usize), fit: Fit) -> &[u8] {
        let kind = match picture.channels {
            1 => PixelType::U8,
            _ => PixelType::U8x3,
        };
        let (w, h) = (picture.w as u32, picture.h as u32);
        let source =
            ImageRef::new(w, h, &picture.pixels, kind).expect("a picture has all its pixels");
        let options = ResizeOptions::new().resize_alg(ResizeAlg::Convolution(FilterType::Bilinear));
        let options = match fit {
            Fit::Crop => options.fit_into_destination(Some((0.5, 0.5))),
            _ => options,
        };
        self.scaled.resize(size.0 * size.1 * picture.channels, 0);
        let (w, h) = (size.0 as u32, size.1 as u32);
        let mut scaled =
            Image::from_slice_u8(w, h, &mut self.scaled, kind).expect("the memory has that size");
        self.resizer
            .resize(&source, &mut scaled, &options)
            .expect("both have one kind of pixels");
        &self.scaled
    }
}

/// Writes pixels of three values beside each other as three planes: what most photos need, with the memory read once.
fn apart(
    pixels: &[u8],
    (w, h): (usize, usize),
    shape: Shape,
    (left, top): (usize, usize),
    out: &mut [u8],
) {
    let plane = shape.w * shape.h;
    let (red, rest) = out.split_at_mut(plane);
    let (green, blue) = rest.split_at_mut(plane);
    let (pixels, _) = pixels.as_chunks::<3>();
    for (y, pixels) in pixels.chunks_exact(w).take(h).enumerate() {
        let row = (top + y) * shape.w + left..(top + y) * shape.w + left + w;
        let (red, green, blue) = (
            &mut red[row.clone()],
            &mut green[row.clone()],
            &mut blue[row],
        );
        wide(|| {
            // In step, without a place to check: so compilers take many at once.
            for (((&[r, g, b], red), green), blue) in pixels.iter().zip(red).zip(green).zip(blue) {
                (*red, *green, *blue) = (r, g, b);
            }
        });
    }
}

/// Width and height of what is seen of the photo, upright.
fn inner(picture: &Picture, shape: Shape, fit: Fit) -> (usize, usize) {
    if fit != Fit::Pad {
        return (shape.w, shape.h);
    }
    let (w, h) = match picture.orientation >= 5 {
        true => (picture.h, picture.w),
        false => (picture.w, picture.h),
    };
    // The side that is as long as asked for is so exactly; products in 128 bits cannot overflow.
    let other = |side: usize, of: usize, by: usize| {
        let scaled = (2 * side as u128 * by as u128 + of as u128) / (2 * of as u128);
        (scaled as usize).max(1)
    };
    match w as u128 * shape.h as u128 >= h as u128 * shape.w as u128 {
        true => (shape.w, other(h, w, shape.w).min(shape.h)),
        false => (other(w, h, shape.h).min(shape.w), shape.h),
    }
}

/// Where an upright picture's pixels are in one that lies otherwise.
struct Turn {
    /// Width and height as it lies.
    size: (usize, usize),
    /// Whether rows become columns; then whether each goes backwards.
    swapped: bool,
    backwards: (bool, bool),
}

impl Turn {
    /// For a picture of `upright` width and height that EXIF gives this orientation.
    fn new(orientation: u8, (w, h): (usize, usize)) -> Self {
        let swapped = orientation >= 5;
        Self {
            size: if swapped { (h, w) } else { (w, h) },
            swapped,
            backwards: match orientation {
                2 | 8 => (true, false),
                3 | 7 => (true, true),
                4 | 6 => (false, true),
                _ => (false, false),
            },
        }
    }

    /// Whether it lies as it stands.
    fn is_upright(&self) -> bool {
        !self.swapped && self.backwards == (false, false)
    }

    /// Where row `y` of the upright picture begins, and the way to its next pixel.
    fn row(&self, y: usize) -> (isize, isize) {
        let (w, h) = (self.size.0 as isize, self.size.1 as isize);
        let at = |x: isize, y: isize| {
            let (u, v) = if self.swapped { (y, x) } else { (x, y) };
            let u = if self.backwards.0 { w - 1 - u } else { u };
            let v = if self.backwards.1 { h - 1 - v } else { v };
            v * w + u
        };
        let y = y as isize;
        (at(0, y), at(1, y) - at(0, y))
    }
}
