//! Examples that TensorFlow wrote, and those that nobody should have written.

use std::fs;

use super::*;
use crate::data::photos::Fit;
use crate::data::unpack::packed;
use crate::data::{Dataset, Shape};
use crate::tfrecord;

/// What `tests/fixtures/examples.py` made with TensorFlow 2.21: four images of 6 by 8, two of them PNG and two JPEG.
const SAMPLE: &str = concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/tests/fixtures/examples.tfrecord"
);

fn asked(file: &std::path::Path, out: &std::path::Path) -> Import {
    Import {
        files: vec![file.to_path_buf()],
        out: out.to_path_buf(),
        image: "image/encoded".into(),
        label: "image/class/label".into(),
        first: 0,
        shape: Shape { c: 3, h: 6, w: 8 },
        fit: Fit::Crop,
        raw: false,
        classes: None,
        shards: 1,
        force: true,
    }
}

/// Red, green and blue of the sample's image `i`, as the script draws it.
fn drawn(i: usize) -> Vec<u8> {
    let red = (0..48).map(|at| at % 8 * 30);
    let green = (0..48).map(|at| at / 8 * 40);
    let blue = (0..48).map(|_| 60 * i);
    let all = red.chain(green).chain(blue);
    all.map(|value| value as u8).collect()
}

#[test]
fn what_tensorflow_wrote_is_read() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("set.h5");
    let mut asked = asked(SAMPLE.as_ref(), &out);
    import(&asked).unwrap();
    let set = Dataset::open(&out).unwrap();
    assert_eq!((set.labels(), set.classes), (&[3, 2, 1, 0][..], 4));
    for i in 0..4 {
        let pixels = set.with_bytes(i, |bytes| Ok(bytes.to_vec())).unwrap();
        let apart = pixels
            .iter()
            .zip(drawn(i))
            .map(|(a, b)| a.abs_diff(b))
            .max();
        let most = if i % 2 == 0 { 0 } else { 40 };
        assert!(apart.unwrap() <= most, "{i}: {apart:?}");
    }
    (asked.image, asked.label, asked.raw) = ("raw".into(), "name".into(), true);
    import(&asked).unwrap();
    let set = Dataset::open(&out).unwrap();
    assert_eq!(set.class_names, ["fig", "pear"]);
    assert_eq!(set.labels(), [1, 0, 1, 0]);
    for i in 0..4 {
        let pixels = set.with_bytes(i, |bytes| Ok(bytes.to_vec())).unwrap();
        assert_eq!(pixels, drawn(i));
    }
}

/// A name, a file, what is asked for in another way, and what is said.
type Case = (&'static str, Vec<u8>, fn(&mut Import), &'static str);

#[test]
fn what_is_wrong_with_a_record_is_told() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("x.tfrecord");
    let whole = fs::read(SAMPLE).unwrap();
    let cases: [Case; 9] = [
        (
            "cut",
            whole[..whole.len() - 3].to_vec(),
            |_| (),
            "ends inside the record",
        ),
        (
            "flipped",
            flipped(&whole),
            |_| (),
            "its content does not fit its checksum",
        ),
        (
            "text",
            b"a text that is no record file".to_vec(),
            |_| (),
            "its length does not fit",
        ),
        ("empty", Vec::new(), |_| (), "holds no records"),
        (
            "other",
            record(b"\x0a\xff"),
            |_| (),
            "record 0 is no example",
        ),
        (
            "feature",
            whole.clone(),
            |asked| asked.image = "picture".into(),
            "it has: image/class/label, image/encoded, name, raw, score",
        ),
        (
            "floats",
            whole.clone(),
            |asked| asked.label = "score".into(),
            "its `score` is 2 floats, no label",
        ),
        (
            "pixels",
            whole.clone(),
            |asked| asked.raw = true,
            "bytes of pixels, expected 144",
        ),
        (
            "below",
            whole.clone(),
            |asked| asked.first = 1,
            "record 3 its `image/class/label` is 0, below 1",
        ),
    ];
    for (name, bytes, change, problem) in cases {
        fs::write(&path, bytes).unwrap();
        let out = folder.path().join(name);
        let mut asked = asked(&path, &out);
        change(&mut asked);
        let error = import(&asked).unwrap_err().to_string();
        assert!(error.contains(problem), "{name}: {error}");
        assert!(!out.exists());
    }
}

/// Classes with names were as many as there are, whatever was asked for.
#[test]
fn labels_beyond_the_classes_that_were_asked_for_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let mut asked = asked(SAMPLE.as_ref(), &folder.path().join("few"));
    for (label, classes, says) in [
        (
            "image/class/label",
            2,
            "a label is 3, and there are 2 classes",
        ),
        ("name", 1, "labels have 2 names, and there are 1 classes"),
    ] {
        (asked.label, asked.classes) = (label.into(), Some(classes));
        let error = import(&asked).unwrap_err();
        assert_eq!((error.to_string(), error.exit_code()), (says.into(), 2));
    }
    asked.classes = Some(5);
    import(&asked).unwrap();
    assert_eq!(Dataset::open(&asked.out).unwrap().classes, 5);
}

/// A record of 35,615 bytes begins with 1f 8b, as gzipped files do.
#[test]
fn a_record_file_that_begins_as_gzipped_ones_is_read() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("x.tfrecord");
    let example = |filling: usize| {
        let example = Example::of([
            ("filling", Feature::bytes(&vec![0; filling])),
            ("image/class/label", Feature::integer(1)),
            ("image/encoded", Feature::bytes(&drawn(2))),
        ]);
        example.to_bytes()
    };
    let filling = 35_000 + 35_615 - example(35_000).len();
    let plain = record(&example(filling));
    assert_eq!(plain[..8], 0x8b1f_u64.to_le_bytes());
    for bytes in [packed(&plain), plain] {
        fs::write(&path, bytes).unwrap();
        let mut asked = asked(&path, &folder.path().join("set.h5"));
        asked.raw = true;
        import(&asked).unwrap();
        assert_eq!(Dataset::open(&asked.out).unwrap().labels(), [1]);
    }
}

fn flipped(whole: &[u8]) -> Vec<u8> {
    let mut bytes = whole.to_vec();
    bytes[60] ^= 1;
    bytes
}

fn record(payload: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    tfrecord::write(&mut bytes, payload).unwrap();
    bytes
}
