//! Photos that are drawn here, in all formats and orientations, and what becomes of them.

mod listings;
mod pictures;
mod sets;

use std::fs;
use std::path::{Path, PathBuf};

use image::codecs::jpeg::JpegEncoder;
use image::{ExtendedColorType, ImageFormat, RgbImage};

use super::reader::Reader;
use super::*;
use crate::comm::run_ranks;
use crate::{Error, Result};

const MOST: u64 = 1 << 26;

/// A photo of `w` by `h` with a colour for each corner, smooth between them.
fn drawn(w: u32, h: u32, tone: u8) -> RgbImage {
    RgbImage::from_fn(w, h, |x, y| {
        let (x, y) = (x * 255 / w.max(2), y * 255 / h.max(2));
        image::Rgb([x as u8, y as u8, tone])
    })
}

fn file(image: &RgbImage, format: ImageFormat) -> Vec<u8> {
    let mut bytes = std::io::Cursor::new(Vec::new());
    image.write_to(&mut bytes, format).unwrap();
    bytes.into_inner()
}

/// A JPEG file of `image` whose EXIF asks for an orientation.
fn turned(image: &RgbImage, orientation: u8) -> Vec<u8> {
    let mut bytes = Vec::new();
    JpegEncoder::new_with_quality(&mut bytes, 95)
        .encode(
            image,
            image.width(),
            image.height(),
            ExtendedColorType::Rgb8,
        )
        .unwrap();
    // A directory of one entry: tag 0x112, one short number.
    let mut exif = b"Exif\0\0MM\0\x2a\0\0\0\x08\0\x01\x01\x12\0\x03\0\0\0\x01\0".to_vec();
    exif.extend([orientation, 0, 0, 0, 0, 0, 0]);
    let length = (exif.len() as u16 + 2).to_be_bytes();
    let segment = [&[0xff, 0xe1][..], &length, &exif].concat();
    bytes.splice(2..2, segment);
    bytes
}

/// The greatest difference between two pictures.
fn apart(a: &[u8], b: &[u8]) -> u8 {
    assert_eq!(a.len(), b.len());
    (a.iter().zip(b))
        .map(|(a, b)| a.abs_diff(*b))
        .max()
        .unwrap()
}

fn pixels(bytes: &[u8], shape: Shape, fit: Fit) -> Vec<u8> {
    Reader::new(shape, fit, MOST)
        .pixels(bytes)
        .unwrap()
        .to_vec()
}

fn shape(c: usize, h: usize, w: usize) -> Shape {
    Shape { c, h, w }
}

/// The checksum of a part of a PNG file.
fn crc32(bytes: &[u8]) -> u32 {
    !bytes.iter().fold(!0, |crc, &byte| {
        let bit = |crc: u32, _| (crc >> 1) ^ (0xedb8_8320 & (crc & 1).wrapping_neg());
        (0..8).fold(crc ^ u32::from(byte), bit)
    })
}

/// A file whose header promises 20,000 by 20,000 pixels, and that has next to nothing of them.
fn bomb(format: ImageFormat) -> Vec<u8> {
    let small = drawn(16, 16, 0);
    match format {
        ImageFormat::Png => {
            let mut bytes = file(&small, format);
            bytes[16..24].copy_from_slice(&[0, 0, 0x4e, 0x20, 0, 0, 0x4e, 0x20]);
            let crc = crc32(&bytes[12..29]);
            bytes[29..33].copy_from_slice(&crc.to_be_bytes());
            bytes
        }
        _ => {
            let mut bytes = turned(&small, 1);
            let frame = bytes
                .windows(2)
                .position(|two| two == [0xff, 0xc0])
                .unwrap();
            bytes[frame + 5..frame + 9].copy_from_slice(&[0x4e, 0x20, 0x4e, 0x20]);
            bytes
        }
    }
}

/// Files that are no photos, in the order of their names, and what is said of them.
fn spoiled(jpeg: &[u8]) -> Vec<(&'static str, Vec<u8>, &'static str)> {
    vec![
        ("bomb.jpg", bomb(ImageFormat::Jpeg), "20000×20000"),
        ("bomb.png", bomb(ImageFormat::Png), "20000×20000"),
        (
            "cut.jpg",
            jpeg[..jpeg.len() / 2].to_vec(),
            "is no whole JPEG",
        ),
        ("empty.jpg", Vec::new(), "the file is empty"),
        ("text.jpg", b"Dear reader".to_vec(), "is neither JPEG"),
    ]
}

/// A folder of photos in three classes, of all formats and some sizes.
fn folder(path: &Path, photos: u32) {
    for i in 0..photos {
        let class = ["apple", "fig", "pear"][i as usize % 3];
        let image = drawn(20 + i % 7, 30 - i % 5, (i * 11) as u8);
        let (ending, bytes) = match i % 4 {
            0 => ("png", file(&image, ImageFormat::Png)),
            1 => ("webp", file(&image, ImageFormat::WebP)),
            _ => ("jpg", turned(&image, (i % 8) as u8 + 1)),
        };
        let folder = path.join(class);
        fs::create_dir_all(&folder).unwrap();
        fs::write(folder.join(format!("{i:03}.{ending}")), bytes).unwrap();
    }
}

fn asked(photos: &Path, out: PathBuf) -> Pack {
    Pack {
        shard_size: 8 * 8 * 3 * 7,
        most_pixels: MOST,
        ..Pack::new(photos.to_path_buf(), out, shape(3, 8, 8))
    }
}

/// What `ranks` threads make of it, as the first tells.
fn packed(ranks: usize, asked: &Pack) -> Result<Report> {
    let mut ends = run_ranks(ranks, |comm| pack(comm, asked));
    let failed = |end: &Result<Report>| !matches!(end, Ok(_) | Err(Error::Peer { .. }));
    let first = ends.iter().position(failed).unwrap_or(0);
    ends.swap_remove(first)
}

fn contents(folder: &Path) -> Vec<(String, Vec<u8>)> {
    let mut all: Vec<_> = fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap())
        .map(|entry| {
            let name = entry.file_name().to_string_lossy().into_owned();
            (name, fs::read(entry.path()).unwrap())
        })
        .collect();
    all.sort();
    all
}
