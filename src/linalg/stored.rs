//! A matrix in an HDF5 file: blocks of it, as fast as the file can be read.
//!
//! Where its numbers lie in one piece and as this machine has them, or in blocks that phalanx wrote, they are read past
//! HDF5, into no more memory than a small buffer: a mapped file would count as memory of this process, however little of it
//! is in use. All else (chunked, compressed, of another byte order, joined elsewhere) HDF5 reads, a few rows at a time.

mod blocks;
mod decode;

use std::ops::Range;
use std::path::{Path, PathBuf};

use blocks::Block;
use decode::decode;
use ndarray::{ArrayViewMut2, Axis, s};

use super::folder::TABLE;
use super::{Precision, Real};
use crate::h5::{self, Cell, Table};
use crate::{Error, Result};

/// Bytes that the system is asked to read before they are needed.
const AHEAD: usize = 8 << 20;
/// Bytes that are read at once: they are converted while in the cache.
const BUFFER: usize = 256 << 10;
/// Numbers that HDF5 reads at once, if a row of chunks has no more.
const BAND: usize = 1 << 20;

/// What a disk gives at least.
const PAGE: usize = 4096;

/// A data set of one file.
#[derive(Debug)]
pub(super) struct Stored {
    path: PathBuf,
    name: String,
    shape: (usize, usize),
    cell: Cell,
    way: Way,
}

/// How its numbers are read.
enum Way {
    /// They lie in files, row after row of each block.
    Plain(Vec<Block>),
    /// By HDF5, with so many rows in a chunk.
    Hdf5 { table: Table, chunk: usize },
}

impl std::fmt::Debug for Way {
    fn fmt(&self, f: &mut std::fmt::Formatter) -> std::fmt::Result {
        f.write_str(match self {
            Self::Plain(_) => "Plain",
            Self::Hdf5 { .. } => "Hdf5",
        })
    }
}

impl Stored {
    /// Opens the data set called `name`, or, if none is named, the only one of two dimensions.
    pub(super) fn open(path: &Path, name: Option<&str>) -> Result<Self> {
        if path.is_file() && !h5::is_hdf5(path) {
            let hint = "a matrix is a data set of an HDF5 file, or a formula: see data/README.md";
            return Err(Error::file(path, "is not an HDF5 file", hint));
        }
        let file = h5::File::open(path)?;
        let meant = name.is_none_or(|name| name.trim_start_matches('/') == TABLE);
        if meant && let Some((shape, cell, blocks)) = blocks::joined(path, &file)? {
            return Ok(Self {
                path: path.to_path_buf(),
                name: TABLE.into(),
                shape,
                cell,
                way: Way::Plain(blocks),
            });
        }
        let name = match name {
            Some(name) => name.to_owned(),
            None => only(path, &file)?,
        };
        let table = file.any_table(&name)?;
        let (shape, cell) = check(path, &name, &table)?;
        let way = match blocks::find(path, &table, (shape, cell))? {
            Some(blocks) => Way::Plain(blocks),
            None => Way::Hdf5 {
                chunk: table.chunk_rows(),
                table,
            },
        };
        Ok(Self {
            path: path.to_path_buf(),
            name,
            shape,
            cell,
            way,
        })
    }

    pub(super) fn shape(&self) -> (usize, usize) {
        self.shape
    }

    /// That of its floats; double for integers, whose sums of products it holds exactly up to 2⁵³.
    pub(super) fn precision(&self) -> Precision {
        match self.cell {
            Cell::F32 => Precision::Single,
            _ => Precision::Double,
        }
    }

    pub(super) fn read<T: Real>(
        &self,
        rows: Range<usize>,
        cols: Range<usize>,
        mut out: ArrayViewMut2<T>,
    ) -> Result<()> {
        let blocks = match &self.way {
            Way::Plain(blocks) => blocks,
            Way::Hdf5 { table, chunk } => {
                return self.read_table(table, *chunk, (rows, cols), out);
            }
        };
        for block in blocks {
            let (i, j) = (common(&rows, &block.rows), common(&cols, &block.cols));
            if i.is_empty() || j.is_empty() {
                continue;
            }
            let down = i.start - rows.start..i.end - rows.start;
            let right = j.start - cols.start..j.end - cols.start;
            self.read_plain(block, (i, j), out.slice_mut(s![down, right]))?;
        }
        Ok(())
    }

    /// Has the system begin to read a block, where that is done past HDF5.
    pub(super) fn read_ahead(&self, rows: Range<usize>, cols: Range<usize>) {
        let Way::Plain(blocks) = &self.way else {
            return;
        };
        for block in blocks {
            let cols = common(&cols, &block.cols);
            if cols.is_empty() {
                continue;
            }
            for row in common(&rows, &block.rows) {
                block.read_ahead(row, cols.start, self.cell.bytes(), cols.len());
            }
        }
    }

    fn read_plain<T: Real>(
        &self,
        block: &Block,
        (rows, cols): (Range<usize>, Range<usize>),
        mut out: ArrayViewMut2<T>,
    ) -> Result<()> {
        let bytes = self.cell.bytes();
        let (pitch, width) = (block.cols.len() * bytes, cols.len() * bytes);
        let tall = together(pitch, width);
        let mut buffer = vec![0; (tall - 1) * pitch + width.min(BUFFER)];
        let bands = out.axis_chunks_iter_mut(Axis(0), tall);
        // Rows with gaps between them are no sequence that the system would see coming: disks want many to be asked for at once.
        let ahead = |row: usize| block.read_ahead(row, cols.start, bytes, cols.len());
        let first = if tall == 1 { AHEAD.div_ceil(width) } else { 0 };
        rows.clone().take(first).for_each(ahead);
        for (i, mut band) in rows.clone().step_by(tall).zip(bands) {
            if first > 0 && i + first < rows.end {
                ahead(i + first);
            }
            let parts = band.axis_chunks_iter_mut(Axis(1), BUFFER / bytes);
            for (j, part) in cols.clone().step_by(BUFFER / bytes).zip(parts) {
                let (h, w) = part.dim();
                let buffer = &mut buffer[..(h - 1) * pitch + w * bytes];
                block.read(i, j, bytes, buffer)?;
                self.spread(buffer.chunks(pitch), (i, j), part)?;
            }
        }
        Ok(())
    }

