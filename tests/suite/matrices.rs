//! Matrices in files: of every kind that HDF5 has, and what is said of those that are none.

use std::fs;
use std::path::Path;

use hdf5::types::VarLenUnicode;
use hdf5::{File, H5Type};
use ndarray::{Array2, s};
use phalanx::Error;
use phalanx::linalg::{Precision, Real, Source};

const ANY: (Option<usize>, Option<usize>) = (None, None);

/// Small integers, so that every type can hold them.
fn value(i: usize, j: usize) -> u8 {
    ((i * 31 + j * 7) % 120) as u8
}

fn numbers<T: H5Type + From<u8>>(rows: usize, cols: usize) -> Array2<T> {
    Array2::from_shape_fn((rows, cols), |(i, j)| T::from(value(i, j)))
}

/// Reads the matrix in tiles, each into the middle of a larger array, and compares it.
fn is_as_made<T: Real>(source: &Source) {
    let (rows, cols) = (source.rows(), source.cols());
    for (tall, wide) in [(rows, cols), (7, 5), (1, cols), (rows, 1)] {
        let mut place = Array2::<T>::zeros((tall, wide + 3));
        for top in (0..rows).step_by(tall) {
            for left in (0..cols).step_by(wide) {
                let (bottom, right) = (rows.min(top + tall), cols.min(left + wide));
                let (h, w) = (bottom - top, right - left);
                let block = place.slice_mut(s![..h, 2..2 + w]);
                source.read(top..bottom, left..right, block).unwrap();
                let block = place.slice(s![..h, 2..2 + w]);
                for ((i, j), got) in block.indexed_iter() {
                    assert_eq!(
                        got.wide(),
                        f64::from(value(top + i, left + j)),
                        "{source:?}"
                    );
                }
                assert_eq!(place[[0, wide + 2]].wide(), 0.0);
            }
        }
    }
}

fn open(path: &Path, table: &str) -> Result<Source, Error> {
    Source::open(&format!("{}:{table}", path.display()), ANY, 0)
}

/// Puts `values` into the file, in chunks if so. Builders hold a file open, so none is left behind.
fn put<T: H5Type>(file: &File, name: &str, values: &Array2<T>, chunk: Option<(usize, usize)>) {
    let builder = file.new_dataset_builder().with_data(values);
    let made = match chunk {
        Some(chunk) => builder.chunk(chunk).shuffle().deflate(6).create(name),
        None => builder.no_chunk().create(name),
    };
    made.unwrap();
}

fn add<T: H5Type + From<u8>>(file: &File, name: &str) {
    put(file, name, &numbers::<T>(60, 41), None);
}

#[test]
fn floats_and_integers_of_every_size_are_matrices() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.h5");
    let file = File::create(&path).unwrap();
    add::<f32>(&file, "f32");
    add::<f64>(&file, "f64");
    add::<u8>(&file, "u8");
    add::<u16>(&file, "u16");
    add::<u32>(&file, "u32");
    add::<u64>(&file, "u64");
    add::<i16>(&file, "i16");
    add::<i32>(&file, "i32");
    add::<i64>(&file, "i64");
    let signed = numbers::<u8>(60, 41).mapv(|value| value as i8);
    put(&file, "i8", &signed, None);
    file.close().unwrap();
    for (name, precision) in [
        ("f32", Precision::Single),
        ("f64", Precision::Double),
        ("u8", Precision::Double),
        ("u16", Precision::Double),
        ("u32", Precision::Double),
        ("u64", Precision::Double),
        ("i8", Precision::Double),
        ("i16", Precision::Double),
        ("i32", Precision::Double),
        ("i64", Precision::Double),
    ] {
        let source = open(&path, &format!("/{name}")).unwrap();
        assert_eq!((source.rows(), source.cols()), (60, 41));
        assert_eq!(source.precision(), Some(precision), "{name}");
        assert!(source.is_file());
        is_as_made::<f32>(&source);
        is_as_made::<f64>(&source);
    }
}

