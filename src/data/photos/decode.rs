//! From the bytes of a photo to pixels: JPEG, PNG and WebP, held to limits before anything is decoded.

use std::fmt::Display;
use std::io::Cursor;

use image::codecs::jpeg::JpegEncoder;
use image::codecs::png::{PngDecoder, PngEncoder};
use image::codecs::webp::WebPDecoder;
use image::metadata::Orientation;
use image::{DynamicImage, ExtendedColorType, ImageDecoder, ImageEncoder, ImageFormat, Limits};
use zune_jpeg::JpegDecoder;
use zune_jpeg::zune_core::bytestream::ZCursor;
use zune_jpeg::zune_core::colorspace::ColorSpace;
use zune_jpeg::zune_core::options::DecoderOptions;

use super::MOST_PIXELS;
use crate::data::Shape;

/// The widest and highest that any of the formats can be.
const SIDE: usize = 1 << 31;

/// Weights of red, green and blue in grey, in thousandths, as JPEG has them.
const GREY: [u32; 3] = [299, 587, 114];

/// A decoded photo.
#[derive(Debug)]
pub(super) struct Picture {
    pub(super) w: usize,
    pub(super) h: usize,
    /// 1 for grey, 3 for red, green and blue.
    pub(super) channels: usize,
    /// Values of a pixel beside each other, row by row.
    pub(super) pixels: Vec<u8>,
    /// How to hold it, as EXIF numbers it: 1 to 8.
    pub(super) orientation: u8,
}

/// Whether these bytes begin as a JPEG file does.
pub(super) fn is_jpeg(bytes: &[u8]) -> bool {
    bytes.starts_with(&[0xff, 0xd8, 0xff])
}

/// Decodes a photo into so many channels, or says why it cannot be.
///
/// A photo of more than `most` pixels is refused by what its header says: at most about twelve bytes a pixel are allocated, and
/// four times what the file has. Transparent parts become black.
pub(super) fn decode(bytes: &[u8], channels: usize, most: u64) -> Result<Picture, String> {
    if bytes.is_empty() {
        return Err("the file is empty".into());
    }
    if is_jpeg(bytes) {
        return jpeg(bytes, channels, most);
    }
    match image::guess_format(bytes) {
        Ok(ImageFormat::Png) => png(bytes, channels, most),
        Ok(ImageFormat::WebP) => webp(bytes, channels, most),
        _ => Err("is neither JPEG, PNG nor WebP".into()),
    }
}

/// Of a JPEG file: how EXIF asks to hold the photo, 1 to 8, or why not all of it can be decoded.
pub(in crate::data) fn held(file: &[u8], channels: usize) -> Option<Result<u8, String>> {
    let photo = is_jpeg(file).then(|| jpeg(file, channels, MOST_PIXELS))?;
    Some(photo.map(|photo| photo.orientation))
}

fn check(w: usize, h: usize, most: u64) -> Result<(), String> {
    match (w as u64).checked_mul(h as u64) {
        Some(0) => Err(format!("has {w}×{h} pixels")),
        Some(pixels) if pixels <= most => Ok(()),
        _ => Err(format!(
            "has {w}×{h} pixels, more than the {most} of --most-pixels"
        )),
    }
}

/// What is said of a file that cannot be decoded, in one line.
fn broken(format: &str, error: impl Display) -> String {
    let error = error.to_string();
    let words: Vec<&str> = error.split_whitespace().collect();
    format!("is no whole {format}: {}", words.join(" "))
}

