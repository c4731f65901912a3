//! Photos: JPEG, PNG and WebP files, some of them with EXIF.

use image::{ImageFormat, RgbImage};
use phalanx::data::Shape;
use phalanx::data::photos::{Fit, pixels};

use super::{Place, Target};

pub const TARGET: Target = Target {
    name: "photo",
    seeds,
    run,
};

/// The most pixels that are decoded: a few, so that an input is soon done.
const MOST: u64 = 1 << 20;

fn seeds(_: &Place) -> Vec<Vec<u8>> {
    let image = RgbImage::from_fn(17, 11, |x, y| {
        image::Rgb([x as u8 * 15, y as u8 * 20, (x * y) as u8])
    });
    let file = |format| {
        let mut bytes = std::io::Cursor::new(Vec::new());
        image.write_to(&mut bytes, format).expect("memory takes it");
        bytes.into_inner()
    };
    let mut turned = file(ImageFormat::Jpeg);
    let exif = b"\xff\xe1\x00\x22Exif\0\0MM\0\x2a\0\0\0\x08\0\x01\x01\x12\0\x03\0\0\0\x01\0\x06\0\0\0\0\0\0";
    turned.splice(2..2, exif.iter().copied());
    vec![
        file(ImageFormat::Jpeg),
        turned,
        file(ImageFormat::Png),
        file(ImageFormat::WebP),
    ]
}

fn run(_: &Place, input: &[u8]) {
    let wide = Shape { c: 3, h: 5, w: 9 };
    let grey = Shape { c: 1, h: 8, w: 4 };
    for (shape, fit) in [(wide, Fit::Crop), (grey, Fit::Pad)] {
        let _ = pixels(input, shape, fit, MOST);
    }
}
