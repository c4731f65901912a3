//! Packing photos with real ranks: the same bytes on any number of them, taken up after a kill and after a full disk.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use image::{ImageFormat, RgbImage};

use crate::imports::shards;
use crate::job::{LIMIT, csv, job};
use crate::launch::{children, none_left, phalanx, run, signal, start, wait};
use crate::refused::{How, refused};

/// Jobs by name.
pub const JOBS: [(&str, fn()); 7] = [
    (
        "photos packed by 1, 2 and 4 ranks are the same bytes",
        same_bytes,
    ),
    (
        "photos that are pixels, records or files train to the same losses",
        same_losses,
    ),
    ("a killed pack is taken up where it was", killed),
    ("a pack goes on when a full disk has room again", full_disk),
    ("a pack goes on from what was written whole", short_files),
    ("a pack of many shards opens few files at once", few_files),
    ("photos that cannot be packed are refused", bad),
];

/// So many photos in three classes, each of `side` by `side` pixels.
pub fn photos(folder: &Path, count: u32, side: u32) {
    for i in 0..count {
        let class = folder.join(["apple", "fig", "pear"][i as usize % 3]);
        fs::create_dir_all(&class).unwrap();
        let image = RgbImage::from_fn(side + i % 3, side, |x, y| {
            let stripe = if (x / 3 + i) % 3 == i % 3 { 200 } else { 40 };
            image::Rgb([stripe, (y * 255 / side) as u8, (i * 37) as u8])
        });
        let (ending, format) = match i % 5 {
            0 => ("png", ImageFormat::Png),
            1 => ("webp", ImageFormat::WebP),
            _ => ("jpg", ImageFormat::Jpeg),
        };
        image
            .save_with_format(class.join(format!("{i:04}.{ending}")), format)
            .unwrap();
    }
}

/// Gives each photo more names.
fn copies(folder: &Path, times: u32) {
    for class in fs::read_dir(folder).unwrap() {
        let photos: Vec<_> = fs::read_dir(class.unwrap().path()).unwrap().collect();
        for photo in photos {
            let path = photo.unwrap().path();
            let name = path.file_name().unwrap().to_str().unwrap();
            for i in 1..times {
                fs::hard_link(&path, path.with_file_name(format!("{i:02}-{name}"))).unwrap();
            }
        }
    }
}

fn same_bytes() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path();
    photos(&path.join("photos"), 50, 24);
    fs::write(path.join("photos/fig/cut.jpg"), [0xff, 0xd8, 0xff]).unwrap();
    fs::write(path.join("photos/fig/notes.txt"), "no photo").unwrap();
    for records in ["pixels", "jpeg"] {
        let mut sets = Vec::new();
        for ranks in [1, 2, 4] {
            let out = format!("{records}-{ranks}");
            let words = format!(
                "data pack photos {out} --shape 3x12x16 --records {records} --bad skip --shard-size 6KiB"
            );
            let output = job(ranks, path, &words);
            for fact in [
                "50 of 3×12×16",
                "1 photos that cannot be read",
                "1 files that are no photos",
                "left out: fig/cut.jpg: is no whole JPEG",
            ] {
                assert_eq!(output.matches(fact).count(), 1, "{ranks} ranks: {output}");
            }
            sets.push(shards(&path.join(out)));
        }
        assert!(sets[0].len() > 3, "{:?}", sets[0].keys());
        assert!(sets[0] == sets[1] && sets[0] == sets[2], "the bytes differ");
    }
}

fn same_losses() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path();
    photos(&path.join("all"), 60, 24);
    // JPEG files only: others would be compressed for one of the two.
    for entry in ["apple", "fig", "pear"] {
        fs::create_dir_all(path.join("photos").join(entry)).unwrap();
        for (name, bytes) in shards(&path.join("all").join(entry)) {
            if name.ends_with(".jpg") {
                fs::write(path.join("photos").join(entry).join(name), bytes).unwrap();
            }
        }
    }
    for records in ["pixels", "jpeg"] {
        let pack = format!("data pack photos {records} --shape 3x16x16 --records {records}");
        job(2, path, &pack);
    }
    let train = |name: &str, words: &str| {
        let train = format!(
            "train softmax {words} --normalize --epochs 3 --batch 5 --seed 7 --augment flip,crop --out run-{name}"
        );
        let output = job(2, path, &train);
        assert!(output.contains("waited for data"), "{output}");
        let rows = csv(path.join(format!("run-{name}")).join("metrics.csv"));
        let names = ["step", "loss", "test_loss", "test_accuracy"];
        let row = |row: &BTreeMap<String, String>| {
            let value = |name: &&str| row.get(*name).cloned().unwrap_or_default();
            names.iter().map(value).collect::<Vec<String>>()
        };
        (rows.iter().map(row).collect::<Vec<_>>(), output)
    };
    let (pixels, output) = train("pixels", "pixels --test pixels --cache node");
    assert!(pixels.len() > 3, "{pixels:?}");
    assert!(
        output.contains("pixels, mapped, which need no --cache"),
        "{output}"
    );
    let (jpeg, _) = train("jpeg", "jpeg --test photos --shape 3x16x16");
    assert_eq!(pixels, jpeg);
    for cache in ["none", "memory", "node"] {
        let words = format!("photos --test jpeg --shape 3x16x16 --cache {cache} --decoders 2");
        let (files, output) = train(cache, &words);
        assert!(output.contains("photos, a file at a time, decoded by 2 threads"));
        assert_eq!(pixels, files, "cache {cache}");
    }
    let accuracy = |data: &str| {
        let output = job(2, path, &format!("eval run-node {data}"));
        let line = output.lines().find(|line| line.contains("accuracy"));
        line.unwrap_or(&output).to_owned()
    };
    assert_eq!(accuracy("photos"), accuracy("pixels"));

    job(
        2,
        path,
        "data pack photos mixed --shape 3x16x16 --shuffle 5 --shard-size 4KiB",
    );
    let (mixed, output) = train("mixed", "mixed --test pixels --shuffle shards --buffer 8");
    assert!(
        output.contains("shard by shard through 8 samples"),
        "{output}"
    );
    assert!(mixed.len() == pixels.len() && mixed != pixels);
}

