//! Without a guide: seeds, what was bad once, and changed inputs, each target in a process of its own.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use phalanx::rng::Stream;

use crate::mutations::Mutations;
use crate::targets::{Place, TARGETS, Target};

/// The first argument of a process that works.
const WORK: &str = "--work";
/// The first argument of one that tries one input: a target and a file follow.
const TRY: &str = "--try";
/// Changed inputs of a target, unless told otherwise.
const INPUTS: &str = "300";
/// KiB of memory that such a process may have, program and libraries included.
const MEMORY: u64 = 1 << 20;
/// The longest that one input may take, on a machine that does much else.
const PATIENCE: Duration = Duration::from_secs(20);
/// Where an input is before it is tried.
const TRIED: &str = "input";
/// How a process ends in which an input takes too long.
const HANGS: u8 = 99;

pub fn main() -> ExitCode {
    let mut words: Vec<String> = std::env::args().skip(1).collect();
    match words.first().map(String::as_str) {
        Some(WORK) => return work(&words[1..]),
        Some(TRY) => return try_one(&words[1..]),
        _ => {}
    }
    let mut option = |name: &str, usual: &str| {
        let at = words.iter().position(|word| word == name);
        let Some(at) = at.filter(|at| at + 1 < words.len()) else {
            return usual.to_owned();
        };
        words.drain(at..at + 2).nth(1).unwrap()
    };
    let (inputs, seed) = (option("--inputs", INPUTS), option("--seed", "1"));
    let filters: Vec<&String> = words.iter().filter(|word| !word.starts_with('-')).collect();
    let chosen = |target: &&Target| {
        filters.is_empty() || filters.iter().any(|filter| target.name.contains(*filter))
    };
    let (mut passed, mut failed) = (0, 0);
    for target in TARGETS.iter().filter(chosen) {
        match watch(target, &inputs, &seed) {
            Ok(words) => {
                println!("{} ... ok: {words}", target.name);
                passed += 1;
            }
            Err(why) => {
                println!("{} ... FAILED\n{why}", target.name);
                failed += 1;
            }
        }
    }
    println!("{passed} passed, {failed} failed");
    ExitCode::from(u8::from(failed > 0))
}

/// Lets a process with limits work on a target; what it did, or which input it could not take.
fn watch(target: &Target, inputs: &str, seed: &str) -> Result<String, String> {
    let folder = tempfile::tempdir().unwrap();
    let mut command = Command::new("sh");
    let limit = format!("ulimit -v {MEMORY} && exec \"$0\" \"$@\"");
    command.args(["-c", &limit]);
    command.arg(std::env::current_exe().unwrap());
    command.args([WORK, target.name, inputs, seed]);
    command.current_dir(folder.path()).stdin(Stdio::null());
    // Threads that nobody needs take room for stacks and buffers.
    command.env("OPENBLAS_NUM_THREADS", "1");
    let begun = Instant::now();
    let ended = command.output().unwrap();
    if ended.status.success() {
        let (time, said) = (begun.elapsed(), String::from_utf8_lossy(&ended.stderr));
        let count = said.lines().last().unwrap_or_default();
        return Ok(format!("{count} in {:.1} s", time.as_secs_f64()));
    }
    let keep = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("bad-{}", target.name));
    let kept = fs::copy(folder.path().join(TRIED), &keep);
    let what = match ended.status.code() {
        Some(code) if code == i32::from(HANGS) => format!("it takes more than {PATIENCE:?}"),
        _ => format!("it ends with {}", ended.status),
    };
    let said = String::from_utf8_lossy(&ended.stderr);
    Err(format!(
        "{what}\n{said}\nthe input is {} ({kept:?} bytes)",
        keep.display()
    ))
}

/// Gives a target its inputs, in the folder where the process works.
fn work(words: &[String]) -> ExitCode {
    let [name, inputs, seed] = words else {
        return ExitCode::from(2);
    };
    let (inputs, seed): (u64, u64) = (inputs.parse().unwrap(), seed.parse().unwrap());
    let mut targets = TARGETS.iter();
    let target = targets.find(|target| target.name == name).unwrap();
    let place = Place::new(Path::new("."));
    let count = Counted::watched();
    let seeds = (target.seeds)(&place);
    let found = found_bad(target.name);
    let known: Vec<_> = seeds.iter().chain(&found).collect();
    let take = |input: &[u8]| {
        fs::write(TRIED, input).unwrap();
        (target.run)(&place, input);
        count.0.fetch_add(1, Ordering::Relaxed);
    };
    known.iter().for_each(|input| take(input));
    // Each target has changes of its own.
    let key = name
        .bytes()
        .fold(seed, |key, byte| 31 * key + u64::from(byte));
    let good: Vec<_> = known.into_iter().cloned().collect();
    let mut mutations = Mutations::new(&good, Stream::new(&[key]).below(u64::MAX));
    for _ in 0..inputs {
        take(&mutations.make());
    }
    eprintln!("{} inputs", count.0.load(Ordering::Relaxed));
    ExitCode::SUCCESS
}

/// Gives a target one input, without limits: for a debugger.
fn try_one(words: &[String]) -> ExitCode {
    let [name, file] = words else {
        return ExitCode::from(2);
    };
    let mut targets = TARGETS.iter();
    let target = targets.find(|target| target.name == name).unwrap();
    let input = fs::read(file).unwrap();
    let folder = tempfile::tempdir().unwrap();
    std::env::set_current_dir(folder.path()).unwrap();
    (target.run)(&Place::new(Path::new(".")), &input);
    ExitCode::SUCCESS
}

/// Inputs that were bad once.
fn found_bad(name: &str) -> Vec<Vec<u8>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/fuzz/found")
        .join(name);
    let entries = fs::read_dir(folder).into_iter().flatten();
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    paths
        .into_iter()
        .map(|path| fs::read(path).unwrap())
        .collect()
}

/// How many inputs are done.
struct Counted(&'static AtomicU64);

impl Counted {
    /// With a thread that ends the process when the number stands still.
    fn watched() -> Self {
        static DONE: AtomicU64 = AtomicU64::new(0);
        thread::spawn(|| {
            let mut last = (0, Instant::now());
            loop {
                thread::sleep(Duration::from_millis(200));
                let done = DONE.load(Ordering::Relaxed);
                if done != last.0 {
                    last = (done, Instant::now());
                }
                if last.1.elapsed() > PATIENCE {
                    std::process::exit(HANGS.into());
                }
            }
        });
        Self(&DONE)
    }
}
