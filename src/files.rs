//! Writing files and folders so that nobody ever sees half of one; and what else the system is asked about files.

use std::fs::{self, File};
use std::io::{self, IoSlice, Read};
use std::num::NonZeroU64;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use xxhash_rust::xxh3::Xxh3;

use crate::{Error, Result};

/// Bytes in all, and bytes that a user can still write, of the file system of `folder`.
pub fn space(folder: &Path) -> Option<(u64, u64)> {
    let space = rustix::fs::statvfs(folder).ok()?;
    let bytes = |blocks: u64| blocks.saturating_mul(space.f_frsize);
    Some((bytes(space.f_blocks), bytes(space.f_bavail)))
}

/// Opens a file to read it; what turns out to be a pipe does not wait for whoever writes to it.
pub fn open_at_once(path: &Path) -> io::Result<File> {
    let flags = rustix::fs::OFlags::NONBLOCK.bits() as i32;
    match File::options().read(true).custom_flags(flags).open(path) {
        // Somebody has a lease on it, and was asked to give it back: that is waited for.
        Err(error) if error.kind() == io::ErrorKind::WouldBlock && path.is_file() => {
            File::open(path)
        }
        opened => opened,
    }
}

/// Whether an error of reading a file is about the file, and will come again; any other is about the machine and the moment.
pub fn is_about_file(error: &io::Error) -> bool {
    use io::ErrorKind::{
        InvalidFilename, InvalidInput, IsADirectory, NotADirectory, NotFound, PermissionDenied,
        UnexpectedEof,
    };
    use rustix::io::Errno;
    let no_file = [Errno::LOOP, Errno::NXIO, Errno::NODEV];
    matches!(
        error.kind(),
        NotFound
            | PermissionDenied
            | IsADirectory
            | NotADirectory
            | InvalidFilename
            | InvalidInput
            | UnexpectedEof
    ) || no_file
        .map(|errno| Some(errno.raw_os_error()))
        .contains(&error.raw_os_error())
}

/// Lets the system read so many bytes from `offset` ahead of their use; where it does not, they come later.
pub fn read_ahead(file: &File, offset: u64, bytes: usize) {
    let advice = rustix::fs::Advice::WillNeed;
    let _ = rustix::fs::fadvise(file, offset, NonZeroU64::new(bytes as u64), advice);
}

/// Lets the system forget what it has in memory of a file that is not being written; where it does not, reads of it stay fast.
pub fn forget(file: &File) {
    let _ = rustix::fs::fadvise(file, 0, None, rustix::fs::Advice::DontNeed);
}

/// Takes room on the disk for all of a file, which may be written piece by piece: a disk that is too small is told of at once,
/// and pieces lie one behind the other. Where a file system cannot, room is taken as it is written.
pub fn take_room(path: &Path) -> Result<()> {
    use rustix::fs::{FallocateFlags, fallocate};
    use rustix::io::Errno;
    let file = File::options().write(true).open(path);
    let file = file.map_err(Error::io("write", path))?;
    let bytes = file.metadata().map_err(Error::io("read", path))?.len();
    loop {
        match fallocate(&file, FallocateFlags::empty(), 0, bytes) {
            Err(Errno::INTR) => {}
            Err(error @ (Errno::NOSPC | Errno::DQUOT | Errno::FBIG | Errno::IO)) => {
                return Err(Error::io("write", path)(error.into()));
            }
            _ => return Ok(()),
        }
    }
}

/// The most parts that systems take at once.
const MOST_PARTS: usize = 1024;

