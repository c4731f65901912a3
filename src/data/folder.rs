//! Photos that are read one file at a time, each when it is asked for.

use std::path::{Path, PathBuf};

use super::photos::{Listing, Readers};
use crate::{Error, Result};

/// Photos in their own files.
pub(super) struct Folder {
    path: PathBuf,
    photos: Vec<PathBuf>,
    readers: Readers,
}

impl Folder {
    /// The photos of a listing of `path`, with those who read them.
    pub(super) fn new(path: &Path, listing: Listing, readers: Readers) -> Self {
        Self {
            path: path.to_path_buf(),
            photos: listing.photos.into_iter().map(|photo| photo.path).collect(),
            readers,
        }
    }

    /// Where they are, from the folder on.
    pub(super) fn photos(&self) -> &[PathBuf] {
        &self.photos
    }

    /// What they become.
    pub(super) fn shape(&self) -> super::Shape {
        self.readers.shape()
    }

    /// The pixels of photo `row`.
    pub(super) fn with_pixels<R>(
        &self,
        row: usize,
        visit: impl FnOnce(&[u8]) -> Result<R>,
    ) -> Result<R> {
        let path = self.path.join(&self.photos[row]);
        self.readers.with(|reader| {
            let pixels = reader.photo(&path)?.map_err(|problem| {
                let hint = "mend or remove it; `phalanx data pack --bad skip` leaves out what cannot be read";
                Error::file(&path, problem, hint)
            });
            pixels.and_then(visit)
        })
    }
}