#[test]
fn chunked_compressed_grouped_and_one_dimensional_ones_are_matrices() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.h5");
    let file = File::create(&path).unwrap();
    let all = numbers::<f64>(60, 41);
    let chunked = file.new_dataset::<f64>().chunk((8, 16)).shape((60, 41));
    chunked.create("chunked").unwrap().write(&all).unwrap();
    drop(chunked);
    put(&file, "deep/er/packed", &all, Some((16, 9)));
    let column = file.new_dataset::<f32>().shape(60);
    let values: Vec<f32> = (0..60).map(|i| value(i, 0).into()).collect();
    column.create("column").unwrap().write_raw(&values).unwrap();
    drop(column);
    file.close().unwrap();
    for (name, cols) in [
        ("/chunked", 41),
        ("/deep/er/packed", 41),
        ("/column", 1),
        ("chunked", 41),
    ] {
        let source = open(&path, name).unwrap();
        assert_eq!((source.rows(), source.cols()), (60, cols));
        is_as_made::<f32>(&source);
        is_as_made::<f64>(&source);
    }
    let several = Source::open(path.to_str().unwrap(), ANY, 0).unwrap_err();
    let says = "has 2 matrices: /chunked, /deep/er/packed";
    assert!(several.to_string().ends_with(says), "{several}");
}

#[test]
fn numbers_of_the_other_byte_order_are_read() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.h5");
    let file = File::create(&path).unwrap();
    let swapped = numbers::<f64>(60, 41).mapv(|value| f64::from_bits(value.to_bits().swap_bytes()));
    put(&file, "a", &swapped, None);
    file.close().unwrap();
    // How HDF5 describes a 64-bit float: its class, then the byte order in the lowest bit.
    let little = [0x11, 0x20, 0x3f, 0, 8, 0, 0, 0];
    let mut bytes = fs::read(&path).unwrap();
    let at = bytes.windows(8).position(|part| part == little).unwrap();
    bytes[at + 1] ^= 1;
    fs::write(&path, bytes).unwrap();
    is_as_made::<f64>(&Source::open(path.to_str().unwrap(), ANY, 0).unwrap());
}

#[test]
fn what_is_no_matrix_is_refused_in_words_that_help() {
    #[derive(H5Type, Clone)]
    #[repr(C)]
    struct Point {
        x: f64,
        y: f64,
    }
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name).display().to_string();
    let file = File::create(at("a.h5")).unwrap();
    add::<f32>(&file, "group/good");
    add::<f64>(&file, "better");
    let text: VarLenUnicode = "text".parse().unwrap();
    let make = |name: &str, shape: &[usize]| {
        let empty = file.new_dataset::<f64>().no_chunk().shape(shape);
        empty.create(name).unwrap();
    };
    make("cube", &[2, 3, 4]);
    make("number", &[]);
    make("empty", &[0, 4]);
    make("unwritten", &[1000, 1000]);
    let words = Array2::from_elem((2, 2), text);
    put(&file, "words", &words, None);
    let points = Array2::from_elem((2, 2), Point { x: 0.0, y: 1.0 });
    put(&file, "points", &points, None);
    let flags = Array2::from_elem((2, 2), true);
    put(&file, "flags", &flags, None);
    file.close().unwrap();
    let file = File::create(at("none.h5")).unwrap();
    let column = file.new_dataset::<f64>().shape(2);
    column
        .create("column")
        .unwrap()
        .write_raw(&[1.0, 2.0])
        .unwrap();
    drop(column);
    file.close().unwrap();
    fs::write(at("text.h5"), "these are no numbers").unwrap();
    fs::create_dir(at("folder")).unwrap();
    let whole = fs::read(at("a.h5")).unwrap();
    fs::write(at("cut.h5"), &whole[..whole.len() / 2]).unwrap();
    let both = (Some(60), Some(41));
    for (text, shape, says) in [
        (
            "a.h5:/gone",
            ANY,
            "has no data set `/gone` (it has: /better, /cube, /empty, /flags, /group/good,",
        ),
        ("a.h5:/cube", ANY, "`/cube` has 3 dimensions: [2, 3, 4]"),
        ("a.h5:/number", ANY, "`/number` has 0 dimensions"),
        ("a.h5:/empty", ANY, "`/empty` is empty: 0 × 4"),
        ("a.h5:/unwritten", ANY, "`/unwritten` was never written"),
        ("a.h5:/words", ANY, "its cells are unicode"),
        ("a.h5:/points", ANY, "its cells are compound (2 fields)"),
        ("a.h5:/flags", ANY, "its cells are bool"),
        ("a.h5:/better", (Some(61), None), "rows of"),
        ("a.h5:/better", (None, Some(40)), "expected 40, got 41"),
        (
            "none.h5",
            both,
            "has no data set of two dimensions (it has: /column)",
        ),
        ("text.h5", both, "a matrix is a data set of an HDF5 file"),
        ("cut.h5:/better", both, "damaged or cut short"),
        ("missing.h5:/a", both, "missing.h5: No such file"),
        ("missing.h5", both, "missing.h5: No such file"),
        ("folder", both, "is a folder without matrix.h5"),
    ] {
        let error = Source::open(&at(text), shape, 0).unwrap_err();
        assert!(error.report().contains(says), "{}", error.report());
    }
    open(Path::new(&at("a.h5")), "/better").unwrap();
    for text in ["hilbrt", "random:norml"] {
        let error = Source::open(text, both, 0).unwrap_err();
        let says =
            "formulas are random:normal, random:uniform, random:sign, identity, ones, hilbert,";
        assert!(error.to_string().contains(says), "{error}");
        assert_eq!(error.exit_code(), 2);
    }
}

