//! Data sets: what is written is read, in any storage, whole or not at all.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use phalanx::data::describe::describe;
use phalanx::data::split::{Options, divide, split};
use phalanx::data::synthetic::{Amount, Kind, make};
use phalanx::data::{Dataset, Images, Loader, Place, Scaling, Shape};

fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/fixtures")
        .join(name)
}

fn amount(samples: usize) -> Amount {
    Amount {
        samples,
        seed: 9,
        first: 0,
        shards: 1,
        force: false,
    }
}

const DIGITS: Kind = Kind::Digits { side: 12 };

#[test]
fn the_same_seed_gives_the_same_bytes() {
    let folder = tempfile::tempdir().unwrap();
    let set = |name: &str, amount: Amount| {
        let path = folder.path().join(name);
        make(DIGITS, amount, &path).unwrap();
        fs::read(path).unwrap()
    };
    let first = set("a.h5", amount(50));
    assert!(
        first == set("b.h5", amount(50)),
        "equal arguments give equal files"
    );
    assert!(
        first
            != set(
                "c.h5",
                Amount {
                    seed: 10,
                    ..amount(50)
                }
            ),
        "another seed gives another file"
    );
}

#[test]
fn shards_hold_the_same_samples_as_one_file() {
    let folder = tempfile::tempdir().unwrap();
    let (one, many) = (folder.path().join("one.h5"), folder.path().join("many"));
    make(DIGITS, amount(50), &one).unwrap();
    make(
        DIGITS,
        Amount {
            shards: 3,
            ..amount(50)
        },
        &many,
    )
    .unwrap();
    assert_eq!(fs::read_dir(&many).unwrap().count(), 3);
    let (one, many) = (Dataset::open(&one).unwrap(), Dataset::open(&many).unwrap());
    assert_eq!(describe(&one).unwrap(), describe(&many).unwrap());
    assert_eq!(
        (one.mean.clone(), one.std.clone()),
        (many.mean.clone(), many.std.clone())
    );
}

#[test]
fn a_test_set_behind_the_training_set_shares_no_sample() {
    let folder = tempfile::tempdir().unwrap();
    let (all, tail) = (folder.path().join("all.h5"), folder.path().join("tail.h5"));
    make(DIGITS, amount(30), &all).unwrap();
    make(
        DIGITS,
        Amount {
            first: 20,
            ..amount(10)
        },
        &tail,
    )
    .unwrap();
    let (all, tail) = (Dataset::open(&all).unwrap(), Dataset::open(&tail).unwrap());
    for i in 0..10 {
        let bytes = |set: &Dataset, i| set.with_bytes(i, |bytes| Ok(bytes.to_vec())).unwrap();
        assert_eq!(bytes(&all, 20 + i), bytes(&tail, i), "numbers name samples");
    }
}

#[test]
fn images_have_the_shape_and_classes_asked_for() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("images.h5");
    let shape = Shape { c: 3, h: 20, w: 31 };
    make(Kind::Images { shape, classes: 7 }, amount(200), &path).unwrap();
    let set = Dataset::open(&path).unwrap();
    assert_eq!((set.len(), set.shape, set.classes), (200, shape, 7));
    assert!(
        describe(&set)
            .unwrap()
            .histogram
            .iter()
            .all(|&count| count > 5)
    );
}

#[test]
fn mean_and_deviation_are_those_of_the_pixels() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("set.h5");
    make(
        Kind::Images {
            shape: Shape { c: 3, h: 9, w: 9 },
            classes: 4,
        },
        amount(40),
        &path,
    )
    .unwrap();
    let set = Dataset::open(&path).unwrap();
    let scaling = Scaling::normal(&set.mean, &set.std);
    let mut image = vec![0.0; 3 * 81];
    let mut sums = [(0.0f64, 0.0f64); 3];
    for i in 0..40 {
        set.sample(i, &scaling, &mut image).unwrap();
        for (sums, plane) in sums.iter_mut().zip(image.chunks(81)) {
            plane
                .iter()
                .for_each(|&v| *sums = (sums.0 + f64::from(v), sums.1 + f64::from(v * v)));
        }
    }
    for (sum, squares) in sums {
        let n = 40.0 * 81.0;
        assert!(
            (sum / n).abs() < 1e-4 && (squares / n - 1.0).abs() < 1e-3,
            "{sum} {squares}"
        );
    }
}

