//! Importers against files made here byte by byte.

use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};

use flate2::Compression;
use flate2::write::GzEncoder;
use phalanx::data::{Dataset, Shape, cifar, idx};

const OPTIONS: idx::Options = idx::Options {
    classes: None,
    shards: 1,
    force: false,
};

fn idx_file(dims: &[u32], body: &[u8]) -> Vec<u8> {
    let mut file = vec![0, 0, 8, dims.len() as u8];
    dims.iter().for_each(|dim| file.extend(dim.to_be_bytes()));
    file.extend(body);
    file
}

fn write(folder: &Path, name: &str, bytes: &[u8]) -> PathBuf {
    let path = folder.join(name);
    if name.ends_with(".gz") {
        let mut file = GzEncoder::new(File::create(&path).unwrap(), Compression::default());
        file.write_all(bytes).unwrap();
        file.finish().unwrap();
    } else {
        fs::write(&path, bytes).unwrap();
    }
    path
}

#[test]
fn idx_plain_and_gzipped_give_the_same_set() {
    let folder = tempfile::tempdir().unwrap();
    let pixels: Vec<u8> = (0..5 * 12).map(|i| (i * 7) as u8).collect();
    let mut files = Vec::new();
    for end in ["", ".gz"] {
        let images = write(
            folder.path(),
            &format!("images{end}"),
            &idx_file(&[5, 3, 4], &pixels),
        );
        let labels = write(
            folder.path(),
            &format!("labels{end}"),
            &idx_file(&[5], &[3, 1, 4, 1, 5]),
        );
        let out = folder.path().join(format!("set{end}.h5"));
        idx::import(&images, &labels, &out, OPTIONS).unwrap();
        let set = Dataset::open(&out).unwrap();
        assert_eq!(set.labels(), [3, 1, 4, 1, 5]);
        assert_eq!((set.shape, set.classes), (Shape { c: 1, h: 3, w: 4 }, 6));
        let sample = |i| set.with_bytes(i, |bytes| Ok(bytes.to_vec())).unwrap();
        files.push((0..5).map(sample).collect::<Vec<_>>().concat());
    }
    assert_eq!(files, [pixels.clone(), pixels]);
}

#[test]
fn idx_with_four_dimensions_has_channels() {
    let folder = tempfile::tempdir().unwrap();
    let images = write(folder.path(), "images", &idx_file(&[2, 3, 2, 2], &[9; 24]));
    let labels = write(folder.path(), "labels", &idx_file(&[2], &[0, 1]));
    let out = folder.path().join("set.h5");
    idx::import(
        &images,
        &labels,
        &out,
        idx::Options {
            classes: Some(10),
            ..OPTIONS
        },
    )
    .unwrap();
    let set = Dataset::open(&out).unwrap();
    assert_eq!((set.shape, set.classes), (Shape { c: 3, h: 2, w: 2 }, 10));
}

#[test]
fn cifar_files_are_joined_in_order() {
    let folder = tempfile::tempdir().unwrap();
    let record = |label: u8, pixel: u8| [vec![label], vec![pixel; 3072]].concat();
    let first = write(
        folder.path(),
        "data_batch_1.bin",
        &[record(6, 10), record(9, 20)].concat(),
    );
    let second = write(folder.path(), "data_batch_2.bin", &record(0, 30));
    let out = folder.path().join("cifar.h5");
    cifar::import(&[first, second], &out, 1, false).unwrap();
    let set = Dataset::open(&out).unwrap();
    assert_eq!(set.labels(), [6, 9, 0]);
    assert_eq!((set.shape, set.classes), (Shape { c: 3, h: 32, w: 32 }, 10));
    assert_eq!(set.class_names[6], "frog");
    let pixel = |i| set.with_bytes(i, |bytes| Ok(bytes[3071])).unwrap();
    assert_eq!([0, 1, 2].map(pixel), [10, 20, 30]);
}
