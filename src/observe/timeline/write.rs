//! The trace as a file.

use std::fmt::Write;
use std::path::Path;

use serde_json::json;

use super::{Kind, Log, Offset, Span};
use crate::comm::Comm;
use crate::{Result, files};

/// Numbers of a span between ranks.
const WORDS: usize = 5;

/// What a trace says besides spans.
pub struct Written {
    /// Spans in the file.
    pub spans: u64,
    /// Spans that were dropped.
    pub dropped: u64,
}

/// Gathers the notes of all ranks, and writes them to `path` on the rank that has one; tells what is in it. `layers` names the model's
/// layers; *collective*.
pub fn write(
    comm: &dyn Comm,
    log: &Log,
    (start, end): (&Offset, &Offset),
    layers: &[String],
    path: Option<&Path>,
) -> Result<Written> {
    let begun = log.begun.saturating_duration_since(start.at).as_nanos() as u64;
    let time = |nanos: u64| Offset::time(start, end, begun + nanos);
    let pack = |span: &Span| {
        let number = u64::from(span.number) << 8 | span.kind as u64;
        [
            number,
            span.step,
            time(span.from) as u64,
            time(span.to) as u64,
            0,
        ]
    };
    let error = start.error.max(end.error);
    let head = [log.dropped, error, 0, 0, 0];
    let words = std::iter::once(head).chain(log.spans().map(pack)).flatten();
    let bytes: Vec<u8> = words.flat_map(u64::to_le_bytes).collect();
    let hosts = comm.gather(
        hostname::get()
            .unwrap_or_default()
            .to_string_lossy()
            .as_bytes(),
    );
    let all = comm.gather(&bytes);
    let ranks: Vec<Vec<[u64; WORDS]>> = all.iter().map(|bytes| unpack(bytes)).collect();
    let written = Written {
        spans: ranks.iter().map(|rank| rank.len() as u64 - 1).sum(),
        dropped: ranks.iter().map(|rank| rank[0][0]).sum(),
    };
    if let Some(path) = path {
        files::write_text(path, &text(&ranks, &hosts, layers, &written))?;
    }
    Ok(written)
}

fn unpack(bytes: &[u8]) -> Vec<[u64; WORDS]> {
    let word = |bytes: &[u8]| u64::from_le_bytes(bytes.try_into().expect("eight bytes"));
    let words: Vec<u64> = bytes.chunks_exact(8).map(word).collect();
    let rows = words.chunks_exact(WORDS);
    rows.map(|row| row.try_into().expect("a row of words"))
        .collect()
}

fn text(
    ranks: &[Vec<[u64; WORDS]>],
    hosts: &[Vec<u8>],
    layers: &[String],
    written: &Written,
) -> String {
    let first = ranks
        .iter()
        .flat_map(|rank| &rank[1..])
        .map(|span| span[2])
        .min()
        .unwrap_or(0);
    let error = ranks.iter().map(|rank| rank[0][1]).max().unwrap_or(0);
    let mut text = String::from("{\"displayTimeUnit\":\"ms\",\"traceEvents\":[\n");
    for (rank, host) in hosts.iter().enumerate() {
        let name = format!("rank {rank} ({})", String::from_utf8_lossy(host));
        let named = json!({"ph": "M", "name": "process_name", "pid": rank, "args": {"name": name}});
        let sorted = json!({"ph": "M", "name": "process_sort_index", "pid": rank, "args": {"sort_index": rank}});
        writeln!(text, "{named},\n{sorted},").expect("writing to memory");
    }
    for (rank, spans) in ranks.iter().enumerate() {
        let mut spans = spans[1..].to_vec();
        // What holds others stands before them.
        spans.sort_by_key(|span| (span[2], std::cmp::Reverse(span[3])));
        for [number, step, from, to, _] in spans {
            let kind = Kind::ALL[(number & 255) as usize];
            let (category, name) = words(kind, (number >> 8) as usize, layers);
            let micros = |nanos: u64| nanos as f64 / 1e3;
            writeln!(
                text,
                "{{\"ph\":\"X\",\"cat\":\"{category}\",\"name\":{},\"pid\":{rank},\"tid\":0,\"ts\":{:.3},\"dur\":{:.3},\"args\":{{\"step\":{step}}}}},",
                json!(name),
                micros(from - first),
                micros(to.saturating_sub(from))
            )
            .expect("writing to memory");
        }
    }
    let about = json!({
        "program": format!("phalanx {}", env!("CARGO_PKG_VERSION")),
        "spans": written.spans,
        "dropped": written.dropped,
        "kept": "the first and the last spans of each rank, as many of both",
        "clock": match error {
            0 => "one host's".into(),
            error => format!("rank 0's; those of other hosts to within {:.1} µs", error as f64 / 1e3),
        },
    });
    let end = json!({"ph": "M", "name": "trace", "pid": 0, "args": about});
    write!(text, "{end}\n],\"otherData\":{about}}}\n").expect("writing to memory");
    text
}

/// The category of a span, and what it is called.
fn words(kind: Kind, number: usize, layers: &[String]) -> (&'static str, String) {
    let layer = |what: &str| match layers.get(number) {
        Some(name) => format!("{what} {number} {name}"),
        None => format!("{what} layer {number}"),
    };
    match kind {
        Kind::Load => ("load", "load".into()),
        Kind::Compute => ("compute", "compute".into()),
        Kind::Forward => ("layer", layer("forward")),
        Kind::GradParams => ("layer", layer("backward (parameters)")),
        Kind::GradInput => ("layer", layer("backward (inputs)")),
        Kind::Exchange => ("exchange", "exchange".into()),
        Kind::Bucket => ("slice", format!("sum of bucket {number}")),
        Kind::Update => ("optimizer", "update of slice".into()),
        Kind::Wait => ("wait", "wait".into()),
        Kind::Evaluate => ("evaluate", "evaluate".into()),
        Kind::Checkpoint => ("checkpoint", "checkpoint".into()),
    }
}
