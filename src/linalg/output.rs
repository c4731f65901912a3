//! A matrix on its way to disk: a folder in which each rank has a file of blocks, and one file joins them.

use std::fs;
use std::marker::PhantomData;
use std::path::{Path, PathBuf};

use ndarray::ArrayView2;

use super::Real;
use super::folder::{self, BLOCKS, FILE, Part, TABLE, WIDTH};
use crate::comm::{Comm, agree, path_of_first};
use crate::files::Staged;
use crate::h5::{File, Piece};
use crate::{Error, Result, interrupt};

const FORMAT: &str = "phalanx matrix";
const VERSION: u32 = 1;
/// Numbers that are copied at once from a block whose rows do not lie one after the other.
const BAND: usize = 1 << 18;

/// A matrix that ranks write together, block by block. Dropped before [`finish`](Self::finish), it leaves nothing behind.
pub struct Output<T> {
    /// The folder under its temporary name; the first rank's to put in its place or to remove.
    staged: Option<Staged>,
    folder: PathBuf,
    rank: usize,
    shape: (usize, usize),
    file: Option<File>,
    parts: Vec<Part>,
    numbers: PhantomData<T>,
}

impl<T: Real> Output<T> {
    /// Starts a matrix that will be called `out`, a folder that every rank must see; *collective*.
    ///
    /// An older matrix is replaced only with `force`, anything else never.
    pub fn create(comm: &dyn Comm, out: &Path, shape: (usize, usize), force: bool) -> Result<Self> {
        let staged = match comm.rank() {
            0 => stage(out, force).map(Some),
            _ => Ok(None),
        };
        let staged = agree(comm, staged)?;
        let folder = path_of_first(comm, staged.as_ref().map(|staged| staged.path().into()));
        let output = Self {
            staged,
            rank: comm.rank(),
            shape,
            file: None,
            parts: Vec::new(),
            numbers: PhantomData,
            folder,
        };
        let seen = match output.folder.is_dir() {
            true => Ok(()),
            false => Err(Error::file(
                &output.folder,
                format!("is not seen by rank {}", comm.rank()),
                "give a place that all hosts share, or start all ranks on one host",
            )),
        };
        match agree(comm, seen) {
            Ok(()) => Ok(output),
            Err(error) => Err(output.leave(comm, error)),
        }
    }

    /// Writes the block whose first element is at `row` and `col`. Any rank may write any block; none may overlap.
    pub fn write(&mut self, row: usize, col: usize, block: ArrayView2<T>) -> Result<()> {
        interrupt::check()?;
        let part = Part {
            rank: self.rank,
            number: self.parts.len(),
            rows: row..row + block.nrows(),
            cols: col..col + block.ncols(),
        };
        let (rows, cols) = self.shape;
        assert!(part.rows.end <= rows && part.cols.end <= cols, "in range");
        if block.is_empty() {
            return Ok(());
        }
        // A block that is all of the matrix needs no other file to join it to.
        let whole = block.dim() == self.shape;
        let (name, table) = match whole {
            true => (FILE.into(), TABLE.into()),
            false => (part.file(), part.table()),
        };
        let file = match self.file.take() {
            Some(file) => file,
            None => new_file(&self.folder.join(name))?,
        };
        let file = self.file.insert(file);
        let table = file.new_table::<T>(&table, &[block.nrows(), block.ncols()])?;
        if let Some(all) = block.as_slice() {
            table.write(0, all)?;
        } else {
            let band = (BAND / block.ncols()).max(1);
            let mut copy = Vec::with_capacity(band.min(block.nrows()) * block.ncols());
            for (i, rows) in block.axis_chunks_iter(ndarray::Axis(0), band).enumerate() {
                copy.clear();
                copy.extend(rows.iter().copied());
                table.write(i * band, &copy)?;
            }
        }
        self.parts.push(part);
        Ok(())
    }

    /// Joins what all ranks wrote, and puts the folder in its place at once; *collective*.
    pub fn finish(self, comm: &dyn Comm) -> Result<()> {
        self.conclude(comm, Ok(()))
    }

