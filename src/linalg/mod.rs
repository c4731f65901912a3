//! Matrices in blocks over ranks: where they come from, products, traces.
//!
//! ```text
//!  file or formula ─▶ Source ─┬▶ Plan ─▶ Product: each rank its block of C ─▶ Check ─▶ Summary, Output (a folder of blocks)
//!   (any rank has             │          panels read in place inside a node, sent between nodes, or streamed
//!    any block)               ├▶ trace: tiles of A with those of B across the diagonal ─▶ Total (twice the precision)
//!                             └▶ Tilewise: transpose, add, norm ─▶ Output
//! ```

mod check;
mod folder;
mod formula;
mod grid;
mod inner;
mod normal;
mod on_device;
mod operand;
mod output;
mod peak;
mod plan;
mod product;
mod random;
mod real;
mod solve;
mod source;
mod stored;
mod sum;
mod summary;
mod tiles;
pub mod trace;
mod weigh;

pub use check::Verdict;
pub use grid::{Grid, Place};
pub use inner::inner;
pub use on_device::Multiplier;
pub use output::Output;
pub use peak::gemm_peak;
pub use plan::{Algorithm, Job, Plan, Way};
pub use product::{Block, Left, Outcome, Product, Work};
pub use real::{Precision, Real};
pub use solve::{Factors, Solvable, Solved, solve, solve_bytes};
pub use source::Source;
pub use sum::{Sum, Total, dot, sum};
pub use summary::Summary;
pub use tiles::Tilewise;
