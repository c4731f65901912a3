//! Binary files of CIFAR-10.

use phalanx::data::cifar::import;

use super::{Place, Target};

pub const TARGET: Target = Target {
    name: "cifar",
    seeds,
    run,
};

/// Bytes of a label and an image.
const RECORD: usize = 1 + 3 * 32 * 32;

fn seeds(_: &Place) -> Vec<Vec<u8>> {
    let record = |label: u8| {
        let mut record = vec![label; RECORD];
        record[1..].fill(100 + label);
        record
    };
    vec![record(3), [record(0), record(9)].concat()]
}

fn run(place: &Place, input: &[u8]) {
    // Nearly any change of length is refused: the last record is filled up for half of the inputs.
    let mut bytes = input.to_vec();
    if input.first().is_some_and(|first| first % 2 == 0) {
        bytes.resize(input.len().next_multiple_of(RECORD), 0);
    }
    let file = place.put("batch.bin", &bytes);
    let _ = import(&[file], &place.path("cifar.h5"), 1, true);
}