fn killed() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path();
    // Seconds of work: notes are written once in a second.
    photos(&path.join("photos"), 30, 1200);
    copies(&path.join("photos"), 40);
    for records in ["pixels", "jpeg"] {
        let words = format!("--shape 3x64x64 --shard-size 1MiB --records {records}");
        let (whole, again) = (format!("whole-{records}"), format!("again-{records}"));
        job(2, path, &format!("data pack photos {whole} {words}"));
        let pack = format!("data pack photos {again} {words}");
        let mut command = phalanx(3, path);
        command.args(pack.split_whitespace());
        let child = start(command);
        let work = path.join(format!(".{again}.packing"));
        let notes = work.join("notes");
        let begun = Instant::now();
        let is_whole = |entry: &std::io::Result<fs::DirEntry>| {
            let name = entry.as_ref().unwrap().file_name();
            !name.to_string_lossy().starts_with('.')
        };
        let noted = || fs::read_dir(&notes).map_or(0, |entries| entries.filter(is_whole).count());
        while noted() < 2 {
            assert!(begun.elapsed() < Duration::from_secs(60), "packing begins");
            std::thread::sleep(Duration::from_millis(2));
        }
        let ranks = children(child.id());
        signal("KILL", ranks[1]);
        let ended = wait(child, Duration::from_secs(20));
        assert!(ended.code.is_some_and(|code| code != 0), "{}", ended.output);
        none_left(&ranks);
        assert!(!path.join(&again).exists(), "nothing half-done is seen");
        let output = job(2, path, &pack);
        assert!(
            output.contains("photos by a job before this one"),
            "{output}"
        );
        assert_eq!(shards(&path.join(again)), shards(&path.join(whole)));
        assert!(!work.exists());
    }
}

/// What could not be written whole is not noted as done.
fn short_files() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path();
    photos(&path.join("photos"), 90, 40);
    let words = "--shape 3x40x40 --records jpeg --shard-size 64KiB --partitions 3";
    job(2, path, &format!("data pack photos whole {words}"));
    let (program, pack) = (
        env!("CARGO_BIN_EXE_phalanx"),
        format!("data pack photos again {words}"),
    );
    let line = format!("trap '' XFSZ; ulimit -f 16; exec {program} {pack}");
    let mut shell = Command::new("sh");
    shell.args(["-c", &line]).current_dir(path);
    let ended = run(shell, LIMIT);
    assert_eq!(ended.code, Some(1), "{}", ended.output);
    assert!(ended.output.contains("File too large"), "{}", ended.output);
    let begun = fs::read_dir(path.join(".again.packing/parts")).unwrap();
    assert!(begun.count() > 0, "records were written");
    job(2, path, &pack);
    assert_eq!(shards(&path.join("again")), shards(&path.join("whole")));
}

/// Files were open until they were on the disk, however many: photos behind the last that could be opened were left out as bad.
fn few_files() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path();
    photos(&path.join("photos"), 300, 8);
    let program = env!("CARGO_BIN_EXE_phalanx");
    for records in ["pixels", "jpeg"] {
        let pack = format!(
            "data pack photos {records} --shape 3x8x8 --shard-size 100 --partitions 300 --bad skip --records {records}"
        );
        let mut shell = Command::new("sh");
        let line = format!("ulimit -n $((64 + 80 * $(nproc))); exec {program} {pack}");
        shell.args(["-c", &line]).current_dir(path);
        let ended = run(shell, LIMIT);
        assert_eq!(ended.code, Some(0), "{}", ended.output);
        assert!(ended.output.contains("300 of 3×8×8"), "{}", ended.output);
    }
}

