//! Data sets of two dimensions: what there are, blocks of them, and one that is joined from others.

use std::ops::Range;

use hdf5::plist::dataset_create::Layout;
use hdf5::types::{FloatSize, IntSize, TypeDescriptor};
use hdf5::{Group, H5Type, Hyperslab, LinkType, LocationType, Selection};

use super::{File, Table, brief, fault, is_plain};
use crate::{Error, Result};

/// How deep groups may lie in each other, and how many data sets are looked at: a file may link its groups in a circle.
const DEPTH: usize = 16;
const MANY: usize = 1000;

/// What numbers a table has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cell {
    /// Floats of 32 bits.
    F32,
    /// Floats of 64 bits.
    F64,
    /// Integers with a sign, of so many bytes.
    Signed(usize),
    /// Integers without a sign, of so many bytes.
    Unsigned(usize),
}

impl Cell {
    /// Bytes of a number.
    pub fn bytes(self) -> usize {
        match self {
            Self::F32 => 4,
            Self::F64 => 8,
            Self::Signed(bytes) | Self::Unsigned(bytes) => bytes,
        }
    }
}

/// A part of a table that is joined of several, all of which are in files of its folder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Piece {
    /// The file's name.
    pub file: String,
    /// The data set in it, which is the piece.
    pub table: String,
    /// The rows that it has in the whole.
    pub rows: Range<usize>,
    /// And the columns.
    pub cols: Range<usize>,
}

impl File {
    /// Opens the table called `name`, also where nothing was written to it.
    pub fn any_table(&self, name: &str) -> Result<Table> {
        self.examined(name)?;
        let inner = self.inner.dataset(name).map_err(|_| {
            let all = match self.tables() {
                names if names.is_empty() => "no data set at all".into(),
                names => names.join(", "),
            };
            let problem = format!("has no data set `{name}` (it has: {all})");
            Error::file(&self.path, problem, "name one of those, as FILE.h5:/NAME")
        })?;
        let path = self.path.clone();
        Table { inner, path }.with_chunks(name)
    }

    /// Paths of all data sets, in groups too.
    pub fn tables(&self) -> Vec<String> {
        let mut found = Vec::new();
        list(&self.inner, "", DEPTH, &mut found);
        found
    }

    /// A new table of `shape`, whose numbers stay where the pieces have them.
    pub fn join<T: H5Type>(&self, name: &str, shape: (usize, usize), of: &[Piece]) -> Result<()> {
        let mut builder = self.inner.new_dataset::<T>().obj_track_times(false);
        for Piece {
            file,
            table,
            rows,
            cols,
        } in of
        {
            let block = (rows.clone(), cols.clone());
            let extents = [rows.len(), cols.len()];
            let whole = [shape.0, shape.1];
            builder = builder.virtual_map(file, table, extents, Selection::All, whole, block);
        }
        builder
            .shape(shape)
            .create(name)
            .map_err(fault(&self.path, "write it"))?;
        Ok(())
    }
}

fn list(group: &Group, at: &str, depth: usize, found: &mut Vec<String>) {
    let mut links = Vec::new();
    // What cannot be listed is not listed: the names are for a message.
    let _ = group.iter_visit_default(|name, link| {
        links.push((name.to_owned(), link.link_type));
        Ok(())
    });
    for (name, link) in links {
        if found.len() == MANY {
            return;
        }
        let path = format!("{at}/{name}");
        // By kind: opening a data set would read more of it than is needed here.
        let kind = group.loc_type_by_name(&name);
        if matches!(kind, Ok(LocationType::Dataset)) {
            found.push(path);
            continue;
        }
        // Links to elsewhere are not followed: they may lead back.
        let group = group.group(&name).ok();
        if let Some(group) = group.filter(|_| depth > 0 && link == LinkType::Hard) {
            list(&group, &path, depth - 1, found);
        }
    }
}

impl Table {
    /// What numbers it has; if it has none, what it has instead.
    pub fn cell(&self) -> Result<Cell, String> {
        let kind = self.inner.dtype().map_err(|error| brief(&error))?;
        let bytes = |size: IntSize| size as usize;
        match kind.to_descriptor() {
            Ok(
                TypeDescriptor::Float(_) | TypeDescriptor::Integer(_) | TypeDescriptor::Unsigned(_),
            ) if !is_plain(&kind) => Err("numbers of which not all bits count".into()),
            Ok(TypeDescriptor::Float(FloatSize::U4)) => Ok(Cell::F32),
            Ok(TypeDescriptor::Float(FloatSize::U8)) => Ok(Cell::F64),
            Ok(TypeDescriptor::Integer(size)) => Ok(Cell::Signed(bytes(size))),
            Ok(TypeDescriptor::Unsigned(size)) => Ok(Cell::Unsigned(bytes(size))),
            Ok(other) => Err(other.to_string()),
            Err(error) => Err(format!("{} bytes each ({})", kind.size(), brief(&error))),
        }
    }

    /// Whether its cells are as this machine has such numbers, so that their bytes are numbers without HDF5's help.
    pub fn is_native(&self, cell: Cell) -> bool {
        match cell {
            Cell::F32 => self.holds::<f32>(),
            Cell::F64 => self.holds::<f64>(),
            Cell::Signed(1) => self.holds::<i8>(),
            Cell::Signed(2) => self.holds::<i16>(),
            Cell::Signed(4) => self.holds::<i32>(),
            Cell::Signed(_) => self.holds::<i64>(),
            Cell::Unsigned(1) => self.holds::<u8>(),
            Cell::Unsigned(2) => self.holds::<u16>(),
            Cell::Unsigned(4) => self.holds::<u32>(),
            Cell::Unsigned(_) => self.holds::<u64>(),
        }
    }

    /// Whether nothing was ever written to it: HDF5 would give zeros.
    pub fn is_unwritten(&self) -> bool {
        !self.is_joined() && self.inner.storage_size() == 0
    }

    /// Rows of a chunk, or 1 if it has no chunks.
    pub fn chunk_rows(&self) -> usize {
        self.inner.chunk().map_or(1, |chunk| chunk[0].max(1))
    }

    /// Whether its numbers are in other tables.
    pub fn is_joined(&self) -> bool {
        self.inner.layout() == Layout::Virtual
    }

    /// Reads a block, converted to `T`; of a table of one dimension, which is a column, the rows.
    pub fn read_block<T: H5Type>(&self, rows: Range<usize>, cols: Range<usize>) -> Result<Vec<T>> {
        let block = match self.inner.ndim() {
            1 => Hyperslab::from(rows),
            _ => Hyperslab::from((rows, cols)),
        };
        self.read_part(block)
    }
}
