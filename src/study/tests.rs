//! Regressions against what SciPy 1.17, NumPy and statsmodels 0.14 say of the same numbers.

use super::*;
use crate::rng::Stream;

/// Speeds over eight batch sizes, twice: a limit of 900, half of it at 6, and noise.
fn measured() -> (Vec<f64>, Vec<f64>) {
    let x = [1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0];
    let y = [
        133.8, 237.3, 365.0, 494.7, 668.1, 764.6, 814.8, 868.4, 134.0, 229.4, 360.4, 522.5, 643.5,
        755.5, 815.6, 868.7,
    ];
    ([x, x].concat(), y.to_vec())
}

/// Which of them are of one run: each by itself, or one behind the other two by two.
const RUNS: [[usize; 16]; 2] = [
    [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15],
    [0, 0, 1, 1, 2, 2, 3, 3, 4, 4, 5, 5, 6, 6, 7, 7],
];

fn of_runs<'a>(y: &'a [f64], runs: &'a [usize]) -> Measured<'a> {
    Measured { y, runs, spent: 0 }
}

#[track_caller]
fn close(got: f64, expected: f64, within: f64) {
    let off = (got - expected).abs() / expected.abs();
    assert!(off <= within, "{got} is not {expected} (off by {off:e})");
}

fn coefficients(fitted: &Fitted) -> Vec<Estimate> {
    fitted.estimates.iter().map(|e| e.unwrap()).collect()
}

#[test]
fn chance_is_as_tables_have_it() {
    for (t, freedom, p) in [
        (2.0, 5, 0.10193947882985835),
        (0.5, 1, 0.7048327646991335),
        (3.3, 40, 0.002038812222448443),
        (12.0, 1000, 4.324057386774429e-31),
    ] {
        close(student::beyond(t, freedom), p, 1e-9);
    }
    for (freedom, t) in [
        (1, 12.706204736174694),
        (2, 4.302652729749462),
        (5, 2.5705818356363146),
        (30, 2.0422724563012378),
        (1000, 1.9623390808264083),
    ] {
        close(student::quantile(0.975, freedom), t, 1e-9);
    }
    assert_eq!(student::beyond(f64::INFINITY, 3), 0.0);
}

#[test]
fn lines_are_those_of_scipy() {
    let (x, y) = measured();
    let line = Shape::Linear.fit(&x, of_runs(&y, &RUNS[0])).unwrap().fitted;
    let [a, b] = coefficients(&line)[..] else {
        panic!("two coefficients")
    };
    close(a.value, 388.8916731216111, 1e-12);
    close(b.value, 4.811829862851414, 1e-12);
    close(line.r_squared(), 0.5911746357669585, 1e-12);
    close(correlation(&x, &y).unwrap(), 0.7688788173483248, 1e-12);
    let log = Shape::Logarithmic
        .fit(&x, of_runs(&y, &RUNS[0]))
        .unwrap()
        .fitted;
    let [a, b] = coefficients(&log)[..] else {
        panic!("two coefficients")
    };
    close(a.value, 150.975, 1e-12);
    close(b.value, 161.29072933024165, 1e-12);
    // The t of 95 % for 14 degrees of freedom.
    close(b.interval.1 - b.value, 2.1447866879169273 * b.error, 1e-9);
}

#[test]
fn a_limit_is_that_of_scipys_curve_fit() {
    let (x, y) = measured();
    let curve = Shape::Saturating.fit(&x, of_runs(&y, &RUNS[0])).unwrap();
    let [a, b] = coefficients(&curve.fitted)[..] else {
        panic!("two coefficients")
    };
    close(a.value, 899.8094927870816, 1e-6);
    close(b.value, 5.945001176979939, 1e-6);
    // By regressions of statsmodels on scipy's Jacobian, without each run.
    close(a.error, 5.175623623252787, 1e-5);
    close(b.error, 0.14660367661263476, 1e-5);
    close(curve.fitted.squares.0, 1306.565286771759, 1e-9);
    close(curve.at(6.0), 899.8094927870816 * 6.0 / 11.945, 1e-6);
}

