//! What `phalanx data` says of sparse rows.

use std::path::Path;

use crate::Result;
use crate::comm::Comm;
use crate::data::rows::{RowSet, describe};
use crate::data::text::table::Role;
use crate::data::text::{self, Encoding, Import, Report, collisions};
use crate::observe::{say, table};

/// Imports text with all ranks, and says what came of it; *collective*.
pub(super) fn import(comm: &dyn Comm, import: &Import) -> Result<()> {
    let report = text::import(comm, import)?;
    if comm.rank() != 0 {
        return Ok(());
    }
    if let Some(first) = &report.first_bad {
        let (lines, verb) = match report.bad {
            1 => ("line", "was"),
            _ => ("lines", "were"),
        };
        log::warn!(
            "{} bad {lines} {verb} left out; the first: {first}",
            report.bad
        );
    }
    say(&table(&import.out.display().to_string(), &lines(&report)));
    Ok(())
}

fn lines(report: &Report) -> Vec<(&'static str, String)> {
    let Report {
        rows,
        positives,
        nonzeros,
        used,
        ..
    } = *report;
    let features = report.encoding.features();
    let mut lines = vec![
        ("rows", format!("{rows} in {}", shards(report.shards))),
        ("features", format!("{features}, of which {used} are used")),
        ("nonzeros", per_row(nonzeros, rows)),
        ("label 1", share(positives, rows)),
    ];
    let speed = report.bytes as f64 / report.seconds.max(1e-9) / 1e6;
    let time = format!("{:.2} s, {speed:.0} MB/s of input", report.seconds);
    lines.push(("time", time));
    if report.encoding.hashing().is_some() {
        let (different, colliding) = collisions(used, features);
        lines.push(("collisions", format!(
            "about {colliding:.0} of {different:.0} different features share their number with another ({:.2} %)",
            100.0 * colliding / different.max(1.0)
        )));
    }
    if let Encoding::Csv { scheme, .. } = &report.encoding {
        let list = |role| match scheme.named(role).as_slice() {
            [] => "none".into(),
            names => names.join(", "),
        };
        lines.push(("label", list(Role::Label)));
        lines.push(("numeric", list(Role::Number)));
        lines.push(("categories", list(Role::Category)));
        lines.push(("left out", list(Role::Dropped)));
    }
    if report.bad > 0 {
        lines.push(("bad lines", format!("{} left out", report.bad)));
    }
    lines
}

/// Reads a whole set and shows what is in it.
pub(super) fn show(path: &Path) -> Result<()> {
    let set = RowSet::open(path)?;
    let summary = describe(&set)?;
    let (rows, nonzeros) = (set.len() as u64, set.nonzeros() as u64);
    let values = match set.has_values() {
        true => format!("{} to {}", summary.range.0, summary.range.1),
        false => "all 1".into(),
    };
    let way = match set.is_mapped() {
        true => "mapped",
        false => "read into memory",
    };
    let mut lines = vec![
        ("rows", rows.to_string()),
        (
            "features",
            format!("{}, of which {} are used", set.about.features, summary.used),
        ),
        ("nonzeros", per_row(nonzeros, rows)),
        ("longest row", summary.longest.to_string()),
        ("values", values),
        ("label 1", share(summary.positives, rows)),
        ("names", set.names()?.len().to_string()),
        ("files", format!("{}, {way}", set.files().count())),
        ("provenance", set.about.provenance.clone()),
        ("encoding", set.about.encoding.clone()),
        ("checksum", format!("xxh3:{:016x}", summary.checksum)),
    ];
    if let Some(loss) = set.about.best_loss {
        lines.push(("best loss", format!("{loss:.6}")));
    }
    say(&table(&path.display().to_string(), &lines));
    Ok(())
}

fn shards(count: u64) -> String {
    match count {
        1 => "1 shard".into(),
        _ => format!("{count} shards"),
    }
}

fn per_row(nonzeros: u64, rows: u64) -> String {
    format!("{nonzeros}, {:.2} a row", nonzeros as f64 / rows as f64)
}

fn share(count: u64, rows: u64) -> String {
    format!("{count} rows, {:.2} %", 100.0 * count as f64 / rows as f64)
}
