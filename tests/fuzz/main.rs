//! Hostile files: every parser of what others wrote gets inputs that nobody would write, and must refuse or take each of
//! them without a panic, within a second or so and 1 GiB of memory. `README.md` here says how.
//!
//! Run plainly, each target takes its seeds, the inputs that were found bad once, and some hundred changed ones, in a
//! process with limits. Words on the command line choose targets; `--inputs N` makes it more, `--seed S` others.
//! Built with `--cfg fuzzing`, and with a target in `PHALANX_FUZZ`, it is libFuzzer's, guided by coverage.
#![allow(clippy::unwrap_used)]
#![cfg_attr(fuzzing, allow(unsafe_code))]

#[cfg(fuzzing)]
mod guided;
mod mutations;
mod plain;
mod targets;

use std::path::Path;
use std::process::ExitCode;

fn main() -> ExitCode {
    // A panic ends the process where it happens, on whatever thread: nobody catches it on the way.
    let usual = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        usual(panic);
        std::process::abort();
    }));
    // As in the program, files of HDF5 are looked at by a process of it first.
    phalanx::h5::examine_by(Path::new(env!("CARGO_BIN_EXE_phalanx")));
    #[cfg(fuzzing)]
    if let Ok(target) = std::env::var("PHALANX_FUZZ") {
        return guided::main(&target);
    }
    plain::main()
}