fn full_disk() {
    // Pixels have no room from the begin, records of JPEG files on the way.
    full_disk_of("pixels", "300k");
    full_disk_of("jpeg", "100k");
}

fn full_disk_of(records: &str, room: &str) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path();
    photos(&path.join("photos"), 90, 40);
    let words = format!("--shape 3x40x40 --shard-size 64KiB --partitions 30 --records {records}");
    job(2, path, &format!("data pack photos whole {words}"));
    let disk = path.join("disk");
    fs::create_dir(&disk).unwrap();
    let mount = |words: &str| {
        let mut command = Command::new("mount");
        command.args(words.split_whitespace()).arg(&disk);
        command.status().is_ok_and(|status| status.success())
    };
    let mounted = mount(&format!("-t tmpfs -o size={room} none"));
    let pack = format!("data pack photos disk/again {words}");
    let ended = if mounted {
        let mut command = phalanx(2, path);
        command.args(pack.split_whitespace());
        run(command, LIMIT)
    } else {
        // Without the right to mount: no file may be longer than a few blocks.
        let program = env!("CARGO_BIN_EXE_phalanx");
        let line = format!("trap '' XFSZ; ulimit -f 40; exec {program} {pack}");
        let mut shell = Command::new("sh");
        shell.args(["-c", &line]).current_dir(path);
        run(shell, LIMIT)
    };
    assert_eq!(ended.code, Some(1), "{}", ended.output);
    let said = ["No space left on device", "File too large"];
    assert!(
        said.iter().any(|words| ended.output.contains(words)),
        "{}",
        ended.output
    );
    assert!(!disk.join("again").exists(), "nothing half-done is seen");
    if mounted {
        assert!(mount("-o remount,size=64m"));
    }
    job(2, path, &pack);
    let got = shards(&disk.join("again"));
    if mounted {
        assert!(
            Command::new("umount")
                .arg(&disk)
                .status()
                .unwrap()
                .success()
        );
    }
    assert_eq!(got, shards(&path.join("whole")));
}

fn bad() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path();
    photos(&path.join("photos"), 6, 20);
    fs::create_dir_all(path.join("empty/class")).unwrap();
    fs::write(path.join("twice.csv"), "fig/0001.webp,1\nfig/0001.webp,2\n").unwrap();
    fs::write(path.join("a.txt"), "text").unwrap();
    photos(&path.join("cut"), 6, 20);
    fs::write(path.join("cut/fig/a.jpg"), [0xff, 0xd8, 0xff]).unwrap();
    photos(&path.join("other"), 6, 20);
    fs::rename(path.join("other/fig"), path.join("other/plum")).unwrap();
    for how in [How::Plain, How::Ranks(3)] {
        refused(
            path,
            how,
            &[
                ("data pack none set", 1, &["cannot read folder none"]),
                ("data pack empty set", 1, &["empty: holds no photos"]),
                (
                    "data pack photos set --labels twice.csv",
                    1,
                    &["twice.csv, line 2: names fig/0001.webp, as line 1 does"],
                ),
                (
                    "data pack photos set --pattern {class}.jpg",
                    1,
                    &["does not fit the pattern"],
                ),
                (
                    "data pack photos set --like a.txt",
                    1,
                    &["is not an HDF5 file"],
                ),
                ("data pack photos a.txt", 1, &["a.txt exists already"]),
                (
                    "data pack photos set --shape 2x8x8",
                    2,
                    &["1 channel (grey) or 3"],
                ),
                (
                    "data pack photos set --quality 80",
                    2,
                    &["give --records jpeg too"],
                ),
                (
                    "train softmax photos --shape 2x8x8",
                    1,
                    &["expected 1 or 3 channels", "got 2×8×8"],
                ),
                (
                    "train softmax photos",
                    1,
                    &["is a folder without .h5 files", "trained on with --shape"],
                ),
                (
                    "train softmax photos --shape 3x8x8 --shuffle shards",
                    2,
                    &["--shuffle shards is for sets in shards"],
                ),
                (
                    "train softmax photos --shape 3x8x8 --buffer 5",
                    2,
                    &["--buffer is for --shuffle shards"],
                ),
                (
                    "train softmax photos --shape 3x8x8 --test other --batch 1 --out never",
                    1,
                    &["is of class plum", "does not have"],
                ),
            ],
        );
    }
    // Found when it is trained on, by the rank that does.
    let mut command = phalanx(2, path);
    let words = "train softmax cut --shape 3x8x8 --batch 1 --out never";
    command.args(words.split_whitespace());
    let ended = run(command, LIMIT);
    assert_eq!(ended.code, Some(1), "{}", ended.output);
    for fact in ["cut/fig/a.jpg", "is no whole JPEG", "--bad skip"] {
        assert!(ended.output.contains(fact), "{}", ended.output);
    }
}
