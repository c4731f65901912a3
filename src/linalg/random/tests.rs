//! What a user relies on in random matrices: known bits, and no pattern in the numbers.

use std::f64::consts::FRAC_1_SQRT_2;

use super::*;

fn matrix(law: Law, seed: u64, rows: usize, cols: usize) -> Vec<Vec<f64>> {
    let random = Random::new(law, seed);
    let row = |i| {
        let mut row = vec![0.0; cols];
        random.fill(i, 0, &mut row);
        row
    };
    (0..rows).map(row).collect()
}

/// The correlation of pairs with mean 0 and variance 1, in units of what chance alone gives.
fn correlation(pairs: impl Iterator<Item = (f64, f64)>) -> f64 {
    let (mut n, mut sum) = (0, 0.0);
    for (a, b) in pairs {
        n += 1;
        sum += a * b;
    }
    sum / f64::from(n).sqrt()
}

#[test]
fn the_bits_are_those_of_philox() {
    // The known answers that come with the authors' own implementation, Random123.
    for (words, key, answer) in [
        (
            [0; 4],
            [0; 2],
            [0x6627_e8d5, 0xe169_c58d, 0xbc57_ac4c, 0x9b00_dbd8],
        ),
        (
            [LOW; 4],
            [LOW; 2],
            [0x408f_276d, 0x41c8_3b0e, 0xa20b_c7c6, 0x6d54_51fd],
        ),
        (
            [0x243f_6a88, 0x85a3_08d3, 0x1319_8a2e, 0x0370_7344],
            [0xa409_3822, 0x299f_31d0],
            [0xd16c_fe09, 0x94fd_cceb, 0x5001_e420, 0x2412_6ea1],
        ),
    ] {
        assert_eq!(philox(words, key).map(|word| word & LOW), answer);
    }
}

#[test]
fn wide_vectors_and_any_machine_give_the_same_bits() {
    let place = Place {
        key: [1, 2],
        row: 3,
        chunk: 4,
    };
    let (mut plain, mut vectors) = (vec![0.0f64; 1000], vec![0.0f64; 1000]);
    Fill::<Normal, f64>::new(place, 5, &mut plain).run();
    wide(Fill::<Normal, f64>::new(place, 5, &mut vectors));
    assert_eq!(plain, vectors);
}

#[test]
fn the_first_numbers_of_a_seed_never_change() {
    let first = |law| matrix(law, 1, 1, 8).remove(0);
    let normal = [-0.349391475039397, 0.6335541590048952, 0.11031647347311846];
    assert_eq!(first(Law::Normal)[..3], normal);
    let uniform = [0.7425574217860695, 0.8681964576588892, 0.847834343898396];
    assert_eq!(first(Law::Uniform)[..3], uniform);
    assert_eq!(first(Law::Sign), [1.0, 1.0, 1.0, -1.0, -1.0, 1.0, 1.0, 1.0]);
}

#[test]
fn normal_numbers_have_their_moments_and_tails() {
    let (rows, cols) = (1000, 2000);
    let all = matrix(Law::Normal, 11, rows, cols).concat();
    let n = all.len() as f64;
    let moment = |power| all.iter().map(|x| x.powi(power)).sum::<f64>() / n;
    // A moment's mean and its variance over samples: E xᵏ, and E x²ᵏ - (E xᵏ)².
    for (power, mean, variance) in [
        (1, 0.0, 1.0),
        (2, 1.0, 2.0),
        (3, 0.0, 15.0),
        (4, 3.0, 96.0),
        (6, 15.0, 10_170.0f64),
    ] {
        let off = (moment(power) - mean) / (variance / n).sqrt();
        assert!(off.abs() < 4.0, "moment {power} is {off} deviations off");
    }
    for bound in [2.0, 3.0, 4.0, 4.5] {
        let chance = libm::erfc(bound * FRAC_1_SQRT_2);
        let beyond = all.iter().filter(|x| x.abs() > bound).count() as f64;
        let off = (beyond - chance * n) / (chance * n).sqrt();
        assert!(off.abs() < 4.0, "{beyond} beyond {bound}: {off} deviations");
    }
}

