//! `phalanx matrix`, and what all commands on matrices have in common.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};

use super::{bytes, positive};
use crate::commands::matrix::{Action, Common, Settings};
use crate::linalg::Precision;

/// Element by element, and small systems of equations.
///
/// A matrix is an HDF5 data set (A.h5:/dataset), or a formula such as random:normal, identity, hilbert or lehmer, which is
/// never stored. Products are `phalanx matmul`, with a vector too; traces `phalanx trace`.
#[derive(Subcommand)]
pub(super) enum Matrix {
    Norm(Norm),
    Transpose(Transpose),
    Add(Add),
    Solve(Solve),
}

/// The Frobenius norm of a matrix, its largest element, its sum and a checksum.
#[derive(Args)]
pub(super) struct Norm {
    #[command(flatten)]
    matrix: MatrixArgs,
}

/// A matrix with its rows as columns.
#[derive(Args)]
pub(super) struct Transpose {
    #[command(flatten)]
    matrix: MatrixArgs,
    #[command(flatten)]
    out: OutArgs,
}

/// αA + βB.
#[derive(Args)]
pub(super) struct Add {
    #[command(flatten)]
    matrix: MatrixArgs,
    /// The matrix B, of the same shape.
    #[arg(long, value_name = "B")]
    b: String,
    /// The factor of A.
    #[arg(
        long,
        value_name = "X",
        default_value_t = 1.0,
        allow_negative_numbers = true
    )]
    alpha: f64,
    /// The factor of B.
    #[arg(
        long,
        value_name = "X",
        default_value_t = 1.0,
        allow_negative_numbers = true
    )]
    beta: f64,
    #[command(flatten)]
    out: OutArgs,
}

/// X with A·X = B, for a symmetric positive definite A that fits into one process: by Cholesky's factors.
#[derive(Args)]
pub(super) struct Solve {
    #[command(flatten)]
    matrix: MatrixArgs,
    /// The right side B; a formula has one column.
    #[arg(long, value_name = "B")]
    b: String,
    #[command(flatten)]
    out: OutArgs,
}

/// A matrix, its numbers, and what may be taken for it.
#[derive(Args)]
pub(super) struct MatrixArgs {
    /// The matrix A: FILE.h5:/dataset or a formula.
    #[arg(long, value_name = "A")]
    a: String,
    /// Rows and columns of A, if it is a formula.
    #[arg(long, value_name = "N", value_parser = positive, conflicts_with_all = ["rows", "cols"])]
    n: Option<usize>,
    /// Rows of A.
    #[arg(long, value_name = "N", value_parser = positive)]
    rows: Option<usize>,
    /// Columns of A.
    #[arg(long, value_name = "N", value_parser = positive)]
    cols: Option<usize>,
    /// Numbers to compute with [default: those of the files, f64 for formulas].
    #[arg(long, value_enum, value_name = "TYPE")]
    r#type: Option<Type>,
    /// The key of random matrices: the same formula, shape and seed are the same matrix. B has the next one.
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Memory that a rank may take, such as 512MiB.
    #[arg(long, value_name = "BYTES", default_value = "1GiB", value_parser = bytes)]
    memory: usize,
    /// Print one line of JSON instead of a table.
    #[arg(long)]
    json: bool,
}

impl MatrixArgs {
    pub(super) fn resolve(self) -> Common {
        Common {
            a: self.a,
            shape: (self.n.or(self.rows), self.n.or(self.cols)),
            precision: self.r#type.map(Precision::from),
            seed: self.seed,
            memory: self.memory,
            json: self.json,
        }
    }
}

/// Where a matrix goes.
#[derive(Args)]
pub(super) struct OutArgs {
    /// Where the result goes: a folder of blocks, joined by the data set /matrix of its file matrix.h5.
    #[arg(long, value_name = "FOLDER")]
    out: PathBuf,
    /// Replace an older result.
    #[arg(long)]
    force: bool,
}

#[derive(Clone, Copy, ValueEnum)]
pub(super) enum Type {
    F32,
    F64,
}

impl From<Type> for Precision {
    fn from(typed: Type) -> Self {
        match typed {
            Type::F32 => Self::Single,
            Type::F64 => Self::Double,
        }
    }
}

impl Matrix {
    /// Whether several ranks can do it.
    pub(super) fn takes_ranks(&self) -> bool {
        !matches!(self, Self::Solve(_))
    }

    pub(super) fn resolve(self) -> Settings {
        let (matrix, action, out) = match self {
            Self::Norm(typed) => (typed.matrix, Action::Norm, None),
            Self::Transpose(typed) => (typed.matrix, Action::Transpose, Some(typed.out)),
            Self::Add(typed) => {
                let action = Action::Add {
                    b: typed.b,
                    alpha: typed.alpha,
                    beta: typed.beta,
                };
                (typed.matrix, action, Some(typed.out))
            }
            Self::Solve(typed) => (typed.matrix, Action::Solve { b: typed.b }, Some(typed.out)),
        };
        Settings {
            common: matrix.resolve(),
            action,
            force: out.as_ref().is_some_and(|out| out.force),
            out: out.map(|out| out.out),
        }
    }
}
