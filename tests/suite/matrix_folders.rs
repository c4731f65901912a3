//! Matrices that ranks write together: whole under their name, or not there at all.

use std::fs;
use std::path::Path;
use std::process::Command;

use ndarray::{Array2, ArrayView2, s};
use phalanx::comm::{Comm, block, run_ranks};
use phalanx::linalg::{Output, Precision, Real, Source};
use phalanx::{Error, Result};

fn element(i: usize, j: usize) -> f64 {
    i as f64 * 1000.0 + j as f64
}

/// Writes a matrix in `across` stripes of columns, which ranks take in turns and cut into blocks of rows.
fn write<T: Real>(
    comm: &dyn Comm,
    out: &Path,
    shape: (usize, usize),
    across: usize,
    force: bool,
) -> Result<()> {
    let all = Array2::from_shape_fn(shape, |(i, j)| T::nearest(element(i, j)));
    let mut output = Output::create(comm, out, shape, force)?;
    for stripe in (0..across).filter(|stripe| stripe % comm.size() == comm.rank()) {
        let cols = block(shape.1, across, stripe);
        for part in 0..=stripe {
            let rows = block(shape.0, stripe + 1, part);
            let view = all.slice(s![rows.clone(), cols.clone()]);
            output.write(rows.start, cols.start, view)?;
        }
    }
    output.finish(comm)
}

fn is_as_written<T: Real>(folder: &Path, shape: (usize, usize)) {
    let source = Source::open(folder.to_str().unwrap(), (None, None), 0).unwrap();
    assert_eq!((source.rows(), source.cols()), shape);
    assert_eq!(source.precision(), Some(T::PRECISION));
    let mut all = Array2::<T>::zeros(shape);
    source.read(0..shape.0, 0..shape.1, all.view_mut()).unwrap();
    for ((i, j), got) in all.indexed_iter() {
        assert_eq!(got.wide(), element(i, j), "row {i}, column {j}");
    }
    // Blocks that cross those of the ranks, and what any program sees that knows HDF5.
    let (rows, cols) = (shape.0 / 3..shape.0 - 1, shape.1 / 4..shape.1 - 1);
    let mut part = Array2::<T>::zeros((rows.len(), cols.len()));
    source
        .read(rows.clone(), cols.clone(), part.view_mut())
        .unwrap();
    assert_eq!(part, all.slice(s![rows, cols]));
    let file = hdf5::File::open(folder.join("matrix.h5")).unwrap();
    assert_eq!(file.dataset("matrix").unwrap().read_2d::<T>().unwrap(), all);
}

fn names(folder: &Path) -> Vec<String> {
    let name = |entry: std::io::Result<fs::DirEntry>| entry.unwrap().file_name();
    let names = fs::read_dir(folder).unwrap().map(name);
    let mut names: Vec<String> = names.map(|name| name.to_string_lossy().into()).collect();
    names.sort();
    names
}

#[test]
fn any_ranks_and_blocks_make_the_same_matrix() {
    let folder = tempfile::tempdir().unwrap();
    let shape = (37, 53);
    for ranks in [1, 2, 3, 5] {
        for across in [1, 3, 7] {
            let single = folder.path().join(format!("single-{ranks}-{across}"));
            let double = folder.path().join(format!("double-{ranks}-{across}"));
            run_ranks(ranks, |comm| {
                write::<f32>(comm, &single, shape, across, false).unwrap();
                write::<f64>(comm, &double, shape, across, false).unwrap();
            });
            is_as_written::<f32>(&single, shape);
            is_as_written::<f64>(&double, shape);
        }
    }
    assert_eq!(names(&folder.path().join("single-5-1")), ["matrix.h5"]);
    let three = [
        "blocks-00000.h5",
        "blocks-00001.h5",
        "blocks-00002.h5",
        "matrix.h5",
    ];
    assert_eq!(names(&folder.path().join("double-3-7")), three);
}

#[test]
fn a_matrix_can_be_moved_but_not_in_parts() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    let shape = (20, 30);
    run_ranks(2, |comm| {
        write::<f64>(comm, &at("a"), shape, 4, false).unwrap()
    });
    fs::create_dir(at("elsewhere")).unwrap();
    fs::rename(at("a"), at("elsewhere/b")).unwrap();
    is_as_written::<f64>(&at("elsewhere/b"), shape);
    fs::remove_file(at("elsewhere/b/blocks-00001.h5")).unwrap();
    let path = at("elsewhere/b");
    let lost = Source::open(path.to_str().unwrap(), (None, None), 0).unwrap_err();
    let says = "lacks blocks-00001.h5, which has a part of it";
    assert!(lost.to_string().contains(says), "{lost}");
}

