//! Findings as tables, and as JSON.

use serde_json::json;

use super::advice::{Finding, Mark};
use super::facts::Facts;

/// A table for each section, then what to change.
pub fn text(findings: &[Finding]) -> String {
    let width = |length: fn(&Finding) -> usize| findings.iter().map(length).max().unwrap_or(0);
    let names = width(|found| found.name.chars().count());
    let (mut text, mut section) = (String::new(), "");
    for found in findings {
        if found.section != section {
            section = found.section;
            text += &format!("{section}\n");
        }
        text += &format!(
            "  {:<7}  {:<names$}  {}\n",
            found.mark.name(),
            found.name,
            found.value
        );
    }
    let advice = advice(findings);
    if advice.is_empty() {
        return text + "Nothing to change";
    }
    text += "What to change";
    for (i, advice) in advice.iter().enumerate() {
        text += &format!("\n  {}. {advice}", i + 1);
    }
    text
}

/// One object with everything.
pub fn json(facts: &Facts, findings: &[Finding]) -> String {
    let fit = findings.iter().all(|found| found.mark != Mark::Problem);
    json!({
        "phalanx": env!("CARGO_PKG_VERSION"),
        "fit": fit,
        "findings": findings,
        "advice": advice(findings),
        "facts": facts,
    })
    .to_string()
}

/// All advice, each once, problems first.
fn advice(findings: &[Finding]) -> Vec<&str> {
    let of = |mark: Mark| findings.iter().filter(move |found| found.mark == mark);
    let mut all: Vec<&str> = Vec::new();
    let given = of(Mark::Problem).chain(of(Mark::Note));
    for advice in given.filter_map(|found| found.advice.as_deref()) {
        if !all.contains(&advice) {
            all.push(advice);
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    fn finding(name: &'static str, mark: Mark, advice: Option<&str>) -> Finding {
        Finding {
            section: "MPI",
            name,
            value: "as it is".into(),
            mark,
            advice: advice.map(Into::into),
        }
    }

    #[test]
    fn advice_is_given_once_and_for_problems_first() {
        let mut all = vec![finding("library", Mark::Good, None)];
        assert_eq!(
            text(&all),
            "MPI\n  good     library  as it is\nNothing to change"
        );
        all.push(finding("a", Mark::Note, Some("this")));
        all.push(finding("b", Mark::Note, Some("this")));
        all.push(finding("c", Mark::Problem, Some("that")));
        let shown = text(&all);
        let end = "  problem  c        as it is\nWhat to change\n  1. that\n  2. this";
        assert!(shown.ends_with(end), "{shown}");
    }
}
