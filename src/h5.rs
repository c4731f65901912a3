//! The door to HDF5: open with clear errors, read and write rows, attributes.

mod examiner;
mod heaps;
mod kind;
mod matrix;
mod pieces;
mod text;

use examiner::Part;
pub use examiner::{examine, examine_by, is_examiner};
use kind::is_plain;
pub use matrix::{Cell, Piece};

use std::fs;
use std::io::Read;
use std::ops::Range;
use std::path::{Path, PathBuf};

use hdf5::plist::dataset_create::AllocTime;
use hdf5::types::{FloatSize, TypeDescriptor, VarLenUnicode};
use hdf5::{H5Type, Hyperslab, SliceOrIndex};
use ndarray::{ArrayD, ArrayViewD};

use crate::{Error, Result};

/// Numbers that any bits are one of, so that they may be taken from a mapped file.
pub trait Number: H5Type + Copy {}

impl Number for u8 {}
impl Number for u32 {}
impl Number for u64 {}
impl Number for f32 {}
impl Number for f64 {}

/// Bytes that a stored byte can become: deflate makes at most 1032 of one.
const UNPACKED: u64 = 1100;
/// Tables up to this are taken whatever they are packed by.
const SMALL: u64 = 16 << 20;
/// The most numbers of an attribute.
const NUMBERS: usize = 1 << 16;

const MAGIC: &[u8; 8] = b"\x89HDF\r\n\x1a\n";

/// The version of the HDF5 library.
pub fn version() -> String {
    let (major, minor, patch) = hdf5::library_version();
    format!("{major}.{minor}.{patch}")
}

/// The text attribute `name` of the file at `path`, if it is there.
pub fn text(path: &Path, name: &str) -> Option<String> {
    text::attribute(path, name)
}

/// Whether the file at `path` begins as HDF5 files do.
pub fn is_hdf5(path: &Path) -> bool {
    let mut head = [0; 8];
    let read = fs::File::open(path).and_then(|mut file| file.read_exact(&mut head));
    read.is_ok() && &head == MAGIC
}

/// Files without locks: they are written under a name of their own and then renamed, so that a reader needs none, and
/// locks fail on many cluster file systems. A child process that someone starts meanwhile would hold them on.
fn unlocked() -> hdf5::FileBuilder {
    let mut builder = hdf5::FileBuilder::new();
    builder.with_fapl(|access| access.file_locking(false));
    builder
}

/// An HDF5 file open for reading or writing.
pub struct File {
    inner: hdf5::File,
    path: PathBuf,
}

impl File {
    /// Opens for reading; tells a missing file, another format and a damaged file apart.
    pub fn open(path: &Path) -> Result<Self> {
        fs::File::open(path)
            .and_then(|mut file| file.read(&mut [0]))
            .map_err(Error::io("read", path))?;
        if !is_hdf5(path) {
            let hint = "make one with `phalanx data make` or `phalanx data import`";
            return Err(Error::file(path, "is not an HDF5 file", hint));
        }
        let hint = "the file is damaged or cut short: copy or make it again";
        if let Some(problem) = heaps::problem(path) {
            return Err(Error::file(path, problem, hint));
        }
        examined(path, Part::Listed)?;
        let inner = unlocked().open(path).map_err(|error| {
            Error::file(
                path,
                format!("HDF5 cannot open it ({})", brief(&error)),
                hint,
            )
        })?;
        Ok(Self {
            inner,
            path: path.to_path_buf(),
        })
    }

    /// Opens a file that this job has made for reading and writing.
    pub fn open_to_write(path: &Path) -> Result<Self> {
        Self::open_own(path, hdf5::FileBuilder::open_rw)
    }

    /// Where numbers of the table `name` begin in a file that this job has made, which nobody has to examine.
    pub fn place_in_own(path: &Path, name: &str) -> Result<Option<u64>> {
        let file = Self::open_own(path, hdf5::FileBuilder::open)?;
        let table = file.inner.dataset(name).map_err(fault(path, "read it"))?;
        Ok(table.offset())
    }

    fn open_own(
        path: &Path,
        open: impl Fn(&hdf5::FileBuilder, PathBuf) -> hdf5::Result<hdf5::File>,
    ) -> Result<Self> {
        fs::File::open(path).map_err(Error::io("read", path))?;
        let inner = open(&unlocked(), path.to_path_buf()).map_err(fault(path, "open it"))?;
        Ok(Self {
            inner,
            path: path.to_path_buf(),
        })
    }

