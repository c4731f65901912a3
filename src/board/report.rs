//! What is told of a stall, and the end of the job that it is.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use serde::Serialize;

use super::Phase;
use super::verdict::Seen;
use super::watch::{Card, leaders};
use crate::comm::abort;
use crate::{Error, files, interrupt};

/// Longest that writing the board may take: the file system may be what hangs.
const WRITING: Duration = Duration::from_secs(1);
/// Longest that telling and MPI's own end of the job may take.
const ENDING: Duration = Duration::from_secs(3);
/// Culprits that are named one by one.
const NAMED: usize = 4;

/// Everything about a stall.
pub(super) struct Stall {
    /// Who hangs, where, since when.
    pub(super) what: String,
    /// World ranks.
    pub(super) culprits: Vec<usize>,
    /// What is known of ranks.
    pub(super) rows: Vec<Seen>,
    pub(super) cards: Vec<Card>,
    pub(super) teller: usize,
    pub(super) timeout: Duration,
}

/// `stalled.json`.
#[derive(Serialize)]
struct Written<'a> {
    what: &'a str,
    stall_timeout_s: f64,
    told_by: usize,
    culprits: &'a [usize],
    ranks: Vec<WrittenRank<'a>>,
}

/// A rank; of ranks on nodes that the teller does not hear, only the place is known.
#[derive(Serialize)]
struct WrittenRank<'a> {
    rank: usize,
    host: &'a str,
    pid: u32,
    phase: Option<Phase>,
    step: Option<u64>,
    /// Seconds since its main thread moved, and since its heart beat.
    still_s: Option<f64>,
    silent_s: Option<f64>,
}

impl Stall {
    fn json(&self) -> String {
        let seconds = |time: Duration| (time.as_secs_f64() * 1e3).round() / 1e3;
        let ranks = self.cards.iter().enumerate().map(|(rank, card)| {
            let seen = self.rows.iter().find(|seen| seen.rank == rank);
            WrittenRank {
                rank,
                host: &card.host,
                pid: card.pid,
                phase: seen.map(|seen| seen.phase),
                step: seen.map(|seen| seen.step),
                still_s: seen.map(|seen| seconds(seen.still)),
                silent_s: seen.map(|seen| seconds(seen.silent)),
            }
        });
        let written = Written {
            what: &self.what,
            stall_timeout_s: self.timeout.as_secs_f64(),
            told_by: self.teller,
            culprits: &self.culprits,
            ranks: ranks.collect(),
        };
        serde_json::to_string_pretty(&written).expect("plain values") + "\n"
    }
}

fn name(rank: usize, cards: &[Card]) -> String {
    let Card { host, pid, .. } = &cards[rank];
    format!("rank {rank} ({host}, pid {pid})")
}

/// Ranks of this node that hold the others up.
pub(super) fn culprits(
    ranks: &[usize],
    seen: &[Seen],
    cards: &[Card],
    timeout: Duration,
) -> String {
    let culprits = seen.iter().filter(|seen| ranks.contains(&seen.rank));
    let one = |seen: &Seen| {
        let who = name(seen.rank, cards);
        let place = format!("in phase {} of step {}", seen.phase.name(), seen.step);
        if seen.is_frozen(timeout) {
            let silent = seen.silent.as_secs_f64();
            return format!(
                "{who} gave no sign of life for {silent:.1} s, {place}: its process is stopped or frozen"
            );
        }
        let still = seen.still.as_secs_f64();
        format!("{who} has not moved for {still:.1} s, {place}: its process runs")
    };
    some(culprits.map(one).collect())
}

/// The first few, and how many more.
fn some(mut all: Vec<String>) -> String {
    let more = all.len().saturating_sub(NAMED);
    all.truncate(NAMED);
    if more > 0 {
        all.push(format!("{more} more ranks like these"));
    }
    all.join("; ")
}

/// Ranks that all wait.
pub(super) fn all_wait(size: usize, seen: &[Seen], time: Duration) -> String {
    let busy = seen.iter().filter(|seen| seen.phase != Phase::Done);
    let one = |seen: &Seen| {
        format!(
            "rank {} in phase {} of step {}",
            seen.rank,
            seen.phase.name(),
            seen.step
        )
    };
    format!(
        "all of {size} ranks have waited for each other for {:.1} s: {}",
        time.as_secs_f64(),
        some(busy.map(one).collect())
    )
}

/// Nodes from which nothing comes any more; gives their ranks too.
pub(super) fn silent(
    nodes: &[usize],
    known: &[(usize, Option<Duration>, Vec<Seen>)],
    cards: &[Card],
    time: Duration,
) -> (Vec<usize>, String) {
    let leaders = leaders(cards);
    let mut culprits = Vec::new();
    let one = |&node: &usize| {
        let leader = leaders[node];
        let ranks: Vec<usize> = (0..cards.len())
            .filter(|&rank| cards[rank].leader == leader)
            .collect();
        let list: Vec<String> = ranks.iter().map(usize::to_string).collect();
        culprits.extend(&ranks);
        let known = known.iter().find(|(other, _, _)| *other == node);
        let last = known.and_then(|(_, _, rows)| rows.first());
        let last = last.map_or(String::new(), |seen| {
            let (phase, step) = (seen.phase.name(), seen.step);
            format!(", last seen in phase {phase} of step {step}")
        });
        let heard = match known.and_then(|(_, ago, _)| *ago) {
            Some(ago) => format!("gave no sign of life for {:.1} s{last}", ago.as_secs_f64()),
            None => "never gave a sign of life".into(),
        };
        format!(
            "host {} with {} {} (pid of the first: {}) {heard}",
            cards[leader].host,
            if list.len() == 1 { "rank" } else { "ranks" },
            list.join(", "),
            cards[leader].pid
        )
    };
    let hosts: Vec<String> = nodes.iter().map(one).collect();
    let time = time.as_secs_f64();
    let what = format!(
        "{}; this node's ranks have waited for {time:.1} s",
        some(hosts)
    );
    (culprits, what)
}

