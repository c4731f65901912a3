//! Every dependency has a licence that `deny.toml` allows.

use std::path::Path;
use std::process::Command;

use serde_json::Value;

/// Licences that may be used.
fn allowed() -> Vec<String> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("deny.toml");
    let rules: toml::Table = std::fs::read_to_string(path).unwrap().parse().unwrap();
    let list = rules["licenses"]["allow"].as_array().unwrap();
    let word = |licence: &toml::Value| licence.as_str().unwrap().to_owned();
    list.iter().map(word).collect()
}

/// Whether an expression such as `(MIT OR Apache-2.0) AND Unicode-3.0` leaves a choice of allowed licences only. Older
/// packages write `/` for OR.
fn fits(expression: &str, allowed: &[String]) -> bool {
    let text = expression.replace('/', " OR ");
    let text = text.trim();
    // Where a word stands by itself, outside of brackets.
    let cut = |word: &str| {
        let outside = |at: usize| {
            let before = &text[..at];
            before.matches('(').count() == before.matches(')').count()
        };
        let found = text.match_indices(word).find(|(at, _)| outside(*at));
        found.map(|(at, _)| (&text[..at], &text[at + word.len()..]))
    };
    if let Some((left, right)) = cut(" OR ") {
        return fits(left, allowed) || fits(right, allowed);
    }
    if let Some((left, right)) = cut(" AND ") {
        return fits(left, allowed) && fits(right, allowed);
    }
    let inside = text
        .strip_prefix('(')
        .and_then(|rest| rest.strip_suffix(')'));
    match inside {
        Some(inside) => fits(inside, allowed),
        None => allowed.iter().any(|licence| licence == text),
    }
}

#[test]
fn expressions_of_licences_are_understood() {
    let allowed = ["MIT", "Zlib", "Apache-2.0 WITH LLVM-exception"].map(String::from);
    for good in [
        "MIT",
        "GPL-3.0/MIT",
        "GPL-3.0 OR (MIT AND Zlib)",
        "(MIT OR GPL-3.0) AND Zlib",
        "Apache-2.0 WITH LLVM-exception OR GPL-3.0",
    ] {
        assert!(fits(good, &allowed), "{good}");
    }
    for bad in [
        "",
        "GPL-3.0",
        "MIT AND GPL-3.0",
        "Apache-2.0",
        "(MIT OR Zlib) AND GPL-3.0",
    ] {
        assert!(!fits(bad, &allowed), "{bad}");
    }
}

#[test]
fn every_dependency_has_a_licence_that_is_allowed() {
    let mut cargo = Command::new(env!("CARGO"));
    cargo.current_dir(env!("CARGO_MANIFEST_DIR"));
    cargo.args(["metadata", "--format-version", "1", "--locked", "--offline"]);
    // A build fetches what it needs itself: on a fresh machine packages for other systems are not there.
    let platform = format!("{}-unknown-linux-gnu", std::env::consts::ARCH);
    cargo.args(["--filter-platform", &platform]);
    let ended = cargo.output().unwrap();
    let said = String::from_utf8_lossy(&ended.stderr);
    assert!(ended.status.success(), "{said}");
    let all: Value = serde_json::from_slice(&ended.stdout).unwrap();
    let packages = all["packages"].as_array().unwrap();
    assert!(packages.len() > 50, "{} packages", packages.len());
    let allowed = allowed();
    for package in packages {
        let (name, licence) = (&package["name"], package["license"].as_str());
        let good = licence.is_some_and(|licence| fits(licence, &allowed));
        assert!(
            good,
            "{name} has licence {licence:?}, which deny.toml does not allow"
        );
    }
}
