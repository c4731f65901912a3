//! Data sets of images: HDF5 files that anybody may have written.

use image::{ImageFormat, RgbImage};
use phalanx::comm::threads_of_one_rank;
use phalanx::data::describe::describe;
use phalanx::data::photos::{Pack, Records, pack};
use phalanx::data::synthetic::{Amount, Kind, make};
use phalanx::data::{Dataset, Scaling, Shape};

use super::{Place, Target, fixture};

pub const TARGET: Target = Target {
    name: "images",
    seeds,
    run,
};

fn seeds(place: &Place) -> Vec<Vec<u8>> {
    let amount = Amount {
        samples: 4,
        seed: 1,
        first: 0,
        shards: 1,
        force: true,
    };
    let shape = Shape { c: 2, h: 3, w: 4 };
    let kind = Kind::Images { shape, classes: 3 };
    make(kind, amount, &place.path("seed.h5")).expect("a small set");
    let mut all = vec![place.get("seed.h5")];
    let names = ["contiguous.h5", "chunked.h5", "floats.h5", "big_endian.h5"];
    all.extend(names.map(fixture));
    all.push(encoded(place));
    all
}

/// A set that holds two photos as JPEG files.
fn encoded(place: &Place) -> Vec<u8> {
    for i in 0..2 {
        let image = RgbImage::from_pixel(8, 6, image::Rgb([90 * i, 50, 7]));
        let mut bytes = std::io::Cursor::new(Vec::new());
        let written = image.write_to(&mut bytes, ImageFormat::Jpeg);
        written.expect("memory takes it");
        place.put(&format!("photos/{i}/x.jpg"), bytes.get_ref());
    }
    let asked = Pack {
        records: Records::Jpeg,
        force: true,
        ..Pack::new(
            place.path("photos"),
            place.path("packed"),
            Shape { c: 3, h: 4, w: 4 },
        )
    };
    pack(&threads_of_one_rank(1)[0], &asked).expect("two photos");
    place.get("packed/shard-00000.h5")
}

fn run(place: &Place, input: &[u8]) {
    let path = place.put("set.h5", input);
    let Ok(set) = Dataset::open(&path) else {
        return;
    };
    let _ = describe(&set);
    let scaling = set.normalization();
    let scaling = scaling.unwrap_or_else(|_| Scaling::unit(set.shape.c));
    let mut out = vec![0.0; set.shape.len()];
    for i in [0, set.len() / 2, set.len() - 1] {
        set.hint(i);
        set.prefetch(i);
        let _ = set.sample(i, &scaling, &mut out);
    }
}
