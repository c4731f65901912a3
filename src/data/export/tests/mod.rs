//! What is exported is read again, by phalanx's importers and by hand.

mod places;

use std::fs;
use std::path::{Path, PathBuf};

use super::*;
use crate::data::photos::{Fit, Pack, Records, pack};
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

/// What a refused export says; what is below `folder` must stay as it is.
fn refused(data: &Dataset, format: Format, out: &Path, folder: &Path) -> String {
    let before = below(folder);
    let error = export(data, format, out, true).unwrap_err().to_string();
    assert_eq!(below(folder), before, "{error}");
    error
}

/// All files below a folder with what they hold, links as links.
fn below(folder: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    let mut all = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let entry = entry.unwrap();
        let (path, kind) = (entry.path(), entry.file_type().unwrap());
        match kind.is_dir() {
            true => all.extend(below(&path)),
            false => all.push((path.clone(), fs::read(&path).unwrap_or_default())),
        }
        all.push((path, Vec::new()));
    }
    all.sort();
    all
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

/// Classes `1` and `a/b` came into one folder, as the second one's number is 1.
#[test]
fn every_class_has_a_folder_of_its_own_or_nothing_is_written() {
    let folder = tempfile::tempdir().unwrap();
    let mut data = set(folder.path(), Shape { c: 1, h: 3, w: 4 });
    let out = folder.path().join("png");
    let names = |names: &[&str]| names.iter().map(|name| name.to_string()).collect();
    for (class_names, says) in [
        (names(&["1", "a/b"]), "classes 0 and 1"),
        (names(&["kiwi", "corn", "kiwi"]), "classes 0 and 2"),
        (names(&["4"]), "classes 0 and 4"),
    ] {
        data.class_names = class_names;
        let error = refused(&data, Format::Png, &out, folder.path());
        assert!(error.contains(says), "{error}");
    }
    let (long, longest) = ("é".repeat(128), "x".repeat(255));
    data.class_names = names(&["Kiwi", "kiwi", ".hidden", &long, &longest, "a\nb"]);
    export(&data, Format::Png, &out, false).unwrap();
    let folders = fs::read_dir(&out).unwrap().map(|e| e.unwrap().file_name());
    let mut folders: Vec<_> = folders.map(|name| name.into_string().unwrap()).collect();
    folders.sort();
    assert_eq!(folders, ["2", "3", "5", "6", "Kiwi", "kiwi", &longest]);
}

/// JPEG files went into records unseen, also those that are damaged.
#[test]
fn files_that_are_stored_go_into_records_as_they_are_unless_they_are_damaged() {
    let folder = tempfile::tempdir().unwrap();
    let shape = Shape { c: 3, h: 9, w: 12 };
    let (photos, records) = (
        folder.path().join("photos"),
        folder.path().join("x.tfrecord"),
    );
    export(&set(folder.path(), shape), Format::Png, &photos, false).unwrap();
    let mut asked = Pack::new(photos, folder.path().join("packed"), shape);
    asked.records = Records::Jpeg;
    let packed = crate::comm::run_ranks(1, |comm| pack(comm, &asked).map(|_| ()));
    packed.into_iter().for_each(|packed| packed.unwrap());
    let data = Dataset::open(&asked.out).unwrap();
    export(&data, Format::Tfrecord(1), &records, false).unwrap();
    let written = fs::read(&records).unwrap();
    let at = |bytes: &[u8], file: &[u8]| bytes.windows(file.len()).position(|part| part == file);
    let files = (0..10).map(|i| data.with_record(i, |file| Ok(file.to_vec())).unwrap());
    let files: Vec<Vec<u8>> = files.map(|file| file.unwrap()).collect();
    assert!(files.iter().all(|file| at(&written, file).is_some()));

    let shard = data.files().next().unwrap().to_path_buf();
    drop(data);
    let mut bytes = fs::read(&shard).unwrap();
    let end = at(&bytes, &files[3]).unwrap() + files[3].len();
    bytes[end - 2..end].fill(0);
    fs::write(&shard, bytes).unwrap();
    let data = Dataset::open(&asked.out).unwrap();
    let error = refused(&data, Format::Tfrecord(1), &records, folder.path());
    assert!(error.contains("sample 3 is no whole JPEG"), "{error}");
}
