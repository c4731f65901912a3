//! `phalanx data pack`: what ranks made of photos, in a table.

use crate::comm::Comm;
use crate::data::photos::{Pack, Report, kept, pack};
use crate::observe::{say, table};
use crate::train::readable;
use crate::{Error, Result};

/// Failures, and classes without photos, that are told one by one; the manifest has all.
const TOLD: usize = 5;

/// Packs photos with all ranks, and says what came of it; *collective*.
pub(super) fn run(comm: &dyn Comm, asked: &Pack) -> Result<()> {
    let packed = pack(comm, asked);
    if comm.rank() != 0 {
        return packed.map(|_| ());
    }
    let report = packed.inspect_err(|error| tell_kept(error, asked))?;
    for (photo, why) in report.failures.iter().take(TOLD) {
        log::warn!("left out: {photo}: {why}");
    }
    if report.failures.len() > TOLD {
        let more = report.failures.len() - TOLD;
        log::warn!("{more} more photos were left out: manifest.json names all");
    }
    tell_of_classes(&report.classes);
    say(&table(
        &asked.out.display().to_string(),
        &lines(asked, &report),
    ));
    Ok(())
}

/// Tells what is unusual about classes, each with its samples.
fn tell_of_classes(classes: &[(String, u64)]) {
    let empty: Vec<&String> = (classes.iter().filter(|(_, samples)| *samples == 0))
        .map(|(class, _)| class)
        .collect();
    for class in empty.iter().take(TOLD) {
        log::warn!("class {class} has no photos");
    }
    if empty.len() > TOLD {
        let more = empty.len() - TOLD;
        log::warn!("{more} more classes have no photos: manifest.json names all");
    }
    let number = |(class, _): &(String, u64)| {
        let number = class.parse::<usize>().ok();
        number.filter(|number| class == &number.to_string())
    };
    let numbers: Option<Vec<usize>> = classes.iter().map(number).collect();
    let last = numbers.as_ref().and_then(|numbers| numbers.last());
    if let Some(last) = last.filter(|&&last| last >= classes.len()) {
        let most = classes.len() - 1;
        log::warn!(
            "the classes' names are numbers with many left out: classes are numbered by their order, from 0 to {most}, which is {last}"
        );
    }
}

/// Says what the same command would go on with, unless it would be refused again.
fn tell_kept(error: &Error, asked: &Pack) {
    if matches!(error, Error::Exists(_) | Error::Usage(_)) {
        return;
    }
    if let Some(folder) = kept(&asked.out) {
        log::warn!(
            "what was packed so far is kept in {}; the same command goes on from there",
            folder.display()
        );
    }
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
