//! Products of matrices with real ranks, on one host and between hosts.

use std::path::Path;

use ndarray::Array2;
use phalanx::h5::File;
use phalanx::linalg::Source;
use serde_json::Value;

use super::bad_data::TinyDisk;
use super::between::two_hosts;
use super::job::{LIMIT, good, job};
use super::launch;
use super::mpis::Mpi;
use super::refused::{How, refused};

/// Jobs by name.
pub const JOBS: [(&str, fn()); 7] = [
    (
        "a product is that of one rank, on any number of ranks",
        any_ranks,
    ),
    (
        "a product is the same by every algorithm and under every cap on memory",
        any_way,
    ),
    (
        "a product in units has the same bits on any number of ranks",
        same_bits,
    ),
    (
        "one wrong element of a product fails the job and leaves nothing",
        wrong_element,
    ),
    ("products that cannot be are refused", refusals),
    ("two hosts multiply, and move what was planned", hosts),
    (
        "matrices are transposed, added and solved for",
        element_by_element,
    ),
];

/// What a job with `--json` says of itself.
fn told(output: &str) -> Value {
    let line = output.lines().find(|line| line.starts_with('{')).unwrap();
    serde_json::from_str(line).unwrap()
}

fn numbers(folder: &Path, name: &str) -> Vec<f64> {
    let source = Source::open(folder.join(name).to_str().unwrap(), (None, None), 0).unwrap();
    let mut all = Array2::<f64>::zeros((source.rows(), source.cols()));
    source
        .read(0..source.rows(), 0..source.cols(), all.view_mut())
        .unwrap();
    all.into_raw_vec_and_offset().0
}

fn apart(a: &[f64], b: &[f64]) -> f64 {
    assert_eq!(a.len(), b.len());
    let pairs = a.iter().zip(b);
    pairs.map(|(a, b)| (a - b).abs()).fold(0.0, f64::max)
}

fn any_ranks() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path();
    job(
        1,
        path,
        "matrix transpose --a random:normal --rows 157 --cols 211 --out c --seed 9",
    );
    for (kind, bound) in [("f32", 1e-3), ("f64", 1e-11)] {
        let words = format!(
            "matmul --a random:normal --b random:uniform --c c --alpha -1.5 --beta 2 --m 211 --n 157 --k 303 --type {kind} --json --force"
        );
        let mut expected = Vec::new();
        for ranks in [1, 2, 3, 4, 6, 7, 8] {
            let words = format!("{words} --out product --check dense");
            let found = told(&job(ranks, path, &words));
            assert!(found["dense"].as_f64().unwrap() <= 1.0);
            assert_eq!(found["panel_bytes"], found["planned_panel_bytes"]);
            assert_eq!(found["sum_bytes"], found["planned_sum_bytes"]);
            let product = numbers(path, "product");
            assert_eq!(product.len(), 211 * 157);
            if ranks == 1 {
                expected = product;
                continue;
            }
            let apart = apart(&product, &expected);
            assert!(apart < bound, "{ranks} ranks are {apart} from one");
        }
    }
}

fn any_way() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path();
    let words = "matmul --a random:normal --b lehmer --m 400 --n 300 --k 500 --json";
    let norm = |found: &Value| found["norm"].as_f64().unwrap();
    let one = norm(&told(&job(1, path, words)));
    for ranks in [4, 6] {
        for way in ["summa", "layered", "split-k", "streamed"] {
            let found = told(&job(ranks, path, &format!("{words} --algorithm {way}")));
            assert_eq!(found["algorithm"], way);
            assert!((norm(&found) / one - 1.0).abs() < 1e-12, "{way}: {found}");
            assert!(found["check"]["largest"].as_f64().unwrap() < 8.0, "{found}");
        }
    }
    for memory in ["300KiB", "1MiB", "10MiB"] {
        let found = told(&job(3, path, &format!("{words} --memory {memory}")));
        let streamed = found["algorithm"] == "streamed";
        assert_eq!(streamed, memory != "10MiB", "{found}");
        assert!((norm(&found) / one - 1.0).abs() < 1e-12, "{found}");
    }
}

fn same_bits() {
    let folder = tempfile::tempdir().unwrap();
    let words = "matmul --a random:normal --b random:normal --m 1500 --n 1100 --k 1300 --type f32 --reproducible --json";
    let sum = |ranks| told(&job(ranks, folder.path(), words))["checksum"].to_string();
    let one = sum(1);
    for ranks in [2, 3, 4, 8] {
        assert_eq!(sum(ranks), one, "{ranks} ranks");
    }
}

fn wrong_element() {
    let folder = tempfile::tempdir().unwrap();
    let words =
        "matmul --a random:normal --b random:normal --n 200 --inject flip:150:7 --out product";
    let streamed = format!("{words} --memory 200KiB");
    let dense = format!("{words} --check dense");
    let cases: [(&str, i32, &[&str]); 3] = [
        (
            words,
            1,
            &["the product is wrong: element (150, 7) is", "hint: "],
        ),
        (&streamed, 1, &["the product is wrong: row 150 is off by"]),
        (&dense, 1, &["the product is wrong: element (150, 7) is"]),
    ];
    refused(folder.path(), How::Ranks(3), &cases);
    refused(folder.path(), How::Plain, &cases);
}

