//! The page itself.

use super::super::Finding;
use super::super::plot::{Plot, escape};
use super::figures::{curves, labels, resources, shares, staleness, waiting};
use super::run::Run;
use super::sheet::Sheet;
use super::shell::{Section, gallery, grid, missing, shell};
use super::{compare, run};

/// Rows of a table that a page holds; of more, one in so many is shown.
const ROWS: usize = 2000;

/// A page about `runs`, of which there is one at the least.
pub fn page(runs: &[Run]) -> String {
    let names = labels(runs);
    let title = match runs.len() {
        1 => names[0].clone(),
        n => format!("{n} runs: {}", names.join(", ")),
    };
    let second = match runs {
        [run] => ("Summary", "Summary", tiles(run)),
        runs => ("Comparison", "Comparison", compare::figures(runs)),
    };
    let drawn = gallery(&curves(runs), "metrics.csv has no rows yet");
    let sections = [
        (
            "verdict",
            ("Verdict", "What limited it", verdicts(runs, &names)),
        ),
        ("summary", second),
        ("curves", ("Curves", "Curves", drawn)),
        ("ranks", ("Ranks", "Ranks", by_run(runs, &names, ranks))),
        (
            "resources",
            ("Resources", "Resources", by_run(runs, &names, used)),
        ),
        (
            "timeline",
            ("Timeline", "Timeline", by_run(runs, &names, timeline)),
        ),
        (
            "settings",
            ("Settings", "Settings", compare::settings(runs)),
        ),
        ("data", ("Data", "Data", by_run(runs, &names, data))),
    ];
    let sections = sections.map(|(id, (name, title, body))| Section {
        id,
        name,
        title,
        body,
    });
    let source = "Every figure is from the run folder's files.";
    shell("phalanx report", &title, &subtitle(runs), &sections, source)
}

/// What was trained, in a line.
fn subtitle(runs: &[Run]) -> String {
    let [run] = runs else {
        return "<p class=\"sub\">The same curves, one over the other; figures side by side.</p>"
            .into();
    };
    let setting = |name: &str| run.setting(name).unwrap_or_else(|| "?".into());
    let words = format!(
        "{} on {}, {} ranks, {}",
        setting("model"),
        setting("data"),
        setting("ranks"),
        setting("exchange")
    );
    let ended = match run.result {
        Some(_) => "",
        None => " <strong class=\"open\">This run has not ended.</strong>",
    };
    format!("<p class=\"sub\">{}.{ended}</p>", escape(&words))
}

/// What `part` says of each run, under its name where there are several.
fn by_run(runs: &[Run], names: &[String], part: fn(&Run) -> String) -> String {
    match runs {
        [run] => part(run),
        runs => {
            let each = runs.iter().zip(names).enumerate();
            let each = each.map(|(i, (run, name))| {
                format!(
                    "<article><h3><span class=\"swatch s{}\" aria-hidden=\"true\"></span>{}</h3>{}</article>",
                    i % 8,
                    escape(name),
                    part(run)
                )
            });
            format!("<div class=\"runs\">{}</div>", each.collect::<String>())
        }
    }
}

fn verdicts(runs: &[Run], names: &[String]) -> String {
    let one = |(run, name): (&Run, &String)| {
        let heading = match runs.len() {
            1 => String::new(),
            _ => format!("<h3>{}</h3>", escape(name)),
        };
        let found = run.verdict();
        let body: String = match (found.is_empty(), &run.result) {
            (false, _) => found.iter().enumerate().map(finding).collect(),
            (true, None) => missing("The run has not ended: there is no verdict yet."),
            (true, Some(_)) => missing("The run was made by a phalanx that gave no verdicts."),
        };
        format!("<div class=\"verdict\">{heading}{body}</div>")
    };
    runs.iter().zip(names).map(one).collect()
}

fn finding((i, finding): (usize, &Finding)) -> String {
    let class = match (i, finding.cause) {
        (_, None) => "finding good",
        (0, _) => "finding first",
        _ => "finding",
    };
    format!(
        "<div class=\"{class}\"><p class=\"what\">{}</p><p>{}.</p><p class=\"try\"><span>Try</span> {}.</p></div>",
        escape(&finding.what),
        escape(&finding.figures),
        typed(&finding.advice)
    )
}

/// Text whose parts between backticks are what one types.
fn typed(text: &str) -> String {
    let text = escape(text);
    let parts = text.split('`').enumerate();
    let parts = parts.map(|(i, part)| match i % 2 {
        0 => part.to_owned(),
        _ => format!("<code>{part}</code>"),
    });
    parts.collect()
}

