//! What MPI tells about itself.
#![allow(unsafe_code)]

use std::ffi::{CString, c_int, c_void};
use std::sync::OnceLock;
use std::{fs, mem, ptr};

use mpi::Threading;
use mpi::ffi;
use serde::Serialize;

/// The MPI library that this program links.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Library {
    /// Its name: `Open MPI`, `MPICH`, … or what it calls itself.
    pub name: String,
    /// Its version; empty where it does not say.
    pub version: String,
    /// The standard that it keeps.
    pub standard: (i32, i32),
    /// The thread level that it gave.
    pub threads: &'static str,
}

impl Library {
    /// What the library is called; it need not have started.
    pub fn called() -> String {
        let text = mpi::environment::library_version().unwrap_or_default();
        name_and_version(&text).0
    }

    /// Asks MPI, which must have started.
    pub fn ask() -> Self {
        let text = mpi::environment::library_version().unwrap_or_default();
        let (name, version) = name_and_version(&text);
        let threads = match mpi::environment::threading_support() {
            Threading::Single => "single",
            Threading::Funneled => "funneled",
            Threading::Serialized => "serialized",
            Threading::Multiple => "multiple",
        };
        Self {
            name,
            version,
            standard: mpi::environment::version(),
            threads,
        }
    }
}

/// The name and version in how a library describes itself.
fn name_and_version(text: &str) -> (String, String) {
    let line = text.trim_matches('\0').lines().next().unwrap_or_default();
    let known = [
        ("Open MPI", "Open MPI"),
        ("Intel(R) MPI", "Intel MPI"),
        ("MVAPICH", "MVAPICH"),
        ("CRAY MPICH", "Cray MPICH"),
        ("MPICH", "MPICH"),
    ];
    let name = known.iter().find(|(start, _)| line.starts_with(start));
    let is_version = |word: &&str| {
        let digits = word.trim_start_matches('v');
        digits.contains('.') && digits.starts_with(|c: char| c.is_ascii_digit())
    };
    let version = line
        .split([' ', ',', '\t'])
        .find(is_version)
        .unwrap_or_default();
    (
        name.map_or(line, |(_, name)| name).to_owned(),
        version.trim_start_matches('v').to_owned(),
    )
}

/// The value that a parameter (control variable) of MPI has in this process, if there is one of this name.
pub fn parameter(name: &str) -> Option<String> {
    // Once, until the process ends: MPICH 4.0 finds nothing any more when it is asked again after an end.
    static OPEN: OnceLock<bool> = OnceLock::new();
    let open = OPEN.get_or_init(|| {
        let mut provided = 0;
        // Open MPI takes the level that is asked for here for that of the whole process: it must be what it was.
        let level = match mpi::environment::threading_support() {
            Threading::Single => ffi::MPI_THREAD_SINGLE,
            Threading::Funneled => ffi::MPI_THREAD_FUNNELED,
            Threading::Serialized => ffi::MPI_THREAD_SERIALIZED,
            Threading::Multiple => ffi::MPI_THREAD_MULTIPLE,
        };
        // SAFETY: the out-pointer outlives the call.
        good(unsafe { ffi::MPI_T_init_thread(level as c_int, &mut provided) }).is_some()
    });
    let name = CString::new(name).ok()?;
    open.then(|| read_parameter(&name))?
}

fn read_parameter(name: &CString) -> Option<String> {
    let (mut index, mut count, mut width) = (0, 0, 0);
    // SAFETY: all out-pointers outlive their calls, and null ones are skipped by contract; the handle is used only where it
    // was given, and freed; the buffer holds `count` values of the widest type.
    unsafe {
        good(ffi::MPI_T_cvar_get_index(name.as_ptr(), &mut index))?;
        let mut kind = mem::zeroed();
        let (mut verbosity, mut bind, mut scope) = (0, 0, 0);
        good(ffi::MPI_T_cvar_get_info(
            index,
            ptr::null_mut(),
            ptr::null_mut(),
            &mut verbosity,
            &mut kind,
            ptr::null_mut(),
            ptr::null_mut(),
            ptr::null_mut(),
            &mut bind,
            &mut scope,
        ))?;
        good(ffi::MPI_Type_size(kind, &mut width))?;
        let mut handle = mem::zeroed();
        // Open MPI refuses this for parts that it has closed again.
        let none = ptr::null_mut();
        good(ffi::MPI_T_cvar_handle_alloc(
            index,
            none,
            &mut handle,
            &mut count,
        ))?;
        let mut buffer = vec![0u64; count.max(1) as usize];
        let read = ffi::MPI_T_cvar_read(handle, buffer.as_mut_ptr().cast());
        ffi::MPI_T_cvar_handle_free(&mut handle);
        good(read)?;
        let bytes: Vec<u8> = buffer.iter().flat_map(|word| word.to_ne_bytes()).collect();
        Some(match width {
            1 if count == 1 => u8::from(bytes[0] != 0).to_string(),
            1 => {
                let text = bytes.split(|&byte| byte == 0).next().unwrap_or_default();
                String::from_utf8_lossy(text).into_owned()
            }
            4 => i32::from_ne_bytes(bytes[..4].try_into().ok()?).to_string(),
            _ => buffer[0].to_string(),
        })
    }
}

