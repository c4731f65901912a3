//! A few steps of a trace, to look at without another program.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufReader, ErrorKind};
use std::path::Path;

use serde::Deserialize;

use super::super::plot::{Plot, Span, Spans};
use crate::{Error, Result};

/// Steps that are shown.
const STEPS: u64 = 4;

/// What ranks did in some steps.
#[derive(Clone, Debug)]
pub struct Overview {
    spans: Vec<Span>,
    ranks: usize,
    steps: (u64, u64),
}

/// The parts of a trace that matter here.
#[derive(Deserialize)]
struct Trace {
    #[serde(rename = "traceEvents")]
    events: Vec<Event>,
}

#[derive(Deserialize)]
struct Event {
    #[serde(default)]
    cat: String,
    name: String,
    ph: String,
    #[serde(default)]
    pid: usize,
    #[serde(default)]
    ts: f64,
    #[serde(default)]
    dur: f64,
    #[serde(default)]
    args: BTreeMap<String, serde_json::Value>,
}

/// The kinds of spans, each a class of its own.
const KINDS: [&str; 7] = [
    "load",
    "compute",
    "exchange",
    "wait",
    "optimizer",
    "evaluate",
    "checkpoint",
];

/// Steps from the middle of the trace at `path`; nothing if there is none.
pub(super) fn overview(path: &Path) -> Result<Option<Overview>> {
    let file = match File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(Error::io("read", path)(error)),
    };
    let trace: Trace = serde_json::from_reader(BufReader::new(file))
        .map_err(|error| Error::file(path, error, "it is damaged, or no trace of phalanx"))?;
    let step = |event: &Event| event.args.get("step").and_then(serde_json::Value::as_u64);
    let whole = |event: &&Event| event.ph == "X" && KINDS.contains(&event.cat.as_str());
    let all: Vec<&Event> = trace.events.iter().filter(whole).collect();
    let mut steps: Vec<u64> = all.iter().filter_map(|event| step(event)).collect();
    steps.sort_unstable();
    steps.dedup();
    let middle = steps.len() / 2;
    let Some(&first) = steps.get(middle.saturating_sub(STEPS as usize / 2)) else {
        return Ok(None);
    };
    let shown = first..first + STEPS;
    let within = |event: &&&Event| step(event).is_some_and(|step| shown.contains(&step));
    let all: Vec<&&Event> = all.iter().filter(within).collect();
    let begin = all
        .iter()
        .map(|event| event.ts)
        .fold(f64::INFINITY, f64::min);
    let span = |event: &&&Event| Span {
        row: event.pid,
        class: event.cat.clone(),
        name: format!("rank {} {}", event.pid, event.name),
        from: (event.ts - begin) / 1e3,
        to: (event.ts + event.dur - begin) / 1e3,
    };
    let spans: Vec<Span> = all.iter().map(span).collect();
    let last = spans.iter().map(|span| span.row).max();
    Ok(last.map(|last| Overview {
        ranks: last + 1,
        spans,
        steps: (shown.start, shown.end - 1),
    }))
}

impl Overview {
    /// The plot of it.
    pub(super) fn draw(&self, name: &str) -> Option<Plot> {
        let (first, last) = self.steps;
        let used = |kind: &&str| self.spans.iter().any(|span| span.class == **kind);
        let kinds = KINDS.iter().filter(|kind| used(kind));
        Spans {
            name: name.into(),
            title: format!("Timeline of steps {first} to {last}"),
            rows: (0..self.ranks).map(|rank| format!("rank {rank}")).collect(),
            keys: kinds.map(|kind| ((*kind).into(), (*kind).into())).collect(),
            spans: self.spans.clone(),
        }
        .draw()
    }
}
