//! Runs side by side in tables.

use super::super::plot::escape;
use super::figures::labels;
use super::run::{Run, words};

/// Which value of a row is the best.
#[derive(Clone, Copy, PartialEq)]
enum Best {
    Most,
    Least,
    None,
}

/// A row of figures: its name, one for each run with how it is written.
type Row = (&'static str, Best, fn(&Run) -> Option<(f64, String)>);

fn whole(value: f64) -> (f64, String) {
    (value, format!("{value:.0}"))
}

fn percent(share: f64) -> (f64, String) {
    (share, format!("{:.2} %", 100.0 * share))
}

const ROWS: [Row; 12] = [
    ("ranks", Best::None, |run| {
        run.setting("ranks")?.parse().ok().map(whole)
    }),
    ("steps", Best::None, |run| run.number(&["steps"]).map(whole)),
    ("samples", Best::None, |run| {
        run.number(&["samples"]).map(whole)
    }),
    ("seconds", Best::Least, |run| {
        run.number(&["seconds"])
            .map(|time| (time, format!("{time:.2}")))
    }),
    ("samples/s", Best::Most, |run| {
        run.number(&["samples_per_s"]).map(whole)
    }),
    ("test loss", Best::Least, |run| {
        run.number(&["test_loss"])
            .map(|loss| (loss, format!("{loss:.4}")))
    }),
    ("test accuracy", Best::Most, |run| {
        run.number(&["test_accuracy"]).map(percent)
    }),
    ("validation accuracy", Best::Most, |run| {
        run.number(&["validation_accuracy"]).map(percent)
    }),
    ("compute", Best::None, |run| {
        run.number(&["time", "compute"]).map(percent)
    }),
    ("exchange", Best::None, |run| {
        run.number(&["time", "exchange"]).map(percent)
    }),
    ("waiting", Best::None, |run| {
        run.number(&["time", "wait"]).map(percent)
    }),
    ("loading", Best::None, |run| {
        run.number(&["time", "load"]).map(percent)
    }),
];

/// The figures of all runs, the best ones marked; rows that none has are left out.
pub(super) fn figures(runs: &[Run]) -> String {
    let mut body = String::new();
    for (name, best, of) in ROWS {
        let cells: Vec<Option<(f64, String)>> = runs.iter().map(of).collect();
        let known = cells.iter().flatten().map(|(value, _)| *value);
        let mark = match best {
            Best::Most => known.clone().reduce(f64::max),
            Best::Least => known.clone().reduce(f64::min),
            Best::None => None,
        };
        let mark =
            mark.filter(|_| runs.len() > 1 && known.clone().any(|value| Some(value) != mark));
        if known.count() == 0 {
            continue;
        }
        body += &format!("<tr><th scope=\"row\">{name}</th>");
        for cell in cells {
            body += &match cell {
                Some((value, text)) if Some(value) == mark => {
                    format!("<td class=\"best\">{text} <span class=\"tag\">best</span></td>")
                }
                Some((_, text)) => format!("<td>{text}</td>"),
                None => "<td class=\"none\">–</td>".into(),
            };
        }
        body += "</tr>";
    }
    sheet("Figures of the runs", runs, &body)
}

/// Every setting as it was resolved; where several runs differ, the row is marked and stands first.
pub(super) fn settings(runs: &[Run]) -> String {
    let tables: Vec<Vec<(String, String)>> = runs.iter().map(flat).collect();
    let mut names: Vec<&String> = tables.iter().flatten().map(|(name, _)| name).collect();
    let mut seen = std::collections::BTreeSet::new();
    names.retain(|name| seen.insert(*name));
    let cell = |table: &Vec<(String, String)>, name: &String| {
        let found = table.iter().find(|(other, _)| other == name);
        found.map(|(_, value)| value.clone())
    };
    let (mut apart, mut alike) = (String::new(), String::new());
    for name in names {
        let cells: Vec<Option<String>> = tables.iter().map(|table| cell(table, name)).collect();
        let differ = cells.windows(2).any(|pair| pair[0] != pair[1]);
        let class = if differ { " class=\"differs\"" } else { "" };
        let row = if differ { &mut apart } else { &mut alike };
        *row += &format!("<tr{class}><th scope=\"row\">{}</th>", escape(name));
        for value in cells {
            *row += &match value {
                Some(value) => format!("<td>{}</td>", escape(&value)),
                None => "<td class=\"none\">–</td>".into(),
            };
        }
        *row += "</tr>";
    }
    sheet("Settings of the runs", runs, &(apart + &alike))
}

/// `settings.toml` as names and values; what was resolved stands without its table's name.
fn flat(run: &Run) -> Vec<(String, String)> {
    let mut pairs = Vec::new();
    for (name, value) in &run.settings {
        match value {
            toml::Value::Table(inner) if name == "resolved" => {
                pairs.extend(
                    inner
                        .iter()
                        .map(|(name, value)| (name.clone(), words(value))),
                );
            }
            value => pairs.push((name.clone(), words(value))),
        }
    }
    pairs
}

fn sheet(caption: &str, runs: &[Run], body: &str) -> String {
    let head: String = match runs.len() {
        1 => String::new(),
        _ => {
            let cells = labels(runs).into_iter().enumerate();
            let cells = cells.map(|(i, label)| {
                let dot = format!(
                    "<span class=\"swatch s{}\" aria-hidden=\"true\"></span>",
                    i % 8
                );
                format!("<th scope=\"col\">{dot}{}</th>", escape(&label))
            });
            format!(
                "<thead><tr><td></td>{}</tr></thead>",
                cells.collect::<String>()
            )
        }
    };
    format!(
        "<div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-label=\"{caption}\"><table><caption class=\"hidden\">{caption}</caption>{head}<tbody>{body}</tbody></table></div>"
    )
}
