//! What the real compilers say of the kernels: NVRTC compiles each for three architectures, ptxas tells what it takes of a
//! multiprocessor, and that is held against `kernels/budget.csv`.
//!
//! `KERNELS_BUDGET=write cargo test --test kernels compile` writes the budget anew.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use phalanx::backend::cuda::{Source, compile as image, ptx};

use super::emulator::{target, text};
use super::{Gate, Outcome};

/// The word that makes this program compile.
pub const AS_COMPILER: &str = "--as-compiler";

/// The architectures: of V100, A100 and H100.
const ARCHITECTURES: [u32; 3] = [70, 80, 90];

/// What a kernel takes.
#[derive(Clone, Debug, Default, PartialEq)]
struct Taken {
    threads: u32,
    shared: u32,
    /// Of a thread, on each architecture.
    registers: [u32; 3],
}

/// The real NVRTC and ptxas, from PyPI.
fn tools() -> PathBuf {
    target().join("nvrtc")
}

pub fn gates() -> Vec<Gate> {
    let name = "real NVRTC and ptxas compile every kernel, without spills and within the budget";
    vec![(name.into(), Box::new(|| check().unwrap_or_else(|o| o)))]
}

fn check() -> Result<Outcome, Outcome> {
    if !tools().join("libnvrtc.so.12").exists() {
        let why = "NVRTC is not in target/nvrtc: `sh .ci/nvrtc` gets it from PyPI";
        return Err(Outcome::NotRun(why.into()));
    }
    let folder = tempfile::tempdir().unwrap();
    let output = Command::new(std::env::current_exe().unwrap())
        .arg(AS_COMPILER)
        .arg(folder.path())
        .env("LD_LIBRARY_PATH", tools())
        .output()
        .unwrap();
    if !output.status.success() {
        return Err(Outcome::Failed(text(&output)));
    }
    let mut taken = BTreeMap::new();
    for (i, architecture) in ARCHITECTURES.into_iter().enumerate() {
        for source in Source::ALL {
            let file = folder
                .path()
                .join(format!("{}-{architecture}", source.name()));
            assemble(&file, architecture, i, &mut taken).map_err(Outcome::Failed)?;
        }
    }
    println!("{}", table(&taken));
    compare(&taken)?;
    on_paper(&taken)
}

/// Compiles every source for every architecture into the folder that the first word names; images too, as the program does.
pub fn compile(words: &[String]) -> ExitCode {
    for architecture in ARCHITECTURES {
        for source in Source::ALL {
            let (file, source_text) = (source.file(), source.text().unwrap());
            let compiled =
                ptx(file, &source_text, &format!("compute_{architecture}")).and_then(|ptx| {
                    Ok((
                        ptx,
                        image(file, &source_text, &format!("sm_{architecture}"))?,
                    ))
                });
            match compiled {
                Ok((ptx, image)) if image.starts_with(b"\x7fELF") => {
                    let name = format!("{}-{architecture}", source.name());
                    fs::write(Path::new(&words[0]).join(name), ptx).unwrap();
                }
                Ok(_) => {
                    println!("{file}: the image for sm_{architecture} is no ELF");
                    return ExitCode::FAILURE;
                }
                Err(error) => {
                    println!("{error}");
                    return ExitCode::FAILURE;
                }
            }
        }
    }
    ExitCode::SUCCESS
}

/// What ptxas says of one file; spills are an error.
fn assemble(
    file: &Path,
    architecture: u32,
    i: usize,
    taken: &mut BTreeMap<String, Taken>,
) -> Result<(), String> {
    let output = Command::new(tools().join("ptxas"))
        .args(["-v", &format!("-arch=sm_{architecture}"), "-o", "/dev/null"])
        .arg(file)
        .output()
        .map_err(|e| format!("ptxas: {e}"))?;
    let said = text(&output);
    if !output.status.success() {
        return Err(said);
    }
    let source = fs::read_to_string(file).unwrap();
    let mut entry = String::new();
    for line in said.lines() {
        if let Some(rest) = line.split("Compiling entry function '").nth(1) {
            entry = rest.split('\'').next().unwrap().to_string();
        }
        let number = |before: &str, line: &str| -> u32 {
            let words = line.split(before).next().unwrap().trim_end();
            let digits = words.rsplit(|c: char| !c.is_ascii_digit()).next().unwrap();
            digits.parse().unwrap_or(0)
        };
        if line.contains("bytes spill stores") {
            let spilled = number("bytes spill stores", line) + number("bytes spill loads", line);
            if spilled + number("bytes stack frame", line) > 0 {
                return Err(format!("{entry} for sm_{architecture}:{line}"));
            }
        }
        if line.contains("Used") && line.contains("registers") {
            let taken: &mut Taken = taken.entry(entry.clone()).or_default();
            taken.registers[i] = number("registers", line);
            if line.contains("bytes smem") {
                taken.shared = taken.shared.max(number("bytes smem", line));
            }
            taken.threads = threads(&source, &entry);
        }
    }
    Ok(())
}

