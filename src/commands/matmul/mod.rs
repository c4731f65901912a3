//! `phalanx matmul`: a product of matrices by all ranks.

mod report;

use std::path::PathBuf;

use ndarray::linalg::general_mat_mul;
use ndarray::{Array2, ArrayView2};

use super::device::Chosen;
use super::matrix::precision_of;
use crate::backend::{Gemm, Wanted};
use crate::comm::{Comm, agree, nodes};
use crate::linalg::{
    Algorithm, Grid, Job, Left, Output, Plan, Precision, Product, Real, Source, Summary, gemm_peak,
};
use crate::observe::say;
use crate::train::{budget, readable};
use crate::{Error, Result};
use report::Report;

/// Rows, columns and parts of k of the tiles that make products the same bits on any number of ranks.
const UNIT: usize = 512;

/// How a product is checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Check {
    /// By Freivalds' test.
    Freivalds,
    /// Against one product by BLAS.
    Dense,
    /// Not at all.
    None,
}

/// What to multiply, and how.
pub struct Settings {
    /// The matrix A: a data set of a file, or a formula.
    pub a: String,
    /// The matrix B.
    pub b: String,
    /// The matrix that is added, if there is one.
    pub c: Option<String>,
    /// The factor of A·B.
    pub alpha: f64,
    /// The factor of C.
    pub beta: f64,
    /// What was said of m, n and k.
    pub shape: [Option<usize>; 3],
    /// Numbers to compute with, if not those of the files.
    pub precision: Option<Precision>,
    /// The key of random matrices.
    pub seed: u64,
    /// The folder that the product goes into.
    pub out: Option<PathBuf>,
    /// Whether it may replace an older one.
    pub force: bool,
    /// Bytes that a rank may take.
    pub memory: Option<usize>,
    /// How to divide the work, if it was said.
    pub algorithm: Option<Algorithm>,
    /// How ranks are arranged, if it was said.
    pub grid: Option<Grid>,
    /// Whether to show the plan only.
    pub plan: bool,
    /// Ranks, and ranks of a node, that the plan is for instead of those that are there.
    pub imagined: Option<(usize, usize)>,
    /// What computes, and whose kernels multiply.
    pub device: (Wanted, Gemm),
    /// How the product is checked.
    pub check: Check,
    /// Whether bits must not depend on the number of ranks.
    pub reproducible: bool,
    /// The element that is made wrong.
    pub flip: Option<(usize, usize)>,
    /// Whether to print JSON.
    pub json: bool,
}

/// The matrices of a product.
struct Matrices {
    a: Source,
    b: Source,
    c: Option<Source>,
    precision: Precision,
}

impl Settings {
    fn open(&self) -> Result<Matrices> {
        let [m, n, k] = self.shape;
        let a = Source::open(&self.a, (m, k), self.seed)?;
        let b = Source::open(
            &self.b,
            (k.or(Some(a.cols())), n),
            self.seed.wrapping_add(1),
        )?;
        fits("rows of B", a.cols(), b.rows())?;
        let open = |text: &String| {
            let shape = (Some(a.rows()), Some(b.cols()));
            Source::open(text, shape, self.seed.wrapping_add(2))
        };
        let c = self.c.as_ref().map(open).transpose()?;
        if let Some(c) = &c {
            fits("rows of C", a.rows(), c.rows())?;
            fits("columns of C", b.cols(), c.cols())?;
        }
        if let Some((row, col)) = self.flip
            && (row >= a.rows() || col >= b.cols())
        {
            return Err(Error::Usage(format!(
                "--inject flip:{row}:{col}: the product is {}×{}",
                a.rows(),
                b.cols()
            )));
        }
        let all: Vec<&Source> = [&a, &b].into_iter().chain(&c).collect();
        let precision = self.precision.unwrap_or_else(|| precision_of(&all));
        Ok(Matrices { precision, a, b, c })
    }

    /// How the work is divided; *collective*.
    fn plan(&self, comm: &dyn Comm, matrices: &Matrices) -> Result<Plan> {
        let nodes = match self.imagined {
            Some((ranks, each)) => (0..ranks).map(|rank| rank / each).collect(),
            None => nodes(comm),
        };
        // Every rank plans with what the one with the least has.
        let mut free = [u64::MAX - budget(comm).unwrap_or(8 << 30)];
        comm.max(&mut free);
        let memory = self.memory.unwrap_or((u64::MAX - free[0]) as usize);
        if let Some(grid) = self.grid.filter(|grid| grid.size() > nodes.len()) {
            return Err(Error::Usage(format!(
                "--grid {grid} takes {} ranks, and there are {}",
                grid.size(),
                nodes.len()
            )));
        }
        Plan::choose(&Job {
            m: matrices.a.rows(),
            n: matrices.b.cols(),
            k: matrices.a.cols(),
            precision: matrices.precision,
            nodes,
            memory,
            grid: self.grid,
            algorithm: self.algorithm,
            unit: if self.reproducible { UNIT } else { 1 },
        })
    }
}

fn fits(what: &str, expected: usize, got: usize) -> Result<()> {
    if expected == got {
        return Ok(());
    }
    Err(Error::Mismatch {
        what: what.into(),
        expected: expected.to_string(),
        got: got.to_string(),
        hint: "C = A·B needs A of m×k, B of k×n and C of m×n; formulas take their shape from --m, --n and --k",
    })
}

