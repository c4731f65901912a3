//! What computes, as it is typed.

use clap::Args;

use crate::backend::Wanted;

#[derive(Args)]
pub(super) struct DeviceArgs {
    /// What computes: cuda (each rank on a GPU of its host, by its place there), cuda:N (on GPU N), cpu, or auto: a GPU if there is
    /// one and what else is asked for can be done on it, else the CPU. GPUs do not do --threads, --reproducible, --overlap and
    /// --record: with those, auto is the CPU and cuda an error.
    #[arg(long, value_name = "DEVICE", default_value_t = Wanted::Auto)]
    pub(super) device: Wanted,
}
