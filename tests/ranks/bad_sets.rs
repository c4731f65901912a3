//! Bad data sets for training: each gets a clear error that names the file, and no rank hangs.

use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;

use phalanx::h5::File;

use super::refused::{How, digits, refused};

/// Jobs by name.
pub const JOBS: [(&str, fn()); 4] = [
    ("bad files for training are refused", files),
    ("bad HDF5 content is refused", contents),
    ("bad folders of shards are refused", shards),
    ("bad test sets are refused", test_sets),
];

const THREE: How = How::Ranks(3);

/// A folder with a set that nothing is wrong with.
pub fn folder() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    digits(&folder.path().join("good.h5"), 60, 1);
    folder
}

/// Training on `name` is refused with these words, and those of `name`.
fn refuses(folder: &Path, name: &str, says: &[&str]) {
    let args = format!("train softmax {name} --out run");
    refused(folder, THREE, &[(&args, 1, &[&[name], says].concat())]);
}

fn files() {
    let folder = folder();
    let at = |name: &str| folder.path().join(name);
    let whole = fs::read(at("good.h5")).unwrap();
    let make = "make one with `phalanx data make`";
    let cut = "damaged or cut short";
    let cases: [(&str, &[u8], &str); 6] = [
        ("empty.h5", b"", make),
        ("text.h5", b"label,pixel\n1,2\n", make),
        ("ten-bytes.h5", &whole[..10], cut),
        ("header.h5", &whole[..600], cut),
        ("half.h5", &whole[..whole.len() / 2], cut),
        ("last-byte.h5", &whole[..whole.len() - 1], cut),
    ];
    for (name, content, hint) in cases {
        fs::write(at(name), content).unwrap();
        refuses(folder.path(), name, &[hint]);
    }
    symlink("loop.h5", at("loop.h5")).unwrap();
    fs::create_dir(at("folder.h5")).unwrap();
    fs::write(at("secret.h5"), &whole).unwrap();
    fs::set_permissions(at("secret.h5"), Permissions::from_mode(0o000)).unwrap();
    // Root may read it all the same.
    if fs::File::open(at("secret.h5")).is_err() {
        refuses(folder.path(), "secret.h5", &["check the permissions"]);
    }
    fs::remove_file(at("secret.h5")).unwrap();
    refuses(folder.path(), "missing.h5", &["No such file"]);
    refuses(folder.path(), "loop.h5", &["symbolic links"]);
    refuses(folder.path(), "folder.h5", &["folder without .h5 files"]);
}

/// A table of zeros for each sample's pixels.
pub fn zeros(file: &File, shape: &[usize]) {
    let table = file.new_table::<u8>("images", shape).unwrap();
    if !shape.contains(&0) {
        table.write(0, &vec![0u8; shape.iter().product()]).unwrap();
    }
}

pub fn labels(file: &File, labels: &[i64]) {
    let table = file.new_table::<i64>("labels", &[labels.len()]).unwrap();
    if !labels.is_empty() {
        table.write(0, labels).unwrap();
    }
}

pub fn number(file: &File, name: &str, value: u32) {
    file.set_numbers(name, &[value]).unwrap();
}

