//! What a machine lacks, and failures of the device: each is told, with what to do.

use std::fs;
use std::path::Path;
use std::process::Command;

use super::emulator::{built, passed, text, worker};
use super::{Gate, Outcome};

/// What is set, and what must be said then.
const REFUSALS: [(&str, [&str; 2], &str); 8] = [
    (
        "no device",
        ["EMULATOR_DEVICES", "0"],
        "there is no CUDA device",
    ),
    (
        "a device that is too old",
        ["EMULATOR_SM", "52"],
        "phalanx emulator (no GPU) has compute capability 5.2, and 7.0 is needed",
    ),
    (
        "a compiler that does not know the device any more",
        ["EMULATOR_NVRTC_FROM", "75"],
        "NVRTC 12.9 compiles for compute capability 7.5 and above, and the GPU has 7.0",
    ),
    (
        "a driver that is too old",
        ["EMULATOR_DRIVER", "10020"],
        "the NVIDIA driver is too old: it is for CUDA 10.2, and 11.2 is needed",
    ),
    (
        "a driver that does not start",
        ["EMULATOR_FAIL_INIT", "1"],
        "the NVIDIA driver does not start: CUDA_ERROR_NOT_INITIALIZED",
    ),
    (
        "an allocation that finds no memory",
        ["EMULATOR_FAIL_ALLOC", "3"],
        "DeviceMemory",
    ),
    (
        "a device with little memory",
        ["EMULATOR_MEMORY_MB", "0"],
        "DeviceMemory",
    ),
    (
        "a kernel that fails",
        ["EMULATOR_FAIL_LAUNCH", "5"],
        "CUDA_ERROR_LAUNCH_FAILED (unspecified launch failure)",
    ),
];

/// All refusals as gates, and what else is asked of the way to a device.
pub fn gates() -> Vec<Gate> {
    let mut gates: Vec<Gate> = Vec::new();
    for (what, [name, value], says) in REFUSALS {
        let run = move || {
            let mut command = worker("plain", &["few", "activation"])?;
            Ok(told(command.env(name, value), says))
        };
        gates.push(gate(format!("told clearly: {what}"), run));
    }
    gates.push(gate("told clearly: no driver".into(), no_driver));
    gates.push(gate("told clearly: no compiler".into(), no_compiler));
    gates.push(gate(
        "many who race for compiled kernels all get them, also behind a damaged file".into(),
        race,
    ));
    gates
}

pub fn gate(name: String, run: impl FnOnce() -> Result<Outcome, String> + Send + 'static) -> Gate {
    (name, Box::new(|| run().unwrap_or_else(Outcome::NotRun)))
}

fn told(command: &mut Command, says: &str) -> Outcome {
    let output = command.output().unwrap();
    let said = text(&output);
    match !passed(&output) && said.contains(says) {
        true => Outcome::Passed,
        false => Outcome::Failed(format!("{says:?} was not said:\n{said}")),
    }
}

/// A machine with a driver of its own has one even without the emulator's: there this cannot be seen.
fn no_driver() -> Result<Outcome, String> {
    let mut command = worker("plain", &["few", "activation"])?;
    command.env_remove("LD_LIBRARY_PATH");
    let output = command.output().unwrap();
    match passed(&output) || text(&output).contains("no CUDA device") {
        true => Err("this machine has an NVIDIA driver".into()),
        false => Ok(told(&mut command, "there is no NVIDIA driver")),
    }
}

fn no_compiler() -> Result<Outcome, String> {
    let folder = tempfile::tempdir().unwrap();
    fs::copy(
        built()?.join("libcuda.so.1"),
        folder.path().join("libcuda.so"),
    )
    .unwrap();
    let mut command = worker("plain", &["few", "activation"])?;
    command.env("LD_LIBRARY_PATH", folder.path());
    Ok(told(&mut command, "there is no compiler for kernels"))
}

/// Four at once without any compiled kernel, and again after one has been damaged.
fn race() -> Result<Outcome, String> {
    let folder = tempfile::tempdir().unwrap();
    let all = || -> Result<Option<String>, String> {
        let workers: Vec<_> = (0..4)
            .map(|_| {
                let mut command = worker("race", &["scale"])?;
                command.env("XDG_CACHE_HOME", folder.path());
                let piped = std::process::Stdio::piped;
                command.stdout(piped()).stderr(piped());
                command.spawn().map_err(|e| e.to_string())
            })
            .collect::<Result<_, _>>()?;
        let outputs = workers.into_iter().map(|w| w.wait_with_output().unwrap());
        let outputs: Vec<_> = outputs.collect();
        Ok(outputs.iter().find(|output| !passed(output)).map(text))
    };
    if let Some(said) = all()? {
        return Ok(Outcome::Failed(said));
    }
    let files = kept(folder.path());
    assert_eq!(files.len(), 1, "one file and nothing beside it: {files:?}");
    let whole = fs::read(&files[0]).unwrap();
    fs::write(&files[0], &whole[..whole.len() / 2]).unwrap();
    if let Some(said) = all()? {
        return Ok(Outcome::Failed(said));
    }
    assert_eq!(fs::read(&files[0]).unwrap().len(), whole.len());
    Ok(Outcome::Passed)
}

fn kept(folder: &Path) -> Vec<std::path::PathBuf> {
    let files = fs::read_dir(folder.join("phalanx")).unwrap();
    files.map(|entry| entry.unwrap().path()).collect()
}