#[test]
fn a_number_that_is_not_finite_is_named_with_its_place() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.h5");
    let file = File::create(&path).unwrap();
    let mut all = numbers::<f64>(60, 41);
    for (name, odd) in [
        ("nan", f64::NAN),
        ("inf", f64::NEG_INFINITY),
        ("large", 1e300),
    ] {
        all[[50, 40]] = odd;
        put(&file, name, &all, None);
        put(&file, &format!("{name}_chunked"), &all, Some((8, 8)));
    }
    file.close().unwrap();
    for (name, says) in [
        ("nan", "has NaN in row 50, column 40 (both from 0)"),
        ("inf", "has -inf in row 50, column 40 (both from 0)"),
        (
            "large",
            "has 1e300 in row 50, column 40 (both from 0), more than f32 can hold",
        ),
    ] {
        for name in [name.to_string(), format!("{name}_chunked")] {
            let source = open(&path, &name).unwrap();
            let mut block = Array2::<f32>::zeros((20, 11));
            let error = source.read(40..60, 30..41, block.view_mut()).unwrap_err();
            assert!(error.to_string().contains(says), "{error}");
            assert!(error.to_string().contains(&name), "{error}");
            source.read(0..20, 30..41, block.view_mut()).unwrap();
        }
    }
    let mut block = Array2::<f64>::zeros((60, 41));
    open(&path, "large")
        .unwrap()
        .read(0..60, 0..41, block.view_mut())
        .unwrap();
    assert_eq!(block[[50, 40]], 1e300);
}

#[test]
fn threads_of_a_rank_may_read_at_the_same_time() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.h5");
    let file = File::create(&path).unwrap();
    add::<f64>(&file, "plain");
    put(&file, "packed", &numbers::<f64>(60, 41), Some((16, 9)));
    file.close().unwrap();
    let sources = ["plain", "packed"].map(|name| open(&path, name).unwrap());
    std::thread::scope(|scope| {
        for source in sources.iter().cycle().take(6) {
            scope.spawn(|| is_as_made::<f64>(source));
        }
    });
}

#[test]
fn a_matrix_that_another_program_joined_of_several_files_is_read() {
    let folder = tempfile::tempdir().unwrap();
    let all = numbers::<f64>(60, 41);
    for (name, rows) in [("top.h5", 0..25), ("bottom.h5", 25..60)] {
        let file = File::create(folder.path().join(name)).unwrap();
        put(&file, "rows", &all.slice(s![rows, ..]).to_owned(), None);
    }
    let path = folder.path().join("a.h5");
    let file = File::create(&path).unwrap();
    file.new_dataset::<f64>()
        .virtual_map("top.h5", "rows", [25, 41], .., [60, 41], (0..25, 0..41))
        .virtual_map("bottom.h5", "rows", [35, 41], .., [60, 41], (25..60, 0..41))
        .shape((60, 41))
        .create("joined")
        .unwrap();
    file.close().unwrap();
    is_as_made::<f64>(&Source::open(path.to_str().unwrap(), ANY, 0).unwrap());
}