/// Multiplies and prints; *collective*.
pub fn run(comm: &dyn Comm, settings: &Settings) -> Result<()> {
    let matrices = agree(comm, settings.open())?;
    let plan = agree(comm, settings.plan(comm, &matrices))?;
    if settings.plan {
        if comm.rank() == 0 {
            say(&report::plan(&plan, settings.json));
        }
        return Ok(());
    }
    match matrices.precision {
        Precision::Single => multiply::<f32>(comm, settings, &matrices, &plan),
        Precision::Double => multiply::<f64>(comm, settings, &matrices, &plan),
    }
}

fn multiply<T: Real>(
    comm: &dyn Comm,
    settings: &Settings,
    matrices: &Matrices,
    plan: &Plan,
) -> Result<()> {
    let unfit = (settings.reproducible)
        .then_some("--reproducible multiplies in tiles of the CPU's products");
    let chosen = Chosen::find(comm, settings.device, unfit)?;
    let longest = plan.job.m.max(plan.job.n).max(plan.job.k);
    let device = chosen.multiplier::<T>(comm, longest)?;
    let product = Product {
        a: Left::Source(&matrices.a),
        b: &matrices.b,
        c: matrices.c.as_ref(),
        alpha: T::nearest(settings.alpha),
        beta: T::nearest(settings.beta),
        plan,
        check: (settings.check == Check::Freivalds).then_some(settings.seed),
        device: device.as_ref(),
        flip: settings.flip,
    };
    let dense = settings.check == Check::Dense;
    if dense {
        agree(comm, refuse_large::<T>(plan))?;
    }
    let shape = (plan.job.m, plan.job.n);
    let mut out = match &settings.out {
        Some(path) => Some(Output::create(comm, path, shape, settings.force)?),
        None => None,
    };
    comm.barrier();
    let peak = match chosen.device {
        // What a device could do is not known by what a CPU does.
        Some(_) => f64::NAN,
        None => gemm_peak::<T>(),
    };
    let (mut summary, mut largest) = (Summary::default(), 0.0f64);
    let outcome = product.run(comm, &mut |row, col, block| {
        summary.add(row, col, block);
        if dense {
            largest = largest.max(compare(&product, (row, col), block)?);
        }
        match &mut out {
            Some(out) => out.write(row, col, block),
            None => Ok(()),
        }
    });
    let outcome = match out {
        Some(out) => out.conclude(comm, outcome)?,
        None => outcome?,
    };
    let report = Report {
        settings,
        device: &chosen.words,
        plan,
        names: [matrices.a.name(), matrices.b.name()],
        works: report::gather(comm, &outcome.work, peak),
        verdict: outcome.verdict,
        dense: dense.then(|| {
            let mut all = [largest];
            comm.max(&mut all);
            all[0]
        }),
        summary: summary.together(comm),
    };
    if comm.rank() == 0 {
        say(&report.text());
    }
    Ok(())
}

/// Refuses to compare with one product where that does not fit.
fn refuse_large<T: Real>(plan: &Plan) -> Result<()> {
    let (m, n, k) = (plan.job.m, plan.job.n, plan.job.k);
    let need = size_of::<T>() * (m * k + k * n + m * n);
    if need <= plan.job.memory {
        return Ok(());
    }
    Err(Error::Usage(format!(
        "--check dense needs all of A, B and C in memory, {}, and a rank has {}: use --check freivalds",
        readable(need as u64),
        readable(plan.job.memory as u64)
    )))
}

/// The largest difference of a block from one product by BLAS of all that it needs, relative to what rounding can make.
fn compare<T: Real>(
    product: &Product<T>,
    (row, col): (usize, usize),
    block: ArrayView2<T>,
) -> Result<f64> {
    let (rows, cols) = (row..row + block.nrows(), col..col + block.ncols());
    let k = product.plan.job.k;
    let mut a = Array2::zeros((rows.len(), k));
    let mut b = Array2::zeros((k, cols.len()));
    let mut c = Array2::zeros(block.raw_dim());
    product.a.read(rows.clone(), 0..k, a.view_mut())?;
    product.b.read(0..k, cols.clone(), b.view_mut())?;
    if let Some(source) = product.c {
        source.read(rows, cols, c.view_mut())?;
    }
    let mut size = c.mapv(T::abs);
    general_mat_mul(product.alpha, &a, &b, product.beta, &mut c);
    let factors = (product.alpha.abs(), product.beta.abs());
    general_mat_mul(
        factors.0,
        &a.mapv(T::abs),
        &b.mapv(T::abs),
        factors.1,
        &mut size,
    );
    let roundings = 2.0 * (k as f64 + 2.0) * T::ROUNDOFF;
    let mut largest = 0.0f64;
    for ((index, &found), (expected, size)) in block.indexed_iter().zip(c.iter().zip(&size)) {
        let off = (found.wide() - expected.wide()).abs();
        let bound = roundings * size.wide();
        // What is not a number is within no bound.
        let within = off <= bound;
        if !within {
            let (i, j) = (row + index.0, col + index.1);
            return Err(Error::Wrong(format!(
                "element ({i}, {j}) is {found}, and {expected} by one product of BLAS"
            )));
        }
        if off > 0.0 {
            largest = largest.max(off / bound);
        }
    }
    Ok(largest)
}