/// Writes `parts` one behind the other, beginning `at` a place in a file.
pub fn write_all_at(file: &File, parts: &[&[u8]], mut at: u64) -> io::Result<()> {
    let mut parts: Vec<IoSlice> = parts.iter().map(|part| IoSlice::new(part)).collect();
    let mut parts = &mut parts[..];
    while !parts.is_empty() {
        match rustix::io::pwritev(file, &parts[..parts.len().min(MOST_PARTS)], at) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(written) => {
                IoSlice::advance_slices(&mut parts, written);
                at += written as u64;
            }
            Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

/// How many were staged by this process: no two share a temporary name.
static STAGED: AtomicU64 = AtomicU64::new(0);

/// A file or folder under a temporary name beside its target. Dropped without `commit`, it is removed.
pub struct Staged {
    temporary: PathBuf,
    target: PathBuf,
    replace: bool,
}

impl Staged {
    /// Prepares to write `target`; an existing one is refused unless `replace`.
    pub fn new(target: &Path, replace: bool) -> Result<Self> {
        if target.exists() && !replace {
            return Err(Error::Exists(target.to_path_buf()));
        }
        let name = target
            .file_name()
            .ok_or_else(|| Error::Usage(format!("{} names no file", target.display())))?
            .to_string_lossy();
        let folder = parent(target);
        fs::create_dir_all(folder).map_err(Error::io("create folder", folder))?;
        let (process, number) = (std::process::id(), STAGED.fetch_add(1, Ordering::Relaxed));
        let temporary = folder.join(format!(".{name}.partial-{process}-{number}"));
        let staged = Self::written(temporary, target, replace);
        staged.remove();
        Ok(staged)
    }

    /// What several processes have written as `temporary`, beside `target`.
    pub fn written(temporary: PathBuf, target: &Path, replace: bool) -> Self {
        Self {
            temporary,
            target: target.to_path_buf(),
            replace,
        }
    }

    /// Where to write until `commit`.
    pub fn path(&self) -> &Path {
        &self.temporary
    }

    /// Makes the whole content durable, then visible under its name in one step.
    pub fn commit(self) -> Result<()> {
        sync_all(&self.temporary)?;
        put(&self.temporary, &self.target, self.replace)
    }

    fn remove(&self) {
        // Nothing to remove is the usual case; anything else will show when the name is used.
        let _ = if self.temporary.is_dir() {
            fs::remove_dir_all(&self.temporary)
        } else {
            fs::remove_file(&self.temporary)
        };
    }
}

impl Drop for Staged {
    fn drop(&mut self) {
        self.remove();
    }
}

/// Where `put` has the old one while it removes it, and for a moment the new one before.
pub fn aside(temporary: &Path) -> PathBuf {
    temporary.with_extension("replaced")
}

/// Puts the old one back where `put` was stopped before the new one had its place.
pub fn put_back(temporary: &Path, target: &Path) -> Result<()> {
    let aside = aside(temporary);
    match aside.exists() && !target.exists() {
        true => rename(&aside, target).and_then(|()| sync(parent(target))),
        false => Ok(()),
    }
}

fn rename(from: &Path, to: &Path) -> Result<()> {
    fs::rename(from, to).map_err(Error::io("rename to", to))
}

/// Makes what is at `temporary` visible as `target` in one step, when it is durable; an existing one is refused unless `replace`.
pub fn put(temporary: &Path, target: &Path, replace: bool) -> Result<()> {
    if target.exists() && !replace {
        return Err(Error::Exists(target.to_path_buf()));
    }
    if !target.is_dir() {
        rename(temporary, target)?;
        return sync(parent(target));
    }
    let aside = aside(temporary);
    if aside.exists() {
        // Of one who was stopped here; the target is there.
        fs::remove_dir_all(&aside).map_err(Error::io("remove", &aside))?;
    }
    // Under its own name the new one would be taken for whole when it is the old one.
    rename(temporary, &aside)?;
    if exchange(&aside, target).is_err() {
        rename(&aside, temporary)?;
        replace_in_two(temporary, target, &aside)?;
    }
    sync(parent(target))?;
    fs::remove_dir_all(&aside).map_err(Error::io("remove", &aside))
}

/// Two folders take each other's place in one step, where the file system can do that.
fn exchange(one: &Path, other: &Path) -> io::Result<()> {
    use rustix::fs::{CWD, RenameFlags, renameat_with};
    Ok(renameat_with(CWD, one, CWD, other, RenameFlags::EXCHANGE)?)
}

/// The same in two steps: the old one steps aside first, and is back on failure.
fn replace_in_two(temporary: &Path, target: &Path, aside: &Path) -> Result<()> {
    rename(target, aside)?;
    rename(temporary, target).or_else(|error| {
        rename(aside, target)?;
        Err(error)
    })
}

/// Writes `text` to `path` in one step, replacing what was there.
pub fn write_text(path: &Path, text: &str) -> Result<()> {
    write(path, text.as_bytes())
}

/// Writes `bytes` to `path` in one step, replacing what was there.
pub fn write(path: &Path, bytes: &[u8]) -> Result<()> {
    let staged = Staged::new(path, true)?;
    fs::write(staged.path(), bytes).map_err(Error::io("write", path))?;
    staged.commit()
}

/// Bytes that a checksum takes at once: they are still in the cache when they are summed up.
const AT_ONCE: usize = 256 << 10;

/// Size and XXH3 of a file; `advanced` is told of every step forward.
pub fn checksum(path: &Path, advanced: &dyn Fn()) -> Result<(u64, String)> {
    let mut file = File::open(path).map_err(Error::io("read", path))?;
    let (mut buffer, mut hash, mut bytes) = (vec![0; AT_ONCE], Xxh3::new(), 0);
    loop {
        let read = file.read(&mut buffer).map_err(Error::io("read", path))?;
        if read == 0 {
            return Ok((bytes, format!("{:016x}", hash.digest())));
        }
        hash.update(&buffer[..read]);
        bytes += read as u64;
        advanced();
    }
}

/// The largest text that is read at once: what somebody wrote by hand, or phalanx for people to read.
const LONGEST: u64 = 1 << 20;

/// All of a short text.
pub fn read_text(path: &Path) -> Result<String> {
    let mut text = String::new();
    let file = File::open(path).map_err(Error::io("read", path))?;
    let read = file.take(LONGEST + 1).read_to_string(&mut text);
    read.map_err(Error::io("read", path))?;
    if text.len() as u64 > LONGEST {
        let problem = format!("is longer than {LONGEST} bytes");
        return Err(Error::file(path, problem, "is it the right file?"));
    }
    Ok(text)
}

fn parent(path: &Path) -> &Path {
    match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    }
}

/// Makes what is at `path` durable: a file's content, or which names a folder holds.
pub fn sync(path: &Path) -> Result<()> {
    File::open(path)
        .and_then(|file| file.sync_all())
        .map_err(Error::io("sync", path))
}

/// Makes a file durable, or a folder with all that is in it, however deep.
fn sync_all(path: &Path) -> Result<()> {
    if path.is_dir() {
        let unread = || Error::io("read", path);
        let entries = fs::read_dir(path).map_err(unread())?;
        let paths = entries.map(|entry| entry.map(|entry| entry.path()));
        let paths: Vec<PathBuf> = paths.collect::<io::Result<_>>().map_err(unread())?;
        if paths.iter().any(|path| path.is_dir()) {
            // Folders in folders are of many small files, which the system writes faster together than in turns. What goes
            // wrong shows when each is asked for.
            let _ = File::open(path).map(rustix::fs::syncfs);
        }
        paths.iter().try_for_each(|path| sync_all(path))?;
    }
    sync(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_uncommitted_file_leaves_no_trace_and_the_old_one_in_place() {
        let folder = tempfile::tempdir().unwrap();
        let target = folder.path().join("a.txt");
        write_text(&target, "old").unwrap();
        assert!(matches!(Staged::new(&target, false), Err(Error::Exists(_))));
        let staged = Staged::new(&target, true).unwrap();
        fs::write(staged.path(), "half of the n").unwrap();
        drop(staged);
        assert_eq!(fs::read_to_string(&target).unwrap(), "old");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    }

    #[test]
    fn parts_are_written_one_behind_the_other_however_many() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        let file = File::create(&path).unwrap();
        let parts: Vec<Vec<u8>> = (0..2500).map(|i| vec![i as u8; i % 4]).collect();
        let parts: Vec<&[u8]> = parts.iter().map(Vec::as_slice).collect();
        write_all_at(&file, &parts, 2).unwrap();
        let all = [vec![0; 2], parts.concat()].concat();
        assert_eq!(fs::read(&path).unwrap(), all);
        let unwritable = File::open(&path).unwrap();
        assert!(write_all_at(&unwritable, &parts, 0).is_err());
    }

    #[test]
    fn a_machine_in_need_is_told_from_a_file_that_cannot_be_read() {
        use rustix::io::Errno;
        let about = |errno: Errno| is_about_file(&errno.into());
        let file = [
            Errno::NOENT,
            Errno::ACCESS,
            Errno::PERM,
            Errno::ISDIR,
            Errno::NOTDIR,
            Errno::LOOP,
            Errno::NAMETOOLONG,
            Errno::NXIO,
        ];
        let machine = [
            Errno::MFILE,
            Errno::NFILE,
            Errno::NOMEM,
            Errno::IO,
            Errno::STALE,
            Errno::AGAIN,
            Errno::INTR,
            Errno::TIMEDOUT,
            Errno::HOSTUNREACH,
        ];
        assert!(file.into_iter().all(about));
        assert!(!machine.into_iter().any(about));
        assert!(is_about_file(&io::ErrorKind::UnexpectedEof.into()));
    }

    #[test]
    fn a_folder_is_replaced_as_a_whole() {
        let folder = tempfile::tempdir().unwrap();
        let target = folder.path().join("set");
        for (round, file) in ["one", "two"].into_iter().enumerate() {
            let staged = Staged::new(&target, round > 0).unwrap();
            fs::create_dir(staged.path()).unwrap();
            fs::write(staged.path().join(file), file).unwrap();
            staged.commit().unwrap();
        }
        let names: Vec<_> = fs::read_dir(&target)
            .unwrap()
            .map(|e| e.unwrap().file_name())
            .collect();
        assert_eq!(names, ["two"]);
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    }

    /// Only what lay in a staged folder itself came to the disk, not what is in its folders.
    #[test]
    fn a_folder_comes_to_the_disk_however_deep_it_is() {
        let folder = tempfile::tempdir().unwrap();
        let target = folder.path().join("set");
        let staged = || {
            let staged = Staged::new(&target, false).unwrap();
            fs::create_dir_all(staged.path().join("class/deeper")).unwrap();
            fs::write(staged.path().join("class/deeper/file"), "content").unwrap();
            staged
        };
        // What cannot be opened cannot be asked to be on the disk.
        let unsound = staged();
        let link = unsound.path().join("class/deeper/link");
        std::os::unix::fs::symlink("nowhere", link).unwrap();
        let error = unsound.commit().unwrap_err().to_string();
        assert!(error.contains("cannot sync"), "{error}");
        assert!(!target.exists());
        staged().commit().unwrap();
        let content = fs::read_to_string(target.join("class/deeper/file"));
        assert_eq!(content.unwrap(), "content");
    }

    #[test]
    fn an_old_folder_is_never_lost_on_the_way_to_a_new_one() {
        let folder = tempfile::tempdir().unwrap();
        let [new, target] = ["new", "set"].map(|name| folder.path().join(name));
        let make = |path: &Path, file: &str| {
            fs::create_dir(path).unwrap();
            fs::write(path.join(file), file).unwrap();
        };
        let is = |file: &str| target.join(file).exists() && !aside(&new).exists();
        make(&target, "old");
        make(&new, "new");
        // One who was stopped left what it had set aside.
        make(&aside(&new), "older");
        put(&new, &target, true).unwrap();
        assert!(is("new") && !new.exists());
        // Stopped between the two steps, where it takes two.
        make(&new, "newer");
        fs::rename(&target, aside(&new)).unwrap();
        put_back(&new, &target).unwrap();
        assert!(is("new") && new.exists());
        replace_in_two(&new, &target, &aside(&new)).unwrap();
        assert!(target.join("newer").exists() && aside(&new).join("new").exists());
        // With nothing to put there, the old one is back.
        fs::remove_dir_all(aside(&new)).unwrap();
        assert!(replace_in_two(&new, &target, &aside(&new)).is_err());
        assert!(is("newer"));
        put_back(&new, &target).unwrap();
        assert!(is("newer"));
    }
}
