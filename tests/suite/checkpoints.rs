//! Checkpoints on disk, without a trainer: what is written comes back, what is damaged is refused, what fails leaves the rest.

use std::fs;
use std::path::Path;

use phalanx::checkpoint::{Checkpoint, Keeper, Kept, Manifest, Snapshot, Store, VERSION};
use phalanx::comm::{Comm, block, run_ranks};
use serde_json::json;

/// Values of the array that ranks have in common.
const LEN: usize = 1001;

fn manifest(step: u64, score: Option<f64>) -> Manifest {
    Manifest {
        step,
        kind: "test".into(),
        score,
        facts: [("seed".to_string(), "7".to_string())].into(),
        state: json!({"third": 1.0 / 3.0, "step": step}),
        parts: Vec::new(),
    }
}

fn value(step: u64, i: usize) -> f32 {
    step as f32 + i as f32 / 7.0
}

/// A rank's block of the array, an array of its own, and a note.
fn fill(comm: &dyn Comm, step: u64, snapshot: &mut Snapshot) {
    let mine = block(LEN, comm.size(), comm.rank());
    let values = snapshot.common("parameters", mine.start, mine.len(), LEN);
    (values.iter_mut().zip(mine)).for_each(|(value, i)| *value = self::value(step, i));
    snapshot.own("own", 3).fill(comm.rank() as f32);
    snapshot.own("empty", 0);
    snapshot.note = format!("rank {}", comm.rank());
}

/// Writes checkpoints with these steps and scores, of so many ranks; gives what the first rank knows of them.
fn write(run: &Path, ranks: usize, keep: usize, steps: &[(u64, Option<f64>)]) -> Kept {
    let kept = run_ranks(ranks, |comm| {
        let mut keeper = Keeper::new(comm, Store::of(run), keep, Vec::new()).unwrap();
        for &(step, score) in steps {
            let fill = |snapshot: &mut Snapshot| {
                fill(comm, step, snapshot);
                Ok(())
            };
            // A failure is counted too.
            let _ = keeper.write(comm, manifest(step, score), fill, &mut || ());
        }
        keeper.kept()
    });
    kept[0]
}

fn open(run: &Path, step: u64) -> Checkpoint {
    let found = Checkpoint::open(&Store::of(run), step).unwrap();
    found.verify(0..found.manifest.parts.len()).unwrap();
    found
}

/// Why the checkpoint of `step` is refused.
fn refused(run: &Path, step: u64) -> String {
    let found = Checkpoint::open(&Store::of(run), step);
    let verified = found.and_then(|found| found.verify(0..found.manifest.parts.len()));
    verified.unwrap_err().report()
}

#[test]
fn what_three_ranks_wrote_any_number_reads() {
    let run = tempfile::tempdir().unwrap();
    let kept = write(run.path(), 3, 2, &[(500, Some(0.5))]);
    let newest = Some(500);
    assert_eq!(
        kept,
        Kept {
            written: 1,
            failed: 0,
            newest
        }
    );
    let found = open(run.path(), 500);
    assert_eq!(found.manifest.facts["seed"], "7");
    assert_eq!(found.manifest.state["third"], 1.0 / 3.0, "all bits of it");
    assert_eq!(found.len("parameters"), Some(LEN));
    assert_eq!((found.len("own"), found.len("other")), (None, None));
    for ranks in [1, 2, 4, 7] {
        for rank in 0..ranks {
            let range = block(LEN, ranks, rank);
            let mut values = vec![0.0; range.len()];
            found
                .read("parameters", range.clone(), &mut values)
                .unwrap();
            let expected: Vec<f32> = range.map(|i| value(500, i)).collect();
            assert_eq!(values, expected);
        }
    }
    for part in 0..3 {
        assert_eq!(found.own(part, "own").unwrap().unwrap(), [part as f32; 3]);
        assert_eq!(found.own(part, "empty").unwrap().unwrap(), [0.0; 0]);
        assert_eq!(found.own(part, "parameters").unwrap(), None);
        assert_eq!(found.note(part).unwrap(), format!("rank {part}"));
    }
    let beyond = found.read("parameters", LEN - 1..LEN + 1, &mut [0.0; 2]);
    assert!(
        beyond
            .unwrap_err()
            .to_string()
            .contains("has 1 values of `parameters`")
    );
    let names = |folder: &Path| {
        let entries = fs::read_dir(folder).unwrap();
        let mut names: Vec<_> = entries.map(|entry| entry.unwrap().file_name()).collect();
        names.sort();
        names
    };
    assert_eq!(names(&run.path().join("checkpoints")), ["step-000000500"]);
    assert_eq!(
        names(found.path()),
        [
            "manifest.json",
            "part-00000.h5",
            "part-00001.h5",
            "part-00002.h5"
        ]
    );
}

