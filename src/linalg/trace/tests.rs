//! Traces that are known, by every way, on any number of ranks.

use ndarray::Array2;

use super::*;
use crate::comm::run_ranks;
use crate::linalg::sum;

const MEMORY: usize = 1 << 30;

fn formula(name: &str, rows: usize, cols: usize) -> Source {
    Source::open(name, (Some(rows), Some(cols)), 7).unwrap()
}

fn job(a: Source, factor: Factor) -> Job {
    Job {
        a,
        factor,
        via: Via::Direct,
        memory: MEMORY,
    }
}

/// The trace on `ranks` ranks as threads, which all have the same.
fn on<T: Real>(ranks: usize, job: &Job) -> Traced {
    let all = run_ranks(ranks, |comm| trace::<T>(comm, job).unwrap());
    assert!(all.iter().all(|one| one.sum == all[0].sum));
    all.into_iter().next().unwrap()
}

fn dense(source: &Source) -> Array2<f64> {
    let (rows, cols) = (source.rows(), source.cols());
    let mut all = Array2::zeros((rows, cols));
    source.read(0..rows, 0..cols, all.view_mut()).unwrap();
    all
}

fn close(a: f64, b: f64, relative: f64) {
    assert!((a - b).abs() <= relative * b.abs(), "{a} is not {b}");
}

#[test]
fn known_traces_come_out() {
    for n in [1, 2, 15, 16, 17, 5000] {
        let traced = on::<f64>(2, &job(formula("hilbert", n, n), Factor::None));
        let hilbert: f64 = (0..n).rev().map(|i| 1.0 / (2 * i + 1) as f64).sum();
        close(traced.sum.high, hilbert, 1e-15);
        let traced = on::<f64>(3, &job(formula("lehmer", n, n), Factor::None));
        assert_eq!(traced.sum, Sum::new(n as f64, 0.0));
    }
    // Of an all-ones matrix: every one of n² products is 1.
    let ones = formula("ones", 300, 300);
    assert_eq!(on::<f32>(2, &job(ones, Factor::Itself)).sum.high, 90_000.0);
}

#[test]
fn products_with_the_identity_and_in_either_order_are_what_they_must_be() {
    let (a, b) = (
        formula("random:normal", 200, 333),
        formula("hilbert", 333, 200),
    );
    let ab = on::<f64>(2, &job(a.clone(), Factor::Other(b.clone())));
    let ba = on::<f64>(2, &job(b, Factor::Other(a)));
    close(ab.sum.high, ba.sum.high, 1e-15);
    let a = formula("random:normal", 300, 300);
    let one = Factor::Other(formula("identity", 300, 300));
    let whole = on::<f64>(3, &job(a.clone(), one));
    close(
        whole.sum.high,
        on::<f64>(1, &job(a, Factor::None)).sum.high,
        1e-15,
    );
}

#[test]
fn direct_by_blocks_and_dense_agree_on_ragged_shapes() {
    for (m, n) in [(1, 1), (1, 700), (129, 31), (300, 300), (517, 258)] {
        let a = formula("random:normal", m, n);
        let mut factors = vec![Factor::Other(formula("lehmer", n, m))];
        if m == n {
            factors.push(Factor::Itself);
        }
        for factor in factors {
            let b = match &factor {
                Factor::Other(b) => dense(b),
                _ => dense(&a),
            };
            let exact = dense(&a).dot(&b).diag().sum();
            let mut job = job(a.clone(), factor);
            let direct = on::<f64>(2, &job);
            job.via = Via::Product;
            let product = on::<f64>(2, &job);
            close(direct.sum.high, exact, 1e-10);
            close(product.sum.high, exact, 1e-10);
            let apart = (direct.sum.high - product.sum.high).abs();
            assert!(apart <= product.bound + direct.bound, "{m}×{n}");
            let single = on::<f32>(2, &job);
            let apart = (single.sum.high - direct.sum.high).abs();
            // The numbers of the Lehmer matrix are themselves rounded to f32.
            assert!(apart <= single.bound + 1e-7 * (m * n) as f64, "{m}×{n}");
        }
    }
}

#[test]
fn any_number_of_ranks_gives_the_same_bits() {
    let (m, n) = (700, 390);
    let square = formula("random:normal", n, n);
    let rectangle = formula("random:normal", m, n);
    let other = Factor::Other(formula("hilbert", n, m));
    let jobs = [
        job(square.clone(), Factor::None),
        job(square.clone(), Factor::Itself),
        job(rectangle.clone(), other.clone()),
        Job {
            via: Via::Product,
            ..job(rectangle, other)
        },
        Job {
            memory: 40_000,
            ..job(square, Factor::Itself)
        },
    ];
    for job in jobs {
        let one = on::<f64>(1, &job);
        for ranks in 2..=8 {
            let many = on::<f64>(ranks, &job);
            assert_eq!(many.sum, one.sum, "{job:?} on {ranks} ranks");
            assert_eq!(many.bound, one.bound);
            assert_eq!(many.tiles(), one.tiles());
            assert_eq!(many.numbers(), one.numbers());
        }
    }
}