/// A file, what goes into it, and what must be said about it.
type Odd = (&'static str, fn(&File), &'static [&'static str]);

const ODD: [Odd; 15] = [
    (
        "nothing.h5",
        |_| (),
        &["has no data set `images`", "data/README.md"],
    ),
    (
        "no-images.h5",
        |file| labels(file, &[0; 6]),
        &["has no data set `images` (it has: labels)"],
    ),
    (
        "no-labels.h5",
        |file| zeros(file, &[6, 1, 2, 2]),
        &["has no data set `labels` (it has: images)"],
    ),
    (
        "counts.h5",
        |file| {
            zeros(file, &[6, 1, 2, 2]);
            labels(file, &[0; 5]);
        },
        &["6 images", "labels of shape [5]"],
    ),
    (
        "flat.h5",
        |file| {
            zeros(file, &[6, 4]);
            labels(file, &[0; 6]);
        },
        &["shape [6, 4], expected (n, c, h, w)"],
    ),
    (
        "no-pixels.h5",
        |file| {
            zeros(file, &[6, 1, 0, 2]);
            labels(file, &[0; 6]);
        },
        &["images are empty (1×0×2)"],
    ),
    (
        "doubles.h5",
        |file| {
            let images = file.new_table::<f64>("images", &[6, 1, 2, 2]).unwrap();
            images.write(0, &[0.5f64; 24]).unwrap();
            labels(file, &[0; 6]);
        },
        &["`images` must be u8 or f32"],
    ),
    (
        "float-labels.h5",
        |file| {
            zeros(file, &[6, 1, 2, 2]);
            let labels = file.new_table::<f32>("labels", &[6]).unwrap();
            labels.write(0, &[0f32; 6]).unwrap();
        },
        &["`labels` must be integers"],
    ),
    (
        "beyond.h5",
        |file| {
            number(file, "classes", 3);
            zeros(file, &[6, 1, 2, 2]);
            labels(file, &[0, 1, 2, 2, 3, 0]);
        },
        &["sample 4 has label 3, expected 0 to 2"],
    ),
    (
        "negative.h5",
        |file| {
            zeros(file, &[6, 1, 2, 2]);
            labels(file, &[0, 1, -7, 2, 3, 0]);
        },
        &["sample 2 has label -7"],
    ),
    (
        "no-classes.h5",
        |file| {
            number(file, "classes", 0);
            zeros(file, &[6, 1, 2, 2]);
            labels(file, &[0; 6]);
        },
        &["`classes` is 0"],
    ),
    (
        "no-samples.h5",
        |file| {
            zeros(file, &[0, 1, 2, 2]);
            labels(file, &[]);
        },
        &["holds no samples"],
    ),
    (
        "unwritten.h5",
        |file| {
            let most = 1 << 40;
            file.new_table::<u8>("images", &[most, 1, 2, 2]).unwrap();
            file.new_table::<u8>("labels", &[most]).unwrap();
        },
        &["data set `images` was never written", "make it again"],
    ),
    (
        "two-samples.h5",
        |file| {
            zeros(file, &[2, 1, 2, 2]);
            labels(file, &[0, 1]);
        },
        &["at least one for each of 3 ranks, got 2", "fewer ranks"],
    ),
    (
        "newer.h5",
        |file| {
            number(file, "version", 2);
            zeros(file, &[6, 1, 2, 2]);
            labels(file, &[0; 6]);
        },
        &["format version 2", "up to 1", "update phalanx"],
    ),
];

fn contents() {
    let folder = folder();
    for (name, fill, says) in ODD {
        let file = File::create(&folder.path().join(name)).unwrap();
        fill(&file);
        file.close().unwrap();
        refuses(folder.path(), name, says);
    }
}

/// A set of `n` samples of 1 × 2 × 2 floats, all 0.5 but the ones given, in ten classes.
pub fn floats(path: &Path, n: usize, odd: &[(usize, f32)]) {
    let file = File::create(path).unwrap();
    let images = file.new_table::<f32>("images", &[n, 1, 2, 2]).unwrap();
    let mut values = vec![0.5f32; 4 * n];
    odd.iter().for_each(|&(at, value)| values[at] = value);
    images.write(0, &values).unwrap();
    labels(&file, &(0..n as i64).map(|i| i % 10).collect::<Vec<_>>());
    number(&file, "classes", 10);
    file.close().unwrap();
}

fn shards() {
    let folder = folder();
    let at = |name: &str| folder.path().join(name);
    fs::create_dir(at("empty")).unwrap();
    refuses(folder.path(), "empty", &["is a folder without .h5 files"]);
    digits(&at("shapes"), 30, 2);
    floats(&at("shapes/shard-2.h5"), 8, &[]);
    let says = ["shapes/shard-2.h5", "expected 1×8×8", "got 1×2×2"];
    refuses(folder.path(), "shapes", &says);
    fs::create_dir(at("kinds")).unwrap();
    floats(&at("kinds/a.h5"), 8, &[]);
    let file = File::create(&at("kinds/b.h5")).unwrap();
    zeros(&file, &[6, 1, 2, 2]);
    labels(&file, &[0; 6]);
    file.close().unwrap();
    let says = ["kinds/b.h5", "expected f32", "got u8"];
    refuses(folder.path(), "kinds", &says);
    digits(&at("broken"), 30, 2);
    fs::write(at("broken/shard-2.h5"), "text").unwrap();
    refuses(
        folder.path(),
        "broken",
        &["broken/shard-2.h5", "not an HDF5"],
    );
}

fn test_sets() {
    let folder = folder();
    let at = |name: &str| folder.path().join(name);
    floats(&at("small.h5"), 8, &[]);
    let file = File::create(&at("classes.h5")).unwrap();
    zeros(&file, &[6, 1, 8, 8]);
    labels(&file, &[0, 1, 2, 3, 4, 11]);
    file.close().unwrap();
    let cases: [(&str, &[&str]); 3] = [
        ("small.h5", &["expected 1×8×8 as in good.h5, got 1×2×2"]),
        ("classes.h5", &["expected 10 as in good.h5, got 12"]),
        ("missing.h5", &["No such file"]),
    ];
    for (name, says) in cases {
        let args = format!("train softmax good.h5 --out run --test {name}");
        let says = [&[name], says].concat();
        refused(folder.path(), THREE, &[(&args, 1, &says)]);
    }
}
