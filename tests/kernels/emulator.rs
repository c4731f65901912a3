//! Starts this program on the emulated driver.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::{Mutex, OnceLock};
use std::thread;

use super::planted::changed;
use super::{Gate, Outcome};

/// The word that makes this program run checks itself.
pub const AS_WORKER: &str = "--as-worker";

/// What a worker says last.
const DONE: &str = "all checks are done";

/// The project's folder for what is built.
pub fn target() -> PathBuf {
    let own = Path::new(env!("CARGO_TARGET_TMPDIR"));
    own.parent().unwrap().to_path_buf()
}

/// Builds the emulator once; an error says why it cannot be.
pub fn built() -> Result<PathBuf, String> {
    static BUILT: OnceLock<Result<PathBuf, String>> = OnceLock::new();
    let build = || {
        let folder = target().join("cuda-emulator");
        let sources = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/cuda-emulator");
        let mut make = Command::new("make");
        make.args(["-s", "-C", sources])
            .arg(format!("OUT={}", folder.display()));
        let output = make.output().map_err(|e| format!("make: {e}"))?;
        match output.status.success() {
            true => Ok(folder),
            false => Err(format!("the emulator cannot be built: {}", text(&output))),
        }
    };
    BUILT.get_or_init(build).clone()
}

/// This program as a worker on the emulator, with these words; what it compiles is kept under the name `kept`.
pub fn worker(kept: &str, words: &[&str]) -> Result<Command, String> {
    let folder = built()?;
    // What a sanitizer that ends a worker leaves behind is left there.
    let spare = folder.join("spare");
    fs::create_dir_all(&spare).map_err(|e| format!("{}: {e}", spare.display()))?;
    let mut command = Command::new(std::env::current_exe().unwrap());
    command
        .arg(AS_WORKER)
        .args(words)
        .env("LD_LIBRARY_PATH", &folder)
        .env("TMPDIR", &spare)
        .env("XDG_CACHE_HOME", folder.join("kept").join(kept));
    for (name, _) in std::env::vars_os() {
        let name = name.to_string_lossy().into_owned();
        if name.starts_with("EMULATOR_") || name == "PHALANX_KERNELS" {
            command.env_remove(name);
        }
    }
    Ok(command)
}

/// Both streams of what a process said.
pub fn text(output: &Output) -> String {
    let both = [&output.stdout[..], &output.stderr].concat();
    String::from_utf8_lossy(&both).into_owned()
}

/// Whether the worker did all of its checks well.
pub fn passed(output: &Output) -> bool {
    output.status.success() && text(output).contains(DONE)
}

fn outcome(command: Result<Command, String>) -> Outcome {
    let mut command = match command {
        Ok(command) => command,
        Err(why) => return Outcome::NotRun(why),
    };
    let output = command.output().unwrap();
    match passed(&output) {
        true => Outcome::Passed,
        false => Outcome::Failed(text(&output)),
    }
}

/// The checks in several orders, streams deferred or not, and under the sanitizers.
pub fn gates() -> Vec<Gate> {
    let mut gates: Vec<Gate> = Vec::new();
    for (order, defer) in [
        ("forward", false),
        ("reverse", true),
        ("random:7", false),
        ("random:8", true),
    ] {
        let name = format!("kernels equal the CPU, threads {order}, streams deferred: {defer}");
        let run = move || {
            let command = worker("plain", &[]).map(|mut command| {
                command.env("EMULATOR_ORDER", order);
                command.env("EMULATOR_DEFER", if defer { "1" } else { "0" });
                command.env("EMULATOR_DEVICES", if defer { "3" } else { "1" });
                command.env("EMULATOR_LEAKS", "1");
                command
            });
            outcome(command)
        };
        gates.push((name, Box::new(run)));
    }
    let name = "kernels written in other words of CUDA equal the CPU";
    gates.push((name.into(), Box::new(other_words)));
    for sanitizer in ["address", "thread"] {
        let name = format!("kernels are clean under the {sanitizer} sanitizer");
        gates.push((
            name,
            Box::new(move || outcome(sanitized(sanitizer, &["few"]))),
        ));
    }
    gates
}

