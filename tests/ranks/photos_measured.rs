//! Measuring how photos are read with real ranks: what a study tells, and what is left of one that ends early.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use crate::job::{csv, job};
use crate::launch::{children, none_left, phalanx, signal, start, wait};
use crate::photos::photos;
use crate::refused::{How, refused};

/// Jobs by name.
pub const JOBS: [(&str, fn()); 2] = [
    ("a study of input measures and explains", study),
    (
        "a study of input that ends early tells what it has",
        interrupted_study,
    ),
];

fn study() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path();
    photos(&path.join("photos"), 40, 24);
    let words = "bench input photos --shape 3x16x16 --kinds files,jpeg,pixels,copy --batch 2,4,8 --batches 1,2 --samples 20,40 --ranks 1,2 --repeats 2 --work . --out found";
    let output = job(2, path, words);
    for fact in [
        "files: read again, cache none → node",
        "pixels: 1 → 2 ranks",
        "jpeg by batch: n ",
        "saturating",
        "ln(images/s) of files, jpeg, pixels",
        "written to found",
    ] {
        assert_eq!(output.matches(fact).count().min(1), 1, "{fact}: {output}");
    }
    let rows = csv(path.join("found/measurements.csv"));
    // Ranks, batch, batches, samples, repetition, repeats; caches and cold for those that have them.
    assert_eq!(rows.len(), 2 * 3 * 2 * 2 * 2 * 2 * (2 * 3 * 2 + 2 + 1));
    let good =
        |row: &BTreeMap<String, String>| row["images_per_s"].parse::<f64>().is_ok_and(|x| x > 0.0);
    assert!(rows.iter().all(good));
    assert!(csv(path.join("found/regressions.csv")).len() > 50);
    let left = fs::read_dir(path).unwrap().count();
    assert_eq!(left, 2, "only the photos and what was found are there");
    photos(&path.join("cut"), 6, 24);
    fs::write(path.join("cut/fig/a.jpg"), [0xff, 0xd8, 0xff]).unwrap();
    refused(
        path,
        How::Plain,
        &[
            (
                "bench input photos --out found",
                1,
                &["found exists already"],
            ),
            (
                "bench input photos --shape 3x8x8 --samples 41",
                2,
                &["there are 40 photos"],
            ),
            (
                "bench input photos --shape 3x8x8 --ranks 2",
                2,
                &["start this under mpirun -n 2"],
            ),
            (
                "bench input photos --shape 3x8x8 --batch 64",
                2,
                &["more than the 40 of the smallest"],
            ),
            (
                "bench input photos --shape 3x8x8 --batch 8 --out photos/apple/0000.png/found",
                1,
                &["cannot create folder photos/apple/0000.png"],
            ),
            (
                "bench input cut --shape 3x8x8 --batch 2",
                1,
                &["cut/fig/a.jpg", "a study needs photos that can all be read"],
            ),
        ],
    );
}

fn interrupted_study() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path();
    photos(&path.join("photos"), 40, 24);
    ended_study(path, "interrupted", |ranks| signal("TERM", ranks[1]));
    // A photo that is none any more ends a run.
    let bad = path.join("photos/apple/0000.png");
    ended_study(path, "photos/apple/0000.png", |_| {
        fs::write(bad, "text").unwrap()
    });
}

/// A study that `end` ends early, so that it says `why`, has told what it had.
fn ended_study(path: &Path, why: &str, end: impl FnOnce(&[u32])) {
    // Minutes of work.
    let words = "bench input photos --shape 3x16x16 --batch 2,4,8 --repeats 100 --work . --out found --force";
    let mut command = phalanx(2, path);
    command.args(words.split_whitespace());
    let child = start(command);
    let begun = Instant::now();
    let rows = || {
        let entries = fs::read_dir(path).unwrap();
        let partial = entries.map(|entry| entry.unwrap().path()).filter(|path| {
            let name = path.file_name().unwrap();
            name.to_string_lossy().starts_with(".found.partial")
        });
        let read =
            |path: std::path::PathBuf| fs::read_to_string(path.join("measurements.csv")).ok();
        let text = partial.filter_map(read).next();
        text.map_or(0, |text| text.lines().count())
    };
    while rows() < 50 {
        assert!(begun.elapsed() < Duration::from_secs(60), "it measures");
        std::thread::sleep(Duration::from_millis(5));
    }
    let ranks = children(child.id());
    end(&ranks);
    let ended = wait(child, Duration::from_secs(30));
    assert_eq!(ended.code, Some(1), "{}", ended.output);
    for fact in ["ended after", why, "speed-up", "written to found"] {
        assert!(ended.output.contains(fact), "{}", ended.output);
    }
    none_left(&ranks);
    assert!(csv(path.join("found/measurements.csv")).len() >= 49);
    assert!(path.join("found/study.html").exists());
    let left = fs::read_dir(path).unwrap().count();
    assert_eq!(left, 2, "only the photos and what was found are there");
}
