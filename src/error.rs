//! One error type: what happened, with which values, and what to do next.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

use crate::backend::cuda::Missing;
use crate::train::readable;

/// The library's result.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Everything that input, file, device or cluster can cause.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The command line asks for something that cannot be.
    #[error("{0}")]
    Usage(String),
    /// The operating system refused a file or folder.
    #[error("cannot {action} {}: {source}", path.display())]
    Io {
        /// What was tried: `read`, `create`, `rename` …
        action: &'static str,
        /// On which file or folder.
        path: PathBuf,
        /// The system's answer.
        source: io::Error,
    },
    /// A file is there but does not hold what it should.
    #[error("{}: {problem}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// What is wrong in it, with the values found.
        problem: String,
        /// What to do about it.
        hint: &'static str,
    },
    /// A text file is there but a line of it does not hold what it should.
    #[error("{}, line {line}: {problem}", path.display())]
    Line {
        /// The file.
        path: PathBuf,
        /// The line, from 1.
        line: usize,
        /// What is wrong in it, with the values found.
        problem: String,
        /// What to do about it.
        hint: &'static str,
    },
    /// Two things that must fit do not.
    #[error("{what}: expected {expected}, got {got}")]
    Mismatch {
        /// What was compared.
        what: String,
        /// What it should be.
        expected: String,
        /// What it is.
        got: String,
        /// What to do about it.
        hint: &'static str,
    },
    /// A result would replace an older one.
    #[error("{} exists already", .0.display())]
    Exists(PathBuf),
    /// Training left the finite numbers.
    #[error("{what} became {value} at step {step}{} (learning rate {lr:?})", on(*rank))]
    Diverged {
        /// What left them: the loss, a layer's output, a tensor's gradient.
        what: String,
        /// What it is: NaN or infinite.
        value: f64,
        /// The step, from 1.
        step: u64,
        /// The rank whose batch gave it, if it was one rank's.
        rank: Option<usize>,
        /// The learning rate of that step.
        lr: f32,
    },
    /// A product of matrices is not what it should be.
    #[error("the product is wrong: {0}")]
    Wrong(String),
    /// A run would need more memory than there is.
    #[error("a step of {batch} samples needs {} of memory on {place}, and there are {}: {}",
        readable(*need), readable(*have), fits(*largest))]
    Memory {
        /// Samples of the step, over all ranks that take it together.
        batch: usize,
        /// Where: on each rank, or on its device.
        place: &'static str,
        /// Bytes that a rank needs.
        need: u64,
        /// Bytes that a rank may have.
        have: u64,
        /// The largest step that fits, if any does.
        largest: Option<usize>,
    },
    /// A step has more values than the kernels of a device count.
    #[error("a step of {batch} samples has more values in a layer than a GPU's kernels count: {}", fits(*largest))]
    Uncounted {
        /// Samples of the step, over all ranks that take it together.
        batch: usize,
        /// The largest step whose values are counted, if any step's are.
        largest: Option<usize>,
    },
    /// An MPI call returned a failure code.
    #[error("{call} failed with MPI error {code}")]
    Mpi {
        /// Name of the C function.
        call: &'static str,
        /// The code it returned.
        code: i32,
    },
    /// Processes that were started together are not in one world of MPI.
    #[error(
        "{how} started {told} processes, but MPI's world has {size}: every one of them would do all of the work, and write to the same places"
    )]
    Apart {
        /// What started them.
        how: String,
        /// How many.
        told: usize,
        /// How many MPI brought together.
        size: usize,
        /// What to do about it.
        advice: String,
        /// The command as it works.
        lines: Vec<String>,
    },
    /// A GPU was asked for that cannot be used.
    #[error("no GPU can be used: {0}")]
    NoDevice(Missing),
    /// A call of the CUDA driver, or of its compiler, failed.
    #[error("{call} failed: {answer}")]
    Cuda {
        /// Name of the C function.
        call: &'static str,
        /// What it answered.
        answer: String,
    },
    /// A kernel does not compile.
    #[error("{file} does not compile for {architecture}:\n{log}")]
    Kernel {
        /// The source.
        file: String,
        /// What for.
        architecture: String,
        /// What the compiler said.
        log: String,
    },
    /// A device has no memory left.
    #[error("{device} has {} of memory left, and {} are needed", readable(*have), readable(*need))]
    DeviceMemory {
        /// The device's name.
        device: String,
        /// Bytes that were asked for.
        need: u64,
        /// Bytes that are free.
        have: u64,
    },
    /// `phalanx doctor` found what makes this set-up unfit for training.
    #[error("{problems} {} found", if *problems == 1 { "problem was" } else { "problems were" })]
    Unfit {
        /// How many.
        problems: usize,
    },
    /// Another rank failed; this one only stops with it.
    #[error("rank {rank} failed: {message}")]
    Peer {
        /// The lowest rank that failed.
        rank: usize,
        /// What it said.
        message: String,
        /// The exit code its error calls for.
        code: u8,
    },
    /// A rank hangs, and the job with it.
    #[error("the job hangs: {what}\n  {board}")]
    Stalled {
        /// Who, where and since when.
        what: String,
        /// Where the board is, or why it is not.
        board: String,
    },
    /// Training was asked to stop, and has done so in order.
    #[error("stopped after step {step} by {why}; a checkpoint was written, go on with: phalanx train --resume {}", run.display())]
    Stopped {
        /// Steps taken.
        step: u64,
        /// Who asked.
        why: String,
        /// The run folder.
        run: PathBuf,
    },
    /// The user pressed Ctrl-C or the system asked to end.
    #[error("interrupted: nothing was left half-written")]
    Interrupted,
}

