//! Photos as `train` and `eval` see them: what they become, what their classes are called, and that all ranks see the same.

use std::fs;
use std::path::Path;

use image::RgbImage;

use crate::job::{LIMIT, job};
use crate::launch::{mpirun, run};
use crate::refused::{How, refused};

/// Jobs by name.
pub const JOBS: [(&str, fn()); 3] = [
    (
        "photos are evaluated as those that were trained on became pixels",
        fitted,
    ),
    (
        "photos of classes with other names are not evaluated",
        named,
    ),
    ("ranks that see other photos are named", seen_otherwise),
];

/// Thirty wide photos in three classes, which only their ends tell apart: the middle is the same.
fn bands(folder: &Path) {
    for i in 0..30 {
        let class = folder.join(["left", "none", "right"][i as usize % 3]);
        fs::create_dir_all(&class).unwrap();
        let image = RgbImage::from_fn(60, 20, |x, y| {
            let bright = match i % 3 {
                0 => x < 15,
                1 => false,
                _ => x >= 45,
            };
            image::Rgb([if bright { 250 } else { 5 }, (y + i) as u8, 9])
        });
        image.save(class.join(format!("{i}.png"))).unwrap();
    }
}

/// The accuracy that `eval WORDS` tells, and all that it printed.
fn accuracy(folder: &Path, words: &str) -> (String, String) {
    let output = job(2, folder, &format!("eval {words}"));
    let line = output.lines().find(|line| line.contains("accuracy"));
    (line.unwrap_or(&output).to_owned(), output)
}

/// A run with `--fit pad` was evaluated on photos that were cropped.
fn fitted() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path();
    bands(&path.join("wide"));
    let train = "--shape 3x12x12 --epochs 40 --global-batch 6 --lr 0.5";
    job(
        2,
        path,
        &format!("train softmax wide {train} --fit pad --out padded"),
    );
    let warning = "the photos of wide become pixels by --fit crop";
    let (own, output) = accuracy(path, "padded wide");
    assert!(own.contains("100.00 %"), "{output}");
    assert!(!output.contains(warning), "{output}");
    assert_eq!(accuracy(path, "padded wide --fit pad").0, own);
    let (cropped, output) = accuracy(path, "padded wide --fit crop");
    assert!(cropped != own && output.contains(warning), "{output}");
    // What was packed tells it as well.
    for records in ["pixels", "jpeg"] {
        let pack =
            format!("data pack wide {records} --shape 3x12x12 --fit pad --records {records}");
        job(2, path, &pack);
        job(
            2,
            path,
            &format!("train softmax {records} {train} --test wide --out of-{records}"),
        );
        let (own, output) = accuracy(path, &format!("of-{records} wide"));
        assert!(
            own.contains("100.00 %") && !output.contains(warning),
            "{output}"
        );
        let asked = format!("train softmax {records} --shape 3x12x12 --out never --fit");
        refused(
            path,
            How::Ranks(2),
            &[
                (
                    &format!("{asked} stretch"),
                    1,
                    &[
                        "expected stretch, as --fit says, got pad",
                        "--fit is for folders",
                    ],
                ),
                (
                    &format!("eval padded {records} --fit crop"),
                    1,
                    &["expected crop, as --fit says, got pad"],
                ),
            ],
        );
    }
    job(
        2,
        path,
        "train softmax pixels --shape 3x12x12 --fit pad --steps 1",
    );
}

/// Photos of other things with as many names were evaluated, and fewer classes got other numbers or were refused.
fn named() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path();
    for name in ["photos", "other", "some"] {
        bands(&path.join(name));
    }
    fs::rename(path.join("other/none"), path.join("other/plum")).unwrap();
    fs::remove_dir_all(path.join("some/left")).unwrap();
    for name in ["other", "some"] {
        job(
            1,
            path,
            &format!("data pack {name} packed-{name} --shape 3x12x12 --fit pad"),
        );
    }
    let words = "train softmax photos --shape 3x12x12 --fit pad --epochs 40 --global-batch 6 --lr 0.5 --out run";
    job(2, path, words);
    for data in ["photos", "some"] {
        let (found, output) = accuracy(path, &format!("run {data}"));
        assert!(found.contains("100.00 %"), "{output}");
    }
    refused(
        path,
        How::Ranks(2),
        &[
            ("eval run other", 1, &["is of class plum", "does not have"]),
            (
                "eval run packed-other",
                1,
                &[
                    "names of classes of packed-other",
                    "expected none",
                    "got plum",
                ],
            ),
            (
                "eval run packed-some",
                1,
                &[
                    "names of classes of packed-some",
                    "expected left",
                    "got none",
                ],
            ),
        ],
    );
}

/// Hosts whose folders differed by a photo trained on samples under wrong labels.
fn seen_otherwise() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path();
    for host in ["one", "two"] {
        bands(&path.join(host).join("photos"));
        job(1, &path.join(host), "data pack photos set --shape 3x8x8");
    }
    job(
        1,
        &path.join("one"),
        "train softmax set --steps 1 --out ../run",
    );
    let two = path.join("two");
    fs::remove_file(two.join("photos/none/1.png")).unwrap();
    fs::remove_dir_all(two.join("set")).unwrap();
    job(1, &two, "data pack photos set --shape 3x8x8");
    for words in [
        "train softmax photos --shape 3x8x8 --epochs 2 --global-batch 6 --out ../never",
        "train softmax set --epochs 2 --global-batch 6 --out ../never",
        "eval ../run photos",
    ] {
        let mut command = mpirun(1);
        let program = env!("CARGO_BIN_EXE_phalanx");
        command.arg("--wdir").arg(path.join("one")).arg(program);
        command.args(words.split_whitespace());
        command
            .args([":", "-n", "1", "--wdir"])
            .arg(&two)
            .arg(program);
        command.args(words.split_whitespace());
        let ended = run(command, LIMIT);
        assert_eq!(ended.code, Some(1), "`{words}`: {}", ended.output);
        for says in [
            "as rank 1 sees it",
            "expected 30 samples of 3×8×8 in 3 classes",
            "got 29 samples",
            "all hosts must see the same files",
        ] {
            assert_eq!(ended.output.matches(says).count(), 1, "{}", ended.output);
        }
        assert!(!path.join("never").exists());
    }
}