fn jpeg(bytes: &[u8], channels: usize, most: u64) -> Result<Picture, String> {
    let wrong = |error| broken("JPEG", error);
    // Strict: a lenient decoder paints what is missing of a file grey. Where rows are missing but the mark of the end is not,
    // both do.
    let options = DecoderOptions::default()
        .set_strict_mode(true)
        .set_max_width(SIDE)
        .set_max_height(SIDE)
        .jpeg_set_out_colorspace(ColorSpace::RGB);
    let mut decoder = JpegDecoder::new_with_options(ZCursor::new(bytes), options);
    decoder.decode_headers().map_err(wrong)?;
    let (w, h) = decoder
        .dimensions()
        .expect("a decoded header has dimensions");
    check(w, h, most)?;
    let orientation = decoder
        .exif()
        .and_then(|exif| Orientation::from_exif_chunk(exif));
    // Grey is at hand where light is stored apart from colours; of others the decoder makes none.
    let space = decoder.input_colorspace();
    let light = channels == 1 && matches!(space, Some(ColorSpace::YCbCr | ColorSpace::Luma));
    if light {
        decoder.set_options(options.jpeg_set_out_colorspace(ColorSpace::Luma));
    }
    let pixels = decoder.decode().map_err(wrong)?;
    // What is missing of the last rows only, the decoder does not notice.
    if !ends(bytes) {
        return Err(broken("JPEG", "its end is missing"));
    }
    let (each, expected) = (pixels.len() / (w * h), if light { 1 } else { 3 });
    if pixels.len() != w * h * expected {
        let problem = format!("{each} channels, expected {expected}");
        return Err(broken("JPEG", problem));
    }
    Ok(Picture {
        w,
        h,
        channels,
        pixels: match expected == channels {
            true => pixels,
            false => greys(&pixels),
        },
        orientation: orientation.map_or(1, Orientation::to_exif),
    })
}

/// Whether a JPEG file has the mark of its end behind its first scan: in scans no other byte follows 0xff but zero and marks.
fn ends(bytes: &[u8]) -> bool {
    let mut at = 2;
    while let Some(&[0xff, mark, high, low]) = bytes.get(at..at + 4) {
        if mark == 0xda {
            let scan = &bytes[at..];
            return scan.windows(2).rev().any(|two| two == [0xff, 0xd9]);
        }
        at += match mark {
            // A byte to fill up.
            0xff => 1,
            _ => 2 + usize::from(u16::from_be_bytes([high, low])),
        };
    }
    false
}

fn png(bytes: &[u8], channels: usize, most: u64) -> Result<Picture, String> {
    let mut limits = Limits::no_limits();
    if let Some(head) = bytes.first_chunk::<24>() {
        let side = |at: usize| {
            head[at..at + 4]
                .iter()
                .fold(0, |n, &byte| n << 8 | usize::from(byte))
        };
        let (w, h) = (side(16), side(20));
        check(w, h, most)?;
        // Room for a row, and for all words of the file: a packed profile that has more is not unpacked.
        limits.max_alloc = Some((8 * w + 3 * bytes.len() + (1 << 20)) as u64);
    }
    let decoder = PngDecoder::with_limits(Cursor::new(bytes), limits);
    let mut decoder = decoder.map_err(|error| broken("PNG", error))?;
    // Words about a photo that nobody understands do not make it unreadable.
    let orientation = decoder.orientation().ok();
    picture("PNG", decoder, orientation, channels)
}

fn webp(bytes: &[u8], channels: usize, most: u64) -> Result<Picture, String> {
    let parts = || chunks(bytes.get(12..).unwrap_or_default());
    let (frames, exif) = (|| parts().filter(is("ANMF")), parts().find(is("EXIF")));
    // Frames say once more how large they are, and are decoded before the two are compared.
    let inner = frames().flat_map(|(_, frame)| chunks(frame.get(16..).unwrap_or_default()));
    for (_, lossy) in parts().chain(inner).filter(is("VP8 ")) {
        if let Some(&[a, b, c, d]) = lossy.get(6..10) {
            let side = |two| usize::from(u16::from_le_bytes(two) & 0x3fff);
            check(side([a, b]), side([c, d]), most)?;
        }
    }
    let decoder = WebPDecoder::new(Cursor::new(bytes));
    let decoder = decoder.map_err(|error| broken("WebP", error))?;
    let (w, h) = decoder.dimensions();
    check(w as usize, h as usize, most)?;
    let orientation = exif.and_then(|(_, exif)| Orientation::from_exif_chunk(exif));
    picture("WebP", decoder, orientation, channels)
}

/// A part of a WebP file: its name, and what is there of its content.
type Chunk<'a> = (&'a [u8], &'a [u8]);

/// The parts that follow each other in a WebP file.
fn chunks(mut rest: &[u8]) -> impl Iterator<Item = Chunk<'_>> {
    std::iter::from_fn(move || {
        let (&[.., a, b, c, d], content) = rest.split_first_chunk::<8>()?;
        let (name, length) = (&rest[..4], u32::from_le_bytes([a, b, c, d]) as usize);
        rest = content.get(length + length % 2..).unwrap_or_default();
        Some((name, content.get(..length).unwrap_or(content)))
    })
}

