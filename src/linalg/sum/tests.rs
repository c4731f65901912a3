//! Sums against whole numbers of 128 bits, which are exact.

use super::*;
use crate::rng::Stream;

/// A whole number of `bits` bits, times a power of two up to `2^shift`, with a sign.
fn whole(stream: &mut Stream, bits: u32, shift: u64) -> i128 {
    let value = i128::from(stream.bits() >> (64 - bits)) << stream.below(shift + 1);
    match stream.below(2) {
        0 => value,
        _ => -value,
    }
}

/// A sum of whole numbers, exactly.
fn exactly(sum: Sum) -> i128 {
    sum.high as i128 + sum.low as i128
}

/// Checks a total against the exact sum and sum of absolute values.
fn check(total: Total, exact: i128, size: i128) {
    let off = (exactly(total.sum) - exact).unsigned_abs();
    assert!(off as f64 <= total.error, "{total:?} is {exact}");
    assert!(
        (exact - total.sum.high as i128).unsigned_abs() as f64 <= total.bound(),
        "{total:?} is {exact}"
    );
    assert!(total.size >= size as f64, "{total:?} of terms of {size}");
    assert!(total.size <= 1.001 * size as f64, "{total:?} of {size}");
}

/// Terms whose sum nearly vanishes: each is there with both signs, one of them a little changed.
fn cancelling(stream: &mut Stream, pairs: usize, bits: u32, shift: u64) -> Vec<i128> {
    let mut terms: Vec<i128> = (0..pairs).map(|_| whole(stream, bits, shift)).collect();
    terms.extend(terms.clone().iter().map(|term| -term));
    for i in (1..terms.len()).rev() {
        terms.swap(i, stream.below(i as u64 + 1) as usize);
    }
    terms.extend((0..stream.below(9)).map(|_| whole(stream, 8, 0)));
    terms
}

#[test]
fn sums_that_nearly_vanish_are_right_to_the_last_bit() {
    let mut stream = Stream::new(&[1]);
    for round in 0..200 {
        let terms = cancelling(&mut stream, 1 + round * 7, 53, 20);
        let floats: Vec<f64> = terms.iter().map(|&term| term as f64).collect();
        let (exact, size) = (terms.iter().sum(), terms.iter().map(|t| t.abs()).sum());
        let total = sum(&floats);
        check(total, exact, size);
        assert_eq!(total.sum.high, exact as f64, "of {size}");
    }
}

#[test]
fn dot_products_that_nearly_vanish_are_nearly_right_and_within_their_bounds() {
    let mut stream = Stream::new(&[2]);
    for round in 0..200 {
        // Products of 106 bits at places that differ by up to 10: their sum has up to 126.
        let x = cancelling(&mut stream, 1 + round, 53, 10);
        // Terms with both signs meet the same factor only if all factors are alike: a few are not.
        let factor = whole(&mut stream, 53, 0) | 1;
        let y: Vec<i128> = (0..x.len() as i128)
            .map(|i| factor + i128::from(i % 50 == 7))
            .collect();
        let terms = || x.iter().zip(&y).map(|(x, y)| x * y);
        let float = |values: &[i128]| values.iter().map(|&v| v as f64).collect::<Vec<_>>();
        let total = dot(&float(&x), &float(&y));
        let (exact, size) = (terms().sum(), terms().map(i128::abs).sum());
        check(total, exact, size);
        let close = 1e-15 * (exact as f64).abs() + 1e-28 * size as f64;
        assert!(
            (total.sum.high - exact as f64).abs() <= close,
            "{total:?} is {exact}"
        );
    }
}

#[test]
fn plain_sums_of_the_same_terms_are_wrong() {
    // That the tests above can fail at all.
    let mut stream = Stream::new(&[1]);
    let terms = cancelling(&mut stream, 500, 53, 20);
    let plain: f64 = terms.iter().map(|&term| term as f64).sum();
    assert_ne!(plain, terms.iter().sum::<i128>() as f64);
}

#[test]
fn products_of_singles_are_exact() {
    let mut stream = Stream::new(&[3]);
    for len in [0, 1, 7, 8, 9, 1000] {
        let mut draw = || {
            (0..len)
                .map(|_| whole(&mut stream, 24, 20))
                .collect::<Vec<_>>()
        };
        let (x, y) = (draw(), draw());
        let single = |values: &[i128]| values.iter().map(|&v| v as f32).collect::<Vec<_>>();
        let total = dot(&single(&x), &single(&y));
        let terms = || x.iter().zip(&y).map(|(x, y)| x * y);
        check(total, terms().sum(), terms().map(i128::abs).sum());
        assert_eq!(exactly(total.sum), terms().sum::<i128>());
    }
}

#[test]
fn wide_vectors_and_none_give_the_same_bits() {
    let mut stream = Stream::new(&[4]);
    let mut draw = |_| (stream.fraction() - 0.5) * 10f64.powi(stream.below(440) as i32 - 300);
    let x: Vec<f64> = (0..10_003).map(&mut draw).collect();
    let y: Vec<f64> = (0..10_003).map(&mut draw).collect();
    let bits = |s: &Strands| [s.high, s.low, s.size].map(|all| all.map(f64::to_bits));
    let same = |work: &dyn Fn(&mut Strands, bool)| {
        let (mut plain, mut vectors) = (Strands::default(), Strands::default());
        work(&mut plain, false);
        work(&mut vectors, true);
        assert_eq!(bits(&plain), bits(&vectors));
    };
    same(&|out, vectors| {
        let work = Terms { x: &x, out };
        match vectors {
            true => wide(work),
            false => work.run(),
        }
    });
    same(&|out, vectors| {
        let (x, y) = (&x[..], &y[..]);
        let work = Products { x, y, out };
        match vectors {
            true => wide(work),
            false => work.run(),
        }
    });
}

#[test]
fn totals_of_parts_add_up_to_the_whole() {
    let mut stream = Stream::new(&[5]);
    let terms = cancelling(&mut stream, 5000, 53, 20);
    let floats: Vec<f64> = terms.iter().map(|&term| term as f64).collect();
    let mut total = Total::default();
    for part in floats.chunks(333) {
        let part = sum(part);
        total += Total::from_bytes(&part.to_bytes());
    }
    let (exact, size) = (terms.iter().sum(), terms.iter().map(|t| t.abs()).sum());
    check(total, exact, size);
    assert_eq!(total.sum.high, exact as f64);
    check(total.twice(), 2 * exact, 2 * size);
}
