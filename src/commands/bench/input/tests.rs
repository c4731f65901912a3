//! What a study finds in rows whose truth is known.

use super::analysis::{by_parameter, joint};
use super::design::{Design, Factor, Kind, Row};
use super::speedups::speedups;
use super::tables;
use crate::data::Caching;
use crate::rng::Stream;
use crate::study::Shape;

fn design() -> Design {
    Design {
        kinds: vec![Kind::Files, Kind::Jpeg, Kind::Pixels, Kind::Copy],
        ranks: vec![1, 2],
        batch: vec![4, 16, 64, 256],
        batches: vec![2, 8],
        samples: vec![5000],
        caches: vec![Caching::None, Caching::Memory, Caching::Node],
        cold: vec![false, true],
        repeats: 3,
        seed: 1,
    }
}

/// Rows as they would be were a batch to cost as much as 12 images more, two ranks 1.8 times as fast as one, and what was kept
/// 5 times as fast and what was cold half as fast, each in powers of its share; with noise of two hundredths.
fn rows() -> Vec<Row> {
    let runs = design().runs();
    let rows = runs
        .iter()
        .enumerate()
        .flat_map(|(run, &(setting, repeat))| {
            [1, 2].map(|repetition| {
                let mut noise = Stream::new(&[run as u64, repetition as u64]);
                let row = setting.row(repetition, 1.0, 0);
                let before = row.share_read_before();
                let kept = if row.keeps() { before } else { 0.0 };
                let cold = if row.cold { 1.0 - before } else { 0.0 };
                let base = [800.0, 1000.0, 20_000.0, 40_000.0][setting.kind as usize];
                let speed = base * setting.batch as f64 / (setting.batch as f64 + 12.0)
                    * if setting.ranks == 2 { 1.8 } else { 1.0 }
                    * 5.0_f64.powf(kept)
                    * 0.5_f64.powf(cold)
                    * (0.02 * f64::from(noise.normal())).exp();
                Row {
                    run,
                    repeat,
                    files_mb: 1.0,
                    ..setting.row(repetition, row.images as f64 / speed, 0)
                }
            })
        });
    rows.collect()
}

#[test]
fn every_combination_comes_as_often_as_asked_for_in_random_order() {
    let runs = design().runs();
    // Pixels and copies are not kept, and a copy is never cold.
    assert_eq!(runs.len(), 3 * (2 * 4 * 2) * (2 * 3 * 2 + 2 + 1));
    let first = design().runs()[0];
    assert!(runs.iter().filter(|run| run.0 == first.0).count() == 3);
    assert!(runs.windows(2).any(|two| two[0].0.kind != two[1].0.kind));
    assert_eq!(runs, design().runs(), "the seed names the order");
}

#[test]
fn what_goes_round_in_a_set_was_read_before() {
    let mut row = rows().swap_remove(0);
    let share = [
        (1, 500, 1000, 0.0),
        (1, 2000, 500, 0.75),
        (2, 10, 1000, 1.0),
    ];
    for (repetition, images, samples, expected) in share {
        (row.repetition, row.images, row.samples) = (repetition, images, samples);
        assert_eq!(row.share_read_before(), expected);
    }
}

#[test]
fn the_curve_of_each_parameter_is_found() {
    let found = by_parameter(&rows());
    let of = |way, factor| {
        let is = |one: &&super::analysis::ByParameter| (one.way, one.factor) == (way, factor);
        found.iter().find(is).unwrap()
    };
    for kind in ["files", "jpeg", "pixels"] {
        let batch = of(kind, Factor::Batch);
        let best = &batch.described.curves[0];
        assert_eq!(best.shape, Shape::Saturating, "{:?}", kind);
        let (low, high) = best.fitted.estimates[1].unwrap().interval;
        assert!(low < 12.0 && 12.0 < high && high < 14.0, "{low} to {high}");
        assert!(best.fitted.r_squared() > 0.98);
    }
    // Over all rows, whatever else differs, hardly anything is seen of it.
    for way in ["files, kept", "jpeg, kept"] {
        assert!(of(way, Factor::Batch).plain.unwrap() < 0.5);
    }
    let batches = of("files", Factor::Batches);
    let curve = batches
        .described
        .curves
        .iter()
        .find(|curve| curve.shape == Shape::Linear);
    let (low, high) = curve.unwrap().fitted.estimates[1].unwrap().interval;
    assert!(
        low < 0.001 && -0.001 < high,
        "nothing depends on it: {low} to {high}"
    );
    let varied = |one: &super::analysis::ByParameter| one.factor != Factor::Samples;
    assert!(
        found.iter().all(varied),
        "one number of samples says nothing"
    );
}

