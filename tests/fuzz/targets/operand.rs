//! What names a matrix on the command line: a formula with its size, or a file and a data set in it.

use ndarray::Array2;
use phalanx::linalg::Source;

use super::{Place, Target, fixture};

pub const TARGET: Target = Target {
    name: "operand",
    seeds,
    run,
};

fn seeds(_: &Place) -> Vec<Vec<u8>> {
    let texts = [
        "random:normal 3 4",
        "hilbert 1000000 5",
        "hadamard 8 8",
        "file.h5:/labels",
        "file.h5",
        "file.h5:/images/x 2 2",
    ];
    texts.map(|text| text.as_bytes().to_vec()).into()
}

fn run(place: &Place, input: &[u8]) {
    if !place.path("file.h5").exists() {
        place.put("file.h5", &fixture("contiguous.h5"));
    }
    let text = String::from_utf8_lossy(input);
    let mut words = text.split(' ');
    let name = words.next().unwrap_or_default();
    let mut number = || words.next().and_then(|word| word.parse().ok());
    let Ok(source) = Source::open(name, (number(), number()), 7) else {
        return;
    };
    let (h, w) = (source.rows().min(3), source.cols().min(70));
    let mut out = Array2::<f64>::zeros((h, w));
    let (rows, cols) = (source.rows(), source.cols());
    let _ = source.read(rows - h..rows, cols - w..cols, out.view_mut());
}
