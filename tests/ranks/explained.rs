//! What a run says about itself: its verdict, its trace and its report, which is opened in a browser.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use tempfile::TempDir;

use crate::job::{LIMIT, csv, folder, good, job, number, toml};
use crate::launch::{phalanx, run, skip};

/// Jobs by name.
pub const JOBS: [(&str, fn()); 6] = [
    (
        "the verdict names a rank that is slow in compute",
        slow_compute,
    ),
    (
        "the verdict names a rank that is slow in loading",
        slow_loading,
    ),
    (
        "the verdict names a slow rank where nobody waits for it",
        slow_apart,
    ),
    ("the verdict names nobody where all ranks are alike", nobody),
    (
        "a trace has every rank's steps, also of a run that was stopped",
        traced,
    ),
    (
        "a report opens in a browser with the figures of metrics.csv",
        reported,
    ),
];

/// What limited a run of four ranks and so many steps: the ranks that were named, and why, with the first words.
fn verdict(steps: usize, words: &str) -> (Vec<(i64, String)>, String, TempDir) {
    let folder = folder();
    // Steps of some milliseconds, which take up most of the time: next to nothing, nobody is worth a word.
    let length = format!("--steps {steps} --batch 64");
    let words = format!("train lenet train.h5 {length} --no-tune --out run {words}");
    let printed = job(4, folder.path(), &words);
    let result = toml(folder.path().join("run/result.toml"));
    let found = result["verdict"].as_array().unwrap().clone();
    let what = found[0]["what"].as_str().unwrap().to_owned();
    assert!(
        printed.contains(&what) && printed.contains("try: "),
        "{printed}"
    );
    let named = found.iter().filter_map(|one| {
        let rank = one.get("rank")?.as_integer()?;
        Some((rank, one["cause"].as_str().unwrap().to_owned()))
    });
    // A rank whose core another program takes, on a machine with one for each, is rightly named for that.
    let named = named.filter(|(_, cause)| cause != "cores");
    (named.collect(), what, folder)
}

/// The rank that others waited for the longest, by `waits.csv`, with which `ranks.csv` agrees.
fn waited_for(run: &Path) -> usize {
    let waits = csv(run.join("waits.csv"));
    let late: Vec<f64> = (0..4)
        .map(|rank| {
            let rows = waits
                .iter()
                .filter(|row| row["waited_for"] == rank.to_string());
            rows.map(|row| number(row, "seconds")).sum()
        })
        .collect();
    for (row, late) in csv(run.join("ranks.csv")).iter().zip(&late) {
        assert!(
            (number(row, "late_s") - late).abs() < 1e-4,
            "{row:?}: {late}"
        );
    }
    let most = late
        .iter()
        .enumerate()
        .max_by(|(_, a), (_, b)| a.total_cmp(b));
    most.unwrap().0
}

fn slow_compute() {
    for exchange in ["node-shared", "all-reduce"] {
        let words = format!("--exchange {exchange} --inject slow:2:5");
        let (named, what, folder) = verdict(256, &words);
        assert_eq!(named, [(2, "compute".to_owned())], "{what}");
        assert_eq!(waited_for(&folder.path().join("run")), 2);
    }
}

fn slow_loading() {
    let (named, what, folder) = verdict(256, "--inject load:1:25");
    assert_eq!(named, [(1, "load".to_owned())], "{what}");
    assert_eq!(waited_for(&folder.path().join("run")), 1);
}

fn slow_apart() {
    for (fault, cause) in [("slow:2:5", "compute"), ("load:2:25", "load")] {
        // So many that the slow rank too takes enough of them to be judged by.
        let words = format!("--exchange one-sided --inject {fault}");
        let (named, what, _) = verdict(2048, &words);
        assert_eq!(named, [(2, cause.to_owned())], "{what}");
    }
}

/// Four ranks on few cores wait for each other all the time, and chance decides who is late.
fn nobody() {
    let (named, what, _) = verdict(256, "");
    assert!(named.is_empty(), "{named:?}: {what}");
}