fn tiles(run: &Run) -> String {
    let percent = |share: f64| format!("{:.2} %", 100.0 * share);
    let pair = |loss: &str, accuracy: &str| {
        let loss = run.number(&[loss]).map(|loss| format!("loss {loss:.4}"));
        (run.number(&[accuracy]).map(percent), loss)
    };
    let grouped = |number: f64| grouped(number.round() as u64);
    let rows = [
        ("test accuracy", pair("test_loss", "test_accuracy")),
        (
            "validation accuracy",
            pair("validation_loss", "validation_accuracy"),
        ),
        (
            "time",
            (
                run.number(&["seconds"]).map(|time| format!("{time:.2} s")),
                run.number(&["time", "evaluate"])
                    .map(|share| format!("{:.0} % of it evaluation", 100.0 * share)),
            ),
        ),
        (
            "samples a second",
            (
                run.number(&["samples_per_s"]).map(grouped),
                Some("without evaluation".into()),
            ),
        ),
        (
            "steps",
            (
                run.number(&["steps"]).map(grouped),
                run.number(&["epochs"])
                    .map(|epochs| format!("{epochs:.2} epochs")),
            ),
        ),
        (
            "ranks",
            (
                run.setting("ranks"),
                run.number(&["gini"])
                    .map(|gini| format!("Gini of updates {gini:.3}"))
                    .or_else(|| {
                        run.setting("hosts")
                            .map(|hosts| format!("on {hosts} host(s)"))
                    }),
            ),
        ),
    ];
    let tile = |(name, (value, more)): (&str, (Option<String>, Option<String>))| {
        let value = value?;
        let more = more.map(|more| format!("<span class=\"more\">{}</span>", escape(&more)));
        Some(format!(
            "<div class=\"tile\"><dt>{name}</dt><dd>{}{}</dd></div>",
            escape(&value),
            more.unwrap_or_default()
        ))
    };
    let tiles: String = rows.into_iter().filter_map(tile).collect();
    format!("<dl class=\"tiles\">{tiles}</dl>")
}

/// A number with its thousands apart.
fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            text.push('\u{202f}');
        }
        text.push(digit);
    }
    text
}

fn ranks(run: &Run) -> String {
    let drawn: Vec<Plot> = [shares(run, ""), waiting(run, ""), staleness(run, "")]
        .into_iter()
        .flatten()
        .collect();
    if run.ranks.rows.is_empty() {
        return missing("There is no ranks.csv: it is written when a run ends.");
    }
    gallery(&drawn, "") + &details("Every rank's row of ranks.csv", &run.ranks)
}

fn used(run: &Run) -> String {
    match run.resources.is_empty() {
        true => missing(
            "No resources were sampled: there is no rank-…/resources.csv in the run folder.",
        ),
        false => {
            let mut body = gallery(&resources(run, ""), "resources.csv has no numbers");
            if run.resources.len() > 16 {
                body += &missing("The first 16 ranks are shown.");
            }
            body
        }
    }
}

fn timeline(run: &Run) -> String {
    let drawn = run.trace.as_ref().and_then(|trace| trace.draw("timeline"));
    match drawn {
        Some(plot) => format!(
            "<div class=\"wide scroll\" tabindex=\"0\" role=\"region\" aria-label=\"Timeline\">{}</div><p class=\"note\">All of it: open trace.json of the run folder in ui.perfetto.dev or chrome://tracing.</p>",
            plot.inline()
        ),
        None => missing("There is no trace: `phalanx train --trace` writes one."),
    }
}

fn data(run: &Run) -> String {
    let waits = match run.waits.rows.is_empty() {
        true => String::new(),
        false => details(
            "waits.csv: seconds that ranks waited for each other",
            &run.waits,
        ),
    };
    // The first word is where the program was.
    let command = run.settings.get("command").and_then(toml::Value::as_array);
    let command = command.and_then(|all| all.get(1..)).unwrap_or_default();
    let command = command.iter().map(run::words).collect::<Vec<_>>().join(" ");
    format!(
        "<p class=\"note\">Command: <code>phalanx {}</code></p>{}{waits}",
        escape(&command),
        details("metrics.csv: every row that was written", &run.metrics)
    )
}

/// A file as a table that opens on demand.
fn details(title: &str, sheet: &Sheet) -> String {
    if sheet.rows.is_empty() {
        return String::new();
    }
    let every = sheet.rows.len().div_ceil(ROWS);
    let note = match every {
        1 => String::new(),
        every => format!("<p class=\"note\">One row in {every} is shown; the file has all.</p>"),
    };
    let rows = sheet.rows.iter().step_by(every);
    format!(
        "<details><summary>{}</summary>{note}{}</details>",
        escape(title),
        grid(title, &sheet.columns, rows)
    )
}
