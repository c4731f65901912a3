//! What the user may type. Typed arguments become resolved settings before MPI starts.

mod bench;
mod bench_input;
mod choice;
mod data;
mod device;
mod doctor;
mod eval;
mod exchange;
mod export;
mod input;
mod matmul;
mod matrix;
mod model;
mod observe;
mod optim;
mod pack;
mod page;
mod predict;
mod replay;
mod sparse;
mod survive;
mod sweep;
mod text;
mod top;
mod trace;
mod train;
mod tune;

use std::time::Duration;

use clap::{Parser, Subcommand};

use crate::comm::Start;
use crate::commands::Command;
use crate::observe::Voice;
use crate::{Error, Result};

/// Trains models with MPI ranks, and tells what the ranks did.
///
/// Start it under mpirun for more than one rank: mpirun -n 4 phalanx train softmax digits.h5
/// Under Slurm by mpirun inside the allocation, or by srun --mpi=pmix; slurm/README.md has job scripts.
#[derive(Parser)]
#[command(name = "phalanx", version, arg_required_else_help = true, after_help = EXIT_CODES)]
struct Cli {
    #[command(subcommand)]
    command: Typed,
    /// Print results and warnings only: no progress, and no settings of `train`.
    #[arg(long, global = true)]
    quiet: bool,
}

const EXIT_CODES: &str = "Exit codes: 0 good, 1 failed, 2 bad usage, 3 a rank hangs, 4 stopped as asked with a checkpoint.
RUST_LOG=info (or debug) shows more of what happens.";

#[derive(Subcommand)]
enum Typed {
    Train(Box<train::TrainCommand>),
    Eval(eval::Eval),
    Predict(predict::Predict),
    Inspect(predict::Inspect),
    Replay(replay::Replay),
    Top(top::Top),
    #[command(subcommand)]
    Data(data::Data),
    #[command(subcommand)]
    Bench(bench::Bench),
    Doctor(doctor::Doctor),
    Matmul(Box<matmul::Matmul>),
    #[command(subcommand)]
    Matrix(matrix::Matrix),
    Trace(trace::Trace),
    #[command(subcommand)]
    Model(model::ModelCommand),
    Report(page::Report),
    Plot(page::Plot),
    Sweep(sweep::Sweep),
    Tune(tune::Tune),
}

/// Reads the command line; what cannot be is an error before anything has started.
pub fn parse(start: &Start) -> Result<Command> {
    let words: Vec<_> = std::env::args_os().collect();
    if survive::is_resume(&words) {
        let command = survive::resumed(&words)?;
        let quiet = words.iter().any(|word| word == survive::ANYWHERE);
        return heard(command, quiet);
    }
    let cli = Cli::try_parse().unwrap_or_else(|error| refuse(&error));
    let quiet = cli.quiet;
    resolve(cli.command, start).and_then(|command| heard(command, quiet))
}

/// The command, with the program's voice set to what was asked for.
fn heard(command: Command, quiet: bool) -> Result<Command> {
    let json = matches!(&command, Command::Train(settings) if settings.observe.json);
    match (quiet, json) {
        (true, true) => {
            let problem = "--quiet and --json do not go together: the one is for people, the other for programs";
            return Err(Error::Usage(problem.into()));
        }
        (true, false) => Voice::Quiet.set(),
        (false, true) => Voice::Json.set(),
        (false, false) => {}
    }
    Ok(command)
}

