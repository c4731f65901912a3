//! Progress of long work: a bar on a terminal, a line now and then in a log file.

use std::cell::Cell;
use std::fs;
use std::io::{self, IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle, TermLike};

use super::Voice;

/// Between two lines in a log file.
const INTERVAL: Duration = Duration::from_secs(10);

/// Between two changes of the words beside a bar.
const BLINK: Duration = Duration::from_millis(125);

/// Counts work done; what is shown ends when it is dropped.
pub struct Progress {
    view: View,
    what: &'static str,
    total: Cell<u64>,
    done: Cell<u64>,
    /// When it began, and how much was done then.
    begin: (Instant, Cell<u64>),
    /// When words were last shown.
    last: Cell<Instant>,
}

enum View {
    Bar(ProgressBar),
    Lines,
    Nothing,
}

impl Progress {
    /// Shows `what` out of `total`, as the place that stderr goes to allows; nothing where no words are wanted.
    pub fn new(what: &'static str, total: u64) -> Self {
        let view = match (Voice::get(), terminal()) {
            (Voice::Quiet | Voice::Json, _) => View::Nothing,
            (Voice::Words, None) => View::Lines,
            (Voice::Words, Some(terminal)) => View::Bar(bar(what, total, terminal)),
        };
        Self {
            view,
            what,
            total: Cell::new(total),
            done: Cell::new(0),
            begin: (Instant::now(), Cell::new(0)),
            last: Cell::new(Instant::now()),
        }
    }

    /// So much was done before this began, by a run that goes on.
    pub fn skip(&self, n: u64) {
        self.done.set(self.done.get() + n);
        self.begin.1.set(self.begin.1.get() + n);
        if let View::Bar(bar) = &self.view {
            bar.inc(n);
            // What is left is not to be guessed from what others did.
            bar.reset_eta();
        }
    }

    /// `n` more are done.
    pub fn add(&self, n: u64) {
        self.advance(n, |_| String::new());
    }

    /// `n` more are done; `words` say how it goes whenever they are shown, in short if they are to leave room for a bar.
    pub fn advance(&self, n: u64, words: impl FnOnce(bool) -> String) {
        self.done.set(self.done.get() + n);
        match &self.view {
            View::Nothing => {}
            View::Bar(bar) => {
                if self.is_due(BLINK) {
                    bar.set_message(words(true));
                }
                bar.inc(n);
            }
            View::Lines if self.is_due(INTERVAL) => eprintln!("{}", self.line_of(&words(false))),
            View::Lines => {}
        }
    }

    fn is_due(&self, pause: Duration) -> bool {
        let due = self.last.get().elapsed() >= pause;
        if due {
            self.last.set(Instant::now());
        }
        due
    }

    /// What a log file gets.
    fn line_of(&self, words: &str) -> String {
        let (done, total) = (self.done.get(), self.total.get());
        let (begin, before) = (self.begin.0, self.begin.1.get());
        let elapsed = begin.elapsed().as_secs_f64();
        let percent = 100.0 * done as f64 / total.max(1) as f64;
        let mut line = format!("{}: {done} of {total} ({percent:.0} %)", self.what);
        if !words.is_empty() {
            line += &format!("  {words}");
        }
        line += &format!("  after {}", clock(elapsed));
        if done > before && total > done {
            let left = elapsed * (total - done) as f64 / (done - before) as f64;
            line += &format!(", {} left", clock(left));
        }
        line
    }

    /// The whole is another than was thought.
    pub fn set_total(&self, n: u64) {
        if let View::Bar(bar) = &self.view
            && self.total.get() != n
        {
            bar.set_length(n);
        }
        self.total.set(n);
    }

    /// Prints a line: above the bar on the bar's own stream, or on stdout.
    pub fn line(&self, text: &str) {
        match &self.view {
            View::Bar(bar) => bar.suspend(|| eprintln!("{text}")),
            View::Lines => super::say(text),
            View::Nothing => {}
        }
    }
}

/// A time in words, such as `1 h 05 min`.
fn clock(seconds: f64) -> String {
    match seconds.round() as u64 {
        s if s < 60 => format!("{s} s"),
        s if s < 3600 => format!("{} min {:02} s", s / 60, s % 60),
        s => format!("{} h {:02} min", s / 3600, s / 60 % 60),
    }
}

fn bar(what: &'static str, total: u64, terminal: PathBuf) -> ProgressBar {
    let target = ProgressDrawTarget::term_like_with_hz(Box::new(Forwarded { terminal }), 8);
    let bar = ProgressBar::with_draw_target(Some(total), target);
    let template = "{prefix} {wide_bar} {human_pos}/{human_len} {msg}  {eta} left";
    let style = ProgressStyle::with_template(template).expect("the template is well-formed");
    bar.set_style(style);
    bar.set_prefix(what);
    bar
}

impl Drop for Progress {
    fn drop(&mut self) {
        if let View::Bar(bar) = &self.view {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_in_a_log_says_what_is_done_and_what_is_left() {
        let begin = Instant::now()
            .checked_sub(Duration::from_secs(100))
            .unwrap();
        let progress = Progress {
            view: View::Lines,
            what: "training",
            total: Cell::new(1000),
            done: Cell::new(0),
            begin: (begin, Cell::new(0)),
            last: Cell::new(begin),
        };
        // Those of a run that goes on were not made in this time.
        progress.skip(500);
        progress.done.set(600);
        assert_eq!(
            progress.line_of("loss 0.5"),
            "training: 600 of 1000 (60 %)  loss 0.5  after 1 min 40 s, 6 min 40 s left"
        );
        assert_eq!(clock(3725.0), "1 h 02 min");
    }
}