/// A node that waits and hears nothing.
pub(super) fn deaf(here: &[usize], cards: &[Card], time: Duration) -> String {
    format!(
        "the {} ranks of host {} have waited for other nodes for {:.1} s; which rank hangs cannot be told, for no heartbeat \
         ever came from another node (is UDP between nodes blocked by a firewall?)",
        here.len(),
        cards[here[0]].host,
        time.as_secs_f64()
    )
}

/// Tells of a stall and ends the job.
pub(super) fn end(stall: &Stall, file: &Path) -> ! {
    // Whatever hangs here as well, this process ends: the launcher notices and ends the others.
    let last = thread::Builder::new().spawn(|| {
        thread::sleep(ENDING);
        interrupt::leave(Error::STALLED);
    });
    let error = Error::Stalled {
        what: stall.what.clone(),
        board: write(stall.json(), file.to_path_buf()),
    };
    let message = format!("error: rank {}: {}\n", stall.teller, error.report());
    // A closed terminal is no reason not to end the job.
    let _ = std::io::stderr().write_all(message.as_bytes());
    if last.is_err() {
        interrupt::leave(Error::STALLED);
    }
    abort(error.exit_code())
}

/// Writes the board; says where it is.
fn write(text: String, file: PathBuf) -> String {
    let (done, outcome) = mpsc::channel();
    let place = file.display().to_string();
    let writer = thread::Builder::new().spawn(move || {
        // Nobody listens any more if it took too long.
        let _ = done.send(files::write_text(&file, &text));
    });
    let outcome = writer.map(|_| outcome.recv_timeout(WRITING));
    match outcome {
        Ok(Ok(Ok(()))) => format!("the board of all ranks is in {place}"),
        Ok(Ok(Err(error))) => format!("the board could not be written: {error}"),
        Ok(Err(_)) => format!("writing {place} takes too long"),
        Err(error) => format!("the board could not be written: {error}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cards() -> Vec<Card> {
        let text = r#"[{"host":"a","pid":10,"leader":0,"addresses":[],"run":1},
            {"host":"a","pid":11,"leader":0,"addresses":[],"run":2},
            {"host":"b","pid":12,"leader":2,"addresses":["10.0.0.1:9"],"run":3}]"#;
        serde_json::from_str(text).unwrap()
    }

    fn seen(rank: usize, phase: Phase, silent: u64) -> Seen {
        Seen {
            rank,
            phase,
            step: 20,
            still: Duration::from_secs(12),
            silent: Duration::from_secs(silent),
        }
    }

    #[test]
    fn a_culprit_is_named_with_host_process_phase_and_step() {
        let rows = [seen(0, Phase::Wait, 0), seen(1, Phase::Compute, 0)];
        let limit = Duration::from_secs(10);
        assert_eq!(
            culprits(&[1], &rows, &cards(), limit),
            "rank 1 (a, pid 11) has not moved for 12.0 s, in phase compute of step 20: its process runs"
        );
        let rows = [seen(0, Phase::Exchange, 11), seen(1, Phase::Wait, 0)];
        assert_eq!(
            culprits(&[0], &rows, &cards(), limit),
            "rank 0 (a, pid 10) gave no sign of life for 11.0 s, in phase exchange of step 20: its process is stopped or frozen"
        );
    }

    #[test]
    fn a_silent_host_is_named_with_its_ranks_and_what_was_last_heard() {
        let known = [(
            1,
            Some(Duration::from_secs(12)),
            vec![seen(2, Phase::Load, 12)],
        )];
        let (culprits, what) = silent(&[1], &known, &cards(), Duration::from_secs(11));
        assert_eq!(culprits, [2]);
        let expected = "host b with rank 2 (pid of the first: 12) gave no sign of life for 12.0 s, last seen in phase load of step 20";
        assert!(what.starts_with(expected), "{what}");
    }

    #[test]
    fn the_board_has_every_rank_and_says_what_is_not_known() {
        let stall = Stall {
            what: "x".into(),
            culprits: vec![1],
            rows: vec![seen(0, Phase::Wait, 0), seen(1, Phase::Compute, 0)],
            cards: cards(),
            teller: 0,
            timeout: Duration::from_secs(10),
        };
        let value: serde_json::Value = serde_json::from_str(&stall.json()).unwrap();
        let ranks = value["ranks"].as_array().unwrap();
        assert_eq!(ranks.len(), 3);
        assert_eq!(ranks[1]["phase"], "compute");
        assert_eq!(
            (&ranks[1]["step"], &ranks[1]["pid"]),
            (&20.into(), &11.into())
        );
        assert!(ranks[2]["phase"].is_null() && ranks[2]["host"] == "b");
    }
}
