//! Photos become pixels: formats, orientations, sizes, and files that are no photos.

use image::imageops::{flip_horizontal, flip_vertical, rotate90, rotate180, rotate270};

use super::*;
use crate::data::photos::decode::decode;
use crate::data::photos::fit::Fitter;

#[test]
fn every_format_gives_the_same_picture_and_grey_is_its_light() {
    let image = drawn(40, 24, 200);
    let colours = shape(3, 24, 40);
    let png = pixels(&file(&image, ImageFormat::Png), colours, Fit::Crop);
    let plane = 24 * 40;
    for (i, pixel) in image.pixels().enumerate() {
        assert_eq!(pixel.0, [png[i], png[plane + i], png[2 * plane + i]]);
    }
    let webp = file(&image, ImageFormat::WebP);
    assert_eq!(pixels(&webp, colours, Fit::Crop), png);
    let jpeg = turned(&image, 1);
    assert!(apart(&pixels(&jpeg, colours, Fit::Crop), &png) < 12);
    let grey = pixels(&file(&image, ImageFormat::Png), shape(1, 24, 40), Fit::Crop);
    let light = |i: usize| {
        let weighted = [299, 587, 114].iter().enumerate();
        let sum: u32 = weighted
            .map(|(k, weight)| u32::from(png[k * plane + i]) * weight)
            .sum();
        ((sum + 500) / 1000) as u8
    };
    assert_eq!(grey, (0..plane).map(light).collect::<Vec<u8>>());
    assert!(apart(&pixels(&jpeg, shape(1, 24, 40), Fit::Crop), &grey) < 8);
    let l8 = image::DynamicImage::from(image).to_luma8();
    let mut bytes = std::io::Cursor::new(Vec::new());
    l8.write_to(&mut bytes, ImageFormat::Jpeg).unwrap();
    let three = pixels(bytes.get_ref(), colours, Fit::Crop);
    assert!(apart(&three[..plane], l8.as_raw()) < 8);
    assert!(three[..plane] == three[plane..2 * plane] && three[..plane] == three[2 * plane..]);
}

/// A JPEG file that stores red, green and blue could not become grey: its decoder makes light of YCbCr only.
#[test]
fn a_jpeg_file_in_other_colours_becomes_grey_too() {
    let image = drawn(40, 24, 200);
    let mut jpeg = turned(&image, 1);
    // The parts of a frame and of a scan that name its three values.
    for (mark, first, step) in [(0xc0, 10, 3), (0xda, 5, 2)] {
        let at = jpeg.windows(2).position(|two| two == [0xff, mark]).unwrap();
        (0..3).for_each(|i| jpeg[at + first + step * i] = b"RGB"[i]);
    }
    let colours = decode(&jpeg, 3, MOST).unwrap().pixels;
    let grey = decode(&jpeg, 1, MOST).unwrap();
    assert_eq!((grey.channels, grey.pixels.len()), (1, 40 * 24));
    for (rgb, &grey) in colours.chunks(3).zip(&grey.pixels) {
        let weighted = (rgb.iter().zip([299, 587, 114])).map(|(&v, weight)| u32::from(v) * weight);
        assert_eq!((weighted.sum::<u32>() + 500) / 1000, u32::from(grey));
    }
}

#[test]
fn all_orientations_of_exif_are_turned_upright() {
    let upright = drawn(32, 16, 90);
    let wanted = pixels(&turned(&upright, 1), shape(3, 16, 32), Fit::Stretch);
    // What a camera stores that is held so, by the meaning of each number in the specification.
    let stored = [
        upright.clone(),
        flip_horizontal(&upright),
        rotate180(&upright),
        flip_vertical(&upright),
        flip_horizontal(&rotate90(&upright)),
        rotate270(&upright),
        flip_horizontal(&rotate270(&upright)),
        rotate90(&upright),
    ];
    for (stored, number) in stored.iter().zip(1..) {
        let bytes = turned(stored, number);
        assert_eq!(decode(&bytes, 3, MOST).unwrap().orientation, number);
        assert_eq!(held(&bytes, 3), Some(Ok(number)));
        let got = pixels(&bytes, shape(3, 16, 32), Fit::Stretch);
        assert!(
            apart(&got, &wanted) < 16,
            "{number}: {}",
            apart(&got, &wanted)
        );
        let (crop, pad) = (shape(3, 10, 10), shape(1, 21, 40));
        for (shape, fit) in [(crop, Fit::Crop), (pad, Fit::Pad)] {
            let first = pixels(&turned(&upright, 1), shape, fit);
            assert!(
                apart(&pixels(&bytes, shape, fit), &first) < 24,
                "{number} {fit}"
            );
        }
    }
}