#[test]
fn numbers_follow_their_laws_everywhere() {
    // Kolmogorov and Smirnov: 1.95/√n is passed once in a thousand times.
    let normal = |x: f64| 0.5 * libm::erfc(-x * FRAC_1_SQRT_2);
    let laws: [(Law, &dyn Fn(f64) -> f64); 2] = [(Law::Normal, &normal), (Law::Uniform, &|x| x)];
    for (law, below) in laws {
        let mut all = matrix(law, 5, 500, 1000).concat();
        all.sort_by(f64::total_cmp);
        let n = all.len() as f64;
        let distance = all.iter().zip(0..).map(|(&x, i)| {
            let (low, high) = (f64::from(i) / n, f64::from(i + 1) / n);
            (below(x) - low).max(high - below(x))
        });
        let distance = distance.fold(0.0, f64::max);
        assert!(distance < 1.95 / n.sqrt(), "{law:?}: {distance}");
    }
}

#[test]
fn neighbours_and_mirror_images_are_independent() {
    let n = 1024;
    for law in [Law::Normal, Law::Uniform, Law::Sign] {
        let standard = |x: f64| match law {
            Law::Uniform => (x - 0.5) * 12f64.sqrt(),
            _ => x,
        };
        let read = |seed| -> Vec<Vec<f64>> {
            let mut all = matrix(law, seed, n, n);
            all.iter_mut().flatten().for_each(|x| *x = standard(*x));
            all
        };
        let (a, other) = (read(1), read(2));
        // Squares too: numbers of one pair share their distance from zero until the direction divides it.
        let square = |x: f64| (x * x - 1.0) * FRAC_1_SQRT_2;
        let laws: [(&str, &dyn Fn(f64) -> f64); 2] = [("value", &|x| x), ("square", &square)];
        for (what, of) in laws {
            if law != Law::Normal && what == "square" {
                continue;
            }
            let at = |i: usize, j: usize| of(a[i][j]);
            let all = || (0..n).flat_map(|i| (0..n).map(move |j| (i, j)));
            for distance in [1, 2, 4, CHUNK / 4, CHUNK / 2, CHUNK] {
                let right = all().filter(|&(_, j)| j + distance < n);
                let off = correlation(right.map(|(i, j)| (at(i, j), at(i, j + distance))));
                assert!(off.abs() < 4.0, "{law:?} {what} right {distance}: {off}");
                let below = all().filter(|&(i, _)| i + distance < n);
                let off = correlation(below.map(|(i, j)| (at(i, j), at(i + distance, j))));
                assert!(off.abs() < 4.0, "{law:?} {what} below {distance}: {off}");
            }
            let upper = all().filter(|(i, j)| i < j);
            let off = correlation(upper.map(|(i, j)| (at(i, j), at(j, i))));
            assert!(off.abs() < 4.0, "{law:?} {what} mirrored: {off}");
            let off = correlation(all().map(|(i, j)| (at(i, j), of(other[i][j]))));
            assert!(off.abs() < 4.0, "{law:?} {what} of another seed: {off}");
        }
    }
}

#[test]
fn laws_of_one_seed_are_independent() {
    let normal = matrix(Law::Normal, 1, 500, 500).concat();
    let sign = matrix(Law::Sign, 1, 500, 500).concat();
    let off = correlation(normal.into_iter().zip(sign));
    assert!(off.abs() < 4.0, "{off}");
}

#[test]
fn large_matrices_do_not_repeat() {
    let random = Random::new(Law::Normal, 1);
    let mut seen = std::collections::HashSet::new();
    for row in [0, 1, 1 << 31, 1 << 32, 1 << 33, (1 << 50) - 1] {
        for col in [
            0,
            1 << 20,
            1 << 32,
            1 << 36,
            1 << 38,
            1 << 40,
            (1 << 50) - 1,
        ] {
            let mut one = [0.0f64];
            random.fill(row, col, &mut one);
            assert!(seen.insert(one[0].to_bits()), "row {row}, column {col}");
        }
    }
}
