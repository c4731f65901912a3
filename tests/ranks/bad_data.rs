//! Bad input to `phalanx data`: a clear error, the right exit code, and nothing lost or half-written.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

use flate2::Compression;
use flate2::write::GzEncoder;

use super::launch;
use super::refused::{How, digits, failed, refused};

/// Jobs by name.
pub const JOBS: [(&str, fn()); 6] = [
    ("bad IDX files are refused", idx),
    ("bad CIFAR files are refused", cifar),
    ("bad orders for sets are refused", make),
    ("bad splits are refused", split),
    (
        "files that HDF5's library does not live through are refused",
        deadly,
    ),
    ("a full disk leaves nothing behind", full_disk),
];

/// An IDX file of bytes with these dimensions in its header.
fn idx_file(dims: &[u32], body: &[u8]) -> Vec<u8> {
    let header = [0, 0, 8, dims.len() as u8].into_iter();
    let dims = dims.iter().flat_map(|dim| dim.to_be_bytes());
    header.chain(dims).chain(body.iter().copied()).collect()
}

fn gzipped(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

fn idx() {
    let folder = tempfile::tempdir().unwrap();
    // Pixels that do not compress away, so that half of the .gz file is half of the images.
    let pixels: Vec<u8> = (0..400u32)
        .map(|i| (i.wrapping_mul(2654435761) >> 13) as u8)
        .collect();
    let images = idx_file(&[4, 10, 10], &pixels);
    let labels = idx_file(&[4], &[0, 1, 2, 9]);
    let zipped = gzipped(&images);
    let longer = [&images[..], b"more"].concat();
    let wrong = [&[0, 0, 0x0d, 3], &images[4..]].concat();
    let most = u32::MAX;
    let files: [(&str, &[u8]); 15] = [
        ("images", &images),
        ("labels", &labels),
        ("empty", b""),
        ("magic", &wrong),
        ("cut", &images[..images.len() - 150]),
        ("cut-header", &images[..9]),
        ("cut.gz", &zipped[..zipped.len() / 2]),
        ("end.gz", &zipped[..zipped.len() - 4]),
        ("garbage", &longer),
        ("cut-labels", &labels[..labels.len() - 1]),
        ("five-labels", &idx_file(&[5], &[0; 5])),
        ("huge", &idx_file(&[4, most, most], &pixels)),
        ("vast", &idx_file(&[most, 10, 10], &pixels)),
        ("vast-labels", &idx_file(&[most], &[0; 4])),
        ("none", &idx_file(&[0, 10, 10], &[])),
    ];
    for (name, content) in files {
        fs::write(folder.path().join(name), content).unwrap();
    }
    let cases: [(&str, &[&str]); 16] = [
        ("empty labels", &["empty: is cut short", "its header"]),
        ("magic labels", &["magic: is not an IDX file", "0d"]),
        ("cut labels", &["cut: is cut short", "image 2 of 4"]),
        ("cut-header labels", &["cut-header: is cut short", "header"]),
        ("cut.gz labels", &["cut.gz: is cut short", "of 4"]),
        ("end.gz labels", &["end.gz: "]),
        (
            "garbage labels",
            &["garbage: is longer than its header says"],
        ),
        ("images cut-labels", &["cut-labels: is cut short: 3 of 4"]),
        ("images five-labels", &["five-labels: expected 4", "got 5"]),
        ("images empty", &["empty: is cut short"]),
        (
            "images labels --classes 9",
            &["label 3 is 9, expected 0 to 8"],
        ),
        (
            "huge labels",
            &["huge: claims images of 1×4294967295×4294967295"],
        ),
        (
            "vast vast-labels",
            &["vast-labels: is cut short: 4 of 4294967295"],
        ),
        ("none labels", &["images in none", "got 4"]),
        ("gone labels", &["cannot read gone", "No such file"]),
        (
            "labels images",
            &["images: has 3 dimensions, labels have one"],
        ),
    ];
    for (args, says) in cases {
        let (files, flags) = args.split_once(" --").unwrap_or((args, ""));
        let flags = if flags.is_empty() {
            String::new()
        } else {
            format!("--{flags}")
        };
        for shards in ["", "--shards 2"] {
            let args = format!("data import idx {files} new.h5 {flags} {shards}");
            refused(folder.path(), How::Plain, &[(&args, 1, says)]);
        }
    }
}

fn cifar() {
    let folder = tempfile::tempdir().unwrap();
    let mut records = vec![7u8; 3 * 3073];
    let write = |name: &str, bytes: &[u8]| fs::write(folder.path().join(name), bytes).unwrap();
    write("good.bin", &records);
    write("cut.bin", &records[..records.len() - 1]);
    write("empty.bin", b"");
    records[2 * 3073] = 10;
    write("label.bin", &records);
    let cases: [(&str, i32, &[&str]); 5] = [
        (
            "good.bin cut.bin",
            1,
            &["cut.bin: has 9218 bytes", "multiple of 3073"],
        ),
        (
            "good.bin label.bin",
            1,
            &["label.bin: record 2 has label 10"],
        ),
        ("empty.bin", 1, &["empty.bin: has 0 bytes"]),
        ("gone.bin", 1, &["gone.bin", "No such file"]),
        ("good.bin --shards 4", 2, &["4 shards asked for, 1 to 3"]),
    ];
    for (files, code, says) in cases {
        let (files, flags) = files.split_once(" --").unwrap_or((files, "force"));
        let args = format!("data import cifar10 {files} new.h5 --{flags}");
        refused(folder.path(), How::Plain, &[(&args, code, says)]);
    }
}

fn make() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    digits(&at("old.h5"), 20, 1);
    digits(&at("old"), 20, 2);
    fs::create_dir(at("work")).unwrap();
    digits(&at("work/train.h5"), 20, 1);
    fs::write(at("work/notes.txt"), "do not lose").unwrap();
    fs::write(at("notes.txt"), "not a set").unwrap();
    let most = "18446744073709551615";
    let range = format!("new.h5 -n 2 --first {most}");
    let many = format!("new.h5 -n {most}");
    let cases: [(&str, i32, &[&str]); 14] = [
        ("new.h5 -n 0", 2, &["--samples", "must be at least 1"]),
        (&many, 2, &["samples"]),
        (&range, 2, &["samples"]),
        ("new.h5 --side 4", 2, &["--side", "4"]),
        ("new.h5 --shards 0", 2, &["--shards", "must be at least 1"]),
        ("new -n 3 --shards 4", 2, &["4 shards asked for, 1 to 3"]),
        ("old.h5", 1, &["old.h5 exists already", "--force"]),
        ("old --shards 2", 1, &["old exists already", "--force"]),
        ("old.h5/new.h5", 1, &["old.h5", "cannot create folder"]),
        ("/proc/nowhere/new.h5", 1, &["/proc/nowhere"]),
        ("/dev/null/new.h5", 1, &["/dev/null"]),
        ("work --force --shards 2", 1, &["work", "is not a data set"]),
        ("work --force", 1, &["work", "is not a data set"]),
        ("notes.txt --force", 1, &["notes.txt", "is not a data set"]),
    ];
    for (args, code, says) in cases {
        let args = format!("data make digits {args}");
        refused(folder.path(), How::Plain, &[(&args, code, says)]);
    }
    let alone = "works in one process: start it without mpirun";
    refused(
        folder.path(),
        How::Plain,
        &[
            ("data make images new.h5 --shape 3x0x4", 2, &["CxHxW"]),
            (
                "data describe notes.txt",
                1,
                &["notes.txt: is not an HDF5 file"],
            ),
        ],
    );
    let ranks = How::Ranks(2);
    refused(
        folder.path(),
        ranks,
        &[("data describe old.h5", 2, &[alone])],
    );
    refused(
        folder.path(),
        ranks,
        &[("data make digits new.h5", 2, &[alone])],
    );
}

