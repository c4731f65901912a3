//! Texts in HDF5 files, which are read without HDF5's library.

use hdf5::types::VarLenUnicode;
use phalanx::h5;

use super::{Place, Target, fixture};

pub const TARGET: Target = Target {
    name: "attribute",
    seeds,
    run,
};

const NAMES: [&str; 4] = ["class_names", "provenance", "text", "long"];

fn seeds(place: &Place) -> Vec<Vec<u8>> {
    let written = |latest: bool| {
        let mut builder = hdf5::FileBuilder::new();
        if latest {
            builder.with_fapl(|access| access.libver_latest());
        }
        let path = place.path("texts.h5");
        let file = builder.create(path).expect("a file");
        for (name, times) in [("text", 1), ("long", 50)] {
            let text: VarLenUnicode = "word ".repeat(times).parse().expect("a text");
            let attribute = file.new_attr::<VarLenUnicode>().create(name);
            let attribute = attribute.expect("an attribute");
            attribute.write_scalar(&text).expect("a text");
        }
        drop(file);
        place.get("texts.h5")
    };
    vec![written(false), written(true), fixture("contiguous.h5")]
}

fn run(place: &Place, input: &[u8]) {
    let path = place.put("texts.h5", input);
    for name in NAMES {
        let _ = h5::text(&path, name);
    }
}
