//! The rules of the house, read from its sources.

use std::fs;
use std::path::{Path, PathBuf};

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

/// Every source file with its path from the root and its text.
fn sources(folder: &str) -> Vec<(String, String)> {
    let mut found = Vec::new();
    let mut folders = vec![root().join(folder)];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                let name = path.strip_prefix(root()).unwrap().display().to_string();
                found.push((name, fs::read_to_string(path).unwrap()));
            }
        }
    }
    assert!(!found.is_empty());
    found
}

/// The text without comments.
fn code(text: &str) -> String {
    text.lines()
        .map(|line| line.split("//").next().unwrap_or_default())
        .collect::<Vec<_>>()
        .join("\n")
}

/// Whether `code` names the crate `name` in a path.
fn names(code: &str, name: &str) -> bool {
    let path = format!("{name}::");
    code.match_indices(&path).any(|(at, _)| {
        let before = code[..at].chars().next_back().unwrap_or(' ');
        !before.is_alphanumeric() && before != '_' && before != ':'
    })
}

#[test]
fn a_dependency_is_named_only_behind_its_door() {
    let doors = [
        ("mpi", "src/comm/"),
        ("cudarc", "src/backend/cuda/"),
        ("libc", "src/comm/"),
        ("hdf5", "src/h5"),
        ("hdf5_sys", "src/h5/kind.rs"),
        ("clap", "src/cli/"),
        ("memmap2", "src/data/"),
        ("indicatif", "src/observe/progress.rs"),
        ("strsim", "src/sweep/study.rs"),
        ("signal_hook", "src/interrupt.rs"),
        ("env_logger", "src/logging.rs"),
        ("flate2", "src/data/unpack.rs"),
        ("image", "src/data/photos/"),
        ("zune_jpeg", "src/data/photos/decode.rs"),
        ("fast_image_resize", "src/data/photos/fit.rs"),
        ("memchr", "src/data/text/"),
        ("csv_core", "src/data/text/table/fields.rs"),
        ("rayon", "src/nn/crew.rs"),
        ("if_addrs", "src/board/ring.rs"),
        ("ndarray_linalg", "src/linalg/solve.rs"),
        (
            "rustix",
            "src/files.rs src/h5/examiner.rs src/interrupt.rs src/observe/resources/process.rs src/train/ledger/cores.rs",
        ),
        ("crc32c", "src/tfrecord.rs"),
        ("prost", "src/data/examples/ src/observe/tensorboard/"),
        ("procfs", "src/observe/resources/"),
        ("nvml_wrapper", "src/observe/resources/gpu.rs"),
        ("ratatui", "src/observe/top/screen.rs"),
        ("resvg", "src/observe/plot/png.rs"),
    ];
    for (file, text) in sources("src") {
        for (dependency, door) in doors {
            // Inside `comm` a module is called `mpi` too; elsewhere a path `mpi::` can only be the crate.
            let behind = door.split(' ').any(|door| file.starts_with(door));
            let bypassed = !behind && names(&code(&text), dependency);
            assert!(!bypassed, "{file} names {dependency}, whose door is {door}");
        }
    }
}

#[test]
fn unsafe_code_is_in_few_files_and_always_explained() {
    let allowed = [
        "src/comm/common.rs",
        "src/comm/courier.rs",
        "src/comm/facts.rs",
        "src/comm/mpi.rs",
        "src/comm/on_device.rs",
        "src/comm/parts.rs",
        "src/comm/rma.rs",
        "src/h5/kind.rs",
        "src/comm/slices.rs",
        "src/comm/shared.rs",
        "src/comm/stripes.rs",
        "src/comm/gate.rs",
        "src/data/cache.rs",
        "src/data/map.rs",
        "src/data/rows/mapped.rs",
        "src/backend/cpu/",
        "src/backend/cuda/",
    ];
    for (file, text) in sources("src") {
        let lines: Vec<&str> = text.lines().collect();
        for (i, line) in lines.iter().enumerate() {
            let opens = line.contains("unsafe {") && !line.trim_start().starts_with("//");
            if !opens {
                continue;
            }
            assert!(
                allowed.iter().any(|place| file.starts_with(place)),
                "{file}:{} is unsafe",
                i + 1
            );
            let explained = lines[i.saturating_sub(5)..i]
                .iter()
                .any(|line| line.contains("SAFETY:"));
            assert!(explained, "{file}:{} has no SAFETY line", i + 1);
        }
    }
}

#[test]
fn every_file_says_first_what_it_is_for() {
    for (file, text) in sources("src").into_iter().chain(sources("tests")) {
        assert!(
            text.starts_with("//! "),
            "{file} does not begin with `//! `"
        );
        assert!(
            text.lines().count() <= 500,
            "{file} has {} lines",
            text.lines().count()
        );
    }
}

#[test]
fn nothing_is_left_undone_in_the_sources() {
    // Written in pieces, so that this file does not find itself.
    let marks = [
        ["TO", "DO"],
        ["FIX", "ME"],
        ["todo", "!("],
        ["unimplemented", "!("],
        ["#[ign", "ore"],
        ["dbg", "!("],
    ];
    for (file, text) in sources("src").into_iter().chain(sources("tests")) {
        for mark in marks {
            assert!(
                !text.contains(&mark.concat()),
                "{file} holds {}",
                mark.concat()
            );
        }
    }
}

#[test]
fn the_readme_names_its_two_commands_and_every_room() {
    let readme = fs::read_to_string(root().join("README.md")).unwrap();
    let first_screen: String = readme.lines().take(10).collect::<Vec<_>>().join("\n");
    assert!(
        first_screen.contains("make demo") && first_screen.contains("make test"),
        "{first_screen}"
    );
    let makefile = fs::read_to_string(root().join("Makefile")).unwrap();
    assert!(makefile.contains("\ndemo:") && makefile.contains("\ntest:"));
    let picture = fs::read_to_string(root().join("src/lib.rs")).unwrap();
    for entry in fs::read_dir(root().join("src")).unwrap() {
        let path = entry.unwrap().path();
        let room = path.file_stem().unwrap().to_string_lossy().into_owned();
        if room != "main" && room != "lib" {
            assert!(
                picture.contains(&format!("[`{room}`]")),
                "src/lib.rs does not show `{room}`"
            );
        }
        if path.is_dir() {
            assert!(
                readme.contains(&format!("src/{room} ")),
                "the README's tree does not show src/{room}"
            );
        }
    }
}

#[test]
fn licences_and_change_log_are_there() {
    for name in [
        "LICENSE-MIT",
        "LICENSE-APACHE",
        "CHANGELOG.md",
        "data/README.md",
        ".ci/run",
        ".ci/setup",
    ] {
        assert!(Path::new(&root().join(name)).exists(), "{name} is missing");
    }
}
