//! From facts to findings: a pure function, rule by rule.

mod machine;
mod meeting;
mod ranks;
#[cfg(test)]
mod tests;

use serde::Serialize;

use super::facts::Facts;
use super::machine::Host;

/// How good something is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Mark {
    /// As it should be.
    Good,
    /// Works, but could be better.
    Note,
    /// Does not work.
    Problem,
}

impl Mark {
    /// As the user reads it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Good => "good",
            Self::Note => "note",
            Self::Problem => "problem",
        }
    }
}

/// One line of the examination.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// The table that it is in.
    pub section: &'static str,
    /// What was looked at.
    pub name: &'static str,
    /// What was found.
    pub value: String,
    /// How good that is.
    pub mark: Mark,
    /// What to change.
    pub advice: Option<String>,
}

/// Findings of one section, in the making.
struct Section(&'static str, Vec<Finding>);

impl Section {
    fn good(&mut self, name: &'static str, value: impl Into<String>) {
        self.add(name, value.into(), Mark::Good, None);
    }

    fn note(&mut self, name: &'static str, value: impl Into<String>, advice: impl Into<String>) {
        self.add(name, value.into(), Mark::Note, Some(advice.into()));
    }

    fn problem(&mut self, name: &'static str, value: impl Into<String>, advice: impl Into<String>) {
        self.add(name, value.into(), Mark::Problem, Some(advice.into()));
    }

    fn add(&mut self, name: &'static str, value: String, mark: Mark, advice: Option<String>) {
        self.1.push(Finding {
            section: self.0,
            name,
            value,
            mark,
            advice,
        });
    }
}

/// All findings, by section.
pub fn diagnose(facts: &Facts) -> Vec<Finding> {
    type Rules = fn(&Facts, &mut Section);
    let sections: [(&str, Rules); 6] = [
        ("MPI", ranks::library),
        ("ranks", ranks::places),
        ("memory", machine::memory),
        ("CPU", machine::cpu),
        ("storage", machine::storage),
        ("tests", meeting::rules),
    ];
    let found = sections.into_iter().flat_map(|(name, rules)| {
        let mut section = Section(name, Vec::new());
        rules(facts, &mut section);
        section.1
    });
    found.collect()
}

/// What to do about an MPI that does not come back.
pub fn stuck(stage: &str) -> &'static str {
    if stage.contains("windows") || stage.contains("one-sided") {
        "let another part of MPI serve windows (Open MPI: OMPI_MCA_osc=^ucx, or OMPI_MCA_pml=ucx OMPI_MCA_osc=ucx,sm), or train with --exchange all-reduce"
    } else {
        "hosts may not reach each other by the network that MPI chose: name its interface (Open MPI: --mca btl_tcp_if_include eth0; MPICH: UCX_NET_DEVICES=eth0)"
    }
}

/// The host with the least of something.
fn least(facts: &Facts, of: impl Fn(&Host) -> f64) -> &Host {
    let all = facts.hosts.iter();
    let least = all.min_by(|a, b| of(a).total_cmp(&of(b)));
    least.expect("every rank has a host")
}

/// ` on NAME`, where there are several hosts.
fn on(facts: &Facts, host: &Host) -> String {
    if facts.hosts.len() == 1 {
        return String::new();
    }
    format!(" on {}", host.name)
}

/// What hosts say, each thing once, with the hosts that say it where not all do.
fn said(facts: &Facts, of: impl Fn(&Host) -> String) -> String {
    let mut groups: Vec<(String, Vec<&str>)> = Vec::new();
    for host in &facts.hosts {
        let text = of(host);
        match groups.iter_mut().find(|(other, _)| *other == text) {
            Some((_, names)) => names.push(&host.name),
            None => groups.push((text, vec![&host.name])),
        }
    }
    if let [(text, _)] = &groups[..] {
        return text.clone();
    }
    let each = groups.iter();
    let each = each.map(|(text, names)| format!("{text} ({})", names.join(", ")));
    each.collect::<Vec<_>>().join("; ")
}
