//! Checks that need no launcher: the house, the data, the kernels, and the contracts on ranks as threads.
#![allow(clippy::unwrap_used)]

mod allocations;
mod augment;
mod checkpoints;
mod clicks;
mod command_line;
#[path = "../contracts/mod.rs"]
mod contracts;
mod crew;
mod data;
mod house;
mod importers;
mod kernels;
mod leases;
mod licences;
mod matrices;
mod matrix_folders;
mod models;
mod reference;
mod studies;
mod text;
mod threads;