/// The part of MPI that serves windows over all ranks, as far as MPI lets it be seen; *collective* over the world.
///
/// Open MPI names a window after its component, or gives its memory that name.
pub fn window_component() -> Option<String> {
    let before = shared_files();
    let mut name = [0u8; 1024];
    let (mut base, mut len) = (ptr::null_mut::<c_void>(), 0);
    // SAFETY: all out-pointers outlive their calls, the name's buffer is longer than any name of an MPI object, and the
    // window is freed only where it was made.
    let (named, files) = unsafe {
        let mut win = ffi::RSMPI_WIN_NULL;
        let (info, world) = (ffi::RSMPI_INFO_NULL, ffi::RSMPI_COMM_WORLD);
        let out = (&raw mut base).cast::<c_void>();
        good(ffi::MPI_Win_allocate(8, 1, info, world, out, &mut win))?;
        let named = ffi::MPI_Win_get_name(win, name.as_mut_ptr().cast(), &mut len);
        let files = shared_files();
        ffi::MPI_Win_free(&mut win);
        (named, files)
    };
    let name = good(named).and_then(|()| std::str::from_utf8(&name[..len as usize]).ok());
    let named = name.and_then(|name| name.split_once(" window"));
    if let Some((component, _)) = named {
        return Some(component.to_owned());
    }
    let new = files.iter().find(|file| !before.contains(file));
    new.cloned()
}

/// Components that own a piece of shared memory of this process.
fn shared_files() -> Vec<String> {
    let maps = fs::read_to_string("/proc/self/maps").unwrap_or_default();
    let behind = |line: &str| Some(line.split_once("/osc_")?.1.split_once('.')?.0.to_owned());
    maps.lines().filter_map(behind).collect()
}

/// Does `work` while MPI's failures come back as errors instead of ending the job: for making windows, which is tried here.
/// *Collective* calls whose failure is not looked at have no place in it.
pub fn lenient<R>(work: impl FnOnce() -> R) -> R {
    if !mpi::environment::is_initialized() {
        return work();
    }
    // SAFETY: MPI has started; the handler that is put back is the one that was there.
    unsafe {
        let mut before = mem::zeroed();
        let world = ffi::RSMPI_COMM_WORLD;
        let known = ffi::MPI_Comm_get_errhandler(world, &mut before);
        ffi::MPI_Comm_set_errhandler(world, ffi::RSMPI_ERRORS_RETURN);
        let result = work();
        if good(known).is_some() {
            ffi::MPI_Comm_set_errhandler(world, before);
        }
        result
    }
}

fn good(code: c_int) -> Option<()> {
    (code == ffi::MPI_SUCCESS as c_int).then_some(())
}

#[cfg(test)]
mod tests {
    use super::name_and_version;

    #[test]
    fn libraries_are_known_by_how_they_describe_themselves() {
        let of = |text: &str| {
            let (name, version) = name_and_version(text);
            format!("{name}|{version}")
        };
        let open = "Open MPI v4.1.4, package: Debian OpenMPI, ident: 4.1.4, repo rev: v4.1.4";
        assert_eq!(of(open), "Open MPI|4.1.4");
        let mpich = "MPICH Version:      4.0.2\nMPICH Release date: Thu Apr 7\0";
        assert_eq!(of(mpich), "MPICH|4.0.2");
        let intel = "Intel(R) MPI Library 2021.9 for Linux* OS\n";
        assert_eq!(of(intel), "Intel MPI|2021.9");
        assert_eq!(of("Some other"), "Some other|");
    }
}
