//! A process that opens files before this one does, and may crash in its place.
//!
//! HDF5's library believes what a file says of itself: bytes that were changed, by accident or on purpose, have it read where
//! nothing is, take all memory, or never end. So the program, started again by itself, first has the library decode all of a file
//! that it decodes before numbers are read: what ends that process, or takes it longer or more memory than any sound file would, is
//! told as an error of the file. One such process is asked about one file after the other, and goes when it is not asked for a while.

use std::ffi::{OsStr, OsString};
use std::io::{self, BufRead, Read, Write};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::MetadataExt;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{ChildStdin, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Mutex, OnceLock, PoisonError};
use std::thread;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use super::{File, Table};
use crate::interrupt;

/// The only argument of the program when it is to examine files.
const ROLE: &str = "examine-files";
/// Seconds without a question after which the process goes.
const IDLE: i64 = 1;
/// Seconds of work that a file may take, of which a sound one takes thousandths.
const WORK: u64 = 3;
/// An answer that takes longer counts against what is left for others about the same file.
const SLOW: Duration = Duration::from_millis(250);
/// Bytes of memory that it may have, program and libraries included.
const MEMORY: u64 = 2 << 30;
/// The longest row that is read, in bytes.
const ROW: usize = 16 << 20;
/// What says that a file is done.
const DONE: u8 = b'.';
static PROGRAM: OnceLock<PathBuf> = OnceLock::new();
static PROCESS: Mutex<Option<Examiner>> = Mutex::new(None);
/// The file that was refused last, and why.
static REFUSED: Mutex<Option<(Identity, String)>> = Mutex::new(None);

/// From now on, has processes of `program`, which is phalanx, look at every file first.
pub fn examine_by(program: &Path) {
    // A second program would be the same one.
    let _ = PROGRAM.set(program.to_path_buf());
}

/// What of a file is looked at.
#[derive(Clone, Copy)]
pub(super) enum Part<'a> {
    /// All that it lists.
    Listed,
    /// A table, which a damaged file may have without listing it.
    Table(&'a str),
    /// An attribute of the file.
    Attribute(&'a str),
}

impl Part<'_> {
    /// As it is asked: a letter, and a name.
    fn word(self) -> String {
        let (letter, name) = match self {
            Self::Listed => ('*', ""),
            Self::Table(name) => ('t', name),
            Self::Attribute(name) => ('a', name),
        };
        format!("{letter}{name}")
    }
}

/// Whether a process of the program lived through that part of the file at `path`; if not, how it ended. Where none can be
/// started, files are opened without.
pub(super) fn survives(path: &Path, part: Part) -> Result<(), String> {
    let mut refused = REFUSED.lock().unwrap_or_else(PoisonError::into_inner);
    let identity = Identity::of(path);
    match &*refused {
        // A file with one part that ends a process is not worth the time of others.
        Some((file, end)) if identity.as_ref() == Some(file) => return Err(end.clone()),
        _ => {}
    }
    let survived = tried(path, part);
    if let (Err(end), Some(identity)) = (&survived, identity) {
        *refused = Some((identity, end.clone()));
    }
    survived
}

/// What tells a file from others, and from what it was before it was written to.
#[derive(PartialEq)]
struct Identity {
    place: (u64, u64),
    length: u64,
    written: (i64, i64),
}

impl Identity {
    fn of(path: &Path) -> Option<Self> {
        let about = std::fs::metadata(path).ok()?;
        Some(Self {
            place: (about.dev(), about.ino()),
            length: about.len(),
            written: (about.mtime(), about.mtime_nsec()),
        })
    }
}

fn tried(path: &Path, part: Part) -> Result<(), String> {
    let Some(program) = PROGRAM.get() else {
        return Ok(());
    };
    let mut process = PROCESS.lock().unwrap_or_else(PoisonError::into_inner);
    // One that is not asked goes, perhaps just now; and a signal to a whole job ends it too.
    for _ in 0..3 {
        let mut examiner = match process.take().map_or_else(|| Examiner::start(program), Ok) {
            Ok(examiner) => examiner,
            Err(error) => {
                log::debug!("{} is opened unexamined: {error}", path.display());
                return Ok(());
            }
        };
        let Some(status) = examiner.ask(path, part) else {
            *process = Some(examiner);
            return Ok(());
        };
        let sent = status
            .signal()
            .is_some_and(|signal| interrupt::SENT.contains(&signal));
        if !status.success() && !sent {
            return Err(status.to_string());
        }
    }
    log::debug!("{} is opened unexamined", path.display());
    Ok(())
}

/// A process that examines files.
struct Examiner {
    questions: ChildStdin,
    /// Nothing for a file that is done; how it ended, when it has.
    answers: Receiver<Option<ExitStatus>>,
}

impl Examiner {
    fn start(program: &Path) -> io::Result<Self> {
        let mut command = Command::new(program);
        command
            .arg0("phalanx")
            .arg(ROLE)
            .env("OPENBLAS_NUM_THREADS", "1");
        // Memory that is used before it is set, or after it was freed, holds what nobody takes for an address: without, it
        // would do no harm in a new process, and much in one that has worked.
        command.env("MALLOC_PERTURB_", "1");
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        // What a library says that ends its process is of no use to anybody. Keys that end a program at a terminal are for this one.
        let mut child = command.stderr(Stdio::null()).process_group(0).spawn()?;
        let (questions, replies) = (child.stdin.take(), child.stdout.take());
        let (Some(questions), Some(mut replies)) = (questions, replies) else {
            return Err(io::Error::other("it has no pipes"));
        };
        let (tell, answers) = channel();
        // It waits for the end of the process too, so that nothing is left of it.
        thread::Builder::new()
            .name("examiner".into())
            .spawn(move || {
                while let Ok(()) = replies.read_exact(&mut [0]) {
                    let _ = tell.send(None);
                }
                if let Ok(status) = child.wait() {
                    let _ = tell.send(Some(status));
                }
            })?;
        Ok(Self { questions, answers })
    }

