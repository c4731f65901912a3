//! What a study finds in rows whose truth is known.

use super::analysis::{by_parameter, joint, speedups};
use super::design::{Design, Factor, Kind, Row};
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
        samples: vec![1000],
        caches: vec![Caching::None, Caching::Memory, Caching::Node],
        cold: vec![false, true],
        repeats: 3,
        seed: 1,
    }
}

/// Rows as they would be were a batch to cost as much as 12 images more, two ranks 1.8 times as fast as one, and what was kept
/// 5 times as fast; with noise of two hundredths.
fn rows() -> Vec<Row> {
    let runs = design().runs();
    let rows = runs
        .iter()
        .enumerate()
        .flat_map(|(run, &(setting, repeat))| {
            [1, 2].map(|repetition| {
                let mut noise = Stream::new(&[run as u64, repetition as u64]);
                let kept = setting.cache != Caching::None && repetition > 1;
                let base = [800.0, 1000.0, 20_000.0, 40_000.0][setting.kind as usize];
                let speed = base * setting.batch as f64 / (setting.batch as f64 + 12.0)
                    * if setting.ranks == 2 { 1.8 } else { 1.0 }
                    * if kept { 5.0 } else { 1.0 }
                    * if setting.cold && repetition == 1 {
                        0.5
                    } else {
                        1.0
                    }
                    * (0.02 * f64::from(noise.normal())).exp();
                let images = (setting.batch * setting.batches * setting.ranks) as f64;
                Row {
                    run,
                    repeat,
                    ..setting.row(repetition, images / speed, 0)
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
fn the_curve_of_each_parameter_is_found() {
    let found = by_parameter(&rows());
    let of = |kind, factor| {
        let is = |one: &&super::analysis::ByParameter| (one.kind, one.factor) == (kind, factor);
        found.iter().find(is).unwrap()
    };
    for kind in [Kind::Files, Kind::Jpeg, Kind::Pixels] {
        let batch = of(kind, Factor::Batch);
        let best = &batch.described.curves[0];
        assert_eq!(best.shape, Shape::Saturating, "{:?}", kind);
        let (low, high) = best.fitted.estimates[1].unwrap().interval;
        assert!(low < 12.0 && 12.0 < high && high < 14.0, "{low} to {high}");
        assert!(best.fitted.r_squared() > 0.98);
        // Over all rows, whatever else differs, hardly anything is seen of it; of pixels less differs.
        assert!(batch.plain.unwrap() < 0.5 || kind == Kind::Pixels);
    }
    let batches = of(Kind::Files, Factor::Batches);
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
    let found = speedups(&rows());
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
        let (low, high) = one.interval;
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
    assert!((value("read again from a cache") - 5.0_f64.ln()).abs() < 0.05);
    assert!((value("cold") - 0.5_f64.ln()).abs() < 0.05);
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
    let words = tables::parameters(&parameters) + &tables::joint(&joint);
    assert!(words.contains("files by batch: n ") && words.contains("saturating"));
    assert!(tables::cold(&rows).is_some(), "nothing came from a disk");
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
