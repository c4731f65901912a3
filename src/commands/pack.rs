//! `phalanx data pack`: what ranks made of photos, in a table.

use crate::Result;
use crate::comm::Comm;
use crate::data::photos::{Pack, Report, pack};
use crate::observe::{say, table};
use crate::train::readable;

/// Failures that are told one by one; the manifest has all.
const TOLD: usize = 5;

/// Packs photos with all ranks, and says what came of it; *collective*.
pub(super) fn run(comm: &dyn Comm, asked: &Pack) -> Result<()> {
    let report = pack(comm, asked)?;
    if comm.rank() != 0 {
        return Ok(());
    }
    for (photo, why) in report.failures.iter().take(TOLD) {
        log::warn!("left out: {photo}: {why}");
    }
    if report.failures.len() > TOLD {
        let more = report.failures.len() - TOLD;
        log::warn!("{more} more photos were left out: manifest.json names all");
    }
    for (class, _) in report.classes.iter().filter(|(_, samples)| *samples == 0) {
        log::warn!("class {class} has no photos");
    }
    say(&table(
        &asked.out.display().to_string(),
        &lines(asked, &report),
    ));
    Ok(())
}

fn lines(asked: &Pack, report: &Report) -> Vec<(&'static str, String)> {
    let now: u64 = report.by_rank.iter().sum();
    let mut lines = vec![
        ("samples", format!("{} of {}", report.samples, asked.shape)),
        ("classes", report.classes.len().to_string()),
        (
            "shards",
            format!("{}, {}", report.shards, readable(report.bytes)),
        ),
    ];
    if !report.failures.is_empty() {
        let share = format!("{} photos that cannot be read", report.failures.len());
        lines.push(("left out", share));
    }
    if report.others > 0 {
        let files = format!("{} files that are no photos by their names", report.others);
        lines.push(("not looked at", files));
    }
    if report.before > 0 {
        let photos = format!("{} photos by a job before this one", report.before);
        lines.push(("done already", photos));
    }
    let speed = now as f64 / report.seconds.max(1e-9);
    let (least, most) = (report.by_rank.iter().min(), report.by_rank.iter().max());
    lines.push((
        "time",
        format!("{:.2} s, {speed:.0} photos/s", report.seconds),
    ));
    lines.push((
        "photos by rank",
        format!(
            "{} to {} on {}",
            least.unwrap_or(&0),
            most.unwrap_or(&0),
            match report.by_rank.len() {
                1 => "1 rank".into(),
                ranks => format!("{ranks} ranks"),
            }
        ),
    ));
    lines
}