    /// Rows of bytes, which begin with what is wanted, into those of `out`, whose first number is at `(i, j)`.
    fn spread<'a, T: Real>(
        &self,
        bytes: impl Iterator<Item = &'a [u8]>,
        (i, j): (usize, usize),
        mut out: ArrayViewMut2<T>,
    ) -> Result<()> {
        let width = out.ncols() * self.cell.bytes();
        for (k, (mut out, bytes)) in out.rows_mut().into_iter().zip(bytes).enumerate() {
            let out = out.as_slice_mut().expect("rows are contiguous");
            decode(self.cell, &bytes[..width], out)
                .map_err(|(l, value)| self.odd(i + k, j + l, value))?;
        }
        Ok(())
    }

    fn read_table<T: Real>(
        &self,
        table: &Table,
        chunk: usize,
        (rows, cols): (Range<usize>, Range<usize>),
        mut out: ArrayViewMut2<T>,
    ) -> Result<()> {
        // Whole chunks: one that is cut is unpacked twice.
        let band = (BAND / cols.len().max(1) / chunk * chunk).max(chunk);
        let mut i = rows.start;
        while i < rows.end {
            let end = rows.end.min((i / band + 1) * band);
            let values: Vec<f64> = table.read_block(i..end, cols.clone())?;
            for (row, values) in (i..end).zip(values.chunks_exact(cols.len())) {
                let mut out = out.row_mut(row - rows.start);
                let out = out.as_slice_mut().expect("rows are contiguous");
                rounded(values, out).map_err(|k| self.odd(row, cols.start + k, values[k]))?;
            }
            i = end;
        }
        Ok(())
    }

    fn odd(&self, row: usize, col: usize, value: f64) -> Error {
        let (what, hint) = match value.is_finite() {
            true => (", more than f32 can hold", "compute in f64"),
            false => ("", "mend the file: matrices are of finite numbers"),
        };
        let problem = format!(
            "`{}` has {value:e} in row {row}, column {col} (both from 0){what}",
            self.name
        );
        Error::file(&self.path, problem, hint)
    }
}

/// The data set that the user means who named none.
fn only(path: &Path, file: &h5::File) -> Result<String> {
    let names = file.tables();
    let flat = |name: &&String| {
        let table = file.any_table(name);
        table.is_ok_and(|table| table.shape().len() == 2)
    };
    let matrices: Vec<&String> = names.iter().filter(flat).collect();
    match matrices[..] {
        [name] => Ok(name.clone()),
        [] => {
            let problem = format!(
                "has no data set of two dimensions (it has: {})",
                names.join(", ")
            );
            let hint = "name a data set of one dimension as FILE.h5:/NAME to take it as a column";
            Err(Error::file(path, problem, hint))
        }
        _ => {
            let names: Vec<&str> = matrices.iter().map(|name| name.as_str()).collect();
            let problem = format!("has {} matrices: {}", names.len(), names.join(", "));
            Err(Error::file(path, problem, "say which, as FILE.h5:/NAME"))
        }
    }
}

/// Rows and columns of `table` and what its numbers are, if it can be a matrix.
fn check(path: &Path, name: &str, table: &Table) -> Result<((usize, usize), Cell)> {
    let wrong = |problem: String, hint| Err(Error::file(path, problem, hint));
    let shape = match table.shape()[..] {
        [rows] => (rows, 1),
        [rows, cols] => (rows, cols),
        ref dims => {
            let problem = format!("`{name}` has {} dimensions: {dims:?}", dims.len());
            return wrong(problem, "a matrix has two, or one if it is a column");
        }
    };
    if shape.0 == 0 || shape.1 == 0 {
        let problem = format!("`{name}` is empty: {} × {}", shape.0, shape.1);
        return wrong(problem, "a matrix has at least one row and one column");
    }
    let cell = match table.cell() {
        Ok(cell) => cell,
        Err(kind) => {
            let problem = format!("`{name}` is not of numbers: its cells are {kind}");
            return wrong(problem, "a matrix is of f32, f64 or integers");
        }
    };
    if table.is_unwritten() {
        let problem = format!("`{name}` was never written");
        let hint = "whatever made the file did not finish: make it again";
        return wrong(problem, hint);
    }
    Ok((shape, cell))
}

/// How many rows of a block are read at once: several where what lies between is read no slower than skipped.
fn together(pitch: usize, width: usize) -> usize {
    let near = pitch <= PAGE || pitch <= 2 * width;
    match near && width <= BUFFER {
        true => (BUFFER - width) / pitch + 1,
        false => 1,
    }
}

fn common(a: &Range<usize>, b: &Range<usize>) -> Range<usize> {
    a.start.max(b.start)..a.end.min(b.end)
}

/// Rounds `values` to `out`; the place of the first that is not finite there is an error.
fn rounded<T: Real>(values: &[f64], out: &mut [T]) -> Result<(), usize> {
    for (out, &value) in out.iter_mut().zip(values) {
        *out = T::nearest(value);
    }
    match out.iter().position(|value| !value.is_finite()) {
        None => Ok(()),
        Some(at) => Err(at),
    }
}
