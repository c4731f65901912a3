//! Progress of long work: a bar on a terminal, a line now and then in a log file.

use std::cell::Cell;
use std::fs;
use std::io::{self, IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle, TermLike};

/// Between two lines in a log file.
const INTERVAL: Duration = Duration::from_secs(10);

/// Counts work done; what is shown ends when it is dropped.
pub struct Progress(View);

enum View {
    Bar(ProgressBar),
    Lines {
        what: &'static str,
        total: Cell<u64>,
        done: Cell<u64>,
        start: Instant,
        last: Cell<Instant>,
    },
}

impl Progress {
    /// Shows `what` out of `total`, as the place that stderr goes to allows.
    pub fn new(what: &'static str, total: u64) -> Self {
        let Some(terminal) = terminal() else {
            let now = Instant::now();
            let (done, last) = (Cell::new(0), Cell::new(now));
            return Self(View::Lines {
                what,
                total: Cell::new(total),
                done,
                start: now,
                last,
            });
        };
        let target = ProgressDrawTarget::term_like_with_hz(Box::new(Forwarded { terminal }), 8);
        let bar = ProgressBar::with_draw_target(Some(total), target);
        let style = ProgressStyle::with_template(
            "{prefix} {wide_bar} {human_pos}/{human_len} {msg} {eta} left",
        )
        .expect("the template is well-formed");
        bar.set_style(style);
        bar.set_prefix(what);
        Self(View::Bar(bar))
    }

    /// `n` more are done.
    pub fn add(&self, n: u64) {
        match &self.0 {
            View::Bar(bar) => bar.inc(n),
            View::Lines {
                what,
                total,
                done,
                start,
                last,
            } => {
                done.set(done.get() + n);
                if last.get().elapsed() >= INTERVAL {
                    last.set(Instant::now());
                    let (done, total, seconds) =
                        (done.get(), total.get(), start.elapsed().as_secs());
                    eprintln!("{what}: {done} of {total} after {seconds} s");
                }
            }
        }
    }

    /// The whole is another than was thought.
    pub fn set_total(&self, n: u64) {
        match &self.0 {
            View::Bar(bar) if bar.length() != Some(n) => bar.set_length(n),
            View::Bar(_) => {}
            View::Lines { total, .. } => total.set(n),
        }
    }

    /// Words beside the bar, such as the loss.
    pub fn note(&self, words: impl FnOnce() -> String) {
        if let View::Bar(bar) = &self.0 {
            bar.set_message(words());
        }
    }

    /// Prints a line: above the bar on the bar's own stream, or on stdout.
    pub fn line(&self, text: &str) {
        match &self.0 {
            View::Bar(bar) => bar.suspend(|| eprintln!("{text}")),
            _ => super::say(text),
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if let View::Bar(bar) = &self.0 {
            bar.finish_and_clear();
            if !io::stderr().is_terminal() {
                // mpirun forwards stdout and stderr in no order: what is printed next must not be cleared too.
                std::thread::sleep(Duration::from_millis(30));
            }
        }
    }
}

/// Where a bar can be drawn: stderr if it is a terminal, or the terminal of an mpirun that forwards it.
fn terminal() -> Option<PathBuf> {
    if io::stderr().is_terminal() {
        return Some("/proc/self/fd/2".into());
    }
    let parent = std::os::unix::process::parent_id();
    let name = fs::read_to_string(format!("/proc/{parent}/comm")).unwrap_or_default();
    let launchers = ["mpirun", "mpiexec", "orterun", "prterun", "hydra_pmi_proxy"];
    let stderr = PathBuf::from(format!("/proc/{parent}/fd/2"));
    let end = fs::read_link(&stderr).ok()?;
    let draws = end.starts_with("/dev/pts") || end == Path::new("/dev/console");
    (launchers.contains(&name.trim()) && draws).then_some(stderr)
}

/// A terminal, perhaps behind mpirun's pipe: written to as stderr, asked for its width by its own name.
#[derive(Debug)]
struct Forwarded {
    terminal: PathBuf,
}

impl TermLike for Forwarded {
    fn width(&self) -> u16 {
        let size = fs::File::open(&self.terminal)
            .ok()
            .and_then(terminal_size::terminal_size_of);
        size.map_or(80, |(width, _)| width.0)
    }

    fn move_cursor_up(&self, n: usize) -> io::Result<()> {
        if n == 0 {
            Ok(())
        } else {
            write!(io::stderr(), "\x1b[{n}A")
        }
    }

    fn move_cursor_down(&self, n: usize) -> io::Result<()> {
        if n == 0 {
            Ok(())
        } else {
            write!(io::stderr(), "\x1b[{n}B")
        }
    }

    fn move_cursor_right(&self, n: usize) -> io::Result<()> {
        if n == 0 {
            Ok(())
        } else {
            write!(io::stderr(), "\x1b[{n}C")
        }
    }

    fn move_cursor_left(&self, n: usize) -> io::Result<()> {
        if n == 0 {
            Ok(())
        } else {
            write!(io::stderr(), "\x1b[{n}D")
        }
    }

    fn write_line(&self, text: &str) -> io::Result<()> {
        writeln!(io::stderr(), "{text}")
    }

    fn write_str(&self, text: &str) -> io::Result<()> {
        write!(io::stderr(), "{text}")
    }

    fn clear_line(&self) -> io::Result<()> {
        write!(io::stderr(), "\r\x1b[2K")
    }

    fn flush(&self) -> io::Result<()> {
        io::stderr().flush()
    }
}