    /// Creates `path`, or empties it. Tables begin where numbers may begin, so that a mapped file can be used as it is.
    pub fn create(path: &Path) -> Result<Self> {
        Self::create_aligned(path, 64)
    }

    /// The same with tables that begin where a page of memory does: what is written in whole pages is written faster.
    pub fn create_in_pages(path: &Path) -> Result<Self> {
        Self::create_aligned(path, 4096)
    }

    fn create_aligned(path: &Path, alignment: u64) -> Result<Self> {
        // A plain create first: its error says why (permission, full disk), where HDF5's is a riddle.
        fs::File::create(path).map_err(Error::io("create", path))?;
        let inner = unlocked()
            .with_fapl(|access| access.alignment(512, alignment))
            .create(path)
            .map_err(fault(path, "create it"))?;
        Ok(Self {
            inner,
            path: path.to_path_buf(),
        })
    }

    /// Has a table examined that may not have been when the file was opened.
    fn examined(&self, name: &str) -> Result<()> {
        let absolute = format!("/{}", name.trim_start_matches('/'));
        match self.tables().contains(&absolute) {
            true => Ok(()),
            false => examined(&self.path, Part::Table(name)),
        }
    }

    /// The table called `name`, or an error that lists what there is.
    pub fn table(&self, name: &str) -> Result<Table> {
        self.examined(name)?;
        let inner = self.inner.dataset(name).map_err(|_| {
            let names = self.inner.member_names().unwrap_or_default().join(", ");
            let problem = format!("has no data set `{name}` (it has: {names})");
            Error::file(&self.path, problem, "see data/README.md for the format")
        })?;
        // HDF5 would give zeros, as many as the dimensions ask for, whatever the size of the file.
        if inner.storage_size() == 0 && !inner.shape().contains(&0) {
            let problem = format!("its data set `{name}` was never written");
            let hint = "whatever made the file did not finish: make it again";
            return Err(Error::file(&self.path, problem, hint));
        }
        let path = self.path.clone();
        Table { inner, path }.checked(name)
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Whether there is a table called `name`.
    pub fn has(&self, name: &str) -> bool {
        self.examined(name).is_ok() && self.inner.link_exists(name)
    }

    /// A new contiguous table of all of `values`.
    pub fn filled<T: H5Type>(&self, name: &str, values: &[T]) -> Result<()> {
        let table = self.new_table::<T>(name, &[values.len()])?;
        match values.is_empty() {
            true => Ok(()),
            false => table.write(0, values),
        }
    }

    /// A new contiguous table of zeros; without time stamps, so that equal content gives equal files.
    pub fn new_table<T: H5Type>(&self, name: &str, shape: &[usize]) -> Result<Table> {
        self.allocated::<T>(name, shape, false)
    }

    /// As `new_table`, with its place in the file: others may write there once the file is closed.
    pub fn reserve<T: H5Type>(&self, name: &str, shape: &[usize]) -> Result<Table> {
        self.allocated::<T>(name, shape, true)
    }

    fn allocated<T: H5Type>(&self, name: &str, shape: &[usize], now: bool) -> Result<Table> {
        let builder = self.inner.new_dataset::<T>().no_chunk();
        let builder = builder.obj_track_times(false);
        let builder = match now {
            true => builder.alloc_time(Some(AllocTime::Early)),
            false => builder,
        };
        let inner = builder
            .shape(shape)
            .create(name)
            .map_err(fault(&self.path, "write it"))?;
        Ok(Table {
            inner,
            path: self.path.clone(),
        })
    }

    /// Sets a text attribute.
    pub fn set_text(&self, name: &str, text: &str) -> Result<()> {
        let text: VarLenUnicode = text
            .replace('\0', " ")
            .parse()
            .expect("text without NUL is a valid HDF5 string");
        let attribute = self.inner.new_attr::<VarLenUnicode>().create(name);
        attribute
            .and_then(|attribute| attribute.write_scalar(&text))
            .map_err(fault(&self.path, "write it"))
    }

    /// Sets an attribute of one or several numbers.
    pub fn set_numbers<T: H5Type>(&self, name: &str, values: &[T]) -> Result<()> {
        set_numbers(&self.inner, &self.path, name, values)
    }

    /// Gives an attribute that is there as many other numbers: in place, so that the file is whole at any moment of it.
    pub fn change_numbers<T: H5Type>(&self, name: &str, values: &[T]) -> Result<()> {
        let attribute = self.inner.attr(name);
        attribute
            .and_then(|attribute| attribute.write_raw(values))
            .map_err(fault(&self.path, "write it"))
    }

    /// A text attribute, if it is there.
    pub fn text(&self, name: &str) -> Option<String> {
        text(&self.path, name)
    }

    /// A numeric attribute, if it is there.
    pub fn numbers(&self, name: &str) -> Option<Vec<f64>> {
        examined(&self.path, Part::Attribute(name)).ok()?;
        let attribute = self.inner.attr(name).ok()?;
        let count = product(&attribute.shape())?;
        if count > NUMBERS as u64 || !attribute.dtype().is_ok_and(|kind| is_plain(&kind)) {
            return None;
        }
        attribute.read_raw::<f64>().ok()
    }

    /// Hands everything to the operating system and reports what went wrong on the way.
    pub fn close(self) -> Result<()> {
        self.inner.flush().map_err(fault(&self.path, "write it"))?;
        self.inner.close().map_err(fault(&self.path, "close it"))
    }
}

/// What the cells of a table are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Element {
    /// Bytes.
    U8,
    /// 32-bit floats.
    F32,
    /// Any other integer.
    Integer,
    /// Anything else.
    Other,
}

