//! One photo at a time: read, decoded, upright and of the right size.

use std::io::{self, Read};
use std::path::Path;
use std::sync::Mutex;

use super::decode::{decode, is_jpeg, jpeg_of_planes};
use super::fit::Fitter;
use super::{Fit, MOST_PIXELS, Pack};
use crate::data::Shape;
use crate::{Error, Result, files};

/// How well photos are compressed that were no JPEG files.
const QUALITY: u8 = 90;

/// Makes pixels of photos, with memory that is used again.
pub(in crate::data) struct Reader {
    shape: Shape,
    fit: Fit,
    most_pixels: u64,
    fitter: Fitter,
    file: Vec<u8>,
    pixels: Vec<u8>,
    /// Pixels that the photo had which was read last.
    had: u64,
}

impl Reader {
    /// For photos that become `shape`, and have at most so many pixels.
    pub(in crate::data) fn new(shape: Shape, fit: Fit, most_pixels: u64) -> Self {
        Self {
            shape,
            fit,
            most_pixels,
            fitter: Fitter::default(),
            file: Vec::new(),
            pixels: vec![0; shape.len()],
            had: 0,
        }
    }

    pub(super) fn of(pack: &Pack) -> Self {
        Self::new(pack.shape, pack.fit, pack.most_pixels)
    }

    /// The pixels (c, h, w) of the photo at `path`, or why there are none; an error if it may be a good photo, which the system
    /// cannot read now.
    pub(in crate::data) fn photo(&mut self, path: &Path) -> Result<Result<&[u8], String>> {
        let mut file = std::mem::take(&mut self.file);
        let made = match self.load(path, &mut file) {
            Ok(read) => Ok(read.and_then(|()| self.make(&file))),
            Err(error) if files::is_about_file(&error) => {
                Ok(Err(format!("cannot be read: {error}")))
            }
            Err(error) => Err(Error::io("read", path)(error)),
        };
        self.file = file;
        Ok(made?.map(|()| &self.pixels[..]))
    }

    /// The pixels (c, h, w) of a photo's file, or why there are none.
    pub(in crate::data) fn pixels(&mut self, file: &[u8]) -> Result<&[u8], String> {
        self.make(file).map(|()| &self.pixels[..])
    }

    /// Where the pixels of the photo are that was read last, for who takes them and leaves as much memory.
    pub(super) fn memory(&mut self) -> &mut Vec<u8> {
        &mut self.pixels
    }

    /// The photo that was read last as a JPEG file: as it was, unless a quality is given or it is too large for readers.
    pub(super) fn jpeg(&self, quality: Option<u8>) -> Result<Vec<u8>, String> {
        if quality.is_none() && is_jpeg(&self.file) && self.had <= MOST_PIXELS {
            return Ok(self.file.clone());
        }
        jpeg_of_planes(&self.pixels, self.shape, quality.unwrap_or(QUALITY))
    }

    /// All bytes of a file that is not larger than a photo can be, or why it is none.
    fn load(&self, path: &Path, bytes: &mut Vec<u8>) -> io::Result<Result<(), String>> {
        let mut file = files::open_at_once(path)?;
        let about = file.metadata()?;
        if !about.is_file() {
            return Ok(Err("is no file".into()));
        }
        let most = self.most_pixels.saturating_mul(8).saturating_add(1 << 20);
        if about.len() > most {
            let length = about.len();
            let problem = format!("has {length} bytes, more than such photos can have");
            return Ok(Err(problem));
        }
        bytes.resize(about.len() as usize, 0);
        file.read_exact(bytes).map(Ok)
    }

    fn make(&mut self, file: &[u8]) -> Result<(), String> {
        let picture = decode(file, self.shape.c, self.most_pixels)?;
        self.had = (picture.w * picture.h) as u64;
        self.fitter
            .fit(&picture, self.shape, self.fit, &mut self.pixels);
        Ok(())
    }
}

/// Readers for any number of threads, each used by one at a time.
pub(in crate::data) struct Readers {
    shape: Shape,
    fit: Fit,
    idle: Mutex<Vec<Reader>>,
}

impl Readers {
    /// For photos that become `shape`.
    pub(in crate::data) fn new(shape: Shape, fit: Fit) -> Self {
        Self {
            shape,
            fit,
            idle: Mutex::default(),
        }
    }

    /// What photos become.
    pub(in crate::data) fn shape(&self) -> Shape {
        self.shape
    }

    /// Lends a reader to `read`.
    pub(in crate::data) fn with<R>(&self, read: impl FnOnce(&mut Reader) -> R) -> R {
        let idle = || self.idle.lock().expect("nobody panics with the readers");
        let reader = idle().pop();
        let mut reader = reader.unwrap_or_else(|| Reader::new(self.shape, self.fit, MOST_PIXELS));
        let seen = read(&mut reader);
        idle().push(reader);
        seen
    }
}
