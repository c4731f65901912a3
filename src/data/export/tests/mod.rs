//! What is exported is read again, by phalanx's importers and by hand.

use std::fs;
use std::path::Path;

use super::*;
use crate::data::photos::{Fit, Pack, pack};
use crate::data::synthetic::{Amount, Kind, make};
use crate::data::{Dataset, Shape, describe, examples, idx};

/// A painted set of 10 images, in two shards.
fn set(folder: &Path, shape: Shape) -> Dataset {
    let (out, classes) = (folder.join(format!("set-{}", shape.c)), 7);
    let amount = Amount {
        samples: 10,
        seed: 1,
        first: 0,
        shards: 2,
        force: false,
    };
    make(Kind::Images { shape, classes }, amount, &out).unwrap();
    Dataset::open(&out).unwrap()
}

fn content(path: &Path) -> u64 {
    let set = Dataset::open(path).unwrap();
    describe::describe(&set).unwrap().checksum
}

#[test]
fn records_idx_and_png_give_the_same_set_again() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path();
    for c in [1, 3] {
        let shape = Shape { c, h: 9, w: 12 };
        let data = set(path, shape);
        let wanted = content(&data.path);
        let at = |name: &str| path.join(format!("{name}-{c}"));

        export(&data, Format::Tfrecord(1), &at("one.tfrecord"), false).unwrap();
        export(&data, Format::Tfrecord(3), &at("three"), false).unwrap();
        let mut parts: Vec<_> = fs::read_dir(at("three"))
            .unwrap()
            .map(|e| e.unwrap().path())
            .collect();
        parts.sort();
        assert!(
            parts[2].ends_with("part-00002-of-00003.tfrecord"),
            "{parts:?}"
        );
        for (files, out) in [(vec![at("one.tfrecord")], at("1.h5")), (parts, at("3.h5"))] {
            let import = examples::Import {
                files,
                out: out.clone(),
                image: "image/encoded".into(),
                label: "image/class/label".into(),
                first: 0,
                shape,
                fit: Fit::Crop,
                raw: false,
                classes: Some(7),
                shards: 1,
                force: false,
            };
            examples::import(&import).unwrap();
            assert_eq!(content(&out), wanted);
        }

        export(&data, Format::Idx, &at("idx"), false).unwrap();
        let images = at("idx").join(if c == 1 {
            "images-idx3-ubyte"
        } else {
            "images-idx4-ubyte"
        });
        let options = idx::Options {
            classes: Some(7),
            shards: 1,
            force: false,
        };
        idx::import(
            &images,
            &at("idx").join("labels-idx1-ubyte"),
            &at("idx.h5"),
            options,
        )
        .unwrap();
        assert_eq!(content(&at("idx.h5")), wanted);

        export(&data, Format::Png, &at("png"), false).unwrap();
        let asked = Pack::new(at("png"), at("packed"), shape);
        crate::comm::run_ranks(1, |comm| pack(comm, &asked).map(|_| ()))
            .swap_remove(0)
            .unwrap();
        // By class now, and within it in order.
        let packed = Dataset::open(&asked.out).unwrap();
        let mut order: Vec<usize> = (0..10).collect();
        order.sort_by_key(|&i| (data.labels()[i], i));
        for (i, &j) in order.iter().enumerate() {
            let sample = |set: &Dataset, i| set.with_bytes(i, |bytes| Ok(bytes.to_vec())).unwrap();
            assert_eq!(sample(&packed, i), sample(&data, j));
            assert_eq!(packed.labels()[i], data.labels()[j]);
        }
    }
}

#[test]
fn arrays_have_the_head_that_numpy_expects() {
    let folder = tempfile::tempdir().unwrap();
    let data = set(folder.path(), Shape { c: 2, h: 3, w: 4 });
    let out = folder.path().join("npy");
    export(&data, Format::Npy, &out, false).unwrap();
    let images = fs::read(out.join("images.npy")).unwrap();
    let head = b"\x93NUMPY\x01\x00\x76\x00{'descr': '|u1', 'fortran_order': False, 'shape': (10, 2, 3, 4), }";
    assert!(images.starts_with(head));
    assert_eq!((images.len(), images[127]), (128 + 240, b'\n'));
    let first = data.with_bytes(0, |bytes| Ok(bytes.to_vec())).unwrap();
    assert_eq!(images[128..128 + 24], first);
    let labels = fs::read(out.join("labels.npy")).unwrap();
    assert_eq!(labels.len(), 128 + 80);
    assert_eq!(labels[128..136], u64::from(data.labels()[0]).to_le_bytes());
}

#[test]
fn what_a_format_cannot_hold_is_refused_and_nothing_else_is_replaced() {
    let folder = tempfile::tempdir().unwrap();
    let data = set(folder.path(), Shape { c: 2, h: 3, w: 4 });
    let out = folder.path().join("out");
    for format in [Format::Png, Format::Tfrecord(1)] {
        let error = export(&data, format, &out, false).unwrap_err().to_string();
        assert!(
            error.contains("expected 1 or 3 channels, got 2×3×4"),
            "{error}"
        );
    }
    assert!(!out.exists());
    export(&data, Format::Idx, &out, false).unwrap();
    assert!(
        export(&data, Format::Idx, &out, false).is_err(),
        "it is there"
    );
    export(&data, Format::Idx, &out, true).unwrap();
    let error = export(&data, Format::Npy, &out, true)
        .unwrap_err()
        .to_string();
    assert!(error.contains("which no export wrote"), "{error}");
}
