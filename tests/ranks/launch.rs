//! Starting ranks and whole jobs, with a limit on their time.

use std::fs;
use std::io::Read;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Mutex;
use std::thread;
use std::time::{Duration, Instant};

/// How a job ended.
pub struct Ended {
    /// The exit code, or none if it had to be killed.
    pub code: Option<i32>,
    /// What it printed on both streams.
    pub output: String,
    /// How long it took.
    pub time: Duration,
}

/// Why the job that runs now was skipped.
static SKIPPED: Mutex<Option<String>> = Mutex::new(None);

/// Marks the job that runs now as skipped, in the open.
pub fn skip(why: impl Into<String>) {
    *SKIPPED.lock().unwrap() = Some(why.into());
}

/// Why the job that just ran was skipped, if it was.
pub fn skipped() -> Option<String> {
    SKIPPED.lock().unwrap().take()
}

pub fn has_mpirun() -> bool {
    Command::new("mpirun")
        .arg("--version")
        .stdout(Stdio::null())
        .status()
        .is_ok()
}

/// `mpirun -n SIZE`, ready for arguments.
pub fn mpirun(size: usize) -> Command {
    let mut command = Command::new("mpirun");
    command.args(["--oversubscribe", "-n", &size.to_string()]);
    command
        .env("OMPI_ALLOW_RUN_AS_ROOT", "1")
        .env("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1");
    command
}

/// `mpirun -n SIZE phalanx` in `folder`, ready for arguments.
pub fn phalanx(size: usize, folder: &Path) -> Command {
    let mut command = mpirun(size);
    command
        .arg(env!("CARGO_BIN_EXE_phalanx"))
        .current_dir(folder);
    command
}

/// Sends `name` to a process; by the shell, whose `kill` is built in and so is everywhere.
pub fn signal(name: &str, process: u32) {
    let kill = format!("kill -s {name} {process}");
    assert!(
        Command::new("sh")
            .args(["-c", &kill])
            .status()
            .unwrap()
            .success(),
        "{kill}"
    );
}

/// Whether a process runs: one that is only still to be waited for does not.
pub fn exists(process: u32) -> bool {
    Path::new(&format!("/proc/{process}/exe")).exists()
}

/// Waits for the end of the ranks of a job: mpirun, or daemons on other hosts, may be a little ahead of them.
pub fn none_left<'a>(ranks: impl IntoIterator<Item = &'a u32> + Clone) {
    let begun = Instant::now();
    while let Some(rank) = ranks.clone().into_iter().find(|rank| exists(**rank)) {
        assert!(
            begun.elapsed() < Duration::from_secs(5),
            "process {rank} is left"
        );
        thread::sleep(Duration::from_millis(20));
    }
}

/// The processes that `parent` started.
pub fn children(parent: u32) -> Vec<u32> {
    let mut found: Vec<u32> = fs::read_dir("/proc")
        .unwrap()
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
        .filter(|pid: &u32| {
            let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
            let after_name = stat.rsplit(") ").next().unwrap_or_default();
            after_name.split(' ').nth(1) == Some(&parent.to_string())
        })
        .collect();
    found.sort_unstable();
    found
}

/// Starts `command` with its output piped.
pub fn start(mut command: Command) -> Child {
    command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    command.spawn().expect("the command starts")
}

/// Runs `command` to its end, or kills it when its time is up.
pub fn run(command: Command, limit: Duration) -> Ended {
    wait(start(command), limit)
}

/// Waits for `child`, or kills it when its time is up.
pub fn wait(mut child: Child, limit: Duration) -> Ended {
    let start = Instant::now();
    let mut stdout = child.stdout.take().expect("piped");
    let mut stderr = child.stderr.take().expect("piped");
    let reader = thread::spawn(move || read_all(&mut stdout));
    let errors = thread::spawn(move || read_all(&mut stderr));
    let code = loop {
        if let Some(status) = child.try_wait().expect("a child can be waited for") {
            break Some(status.code().unwrap_or(-1));
        }
        if start.elapsed() > limit {
            // mpirun takes its ranks along when it is asked to end; the kill is for a mpirun that does not. It is a
            // child of the command where that enters a host first.
            let mut family = vec![child.id()];
            let mut next = 0;
            while next < family.len() {
                family.extend(children(family[next]));
                next += 1;
            }
            let ask = |name| {
                for process in family.iter().filter(|process| exists(**process)) {
                    let kill = format!("kill -s {name} {process} 2>/dev/null");
                    let _ = Command::new("sh").args(["-c", &kill]).status();
                }
            };
            ask("TERM");
            thread::sleep(Duration::from_secs(2));
            ask("KILL");
            let _ = child.wait();
            break None;
        }
        thread::sleep(Duration::from_millis(10));
    };
    let time = start.elapsed();
    let output = format!(
        "{}{}",
        reader.join().expect("reading"),
        errors.join().expect("reading")
    );
    Ended { code, output, time }
}

fn read_all(from: &mut impl Read) -> String {
    let mut bytes = Vec::new();
    from.read_to_end(&mut bytes).expect("a pipe can be read");
    String::from_utf8_lossy(&bytes).into_owned()
}