impl Error {
    /// An `io::Error` with what was tried on which path.
    pub fn io(action: &'static str, path: impl AsRef<Path>) -> impl FnOnce(io::Error) -> Self {
        let path = path.as_ref().to_path_buf();
        move |source| Self::Io {
            action,
            path,
            source,
        }
    }

    /// A file that does not hold what it should.
    pub fn file(path: impl AsRef<Path>, problem: impl fmt::Display, hint: &'static str) -> Self {
        Self::File {
            path: path.as_ref().to_path_buf(),
            problem: problem.to_string(),
            hint,
        }
    }

    /// The exit code of a job in which a rank hangs.
    pub const STALLED: u8 = 3;
    /// The exit code of a run that stopped as it was asked to, with a checkpoint.
    pub const STOPPED: u8 = 4;

    /// The process's exit code: 2 for bad usage, 3 if a rank hangs, 4 if it stopped as asked, 1 for everything else that failed later.
    pub fn exit_code(&self) -> u8 {
        match self {
            Self::Usage(_) | Self::Apart { .. } => 2,
            Self::Stalled { .. } => Self::STALLED,
            Self::Stopped { .. } => Self::STOPPED,
            Self::Peer { code, .. } => *code,
            _ => 1,
        }
    }

    /// The next thing to try, if there is one.
    pub fn hint(&self) -> Option<&str> {
        match self {
            Self::File { hint, .. } | Self::Line { hint, .. } | Self::Mismatch { hint, .. }
                if !hint.is_empty() =>
            {
                Some(hint)
            }
            Self::Apart { advice, .. } => Some(advice),
            Self::NoDevice(missing) => Some(missing.hint()),
            Self::DeviceMemory { .. } => Some(
                "give a smaller --batch, use a smaller model, or end what else uses the device (see nvidia-smi)",
            ),
            Self::Unfit { .. } => Some("do what is listed, then run `phalanx doctor` again"),
            Self::Exists(_) => Some("give another name, or --force to replace it"),
            Self::Diverged { .. } => Some(
                "try a smaller --lr (a tenth of this one), or look at the data with `phalanx data describe`",
            ),
            Self::Memory { .. } | Self::Uncounted { .. } => Some(
                "give a smaller --batch, start fewer ranks on each node, or use a smaller model",
            ),
            Self::Wrong(_) => Some(
                "nothing was kept of it; the memory or a processor of a host may be faulty: compute it again on other hosts",
            ),
            Self::Stalled { .. } => Some(
                "look at that rank's host: processes that are stopped, memory that is swapped, a file system or device that \
                 does not answer; if all was well, give a longer --stall-timeout (0 waits for ever)",
            ),
            Self::Io { source, .. } if source.kind() == io::ErrorKind::PermissionDenied => {
                Some("check the permissions, or give a place that you may write to")
            }
            Self::Io { source, .. } if source.kind() == io::ErrorKind::StorageFull => {
                Some("free some space, or give a place on another disk")
            }
            _ => None,
        }
    }

    /// Message and hint, as the user reads them.
    pub fn report(&self) -> String {
        let mut report = match self.hint() {
            Some(hint) => format!("{self}\n  hint: {hint}"),
            None => self.to_string(),
        };
        if let Self::Apart { lines, .. } = self {
            report.extend(lines.iter().map(|line| format!("\n    {line}")));
        }
        report
    }
}

fn fits(largest: Option<usize>) -> String {
    match largest {
        Some(batch) => format!("at most {batch} samples a step fit"),
        None => "this model fits with no batch".into(),
    }
}

fn on(rank: Option<usize>) -> String {
    rank.map_or(String::new(), |rank| format!(" on rank {rank}"))
}