/// The spans of a trace, by rank.
fn spans(path: &Path) -> BTreeMap<u64, Vec<serde_json::Value>> {
    let trace: serde_json::Value = serde_json::from_slice(&fs::read(path).unwrap()).unwrap();
    let mut ranks: BTreeMap<u64, Vec<serde_json::Value>> = BTreeMap::new();
    for event in trace["traceEvents"].as_array().unwrap() {
        if event["ph"] == "X" {
            let rank = event["pid"].as_u64().unwrap();
            ranks.entry(rank).or_default().push(event.clone());
        }
    }
    ranks
}

fn traced() {
    let folder = folder();
    let words = "train lenet train.h5 --test test.h5 --steps 12 --batch 32 --no-tune --trace --checkpoint-every 5 --out run";
    job(2, folder.path(), words);
    let ranks = spans(&folder.path().join("run/trace.json"));
    assert_eq!(ranks.len(), 2);
    for spans in ranks.values() {
        let count = |cat: &str| spans.iter().filter(|span| span["cat"] == cat).count();
        assert_eq!(
            [count("load"), count("compute"), count("exchange")],
            [12; 3]
        );
        assert!(count("layer") > 12 * 5 && count("wait") >= 24 && count("optimizer") == 12);
        assert!(count("evaluate") >= 1 && count("checkpoint") >= 1);
    }
    // Nobody leaves an exchange that another one has not come to: on one clock that shows, whatever else the machine does.
    let exchanges = |rank: u64| -> Vec<(f64, f64)> {
        let spans = ranks[&rank].iter().filter(|span| span["cat"] == "exchange");
        let number = |value: &serde_json::Value| value.as_f64().unwrap();
        spans
            .map(|span| {
                (
                    number(&span["ts"]),
                    number(&span["ts"]) + number(&span["dur"]),
                )
            })
            .collect()
    };
    for (one, other) in exchanges(0).into_iter().zip(exchanges(1)) {
        assert!(
            one.1 + 100.0 > other.0 && other.1 + 100.0 > one.0,
            "µs: {one:?} {other:?}"
        );
    }

    let mut command = phalanx(2, folder.path());
    let words = "train softmax train.h5 --epochs 100000 --time-limit 2s --trace --out stopped";
    command.args(words.split_whitespace());
    let ended = run(command, LIMIT);
    assert_eq!(ended.code, Some(4), "{}", ended.output);
    let ranks = spans(&folder.path().join("stopped/trace.json"));
    assert_eq!(ranks.len(), 2);
    let size = fs::metadata(folder.path().join("stopped/trace.json"))
        .unwrap()
        .len();
    assert!(size < 80_000_000, "{size} bytes");
}

/// What chromium makes of a page: the page as it is when scripts have run, and what it told on its console.
fn browse(page: &Path, profile: &Path) -> (String, Vec<String>) {
    let mut command = Command::new("timeout");
    command.args([
        "90",
        "chromium",
        "--headless",
        "--no-sandbox",
        "--disable-gpu",
    ]);
    command.args(["--enable-logging=stderr", "--dump-dom"]);
    command.arg(format!("--user-data-dir={}", profile.display()));
    command.arg(format!("file://{}", page.display()));
    let output = command.output().unwrap();
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    let told = String::from_utf8_lossy(&output.stderr);
    let told = told
        .lines()
        .filter(|line| line.contains("CONSOLE"))
        .map(str::to_owned);
    (String::from_utf8(output.stdout).unwrap(), told.collect())
}

