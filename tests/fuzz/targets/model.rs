//! `model.h5` of a run folder.

use phalanx::data::photos::Fit;
use phalanx::data::{Origin, Scaling, Shape};
use phalanx::nn::{Init, Spec, load, save};

use super::{Place, Target};

pub const TARGET: Target = Target {
    name: "model",
    seeds,
    run,
};

const SMALL: &str = "name = \"small\"
[[layer]]
kind = \"conv2d\"
outputs = 2
kernel = 3
[[layer]]
kind = \"batch_norm\"
[[layer]]
kind = \"linear\"
";

fn seeds(place: &Place) -> Vec<Vec<u8>> {
    let shape = Shape { c: 1, h: 5, w: 5 };
    let spec = Spec::parse(SMALL).expect("a model");
    let model = spec.build(shape, 3).expect("it fits");
    let params = model.init(Init::default(), 1);
    let path = place.path("seed-model.h5");
    let origin = Origin {
        class_names: ["fig", "kiwi", "plum"].map(Into::into).into(),
        fit: Some(Fit::Pad),
    };
    save(&path, &model, &params, (&Scaling::unit(1), &origin)).expect("a small model");
    vec![place.get("seed-model.h5")]
}

fn run(place: &Place, input: &[u8]) {
    let _ = load(&place.put("model.h5", input));
}
