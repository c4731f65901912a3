//! libFuzzer's way: `PHALANX_FUZZ` names the target, arguments are libFuzzer's own.
//!
//! `make fuzz` builds the whole program with coverage counters and links the libFuzzer that comes with clang.

use std::ffi::{CString, c_char, c_int};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::OnceLock;

use crate::targets::{Place, TARGETS, Target};

type Callback = extern "C" fn(*const u8, usize) -> c_int;

unsafe extern "C" {
    fn LLVMFuzzerRunDriver(argc: *mut c_int, argv: *mut *mut *mut c_char, run: Callback) -> c_int;
}

static WORK: OnceLock<(&'static Target, Place)> = OnceLock::new();

extern "C" fn take(bytes: *const u8, size: usize) -> c_int {
    let (target, place) = WORK.get().expect("set before libFuzzer starts");
    // SAFETY: libFuzzer gives that many bytes, which stay until this returns; of none it may give no place.
    let input = match size {
        0 => &[],
        _ => unsafe { std::slice::from_raw_parts(bytes, size) },
    };
    (target.run)(place, input);
    0
}

pub fn main(wanted: &str) -> ExitCode {
    let Some(target) = TARGETS.iter().find(|target| target.name == wanted) else {
        let names: Vec<_> = TARGETS.iter().map(|target| target.name).collect();
        println!("{}", names.join(" "));
        return ExitCode::from(2);
    };
    // Arguments name files from where it was started, parsers get files where they are written fastest.
    let absolute = |word: String| match Path::new(&word).exists() {
        true => fs::canonicalize(&word).unwrap().display().to_string(),
        false => word,
    };
    let mut words: Vec<String> = std::env::args().map(absolute).collect();
    let memory = Path::new("/dev/shm");
    let folder = tempfile::tempdir_in(if memory.is_dir() {
        memory
    } else {
        Path::new(".")
    })
    .unwrap();
    let place = Place::new(folder.path());
    let corpus = words
        .iter()
        .skip(1)
        .map(PathBuf::from)
        .find(|path| path.is_dir());
    if let Some(corpus) = corpus {
        for (i, seed) in (target.seeds)(&place).iter().enumerate() {
            fs::write(corpus.join(format!("seed-{i}")), seed).unwrap();
        }
    }
    std::env::set_current_dir(folder.path()).unwrap();
    assert!(WORK.set((target, place)).is_ok());
    words.push("-print_final_stats=1".into());
    let words: Vec<CString> = words
        .into_iter()
        .map(|word| CString::new(word).unwrap())
        .collect();
    let mut pointers: Vec<*mut c_char> =
        words.iter().map(|word| word.as_ptr().cast_mut()).collect();
    pointers.push(std::ptr::null_mut());
    let (mut argc, mut argv) = (words.len() as c_int, pointers.as_mut_ptr());
    // SAFETY: as C's `main` gets them: so many words, then none; they live until the process ends.
    let code = unsafe { LLVMFuzzerRunDriver(&mut argc, &mut argv, take) };
    ExitCode::from(code as u8)
}
