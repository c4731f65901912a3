//! File systems: of which kind, how large, how full.

use std::fs;
use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::files;

/// Where a folder lies.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Disk {
    /// The folder.
    pub folder: String,
    /// The kind of its file system; empty where the system does not tell.
    pub kind: String,
    /// Bytes in all.
    pub size: u64,
    /// Bytes that a user can still write.
    pub free: u64,
}

impl Disk {
    /// Asks the system about `folder`, if it exists.
    pub fn of(folder: &Path) -> Option<Self> {
        let folder = folder.canonicalize().ok()?;
        let (size, free) = files::space(&folder)?;
        let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
        Some(Self {
            kind: kind(&mounts, &folder).unwrap_or_default(),
            folder: folder.display().to_string(),
            size,
            free,
        })
    }

    /// Whether it lies on other machines.
    pub fn is_remote(&self) -> bool {
        const KINDS: [&str; 18] = [
            "nfs",
            "nfs4",
            "lustre",
            "gpfs",
            "beegfs",
            "cifs",
            "smb3",
            "ceph",
            "fuse.sshfs",
            "fuse.ceph",
            "fuse.glusterfs",
            "glusterfs",
            "orangefs",
            "pvfs2",
            "panfs",
            "wekafs",
            "9p",
            "afs",
        ];
        KINDS.contains(&self.kind.as_str())
    }
}

/// The kind of the file system that `folder` is on, from `/proc/self/mountinfo`: the last of those mounted deepest.
fn kind(mounts: &str, folder: &Path) -> Option<String> {
    let each = mounts.lines().filter_map(|line| {
        let (before, behind) = line.split_once(" - ")?;
        let point = before.split(' ').nth(4)?.replace("\\040", " ");
        let kind = behind.split(' ').next()?;
        let depth = Path::new(&point).components().count();
        folder.starts_with(&point).then_some((depth, kind))
    });
    let deepest = each.max_by_key(|(depth, _)| *depth);
    deepest.map(|(_, kind)| kind.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_deepest_and_last_mount_counts() {
        let mounts = "27 1 254:0 / / rw - ext4 /dev/vda rw\n\
            30 27 0:40 / /home rw shared:5 - nfs4 server:/home rw\n\
            31 30 0:41 / /home/a\\040b rw - autofs auto rw\n\
            32 31 0:42 / /home/a\\040b rw - lustre a@b:/c rw\n";
        let of = |folder: &str| kind(mounts, Path::new(folder)).unwrap();
        assert_eq!(of("/tmp"), "ext4");
        assert_eq!(of("/home/x"), "nfs4");
        assert_eq!(of("/homes"), "ext4");
        assert_eq!(of("/home/a b/c"), "lustre");
    }

    #[test]
    fn the_folder_of_this_project_has_a_size() {
        let disk = Disk::of(Path::new(".")).unwrap();
        assert!(disk.size > 1 << 20 && disk.free <= disk.size, "{disk:?}");
        assert!(!disk.kind.is_empty(), "{disk:?}");
        assert_eq!(Disk::of(Path::new("no such folder")), None);
    }
}
