//! Compiled kernels on disk, so that the second run starts at once.
//!
//! Many processes may look and write at the same time: files appear whole, under their name, or not at all. A file that is damaged
//! is made anew; a folder that cannot be used is no error.

use std::fs;
use std::path::{Path, PathBuf};

use xxhash_rust::xxh3::xxh3_64;

use crate::Result;
use crate::files::Staged;

/// What every file begins with, before the check sum of the rest.
const MARK: &[u8; 8] = b"phalanx1";

/// A folder with images, if there is one.
pub(super) struct Cache {
    folder: Option<PathBuf>,
}

impl Cache {
    /// The user's: `$XDG_CACHE_HOME/phalanx` or `~/.cache/phalanx`.
    pub(super) fn of_user() -> Self {
        let set = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty());
        let folder = set("XDG_CACHE_HOME")
            .map(PathBuf::from)
            .or_else(|| set("HOME").map(|home| Path::new(&home).join(".cache")));
        Self {
            folder: folder.map(|folder| folder.join("phalanx")),
        }
    }

    /// The image called `name` that was made from `key`; made now if there is none.
    pub(super) fn get_or(
        &self,
        name: &str,
        key: &str,
        make: impl FnOnce() -> Result<Vec<u8>>,
    ) -> Result<Vec<u8>> {
        let kept = self.file(name, key).and_then(|file| read(&file));
        kept.map_or_else(|| self.renew(name, key, make), Ok)
    }

    /// The image, made now, and kept.
    pub(super) fn renew(
        &self,
        name: &str,
        key: &str,
        make: impl FnOnce() -> Result<Vec<u8>>,
    ) -> Result<Vec<u8>> {
        let image = make()?;
        if let Some(file) = self.file(name, key) {
            // Nothing depends on it: the next run compiles again.
            let _ = write(&file, &image);
        }
        Ok(image)
    }

    fn file(&self, name: &str, key: &str) -> Option<PathBuf> {
        let hash = xxh3_64(key.as_bytes());
        let file = |folder: &PathBuf| folder.join(format!("{name}-{hash:016x}"));
        self.folder.as_ref().map(file)
    }
}

fn read(file: &Path) -> Option<Vec<u8>> {
    let bytes = fs::read(file).ok()?;
    let image = bytes.strip_prefix(MARK)?.get(8..)?;
    let whole = bytes[8..16] == xxh3_64(image).to_le_bytes();
    whole.then(|| image.to_vec())
}

fn write(file: &Path, image: &[u8]) -> Result<()> {
    let staged = Staged::new(file, true)?;
    let parts = [&MARK[..], &xxh3_64(image).to_le_bytes(), image];
    fs::write(staged.path(), parts.concat()).map_err(crate::Error::io("write", file))?;
    staged.commit()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Error;

    fn never() -> Result<Vec<u8>> {
        Err(Error::Usage("made although it is there".into()))
    }

    fn cache(folder: &Path) -> Cache {
        Cache {
            folder: Some(folder.join("new")),
        }
    }

    #[test]
    fn what_was_made_once_is_found_again_and_only_for_its_key() {
        let folder = tempfile::tempdir().unwrap();
        let cache = cache(folder.path());
        let made = cache.get_or("a", "key", || Ok(vec![1, 2, 3])).unwrap();
        assert_eq!(made, [1, 2, 3]);
        assert_eq!(cache.get_or("a", "key", never).unwrap(), [1, 2, 3]);
        assert!(cache.get_or("a", "other", never).is_err());
        assert!(cache.get_or("b", "key", never).is_err());
    }

    #[test]
    fn a_damaged_file_is_made_anew_and_is_whole_then() {
        let folder = tempfile::tempdir().unwrap();
        let cache = cache(folder.path());
        cache.get_or("a", "key", || Ok(vec![7; 100])).unwrap();
        let file = cache.file("a", "key").unwrap();
        let whole = fs::read(&file).unwrap();
        let mut turned = whole.clone();
        turned[50] ^= 1;
        let damaged = [&whole[..40], &whole[..10], &[], &turned];
        for bytes in damaged {
            fs::write(&file, bytes).unwrap();
            let made = cache.get_or("a", "key", || Ok(vec![7; 100])).unwrap();
            assert_eq!(made, [7; 100]);
            assert_eq!(fs::read(&file).unwrap(), whole);
        }
    }

    #[test]
    fn a_folder_that_cannot_be_used_is_no_error() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("new"), "a file").unwrap();
        let cache = cache(folder.path());
        assert_eq!(cache.get_or("a", "key", || Ok(vec![5])).unwrap(), [5]);
        let nowhere = Cache { folder: None };
        assert_eq!(nowhere.get_or("a", "key", || Ok(vec![5])).unwrap(), [5]);
    }

    #[test]
    fn many_who_race_for_a_file_all_get_it_whole() {
        let folder = tempfile::tempdir().unwrap();
        let cache = cache(folder.path());
        let image: Vec<u8> = (0..100_000u32).map(|i| i.wrapping_mul(i) as u8).collect();
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| {
                    for _ in 0..5 {
                        let made = cache.renew("a", "key", || Ok(image.clone())).unwrap();
                        assert!(made == image);
                        assert!(cache.get_or("a", "key", never).unwrap() == image);
                    }
                });
            }
        });
        let files = fs::read_dir(folder.path().join("new")).unwrap();
        assert_eq!(files.count(), 1, "nothing is left beside it");
    }
}