fn reported() {
    let folder = folder();
    let training =
        "train.h5 --test test.h5 --steps 60 --batch 32 --no-tune --eval-every 20 --log-every 5";
    job(
        4,
        folder.path(),
        &format!("train lenet {training} --trace --out run"),
    );
    let words = format!("train softmax {training} --exchange one-sided --out other&<b>");
    job(2, folder.path(), &words);
    let alone = |words: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_phalanx"));
        command.args(words).current_dir(folder.path());
        good(run(command, Duration::from_secs(60)))
    };
    alone(&["report", "run"]);
    alone(&["report", "run", "other&<b>", "--out", "both.html"]);
    alone(&["plot", "run", "--out", "plots"]);
    for plot in ["loss", "accuracy", "speed", "ranks", "timeline"] {
        let svg = fs::read_to_string(folder.path().join(format!("plots/{plot}.svg"))).unwrap();
        assert!(svg.starts_with("<svg") && svg.contains("<title>"), "{plot}");
    }
    if Command::new("chromium").arg("--version").output().is_err() {
        return skip("there is no chromium here: `make setup-test` installs it");
    }
    let profile = folder.path().join("profile");
    let wrong = folder.path().join("wrong.html");
    fs::write(&wrong, "<script>console.error('seen')</script>").unwrap();
    let (_, told) = browse(&wrong, &profile);
    assert!(
        told.iter().any(|line| line.contains("seen")),
        "errors are seen: {told:?}"
    );

    let (page, told) = browse(&folder.path().join("report.html"), &profile);
    assert!(told.is_empty(), "{told:?}");
    for plot in [
        "loss",
        "accuracy",
        "speed",
        "learning-rate",
        "ranks",
        "timeline",
    ] {
        assert!(
            page.contains(&format!("data-plot=\"{plot}\"")),
            "{plot} is there"
        );
    }
    // The table of the page has every cell of the file, and the curves its numbers.
    let (head, rows) = table(&page, "metrics.csv");
    let file = fs::read_to_string(folder.path().join("run/metrics.csv")).unwrap();
    let mut lines = file
        .lines()
        .map(|line| line.split(',').map(str::to_owned).collect::<Vec<_>>());
    assert_eq!(lines.next().unwrap(), head);
    assert_eq!(lines.collect::<Vec<_>>(), rows);
    let points = points(&page, "loss");
    let metrics = csv(folder.path().join("run/metrics.csv"));
    let pairs = |column: &str| -> Vec<(f64, f64)> {
        let rows = metrics.iter().filter(|row| !row[column].is_empty());
        rows.map(|row| (number(row, "step"), number(row, column)))
            .collect()
    };
    assert_eq!(points["training"], pairs("loss"));
    assert_eq!(points["test"], pairs("test_loss"));
    let accuracy = toml(folder.path().join("run/result.toml"))["test_accuracy"]
        .as_float()
        .unwrap();
    assert!(page.contains(&format!("{:.2} %", 100.0 * accuracy)));

    let (page, told) = browse(&folder.path().join("both.html"), &profile);
    assert!(told.is_empty(), "{told:?}");
    assert!(page.contains("other&amp;&lt;b&gt;") && !page.contains("other&<b>"));
    assert!(page.contains("data-plot=\"staleness\"") && page.contains("class=\"differs\""));
}

/// The table under the heading that begins so: its head and its rows.
fn table(page: &str, title: &str) -> (Vec<String>, Vec<Vec<String>>) {
    let start = page
        .find(&format!("<summary>{title}"))
        .expect("the table is there");
    let table = page[start..].split("</table>").next().unwrap();
    let cells = |row: &str, tag: &str| -> Vec<String> {
        let opening = format!("<{tag}>");
        let cells = row.split(&opening).skip(1);
        cells
            .map(|cell| cell.split('<').next().unwrap().to_owned())
            .collect()
    };
    let (head, body) = table.split_once("<tbody>").unwrap();
    let rows = body.split("<tr>").skip(1).map(|row| cells(row, "td"));
    (cells(head, "th"), rows.collect())
}

/// The points that a plot tells of, by the names of its curves.
fn points(page: &str, plot: &str) -> BTreeMap<String, Vec<(f64, f64)>> {
    let start = page.find(&format!("data-plot=\"{plot}\"")).unwrap();
    let data = page[start..]
        .split("<script type=\"application/json\">")
        .nth(1)
        .unwrap();
    let data: serde_json::Value =
        serde_json::from_str(data.split("</script>").next().unwrap()).unwrap();
    let series = data["series"].as_array().unwrap().iter();
    let of = |one: &serde_json::Value| {
        let points = serde_json::from_value(one["points"].clone()).unwrap();
        (one["name"].as_str().unwrap().to_owned(), points)
    };
    series.map(of).collect()
}