    /// As [`finish`](Self::finish), if all ranks have done their `work`; if one has failed, nothing is left of the matrix
    /// when the error is there on every rank, however fast that ends the job; *collective*.
    pub fn conclude<R>(mut self, comm: &dyn Comm, work: Result<R>) -> Result<R> {
        let closed = match self.file.take() {
            Some(file) if work.is_ok() => close(file),
            _ => Ok(()),
        };
        let work = work.and_then(|done| closed.map(|()| done));
        let done = match agree(comm, work) {
            Ok(done) => done,
            Err(error) => return Err(self.leave(comm, error)),
        };
        let parts = comm.gather(&encode(&self.parts));
        let joined = match comm.rank() {
            0 => self.join(&parts),
            _ => Ok(()),
        };
        match agree(comm, joined) {
            Ok(()) => {}
            Err(error) => return Err(self.leave(comm, error)),
        }
        let placed = self.staged.take().map_or(Ok(()), Staged::commit);
        agree(comm, placed).map(|()| done)
    }

    /// Removes what was begun, and only then lets the ranks go with their error.
    fn leave(self, comm: &dyn Comm, error: Error) -> Error {
        drop(self);
        comm.barrier();
        error
    }

    /// Writes the file that joins the blocks of all ranks, unless one of them is all.
    fn join(&self, parts: &[Vec<u8>]) -> Result<()> {
        let parts: Vec<Part> = parts.iter().flat_map(|parts| decode(parts)).collect();
        let (rows, cols) = self.shape;
        let written: u128 = parts.iter().map(Part::area).sum();
        if written != rows as u128 * cols as u128 {
            return Err(Error::Mismatch {
                what: "numbers of the matrix that were written".into(),
                expected: format!("{rows} × {cols}"),
                got: written.to_string(),
                hint: "this is a mistake in phalanx: every block is written once",
            });
        }
        if parts.len() == 1 {
            return Ok(());
        }
        let piece = |part: &Part| Piece {
            file: part.file(),
            table: part.table(),
            rows: part.rows.clone(),
            cols: part.cols.clone(),
        };
        let pieces: Vec<Piece> = parts.iter().map(piece).collect();
        let file = new_file(&self.folder.join(FILE))?;
        file.join::<T>(TABLE, self.shape, &pieces)?;
        let places: Vec<u64> = parts.iter().flat_map(Part::to_row).collect();
        file.new_table::<u64>(BLOCKS, &[parts.len(), WIDTH])?
            .write(0, &places)?;
        close(file)
    }
}

/// A folder under a temporary name.
fn stage(out: &Path, force: bool) -> Result<Staged> {
    if force && out.exists() {
        only_a_matrix(out)?;
    }
    let staged = Staged::new(out, force)?;
    fs::create_dir(staged.path()).map_err(Error::io("create folder", staged.path()))?;
    Ok(staged)
}

/// Refuses what has anything in it that a matrix has not: all of it would be replaced.
fn only_a_matrix(out: &Path) -> Result<()> {
    for entry in fs::read_dir(out).map_err(Error::io("read folder", out))? {
        let name = entry.map_err(Error::io("read folder", out))?.file_name();
        let name = name.to_string_lossy();
        if !folder::belongs(&name) {
            let problem = format!("is a folder that is not a matrix: it holds {name}");
            let hint = "--force replaces matrices only; give another name";
            return Err(Error::file(out, problem, hint));
        }
    }
    Ok(())
}

fn new_file(path: &Path) -> Result<File> {
    let file = File::create(path)?;
    file.set_text("format", FORMAT)?;
    file.set_numbers("version", &[VERSION])?;
    Ok(file)
}

/// Closes a file once its bytes are on the disk: another rank, perhaps on another host, will rename the folder.
fn close(file: File) -> Result<()> {
    let path = file.path().to_path_buf();
    file.close()?;
    fs::File::open(&path)
        .and_then(|file| file.sync_all())
        .map_err(Error::io("sync", &path))
}

fn encode(parts: &[Part]) -> Vec<u8> {
    let numbers = parts.iter().flat_map(Part::to_row);
    numbers.flat_map(u64::to_le_bytes).collect()
}

fn decode(bytes: &[u8]) -> Vec<Part> {
    let (numbers, _) = bytes.as_chunks();
    let numbers: Vec<u64> = numbers.iter().map(|n| u64::from_le_bytes(*n)).collect();
    let (rows, _) = numbers.as_chunks();
    rows.iter().map(Part::from_row).collect()
}