    /// Asks about a file; how the process ended, if it did.
    fn ask(&mut self, path: &Path, part: Part) -> Option<ExitStatus> {
        let (path, part) = (path.as_os_str().as_bytes(), part.word());
        let question = [path, part.as_bytes(), &[]].join(&0);
        // Where nobody reads any more, the end is the answer.
        let _ = self.questions.write_all(&question);
        self.answers
            .recv()
            .unwrap_or_else(|_| Some(ExitStatus::default()))
    }
}

/// Whether this process was started to examine files.
pub fn is_examiner() -> bool {
    let mut words = std::env::args_os().skip(1);
    words.next().as_deref() == Some(OsStr::new(ROLE)) && words.next().is_none()
}

/// Examines files, until it is not asked any more.
pub fn examine() -> io::Result<()> {
    limit(Resource::Core, 0)?;
    limit(Resource::As, MEMORY)?;
    let (mut questions, mut answers) = (io::stdin().lock(), io::stdout().lock());
    let idle = Timespec {
        tv_sec: IDLE,
        tv_nsec: 0,
    };
    let mut spent = Spent::default();
    loop {
        let mut waiting = [PollFd::new(&questions, PollFlags::IN)];
        if poll(&mut waiting, Some(&idle))? == 0 {
            return Ok(());
        }
        let (mut path, mut part) = (Vec::new(), Vec::new());
        for words in [&mut path, &mut part] {
            if questions.read_until(0, words)? == 0 || words.pop() != Some(0) {
                return Ok(());
            }
        }
        let (path, part) = (OsString::from_vec(path), String::from_utf8_lossy(&part));
        let (path, before) = (Path::new(&path), worked());
        let left = spent.left_for(Identity::of(path));
        limit(Resource::Cpu, before.as_secs() + left)?;
        look(path, &part);
        spent.add(worked() - before);
        answers.write_all(&[DONE])?;
        answers.flush()?;
    }
}

/// How long this process has worked.
fn worked() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

/// What slow answers about a file took: one that takes a little less than it may must not do so for each of its parts.
#[derive(Default)]
struct Spent {
    file: Option<Identity>,
    time: Duration,
}

impl Spent {
    /// Seconds of work that are left for an answer about `file`.
    fn left_for(&mut self, file: Option<Identity>) -> u64 {
        if file.is_none() || file != self.file {
            (self.file, self.time) = (file, Duration::ZERO);
        }
        WORK.saturating_sub(self.time.as_secs()).max(1)
    }

    fn add(&mut self, took: Duration) {
        if took >= SLOW {
            self.time += took;
        }
    }
}

/// Lowers a limit that the process has for itself, which may be lower already.
fn limit(of: Resource, to: u64) -> io::Result<()> {
    let Rlimit { maximum, .. } = getrlimit(of);
    let current = Some(maximum.map_or(to, |most| most.min(to)));
    Ok(setrlimit(of, Rlimit { current, maximum })?)
}

/// Has the library decode what it would decode for anybody. What it refuses, it will refuse again.
fn look(path: &Path, part: &str) {
    let Ok(file) = File::open(path) else {
        return;
    };
    match part.split_at_checked(1) {
        Some(("t", name)) => look_at_table(&file, name),
        Some(("a", name)) => drop(file.numbers(name)),
        _ => {
            let _ = file.inner.member_names();
            let names = file.tables();
            names.iter().for_each(|name| look_at_table(&file, name));
        }
    }
}

fn look_at_table(file: &File, name: &str) {
    if file.has(name)
        && let Ok(table) = file.table(name).or_else(|_| file.any_table(name))
    {
        look_at(&table);
    }
}

fn look_at(table: &Table) {
    let _ = (table.element(), table.cell(), table.offset());
    let _ = (table.inner.filters(), table.inner.num_chunks());
    if table.is_joined() {
        let _ = table.inner.dcpl().map(|list| list.virtual_map());
    }
    let shape = table.shape();
    let row: usize = shape.iter().skip(1).fold(8, |a, &b| a.saturating_mul(b));
    if shape.is_empty() || shape.contains(&0) || row > ROW {
        return;
    }
    for at in [0, shape[0] / 2, shape[0] - 1] {
        let _ = table.read::<f64>(at..at + 1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slow_answers_about_a_file_leave_less_time_for_others() {
        let file = |length: u64| {
            Some(Identity {
                place: (1, 2),
                length,
                written: (3, 4),
            })
        };
        let mut spent = Spent::default();
        // Those about a sound file may be many.
        for _ in 0..1000 {
            assert_eq!(spent.left_for(file(7)), WORK);
            spent.add(Duration::from_millis(20));
        }
        for left in [3, 1, 1] {
            assert_eq!(spent.left_for(file(7)), left);
            spent.add(Duration::from_millis(2300));
        }
        assert_eq!(spent.left_for(file(8)), WORK);
        assert_eq!(spent.left_for(None), WORK);
    }
}
