//! Matrices: an HDF5 file of any kind, and the folder that ranks write together.

use ndarray::{Array2, ArrayView2};
use phalanx::comm::threads_of_one_rank;
use phalanx::linalg::{Output, Source};

use super::{Place, Target, fixture, join, parts};

pub const TARGET: Target = Target {
    name: "matrix",
    seeds,
    run,
};

fn seeds(place: &Place) -> Vec<Vec<u8>> {
    let comm = &threads_of_one_rank(1)[0];
    let numbers = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0];
    let (left, right) = (&numbers[..3], &numbers[3..]);
    let mut output = Output::create(comm, &place.path("seed"), (3, 2), true).expect("a folder");
    for (col, part) in [left, right].into_iter().enumerate() {
        let block = ArrayView2::from_shape((3, 1), part).expect("three rows");
        output.write(0, col, block).expect("a block");
    }
    output.finish(comm).expect("a small matrix");
    let folder = ["matrix.h5", "blocks-00000.h5"].map(|name| place.get(&format!("seed/{name}")));
    let folder = join(&[&folder[0], &folder[1]]);
    let names = ["contiguous.h5", "chunked.h5", "big_endian.h5"];
    std::iter::once(folder)
        .chain(names.map(fixture))
        .chain([place.get("seed/blocks-00000.h5")])
        .collect()
}

/// Reads two corners of a matrix, of which one may be all of it.
fn read(text: &str) {
    let Ok(source) = Source::open(text, (None, None), 1) else {
        return;
    };
    let (rows, cols) = (source.rows(), source.cols());
    let (h, w) = (rows.min(5), cols.min(5));
    let mut out = Array2::<f64>::zeros((h, w));
    let _ = source.read(0..h, 0..w, out.view_mut());
    let mut out = Array2::<f32>::zeros((h, w));
    let _ = source.read(rows - h..rows, cols - w..cols, out.view_mut());
}

fn run(place: &Place, input: &[u8]) {
    let [first, second] = parts(input);
    place.put("matrix/matrix.h5", first);
    place.put("matrix/blocks-00000.h5", second);
    read("matrix");
    read("matrix/matrix.h5");
    read("matrix/matrix.h5:/labels");
}
