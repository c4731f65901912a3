//! What a user may type: an argument a line.

use phalanx::cli::command;

use super::{Place, Target};

pub const TARGET: Target = Target {
    name: "command_line",
    seeds,
    run,
};

/// Commands with most of their options, as one types them.
const TYPED: [&str; 10] = [
    "train softmax a.h5 --test b.h5 --epochs 3 --lr 0.5 --optimizer momentum --schedule step --decay-every 2 --decay-factor 0.5",
    "train lenet a.h5 --batch 10 --exchange one-sided --staleness 3 --lr-by-staleness --record --seed 7 --stall-timeout 10",
    "train mlp a.h5 --global-batch 64 --reproducible --virtual-shards 8 --clip-norm 5 --augment tilt=10,crop=0.7 --validation 0.1",
    "train alexnet a.h5 --aggregate 3-of-4 --inject slow:1:2.5 --device cpu --grow-batch schedule --init he --time-limit 3",
    "train sparse a --test b --optimizer ftrl --l1 0.1 --l2 1e-3 --exchange owners --positive-weight 2",
    "data import csv a.csv b --separator tab --label 3 --numeric-columns 1,2 --drop 4 --shard-size 16MiB --bits 20",
    "data make digits a.h5 --samples 20 --first 3 --shards 2 --side 12",
    "matmul --a random:normal --b hilbert --n 20 --alpha 2 --beta 0.5 --c c.h5 --plan --ranks 4 --memory 1GiB",
    "trace --a x.h5:/t --b lehmer --power 3 --via product --n 20",
    "bench train --model softmax --batch 100 --seconds 2",
];

fn seeds(_: &Place) -> Vec<Vec<u8>> {
    let lines = |typed: &str| typed.replace(' ', "\n").into_bytes();
    TYPED.iter().map(|typed| lines(typed)).collect()
}

fn run(_: &Place, input: &[u8]) {
    let text = String::from_utf8_lossy(input);
    let arguments: Vec<String> = text.split('\n').map(str::to_owned).collect();
    let _ = command(&arguments);
}
