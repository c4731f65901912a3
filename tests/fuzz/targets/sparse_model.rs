//! The run folder of a sparse model: its `settings.toml` and a part of its weights.

use std::fs;

use phalanx::comm::threads_of_one_rank;
use phalanx::commands::inspect::{self, Settings};
use phalanx::data::rows::RowSet;
use phalanx::data::text::{Format, Import, import};
use phalanx::sparse::{Model, Served};

use super::{Place, Target, join, parts};

pub const TARGET: Target = Target {
    name: "sparse_model",
    seeds,
    run,
};

const WRITTEN: &str = "[resolved]\ndata = \"sparse-rows\"\n";

/// A set of rows beside the run, which `settings.toml` names.
fn rows(place: &Place) {
    let lines = place.put("numbered.svm", b"1 1:1 3:2\n0 2:1\n");
    let asked = Import {
        inputs: vec![lines],
        out: place.path("sparse-rows"),
        format: Format::Libsvm {
            features: Some(4),
            base: Some(1),
        },
        like: None,
        names: false,
        shard_size: 1 << 20,
        skip_bad: false,
        force: true,
    };
    import(&threads_of_one_rank(1)[0], &asked).expect("a small set");
}

fn seeds(place: &Place) -> Vec<Vec<u8>> {
    rows(place);
    let set = RowSet::open(&place.path("sparse-rows")).expect("a small set");
    let comm = &threads_of_one_rank(1)[0];
    let weights = [0.5, 0.0, -1.0, 2.0, 0.25];
    Model::save(comm, Some(&place.path("seed-model")), &set, &weights).expect("a small model");
    let part = place.get("seed-model/part-00000.h5");
    vec![join(&[WRITTEN.as_bytes(), &part])]
}

fn run(place: &Place, input: &[u8]) {
    let set = place.path("sparse-rows");
    if !set.exists() {
        rows(place);
    }
    let [written, part] = parts(input);
    place.put("run/settings.toml", written);
    let part = place.put("run/model/part-00000.h5", part);
    let run = place.path("run");
    let show = |json| {
        inspect::run(&Settings {
            run: run.clone(),
            top: 3,
            data: None,
            json,
        })
    };
    let _ = (show(false), show(true));
    let folder = part.parent().expect("it is in a folder");
    // A model of all features there can be takes what memory that takes: only the small ones are put to use.
    let small = |model: &Model| model.features < 1 << 20;
    if let Ok(model) = Model::load(folder)
        && small(&model)
        && fs::metadata(&set).is_ok()
    {
        let served = Served::new(&threads_of_one_rank(1)[0], &model).expect("little memory");
        let set = RowSet::open(&set).expect("it was made here");
        let _ = served.logits(&set, 0..set.len(), &mut Default::default());
    }
}