fn refusals() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path();
    let file = File::create(&path.join("m.h5")).unwrap();
    let table = |name: &str, rows: usize, values: &[f64]| {
        let table = file
            .new_table::<f64>(name, &[rows, values.len() / rows])
            .unwrap();
        table.write(0, values).unwrap();
    };
    table("good", 2, &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0]);
    table("nan", 3, &[1.0, 2.0, 3.0, f64::NAN, 5.0, 6.0]);
    table("inf", 3, &[1.0, 2.0, 3.0, 4.0, f64::INFINITY, 6.0]);
    let mut square = vec![0.5; 90 * 90];
    square[71 * 90 + 3] = f64::NAN;
    table("square", 90, &square);
    file.close().unwrap();
    let cases: [(&str, i32, &[&str]); 11] = [
        (
            "trace --a m.h5:/square --power 2",
            1,
            &["m.h5", "row 71", "column 3", "NaN"],
        ),
        ("trace --a m.h5:/good", 1, &["a square", "2×3", "hint: "]),
        (
            "matmul --a m.h5:/good --b m.h5:/good",
            1,
            &["rows", "expected 3, got 2", "hint: "],
        ),
        ("matmul --a m.h5:/none --b m.h5:/good", 1, &["none", "good"]),
        (
            "matmul --a m.h5:/good --b m.h5:/nan --out new",
            1,
            &["row 1", "column 1", "NaN"],
        ),
        (
            "matmul --a m.h5:/good --b m.h5:/inf",
            1,
            &["row 2", "column 0", "inf"],
        ),
        (
            "matmul --a nothing.h5:/x --b m.h5:/good",
            1,
            &["nothing.h5"],
        ),
        (
            "matmul --a random:gauss --b ones --n 5",
            2,
            &["random:gauss", "random:normal", "lehmer"],
        ),
        (
            "matmul --a ones --b ones --n 1000 --memory 1000",
            2,
            &["the least that would do is"],
        ),
        (
            "matmul --a ones --b ones --n 10 --grid 2x4x1",
            2,
            &["takes 8 ranks, and there are"],
        ),
        (
            "matmul --a ones --b ones --n 10 --inject flip:10:0",
            2,
            &["the product is 10×10"],
        ),
    ];
    refused(path, How::Ranks(3), &cases);
    refused(path, How::Plain, &cases[..6]);
    let Some(_disk) = TinyDisk::mount(&path.join("small"), "size=300k") else {
        return launch::skip("only root may mount the small disk that it fills");
    };
    let words = "matmul --a ones --b ones --n 300 --out small/product";
    refused(
        path,
        How::Ranks(2),
        &[(words, 1, &["No space left on device"])],
    );
}

fn hosts() {
    two_hosts(|hosts| {
        let folder = tempfile::tempdir().unwrap();
        let shape = "--m 300 --n 200 --k 1500";
        let grids = [
            "--grid 2x2x1",
            "--grid 4x1x1",
            "--grid 1x2x2",
            "--grid 1x1x4",
            "",
        ];
        for grid in grids {
            let words = format!(
                "matmul --a random:normal --b random:normal {shape} {grid} --check dense --json"
            );
            let before: u64 = hosts.received().iter().sum();
            let mut command = hosts.phalanx(&Mpi::Open, folder.path());
            command.args(words.split_whitespace());
            let found = told(&good(launch::run(command, LIMIT)));
            let received = hosts.received().iter().sum::<u64>() - before;
            assert_eq!(
                found["panel_bytes"], found["planned_panel_bytes"],
                "{found}"
            );
            assert_eq!(found["sum_bytes"], found["planned_sum_bytes"], "{found}");
            let panels = found["panel_bytes"].as_u64().unwrap();
            assert!(
                received >= panels,
                "{received} bytes for {panels} of panels"
            );
            if ["--grid 2x2x1", "--grid 4x1x1"].contains(&grid) {
                // B goes to the other host, and with it what MPI adds to it.
                assert!(panels >= 200 * 1500 * 8, "{found}");
                assert!(
                    (received as f64) < 1.5 * panels as f64 + 1e6,
                    "{received} for {panels}"
                );
            }
        }
    });
}

fn element_by_element() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path();
    let a = "--a random:normal --rows 70 --cols 50 --memory 3KiB";
    job(3, path, &format!("matrix transpose {a} --out t"));
    job(2, path, "matrix transpose --a t --out tt");
    let sum = |words: &str| {
        told(&job(2, path, &format!("matrix norm {words} --json")))["checksum"].to_string()
    };
    assert_eq!(sum("--a tt"), sum(a));
    assert_ne!(sum("--a t"), sum(a));
    job(
        4,
        path,
        &format!("matrix add {a} --b tt --alpha 2 --beta -2 --out zero"),
    );
    assert_eq!(numbers(path, "zero"), vec![0.0; 70 * 50]);
    // (J + n I) has the inverse (I - J / 2n) / n.
    job(
        2,
        path,
        "matrix add --a ones --n 40 --b identity --beta 40 --out spd",
    );
    job(1, path, "matrix solve --a spd --b ones --out x");
    let x = numbers(path, "x");
    assert_eq!(x.len(), 40);
    assert!(x.iter().all(|x| (x - 1.0 / 80.0).abs() < 1e-15), "{x:?}");
    job(2, path, "matmul --a spd --b x --out y");
    assert!(apart(&numbers(path, "y"), &[1.0; 40]) < 1e-13);
    refused(
        path,
        How::Plain,
        &[
            (
                "matrix solve --a t --b ones --out new",
                1,
                &["as many equations"],
            ),
            (
                "matrix solve --a ones --n 9 --b ones --out new",
                1,
                &["not positive definite"],
            ),
            (
                "matrix add --a t --b tt --out new",
                1,
                &["rows of tt: expected 50, got 70"],
            ),
        ],
    );
}