/// Picks the parts of one name.
fn is(name: &str) -> impl Fn(&Chunk<'_>) -> bool {
    move |(found, _)| *found == name.as_bytes()
}

/// What a decoder gives.
fn picture(
    format: &str,
    decoder: impl ImageDecoder,
    orientation: Option<Orientation>,
    channels: usize,
) -> Result<Picture, String> {
    let (w, h) = decoder.dimensions();
    let image = DynamicImage::from_decoder(decoder).map_err(|error| broken(format, error))?;
    Ok(Picture {
        w: w as usize,
        h: h as usize,
        channels,
        pixels: plain(image, channels),
        orientation: orientation.map_or(1, Orientation::to_exif),
    })
}

/// Bytes of grey, or of red, green and blue.
fn plain(image: DynamicImage, channels: usize) -> Vec<u8> {
    let coloured = image.color().has_color();
    let rgb = if image.color().has_alpha() {
        let over = |value: u8, alpha: u8| ((u32::from(value) * u32::from(alpha) + 127) / 255) as u8;
        let pixels = image.into_rgba8().into_raw();
        let (pixels, _) = pixels.as_chunks::<4>();
        pixels
            .iter()
            .flat_map(|&[r, g, b, a]| [over(r, a), over(g, a), over(b, a)])
            .collect()
    } else if channels == 1 && !coloured {
        return image.into_luma8().into_raw();
    } else {
        image.into_rgb8().into_raw()
    };
    match channels {
        1 => greys(&rgb),
        _ => rgb,
    }
}

/// The light of pixels of red, green and blue.
fn greys(rgb: &[u8]) -> Vec<u8> {
    rgb.as_chunks().0.iter().map(|&rgb| grey(rgb)).collect()
}

fn grey(rgb: [u8; 3]) -> u8 {
    let sum: u32 = (rgb.iter().zip(GREY))
        .map(|(&value, weight)| u32::from(value) * weight)
        .sum();
    ((sum + 500) / 1000) as u8
}

/// A PNG file of pixels (h, w, channels), 1 or 3 channels.
fn encoded_png(pixels: &[u8], (w, h): (usize, usize)) -> Result<Vec<u8>, String> {
    let mut bytes = Vec::new();
    PngEncoder::new(&mut bytes)
        .write_image(pixels, w as u32, h as u32, colour(pixels, w * h))
        .map_err(|error| format!("cannot be a PNG: {error}"))?;
    Ok(bytes)
}

/// A PNG file of pixels (c, h, w), 1 or 3 channels.
pub(in crate::data) fn png_of_planes(pixels: &[u8], shape: Shape) -> Result<Vec<u8>, String> {
    encoded_png(&beside(pixels, shape), (shape.w, shape.h))
}

/// A JPEG file of pixels (c, h, w), 1 or 3 channels.
pub fn jpeg_of_planes(pixels: &[u8], shape: Shape, quality: u8) -> Result<Vec<u8>, String> {
    encode(&beside(pixels, shape), (shape.w, shape.h), quality)
}

/// Pixels (c, h, w) as (h, w, c).
pub(in crate::data) fn beside(pixels: &[u8], shape: Shape) -> Vec<u8> {
    let (c, plane) = (shape.c, shape.h * shape.w);
    (0..pixels.len())
        .map(|i| pixels[i % c * plane + i / c])
        .collect()
}

fn colour(pixels: &[u8], plane: usize) -> ExtendedColorType {
    match pixels.len() / plane {
        1 => ExtendedColorType::L8,
        _ => ExtendedColorType::Rgb8,
    }
}

/// Bytes of a JPEG file of pixels (h, w, channels), 1 or 3 channels.
pub(super) fn encode(
    pixels: &[u8],
    (w, h): (usize, usize),
    quality: u8,
) -> Result<Vec<u8>, String> {
    let mut bytes = Vec::new();
    JpegEncoder::new_with_quality(&mut bytes, quality)
        .encode(pixels, w as u32, h as u32, colour(pixels, w * h))
        .map_err(|error| format!("cannot be a JPEG: {error}"))?;
    Ok(bytes)
}
