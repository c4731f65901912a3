//! The program itself on the emulator.

use std::process::Command;

use super::emulator::{text, worker};
use super::planted::changed;
use super::refused::gate;
use super::{Gate, Outcome};

pub fn gates() -> Vec<Gate> {
    vec![
        gate(
            "`phalanx bench kernels` finds every kernel right and tells no time of the emulator"
                .into(),
            bench,
        ),
        gate(
            "`phalanx bench kernels` notices a wrong kernel".into(),
            wrong,
        ),
        gate(
            "`phalanx bench kernels` takes a device as other commands do".into(),
            devices,
        ),
    ]
}

/// The program with these words, where a worker would run.
fn phalanx(words: &[&str]) -> Result<Command, String> {
    let worker = worker("plain", &[])?;
    let mut command = Command::new(env!("CARGO_BIN_EXE_phalanx"));
    command.args(words);
    for (name, value) in worker.get_envs() {
        match value {
            Some(value) => command.env(name, value),
            None => command.env_remove(name),
        };
    }
    Ok(command)
}

fn bench() -> Result<Outcome, String> {
    let words = ["bench", "kernels", "--device", "cuda", "--seconds", "0.001"];
    let output = phalanx(&words)?.output().unwrap();
    let said = text(&output);
    let rows: Vec<&str> = said
        .lines()
        .filter(|line| line.contains(" right "))
        .collect();
    let timeless = rows
        .iter()
        .all(|row| row.trim_end().ends_with("–         –"));
    let emulated =
        said.contains("phalanx emulator (no GPU)") && said.contains("times mean nothing");
    match output.status.success() && rows.len() >= 25 && timeless && emulated {
        true => Ok(Outcome::Passed),
        false => Ok(Outcome::Failed(said)),
    }
}

fn wrong() -> Result<Outcome, String> {
    let folder = changed(&[("conv2d.cu", "value + b[o]", "value - b[o]")]);
    let words = ["bench", "kernels", "--only", "conv2d", "--json"];
    let mut command = phalanx(&words)?;
    let output = command
        .env("PHALANX_KERNELS", folder.path())
        .output()
        .unwrap();
    let said = text(&output);
    let told = said.contains("the kernels conv2d forward differ from the CPU");
    match !output.status.success() && told && said.contains("\"seconds\":null") {
        true => Ok(Outcome::Passed),
        false => Ok(Outcome::Failed(said)),
    }
}

fn devices() -> Result<Outcome, String> {
    for (device, code, says) in [
        ("cuda:1", 0, "relu"),
        ("auto", 0, "relu"),
        ("cuda:2", 1, "device 2 was asked for, and there are 0 to 1"),
        ("cpu", 2, "these kernels are for GPUs"),
        ("gpu", 2, "expected auto, cpu, cuda or cuda:N"),
    ] {
        let mut command = phalanx(&["bench", "kernels", "--only", "relu", "--device", device])?;
        let output = command.env("EMULATOR_DEVICES", "2").output().unwrap();
        let said = text(&output);
        if output.status.code() != Some(code) || !said.contains(says) {
            return Ok(Outcome::Failed(format!("--device {device}:\n{said}")));
        }
    }
    Ok(Outcome::Passed)
}