fn split() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    digits(&at("set.h5"), 20, 1);
    digits(&at("one.h5"), 1, 1);
    digits(&at("old.h5"), 5, 1);
    let cases: [(&str, i32, &[&str]); 10] = [
        ("set.h5 a.h5 b.h5 --fraction 0", 2, &["between 0 and 1"]),
        ("set.h5 a.h5 b.h5 --fraction 1", 2, &["between 0 and 1"]),
        ("set.h5 a.h5 b.h5 --fraction 1.5", 2, &["between 0 and 1"]),
        ("set.h5 a.h5 b.h5 --fraction 0.01", 2, &["0 of 20 samples"]),
        ("one.h5 a.h5 b.h5", 2, &["of 1 samples"]),
        ("set.h5 a.h5 old.h5", 1, &["old.h5 exists already"]),
        ("set.h5 old.h5 b.h5", 1, &["old.h5 exists already"]),
        ("set.h5 a.h5 a.h5", 2, &["a.h5"]),
        ("set.h5 set.h5 b.h5 --force", 2, &["set.h5"]),
        ("gone.h5 a.h5 b.h5", 1, &["gone.h5", "No such file"]),
    ];
    for (args, code, says) in cases {
        let args = format!("data split {args}");
        refused(folder.path(), How::Plain, &[(&args, code, says)]);
    }
}

