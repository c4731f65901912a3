//! The program as a user types it, on one rank and without a launcher.

use std::fs;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

fn phalanx(folder: &Path, words: &str) -> Output {
    Command::new(env!("CARGO_BIN_EXE_phalanx"))
        .args(words.split_whitespace())
        .current_dir(folder)
        .output()
        .unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[test]
fn help_names_every_command_and_option_with_its_default() {
    let folder = tempfile::tempdir().unwrap();
    let help = |words: &str| {
        let output = phalanx(folder.path(), words);
        assert_eq!(output.status.code(), Some(0), "{words}");
        text(&output.stdout)
    };
    let all = help("--help");
    for word in [
        "train",
        "eval",
        "data",
        "bench",
        "doctor",
        "trace",
        "top",
        "report",
        "plot",
        "--quiet",
        "Exit codes",
    ] {
        assert!(all.contains(word), "{all}");
    }
    let train = help("train --help");
    let options = "--test --epochs --steps --until-loss --batch --global-batch --threads --lr --reduce --seed --eval-every --out --force \
        --model-file --grow-batch --batch-limit --noise-scale --validation --on-nan --activation --response-norm --early-stop --keep-best --optimizer --momentum --trust --weight-decay --beta1 --beta2 --clip-norm --lr-per --schedule --decay-factor \
        --decay-epochs --decay-every --lr-floor --warmup-epochs --warmup-steps --stall-timeout --inject --trace --resources --tensorboard --json --quiet";
    for option in options.split_whitespace() {
        assert!(train.contains(option), "{option} in\n{train}");
    }
    assert!(
        train.contains("[default: 0.1, or 0.001 with adam and adamw]")
            && train.contains("[default: mean]"),
        "{train}"
    );
    let trace = help("trace --help");
    let options =
        "--a --b --n --rows --cols --power --via --type --seed --memory --reproducible --json";
    for option in options.split_whitespace() {
        assert!(trace.contains(option), "{option} in\n{trace}");
    }
    assert!(trace.contains("[default: 1GiB]"), "{trace}");
    assert_eq!(
        phalanx(folder.path(), "").status.code(),
        Some(2),
        "nothing typed is bad usage"
    );
    assert!(help("--version").starts_with("phalanx "));
}

#[test]
fn a_model_is_given_by_name_or_by_file() {
    let folder = tempfile::tempdir().unwrap();
    let net = "name = \"net\"\n[[layer]]\nkind = \"linear\"\n";
    fs::write(folder.path().join("net.toml"), net).unwrap();
    let run = |words: &str| {
        let output = phalanx(folder.path(), words);
        let all = text(&output.stdout) + &text(&output.stderr);
        (output.status.code().unwrap(), all)
    };
    run("data make digits set.h5 --samples 100");
    let good = [
        ("model show --model-file net.toml", "net for 10 classes"),
        ("model show lenet --activation tanh", "lenet-tanh for 10"),
        ("model show alexnet --response-norm", "local_response"),
        (
            "train --model-file net.toml set.h5 --epochs 1",
            "runs/net-001",
        ),
        (
            "train mlp set.h5 --activation tanh --steps 1",
            "runs/mlp-tanh-001",
        ),
        (
            "bench train --model-file net.toml --data set.h5 --seconds 0.1",
            "net.toml",
        ),
    ];
    for (words, fact) in good {
        let (code, output) = run(words);
        assert!(code == 0 && output.contains(fact), "{words}:\n{output}");
    }
    let bad = [
        ("train set.h5", "MODEL"),
        ("train net.toml set.h5", "--model-file net.toml"),
        (
            "train mlp set.h5 --model-file net.toml",
            "cannot be used with",
        ),
        (
            "train --model-file net.toml set.h5 --activation tanh",
            "write the layers into the file",
        ),
        (
            "model show softmax --activation tanh",
            "--activation is for mlp and lenet",
        ),
        (
            "bench train --model lenet --response-norm",
            "--response-norm is for alexnet",
        ),
    ];
    for (words, fact) in bad {
        let (code, output) = run(words);
        assert!(code == 2 && output.contains(fact), "{words}:\n{output}");
    }
}

#[test]
fn threads_are_asked_for_shown_and_written_down() {
    let folder = tempfile::tempdir().unwrap();
    let run = |words: &str| {
        let output = phalanx(folder.path(), words);
        let all = text(&output.stdout) + &text(&output.stderr);
        (output.status.code().unwrap(), all)
    };
    run("data make digits set.h5 --samples 100");
    let good = [
        (
            "train lenet set.h5 --threads 3 --steps 2 --out a",
            ", 3 threads each",
        ),
        ("eval a set.h5 --threads 2", "accuracy"),
        (
            "bench train --data set.h5 --threads 2 --seconds 0.1",
            "threads of a rank: 2;",
        ),
        (
            "bench train --data set.h5 --threads 2 --seconds 0.1 --json",
            "\"threads\":2",
        ),
    ];
    for (words, fact) in good {
        let (code, output) = run(words);
        assert!(code == 0 && output.contains(fact), "{words}:\n{output}");
    }
    let many = std::thread::available_parallelism().unwrap().get() + 1;
    let (code, output) = run(&format!("train softmax set.h5 --steps 2 --threads {many}"));
    let warning = format!("a rank has {many} threads and {} of the", many - 1);
    assert!(code == 0 && output.contains(&warning), "{output}");
    let settings = fs::read_to_string(folder.path().join("a/settings.toml")).unwrap();
    assert!(settings.contains("\nthreads = 3\n"), "{settings}");
    for (threads, fact) in [
        ("0", "at least 1"),
        ("1025", "at most 1024"),
        ("x", "whole number"),
    ] {
        let commands = ["train softmax set.h5", "eval a set.h5", "bench train"];
        for command in commands {
            let (code, output) = run(&format!("{command} --threads {threads}"));
            assert!(code == 2 && output.contains(fact), "{command}:\n{output}");
        }
    }
}

#[test]
fn faults_and_stall_timeouts_that_cannot_be_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let make = "data make digits set.h5 --samples 300";
    assert!(phalanx(folder.path(), make).status.success());
    let train = "train softmax set.h5 --steps 2";
    let cases = [
        (
            format!("{train} --stall-timeout 0.5"),
            "must be 0, or from 1 to",
        ),
        (
            format!("{train} --stall-timeout nan"),
            "must be 0, or from 1 to",
        ),
        (
            format!("{train} --stall-timeout soon"),
            "expected a number of seconds",
        ),
        (
            format!("{train} --inject slow:1:2"),
            "there is no rank 1 among 1",
        ),
        (
            format!("{train} --inject slow:0"),
            "expected slow:RANK:FACTOR",
        ),
        (format!("{train} --inject slow:0:0.1"), "the factor `0.1`"),
        (
            "bench train --inject stall:0:3".into(),
            "a bench would never end",
        ),
        (
            "bench train --inject slow:3:2".into(),
            "there is no rank 3 among 1",
        ),
    ];
    for (words, fact) in cases {
        let output = phalanx(folder.path(), &words);
        let all = text(&output.stdout) + &text(&output.stderr);
        let code = output.status.code();
        assert!(
            code == Some(2) && all.contains(fact),
            "{words}: {code:?}\n{all}"
        );
    }
    let bench = "bench train --data set.h5 --seconds 0.1 --inject slow:0:3";
    let output = phalanx(folder.path(), bench);
    assert!(output.status.success());
    assert!(text(&output.stdout).contains("with slow:0:3"));
}

