//! Regressions against what SciPy 1.17 and NumPy say of the same numbers.

use super::*;

/// Speeds over eight batch sizes, twice: a limit of 900, half of it at 6, and noise.
fn measured() -> (Vec<f64>, Vec<f64>) {
    let x = [1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0];
    let y = [
        133.8, 237.3, 365.0, 494.7, 668.1, 764.6, 814.8, 868.4, 134.0, 229.4, 360.4, 522.5, 643.5,
        755.5, 815.6, 868.7,
    ];
    ([x, x].concat(), y.to_vec())
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
    let line = Shape::Linear.fit(&x, &y, 0).unwrap().fitted;
    let [a, b] = coefficients(&line)[..] else {
        panic!("two coefficients")
    };
    close(a.value, 388.8916731216111, 1e-12);
    close(b.value, 4.811829862851414, 1e-12);
    close(a.error, 55.88410451967846, 1e-12);
    close(b.error, 1.069442071770177, 1e-12);
    close(b.p, 0.0004997815687128947, 1e-9);
    close(line.r_squared(), 0.5911746357669585, 1e-12);
    close(correlation(&x, &y).unwrap(), 0.7688788173483248, 1e-12);
    let log = Shape::Logarithmic.fit(&x, &y, 0).unwrap().fitted;
    let [a, b] = coefficients(&log)[..] else {
        panic!("two coefficients")
    };
    close(a.value, 150.975, 1e-12);
    close(b.value, 161.29072933024165, 1e-12);
    close(b.error, 6.59256489392585, 1e-12);
    // The t of 95 % for 14 degrees of freedom.
    close(b.interval.1 - b.value, 2.1447866879169273 * b.error, 1e-9);
}

#[test]
fn a_limit_is_that_of_scipys_curve_fit() {
    let (x, y) = measured();
    let curve = Shape::Saturating.fit(&x, &y, 0).unwrap();
    let [a, b] = coefficients(&curve.fitted)[..] else {
        panic!("two coefficients")
    };
    close(a.value, 899.8094927870816, 1e-6);
    close(b.value, 5.945001176979939, 1e-6);
    close(a.error, 5.33022366251518, 1e-5);
    close(b.error, 0.1379281418091883, 1e-5);
    close(curve.fitted.squares.0, 1306.565286771759, 1e-9);
    close(curve.at(6.0), 899.8094927870816 * 6.0 / 11.945, 1e-6);
}

#[test]
fn the_model_that_made_the_numbers_is_found() {
    let (x, y) = measured();
    let found = describe(&x, &y, 0).unwrap();
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
        describe(&x, &line, 0).unwrap().curves[0].shape,
        Shape::Linear
    );
    let noise: Vec<f64> = (0..16).map(|i| 5.0 + f64::from(i * 7 % 16)).collect();
    assert_eq!(
        describe(&x, &noise, 0).unwrap().curves[0].shape,
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
    let fitted = fit(&columns, &y, 0).unwrap();
    assert_eq!((fitted.estimates[4], fitted.freedom), (None, 12));
    let expected = [
        (322.70695586777947, 95.68452596753565),
        (4.292655277706512, 1.2581961475963401),
        (-1.6205845771144072, 94.99168881533036),
        (11.13915992585105, 10.988333539494825),
    ];
    for (estimate, (value, error)) in fitted.estimates.iter().flatten().zip(expected) {
        close(estimate.value, value, 1e-10);
        close(estimate.error, error, 1e-10);
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
fn what_cannot_be_told_is_not() {
    assert!(fit(&[vec![1.0, 1.0], vec![1.0, 2.0]], &[3.0, 4.0], 0).is_none());
    assert!(correlation(&[1.0, 1.0], &[3.0, 4.0]).is_none());
    let found = describe(&[8.0; 3], &[1.0, 2.0, 3.0], 0).unwrap();
    assert_eq!(found.curves.len(), 1, "{found:?}");
    assert_eq!(found.curves[0].shape, Shape::Constant);
}
