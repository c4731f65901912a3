//! `phalanx matmul`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

use super::device::DeviceArgs;
use super::matrix::Type;
use super::{bytes, positive};
use crate::commands::matmul::{Check, Settings};
use crate::linalg::{Algorithm, Grid, Precision};

/// The product of two matrices, C = αA·B + βC.
///
/// A matrix is an HDF5 data set (A.h5:/dataset), or a formula such as random:normal, identity, hilbert or lehmer, which is
/// never stored. Under mpirun, ranks share the work as a plan says (--plan shows it and computes nothing); what does not fit
/// into --memory is streamed. Every product is checked by Freivalds' test.
#[derive(Args)]
pub(super) struct Matmul {
    /// The matrix A: FILE.h5:/dataset or a formula.
    #[arg(long, value_name = "A")]
    a: String,
    /// The matrix B.
    #[arg(long, value_name = "B")]
    b: String,
    /// A matrix that is added, times --beta.
    #[arg(long, value_name = "C")]
    c: Option<String>,
    /// The factor of A·B.
    #[arg(
        long,
        value_name = "X",
        default_value_t = 1.0,
        allow_negative_numbers = true
    )]
    alpha: f64,
    /// The factor of C.
    #[arg(
        long,
        value_name = "X",
        default_value_t = 1.0,
        allow_negative_numbers = true,
        requires = "c"
    )]
    beta: f64,
    /// Rows of A, if it is a formula [default: those of --n].
    #[arg(long, value_name = "N", value_parser = positive)]
    m: Option<usize>,
    /// Columns of B, if it is a formula.
    #[arg(long, value_name = "N", value_parser = positive)]
    n: Option<usize>,
    /// Columns of A and rows of B, if they are formulas [default: those of --n].
    #[arg(long, value_name = "N", value_parser = positive)]
    k: Option<usize>,
    /// Numbers to compute with [default: those of the files, f64 for formulas].
    #[arg(long, value_enum, value_name = "TYPE")]
    r#type: Option<Type>,
    /// The key of random matrices: A has this one, B the next, C the one after.
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Where the product goes: a folder of blocks, joined by the data set /matrix of its file matrix.h5. Without, a summary
    /// is all that is kept.
    #[arg(long, value_name = "FOLDER")]
    out: Option<PathBuf>,
    /// Replace an older product.
    #[arg(long, requires = "out")]
    force: bool,
    /// Memory that a rank may take, such as 2GiB [default: its share of what is free].
    #[arg(long, value_name = "BYTES", value_parser = bytes)]
    memory: Option<usize>,
    /// How to divide the work [default: what should be fastest].
    #[arg(long, value_enum, value_name = "NAME")]
    algorithm: Option<AlgorithmArg>,
    /// Ranks in rows and columns of C, and in layers of k, such as 2x2x1 [default: what should be fastest].
    #[arg(long, value_name = "RxCxL", value_parser = grid)]
    grid: Option<Grid>,
    /// Show how the work would be divided, and stop.
    #[arg(long)]
    plan: bool,
    /// With --plan: for so many ranks, instead of those that are there.
    #[arg(long, value_name = "N", value_parser = positive, requires = "plan")]
    ranks: Option<usize>,
    /// With --ranks: so many of them on each node [default: all on one].
    #[arg(long, value_name = "N", value_parser = positive, requires = "ranks")]
    per_node: Option<usize>,
    #[command(flatten)]
    device: DeviceArgs,
    /// How to check the product.
    #[arg(long, value_enum, value_name = "HOW", default_value_t = CheckArg::Freivalds)]
    check: CheckArg,
    /// The same bits on any number of ranks; somewhat slower.
    #[arg(long)]
    reproducible: bool,
    /// A fault on demand: turns the lowest bit of the exponent of element (I, J) of the product over, to see that the check
    /// notices.
    #[arg(long, value_name = "flip:I:J", value_parser = flip)]
    inject: Option<(usize, usize)>,
    /// Print one line of JSON instead of a table.
    #[arg(long)]
    json: bool,
}

#[derive(Clone, Copy, ValueEnum)]
enum AlgorithmArg {
    /// C in blocks; every rank goes through all of k.
    Summa,
    /// C in blocks, and k in layers whose results are added up (2.5-D).
    Layered,
    /// k only, for a small C.
    SplitK,
    /// C in tiles whose panels come from the source each time.
    Streamed,
}

#[derive(Clone, Copy, ValueEnum)]
enum CheckArg {
    /// By products with a vector of random signs.
    Freivalds,
    /// Each block against one product by BLAS of all it needs: for small matrices.
    Dense,
    /// Not at all.
    None,
}

impl Matmul {
    pub(super) fn resolve(self) -> Settings {
        Settings {
            a: self.a,
            b: self.b,
            c: self.c,
            alpha: self.alpha,
            beta: self.beta,
            shape: [self.m.or(self.n), self.n, self.k.or(self.n)],
            precision: self.r#type.map(Precision::from),
            seed: self.seed,
            out: self.out,
            force: self.force,
            memory: self.memory,
            algorithm: self.algorithm.map(|name| match name {
                AlgorithmArg::Summa => Algorithm::Summa,
                AlgorithmArg::Layered => Algorithm::Layered,
                AlgorithmArg::SplitK => Algorithm::SplitK,
                AlgorithmArg::Streamed => Algorithm::Streamed,
            }),
            grid: self.grid,
            plan: self.plan,
            imagined: self
                .ranks
                .map(|ranks| (ranks, self.per_node.unwrap_or(ranks))),
            device: self.device.resolve(),
            check: match self.check {
                CheckArg::Freivalds => Check::Freivalds,
                CheckArg::Dense => Check::Dense,
                CheckArg::None => Check::None,
            },
            reproducible: self.reproducible,
            flip: self.inject,
            json: self.json,
        }
    }
}

/// Rows, columns and layers of ranks, such as 2x2x1 or 2x2.
fn grid(text: &str) -> Result<Grid, String> {
    let numbers: Option<Vec<usize>> = text.split('x').map(|number| number.parse().ok()).collect();
    match numbers.as_deref() {
        Some(&[rows, cols]) if rows * cols > 0 => Ok(Grid::new(rows, cols, 1)),
        Some(&[rows, cols, layers]) if rows * cols * layers > 0 => {
            Ok(Grid::new(rows, cols, layers))
        }
        _ => Err("expected rows, columns and layers of ranks, such as 2x2x1".into()),
    }
}

/// A row and a column, as in flip:3:5.
fn flip(text: &str) -> Result<(usize, usize), String> {
    let place = text
        .strip_prefix("flip:")
        .and_then(|rest| rest.split_once(':'));
    let place = place.and_then(|(row, col)| Some((row.parse().ok()?, col.parse().ok()?)));
    place.ok_or_else(|| "expected flip:I:J with a row and a column, from 0".into())
}
