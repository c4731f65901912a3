//! What ranks write while they run, and runs that go on and `phalanx top` read again: event files, resources, signs of life.

use std::sync::Arc;

use phalanx::observe::resources::{Pulse, Records, Sampler, Who};
use phalanx::observe::tensorboard::EventFile;
use phalanx::observe::top::{Now, Seen, State};

use super::{Place, Target, join, parts};

pub const TARGET: Target = Target {
    name: "rank_folder",
    seeds,
    run,
};

const FOLDER: &str = "watched/rank-00000";

fn seeds(place: &Place) -> Vec<Vec<u8>> {
    place.put("watched/settings.toml", b"");
    place.remove(FOLDER);
    let folder = place.path(FOLDER);
    let mut file = EventFile::create(&folder).expect("an event file");
    for step in 1..4 {
        file.scalars(step, [("loss", 0.5)]).expect("an event");
    }
    file.flush().expect("events");
    drop(file);
    let mut names = std::fs::read_dir(&folder).expect("a folder");
    let name = names.next().expect("an event file").expect("a name");
    let events = std::fs::read(name.path()).expect("events");
    let resources = b"seconds,rank,phase,step\n1.0,0,load,2\n2.0,0,compute,9\n";
    let now = Now {
        rank: 0,
        ranks: 1,
        host: "node".into(),
        pid: 1,
        time: 1.0,
        state: State::Running,
        seconds: 1.0,
        step: 3,
        total: 9,
        epoch: 0.5,
        phase: "load".into(),
        loss: Some(0.5),
        samples: 30,
        samples_per_s: 30.0,
        cpu_percent: 99.0,
        resident_mb: 10.0,
        compute_percent: 90.0,
        exchange_percent: 1.0,
        wait_percent: 1.0,
        load_percent: 1.0,
    };
    let now = serde_json::to_vec(&now).expect("plain values");
    vec![join(&[&now, resources, b"\n\n\n\n\n\n1,2,3\n", &events])]
}

fn run(place: &Place, input: &[u8]) {
    let [now, resources, dstat, events] = parts(input);
    let put = |name: &str, bytes: &[u8]| place.put(&format!("{FOLDER}/{name}"), bytes);
    place.put("watched/settings.toml", b"");
    place.remove(FOLDER);
    put("now.json", now);
    put("resources.csv", resources);
    put("dstat.csv", dstat);
    put("events.out.tfevents.1.node.1", events);
    if let Ok(seen) = Seen::look(&place.path("watched")) {
        let _ = seen.table();
    }
    let folder = place.path(FOLDER);
    if let Ok((mut file, _)) = EventFile::resume(&folder, 2) {
        file.scalars(3, [("loss", 0.5)]).expect("an event");
    }
    let who = Who {
        rank: 0,
        ranks: 1,
        is_first: true,
        folder,
        gpu: None,
    };
    let pulse = Arc::new(Pulse::default());
    Sampler::open(Records::Dstat, who, pulse, Some((5, 1.5)));
}
