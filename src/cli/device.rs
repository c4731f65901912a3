//! What computes, as it is typed.

use clap::{Args, ValueEnum};

use crate::backend::{Gemm, Wanted};

#[derive(Args)]
pub(super) struct DeviceArgs {
    /// What computes: cuda (each rank on a GPU of its host, by its place there), cuda:N (on GPU N), cpu, or auto: a GPU if there is
    /// one and what else is asked for can be done on it, else the CPU. GPUs do not do --threads, --reproducible, --overlap and
    /// --record: with those, auto is the CPU and cuda an error.
    #[arg(long, value_name = "DEVICE", default_value_t = Wanted::Auto)]
    device: Wanted,
    /// Whose kernels multiply matrices on GPUs, in linear layers and `matmul`: own, or NVIDIA's cuBLAS where that is installed.
    #[arg(long, value_enum, default_value_t = GemmArg::Own)]
    gemm: GemmArg,
}

#[derive(Clone, Copy, ValueEnum)]
enum GemmArg {
    Own,
    Cublas,
}

impl DeviceArgs {
    /// What computes, and how.
    pub(super) fn resolve(&self) -> (Wanted, Gemm) {
        let gemm = match self.gemm {
            GemmArg::Own => Gemm::Own,
            GemmArg::Cublas => Gemm::Cublas,
        };
        (self.device, gemm)
    }
}
