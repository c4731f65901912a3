//! Errors that are planted in kernels and in their use: each must be noticed.

use std::fs;
use std::path::Path;
use std::process::Command;

use phalanx::backend::cuda::{Stream, scale, update};

use super::checks::{Check, Place};
use super::emulator::{passed, sanitized, text, worker};
use super::{Gate, Outcome};

/// Uses of the device that are wrong; a worker runs them only by their names.
pub const CHECKS: [Check; 2] = [
    ("planted_missing_wait", missing_wait),
    ("planted_leak", leak),
];

/// The second stream does not wait for the first.
fn missing_wait(place: &Place) {
    let other = Stream::new(&place.device).unwrap();
    let pixels = other.buffer(&[0u8, 100, 200]).unwrap();
    let (mut inputs, mut sums) = (place.room(3), place.put(&[1.0, 1.0, 1.0]));
    scale::bytes(&other, pixels.view(), 0.5, -1.0, inputs.view_mut()).unwrap();
    update::add(&place.stream, inputs.view(), sums.view_mut()).unwrap();
    assert_eq!(place.get(sums.view()), [0.0, 50.0, 100.0]);
}

fn leak(place: &Place) {
    std::mem::forget(place.put(&[1.0; 100]));
}

/// How an error is watched for.
#[derive(Clone, Copy)]
enum By {
    /// The plain emulator.
    Emulator,
    /// A sanitizer.
    Sanitizer(&'static str),
    /// The emulator with threads in this order; in forward order nobody sees it.
    Order(&'static str),
}

/// An error in a kernel: in which file, what it replaces by what, which check runs, who watches, and what must be said.
struct Error {
    name: &'static str,
    file: &'static str,
    from: &'static str,
    to: &'static str,
    check: &'static str,
    by: By,
    says: &'static str,
}

/// A value that one thread leaves for all of its block, without a barrier.
const UNGUARDED: [&str; 2] = [
    "  double ratio = 1.0;\n  if (squares) {",
    "  __shared__ double ratio;\n  if (threadIdx.x == 0) ratio = 1.0;\n  if (threadIdx.x == 0 && squares) {",
];

const ERRORS: [Error; 12] = [
    Error {
        name: "a missing barrier gives wrong numbers",
        file: "tile.cuh",
        from: "      keep(turn);\n      __syncthreads();",
        to: "      keep(turn);",
        check: "gemm",
        by: By::Emulator,
        says: "value",
    },
    Error {
        name: "a missing barrier is a race",
        file: "tile.cuh",
        from: "      keep(turn);\n      __syncthreads();",
        to: "      keep(turn);",
        check: "gemm",
        by: By::Sanitizer("thread"),
        says: "data race",
    },
    Error {
        name: "an off-by-one in a ragged tile reaches over the end",
        file: "tile.cuh",
        from: "if (r < rows) store(",
        to: "if (r <= rows) store(",
        check: "gemm",
        by: By::Emulator,
        says: "illegal access to memory",
    },
    Error {
        name: "a swapped argument gives wrong numbers",
        file: "scale.cu",
        from: "scale_bytes(const u8* pixels, float factor, float shift,",
        to: "scale_bytes(const u8* pixels, float shift, float factor,",
        check: "scale",
        by: By::Emulator,
        says: "bytes",
    },
    Error {
        name: "an overrun of shared memory",
        file: "tile.cuh",
        from: "T b[2][DEPTH][COLUMNS];",
        to: "T b[2][DEPTH][COLUMNS - 4];",
        check: "gemm",
        by: By::Sanitizer("address"),
        says: "global-buffer-overflow",
    },
    Error {
        name: "a load of 16 bytes from an odd place",
        file: "common.cuh",
        from: "((u64)p & 15) == 0",
        to: "((u64)p & 3) == 0",
        check: "activation",
        by: By::Sanitizer("address"),
        says: "misaligned address",
    },
    Error {
        name: "threads in reverse order find no barrier before what one leaves for all",
        file: "update.cu",
        from: UNGUARDED[0],
        to: UNGUARDED[1],
        check: "update",
        by: By::Order("reverse"),
        says: "value",
    },
    Error {
        name: "threads in random order find no barrier before what one leaves for all",
        file: "update.cu",
        from: UNGUARDED[0],
        to: UNGUARDED[1],
        check: "update",
        by: By::Order("random:7"),
        says: "value",
    },
    Error {
        name: "a barrier that some threads never reach",
        file: "reduce.cu",
        from: "  sum = block_sum(sum, warps);\n  if (threadIdx.x == 0) *out",
        to: "  if (threadIdx.x < 64) sum = block_sum(sum, warps);\n  if (threadIdx.x == 0) *out",
        check: "reduce",
        by: By::Emulator,
        says: "barrier",
    },
    Error {
        name: "a warp operation that a lane never reaches",
        file: "softmax.cu",
        from: "if (row >= n) return;",
        to: "if (row >= n || lane == 31) return;",
        check: "softmax",
        by: By::Emulator,
        says: "a warp operation names lane 31, which is not there",
    },
    Error {
        name: "what a kernel asserts",
        file: "reduce.cu",
        from: "  double sum = 0.0;\n  const u64 fours",
        to: "  assert(n != 3000);\n  double sum = 0.0;\n  const u64 fours",
        check: "reduce",
        by: By::Emulator,
        says: "assert(n != 3000) at reduce.cu",
    },
    Error {
        name: "a gradient that leaves out the last part of its sum",
        file: "conv2d.cu",
        from: "part < count; part++",
        to: "part < count - 1; part++",
        check: "conv2d_in_parts",
        by: By::Emulator,
        says: "grad weights",
    },
];

/// All errors, as gates: each is passed when the error is noticed.
pub fn gates() -> Vec<Gate> {
    let mut gates: Vec<Gate> = Vec::new();
    for error in ERRORS {
        let name = format!("planted, and noticed: {}", error.name);
        gates.push((name, Box::new(move || in_kernel(&error))));
    }
    let name = "planted, and noticed: a missing wait between streams".to_string();
    gates.push((name, Box::new(|| run(wait_is_missed))));
    let name = "planted, and noticed: a leaked buffer".to_string();
    gates.push((name, Box::new(|| run(buffer_is_leaked))));
    gates
}

fn run(gate: fn() -> Result<Outcome, String>) -> Outcome {
    gate().unwrap_or_else(Outcome::NotRun)
}

fn in_kernel(error: &Error) -> Outcome {
    let folder = changed(&[(error.file, error.from, error.to)]);
    watch(error, folder.path()).unwrap_or_else(Outcome::NotRun)
}

/// The kernels in a folder of their own, in which files hold one text instead of another.
pub fn changed(changes: &[(&str, &str, &str)]) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let kernels = Path::new(env!("CARGO_MANIFEST_DIR")).join("kernels");
    for entry in fs::read_dir(kernels).unwrap() {
        let path = entry.unwrap().path();
        fs::copy(&path, folder.path().join(path.file_name().unwrap())).unwrap();
    }
    for (file, from, to) in changes {
        let path = folder.path().join(file);
        let source = fs::read_to_string(&path).unwrap();
        let found = source.matches(from).count();
        assert_eq!(found, 1, "{file} holds what is replaced, once");
        fs::write(&path, source.replace(from, to)).unwrap();
    }
    folder
}

/// Runs the check with the kernels of a folder.
fn watch(error: &Error, kernels: &Path) -> Result<Outcome, String> {
    let words = ["few", error.check];
    let mut command = match error.by {
        By::Emulator => worker("planted", &words)?,
        By::Sanitizer(name) => sanitized(name, &words)?,
        By::Order(order) => {
            let mut forward = worker("planted", &words)?;
            let output = forward.env("PHALANX_KERNELS", kernels).output().unwrap();
            if !passed(&output) {
                return Ok(Outcome::Failed(text(&output)));
            }
            let mut command = worker("planted", &words)?;
            command.env("EMULATOR_ORDER", order);
            command
        }
    };
    Ok(noticed(command.env("PHALANX_KERNELS", kernels), error.says))
}

/// Passed if the worker fails and says so.
fn noticed(command: &mut Command, says: &str) -> Outcome {
    let output = command.output().unwrap();
    let said = text(&output);
    match !passed(&output) && said.contains(says) {
        true => Outcome::Passed,
        false => Outcome::Failed(format!("nothing about {says:?} was said:\n{said}")),
    }
}

/// Without deferred streams nobody would see it, which shows that they do.
fn wait_is_missed() -> Result<Outcome, String> {
    let words = ["planted_missing_wait"];
    let at_once = worker("plain", &words)?.output().unwrap();
    if !passed(&at_once) {
        return Ok(Outcome::Failed(text(&at_once)));
    }
    let mut deferred = worker("plain", &words)?;
    Ok(noticed(
        deferred.env("EMULATOR_DEFER", "1"),
        "left == right",
    ))
}

/// Told by the device's own account, and by the emulator's.
fn buffer_is_leaked() -> Result<Outcome, String> {
    let mut leaks = worker("plain", &["planted_leak"])?;
    leaks.env("EMULATOR_LEAKS", "1");
    let output = leaks.output().unwrap();
    let said = text(&output);
    let both = ["nothing is left allocated", "1 buffers of 400 bytes"];
    Ok(match both.iter().all(|says| said.contains(says)) {
        true => Outcome::Passed,
        false => Outcome::Failed(said),
    })
}
