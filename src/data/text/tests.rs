//! Whole imports, on ranks as threads.

use std::collections::BTreeMap;
use std::fs;

use super::*;
use crate::comm::run_ranks;
use crate::data::rows::{RowSet, describe};
use crate::data::unpack::packed;

const VW: Format = Format::Vw { features: 1 << 12 };
const AUTO: Format = Format::Libsvm {
    features: None,
    base: None,
};

fn ask(inputs: &[PathBuf], out: &Path, format: Format) -> Import {
    Import {
        inputs: inputs.to_vec(),
        out: out.to_path_buf(),
        format,
        like: None,
        names: false,
        shard_size: 64,
        skip_bad: false,
        force: true,
    }
}

fn alone(asked: &Import) -> Result<Report> {
    run_ranks(1, |comm| import(comm, asked)).remove(0)
}

/// Writes a file in `folder`, packed if its name says so.
fn file(folder: &Path, name: &str, text: &str) -> PathBuf {
    let path = folder.join(name);
    let bytes = match name.ends_with(".gz") {
        true => packed(text.as_bytes()),
        false => text.as_bytes().to_vec(),
    };
    fs::write(&path, bytes).unwrap();
    path
}

/// All shards of a set by name.
fn shards(set: &Path) -> BTreeMap<String, Vec<u8>> {
    let entries = fs::read_dir(set)
        .unwrap()
        .map(|entry| entry.unwrap().path());
    let shard = |path: PathBuf| {
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        (name, fs::read(path).unwrap())
    };
    entries.map(shard).collect()
}

fn rows(set: &Path) -> Vec<(Vec<u32>, Vec<f32>, bool)> {
    let set = RowSet::open(set).unwrap();
    let row = |row: crate::data::rows::Row| {
        let ones = vec![1.0; row.indices.len()];
        let values = row.values.map_or(ones, <[f32]>::to_vec);
        (row.indices.to_vec(), values, row.label)
    };
    set.rows(0..set.len()).map(row).collect()
}

/// Lines of features with values, some of them empty, some with carriage returns.
fn vw_text() -> String {
    let line = |i: usize| match i % 7 {
        3 => "\r\n".into(),
        5 => format!("1 |a x{i} y:{} |b:0.5 z{i}\r\n", i % 9),
        _ => format!("{} |a x{} y\n", i % 2, i % 11),
    };
    (0..60).map(line).collect::<String>() + "1 |c last"
}

#[test]
fn the_set_has_the_same_bytes_on_any_number_of_ranks_and_of_packed_text() {
    let folder = tempfile::tempdir().unwrap();
    let text = vw_text();
    let mut expected = None;
    for name in ["plain", "packed.gz"] {
        let inputs = [
            file(folder.path(), name, &text),
            file(folder.path(), "more", "0 |d e\n"),
        ];
        for size in 1..=3 {
            let out = folder.path().join(format!("{name}-{size}"));
            let mut asked = ask(&inputs, &out, VW);
            asked.names = true;
            let reports = run_ranks(size, |comm| import(comm, &asked).unwrap());
            let counts = |r: &Report| (r.rows, r.positives, r.nonzeros, r.shards, r.used);
            let set = RowSet::open(&out).unwrap();
            let summary = describe(&set).unwrap();
            let shards: Vec<_> = shards(&out).into_values().collect();
            for report in &reports {
                let found = (set.len() as u64, summary.positives, set.nonzeros() as u64);
                let files = (shards.len() as u64, summary.used);
                assert_eq!(
                    counts(report),
                    (found.0, found.1, found.2, files.0, files.1)
                );
            }
            assert!(shards.len() > 10 && set.len() == 53, "{}", set.len());
            assert_eq!(set.names().unwrap().len() as u64, summary.used);
            // Where the rows come from is told too: that differs between packed and plain.
            let content = (summary, rows(&out), (name == "plain").then_some(shards));
            match &expected {
                None => expected = Some(content),
                Some(expected) => {
                    assert_eq!((&content.0, &content.1), (&expected.0, &expected.1));
                    assert!(
                        content.2.is_none() || content.2 == expected.2,
                        "other bytes"
                    );
                }
            }
        }
    }
}

#[test]
fn a_bad_line_is_named_with_its_number_in_the_file_and_nothing_is_left() {
    let folder = tempfile::tempdir().unwrap();
    let good = "1 1:1 2:1\n".repeat(20);
    let text = format!("{good}\n1 3:x\n{good}");
    for name in ["plain", "packed.gz"] {
        let inputs = [
            file(folder.path(), "before", &good),
            file(folder.path(), name, &text),
        ];
        let out = folder.path().join("out");
        for (size, format) in [
            (1, AUTO),
            (3, AUTO),
            (
                3,
                Format::Libsvm {
                    features: Some(9),
                    base: Some(1),
                },
            ),
        ] {
            let asked = ask(&inputs, &out, format);
            let ends = run_ranks(size, |comm| import(comm, &asked).unwrap_err().to_string());
            let says = format!("{}, line 22: `3:x` has no value", inputs[1].display());
            assert!(ends.iter().all(|end| end.contains(&says)), "{ends:?}");
        }
        fs::remove_file(&inputs[0]).unwrap();
        fs::remove_file(&inputs[1]).unwrap();
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
    }
}