#[test]
fn only_a_matrix_is_replaced_and_only_when_asked() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    let again = |name: &str, shape, force| {
        let ends = run_ranks(2, |comm| {
            write::<f64>(comm, &at(name), shape, 3, force).map_err(|error| error.to_string())
        });
        assert_eq!(ends[0].is_ok(), ends[1].is_ok());
        ends.into_iter().next().unwrap()
    };
    again("a", (20, 30), false).unwrap();
    assert!(
        again("a", (5, 6), false)
            .unwrap_err()
            .contains("exists already")
    );
    is_as_written::<f64>(&at("a"), (20, 30));
    again("a", (5, 6), true).unwrap();
    is_as_written::<f64>(&at("a"), (5, 6));
    fs::write(at("a/thesis.txt"), "the only copy").unwrap();
    let kept = again("a", (20, 30), true).unwrap_err();
    assert!(kept.contains("it holds thesis.txt"), "{kept}");
    is_as_written::<f64>(&at("a"), (5, 6));
    assert_eq!(names(folder.path()), ["a"]);
}

#[test]
fn nothing_is_left_of_a_matrix_that_was_not_finished() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("a");
    let shape = (8, 8);
    let half = Array2::<f64>::zeros((4, 8));
    let ends = run_ranks(2, |comm| {
        let mut output = Output::create(comm, &out, shape, false).unwrap();
        let written = output.write(comm.rank() * 4, 0, half.view());
        let work = match comm.rank() {
            1 => Err(Error::Usage("no".into())),
            _ => written,
        };
        let ended = output
            .conclude(comm, work)
            .map_err(|error| error.to_string());
        (ended, names(folder.path()))
    });
    let none = Vec::<String>::new();
    assert_eq!(ends[0], (Err("rank 1 failed: no".into()), none.clone()));
    assert_eq!(ends[1], (Err("no".into()), none.clone()));
    // A block that nobody wrote is not taken for zeros.
    let ends = run_ranks(2, |comm| {
        let mut output = Output::create(comm, &out, shape, false).unwrap();
        if comm.rank() == 1 {
            output.write(4, 0, half.view()).unwrap();
        }
        output.finish(comm).map_err(|error| error.to_string())
    });
    assert!(
        ends[0]
            .as_ref()
            .unwrap_err()
            .contains("expected 8 × 8, got 32")
    );
    assert!(ends[1].is_err());
    assert_eq!(names(folder.path()), none);
}

#[test]
fn a_thousand_blocks_are_one_matrix() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("a");
    let shape = (100, 100);
    run_ranks(2, |comm| {
        let mut output = Output::create(comm, &out, shape, false).unwrap();
        for k in (0..1000).filter(|k| k % 2 == comm.rank()) {
            let (row, col) = (k / 10, k % 10 * 10);
            let one = Array2::from_shape_fn((1, 10), |(_, j)| element(row, col + j) as f32);
            output.write(row, col, one.view()).unwrap();
        }
        output.finish(comm).unwrap();
    });
    is_as_written::<f32>(&out, shape);
    assert_eq!(f32::PRECISION, Precision::Single);
}

/// A file system with little room, for as long as it is held.
struct TinyDisk<'a>(&'a Path);

impl Drop for TinyDisk<'_> {
    fn drop(&mut self) {
        let done = Command::new("umount").arg(self.0).status();
        assert!(done.is_ok_and(|status| status.success()));
    }
}

#[test]
fn a_full_disk_leaves_nothing_of_the_matrix() {
    let folder = tempfile::tempdir().unwrap();
    let options = ["-t", "tmpfs", "-o", "size=1m", "tmpfs"];
    let mount = Command::new("mount")
        .args(options)
        .arg(folder.path())
        .output();
    if !mount.is_ok_and(|done| done.status.success()) {
        eprintln!("not tested: only root may mount the small disk that it fills");
        return;
    }
    let disk = TinyDisk(folder.path());
    let out = folder.path().join("a");
    let large = Array2::<f64>::ones((400, 400));
    let fill = |comm: &dyn Comm, block: ArrayView2<f64>| {
        let mut output = Output::create(comm, &out, (800, 400), false)?;
        let work = output.write(comm.rank() * 400, 0, block);
        output.conclude(comm, work)
    };
    let ends = run_ranks(2, |comm| {
        fill(comm, large.view()).map_err(|error| error.report())
    });
    for end in &ends {
        let report = end.as_ref().unwrap_err();
        assert!(report.contains("No space left on device"), "{report}");
    }
    assert_eq!(names(folder.path()), Vec::<String>::new());
    // There is room for one that is smaller.
    run_ranks(2, |comm| {
        write::<f64>(comm, &out, (100, 100), 2, false).unwrap()
    });
    is_as_written::<f64>(&out, (100, 100));
    drop(disk);
}