#[test]
fn making_and_describing_a_set_tells_what_is_in_it() {
    let folder = tempfile::tempdir().unwrap();
    let made = phalanx(folder.path(), "data make digits set.h5 --samples 500");
    assert_eq!(
        text(&made.stdout),
        "set.h5: 500 samples of 1×28×28, 10 classes\n"
    );
    let shown = text(&phalanx(folder.path(), "data describe set.h5").stdout);
    for fact in [
        "500",
        "1×28×28",
        "u8",
        "mapped",
        "seed 1, samples 0 to 499",
        "xxh3:",
        "samples by class",
    ] {
        assert!(shown.contains(fact), "{fact} in\n{shown}");
    }
}

#[test]
fn an_interrupted_command_leaves_nothing_behind() {
    let commands = [
        ("INT", "data make digits set.h5 --samples 100000000"),
        ("TERM", "data make digits set.h5 --samples 100000000"),
        ("TERM", "data make clicks set --rows 100000000"),
    ];
    for (signal, words) in commands {
        let folder = tempfile::tempdir().unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_phalanx"));
        command
            .args(words.split_whitespace())
            .current_dir(folder.path());
        let child = command
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let begun = Instant::now();
        while fs::read_dir(folder.path()).unwrap().count() == 0 {
            assert!(begun.elapsed() < Duration::from_secs(20), "writing begins");
            std::thread::sleep(Duration::from_millis(10));
        }
        let kill = format!("kill -s {signal} {}", child.id());
        Command::new("sh").args(["-c", &kill]).status().unwrap();
        let output = child.wait_with_output().unwrap();
        assert_eq!(output.status.code(), Some(1));
        assert!(
            text(&output.stderr).contains("interrupted"),
            "{}",
            text(&output.stderr)
        );
        assert_eq!(
            fs::read_dir(folder.path()).unwrap().count(),
            0,
            "no file, whole or half"
        );
    }
}