#[test]
fn the_model_that_made_the_numbers_is_found() {
    let (x, y) = measured();
    let found = describe(&x, of_runs(&y, &RUNS[0])).unwrap();
    let names: Vec<&str> = found
        .curves
        .iter()
        .map(|curve| curve.shape.name())
        .collect();
    assert_eq!(names, ["saturating", "logarithmic", "linear", "constant"]);
    assert_eq!(found.behind(&found.curves[0]), 0.0);
    // n ln(RSS / n) + 2 (k + 1), by hand.
    let aic = 16.0 * (1306.565286771759_f64 / 16.0).ln() + 6.0;
    close(found.curves[0].fitted.aic(), aic, 1e-9);
    let line: Vec<f64> = x.iter().map(|x| 3.0 + 0.5 * x + (x * 7.0).sin()).collect();
    assert_eq!(
        describe(&x, of_runs(&line, &RUNS[0])).unwrap().curves[0].shape,
        Shape::Linear
    );
    let noise: Vec<f64> = (0..16).map(|i| 5.0 + f64::from(i * 7 % 16)).collect();
    assert_eq!(
        describe(&x, of_runs(&noise, &RUNS[0])).unwrap().curves[0].shape,
        Shape::Constant
    );
}

#[test]
fn several_columns_are_those_of_numpy() {
    let (x, y) = measured();
    let odd: Vec<f64> = (0..16).map(|i| f64::from(i % 2)).collect();
    let number: Vec<f64> = (0..16).map(f64::from).collect();
    // The fifth is twice the second and three: it has nothing to say, and changes nothing.
    let same = x.iter().map(|x| 2.0 * x + 3.0).collect();
    let columns = [vec![1.0; 16], x, odd, number, same];
    let fitted = fit(&columns, of_runs(&y, &RUNS[0])).unwrap();
    assert_eq!((fitted.estimates[4], fitted.runs), (None, (16, 12)));
    let expected = [
        322.70695586777947,
        4.292655277706512,
        -1.6205845771144072,
        11.13915992585105,
    ];
    for (estimate, value) in fitted.estimates.iter().flatten().zip(expected) {
        close(estimate.value, value, 1e-10);
    }
    close(fitted.squares.0, 404607.11975648, 1e-12);
    let values: Vec<f64> = fitted
        .values
        .iter()
        .zip(&fitted.residuals)
        .map(|(a, b)| a + b)
        .collect();
    values
        .iter()
        .zip(&y)
        .for_each(|(&got, &y)| close(got, y, 1e-12));
}

#[test]
fn errors_are_those_of_statsmodels_without_each_run() {
    let (x, y) = measured();
    let (ones, logs) = (vec![1.0; 16], x.iter().map(|x| x.ln()).collect());
    let odd: Vec<f64> = (0..16).map(|i| f64::from(i % 2)).collect();
    let number: Vec<f64> = (0..16).map(f64::from).collect();
    let all = [
        vec![ones.clone(), x.clone()],
        vec![ones.clone(), logs],
        vec![ones, x, odd, number],
    ];
    // Runs that are free: the odd ones are in all pairs alike.
    let alone = [
        (vec![58.48690643300748, 1.2419499402116507], 14),
        (vec![14.691380409532913, 7.603090813981468], 14),
        (
            vec![
                110.9864118668881,
                1.3559960917275682,
                97.7744233360158,
                10.696996664031863,
            ],
            12,
        ),
    ];
    let pairs = [
        (vec![82.8880702743986, 1.1138499948556555], 6),
        (vec![20.712070418200017, 9.95568857842727], 6),
        (
            vec![
                137.5349128060325,
                1.304470250239461,
                44.10644009723578,
                14.559794500095784,
            ],
            5,
        ),
    ];
    for (runs, expected) in RUNS.iter().zip([alone, pairs]) {
        for (columns, (errors, free)) in all.iter().zip(expected) {
            let fitted = fit(columns, of_runs(&y, runs)).unwrap();
            assert_eq!(fitted.runs.1, free);
            for (estimate, error) in coefficients(&fitted).iter().zip(errors) {
                close(estimate.error, error, 1e-9);
            }
        }
    }
    let line = coefficients(&fit(&all[0], of_runs(&y, &RUNS[1])).unwrap());
    close(line[1].p, 0.004982726794145505, 1e-8);
}

