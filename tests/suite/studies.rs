//! Studies and searches: what their files may have, and what is told of those that cannot be.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

fn phalanx(folder: &Path, words: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_phalanx"));
    command.args(words).current_dir(folder);
    command.output().unwrap()
}

/// What is told of a file with this text, which is refused before anything is made.
fn refused(command: &str, text: &str) -> String {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("one.toml"), text).unwrap();
    let output = phalanx(folder.path(), &[command, "one.toml"]);
    assert!(!output.status.success(), "{command}: {text}");
    let names = fs::read_dir(folder.path()).unwrap();
    assert_eq!(names.count(), 1, "something was made of {text}");
    String::from_utf8_lossy(&output.stderr).into_owned()
}

fn ready() -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("studies");
    let files = fs::read_dir(folder)
        .unwrap()
        .map(|file| file.unwrap().path());
    let mut files: Vec<PathBuf> = files
        .filter(|path| path.extension().is_some_and(|e| e == "toml"))
        .collect();
    files.sort();
    files
}

#[test]
fn every_study_is_understood_small_and_full() {
    let files = ready();
    assert!(files.len() >= 12, "{files:?}");
    for file in files {
        let text = fs::read_to_string(&file).unwrap();
        if file.ends_with("prices.toml") || text.contains("\n[space]") {
            continue;
        }
        for size in [&[][..], &["--full"]] {
            let path = file.to_str().unwrap();
            let words = [&["sweep", path, "--dry-run"], size].concat();
            let output = phalanx(Path::new("."), &words);
            let told = String::from_utf8_lossy(&output.stdout);
            let wrong = String::from_utf8_lossy(&output.stderr);
            assert!(output.status.success(), "{path}: {wrong}");
            assert!(told.contains("ranks: phalanx "), "{path}: {told}");
        }
        // The full size is another than the small one.
        assert!(
            text.contains("[full]") || text.contains("--replay"),
            "{}",
            file.display()
        );
    }
}

const STUDY: &str = "title = \"t\"\ncommand = \"train softmax train.h5\"\n[[columns]]\nname = \"s\"\nfigure = \"seconds\"\n";

#[test]
fn a_study_that_cannot_be_is_refused_with_what_to_do() {
    let with = |more: &str| format!("{STUDY}{more}");
    let cases = [
        (with("[grids]\nbatch = [1]\n"), "did you mean `grid`?"),
        (
            with("[grid]\nbatch = []\n"),
            "batch has no values: the space is empty",
        ),
        (
            with("[[runs]]\nranks = 1\nbatch = []\n"),
            "batch has no values: the space is empty",
        ),
        (
            with(
                "[[runs]]\nbatch = [1, 2]\n[[curves]]\nname = \"l\"\nfigure = \"loss\"\nat = { bacth = 1 }\n",
            ),
            "`bacth` is not in [grid]",
        ),
        (with(""), "neither a [grid] nor [[runs]]"),
        (with("[grid]\nbatch = [1, 2]\nbacht = [3]\n"), "--batch"),
        (with("[grid]\nbatch = [0]\n"), "batch 0"),
        (with("[grid]\nbatch = [1, 1]\n"), "would be called"),
        (
            with("[grid]\nranks = [100000]\n"),
            "--oversubscribe lets ranks share cores",
        ),
        (with("[grid]\nranks = [2]\nnodes = [2]\n"), "2 nodes, but"),
        (
            with("[grid]\nbatch = [1]\n[[plots]]\nover = \"batch\"\ncolumn = \"t\"\n"),
            "`t` is not a column (there are: s)",
        ),
        (
            with("[grid]\nbatch = [1]\n[[plots]]\nover = \"bacth\"\ncolumn = \"s\"\n"),
            "`bacth` is not in [grid]",
        ),
        (
            STUDY.replace("\"seconds\"\n", "\"seconds\"\nagainst = { ranks = 3 }\n")
                + "[grid]\nranks = [1, 2]\n",
            "no configuration has ranks = 3",
        ),
        (with("[grid]\nout = [\"x\"]\n"), "--out"),
        ("title = \"t\"\n".into(), "missing field `command`"),
        ("title = \n".into(), "line 1"),
    ];
    for (text, told) in &cases {
        let error = refused("sweep", text);
        assert!(error.contains(told), "{text}: {error}");
    }
}

#[test]
fn a_search_that_cannot_be_is_refused_with_what_to_do() {
    let head =
        "title = \"t\"\ncommand = \"train softmax train.h5\"\n[measure]\nfigure = \"seconds\"\n";
    let cases = [
        ("[space]\n", "[space] is empty"),
        ("[space]\nbatch = []\n", "batch has no values"),
        ("[space]\nbatch = [1]\n[spaces]\n", "did you mean `space`?"),
        (
            "[space]\nranks = [100000]\n",
            "--oversubscribe lets ranks share cores",
        ),
        (
            "[space]\ninstance = [\"big\"]\n[instances.small]\nprice = 1\n",
            "there are: small",
        ),
        (
            "[space]\ninstance = [\"a\"]\n[instances.a]\nprice = 0\n",
            "no price above 0",
        ),
        (
            "[space]\ninstance = [\"a\"]\n[instances.a]\nprices = 2\n",
            "price",
        ),
        ("[space]\nbatch = [1, 0]\n", "batch 0"),
        ("[space]\nbatch = [1, 1.0]\n", "batch"),
        ("[space]\nbatch = [1]\n[winner]\nstep = 9\n", "[winner]"),
    ];
    for (more, told) in cases {
        let error = refused("tune", &format!("{head}{more}"));
        assert!(error.contains(told), "{more}: {error}");
    }
}

/// Figures of all configurations of studies/tune-lenet.toml, each measured three times on a quiet machine of two cores.
#[test]
fn searches_over_a_recorded_grid_find_a_good_configuration_in_ten_trials() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let grid = root.join("tests/fixtures/tune-lenet-runs.csv");
    let words = [
        "tune",
        "studies/tune-lenet.toml",
        "--trials",
        "10",
        "--seeds",
        "50",
        "--replay",
        grid.to_str().unwrap(),
    ];
    let output = phalanx(root, &words);
    let told = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    let number = |name: &str| -> usize {
        let line = told
            .lines()
            .find(|line| line.trim_start().starts_with(name));
        let word = line.unwrap().split_whitespace().nth(1).unwrap();
        word.parse().unwrap()
    };
    assert!(number("configurations") >= 60, "{told}");
    let (gaussian, random) = (number("gaussian"), number("random"));
    assert!(gaussian >= 40 && gaussian > random, "{told}");
    // A grid that is not of this space is refused, and every search is understood before that.
    let other = tempfile::tempdir().unwrap();
    fs::write(
        other.path().join("runs.csv"),
        "run,batch,samples_per_s\na,8,1\n",
    )
    .unwrap();
    let other = other.path().join("runs.csv");
    for search in ["studies/tune-lenet.toml", "studies/tune-cost.toml"] {
        let words = ["tune", search, "--replay", other.to_str().unwrap()];
        let output = phalanx(root, &words);
        let error = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(
            !output.status.success() && error.contains("has no column `"),
            "{error}"
        );
    }
    let head = "title = \"t\"\ncommand = \"train softmax train.h5\"\nprices = \"p.toml\"\n";
    let error = refused(
        "tune",
        &format!("{head}[measure]\nfigure = \"seconds\"\n[space]\nbatch = [1]\n"),
    );
    assert!(error.contains("p.toml"), "{error}");
}
