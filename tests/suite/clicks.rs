//! Synthetic click logs: the same for any number of ranks, skewed, and learnable.

use std::collections::HashMap;
use std::fs;
use std::path::Path;

use phalanx::comm::run_ranks;
use phalanx::data::clicks::{Options, make};
use phalanx::data::rows::{About, Block, RowSet, SetFolder};
use phalanx::sparse::Quality;

const OPTIONS: Options = Options {
    rows: 3200,
    features: 33_762_578,
    seed: 7,
    first: 0,
    shard: 500,
    positives: 0.25,
    force: false,
};

fn made(out: &Path, options: Options, ranks: usize) -> RowSet {
    for end in run_ranks(ranks, |comm| make(comm, options, out)) {
        end.unwrap();
    }
    RowSet::open(out).unwrap()
}

fn files(set: &RowSet) -> Vec<Vec<u8>> {
    set.files().map(|file| fs::read(file).unwrap()).collect()
}

#[test]
fn any_number_of_ranks_makes_the_same_bytes() {
    let folder = tempfile::tempdir().unwrap();
    let one = files(&made(&folder.path().join("1"), OPTIONS, 1));
    assert_eq!(one.len(), 7);
    for ranks in [2, 3, 8] {
        let set = made(&folder.path().join(ranks.to_string()), OPTIONS, ranks);
        assert!(files(&set) == one, "{ranks} ranks");
    }
    let other = Options { seed: 8, ..OPTIONS };
    assert!(files(&made(&folder.path().join("other"), other, 1)) != one);
}

#[test]
fn a_row_is_the_same_in_every_set_that_holds_it() {
    let folder = tempfile::tempdir().unwrap();
    let all = made(&folder.path().join("all"), OPTIONS, 1);
    let part = Options {
        rows: 700,
        first: 2000,
        shard: 300,
        ..OPTIONS
    };
    let part = made(&folder.path().join("part"), part, 2);
    assert!(part.rows(0..700).eq(all.rows(2000..2700)));
    all.fits(&part).unwrap();
    let other = Options { seed: 8, ..OPTIONS };
    let other = made(&folder.path().join("other"), other, 1);
    assert!(all.fits(&other).is_err(), "its true model is another");
}

#[test]
fn an_existing_set_is_replaced_by_force_only() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("set");
    made(&out, OPTIONS, 2);
    let ends = run_ranks(2, |comm| {
        make(comm, OPTIONS, &out).map_err(|e| e.to_string())
    });
    assert!(
        ends.iter()
            .all(|end| end.as_ref().is_err_and(|e| e.contains("exists already")))
    );
    let fewer = Options {
        rows: 10,
        force: true,
        ..OPTIONS
    };
    assert_eq!(made(&out, fewer, 2).len(), 10);
    let none = Options { rows: 0, ..fewer };
    let past = Options {
        first: u64::MAX,
        ..fewer
    };
    for bad in [none, past] {
        assert!(run_ranks(1, |comm| make(comm, bad, &out).is_err())[0]);
    }
    assert_eq!(
        RowSet::open(&out).unwrap().len(),
        10,
        "and nothing was lost"
    );
}

#[test]
fn a_few_features_are_in_most_rows_and_most_features_in_few() {
    let folder = tempfile::tempdir().unwrap();
    let options = Options {
        rows: 20_000,
        shard: 20_000,
        ..OPTIONS
    };
    let set = made(&folder.path().join("set"), options, 1);
    assert!(!set.has_values(), "each value has a feature of its own");
    let mut counts: HashMap<u32, u32> = HashMap::new();
    for row in set.rows(0..set.len()) {
        assert_eq!(row.indices.len(), 39);
        assert!(row.indices.is_sorted_by(|a, b| a < b));
        assert!(row.indices.iter().all(|&i| (i as usize) < OPTIONS.features));
        row.indices
            .iter()
            .for_each(|&i| *counts.entry(i).or_default() += 1);
    }
    let mut counts: Vec<u32> = counts.into_values().collect();
    counts.sort_by(|a, b| b.cmp(a));
    let share = |n: u32| f64::from(n) / (39.0 * 20_000.0);
    let head = counts[..100].iter().sum();
    let once = counts.iter().filter(|&&count| count == 1).count();
    assert!(counts[0] > 10_000, "the first is in {} rows", counts[0]);
    assert!(
        share(head) > 1.0 / 3.0,
        "100 features are {} of all",
        share(head)
    );
    assert!(once > counts.len() / 2, "{once} of {} once", counts.len());
}

#[test]
fn a_learner_comes_near_the_best_loss() {
    let folder = tempfile::tempdir().unwrap();
    let options = Options {
        rows: 100_000,
        features: 1 << 12,
        shard: 1 << 16,
        ..OPTIONS
    };
    let test = Options {
        rows: 50_000,
        first: 100_000,
        ..options
    };
    let train = made(&folder.path().join("train"), options, 2);
    let test = made(&folder.path().join("test"), test, 2);
    let (mut weights, mut squares) = (vec![0.0f32; 1 << 12], vec![1.0f32; 1 << 12]);
    let logit = |weights: &[f32], row: &phalanx::data::rows::Row| -> f32 {
        let value = |k: usize| row.values.map_or(1.0, |values| values[k]);
        let terms = row.indices.iter().enumerate();
        terms.map(|(k, &i)| weights[i as usize] * value(k)).sum()
    };
    // One pass of AdaGrad. Every row has 39 features, so that an intercept is a part of the weights.
    for row in train.rows(0..train.len()) {
        let chance = 1.0 / (1.0 + (-logit(&weights, &row)).exp());
        let slope = chance - f32::from(u8::from(row.label));
        for (k, &i) in row.indices.iter().enumerate() {
            let slope = slope * row.values.map_or(1.0, |values| values[k]);
            squares[i as usize] += slope * slope;
            weights[i as usize] -= 0.05 * slope / squares[i as usize].sqrt();
        }
    }
    let mut quality = Quality::default();
    test.rows(0..test.len())
        .for_each(|row| quality.add(logit(&weights, &row), row.label));
    let (loss, best) = (
        quality.summary().unwrap().loss,
        test.about.best_loss.unwrap(),
    );
    assert!(
        best > 0.43 && loss < best * 1.03,
        "{loss}, where {best} is best"
    );
}

#[test]
fn the_best_loss_of_a_set_is_the_mean_over_rows_if_all_shards_know_it() {
    let folder = tempfile::tempdir().unwrap();
    let set = |name: &str, losses: [Option<f64>; 2]| {
        let out = folder.path().join(name);
        let staged = SetFolder::create(&out, false).unwrap();
        for (i, best_loss) in losses.into_iter().enumerate() {
            let mut rows = Block::default();
            (0..=2 * i).for_each(|_| rows.end_row(true));
            let about = About {
                features: 1,
                provenance: String::new(),
                encoding: String::new(),
                best_loss,
            };
            SetFolder::write_shard(staged.path(), i, &about, &rows).unwrap();
        }
        staged.finish().unwrap();
        RowSet::open(&out).unwrap().about.best_loss
    };
    assert_eq!(set("both", [Some(0.5), Some(0.25)]), Some(0.3125));
    assert_eq!(set("one", [Some(0.5), None]), None);
    assert_eq!(set("other", [None, Some(0.5)]), None);
}
