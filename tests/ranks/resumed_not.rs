//! Checkpoints that do not fit, are damaged or cannot be written.

use std::fs;
use std::path::Path;
use std::process::Command;

use crate::job::{LIMIT, begins, folder, job, toml};
use crate::launch::{Ended, phalanx, run, skip, start, wait};

/// Jobs by name.
pub const JOBS: [(&str, fn()); 4] = [
    (
        "a checkpoint of another run is refused with what differs",
        others,
    ),
    (
        "a damaged checkpoint is named, and the one before is taken",
        damaged,
    ),
    ("what cannot be resumed says why", nothing),
    (
        "training goes on when checkpoints cannot be written",
        unwritable,
    ),
];

/// `mpirun -n SIZE phalanx WORDS`, which must fail; gives what it printed.
fn refused(size: usize, folder: &Path, words: &str) -> String {
    let mut command = phalanx(size, folder);
    command.args(words.split_whitespace());
    let Ended { code, output, .. } = run(command, LIMIT);
    assert!(
        code.is_some_and(|code| code == 1 || code == 2),
        "{words}: {code:?}\n{output}"
    );
    output
}

const RUN: &str = "train softmax train.h5 --batch 100 --steps 12 --lr 0.2 --optimizer momentum";

/// A run in `run` of twelve steps, with checkpoints of steps 4, 8 and 12.
fn with_three(path: &Path) {
    let first = RUN.replace("--steps 12", "--steps 4");
    job(
        2,
        path,
        &format!("{first} --checkpoint-every 1000 --keep 9 --out run"),
    );
    job(2, path, "train --resume run --steps 8");
    job(2, path, "train --resume run --steps 12");
}

fn others() {
    let folder = folder();
    let path = folder.path();
    with_three(path);
    let steps = "--steps 20";
    for (size, words, was, is) in [
        (
            2,
            "--optimizer adam",
            "--optimizer: {\"momentum\":0.9",
            "--optimizer: {\"beta1\":0.9",
        ),
        (2, "--lr 0.1", "\"lr\":0.2", "\"lr\":0.1"),
        (2, "--seed 5", "--seed: 1", "--seed: 5"),
        (2, "mlp train.h5", "model: softmax", "model: mlp"),
        (
            2,
            "softmax test.h5",
            "training set: 3000 samples",
            "training set: 1000 samples",
        ),
        (
            2,
            "--test test.h5",
            "test set: none",
            "test set: 1000 samples",
        ),
        (3, "", "ranks: 2", "ranks: 3"),
        (
            2,
            "--batch 50",
            "samples of a step: 200",
            "samples of a step: 100",
        ),
    ] {
        let printed = refused(size, path, &format!("train {words} --resume run {steps}"));
        assert!(
            printed.contains(was) && printed.contains(is),
            "{words}\n{printed}"
        );
        assert!(
            printed.contains("the run that wrote the checkpoint of step 12"),
            "{printed}"
        );
    }
    // The same by --continue, whose command says all again.
    let words = format!("{RUN} --steps 20 --weight-decay 0.1 --out run --continue");
    let printed = refused(2, path, &words.replacen("--steps 12 ", "", 1));
    assert!(printed.contains("\"weight_decay\":0.1"), "{printed}");
    // Other samples of the same number and kind.
    let mut make = Command::new(env!("CARGO_BIN_EXE_phalanx"));
    make.args([
        "data",
        "make",
        "digits",
        "other.h5",
        "--samples",
        "3000",
        "--first",
        "9000",
    ]);
    make.current_dir(path);
    assert_eq!(run(make, LIMIT).code, Some(0));
    let printed = refused(
        2,
        path,
        &format!("train softmax other.h5 --resume run {steps}"),
    );
    assert!(printed.contains("training set: 3000 samples"), "{printed}");
    // Where a set lies does not matter.
    fs::create_dir(path.join("moved")).unwrap();
    fs::rename(path.join("train.h5"), path.join("moved/train.h5")).unwrap();
    job(
        2,
        path,
        &format!("train softmax moved/train.h5 --resume run {steps}"),
    );
    // From another folder, and with the data where the run knows it to be by now.
    let elsewhere = path.join("moved");
    job(2, &elsewhere, "train --resume ../run --steps 24");
}

fn flip(path: &Path) {
    let mut bytes = fs::read(path).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 4;
    fs::write(path, bytes).unwrap();
}