/// One HDF5 data set.
pub struct Table {
    inner: hdf5::Dataset,
    path: PathBuf,
}

impl Table {
    /// Its dimensions.
    pub fn shape(&self) -> Vec<usize> {
        self.inner.shape()
    }

    /// How many numbers it has.
    pub fn len(&self) -> usize {
        self.inner.shape().iter().product()
    }

    /// Whether it has none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Where numbers of so many bytes end that begin at `start`, if any file can be as long.
    pub fn end(&self, start: u64, bytes: u64) -> Option<usize> {
        let length = product(&self.inner.shape())?.checked_mul(bytes)?;
        usize::try_from(start.checked_add(length)?).ok()
    }

    /// Refuses dimensions that the file cannot hold: a reader would allocate what they ask for.
    fn checked(self, name: &str) -> Result<Self> {
        let shape = self.inner.shape();
        let wrong = |problem: String| {
            let hint = "the file is damaged, or not what it says: get or make it again";
            Err(Error::file(&self.path, problem, hint))
        };
        if shape.is_empty() {
            return wrong(format!("its data set `{name}` has no dimensions"));
        }
        let length = fs::metadata(&self.path).map_err(Error::io("read", &self.path))?;
        let stored = self.inner.storage_size().min(length.len());
        let most = match self.inner.is_chunked() {
            true => stored.saturating_mul(UNPACKED).max(SMALL),
            false => stored,
        };
        if self.bytes(&shape).is_none_or(|bytes| bytes > most) {
            return wrong(format!(
                "its data set `{name}` is of {shape:?}, and has {stored} bytes in the file"
            ));
        }
        self.with_chunks(name)
    }

    /// Refuses chunks that HDF5 could not have packed into this file.
    fn with_chunks(self, name: &str) -> Result<Self> {
        let Some(chunk) = self.inner.chunk() else {
            return Ok(self);
        };
        let length = fs::metadata(&self.path).map_err(Error::io("read", &self.path))?;
        let most = length.len().saturating_mul(UNPACKED).max(SMALL);
        if chunk.contains(&0) || self.bytes(&chunk).is_none_or(|bytes| bytes > most) {
            let problem = format!("its data set `{name}` is in chunks of {chunk:?}");
            let hint = "the file is damaged, or not what it says: get or make it again";
            return Err(Error::file(&self.path, problem, hint));
        }
        Ok(self)
    }

    /// Bytes of so many of its cells.
    fn bytes(&self, dims: &[usize]) -> Option<u64> {
        let each = self.inner.dtype().ok()?.size() as u64;
        product(dims)?.checked_mul(each)
    }

    /// Its element type.
    pub fn element(&self) -> Element {
        if !self.is_plain() {
            return Element::Other;
        }
        match self.inner.dtype().and_then(|kind| kind.to_descriptor()) {
            Ok(TypeDescriptor::Unsigned(hdf5::types::IntSize::U1)) => Element::U8,
            Ok(TypeDescriptor::Float(FloatSize::U4)) => Element::F32,
            Ok(TypeDescriptor::Unsigned(_) | TypeDescriptor::Integer(_)) => Element::Integer,
            _ => Element::Other,
        }
    }

