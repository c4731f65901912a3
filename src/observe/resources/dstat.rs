//! What dstat writes with `--output`, for the tools that read that: `dstat -T -cdngym`, and rank and step behind it.

use std::io::{self, Write};
use std::time::{SystemTime, UNIX_EPOCH};

use super::usage::Host;

/// Lines before the first row.
pub(super) const HEAD: usize = 6;

/// Groups of columns, as dstat calls them, and the columns of each.
const GROUPS: [(&str, &[&str]); 8] = [
    ("epoch", &["epoch"]),
    ("total cpu usage", &["usr", "sys", "idl", "wai", "stl"]),
    ("dsk/total", &["read", "writ"]),
    ("net/total", &["recv", "send"]),
    ("paging", &["in", "out"]),
    ("system", &["int", "csw"]),
    ("memory usage", &["used", "free", "buff", "cach"]),
    ("phalanx", &["rank", "step"]),
];

/// The lines before the first row.
pub(super) fn head(out: &mut impl Write, host: &str, user: &str, date: &str) -> io::Result<()> {
    let quoted = |name: &&str| format!("\"{name}\"");
    let group =
        |(name, columns): &(&str, &[&str])| format!("\"{name}\"{}", ",".repeat(columns.len() - 1));
    let groups: Vec<String> = GROUPS.iter().map(group).collect();
    let columns: Vec<String> = GROUPS
        .iter()
        .flat_map(|(_, columns)| columns.iter().map(quoted))
        .collect();
    writeln!(out, "\"Dstat 0.8.0 CSV output\"")?;
    writeln!(
        out,
        "\"Author:\",\"Dag Wieers <dag@wieers.com>\",,,,\"URL:\",\"http://dag.wieers.com/home-made/dstat/\""
    )?;
    writeln!(out, "\"Host:\",\"{host}\",,,,\"User:\",\"{user}\"")?;
    writeln!(
        out,
        "\"Cmdline:\",\"phalanx train --resources dstat\",,,,\"Date:\",\"{date}\""
    )?;
    writeln!(out, "{}", groups.join(","))?;
    writeln!(out, "{}", columns.join(","))
}

/// A row: the host's work from `was` to `now`, in which so many seconds `passed`.
pub(super) fn row(
    out: &mut impl Write,
    (rank, step): (usize, u64),
    (was, now): (&Host, &Host),
    passed: f64,
) -> io::Result<()> {
    let passed = passed.max(1e-6);
    let times = |host: &Host| {
        // As dstat counts: interrupts with the user's.
        let user = host.user + host.interrupts;
        [user, host.system, host.idle, host.waiting, host.stolen]
    };
    let spent: Vec<f64> = times(now)
        .iter()
        .zip(times(was))
        .map(|(now, was)| (now - was).max(0.0))
        .collect();
    let all: f64 = spent.iter().sum();
    let rate = |now: u64, was: u64| now.saturating_sub(was) as f64 / passed;
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    let mut values = vec![since.map_or(0.0, |time| time.as_secs_f64())];
    values.extend(spent.iter().map(|time| 100.0 * time / all.max(1e-9)));
    values.extend([
        rate(now.read, was.read),
        rate(now.written, was.written),
        rate(now.received, was.received),
        rate(now.sent, was.sent),
        rate(now.paged_in, was.paged_in),
        rate(now.paged_out, was.paged_out),
        rate(now.interruptions, was.interruptions),
        rate(now.switches, was.switches),
        now.taken as f64,
        now.unused as f64,
        now.buffers as f64,
        now.cached as f64,
        rank as f64,
        step as f64,
    ]);
    let words: Vec<String> = values.into_iter().map(number).collect();
    writeln!(out, "{}", words.join(","))
}

/// As dstat writes numbers.
fn number(value: f64) -> String {
    if value == value.round() {
        format!("{value:.0}")
    } else {
        format!("{value:.3}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What dstat 0.7.4-6.1 of Debian 12 writes, but for its command and our own columns.
    const REAL: &str = r#""Dstat 0.8.0 CSV output"
"Author:","Dag Wieers <dag@wieers.com>",,,,"URL:","http://dag.wieers.com/home-made/dstat/"
"Host:","vm",,,,"User:","root"
"Cmdline:","dstat -T -cdngym --output d.csv 1 2",,,,"Date:","17 Nov 2026 05:48:27 UTC"
"epoch","total cpu usage",,,,,"dsk/total",,"net/total",,"paging",,"system",,"memory usage",,,
"epoch","usr","sys","idl","wai","stl","read","writ","recv","send","in","out","int","csw","used","free","buff","cach"
"#;

    #[test]
    fn the_head_is_that_of_dstat_and_rows_fit_it() {
        let mut text = Vec::new();
        head(&mut text, "vm", "root", "17 Nov 2026 05:48:27 UTC").unwrap();
        let mut now = Host::default();
        (now.user, now.interrupts, now.idle) = (1.0, 0.5, 0.5);
        (now.read, now.taken) = (3, 1 << 40);
        row(&mut text, (1, 9), (&Host::default(), &now), 2.0).unwrap();
        let text = String::from_utf8(text).unwrap();
        let text = text.replace(
            "phalanx train --resources dstat",
            "dstat -T -cdngym --output d.csv 1 2",
        );
        let expected = REAL
            .lines()
            .zip(["", "", "", "", ",\"phalanx\",", ",\"rank\",\"step\""]);
        for (line, (real, more)) in text.lines().zip(expected) {
            assert_eq!(line, format!("{real}{more}"));
        }
        assert_eq!(text.lines().count(), HEAD + 1);
        let fields: Vec<&str> = text.lines().last().unwrap().split(',').collect();
        assert_eq!(fields.len(), 20);
        assert_eq!(fields[1..7], ["75", "0", "25", "0", "0", "1.500"]);
        assert_eq!(fields[14], "1099511627776");
        assert_eq!(fields[18..], ["1", "9"]);
    }
}