#[test]
fn click_logs_are_made_with_as_many_features_as_asked_for() {
    let folder = tempfile::tempdir().unwrap();
    let run = |words: &str| {
        let output = phalanx(folder.path(), &format!("data make clicks {words}"));
        let all = text(&output.stdout) + &text(&output.stderr);
        (output.status.code().unwrap(), all)
    };
    let cases = [
        (
            "a --rows 100",
            0,
            "a: 100 rows of 33762578 features, best log loss 0.4",
        ),
        (
            "b --rows 100 --bits 10 --positives 0.5",
            0,
            "1024 features, best log loss 0.5",
        ),
        (
            "c --rows 100 --features 1000 --first 100",
            0,
            "1000 features",
        ),
        ("c --rows 100", 1, "c exists already"),
        ("d --bits 10 --features 1000", 2, "cannot be used with"),
        ("d --features 4294967297", 2, "must be at most 4294967296"),
        ("d --bits 33", 2, "33 is not in 0..=32"),
        ("d --positives 1", 2, "below 1"),
        (
            "d --first 18446744073709551615",
            2,
            "there are no 1000000 rows from number",
        ),
    ];
    for (words, code, fact) in cases {
        let (got, output) = run(words);
        assert!(
            got == code && output.contains(fact),
            "{words}: {got}\n{output}"
        );
    }
    assert!(!folder.path().join("d").exists());
}

#[test]
fn memory_does_not_grow_with_the_data_set() {
    let folder = tempfile::tempdir().unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_phalanx"));
    // 150 MB of pixels.
    command
        .args("data make images set.h5 --samples 1000 --shape 3x224x224 --classes 10".split(' '));
    let mut child = command
        .current_dir(folder.path())
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    let mut peak = 0;
    while child.try_wait().unwrap().is_none() {
        let status = fs::read_to_string(format!("/proc/{}/status", child.id())).unwrap_or_default();
        let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
        let kib = line.and_then(|rest| rest.split_whitespace().next()?.parse::<u64>().ok());
        peak = peak.max(kib.unwrap_or(0));
        std::thread::sleep(Duration::from_millis(5));
    }
    assert_eq!(
        fs::metadata(folder.path().join("set.h5")).unwrap().len() / 1_000_000,
        150
    );
    assert!((1_000..80_000).contains(&peak), "{peak} KiB at the peak");
}