#[test]
fn bad_lines_can_be_left_out_and_are_counted() {
    let folder = tempfile::tempdir().unwrap();
    let good = "1 1:1 2:1\n".repeat(10);
    // A bad line has an index beyond all others: that is no feature.
    let text = format!("{good}1 2:1 99:x\n{good}5 1:1\n{good}");
    let inputs = [file(folder.path(), "text", &text)];
    let mut asked = ask(&inputs, &folder.path().join("out"), AUTO);
    asked.skip_bad = true;
    for report in run_ranks(3, |comm| import(comm, &asked).unwrap()) {
        assert_eq!((report.rows, report.bad, report.nonzeros), (30, 2, 60));
        assert_eq!(report.encoding.features(), 2);
        let first = report.first_bad.unwrap();
        assert!(first.contains("text, line 11: `99:x`"), "{first}");
    }
}

#[test]
fn text_without_a_row_is_no_set() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("out");
    for (text, skip_bad, says) in [
        ("", false, "no good row"),
        ("\n# 1\n", false, "no good row"),
        ("x\ny\n", true, "line 1: label `x`"),
    ] {
        let inputs = [file(folder.path(), "text", text)];
        let mut asked = ask(&inputs, &out, AUTO);
        asked.skip_bad = skip_bad;
        let ends = run_ranks(2, |comm| import(comm, &asked).unwrap_err().to_string());
        assert!(ends.iter().all(|end| end.contains(says)), "{ends:?}");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    }
}

#[test]
fn a_packed_file_that_is_cut_short_or_damaged_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let whole = packed(vw_text().repeat(50).as_bytes());
    let mut wrong = whole.clone();
    let middle = wrong.len() / 2;
    wrong[middle] ^= 0x55;
    let path = folder.path().join("text.gz");
    for bytes in [&whole[..whole.len() - 9], &whole[..middle], &wrong] {
        fs::write(&path, bytes).unwrap();
        for format in [VW, AUTO] {
            let mut asked = ask(
                std::slice::from_ref(&path),
                &folder.path().join("out"),
                format,
            );
            asked.shard_size = 1 << 20;
            let ends = run_ranks(2, |comm| import(comm, &asked).unwrap_err().report());
            for end in ends {
                assert!(
                    end.contains("text.gz: cannot be unpacked to its end"),
                    "{end}"
                );
            }
            assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
        }
    }
}

#[test]
fn numbered_features_begin_at_one_unless_zero_occurs() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("out");
    let libsvm = |features, base| Format::Libsvm { features, base };
    let cases = [
        ("1 1:1\n-1 7:2 3:1", AUTO, (7, 1), [0, 2, 6]),
        ("1 0:1\n-1 7:2 3:1", AUTO, (8, 0), [0, 3, 7]),
        (
            "1 1:1\n-1 7:2 3:1",
            libsvm(None, Some(0)),
            (8, 0),
            [1, 3, 7],
        ),
        (
            "1 1:1\n-1 7:2 3:1",
            libsvm(Some(100), None),
            (100, 1),
            [0, 2, 6],
        ),
        (
            "1 1:1\n-1 7:2 3:1",
            libsvm(Some(8), Some(0)),
            (8, 0),
            [1, 3, 7],
        ),
    ];
    for (text, format, (features, base), [a, b, c]) in cases {
        let inputs = [file(folder.path(), "text", text)];
        let mut asked = ask(&inputs, &out, format);
        // So small that each line is a shard.
        asked.shard_size = 4;
        let reports = run_ranks(2, |comm| import(comm, &asked).unwrap());
        let expected = Encoding::Libsvm { features, base };
        assert!(reports.iter().all(|report| report.encoding == expected));
        let expected = [
            (vec![a], vec![1.0], true),
            (vec![b, c], vec![1.0, 2.0], false),
        ];
        assert_eq!(rows(&out), expected, "{text}");
    }
    let inputs = [file(folder.path(), "text", "1 0:1")];
    let error = alone(&ask(&inputs, &out, libsvm(None, Some(1)))).unwrap_err();
    assert!(
        error.to_string().contains("feature 0, expected 1 to 1"),
        "{error}"
    );
}

#[test]
fn a_test_set_is_made_like_its_training_set() {
    let folder = tempfile::tempdir().unwrap();
    let (train, test) = (folder.path().join("train"), folder.path().join("test"));
    let first = file(folder.path(), "first", "1 0:1 9:1\n0 3:1\n");
    let second = file(folder.path(), "second", "1 1:1\n\n0 2:1\n");
    alone(&ask(&[first], &train, AUTO)).unwrap();
    let mut asked = ask(&[second], &test, AUTO);
    asked.like = Some(train.clone());
    alone(&asked).unwrap();
    assert_eq!(rows(&test)[0].0, [1], "features are numbered from 0");
    let (train_set, test_set) = (RowSet::open(&train).unwrap(), RowSet::open(&test).unwrap());
    train_set.fits(&test_set).unwrap();
    assert_eq!(test_set.about.features, 10);
    let beyond = file(folder.path(), "beyond", "1 1:1\n0 10:1\n");
    asked.inputs = vec![beyond];
    let error = alone(&asked).unwrap_err().to_string();
    assert!(
        error.contains("beyond, line 2: feature 10, expected 0 to 9"),
        "{error}"
    );
    asked.format = VW;
    let error = alone(&asked).unwrap_err().to_string();
    assert!(error.contains("imported from another format"), "{error}");
}

mod tables;
