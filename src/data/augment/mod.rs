//! Random changes of training images: which ones there are, and what is drawn for a sample.

mod pixels;
#[cfg(test)]
mod tests;

use std::fmt;
use std::str::FromStr;

use super::Shape;
use crate::rng::Stream;
use crate::{Error, Result};
use pixels::{Colour, View, Window};

pub(super) use pixels::Augmenter;

/// Names this use of random numbers: "augm".
const PURPOSE: u64 = 0x6175_676d;

/// The widest of a part that is cut out, relative to the image's own proportions; the narrowest is one over it.
const WIDEST: f32 = 4.0 / 3.0;

/// What may be changed about an image each time it is trained on.
///
/// As text: a list such as `flip,rotate,crop=0.3`.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Augment {
    /// Left becomes right, in half of the cases.
    pub flip: bool,
    /// Up becomes down, in half of the cases.
    pub flip_vertical: bool,
    /// Turned by 0, 90, 180 or 270 degrees.
    pub rotate: bool,
    /// Turned by up to so many degrees either way; corners are filled from the edge.
    pub tilt: Option<f32>,
    /// A part with at least this share of the area, enlarged to the whole.
    pub crop: Option<f32>,
    /// Brightness, contrast and (with three channels) saturation, each by up to this share either way.
    pub colour: Option<f32>,
}

impl Augment {
    /// Whether images stay as they are.
    pub fn is_none(&self) -> bool {
        *self == Self::default()
    }

    /// Refuses changes that make no sense for images of `shape`.
    pub fn check(&self, shape: Shape) -> Result<()> {
        let colour_only = Self {
            colour: self.colour,
            ..Self::default()
        };
        let mismatch = |expected: &str, hint| {
            Err(Error::Mismatch {
                what: format!("images for --augment {self}"),
                expected: expected.into(),
                got: shape.to_string(),
                hint,
            })
        };
        if *self != colour_only && shape.h.min(shape.w) < 2 {
            let hint = "rows of numbers are no pictures: leave all but colour out";
            return mismatch("at least 2×2 pixels", hint);
        }
        if self.rotate && shape.h != shape.w {
            let hint = "turned by 90 degrees they would have another shape: use flip,flip-vertical or tilt";
            return mismatch("as many rows as columns", hint);
        }
        Ok(())
    }

    /// What becomes of a sample in an epoch.
    ///
    /// Every number is drawn whether it is used or not: one change more leaves the others as they were.
    fn draw(&self, seed: u64, epoch: u64, sample: u64, shape: Shape) -> Draw {
        let mut stream = Stream::new(&[seed, epoch, sample, PURPOSE]);
        let coins = stream.bits();
        let mut view = View::of(shape);
        if self.rotate {
            (0..coins >> 2 & 3).for_each(|_| view.turn(shape));
        }
        if self.flip && coins & 1 == 1 {
            view.flip(shape);
        }
        if self.flip_vertical && coins & 2 == 2 {
            view.flip_vertical(shape);
        }
        let numbers: [f32; 8] = std::array::from_fn(|_| stream.uniform());
        let [
            angle,
            area,
            ratio,
            top,
            left,
            brightness,
            contrast,
            saturation,
        ] = numbers;
        let (h, w) = self.crop.map_or((1.0, 1.0), |least| {
            let area = least + (1.0 - least) * area;
            let ratio = libm::powf(WIDEST, 2.0 * ratio - 1.0);
            let side = |share: f32| libm::sqrtf(share).min(1.0);
            (side(area / ratio), side(area * ratio))
        });
        let degrees = self.tilt.map_or(0.0, |most| most * (2.0 * angle - 1.0));
        let resampled = self.crop.is_some() || self.tilt.is_some();
        Draw {
            view,
            window: resampled
                .then(|| Window::new(shape, (top, left), (h, w), degrees.to_radians())),
            colour: self.colour.map(|most| Colour {
                brightness: 1.0 + most * (2.0 * brightness - 1.0),
                contrast: 1.0 + most * (2.0 * contrast - 1.0),
                saturation: 1.0 + most * (2.0 * saturation - 1.0),
            }),
        }
    }
}

/// What is done to one image, in this order.
#[derive(Debug, PartialEq)]
struct Draw {
    view: View,
    window: Option<Window>,
    colour: Option<Colour>,
}

impl FromStr for Augment {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (mut augment, mut seen) = (Self::default(), Vec::new());
        for item in text.split(',').map(str::trim) {
            let (name, value) = match item.split_once('=') {
                Some((name, value)) => (name, Some(value)),
                None => (item, None),
            };
            if seen.contains(&name) {
                return Err(format!("`{name}` is there twice"));
            }
            seen.push(name);
            match (name, value) {
                ("flip", None) => augment.flip = true,
                ("flip-vertical", None) => augment.flip_vertical = true,
                ("rotate", None) => augment.rotate = true,
                ("tilt", value) => augment.tilt = Some(number(item, value, 15.0, 180.0)?),
                ("crop", value) => augment.crop = Some(number(item, value, 0.3, 1.0)?),
                ("colour", value) => augment.colour = Some(number(item, value, 0.2, 1.0)?),
                ("flip" | "flip-vertical" | "rotate", Some(_)) => {
                    return Err(format!("`{name}` takes no number, and has `{item}`"));
                }
                _ => {
                    return Err(format!(
                        "there is no `{item}`; there are flip, flip-vertical, rotate, tilt, crop and colour"
                    ));
                }
            }
        }
        Ok(augment)
    }
}

/// The number of `item`, above 0 and up to `most`.
fn number(item: &str, value: Option<&str>, usual: f32, most: f32) -> Result<f32, String> {
    let Some(value) = value else {
        return Ok(usual);
    };
    match value.parse::<f32>() {
        Ok(number) if number > 0.0 && number <= most => Ok(number),
        _ => Err(format!(
            "`{item}` needs a number above 0 and up to {most}, such as {usual}"
        )),
    }
}

impl fmt::Display for Augment {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        let plain = [
            (self.flip, "flip"),
            (self.flip_vertical, "flip-vertical"),
            (self.rotate, "rotate"),
        ];
        let measured = [
            (self.tilt, "tilt"),
            (self.crop, "crop"),
            (self.colour, "colour"),
        ];
        let mut items: Vec<String> = Vec::new();
        items.extend(
            plain
                .iter()
                .filter(|(on, _)| *on)
                .map(|(_, name)| name.to_string()),
        );
        items.extend(
            measured
                .iter()
                .filter_map(|(value, name)| value.map(|value| format!("{name}={value}"))),
        );
        if items.is_empty() {
            items.push("none".into());
        }
        f.write_str(&items.join(","))
    }
}
