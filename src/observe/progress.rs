//! Progress of long work: a bar on a terminal, a line now and then in a log file.

use std::cell::Cell;
use std::fs;
use std::io::{self, IsTerminal, Write};
use std::path::Path;
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle, TermLike};

/// Between two lines in a log file.
const INTERVAL: Duration = Duration::from_secs(10);

/// Counts work done; what is shown ends when it is dropped.
pub struct Progress(View);

enum View {
    Hidden,
    Bar(ProgressBar),
    Lines {
        what: &'static str,
        total: u64,
        done: Cell<u64>,
        start: Instant,
        last: Cell<Instant>,
    },
}

impl Progress {
    /// Shows `what` out of `total`, as the place that stderr goes to allows.
    pub fn new(what: &'static str, total: u64) -> Self {
        if !stderr_reaches_a_terminal() {
            let now = Instant::now();
            let (done, last) = (Cell::new(0), Cell::new(now));
            return Self(View::Lines {
                what,
                total,
                done,
                start: now,
                last,
            });
        }
        let target = ProgressDrawTarget::term_like_with_hz(Box::new(Forwarded), 8);
        let bar = ProgressBar::with_draw_target(Some(total), target);
        let style = ProgressStyle::with_template(
            "{prefix} {wide_bar} {human_pos}/{human_len} {msg} {eta} left",
        )
        .expect("the template is well-formed");
        bar.set_style(style);
        bar.set_prefix(what);
        Self(View::Bar(bar))
    }

    /// Shows nothing: for ranks other than the first.
    pub fn hidden() -> Self {
        Self(View::Hidden)
    }

    /// `n` more are done.
    pub fn add(&self, n: u64) {
        match &self.0 {
            View::Hidden => {}
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
                    let (done, seconds) = (done.get(), start.elapsed().as_secs());
                    eprintln!("{what}: {done} of {total} after {seconds} s");
                }
            }
        }
    }

    /// Words beside the bar, such as the loss.
    pub fn note(&self, words: impl FnOnce() -> String) {
        if let View::Bar(bar) = &self.0 {
            bar.set_message(words());
        }
    }

    /// Prints a line without disturbing the bar.
    pub fn line(&self, text: &str) {
        match &self.0 {
            View::Bar(bar) => bar.suspend(|| println!("{text}")),
            _ => println!("{text}"),
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if let View::Bar(bar) = &self.0 {
            bar.finish_and_clear();
        }
    }
}

/// Whether a bar makes sense: stderr is a terminal, or a pipe to an mpirun whose stderr is one.
fn stderr_reaches_a_terminal() -> bool {
    if io::stderr().is_terminal() {
        return true;
    }
    let parent = std::os::unix::process::parent_id();
    let name = fs::read_to_string(format!("/proc/{parent}/comm")).unwrap_or_default();
    let launcher =
        ["mpirun", "mpiexec", "orterun", "prterun", "hydra_pmi_proxy"].contains(&name.trim());
    let end = fs::read_link(format!("/proc/{parent}/fd/2"));
    launcher && end.is_ok_and(|end| end.starts_with("/dev/pts") || end == Path::new("/dev/console"))
}

/// A terminal behind a pipe: it understands a carriage return and little else for certain.
#[derive(Debug)]
struct Forwarded;

impl TermLike for Forwarded {
    fn width(&self) -> u16 {
        let columns = std::env::var("COLUMNS")
            .ok()
            .and_then(|columns| columns.parse().ok());
        columns.unwrap_or(100)
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