fn damaged() {
    let folder = folder();
    let path = folder.path();
    job(2, path, &format!("{RUN} --out whole"));
    let expected = toml(path.join("whole/result.toml"))["checksum"].clone();
    with_three(path);
    let step = |step: u64| path.join(format!("run/checkpoints/step-{step:09}"));
    flip(&step(12).join("part-00001.h5"));
    let printed = refused(2, path, "train --resume run:12");
    assert!(
        printed.contains("part-00001.h5: is damaged: checksum"),
        "{printed}"
    );
    fs::remove_file(path.join("run/result.toml")).unwrap();
    let printed = job(2, path, "train --resume run");
    assert!(printed.contains("part-00001.h5: is damaged"), "{printed}");
    assert!(
        printed.contains("the checkpoint before it is tried"),
        "{printed}"
    );
    assert!(printed.contains("going on after step 8"), "{printed}");
    assert_eq!(toml(path.join("run/result.toml"))["checksum"], expected);

    // The damaged one has been replaced meanwhile. Now all of them, each in another way.
    fs::remove_file(step(12).join("part-00000.h5")).unwrap();
    let manifest = step(8).join("manifest.json");
    let text = fs::read_to_string(&manifest).unwrap();
    fs::write(&manifest, text.replace("\"version\": 1", "\"version\": 9")).unwrap();
    let part = fs::read(step(4).join("part-00001.h5")).unwrap();
    fs::write(step(4).join("part-00001.h5"), &part[..part.len() / 2]).unwrap();
    let printed = refused(2, path, "train --resume run --steps 16");
    for words in [
        "step-000000012/part-00000.h5: No such file",
        "has format version 9, and this program reads up to 1",
        "step-000000004/part-00001.h5: has",
        "has no checkpoint that is whole",
    ] {
        assert!(printed.contains(words), "{words} in\n{printed}");
    }
    // A job that begins by itself does not begin anew where something was.
    let words = format!("{RUN} --out run --continue").replace("--steps 12", "--steps 16");
    assert!(refused(2, path, &words).contains("has no checkpoint that is whole"));
}

fn nothing() {
    let folder = folder();
    let path = folder.path();
    job(1, path, &format!("{RUN} --out run"));
    let printed = refused(1, path, "train --resume run --steps 20");
    assert!(
        printed.contains("checkpoints: has no checkpoint"),
        "{printed}"
    );
    let printed = refused(1, path, "train --resume nowhere");
    assert!(
        printed.contains("nowhere/settings.toml: No such file"),
        "{printed}"
    );
    job(1, path, &format!("{RUN} --checkpoint-every 6 --out two"));
    let printed = refused(1, path, "train --resume two:7");
    assert!(
        printed.contains("has no checkpoint of step 7 (it has: 12, 6)"),
        "{printed}"
    );
    let printed = refused(1, path, "train softmax train.h5 --continue");
    assert!(printed.contains("--out"), "{printed}");
    let printed = refused(1, path, &format!("{RUN} --checkpoint-every 0s --out three"));
    assert!(
        printed.contains("expected steps (500), a time (30s, 10m, 2h) or epoch"),
        "{printed}"
    );
}

/// A job whose folder `run/checkpoints` is made by `mount`, in a place where only it sees that.
fn beside_mount(path: &Path, mount: &str) -> Option<Ended> {
    let _ = fs::remove_dir_all(path.join("run"));
    fs::create_dir_all(path.join("run/checkpoints")).unwrap();
    let (program, words) = (
        env!("CARGO_BIN_EXE_phalanx"),
        "--steps 60 --checkpoint-every 10",
    );
    let script = format!(
        "{mount} || exit 99\nexec mpirun --oversubscribe -n 2 {program} {} {words} --out run --continue",
        RUN.replace("--steps 12 ", "")
    );
    let mut command = Command::new("unshare");
    command
        .args(["--mount", "sh", "-c", &script])
        .current_dir(path);
    command
        .env("OMPI_ALLOW_RUN_AS_ROOT", "1")
        .env("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1");
    let ended = run(command, LIMIT);
    let impossible = ended.code == Some(99) || ended.output.contains("unshare failed");
    (!impossible).then_some(ended)
}

fn unwritable() {
    let folder = folder();
    let path = folder.path();
    job(
        2,
        path,
        &format!("{RUN} --steps 60 --out whole").replacen("--steps 12 ", "", 1),
    );
    let expected = toml(path.join("whole/result.toml"))["checksum"].clone();
    let there = "run/checkpoints";
    let full = format!("mount -t tmpfs -o size=120k none {there}");
    let read_only = format!("mount -t tmpfs -o ro none {there}");
    for (mount, why, most) in [
        (full, "No space left on device", 5),
        (read_only, "Read-only file system", 0),
    ] {
        let Some(ended) = beside_mount(path, &mount) else {
            skip("no file system can be mounted here");
            return;
        };
        let output = ended.output;
        assert_eq!(ended.code, Some(0), "{output}");
        assert!(
            output.contains(why) && output.contains("training goes on"),
            "{output}"
        );
        let result = toml(path.join("run/result.toml"));
        assert_eq!(result["checksum"], expected, "{output}");
        let number = |name: &str| result[name].as_integer().unwrap();
        assert!(
            number("checkpoints") <= most && number("checkpoints_failed") > 0,
            "{output}"
        );
        assert!(output.contains("FAILED"), "{output}");
    }
    // The folder goes while the run goes on, and something else is in its place.
    let words = format!("{RUN} --steps 3000 --checkpoint-every 20 --log-every 1 --out gone");
    let mut command = phalanx(2, path);
    command.args(words.replacen("--steps 12 ", "", 1).split_whitespace());
    let child = start(command);
    let there = path.join("gone/checkpoints");
    begins(&path.join("gone"));
    let replaced = || {
        let _ = fs::rename(&there, path.join("away"));
        fs::write(&there, "a file").is_ok()
    };
    while !replaced() {
        let _ = fs::remove_dir_all(path.join("away"));
    }
    let ended = wait(child, LIMIT);
    assert_eq!(ended.code, Some(0), "{}", ended.output);
    assert!(ended.output.contains("FAILED"), "{}", ended.output);
    assert!(
        ended.output.contains("training goes on"),
        "{}",
        ended.output
    );
}