/// What is to be done by a process that was started so, or why it cannot be.
fn resolve(typed: Typed, start: &Start) -> Result<Command> {
    match typed {
        Typed::Train(typed) => typed.resolve(),
        Typed::Replay(_) if !start.alone() => Err(Error::Usage(
            "`phalanx replay` works in one process: start it without mpirun".into(),
        )),
        Typed::Replay(typed) => Ok(Command::Replay(typed.resolve())),
        Typed::Eval(typed) => Ok(Command::Eval(typed.resolve())),
        Typed::Predict(typed) => Ok(Command::Predict(typed.resolve())),
        Typed::Inspect(_) if !start.alone() => Err(Error::Usage(
            "`phalanx inspect` works in one process: start it without mpirun".into(),
        )),
        Typed::Inspect(typed) => Ok(Command::Inspect(typed.resolve())),
        Typed::Top(_) if !start.alone() => Err(Error::Usage(
            "`phalanx top` works in one process: start it without mpirun".into(),
        )),
        Typed::Top(typed) => Ok(Command::Top(typed.resolve())),
        Typed::Bench(typed) => typed.resolve().map(Command::Bench),
        Typed::Doctor(typed) => Ok(Command::Doctor(typed.resolve(start))),
        Typed::Matrix(typed) if !start.alone() && !typed.takes_ranks() => Err(Error::Usage(
            "`phalanx matrix solve` works in one process: start it without mpirun".into(),
        )),
        Typed::Matrix(typed) => Ok(Command::Matrix(Box::new(typed.resolve()))),
        Typed::Matmul(typed) => Ok(Command::Matmul(Box::new(typed.resolve()))),
        Typed::Trace(typed) => Ok(Command::Trace(typed.resolve())),
        Typed::Data(typed) if !start.alone() && !typed.takes_ranks() => Err(Error::Usage(
            "this command works in one process: start it without mpirun (`data pack`, `data make clicks` and imports of text take several ranks)"
                .into(),
        )),
        Typed::Data(typed) => Ok(Command::Data(typed.resolve())),
        Typed::Model(typed) => typed.resolve().map(Command::Model),
        Typed::Sweep(_) | Typed::Tune(_) if !start.alone() => Err(Error::Usage(
            "`phalanx sweep` and `phalanx tune` start ranks themselves: start them without mpirun".into(),
        )),
        Typed::Tune(typed) => Ok(Command::Tune(typed.resolve())),
        Typed::Sweep(typed) => Ok(Command::Sweep(typed.resolve())),
        Typed::Report(_) | Typed::Plot(_) if !start.alone() => Err(Error::Usage(
            "`phalanx report` and `phalanx plot` work in one process: start them without mpirun".into(),
        )),
        Typed::Report(typed) => Ok(Command::Report(typed.resolve())),
        Typed::Plot(typed) => Ok(Command::Plot(typed.resolve())),
    }
}

/// Ends the program with what clap has to say.
fn refuse(error: &clap::Error) -> ! {
    let start = Start::read();
    // Every rank sees the same mistake: one of them is enough to tell.
    if start.rank == 0 {
        // A closed terminal is no reason to fail in another way.
        let _ = error.print();
    }
    if error.exit_code() != 0 {
        start.let_first_speak();
    }
    std::process::exit(error.exit_code());
}

/// The command of these arguments, which stand behind the program's name.
pub fn command(arguments: &[String]) -> Result<Command> {
    let program = std::iter::once("phalanx");
    let all = program.chain(arguments.iter().map(String::as_str));
    let cli = Cli::try_parse_from(all).map_err(|error| Error::Usage(error.to_string()))?;
    resolve(cli.command, &Start::read())
}

/// The settings that a `train` command had, from its arguments behind the program's name.
pub fn train_settings(arguments: &[String]) -> Result<crate::commands::train::Settings> {
    let problem = |why: &dyn std::fmt::Display| {
        Error::Usage(format!("the recorded command is not understood: {why}"))
    };
    let understood = command(arguments).map_err(|error| match error {
        Error::Usage(why) => problem(&why),
        other => other,
    });
    match understood? {
        Command::Train(settings) => Ok(*settings),
        Command::TrainSparse(_) => Err(problem(&"sparse models have no record")),
        _ => Err(problem(&"it does not train")),
    }
}

/// The most of anything: a product with the number of ranks stays far from overflow.
const MOST: usize = 1 << 40;

