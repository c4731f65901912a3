//! The order of all updates of an asynchronous run, written down by each rank and read by `phalanx replay`.
//!
//! Each rank writes a file `rank-NNNN.updates`: for each of its updates, all numbers little-endian, the step (u64), what its
//! rate was divided by (u64), and for each stripe of the parameters how many updates it had had when this rank read it and
//! when this rank added to it (u32 each). Parameters and updates between the two follow from that, bit for bit.

use std::fs::{self, File};
use std::io::{BufReader, BufWriter, Read, Write};
use std::path::{Path, PathBuf};

use crate::comm::Stripes;
use crate::{Error, Result};

/// The file of a rank.
fn name(rank: usize) -> String {
    format!("rank-{rank:04}.updates")
}

/// Writes one rank's updates.
pub(super) struct Recorder {
    path: PathBuf,
    file: BufWriter<File>,
}

impl Recorder {
    /// In the folder `folder`, which is there.
    pub(super) fn create(folder: &Path, rank: usize) -> Result<Self> {
        let path = folder.join(name(rank));
        let file = File::create(&path).map_err(Error::io("create", &path))?;
        Ok(Self {
            path,
            file: BufWriter::with_capacity(1 << 16, file),
        })
    }

    pub(super) fn write(
        &mut self,
        step: u64,
        divisor: u64,
        (read, added): (&[u32], &[u32]),
    ) -> Result<()> {
        let mut all = || {
            self.file.write_all(&step.to_le_bytes())?;
            self.file.write_all(&divisor.to_le_bytes())?;
            let pairs = read.iter().zip(added);
            let mut numbers = pairs.flat_map(|(read, added)| [read, added]);
            numbers.try_for_each(|number| self.file.write_all(&number.to_le_bytes()))
        };
        all().map_err(Error::io("write", &self.path))
    }

    /// Once the last update is written.
    pub(super) fn finish(mut self) -> Result<()> {
        let flushed = self.file.flush();
        flushed.map_err(Error::io("write", &self.path))
    }
}

/// One update of one rank.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Update {
    /// Its step.
    pub step: u64,
    /// What its rate was divided by.
    pub divisor: u64,
    /// How many updates each stripe had had when its parameters were read.
    pub read: Vec<u32>,
    /// And when this update was added.
    pub added: Vec<u32>,
}

/// One rank's updates, in their order.
pub struct Record {
    path: PathBuf,
    file: BufReader<File>,
    /// The bytes of an update.
    update: Vec<u8>,
    left: u64,
}

impl Record {
    /// Those of `rank`, of a run with so many parameters.
    pub fn open(folder: &Path, rank: usize, params: usize) -> Result<Self> {
        let stripes = Stripes::count_of(params);
        let path = folder.join(name(rank));
        let file = File::open(&path).map_err(Error::io("read", &path))?;
        let bytes = fs::metadata(&path).map_err(Error::io("read", &path))?.len();
        let each = 16 + 8 * stripes as u64;
        if !bytes.is_multiple_of(each) {
            let problem =
                format!("{bytes} bytes are not a whole number of updates of {each} bytes");
            let hint =
                "the run was cut off while it recorded, or this is the record of another model";
            return Err(Error::file(&path, problem, hint));
        }
        Ok(Self {
            path,
            file: BufReader::with_capacity(1 << 16, file),
            update: vec![0; each as usize],
            left: bytes / each,
        })
    }

    /// How many are left.
    pub fn left(&self) -> u64 {
        self.left
    }

    /// The next one, if there is one.
    pub fn take(&mut self) -> Result<Option<Update>> {
        let Some(left) = self.left.checked_sub(1) else {
            return Ok(None);
        };
        self.left = left;
        let bytes = &mut self.update;
        (self.file.read_exact(bytes)).map_err(Error::io("read", &self.path))?;
        let wide = |at: usize| {
            let eight = bytes[at..at + 8].try_into().expect("eight bytes");
            u64::from_le_bytes(eight)
        };
        let pairs = bytes[16..].chunks_exact(8).map(|eight| {
            let [a, b, c, d, e, f, g, h] = eight.try_into().expect("eight bytes");
            (
                u32::from_le_bytes([a, b, c, d]),
                u32::from_le_bytes([e, f, g, h]),
            )
        });
        let (read, added) = pairs.unzip();
        Ok(Some(Update {
            step: wide(0),
            divisor: wide(8),
            read,
            added,
        }))
    }
}
