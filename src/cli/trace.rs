//! `phalanx trace`.

use clap::{Args, ValueEnum};

use super::matrix::MatrixArgs;
use crate::commands::trace::Settings;
use crate::linalg::trace::Via;

/// The trace of a matrix, of a product of two, or of a power.
///
/// A matrix is an HDF5 data set (A.h5:/dataset), or a formula such as random:normal, identity, hilbert or lehmer, which is
/// never stored. The trace of A·B takes n² products and not n³, as only the diagonal of the product is needed; these are added
/// up as if in twice the precision of f64, and what may still be missing is told as an error bound. Under mpirun, ranks
/// share the work, and the result has the same bits for any number of them.
#[derive(Args)]
pub(super) struct Trace {
    #[command(flatten)]
    matrix: MatrixArgs,
    /// Take the trace of A·B; a formula gets the shape that fits.
    #[arg(long, value_name = "B", conflicts_with = "power")]
    b: Option<String>,
    /// Take the trace of A to this power; beyond 2 it takes products of matrices, for which A must fit into memory.
    #[arg(long, value_name = "K", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=64))]
    power: u32,
    /// How to take the trace of a product.
    #[arg(long, value_enum, default_value_t = Way::Direct)]
    via: Way,
    /// The same bits on any number of ranks for powers that need products; up to the power of 2 it is always so.
    #[arg(long)]
    reproducible: bool,
}

#[derive(Clone, Copy, ValueEnum)]
enum Way {
    /// As an inner product, without the product of the matrices.
    Direct,
    /// By products of blocks (BLAS), as a check or to see what it costs.
    Product,
}

impl Trace {
    pub(super) fn resolve(self) -> Settings {
        Settings {
            common: self.matrix.resolve(),
            b: self.b,
            power: self.power,
            via: match self.via {
                Way::Direct => Via::Direct,
                Way::Product => Via::Product,
            },
            reproducible: self.reproducible,
        }
    }
}