#[test]
fn of_a_square_each_number_is_made_once() {
    let n = 777;
    let traced = on::<f64>(3, &job(formula("lehmer", n, n), Factor::Itself));
    assert_eq!(traced.numbers(), (n * n) as u64);
    assert_eq!(traced.bytes(), 8 * (n * n) as u64);
}

#[test]
fn memory_bounds_tiles_and_too_little_says_what_would_do() {
    let a = formula("lehmer", 1000, 1000);
    let mut job = job(a, Factor::Itself);
    // Two tiles, their rows, and 136 results.
    job.memory = 2 * 64 * 64 * 8 + 16 * 2 * 64 + 96 * 136;
    assert_eq!(on::<f64>(2, &job).side, 64);
    job.memory = 1000;
    let error = run_ranks(2, |comm| trace::<f64>(comm, &job).unwrap_err().to_string());
    assert!(error[0].contains("give --memory 67KiB"), "{}", error[0]);
    job.memory = 67 * 1024;
    on::<f64>(2, &job);
}

#[test]
fn shapes_that_do_not_fit_are_named() {
    let a = formula("ones", 3, 4);
    let cases = [
        (Factor::None, "a square, got 3×4"),
        (Factor::Itself, "a square, got 3×4"),
        (
            Factor::Other(formula("ones", 3, 4)),
            "expected 4×3, as A, ones, is 3×4, got 3×4",
        ),
    ];
    for (factor, words) in cases {
        let job = job(a.clone(), factor);
        let error = run_ranks(1, |comm| trace::<f64>(comm, &job).unwrap_err());
        assert!(error[0].report().contains(words), "{}", error[0].report());
    }
}

#[test]
fn a_rank_that_cannot_ends_all() {
    let ends = run_ranks(3, |comm| {
        let mut job = job(formula("ones", 900, 900), Factor::Itself);
        if comm.rank() == 1 {
            job.memory = 1000;
        }
        trace::<f64>(comm, &job).unwrap_err()
    });
    assert!(matches!(ends[1], Error::Usage(_)));
    for rank in [0, 2] {
        assert!(matches!(ends[rank], Error::Peer { rank: 1, .. }));
    }
}

#[test]
fn powers_are_those_of_dense_products_within_their_bounds() {
    let ones = job(formula("ones", 9, 9), Factor::None);
    let powers = run_ranks(2, |comm| {
        [1, 2, 3, 4, 5].map(|k| power::<f64>(comm, &ones, k, false).unwrap().sum.high)
    });
    assert_eq!(powers[0], [9.0, 81.0, 729.0, 6561.0, 59049.0]);
    let random = job(formula("random:normal", 83, 83), Factor::None);
    let a = dense(&random.a);
    let expected = [a.dot(&a).dot(&a), a.dot(&a).dot(&a).dot(&a)].map(|power| power.diag().sum());
    for ranks in [1, 2, 3, 4, 7, 8] {
        for (k, expected) in [3, 4].into_iter().zip(expected) {
            let found = run_ranks(ranks, |comm| power::<f64>(comm, &random, k, false).unwrap());
            let found = &found[0];
            assert!((found.sum.high - expected).abs() <= found.bound);
            close(found.sum.high, expected, 1e-10);
        }
    }
}

#[test]
fn reproducible_powers_have_the_same_bits_on_any_ranks() {
    let job = job(formula("random:normal", 1100, 1100), Factor::None);
    let of = |ranks| {
        let found = run_ranks(ranks, |comm| power::<f32>(comm, &job, 3, true).unwrap());
        assert!(found.iter().all(|one| one.sum == found[0].sum));
        found[0].sum
    };
    let one = of(1);
    for ranks in [2, 3, 6] {
        assert_eq!(of(ranks), one, "{ranks} ranks");
    }
}

#[test]
fn a_trace_beyond_all_numbers_is_an_error() {
    let job = job(formula("ones", 9, 9), Factor::Itself);
    let beyond = sum(&[f64::MAX, f64::MAX]);
    let error = finite(&beyond, &job).unwrap_err().to_string();
    assert!(error.contains("scale A, ones, down"), "{error}");
}
