//! File systems that refuse, lose, or take their time: training goes on.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use crate::launch::{Ended, run, wait};
use crate::run::{Amount, Bench, LIMIT, Outcome, checkpoints};
use crate::shim::{Events, Fault};

const ENOSPC: i32 = 28;
const EIO: i32 = 5;
const EROFS: i32 = 30;

/// A run that must come to its end in spite of a fault, and must have said a word about it.
fn survives(bench: &Bench, ended: &Ended, what: &str, says: &str, outcome: &mut Outcome) {
    outcome.moments += 1;
    if ended.code != Some(0) || !ended.output.contains(says) {
        let wrong = format!("{what}: exit code {:?}\n{}", ended.code, ended.output);
        outcome.wrong.push(wrong);
        return;
    }
    outcome.resumed += 1;
    bench.compare("run", what, outcome);
}

/// Checkpoints fail from some event on, for a while or to the end.
pub fn failing(amount: Amount) -> Outcome {
    let bench = Bench::new(4);
    let mut outcome = Outcome::default();
    let all = bench.events();
    for (errno, some) in [(EIO, 2), (EROFS, 1), (ENOSPC, 1)] {
        let moments = match amount {
            Amount::All => 12,
            Amount::Some => some,
        };
        for i in 0..moments {
            // Of parts and of the manifest; removing what is old comes later.
            let first = 1 + i * (all / 2) / moments;
            let last = if i % 2 == 0 { first + 10 } else { u64::MAX };
            let fault = Fault::Fail { first, last, errno };
            let ended = wait(bench.start("run", fault), LIMIT);
            let what = format!("error {errno} from event {first} to {last}");
            survives(&bench, &ended, &what, "", &mut outcome);
        }
    }
    outcome
}

/// A disk that is full after some checkpoints, the last ones and the model do not fit; with room again the run goes on.
pub fn disk_full(_: Amount) -> Outcome {
    let bench = Bench::of(2, "--steps 60 --checkpoint-every 5 --keep 99");
    let (mut outcome, out) = (Outcome::default(), bench.out("run"));
    fs::create_dir(&out).unwrap();
    let mounted = |words: &[&str]| {
        let mut command = Command::new(words[0]);
        command.args(&words[1..]).arg(&out);
        command.status().is_ok_and(|status| status.success())
    };
    if !mounted(&["mount", "-t", "tmpfs", "-o", "size=6m", "none"]) {
        // Without the right to mount, the system's answer alone.
        fs::remove_dir(&out).unwrap();
        let fault = Fault::Fail {
            first: 40,
            last: u64::MAX,
            errno: ENOSPC,
        };
        let ended = wait(bench.start("run", fault), LIMIT);
        survives(&bench, &ended, "no room", "not written", &mut outcome);
        return outcome;
    }
    let events = Events::new(bench.path());
    let ended = run(bench.command("run", &events, Fault::None), LIMIT);
    let said = ended.output.contains("was not written") || ended.code != Some(0);
    if !said {
        let wrong = format!("a full disk is not noticed\n{}", ended.output);
        outcome.wrong.push(wrong);
    }
    // Room for what is still to come; everything as it is on another disk.
    let copy = bench.out("copy");
    copy_all(&out, &copy);
    assert!(mounted(&["umount"]));
    fs::remove_dir(&out).unwrap();
    fs::rename(&copy, &out).unwrap();
    bench.go_on("run", "a full disk", &mut outcome);
    outcome
}

fn copy_all(from: &Path, to: &Path) {
    let mut command = Command::new("cp");
    command.arg("-a").arg(from).arg(to);
    assert!(command.status().unwrap().success());
}

/// The folder of checkpoints goes while the run does.
pub fn removed(amount: Amount) -> Outcome {
    let bench = Bench::of(4, "--steps 300 --checkpoint-every 20 --keep 2");
    let mut outcome = Outcome::default();
    let times = if amount == Amount::All { 10 } else { 1 };
    for i in 0..times {
        let job = bench.start("run", Fault::None);
        let begun = Instant::now();
        let folder = bench.out("run").join("checkpoints");
        while checkpoints(&bench.out("run")).is_empty() && begun.elapsed() < LIMIT {
            thread::sleep(Duration::from_millis(5));
        }
        thread::sleep(Duration::from_millis(37 * i));
        // What is being written meanwhile may be in the way for a moment.
        let gone = (0..100).any(|_| fs::remove_dir_all(&folder).is_ok());
        let ended = wait(job, LIMIT);
        let what = format!("folder removed ({gone}), {} ms after the first", 37 * i);
        survives(&bench, &ended, &what, "", &mut outcome);
    }
    outcome
}

/// Every call takes its time: training goes on meanwhile, and takes fewer checkpoints.
pub fn slow(_: Amount) -> Outcome {
    let mut outcome = Outcome::default();
    let bench = Bench::of(2, "--steps 400 --checkpoint-every 20 --keep 99");
    let usual = run(
        bench.command("usual", &Events::new(bench.path()), Fault::None),
        LIMIT,
    );
    assert_eq!(usual.code, Some(0), "{}", usual.output);
    let ended = wait(bench.start("run", Fault::Delay(20)), LIMIT);
    let (many, few) = (
        checkpoints(&bench.out("usual")),
        checkpoints(&bench.out("run")),
    );
    let words = format!(
        "{} checkpoints in {:.1} s, {} in {:.1} s when calls take 20 ms",
        many.len(),
        usual.time.as_secs_f64(),
        few.len(),
        ended.time.as_secs_f64()
    );
    if few.is_empty() || few.len() >= many.len() {
        outcome.wrong.push(format!("training waits: {words}"));
    }
    println!("  {words}");
    survives(&bench, &ended, "slow", "", &mut outcome);
    outcome
}
