//! A rank that is killed.

use std::fs;
use std::time::Duration;

use crate::job::{begins, folder};
use crate::launch::{children, none_left, phalanx, signal, start, wait};

/// Jobs by name.
pub const JOBS: [(&str, fn()); 1] = [(
    "a killed rank ends the job and leaves whole files",
    killed_rank,
)];

fn killed_rank() {
    let folder = folder();
    for exchange in ["node-shared", "all-reduce", "one-sided"] {
        let mut command = phalanx(3, folder.path());
        let words = format!(
            "train softmax train.h5 --test test.h5 --epochs 1000000 --exchange {exchange} --out {exchange}"
        );
        command.args(words.split_whitespace());
        let child = start(command);
        begins(&folder.path().join(exchange));
        let ranks = children(child.id());
        assert_eq!(ranks.len(), 3, "mpirun has three ranks");
        signal("KILL", ranks[1]);
        let ended = wait(child, Duration::from_secs(20));
        assert!(
            ended.time < Duration::from_secs(5),
            "{exchange}: gone after {:?}",
            ended.time
        );
        assert!(
            ended.code.is_some_and(|code| code != 0),
            "{exchange}: exit code {:?}",
            ended.code
        );
        none_left(&ranks);
        let text = fs::read_to_string(folder.path().join(exchange).join("metrics.csv")).unwrap();
        let columns = |line: &str| line.matches(',').count();
        assert!(
            text.ends_with('\n') && text.lines().all(|line| columns(line) == 11),
            "whole rows only"
        );
        let names: Vec<String> = fs::read_dir(folder.path().join(exchange))
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        let expected = [
            "settings.toml",
            "metrics.csv",
            "rank-00000",
            "rank-00001",
            "rank-00002",
        ];
        assert!(
            names.iter().all(|name| expected.contains(&name.as_str())),
            "{names:?}"
        );
    }
}
