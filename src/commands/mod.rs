//! One file per command: wire the parts, run, print the result.

pub mod bench;
pub mod data;
mod device;
pub mod doctor;
pub mod eval;
pub mod inspect;
pub mod matmul;
pub mod matrix;
pub mod model;
mod pack;
pub mod page;
pub mod predict;
pub mod replay;
mod report;
mod resume;
mod rows;
pub mod sparse;
mod study;
pub mod sweep;
pub mod top;
pub mod trace;
pub mod train;
pub mod tune;

use std::io::Write;
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use crate::backend::cpu::{choice, one_blas_thread, start_with_known_core};
use crate::comm::{Comm, Library, MpiComm, Start, abort, cores};
use crate::{Error, Result, cli, h5, interrupt, logging};

/// What to do, with everything resolved that can be without ranks.
pub enum Command {
    /// `phalanx train`.
    Train(Box<train::Settings>),
    /// `phalanx train sparse`.
    TrainSparse(Box<sparse::Settings>),
    /// `phalanx eval`.
    Eval(eval::Settings),
    /// `phalanx predict`.
    Predict(predict::Settings),
    /// `phalanx inspect`.
    Inspect(inspect::Settings),
    /// `phalanx replay`.
    Replay(replay::Settings),
    /// `phalanx top`.
    Top(top::Settings),
    /// `phalanx data`.
    Data(data::Action),
    /// `phalanx bench`.
    Bench(bench::Settings),
    /// `phalanx doctor`.
    Doctor(doctor::Settings),
    /// `phalanx matmul`.
    Matmul(Box<matmul::Settings>),
    /// `phalanx matrix`.
    Matrix(Box<matrix::Settings>),
    /// `phalanx trace`.
    Trace(trace::Settings),
    /// `phalanx model`.
    Model(model::Settings),
    /// `phalanx report`.
    Report(page::Settings),
    /// `phalanx plot`.
    Plot(page::PlotSettings),
    /// `phalanx sweep`.
    Sweep(sweep::Settings),
    /// `phalanx tune`.
    Tune(tune::Settings),
}

/// The program from command line to exit code: 0 good, 1 failed, 2 bad usage, 3 a rank hangs, 4 stopped as asked.
pub fn main() -> ExitCode {
    if h5::is_examiner() {
        return ExitCode::from(u8::from(h5::examine().is_err()));
    }
    start_with_known_core();
    // Also where the file has been replaced since.
    h5::examine_by(Path::new("/proc/self/exe"));
    let start = Start::read();
    logging::start(&start);
    let parsed = cli::parse(&start).and_then(|command| choice().map(|_| command));
    let outcome = parsed.and_then(|command| match command {
        Command::Train(settings) => {
            interrupt::heed();
            with_ranks(|comm| train::run(comm, &settings))
        }
        Command::TrainSparse(settings) => {
            interrupt::heed();
            with_ranks(|comm| sparse::run(comm, &settings))
        }
        Command::Eval(settings) => with_ranks(|comm| eval::run(comm, &settings)),
        Command::Predict(settings) => with_ranks(|comm| predict::run(comm, &settings)),
        Command::Inspect(settings) => inspect::run(&settings),
        Command::Model(settings) => model::run(&settings),
        Command::Top(settings) => top::run(&settings),
        Command::Report(settings) => page::run(&settings),
        Command::Plot(settings) => page::plot(&settings),
        Command::Sweep(settings) => {
            interrupt::listen();
            sweep::run(&settings)
        }
        Command::Tune(settings) => {
            interrupt::listen();
            tune::run(&settings)
        }
        Command::Replay(settings) => {
            one_blas_thread();
            replay::run(&settings)
        }
        Command::Doctor(settings) => with_any_ranks(|comm| doctor::run(comm, &settings)),
        Command::Matrix(settings) => {
            interrupt::listen();
            with_ranks(|comm| matrix::run(comm, &settings))
        }
        Command::Matmul(settings) => {
            interrupt::listen();
            with_ranks(|comm| matmul::run(comm, &settings))
        }
        Command::Trace(settings) => {
            interrupt::listen();
            with_ranks(|comm| trace::run(comm, &settings))
        }
        Command::Bench(settings) => with_ranks(|comm| bench::run(comm, &settings)),
        Command::Data(action) => {
            interrupt::listen();
            match start.alone() {
                // Without a launcher there is no need for MPI, nor for a place where it works.
                true => data::run_alone(&action),
                false => with_ranks(|comm| data::run(comm, &action)),
            }
        }
    });
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        // It has been told.
        Err(error @ Error::Stopped { .. }) => ExitCode::from(error.exit_code()),
        Err(error) => {
            if start.rank == 0 {
                say(&format!("error: {}\n", error.report()));
            }
            start.let_first_speak();
            ExitCode::from(error.exit_code())
        }
    }
}

/// Runs `job` with the ranks of the world, which must be all that were started together.
fn with_ranks(job: impl FnOnce(&dyn Comm) -> Result<()>) -> Result<()> {
    let start = Start::read();
    let comm = MpiComm::start()?;
    // Those that did not find each other would all tell: `main` lets the first do so.
    if let Err(apart) = start.joined(comm.size(), &Library::ask().name) {
        comm.finish(apart.exit_code());
        return Err(apart);
    }
    work(comm, job)
}

/// Runs `job` with the ranks of the world, also where others were started together with them.
fn with_any_ranks(job: impl FnOnce(&dyn Comm) -> Result<()>) -> Result<()> {
    work(MpiComm::start()?, job)
}

/// Runs `job`. A failure on one rank ends all of them at once.
fn work(comm: MpiComm, job: impl FnOnce(&dyn Comm) -> Result<()>) -> Result<()> {
    one_blas_thread();
    let error = match job(&comm) {
        Ok(()) => {
            comm.finish(0);
            return Ok(());
        }
        // No failure: all ranks have come to this together. The first of them to exit has mpirun end the others: what there is to say is
        // said before.
        Err(error @ Error::Stopped { .. }) => {
            if comm.rank() == 0 {
                say(&format!("{error}\n"));
            }
            comm.finish(error.exit_code());
            return Err(error);
        }
        Err(error) => error,
    };
    if let Error::Peer { code, .. } = error {
        // The rank that failed speaks and ends the job; should it be gone already, this one does.
        std::thread::sleep(Duration::from_secs(3));
        abort(code);
    }
    let rank = match comm.size() {
        1 => String::new(),
        _ => format!("rank {}: ", comm.rank()),
    };
    say(&format!("error: {rank}{}\n", error.report()));
    abort(error.exit_code())
}

/// How many hosts the ranks are on; *collective*.
fn hosts(comm: &dyn Comm) -> usize {
    // Hosts may have different numbers of ranks: each is counted by its first one.
    let mut hosts = [u64::from(comm.local_rank() == 0)];
    comm.sum(&mut hosts);
    hosts[0] as usize
}

/// Warns if a rank has fewer cores than threads; *collective*.
fn warn_if_crowded(comm: &dyn Comm, threads: usize) {
    // Ranks of one thread are the user's business: he asked mpirun for them.
    if threads == 1 {
        return;
    }
    let cores = cores(comm);
    if comm.rank() == 0 && threads as f64 > cores {
        log::warn!(
            "a rank has {threads} threads and {cores} of the node's cores: fewer ranks or threads, or mpirun with --map-by slot:PE={threads}, may be faster"
        );
    }
}

/// One write for the whole message: ranks that fail at the same time must not end up inside each other's lines.
fn say(message: &str) {
    // A closed terminal is no reason to fail in another way.
    let _ = std::io::stderr().write_all(message.as_bytes());
}
