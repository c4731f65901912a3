//! The photos that are read, and the sets that are packed of them.

use std::fs::{self, File};
use std::io::Read;
use std::path::{Path, PathBuf};

use super::design::Kind;
use crate::comm::{Comm, agree, block, path_of_first};
use crate::data::photos::{Pack, Records, jpeg_of_planes, pack};
use crate::data::{Dataset, Frame, images};
use crate::{Error, Result, files};

/// Classes of photos that are painted, and how well they are compressed.
const CLASSES: u32 = 10;
const QUALITY: u8 = 90;

/// Folders that are there for the time of a study.
pub(super) struct Sets {
    work: PathBuf,
    photos: PathBuf,
    frame: Frame,
    /// Whether this rank removes them.
    first: bool,
}

impl Sets {
    /// How many photos there are in a folder.
    pub(super) fn count(photos: &Path, frame: Frame) -> Result<usize> {
        Ok(Dataset::open_framed(photos, Some(frame), None)?.len())
    }

    /// Packs the photos of a folder, or `all` that are painted, in a new folder below `work`; *collective*.
    pub(super) fn make(
        comm: &dyn Comm,
        (photos, all): (Option<&Path>, usize),
        frame: Frame,
        work: Option<&Path>,
    ) -> Result<Self> {
        let temporary = std::env::temp_dir();
        let name = format!("phalanx-bench-input-{}", std::process::id());
        let work = path_of_first(comm, Some(work.unwrap_or(&temporary).join(name)));
        let sets = Self {
            photos: photos.map_or_else(|| work.join("photos"), Path::to_path_buf),
            work,
            frame,
            first: comm.rank() == 0,
        };
        if photos.is_none() {
            let mine = block(all, comm.size(), comm.rank());
            let painted = mine.into_iter().try_for_each(|i| sets.paint(i));
            agree(comm, painted)?;
        }
        for records in [Records::Jpeg, Records::Pixels] {
            pack(comm, &sets.packed(records)).map_err(without_bad)?;
        }
        Ok(sets)
    }

    fn packed(&self, records: Records) -> Pack {
        let kind = match records {
            Records::Jpeg => Kind::Jpeg,
            Records::Pixels => Kind::Pixels,
        };
        Pack {
            fit: self.frame.fit,
            records,
            shard_size: 64 << 20,
            force: true,
            ..Pack::new(self.photos.clone(), self.path(kind), self.frame.shape)
        }
    }

    /// Paints a photo.
    fn paint(&self, i: usize) -> Result<()> {
        let shape = self.frame.shape;
        let mut pixels = vec![0; shape.len()];
        let place = (shape.c, shape.h, shape.w);
        let class = images::paint(1, i as u64, place, CLASSES, &mut pixels);
        let folder = self.photos.join(format!("class-{class}"));
        fs::create_dir_all(&folder).map_err(Error::io("create folder", &folder))?;
        let path = folder.join(format!("{i:06}.jpg"));
        let file = jpeg_of_planes(&pixels, shape, QUALITY)
            .map_err(|problem| Error::file(&path, problem, ""))?;
        fs::write(&path, file).map_err(Error::io("write", &path))
    }

    fn path(&self, kind: Kind) -> PathBuf {
        match kind {
            Kind::Files => self.photos.clone(),
            kind => self.work.join(kind.name()),
        }
    }

    /// Opens the set of a kind; copies are of pixels.
    pub(super) fn open(&self, kind: Kind) -> Result<Dataset> {
        let kind = match kind {
            Kind::Copy => Kind::Pixels,
            kind => kind,
        };
        Dataset::open_framed(&self.path(kind), Some(self.frame), None)
    }

    /// Reads all files of a kind, so that they are in memory, or has the system forget them. Gives how many bytes they have.
    pub(super) fn prepare(&self, kind: Kind, cold: bool) -> Result<u64> {
        let mut folders = vec![self.path(kind)];
        let (mut buffer, mut bytes) = (vec![0; 1 << 20], 0);
        while let Some(folder) = folders.pop() {
            for entry in fs::read_dir(&folder).map_err(Error::io("read folder", &folder))? {
                let path = entry.map_err(Error::io("read folder", &folder))?.path();
                if path.is_dir() {
                    folders.push(path);
                    continue;
                }
                let mut file = File::open(&path).map_err(Error::io("read", &path))?;
                bytes += file.metadata().map_err(Error::io("read", &path))?.len();
                if cold {
                    // What is not on the disk yet cannot be forgotten.
                    let _ = file.sync_data();
                    files::forget(&file);
                    continue;
                }
                while file.read(&mut buffer).map_err(Error::io("read", &path))? > 0 {}
            }
        }
        Ok(bytes)
    }
}

/// What can be done here about a photo that cannot be read.
fn without_bad(error: Error) -> Error {
    match error {
        Error::File {
            path,
            problem,
            hint,
        } if hint.starts_with("--bad") => {
            let hint = "a study needs photos that can all be read; `phalanx data pack --bad skip` names the others";
            Error::file(path, problem, hint)
        }
        error => error,
    }
}

impl Drop for Sets {
    fn drop(&mut self) {
        if self.first {
            // What cannot be removed is only litter.
            let _ = fs::remove_dir_all(&self.work);
        }
    }
}
