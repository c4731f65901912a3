//! Checkpoints: a manifest and a part, with checksums that are made to fit, as somebody would who means harm.

use phalanx::checkpoint::{Checkpoint, Keeper, Manifest, Snapshot, Store};
use phalanx::comm::threads_of_one_rank;
use serde_json::Value;
use xxhash_rust::xxh3::xxh3_64;

use super::{Place, Target, join, parts};

pub const TARGET: Target = Target {
    name: "checkpoint",
    seeds,
    run,
};

fn seeds(place: &Place) -> Vec<Vec<u8>> {
    let comm = &threads_of_one_rank(1)[0];
    let store = Store::of(&place.path("seed-run"));
    let mut keeper = Keeper::new(comm, store, 1, Vec::new()).expect("a thread");
    let manifest = Manifest {
        step: 7,
        kind: "dense".into(),
        score: Some(0.5),
        facts: [("seed".to_string(), "7".to_string())].into(),
        state: serde_json::json!({"run": {"evaluated": 1}}),
        parts: Vec::new(),
    };
    let fill = |snapshot: &mut Snapshot| {
        snapshot.common("parameters", 0, 9, 9).fill(0.5);
        snapshot.own("model_state", 2).fill(1.0);
        snapshot.note = "{}".into();
        Ok(())
    };
    let written = keeper.write(comm, manifest, fill, &mut || ());
    written.expect("a small checkpoint");
    let get = |name: &str| place.get(&format!("seed-run/checkpoints/step-000000007/{name}"));
    vec![join(&[&get("manifest.json"), &get("part-00000.h5")])]
}

/// The manifest, with the checksums of what it is beside; as it is where it is none.
fn signed(manifest: &[u8], part: &[u8]) -> Vec<u8> {
    let written: Option<Value> = serde_json::from_slice(manifest).ok();
    let inner =
        written.and_then(|written| serde_json::from_value(written["checkpoint"].clone()).ok());
    let Some(mut inner): Option<Manifest> = inner else {
        return manifest.to_vec();
    };
    if let Some(first) = inner.parts.first_mut() {
        first.bytes = part.len() as u64;
        first.xxh3 = format!("{:016x}", xxh3_64(part));
    }
    inner.step = 7;
    inner.text().into_bytes()
}

fn run(place: &Place, input: &[u8]) {
    let [manifest, part] = parts(input);
    let folder = "kept/checkpoints/step-000000007";
    place.put(&format!("{folder}/manifest.json"), &signed(manifest, part));
    place.put(&format!("{folder}/part-00000.h5"), part);
    let store = Store::of(&place.path("kept"));
    let Ok(found) = Checkpoint::open(&store, 7) else {
        return;
    };
    if found.verify(0..found.manifest.parts.len()).is_err() {
        return;
    }
    let names: Vec<String> = (found.manifest.parts.iter())
        .flat_map(|part| part.arrays.iter().map(|array| array.name.clone()))
        .collect();
    for name in &names {
        // As a rank would that has so many parameters.
        let mut values = [0.0; 9];
        let _ = found.read(name, 0..9, &mut values);
        let _ = (found.len(name), found.own(0, name));
    }
    let _ = found.note(0);
}
