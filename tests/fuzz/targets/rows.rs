//! Sets of sparse rows, and imports that take over how one was made.

use phalanx::comm::threads_of_one_rank;
use phalanx::data::rows::{RowSet, describe};
use phalanx::data::text::{Format, Import, import};

use super::{Place, Target};

pub const TARGET: Target = Target {
    name: "rows",
    seeds,
    run,
};

const LINES: &str = "1 |user age:3 new |page news\n-1 |user age:5 age\n1 |page sport news\n";

fn vw(place: &Place, like: Option<&str>, out: &str, names: bool) -> Import {
    Import {
        inputs: vec![place.put("lines.vw", LINES.as_bytes())],
        out: place.path(out),
        format: Format::Vw { features: 1000 },
        like: like.map(|set| place.path(set)),
        names,
        shard_size: 1 << 20,
        skip_bad: false,
        force: true,
    }
}

fn seeds(place: &Place) -> Vec<Vec<u8>> {
    let comm = &threads_of_one_rank(1)[0];
    let made = |names: bool| {
        import(comm, &vw(place, None, "seed", names)).expect("a small set");
        place.get("seed/shard-00000.h5")
    };
    vec![made(false), made(true)]
}

fn run(place: &Place, input: &[u8]) {
    let path = place.put("rows/shard.h5", input);
    if let Ok(set) = RowSet::open(&path) {
        let _ = describe(&set);
        let _ = set.names();
        let last = set.len() - 1;
        let _ = (set.row(last), set.rows(0..set.len()).count());
    }
    let comm = &threads_of_one_rank(1)[0];
    let _ = import(comm, &vw(place, Some("rows"), "like", false));
    place.remove("like");
}