#[test]
fn crop_takes_the_middle_and_pad_keeps_all() {
    // Three stripes: black, white, black.
    let stripes = RgbImage::from_fn(90, 30, |x, _| {
        image::Rgb([if (30..60).contains(&x) { 255 } else { 0 }; 3])
    });
    let bytes = file(&stripes, ImageFormat::Png);
    assert!(
        pixels(&bytes, shape(3, 30, 30), Fit::Crop)
            .iter()
            .all(|&value| value == 255)
    );
    let padded = pixels(&bytes, shape(1, 9, 9), Fit::Pad);
    let row = |y: usize| &padded[9 * y..9 * y + 9];
    assert!((0..3).chain(6..9).all(|y| row(y) == [0; 9]), "{padded:?}");
    assert!(row(4)[3..6].iter().all(|&value| value > 200) && row(4)[0] == 0);
    let stretched = pixels(&bytes, shape(1, 9, 9), Fit::Stretch);
    assert!((0..9).all(|y| stretched[9 * y + 4] == 255 && stretched[9 * y] == 0));
}

#[test]
fn transparent_parts_are_black() {
    let image = image::RgbaImage::from_fn(4, 1, |x, _| image::Rgba([200, 100, 50, 85 * x as u8]));
    let mut bytes = std::io::Cursor::new(Vec::new());
    image.write_to(&mut bytes, ImageFormat::Png).unwrap();
    let got = pixels(bytes.get_ref(), shape(3, 1, 4), Fit::Crop);
    assert_eq!(got, [0, 67, 133, 200, 0, 33, 67, 100, 0, 17, 33, 50]);
}

#[test]
fn a_scaled_picture_is_the_mean_of_what_it_covers() {
    // Against a plain sum with the weights of a triangle that is as wide as the scale asks for.
    let image = drawn(64, 64, 10);
    let scaled = pixels(&file(&image, ImageFormat::Png), shape(3, 16, 16), Fit::Crop);
    let weight = |centre: f64, i: usize| (1.0 - ((i as f64 + 0.5 - centre) / 4.0).abs()).max(0.0);
    for (x, y) in [(3, 5), (8, 8), (12, 2)] {
        let (cx, cy) = (4.0 * (x as f64 + 0.5), 4.0 * (y as f64 + 0.5));
        let (mut sum, mut all) = ([0.0; 3], 0.0);
        for (px, py, pixel) in image.enumerate_pixels() {
            let w = weight(cx, px as usize) * weight(cy, py as usize);
            all += w;
            (0..3).for_each(|c| sum[c] += w * f64::from(pixel.0[c]));
        }
        for c in 0..3 {
            let got = f64::from(scaled[c * 256 + y * 16 + x]);
            assert!(
                (got - sum[c] / all).abs() < 1.01,
                "{x} {y} {c}: {got} {}",
                sum[c] / all
            );
        }
    }
}

#[test]
fn what_is_no_photo_is_refused_with_its_reason() {
    let jpeg = turned(&drawn(64, 48, 1), 1);
    let png = file(&drawn(64, 48, 1), ImageFormat::Png);
    let webp = file(&drawn(64, 48, 1), ImageFormat::WebP);
    let why = |bytes: &[u8]| decode(bytes, 3, MOST).err().unwrap();
    assert_eq!(why(b""), "the file is empty");
    assert_eq!(why(b"a text, named .jpg"), "is neither JPEG, PNG nor WebP");
    // Cut anywhere, but for the mark at the very end.
    for end in (1..jpeg.len() - 2).step_by(7) {
        let reason = why(&jpeg[..end]);
        assert!(reason.contains("JPEG"), "{end} of {}: {reason}", jpeg.len());
        assert!(!reason.contains('\n'), "{reason}");
    }
    for (bytes, format) in [(&png, "PNG"), (&webp, "WebP")] {
        for end in [20, bytes.len() / 3, bytes.len() / 2, bytes.len() * 9 / 10] {
            assert!(why(&bytes[..end]).contains(format), "{end}");
        }
    }
}