#[test]
fn measurements_of_one_run_do_not_pass_for_many() {
    // Nothing depends on x, and what disturbs a run disturbs all of its eight measurements; few runs are few, too.
    const STUDIES: u64 = 400;
    for count in [20, 6, 4] {
        let runs: Vec<usize> = (0..8 * count).map(|i| i / 8).collect();
        let x: Vec<f64> = runs.iter().map(|run| (run % 4 + 1) as f64).collect();
        let found = (0..STUDIES).map(|study| {
            let mut noise = Stream::new(&[5, study]);
            let of_run: Vec<f64> = (0..count).map(|_| f64::from(noise.normal())).collect();
            let of_each = |run: &usize| 10.0 + of_run[*run] + 0.1 * f64::from(noise.normal());
            let y: Vec<f64> = runs.iter().map(of_each).collect();
            let by = |shape: Shape| shape.fit(&x, of_runs(&y, &runs)).unwrap().fitted;
            let line = by(Shape::Linear);
            let (low, high) = line.estimates[1].unwrap().interval;
            let better = by(Shape::Constant).aic() - line.aic();
            (low < 0.0 && 0.0 < high, better > 10.0)
        });
        let found: Vec<(bool, bool)> = found.collect();
        // Of measurements that were taken for independent, about half of the intervals hold.
        let holding = found.iter().filter(|(holds, _)| *holds).count();
        assert!(
            (352..=396).contains(&holding),
            "{count}: {holding} of {STUDIES}"
        );
        // And in half of all studies a line is better by far than what is true.
        let sure = found.iter().filter(|(_, sure)| *sure).count();
        assert!(count < 20 || sure < 4, "{count}: {sure} of {STUDIES}");
    }
}

#[test]
fn two_values_are_a_line_or_none() {
    let x = [1.0, 1.0, 1.0, 2.0, 2.0, 2.0];
    let found = describe(&x, of_runs(&[1.0, 1.1, 0.9, 1.9, 2.0, 2.1], &RUNS[0][..6])).unwrap();
    let shapes: Vec<Shape> = found.curves.iter().map(|curve| curve.shape).collect();
    assert_eq!(
        (shapes, found.levels),
        (vec![Shape::Linear, Shape::Constant], 2)
    );
}

#[test]
fn what_cannot_be_told_is_not() {
    let line = [vec![1.0; 4], vec![1.0, 1.0, 2.0, 2.0]];
    let y = [3.0, 3.1, 4.0, 4.1];
    assert!(fit(&line, of_runs(&y, &[0, 1, 2, 3])).is_some());
    assert!(
        fit(&line, of_runs(&y, &[0, 0, 1, 1])).is_none(),
        "a line through two runs"
    );
    let line = line.map(|column| column[1..3].to_vec());
    assert!(fit(&line, of_runs(&y[1..3], &[0, 1])).is_none());
    assert!(correlation(&[1.0, 1.0], &[3.0, 4.0]).is_none());
    let found = describe(&[8.0; 3], of_runs(&[1.0, 2.0, 3.0], &RUNS[0][..3])).unwrap();
    assert_eq!(found.curves.len(), 1, "{found:?}");
    assert_eq!(found.curves[0].shape, Shape::Constant);
}