#[test]
fn what_was_put_in_comes_out_of_the_speedups() {
    let found = speedups(&rows(), |_| true);
    for (what, factor) in [
        ("files: read again, cache none → memory", 5.0),
        ("jpeg: read again, cache none → node", 5.0),
        ("files: 1 → 2 ranks", 1.8),
        ("pixels: first time, cold → warm", 2.0),
        ("files → jpeg", 1.25),
        ("files → pixels", 25.0),
    ] {
        let one = found.iter().find(|one| one.what == what).unwrap();
        // Twice as far as the interval, which six of six need not hold.
        let (low, high) = one.interval.unwrap();
        let off = (factor / one.factor).ln().abs();
        assert!(off < (high / low).ln() && high < 1.05 * low, "{one:?}");
        assert!(
            (one.seconds.0 / one.seconds.1 / factor - 1.0).abs() < 0.05,
            "{one:?}"
        );
    }
}

#[test]
fn the_logarithmic_regression_over_all_has_the_powers_and_factors() {
    let found = joint(&rows());
    assert_eq!(found.len(), 8);
    let one = found
        .iter()
        .find(|one| one.of == "files" && one.logarithmic)
        .unwrap();
    let value = |name: &str| {
        let at = one.names.iter().position(|other| other == name).unwrap();
        one.fitted.estimates[at].unwrap().value
    };
    assert!((value("ln ranks") - 1.8_f64.log2()).abs() < 0.02);
    assert!((value("share from a cache") - 5.0_f64.ln()).abs() < 0.05);
    assert!((value("share from cold files") - 0.5_f64.ln()).abs() < 0.05);
    let plain = found
        .iter()
        .find(|one| one.of == "files" && !one.logarithmic)
        .unwrap();
    assert!(one.aic < plain.aic, "factors multiply");
    assert!(!one.names.iter().any(|name| name.contains("samples")));
}

#[test]
fn tables_have_all_of_it() {
    let rows = rows();
    let (parameters, joint) = (by_parameter(&rows), joint(&rows));
    let text = tables::csv(&tables::coefficients(&parameters, &joint));
    assert!(text.starts_with("kinds,by,model,coefficient,value,error,low,high,p,"));
    assert!(text.contains("files,batch,saturating,b,"), "{text}");
    assert!(text.contains("\"files, jpeg, pixels\",all,\"all, linear\",kind pixels,"));
    assert_eq!(tables::csv(&rows).lines().count(), rows.len() + 1);
    let words = tables::parameters(&parameters).unwrap() + &tables::joint(&joint).unwrap();
    assert!(words.contains("files by batch: n ") && words.contains("saturating"));
    assert!(words.contains("two values do not tell a line"));
    let warnings = tables::warnings(&rows).join("\n");
    assert!(
        warnings.contains("cold jpeg: 0 % came from a disk"),
        "{warnings}"
    );
    assert!(
        tables::speedups(&speedups(&rows, |_| false)).is_some_and(|text| !text.contains("cold"))
    );
    assert!(tables::speeds(&rows).contains("again"));
}

#[test]
fn chances_have_no_more_digits_than_are_known() {
    let written = [0.7942, 0.05, 2.249e-11, 3e-17, 0.0].map(tables::chance);
    assert_eq!(
        written,
        ["0.794", "0.050", "2.2e-11", "below 1e-16", "below 1e-16"]
    );
}