/// Threads of a block, from what the source promised.
fn threads(ptx: &str, entry: &str) -> u32 {
    let behind = ptx.split(&format!(".entry {entry}(")).nth(1).unwrap();
    let promise = behind.split(".maxntid").nth(1).expect("blocks have bounds");
    let digits = promise.trim_start().split(|c: char| !c.is_ascii_digit());
    digits.clone().next().unwrap().parse().unwrap()
}

/// Warps that fit on a multiprocessor at once, as a share of the 64 it can have.
fn occupancy(taken: &Taken, i: usize) -> f64 {
    let shared: u32 = [96, 164, 228][i] * 1024;
    // From Ampere on, each block takes 1 KiB more.
    let of_block = taken.shared.div_ceil(128) * 128 + if i > 0 { 1024 } else { 0 };
    let warps = taken.threads.div_ceil(32);
    let by_registers = 65536 / (taken.registers[i].next_multiple_of(8) * 32) / 4 * 4 / warps;
    let by_shared = shared.checked_div(of_block).unwrap_or(32);
    let blocks = by_registers.min(by_shared).min(32).min(64 / warps);
    f64::from(blocks * warps) / 64.0
}

fn table(taken: &BTreeMap<String, Taken>) -> String {
    let mut lines = vec![format!(
        "  {:<32} {:>7} {:>8} {:>17} {:>7} {:>20}",
        "kernel", "threads", "shared B", "registers 70/80/90", "spills", "occupancy 70/80/90"
    )];
    for (name, t) in taken {
        let registers = t.registers.map(|r| r.to_string()).join("/");
        let shares = [0, 1, 2].map(|i| format!("{:.0} %", 100.0 * occupancy(t, i)));
        lines.push(format!(
            "  {name:<32} {:>7} {:>8} {registers:>18} {:>7} {:>20}",
            t.threads,
            t.shared,
            0,
            shares.join("/")
        ));
    }
    lines.join("\n")
}

/// Passed if `kernels/README.md` predicts what every kernel reaches, and has this table.
fn on_paper(taken: &BTreeMap<String, Taken>) -> Result<Outcome, Outcome> {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("kernels/README.md");
    let text = fs::read_to_string(file).unwrap();
    let (predictions, _) = text.split_once("## Registers").unwrap();
    let (_, predictions) = predictions.split_once("## Roofline").unwrap();
    let mut missing = Vec::new();
    for (name, t) in taken {
        let shares = [0, 1, 2].map(|i| format!("{:.0}", 100.0 * occupancy(t, i)));
        let registers = t.registers.map(|r| r.to_string()).join("/");
        let (threads, shared) = (t.threads, t.shared);
        let row = format!(
            "| `{name}` | {threads} | {shared} | {registers} | 0 | {} % |",
            shares.join("/")
        );
        if !text.contains(&row) {
            missing.push(row);
        }
        if !predictions.contains(&format!("`{name}`")) {
            missing.push(format!("a prediction for {name}"));
        }
    }
    match missing.is_empty() {
        true => Ok(Outcome::Passed),
        false => Err(Outcome::Failed(format!(
            "kernels/README.md lacks\n{}",
            missing.join("\n")
        ))),
    }
}

fn budget_file() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("kernels/budget.csv")
}

/// Passed if the budget names just these kernels and none takes more than it says.
fn compare(taken: &BTreeMap<String, Taken>) -> Result<Outcome, Outcome> {
    let row = |name: &String, t: &Taken| {
        let [a, b, c] = t.registers;
        format!("{name},{},{},{a},{b},{c}\n", t.threads, t.shared)
    };
    let head = "kernel,threads,shared_bytes,registers_sm_70,registers_sm_80,registers_sm_90\n";
    if std::env::var_os("KERNELS_BUDGET").is_some_and(|word| word == "write") {
        let rows: String = taken.iter().map(|(name, t)| row(name, t)).collect();
        fs::write(budget_file(), format!("{head}{rows}")).unwrap();
    }
    let budget = fs::read_to_string(budget_file())
        .map_err(|e| Outcome::Failed(format!("kernels/budget.csv: {e}")))?;
    let mut over = Vec::new();
    let rows = budget.lines().skip(1).map(|line| {
        let (name, numbers) = line.split_once(',').unwrap();
        let numbers: Vec<u32> = numbers.split(',').map(|n| n.parse().unwrap()).collect();
        (name, numbers)
    });
    let rows: BTreeMap<&str, Vec<u32>> = rows.collect();
    for (name, t) in taken {
        let own = [
            t.threads,
            t.shared,
            t.registers[0],
            t.registers[1],
            t.registers[2],
        ];
        match rows.get(name.as_str()) {
            None => over.push(format!("{name} is not in kernels/budget.csv")),
            Some(allowed) if own.iter().zip(allowed).any(|(own, allowed)| own > allowed) => {
                over.push(format!("{name} takes {own:?}, and may take {allowed:?}"));
            }
            Some(_) => {}
        }
    }
    let gone = rows.keys().filter(|name| !taken.contains_key(**name));
    over.extend(gone.map(|name| format!("{name} is in kernels/budget.csv and is no kernel")));
    match over.is_empty() {
        true => Ok(Outcome::Passed),
        false => Err(Outcome::Failed(over.join("\n"))),
    }
}