#[test]
fn the_newest_and_the_best_are_kept() {
    let run = tempfile::tempdir().unwrap();
    let scores = [
        (10, Some(3.0)),
        (20, Some(1.0)),
        (30, Some(2.0)),
        (40, None),
        (50, Some(1.0)),
    ];
    write(run.path(), 2, 2, &scores);
    let store = Store::of(run.path());
    assert_eq!(store.steps().unwrap(), [50, 40, 20]);
    // A run that was resumed from step 20: what lies ahead of it is another past.
    write(run.path(), 2, 2, &[(25, Some(4.0))]);
    assert_eq!(store.steps().unwrap(), [25, 20]);
    write(run.path(), 2, 1, &[(25, Some(0.5))]);
    assert_eq!(store.steps().unwrap(), [25], "in place of the one before");
    assert_eq!(open(run.path(), 25).manifest.score, Some(0.5));
}

#[test]
fn what_is_damaged_is_refused_with_what_is_wrong() {
    let run = tempfile::tempdir().unwrap();
    write(run.path(), 2, 9, &[(1, None)]);
    let store = Store::of(run.path());
    let (part, json) = (
        store.folder(1).join("part-00001.h5"),
        store.folder(1).join("manifest.json"),
    );
    let (bytes, text) = (fs::read(&part).unwrap(), fs::read_to_string(&json).unwrap());
    // Every 97th byte, so that all kinds of places are met.
    for at in (0..bytes.len()).step_by(97) {
        let mut flipped = bytes.clone();
        flipped[at] ^= 1;
        fs::write(&part, flipped).unwrap();
        let why = refused(run.path(), 1);
        assert!(why.contains("part-00001.h5: is damaged: checksum"), "{why}");
    }
    fs::write(&part, &bytes[..bytes.len() - 1]).unwrap();
    let why = refused(run.path(), 1);
    let expected = format!("has {} bytes, expected {}", bytes.len() - 1, bytes.len());
    assert!(why.contains(&expected), "{why}");
    fs::remove_file(&part).unwrap();
    let why = refused(run.path(), 1);
    assert!(why.contains("part-00001.h5: No such file"), "{why}");
    fs::write(&part, &bytes).unwrap();
    open(run.path(), 1);

    let with = |from: &str, to: &str| {
        assert!(text.contains(from), "{text}");
        fs::write(&json, text.replacen(from, to, 1)).unwrap();
        refused(run.path(), 1)
    };
    let newer = format!("\"version\": {}", VERSION + 1);
    let why = with(&format!("\"version\": {VERSION}"), &newer);
    assert!(
        why.contains("this program reads up to 1") && why.contains("newer phalanx"),
        "{why}"
    );
    assert!(with("0.333", "0.433").contains("is damaged: checksum"));
    assert!(
        with("phalanx checkpoint", "something else").contains("is not a checkpoint's manifest")
    );
    assert!(with("\"format\"", "format").contains("is damaged: "));
    // A byte anywhere either makes no difference to what is read or is found.
    let whole = open_text(&json, &text);
    for at in (0..text.len()).step_by(11) {
        let mut flipped = text.clone().into_bytes();
        flipped[at] ^= 1;
        fs::write(&json, flipped).unwrap();
        if let Ok(manifest) = Manifest::read(&json) {
            assert_eq!(manifest, whole, "byte {at}");
        }
    }
    fs::remove_file(&json).unwrap();
    assert!(refused(run.path(), 1).contains("manifest.json: No such file"));
    fs::rename(store.folder(1), store.folder(2)).unwrap();
    fs::write(store.folder(2).join("manifest.json"), &text).unwrap();
    assert!(refused(run.path(), 2).contains("is of step 1, and not of 2"));
}

fn open_text(path: &Path, text: &str) -> Manifest {
    Manifest::parse(text.as_bytes(), path).unwrap()
}

#[test]
fn a_write_that_fails_leaves_what_there_was() {
    let run = tempfile::tempdir().unwrap();
    write(run.path(), 2, 2, &[(1, None)]);
    let store = Store::of(run.path());
    // Nobody, not even root, makes a file where a folder is.
    let staging = store.path().join(".step-000000002.partial");
    fs::create_dir_all(staging.join("part-00001.h5")).unwrap();
    let kept = write(run.path(), 2, 2, &[(2, None), (3, None)]);
    let newest = Some(3);
    assert_eq!(
        kept,
        Kept {
            written: 1,
            failed: 1,
            newest
        }
    );
    assert_eq!(store.steps().unwrap(), [3, 1]);
    open(run.path(), 1);
    open(run.path(), 3);
    assert!(!staging.exists(), "nothing is left of what failed");
}

#[test]
fn what_a_killed_run_left_half_done_is_no_checkpoint_and_is_tidied_up() {
    let run = tempfile::tempdir().unwrap();
    write(run.path(), 1, 2, &[(5, None)]);
    let store = Store::of(run.path());
    for name in [".step-000000006.partial", ".step-000000001.old"] {
        fs::create_dir(store.path().join(name)).unwrap();
        fs::write(store.path().join(name).join("part-00000.h5"), "half").unwrap();
    }
    fs::write(store.path().join("notes.txt"), "the user's own").unwrap();
    assert_eq!(store.steps().unwrap(), [5]);
    store.tidy().unwrap();
    assert_eq!(fs::read_dir(store.path()).unwrap().count(), 2);
    assert_eq!(
        Store::of(&run.path().join("nowhere")).steps().unwrap(),
        [0; 0]
    );
}