/// What the emulator knows of CUDA and our kernels do not use, in the place of what they use.
const OTHER_WORDS: [(&str, &str, &str); 3] = [
    (
        "common.cuh",
        "value += __shfl_xor_sync(ALL_LANES, value, distance);\n  return value;",
        "value += __shfl_down_sync(ALL_LANES, value, distance);\n  return __shfl_sync(ALL_LANES, value, 0);",
    ),
    (
        "softmax.cu",
        "    tally[0] += loss;",
        "    atomicAdd(&tally[0], loss);",
    ),
    (
        "reduce.cu",
        "if (threadIdx.x % 32 == 0) atomicMax(out, greatest);",
        "const bool first = threadIdx.x % 32 == 0;\n  if (__ballot_sync(ALL_LANES, first) != 1u || __any_sync(ALL_LANES, 0)) __trap();\n  \
         __syncwarp();\n  if (first) atomicMax(out, greatest);",
    ),
];

fn other_words() -> Outcome {
    let folder = changed(&OTHER_WORDS);
    outcome(
        worker("planted", &["softmax", "reduce"]).map(|mut command| {
            command.env("PHALANX_KERNELS", folder.path());
            command.env("EMULATOR_ORDER", "random:3");
            command
        }),
    )
}

/// A worker whose kernels a sanitizer watches.
pub fn sanitized(sanitizer: &str, words: &[&str]) -> Result<Command, String> {
    let library = format!("lib{}san.so", &sanitizer[..1]);
    let mut compiler = Command::new("g++");
    compiler.arg(format!("-print-file-name={library}"));
    let output = compiler.output().map_err(|e| format!("g++: {e}"))?;
    let found = String::from_utf8_lossy(&output.stdout).trim().to_string();
    let found = Path::new(&found)
        .canonicalize()
        .map_err(|_| format!("{library} was not found"))?;
    let mut command = in_place(worker(sanitizer, words)?);
    // A GPU loads 16 bytes from multiples of 16 only; who watches addresses watches that too.
    let flags = match sanitizer {
        "address" => "-fsanitize=address,alignment -fno-sanitize-recover=alignment".into(),
        _ => format!("-fsanitize={sanitizer}"),
    };
    command
        .env("EMULATOR_CXXFLAGS", flags)
        .env("EMULATOR_CXX", "g++")
        .env("LD_PRELOAD", found)
        .env("ASAN_OPTIONS", "detect_leaks=0:exitcode=66")
        .env("TSAN_OPTIONS", "exitcode=66:report_signal_unsafe=0");
    Ok(command)
}

/// The same with memory where ThreadSanitizer expects it, if this system allows that.
fn in_place(command: Command) -> Command {
    let mut trial = Command::new("setarch");
    let allowed = trial.args(["-R", "true"]).output();
    if !allowed.is_ok_and(|output| output.status.success()) {
        return command;
    }
    let mut fixed = Command::new("setarch");
    fixed.arg("-R").arg(command.get_program());
    fixed.args(command.get_args());
    for (name, value) in command.get_envs() {
        match value {
            Some(value) => fixed.env(name, value),
            None => fixed.env_remove(name),
        };
    }
    fixed
}

/// Does the gates, two at a time, and gives what they found in their order.
pub fn two_at_a_time(gates: Vec<Gate>) -> Vec<(String, Outcome)> {
    let count = gates.len();
    let waiting = Mutex::new(gates.into_iter().enumerate());
    let found = Mutex::new(Vec::with_capacity(count));
    let next = || waiting.lock().unwrap().next();
    thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                while let Some((i, (name, gate))) = next() {
                    let outcome = gate();
                    found.lock().unwrap().push((i, name, outcome));
                }
            });
        }
    });
    let mut found = found.into_inner().unwrap();
    found.sort_by_key(|(i, _, _)| *i);
    found
        .into_iter()
        .map(|(_, name, outcome)| (name, outcome))
        .collect()
}
