//! IDX files of images and labels, plain and gzipped.

use phalanx::data::idx::{Options, import};

use super::{Place, Target, gzip, join, parts};

pub const TARGET: Target = Target {
    name: "idx",
    seeds,
    run,
};

fn file(dims: &[u32], body: &[u8]) -> Vec<u8> {
    let mut file = vec![0, 0, 8, dims.len() as u8];
    dims.iter().for_each(|dim| file.extend(dim.to_be_bytes()));
    file.extend(body);
    file
}

fn seeds(_: &Place) -> Vec<Vec<u8>> {
    let images = file(&[2, 2, 3], &[0, 50, 100, 150, 200, 250, 1, 2, 3, 4, 5, 6]);
    let colours = file(&[2, 3, 1, 2], &[9; 12]);
    let labels = file(&[2], &[1, 0]);
    vec![
        join(&[&images, &labels]),
        join(&[&gzip(&images), &gzip(&labels)]),
        join(&[&colours, &labels]),
    ]
}

fn run(place: &Place, input: &[u8]) {
    let [images, labels] = parts(input);
    let (images, labels) = (place.put("images", images), place.put("labels", labels));
    let options = Options {
        classes: None,
        shards: 1,
        force: true,
    };
    let _ = import(&images, &labels, &place.path("idx.h5"), options);
}
