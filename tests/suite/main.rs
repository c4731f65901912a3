//! Checks that need no launcher: the house, the data, the kernels, and the contracts on ranks as threads.
#![allow(clippy::unwrap_used)]

#[path = "../contracts/mod.rs"]
mod contracts;
mod threads;
