//! phalanx trains models with MPI ranks, and tells its user what the ranks did.
//!
//! # The way of the data
//!
//! ```text
//!  *.h5 ─▶ Dataset ─▶ Steps ─▶ Loader ─▶ Batch ─▶ Backend ─▶ Tally ─▶ Journal ─▶ run folder
//!          (mapped)   (keyed    (u8 or f32         │  Crew: a Model a thread, layers call backend::cpu
//!                      order)    scaled to f32)    │  DeviceModel: a Model on a GPU, layers call backend::cuda
//!                                                  ▼
//!                                         Gradients ─▶ Exchange ─▶ Optimizer ─▶ parameters ─▶ model.h5
//!                                                       │  NodeShared, AllReduce: all ranks take a step together
//!                                                       │  OnDevice: the same, with all of it on the ranks' devices
//!                                                       │  Backup: the first ranks that are ready take it
//!                                                       │  OneSided: each rank by itself, on parameters of all
//!                                                       └  Local: each rank by itself, averaged now and then
//! ```
//!
//! Sparse rows go another way, which [`sparse`] draws: RowSet ─▶ Order ─▶ Exchange ─▶ weights of the features they touch.
//!
//! Matrices go a third: Source ─▶ Plan ─▶ Product ─▶ Check ─▶ Output, or Source ─▶ tiles ─▶ [`linalg::Total`] ([`linalg`]).
//!
//! One direction, no way back except the optimizer's update. The loop is [`train::train`] and fits on one screen.
//!
//! # The rooms
//!
//! | room | what is in it | the door to |
//! |---|---|---|
//! | [`cli`] | what the user may type: typed arguments become resolved settings | `clap` |
//! | [`commands`] | one file per command: wire the parts, run, print | |
//! | [`comm`] | ranks: [`comm::Comm`], [`comm::Window`], [`comm::Counters`], node-shared memory; on MPI and as threads | `mpi`, `libc` |
//! | [`data`] | data sets: format, order, loader, importers, photos, synthetic sets | `memmap2`, `image` |
//! | [`h5`] | reading and writing HDF5 | `hdf5`, `hdf5_sys` |
//! | [`nn`] | layers and models over flat arenas, and what takes batches through them: [`nn::Backend`] | `rayon` |
//! | [`backend`] | the layers' arithmetic, on CPUs and on NVIDIA GPUs | `std::arch`, `cudarc` |
//! | [`optim`] | gradients into updates, and at which rate | |
//! | [`exchange`] | how ranks agree | |
//! | [`sparse`] | wide sparse logistic regression: rules, exchanges, the loop, how good predictions are | |
//! | [`linalg`] | matrices in blocks over ranks: where they come from, products and their check, traces, where they go | `ndarray_linalg` |
//! | [`train`] | the loop, evaluation, metrics, the run folder | |
//! | [`checkpoint`] | what a run needs to go on: written in the background by all ranks, found whole again | |
//! | [`board`] | what each rank does, in shared memory; who hangs is named and ends the job | `if_addrs` |
//! | [`observe`] | progress, tables, resources of ranks and hosts, event files for TensorBoard, what ranks do now, what limited a run, reports and plots | `indicatif`, `procfs`, `nvml_wrapper`, `prost`, `ratatui`, `resvg` |
//! | [`study`] | what measurements say: medians, regressions, intervals, which model describes them best | |
//! | [`sweep`] | studies: many runs of one file, their tables and plots | `strsim` |
//! | [`tune`] | which configuration to try next, from a model of all trials | |
//!
//! [`tfrecord`] reads and writes TensorFlow's records (the door to `crc32c`), [`files`] writes so that nobody sees half of a file (the
//! door to `rustix`), [`rng`] makes random numbers from keys, [`error`] says what went wrong and what to do, [`interrupt`] turns Ctrl-C
//! into an error, [`logging`] sets up the log.
//!
//! # Rules that tests hold
//!
//! - A door is not bypassed: a dependency is named only in its room.
//! - Who owns what is one function, [`comm::block`], for data and parameters alike.
//! - Which samples a step takes is a pure function of global numbers ([`data::Steps`]), also while the batch grows.
//! - The sample at position k of epoch e depends on (seed, e, k) only: not on the number of ranks.
//! - Threads of a rank and ranks in shared memory are added up by one binary tree: a run repeats itself bit for bit, and in
//!   shards ([`nn::Share`]) gives the same bits on any number of ranks.
//! - The updates of an asynchronous run have an order that can be recorded, and repeated ([`train::Replay`]).
//! - What looks on ([`observe`]) changes no bit of a result, waits for nobody and ends no run.
//! - Nothing hangs silently: [`board`] watches from the first step on, by threads that never enter MPI.
//! - How a product is divided is a value ([`linalg::Plan`]) that is chosen and tested without ranks; what it says of bytes is what
//!   moves.
//! - What only one rank can see is agreed on ([`comm::agree`]) before the next collective, or ends the job at once.

pub mod backend;
pub mod board;
pub mod checkpoint;
pub mod cli;
pub mod comm;
pub mod commands;
pub mod data;
pub mod error;
pub mod exchange;
pub mod files;
pub mod h5;
pub mod interrupt;
pub mod linalg;
pub mod logging;
pub mod nn;
pub mod observe;
pub mod optim;
pub mod rng;
pub mod sparse;
pub mod study;
pub mod sweep;
pub mod tfrecord;
pub mod train;
pub mod tune;

pub use error::{Error, Result};