/// A file system with little room, for as long as it is held.
pub struct TinyDisk(PathBuf);

impl TinyDisk {
    pub fn mount(at: &Path, size: &str) -> Option<Self> {
        fs::create_dir(at).unwrap();
        let options = ["-t", "tmpfs", "-o", size, "tmpfs"];
        let mut command = Command::new("mount");
        let done = command.args(options).arg(at).output();
        let mounted = done.is_ok_and(|done| done.status.success());
        mounted.then(|| Self(at.to_path_buf()))
    }
}

impl Drop for TinyDisk {
    fn drop(&mut self) {
        let done = Command::new("umount").arg(&self.0).status();
        assert!(done.is_ok_and(|status| status.success()));
    }
}

fn deadly() {
    let folder = tempfile::tempdir().unwrap();
    let found = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fuzz/found");
    for (name, from) in [
        ("matrix.h5", "matrix/unlisted-table"),
        ("images.h5", "images/superblock-crash"),
    ] {
        fs::copy(found.join(from), folder.path().join(name)).unwrap();
    }
    refused(
        folder.path(),
        How::Ranks(3),
        &[
            ("trace --a matrix.h5:/matrix", 1, &["matrix.h5", "hint:"]),
            ("train softmax images.h5", 1, &["images.h5", "hint:"]),
        ],
    );
    // A newer library may take them, or tell what is wrong.
    if phalanx::h5::version().starts_with("1.10.") {
        let tried = ["HDF5's library cannot take it (a process that tried: signal: 11"];
        let looked = ["joins a table of pieces that it does not have"];
        let cases: [(&str, i32, &[&str]); 2] = [
            ("trace --a images.h5:/images", 1, &tried),
            ("trace --a matrix.h5:/matrix", 1, &looked),
        ];
        refused(folder.path(), How::Plain, &cases);
    }
}

fn full_disk() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    digits(&at("good.h5"), 60, 1);
    let disks = [("small", "size=200k"), ("tiny", "size=16k")];
    let disks = disks.map(|(name, size)| TinyDisk::mount(&at(name), size));
    if disks.iter().any(Option::is_none) {
        return launch::skip("only root may mount the small disks that it fills");
    }
    let says = ["new", "(No space left on device)", "disk full"];
    refused(
        folder.path(),
        How::Plain,
        &[
            ("data make digits small/new.h5 -n 1000", 1, &says),
            ("data make digits small/new -n 1000 --shards 4", 1, &says),
        ],
    );
    // Four small files fit, the model does not.
    let args = "train softmax good.h5 --epochs 1 --out tiny/run --tensorboard off --resources off";
    let says = ["tiny/run", "model.h5", "No space left on device"];
    let made = failed(folder.path(), How::Ranks(3), (args, 1, &says), true);
    let log = ["metrics.csv", "ranks.csv", "settings.toml", "waits.csv"];
    assert_eq!(made, log.map(|name| Path::new("tiny/run").join(name)));
}
