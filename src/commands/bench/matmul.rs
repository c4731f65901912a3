//! `phalanx bench matmul`: products by all ranks against BLAS on each rank by itself.

use std::time::Instant;

use ndarray::linalg::general_mat_mul;
use ndarray::{Array2, ArrayViewMut2};
use serde_json::json;

use super::{check_ranks, median};
use crate::Result;
use crate::backend::{Gemm, Wanted};
use crate::comm::{Comm, agree, nodes};
use crate::commands::device::Chosen;
use crate::linalg::{Job, Left, Plan, Precision, Product, Real, Source};
use crate::observe::{proportional_memory_mb, say};

/// What to measure.
pub struct Settings {
    /// Rows, columns and the length of sums.
    pub shapes: Vec<[usize; 3]>,
    /// Kinds of numbers.
    pub precisions: Vec<Precision>,
    /// How many of the ranks take part; all, if empty.
    pub ranks: Vec<usize>,
    /// Times that each is measured.
    pub rounds: usize,
    /// What computes, and whose kernels multiply.
    pub device: (Wanted, Gemm),
    /// Whether to print JSON.
    pub json: bool,
}

/// One measurement, in seconds, of the slowest rank.
struct Round {
    product: f64,
    check: f64,
    /// Of all ranks at once, each a product of the same size by itself.
    apart: f64,
}

/// Measures and prints; *collective*.
pub fn run(comm: &dyn Comm, settings: &Settings) -> Result<()> {
    let ranks = check_ranks(comm, &settings.ranks)?;
    let chosen = Chosen::find(comm, settings.device, None)?;
    if comm.rank() == 0 && !settings.json {
        say(&format!(
            "bench matmul: held in memory, medians of {} rounds in turns with BLAS on each rank by itself
device: {}
{:>24} {:>4} {:>5} {:>9} {:>10} {:>9} {:>6} {:>7} {:>8} {:>9}",
            settings.rounds,
            chosen.words,
            "m×n×k",
            "type",
            "ranks",
            "grid",
            "s",
            "GFLOP/s",
            "BLAS",
            "share",
            "check",
            "PSS MiB"
        ));
    }
    for &shape in &settings.shapes {
        for &precision in &settings.precisions {
            for &ranks in &ranks {
                let group = comm.split(usize::from(comm.rank() >= ranks));
                if comm.rank() < ranks {
                    let measure = match precision {
                        Precision::Single => measure::<f32>,
                        Precision::Double => measure::<f64>,
                    };
                    measure(&*group, settings, &chosen, shape)?;
                }
                comm.barrier();
            }
        }
    }
    Ok(())
}

fn measure<T: Real>(
    comm: &dyn Comm,
    settings: &Settings,
    chosen: &Chosen,
    [m, n, k]: [usize; 3],
) -> Result<()> {
    let device = chosen.multiplier::<T>(comm, m.max(n).max(k))?;
    let open = |rows, cols, seed| Source::open("random:normal", (Some(rows), Some(cols)), seed);
    let (a, b) = agree(comm, open(m, k, 1).and_then(|a| Ok((a, open(k, n, 2)?))))?;
    let plan = agree(
        comm,
        Plan::choose(&Job {
            m,
            n,
            k,
            precision: T::PRECISION,
            nodes: nodes(comm),
            memory: usize::MAX,
            grid: None,
            algorithm: None,
            unit: 1,
        }),
    )?;
    let product = Product {
        a: Left::Source(&a),
        b: &b,
        c: None,
        alpha: T::one(),
        beta: T::zero(),
        plan: &plan,
        check: Some(1),
        device: device.as_ref(),
        flip: None,
    };
    let mut rounds = Vec::new();
    let mut memory = [0.0];
    for _ in 0..settings.rounds {
        let apart = alone(comm, &product)?;
        let outcome = product.run(comm, &mut |_, _, _| Ok(()))?;
        memory = [proportional_memory_mb()];
        comm.sum(&mut memory);
        let work = outcome.work;
        let mut slowest = [work.computing + work.talking, work.checking, apart];
        comm.max(&mut slowest);
        let [product, check, apart] = slowest;
        rounds.push(Round {
            product,
            check,
            apart,
        });
    }
    if comm.rank() == 0 {
        say(&match settings.json {
            true => json(&plan, &rounds, memory[0], chosen),
            false => line(&plan, &rounds, memory[0]),
        });
    }
    Ok(())
}

/// Seconds in which each rank multiplies, by one call of BLAS, what it has of the product; *collective*.
fn alone<T: Real>(comm: &dyn Comm, product: &Product<T>) -> Result<f64> {
    let place = product.plan.grid.place(comm.rank());
    let Some([rows, cols, k]) = place.map(|place| product.plan.ranges(place)) else {
        comm.barrier();
        return Ok(0.0);
    };
    let mut a = Array2::zeros((rows.len(), k.len()));
    let mut b = Array2::zeros((k.len(), cols.len()));
    let mut c = Array2::zeros((rows.len(), cols.len()));
    let fill = |mut out: ArrayViewMut2<T>| {
        // Any numbers do; reading the source again would take longer than the product.
        let mut value = T::nearest(0.25);
        for x in &mut out {
            value = -value;
            *x = value;
        }
    };
    fill(a.view_mut());
    fill(b.view_mut());
    // Memory that was never written would be mapped while the time runs.
    fill(c.view_mut());
    comm.barrier();
    let start = Instant::now();
    general_mat_mul(T::one(), &a, &b, T::zero(), &mut c);
    Ok(start.elapsed().as_secs_f64())
}

fn line(plan: &Plan, rounds: &[Round], memory: f64) -> String {
    let job = &plan.job;
    let seconds = median(rounds.iter().map(|round| round.product));
    let check = median(rounds.iter().map(|round| round.check / round.product));
    format!(
        "{:>24} {:>4} {:>5} {:>9} {:>10.4} {:>9.1} {:>6.1} {:>6.0} % {:>6.2} % {:>9.0}",
        format!("{}×{}×{}", job.m, job.n, job.k),
        job.precision.to_string(),
        job.nodes.len(),
        plan.grid.to_string(),
        seconds,
        plan.flop() / seconds / 1e9,
        plan.flop() / median(rounds.iter().map(|round| round.apart)) / 1e9,
        100.0 * share(rounds),
        100.0 * check,
        memory,
    )
}

/// The speed of the product, where that of BLAS by itself is 1.
fn share(rounds: &[Round]) -> f64 {
    median(rounds.iter().map(|round| round.apart / round.product))
}

fn json(plan: &Plan, rounds: &[Round], memory: f64, chosen: &Chosen) -> String {
    let job = &plan.job;
    let seconds = median(rounds.iter().map(|round| round.product));
    let dtype = match job.precision {
        Precision::Single => "float32",
        Precision::Double => "float64",
    };
    let blas = median(rounds.iter().map(|round| round.apart));
    json!({
        "peer": "phalanx", "workload": "matmul", "procs": job.nodes.len(), "threads": 1, "m": job.m, "n": job.n, "k": job.k,
        "dtype": dtype, "grid": plan.grid.to_string(), "algorithm": plan.algorithm().name(), "s_per_batch": seconds,
        "gflops": plan.flop() / seconds / 1e9, "blas_gflops": plan.flop() / blas / 1e9, "share": share(rounds),
        "device": chosen.words, "emulated": chosen.is_emulated(),
        "check_seconds": median(rounds.iter().map(|round| round.check)), "pss_mb": memory,
    })
    .to_string()
}
