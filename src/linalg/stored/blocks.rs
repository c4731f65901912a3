//! Where the numbers of a matrix lie in files, when they lie there as they are.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::fs;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::files;
use crate::h5::{self, Cell, Table};
use crate::linalg::folder::{BLOCKS, FILE, Part, WIDTH};
use crate::{Error, Result};

const DAMAGED: &str = "the file is damaged or cut short: copy or make it again";
const LOST: &str = "copy or move the whole folder, or make the matrix again";

/// A part of a matrix that lies in a file in one piece, row after row.
pub(super) struct Block {
    pub rows: Range<usize>,
    pub cols: Range<usize>,
    file: Arc<Opened>,
    start: u64,
}

struct Opened {
    path: PathBuf,
    file: fs::File,
}

impl Block {
    /// Reads from the number in `row` and `col` of the matrix on, where a number has so many bytes.
    pub(super) fn read(&self, row: usize, col: usize, bytes: usize, out: &mut [u8]) -> Result<()> {
        let Opened { path, file } = &*self.file;
        file.read_exact_at(out, self.place(row, col, bytes))
            .map_err(Error::io("read", path))
    }

    /// Lets the system read `count` numbers from there on ahead of their use.
    pub(super) fn read_ahead(&self, row: usize, col: usize, bytes: usize, count: usize) {
        let place = self.place(row, col, bytes);
        files::read_ahead(&self.file.file, place, count * bytes);
    }

    fn place(&self, row: usize, col: usize, bytes: usize) -> u64 {
        let before = (row - self.rows.start) * self.cols.len() + col - self.cols.start;
        self.start + (before * bytes) as u64
    }
}

/// The block that `table` is, if it can be read without HDF5.
pub(super) fn find(
    path: &Path,
    table: &Table,
    (shape, cell): ((usize, usize), Cell),
) -> Result<Option<Vec<Block>>> {
    let Some(start) = table.offset().filter(|_| table.is_native(cell)) else {
        return Ok(None);
    };
    let block = Block {
        rows: 0..shape.0,
        cols: 0..shape.1,
        file: open(path)?,
        start,
    };
    whole(&block, cell).map(|()| Some(vec![block]))
}

/// The blocks of a matrix in a folder that phalanx wrote, and what they say of it; none if the file joins no such blocks.
///
/// The data set that joins them is for other programs. It is not even opened: a damaged one could crash HDF5's library.
pub(super) fn joined(path: &Path, file: &h5::File) -> Result<Option<Joined>> {
    if path.file_name().is_none_or(|name| name != FILE) || !file.has(BLOCKS) {
        return Ok(None);
    }
    let table = file.table(BLOCKS)?;
    let wrong = |problem: String| Error::file(path, problem, LOST);
    let count = match table.shape()[..] {
        [count, WIDTH] => count,
        ref other => {
            return Err(wrong(format!(
                "`{BLOCKS}` is {other:?}, not of {WIDTH} columns"
            )));
        }
    };
    let numbers: Vec<u64> = table.read(0..count)?;
    let (rows, _) = numbers.as_chunks();
    let parts: Vec<Part> = rows.iter().map(Part::from_row).collect();
    let shape = parts.iter().fold((0, 0), |(rows, cols), part| {
        (part.rows.end.max(rows), part.cols.end.max(cols))
    });
    let area = |area: u128, part: &Part| area.saturating_add(part.area());
    let all = shape.0 as u128 * shape.1 as u128;
    if all == 0 || parts.iter().fold(0, area) != all || overlap(&parts) {
        return Err(wrong(format!(
            "`{BLOCKS}` does not describe {} × {}",
            shape.0, shape.1
        )));
    }
    let (mut files, mut cells) = (HashMap::new(), None);
    let block = |part: Part| {
        let file = match files.entry(part.rank) {
            Entry::Occupied(file) => file.into_mut(),
            Entry::Vacant(none) => none.insert(file_of(path, &part)?),
        };
        locate(file, part, &mut cells)
    };
    let blocks = parts.into_iter().map(block).collect::<Result<Vec<_>>>()?;
    Ok(cells.map(|cell| (shape, cell, blocks)))
}

/// Shape, numbers and blocks of a matrix.
pub(super) type Joined = ((usize, usize), Cell, Vec<Block>);

/// Whether two blocks have a number in common: then others are in none, as all together are as large as the matrix.
fn overlap(parts: &[Part]) -> bool {
    let mut sorted: Vec<&Part> = parts.iter().filter(|part| part.area() > 0).collect();
    sorted.sort_by_key(|part| part.rows.start);
    sorted.iter().enumerate().any(|(i, part)| {
        let below = sorted[i + 1..].iter();
        let mut beside = below.take_while(|other| other.rows.start < part.rows.end);
        let meet = |a: &Range<usize>, b: &Range<usize>| a.start < b.end && b.start < a.end;
        beside.any(|other| meet(&part.cols, &other.cols))
    })
}

/// The file that `part` is in, for HDF5 and as it is.
fn file_of(path: &Path, part: &Part) -> Result<(h5::File, Arc<Opened>)> {
    let place = path.with_file_name(part.file());
    if !place.exists() {
        let problem = format!("lacks {}, which has a part of it", part.file());
        return Err(Error::file(path, problem, LOST));
    }
    Ok((h5::File::open(&place)?, open(&place)?))
}

/// Where `part` lies in its file, whose numbers are those of `cells`.
fn locate(
    (file, opened): &(h5::File, Arc<Opened>),
    part: Part,
    cells: &mut Option<Cell>,
) -> Result<Block> {
    let table = file.any_table(&part.table())?;
    // All blocks have the numbers of the first.
    let cell = table.cell().ok().map(|cell| *cells.get_or_insert(cell));
    let same = table.shape() == [part.rows.len(), part.cols.len()];
    let native = cell.filter(|&cell| same && table.is_native(cell));
    let (Some(cell), Some(start)) = (native, table.offset()) else {
        let problem = format!(
            "`{}` is not the block that `{BLOCKS}` describes",
            part.table()
        );
        return Err(Error::file(&opened.path, problem, LOST));
    };
    let block = Block {
        rows: part.rows,
        cols: part.cols,
        file: opened.clone(),
        start,
    };
    whole(&block, cell).map(|()| block)
}

fn open(path: &Path) -> Result<Arc<Opened>> {
    let file = fs::File::open(path).map_err(Error::io("read", path))?;
    let path = path.to_path_buf();
    Ok(Arc::new(Opened { path, file }))
}

/// An error if the file ends before the block does.
fn whole(block: &Block, cell: Cell) -> Result<()> {
    let Opened { path, file } = &*block.file;
    let have = file.metadata().map_err(Error::io("read", path))?.len();
    let numbers = block.rows.len() as u128 * block.cols.len() as u128;
    let end = u128::from(block.start) + numbers * cell.bytes() as u128;
    if u128::from(have) < end {
        let problem = format!("is {have} bytes long, its numbers end at {end}");
        return Err(Error::file(path, problem, DAMAGED));
    }
    Ok(())
}