#[test]
fn a_bomb_is_refused_by_its_header() {
    for format in [ImageFormat::Png, ImageFormat::Jpeg] {
        let reason = decode(&bomb(format), 3, MOST).unwrap_err();
        assert!(reason.contains("20000×20000 pixels"), "{reason}");
        assert!(reason.contains("67108864 of --most-pixels"), "{reason}");
    }
    // A frame that says it is larger than its file does, and words that say they are longer than their file is.
    let small: Vec<u8> = [&7u32.to_le_bytes()[..3]; 2].concat();
    let part =
        |name: &[u8], length: u32, content: &[u8]| [name, &length.to_le_bytes(), content].concat();
    let canvas = part(b"VP8X", 10, &[&[8, 0, 0, 0], &small[..]].concat());
    let frame = [0x10, 0, 0, 0x9d, 1, 0x2a, 0xff, 0x3f, 0xff, 0x3f];
    let parts = [
        canvas,
        part(b"VP8 ", 10, &frame),
        part(b"EXIF", u32::MAX, &[]),
    ]
    .concat();
    let webp = part(
        b"RIFF",
        parts.len() as u32 + 4,
        &[b"WEBP", &parts[..]].concat(),
    );
    let reason = decode(&webp, 3, MOST).unwrap_err();
    assert!(reason.contains("16383×16383 pixels"), "{reason}");
    assert!(decode(&webp, 3, 1 << 30).is_err());
    let mut fitter = Fitter::default();
    let picture = decode(&turned(&drawn(9, 7, 3), 1), 3, 63).unwrap();
    fitter.fit(&picture, shape(3, 7, 9), Fit::Crop, &mut [0; 189]);
    assert!(decode(&turned(&drawn(9, 7, 3), 1), 3, 62).is_err());
}

/// With `--bad skip` a process with too many open files took good photos for bad ones, and left them out for ever.
#[test]
fn a_photo_that_the_system_cannot_open_now_is_no_bad_photo() {
    const NAME: &str = "a_photo_that_the_system_cannot_open_now_is_no_bad_photo";
    const ALONE: &str = "PHALANX_ALONE";
    if std::env::var_os(ALONE).is_none() {
        // In a process of its own, as all files that it may open are opened.
        let line = format!("ulimit -n 64 && exec \"$0\" {NAME}");
        let mut shell = std::process::Command::new("sh");
        let program = std::env::current_exe().unwrap();
        shell.args(["-c", &line]).arg(program).env(ALONE, "1");
        let output = shell.output().unwrap();
        let said = String::from_utf8_lossy(&output.stdout);
        assert!(
            output.status.success() && said.contains("1 passed"),
            "{said}"
        );
        return;
    }
    let place = tempfile::tempdir().unwrap();
    let path = place.path().join("a.jpg");
    fs::write(&path, turned(&drawn(9, 7, 3), 1)).unwrap();
    let mut reader = Reader::new(shape(3, 7, 9), Fit::Crop, MOST);
    let all: Vec<fs::File> = std::iter::from_fn(|| fs::File::open("/dev/null").ok()).collect();
    let full = reader.photo(&path).map(|_| ());
    drop(all);
    let error = full.unwrap_err().to_string();
    assert!(error.contains("a.jpg: Too many open files"), "{error}");
    assert!(reader.photo(&path).unwrap().is_ok());
    let lost = reader.photo(&path.join("b.jpg")).unwrap().unwrap_err();
    assert!(lost.contains("cannot be read"), "{lost}");
}
