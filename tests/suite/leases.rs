//! Files that somebody has a lease on.
#![allow(unsafe_code)]

use std::fs::{self, OpenOptions};
use std::io::Read;
use std::os::fd::AsRawFd;
use std::time::Duration;

use phalanx::files;

/// A file server may have a lease on a photo: to open it without waiting failed, and a good photo was taken for a bad one.
#[test]
fn a_file_under_a_lease_is_waited_for() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("photo");
    fs::write(&path, "a photo").unwrap();
    let holder = OpenOptions::new().write(true).open(&path).unwrap();
    // SAFETY: who is asked to give a lease back gets a signal, which would end this process; the descriptor is open.
    let leased = unsafe {
        libc::signal(libc::SIGIO, libc::SIG_IGN);
        libc::fcntl(holder.as_raw_fd(), libc::F_SETLEASE, libc::F_WRLCK)
    };
    if leased != 0 {
        println!("skipped: the file system has no leases");
        return;
    }
    let holder = std::thread::spawn(move || {
        std::thread::sleep(Duration::from_millis(200));
        drop(holder);
    });
    let mut text = String::new();
    let mut file = files::open_at_once(&path).unwrap();
    file.read_to_string(&mut text).unwrap();
    assert_eq!(text, "a photo");
    holder.join().unwrap();
}