#[test]
fn every_storage_that_h5py_writes_gives_the_same_batches() {
    let load = |name: &str| {
        let data = Arc::new(Dataset::open(&fixture(name)).unwrap());
        assert_eq!(
            data.is_mapped(),
            ["contiguous.h5", "floats.h5"].contains(&name),
            "{name}"
        );
        assert_eq!(
            (data.len(), data.classes, data.shape),
            (50, 4, Shape { c: 1, h: 8, w: 8 })
        );
        let mut loader = Loader::new(data, Scaling::unit(1), 4);
        let mut seen = Vec::new();
        // Always one request ahead, as the training loop is.
        loader.request(Place {
            epoch: 0,
            positions: 0..7,
        });
        for epoch in 0..2 {
            for start in (0..50).step_by(7) {
                let next = if start + 7 < 50 {
                    start + 7..(start + 14).min(50)
                } else {
                    0..7
                };
                loader.request(Place {
                    epoch: epoch + u64::from(start + 7 >= 50),
                    positions: next,
                });
                let batch = loader.take().unwrap();
                let values: Vec<f32> = match &batch.images {
                    Images::Floats(values) => values.clone(),
                    Images::Bytes(pixels) => pixels.iter().map(|&p| f32::from(p) / 255.0).collect(),
                };
                seen.push((values, batch.labels.clone()));
            }
        }
        seen
    };
    let truth = load("contiguous.h5");
    for (values, labels) in &truth {
        for (image, &label) in values.chunks(64).zip(labels) {
            // Pixel (n, y, x) is (5 n + 3 y + 7 x) mod 256, label n mod 4: the image tells which n it is.
            let corner = (image[0] * 255.0).round() as u32;
            let n = (0..50).find(|n| 5 * n % 256 == corner).unwrap();
            assert_eq!(label, n % 4);
            assert_eq!((image[63] * 255.0).round() as u32, (5 * n + 70) % 256);
        }
    }
    for name in ["chunked.h5", "floats.h5", "big_endian.h5"] {
        assert!(load(name) == truth, "{name} gives other batches");
    }
}

#[test]
fn a_split_puts_every_sample_in_one_part() {
    let folder = tempfile::tempdir().unwrap();
    let parts = ["train.h5", "validation.h5"].map(|name| folder.path().join(name));
    for source in ["contiguous.h5", "chunked.h5", "floats.h5"] {
        let data = Dataset::open(&fixture(source)).unwrap();
        let options = Options {
            fraction: 0.3,
            seed: 2,
            force: true,
        };
        assert_eq!(
            split(&data, &parts[0], &parts[1], options).unwrap(),
            [35, 15]
        );
        let sets = parts.clone().map(|path| Dataset::open(&path).unwrap());
        assert!(
            sets.iter()
                .all(|set| set.is_mapped() && set.element() == data.element() && set.classes == 4)
        );
        let bytes = |set: &Dataset, i| set.with_bytes(i, |bytes| Ok(bytes.to_vec())).unwrap();
        let content = |set: &Dataset| -> Vec<_> {
            let samples = (0..set.len()).map(|i| (bytes(set, i), set.labels()[i]));
            samples.collect()
        };
        let views = divide(&data, 0.3, 2).unwrap();
        assert!(
            views.each_ref().map(content) == sets.each_ref().map(content),
            "a part in place holds what a part in a file does"
        );
        let mut all: Vec<_> = sets
            .iter()
            .flat_map(|set| (0..set.len()).map(|i| (bytes(set, i), set.labels()[i])))
            .collect();
        let mut whole: Vec<_> = (0..50)
            .map(|i| (bytes(&data, i), data.labels()[i]))
            .collect();
        all.sort();
        whole.sort();
        assert!(all == whole, "{source}");
    }
}