/// A number above zero.
fn positive(text: &str) -> Result<usize, String> {
    match text.replace('_', "").parse() {
        Ok(0) => Err("must be at least 1".into()),
        Ok(number) if number > MOST => Err(format!("must be at most {MOST}")),
        Ok(number) => Ok(number),
        Err(_) => Err("expected a whole number".into()),
    }
}

/// A number of bytes, plain or in KiB, MiB or GiB.
fn bytes(text: &str) -> Result<usize, String> {
    let units = [("KiB", 10), ("MiB", 20), ("GiB", 30)];
    let unit = units.iter().find(|(unit, _)| text.ends_with(unit));
    let (number, shift) = match unit {
        Some((unit, shift)) => (text.trim_end_matches(unit), *shift),
        None => (text, 0),
    };
    let number = positive(number.trim())
        .map_err(|problem| format!("{problem}, or one with KiB, MiB or GiB"))?;
    let bytes = number
        .checked_shl(shift)
        .filter(|bytes| bytes >> shift == number);
    match bytes {
        Some(bytes) if bytes <= MOST => Ok(bytes),
        _ => Err("must be at most 1024 GiB".into()),
    }
}

/// Threads of a rank: more than any node has cores are a slip of the hand.
fn threads(text: &str) -> Result<usize, String> {
    match positive(text)? {
        number if number > 1024 => Err("must be at most 1024".into()),
        number => Ok(number),
    }
}

/// A finite number above zero.
fn positive_real(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(number) if number.is_finite() && number > 0.0 => Ok(number),
        Ok(_) => Err("must be above 0 and finite".into()),
        Err(_) => Err("expected a number".into()),
    }
}

/// A time in seconds: zero, or long enough to be told from a busy machine.
fn seconds(text: &str) -> Result<Duration, String> {
    match text.parse::<f64>() {
        Ok(0.0) => Ok(Duration::ZERO),
        Ok(number) if (1.0..=1e9).contains(&number) => Ok(Duration::from_secs_f64(number)),
        Ok(_) => Err("must be 0, or from 1 to 1e9".into()),
        Err(_) => Err("expected a number of seconds".into()),
    }
}

/// A number from 0 to below 1.
fn share(text: &str) -> Result<f64, String> {
    match text.parse() {
        Ok(number) if (0.0..1.0).contains(&number) => Ok(number),
        Ok(_) => Err("must be at least 0 and below 1".into()),
        Err(_) => Err("expected a number".into()),
    }
}

/// A number between 0 and 1.
fn below_one(text: &str) -> Result<f64, String> {
    match share(text)? {
        0.0 => Err("must be above 0".into()),
        number => Ok(number),
    }
}

/// A number above zero that is neither zero nor infinite as the 32-bit float that is computed with.
fn rate(text: &str) -> Result<f32, String> {
    let rate = positive_real(text)? as f32;
    if rate.is_normal() {
        Ok(rate)
    } else {
        Err("must be between 1e-37 and 1e38".into())
    }
}

#[cfg(test)]
mod tests {
    use clap::{Command, CommandFactory};

    use super::Cli;

    /// clap makes a line end of `{n}`, and then nobody reads what was meant.
    #[test]
    fn no_help_text_loses_what_is_in_braces() {
        fn look(command: &Command) -> usize {
            let of_args = |arg: &clap::Arg| [arg.get_help().cloned(), arg.get_long_help().cloned()];
            let abouts = [
                command.get_about(),
                command.get_long_about(),
                command.get_after_help(),
                command.get_after_long_help(),
            ];
            let texts = (command.get_arguments().flat_map(of_args))
                .chain(abouts.map(Option::<&_>::cloned))
                .flatten();
            let looked = texts
                .map(|text| {
                    let text = text.to_string();
                    assert!(!text.contains("{n}"), "{}: {text}", command.get_name());
                })
                .count();
            looked + command.get_subcommands().map(look).sum::<usize>()
        }
        let command = Cli::command();
        command.clone().debug_assert();
        assert!(look(&command) > 300);
    }
}