    /// Whether its cells are numbers that can be read: HDF5 does not live through others.
    fn is_plain(&self) -> bool {
        self.inner.dtype().is_ok_and(|kind| is_plain(&kind))
    }

    /// Whether its cells are of type `T`.
    pub fn holds<T: H5Type>(&self) -> bool {
        self.inner.dtype().is_ok_and(|kind| kind.is::<T>())
    }

    /// Where its bytes start in the file, when they lie there in one piece and in this machine's order.
    pub fn offset(&self) -> Option<u64> {
        let order = self.inner.dtype().ok()?.byte_order();
        let native = matches!(order, hdf5::datatype::ByteOrder::None) || order == native_order();
        if self.inner.is_chunked() || !native {
            None
        } else {
            self.inner.offset()
        }
    }

    /// Sets an attribute of one or several numbers.
    pub fn set_numbers<T: H5Type>(&self, name: &str, values: &[T]) -> Result<()> {
        set_numbers(&self.inner, &self.path, name, values)
    }

    /// Reads `rows` of the first dimension, converted to `T`.
    pub fn read<T: H5Type>(&self, rows: Range<usize>) -> Result<Vec<T>> {
        self.read_part(self.select(rows))
    }

    /// Reads a part, converted to `T`.
    fn read_part<T: H5Type>(&self, part: Hyperslab) -> Result<Vec<T>> {
        if !self.is_plain() {
            let problem = "has numbers of which not all bits count";
            let hint = "the file is damaged, or not what it says: get or make it again";
            return Err(Error::file(&self.path, problem, hint));
        }
        let values: hdf5::Result<ArrayD<T>> = self.inner.read_slice(part);
        let values = values.map_err(fault(&self.path, "read it"))?;
        Ok(values.into_raw_vec_and_offset().0)
    }

    /// Writes whole rows, from row `start` on.
    pub fn write<T: H5Type>(&self, start: usize, values: &[T]) -> Result<()> {
        let mut shape = self.shape();
        let row: usize = shape[1..].iter().product();
        shape[0] = values.len() / row.max(1);
        let rows = start..start + shape[0];
        let view = ArrayViewD::from_shape(shape, values).expect("values are whole rows");
        self.inner
            .write_slice(view, self.select(rows))
            .map_err(fault(&self.path, "write it"))
    }

    fn select(&self, rows: Range<usize>) -> Hyperslab {
        let mut all = vec![
            SliceOrIndex::Unlimited {
                start: 0,
                step: 1,
                block: 1
            };
            self.inner.ndim()
        ];
        all[0] = rows.into();
        Hyperslab::from(all)
    }
}

fn product(dims: &[usize]) -> Option<u64> {
    dims.iter()
        .try_fold(1u64, |product, &dim| product.checked_mul(dim as u64))
}

fn set_numbers<T: H5Type>(
    of: &hdf5::Location,
    path: &Path,
    name: &str,
    values: &[T],
) -> Result<()> {
    let attribute = of.new_attr::<T>().shape(values.len()).create(name);
    attribute
        .and_then(|attribute| attribute.write_raw(values))
        .map_err(fault(path, "write it"))
}

fn native_order() -> hdf5::datatype::ByteOrder {
    if cfg!(target_endian = "little") {
        hdf5::datatype::ByteOrder::LittleEndian
    } else {
        hdf5::datatype::ByteOrder::BigEndian
    }
}

fn fault(path: &Path, what: &str) -> impl FnOnce(hdf5::Error) -> Error {
    move |error| {
        let hint = "is the disk full, or the file damaged?";
        Error::file(
            path,
            format!("HDF5 cannot {what} ({})", brief(&error)),
            hint,
        )
    }
}

/// Refuses what HDF5's library does not live through.
fn examined(path: &Path, part: Part) -> Result<()> {
    examiner::survives(path, part).map_err(|end| {
        let problem = format!("HDF5's library cannot take it (a process that tried: {end})");
        let hint = "the file is damaged or cut short: copy or make it again";
        Error::file(path, problem, hint)
    })
}

/// The innermost cause, without the names of C functions; of a refused read or write, the system's words alone.
fn brief(error: &hdf5::Error) -> String {
    let text = error.to_string();
    let system = text.split_once("error message = '");
    if let Some((words, _)) = system.and_then(|(_, behind)| behind.split_once('\'')) {
        return words.to_owned();
    }
    text.rsplit("(): ").next().unwrap_or(&text).to_owned()
}
