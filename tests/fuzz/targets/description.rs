//! Models in TOML, and what is made of them for images of some shapes.

use phalanx::commands::model::{Settings, run as show};
use phalanx::data::Shape;
use phalanx::nn::zoo::Choice;

use super::{Place, Target};

pub const TARGET: Target = Target {
    name: "description",
    seeds,
    run,
};

const DEEP: &str = r#"name = "deep"
[[layer]]
kind = "conv2d"
outputs = 8
kernel = 3
stride = 2
pad = 1
[[layer]]
kind = "batch_norm"
momentum = 0.2
eps = 1e-4
across_ranks = true
[[layer]]
kind = "relu"
[[layer]]
kind = "local_response"
size = 3
alpha = 0.001
beta = 0.5
k = 1.0
[[layer]]
kind = "max_pool"
kernel = 2
stride = 2
pad = 1
[[layer]]
kind = "dropout"
rate = 0.5
[[layer]]
kind = "linear"
zero = true
"#;

const FLAT: &str = r#"name = "flat"
[[layer]]
kind = "average_pool"
kernel = 2
[[layer]]
kind = "tanh"
[[layer]]
kind = "global_average_pool"
[[layer]]
kind = "flatten"
[[layer]]
kind = "linear"
outputs = 10
"#;

fn seeds(_: &Place) -> Vec<Vec<u8>> {
    [DEEP, FLAT].map(|text| text.as_bytes().to_vec()).into()
}

fn run(place: &Place, input: &[u8]) {
    let path = place.put("model.toml", input);
    for (c, h, w) in [(1, 28, 28), (3, 1, 5)] {
        let _ = show(&Settings {
            model: Choice::File(path.clone()),
            input: Shape { c, h, w },
            classes: 10,
            batch: 100,
        });
    }
}
