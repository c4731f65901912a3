//! TensorFlow's record files: as they are, and as one record whose checksums fit, as somebody would write who means harm.

use phalanx::data::Shape;
use phalanx::data::examples::{Example, Feature, Import, import};
use phalanx::data::photos::Fit;
use phalanx::tfrecord;

use super::{Place, Target, fixture};

pub const TARGET: Target = Target {
    name: "examples",
    seeds,
    run,
};

fn seeds(_: &Place) -> Vec<Vec<u8>> {
    let example = Example::of([
        ("image/encoded", Feature::bytes(&[7; 12])),
        ("image/class/label", Feature::integer(3)),
    ]);
    vec![fixture("examples.tfrecord"), example.to_bytes()]
}

fn run(place: &Place, input: &[u8]) {
    let mut record = Vec::new();
    tfrecord::write(&mut record, input).expect("memory takes it");
    for (bytes, raw) in [(input, false), (&record[..], true)] {
        let asked = Import {
            files: vec![place.put("x.tfrecord", bytes)],
            out: place.path("examples.h5"),
            image: "image/encoded".into(),
            label: "image/class/label".into(),
            first: 0,
            shape: Shape { c: 3, h: 2, w: 2 },
            fit: Fit::Crop,
            raw,
            classes: None,
            shards: 1,
            force: true,
        };
        let _ = import(&asked);
    }
}
