//! `phalanx top`: what the ranks of a run do at this moment.

use std::io::IsTerminal;
use std::path::PathBuf;

use crate::observe::say;
use crate::observe::top::{self, Life, Seen};
use crate::{Error, Result};

/// Which run, and how.
pub struct Settings {
    /// The run folder.
    pub run: PathBuf,
    /// Whether it is shown once.
    pub once: bool,
}

/// Shows the ranks, once or until the user has seen enough.
pub fn run(settings: &Settings) -> Result<()> {
    let run = &settings.run;
    let once = settings.once || !std::io::stdout().is_terminal();
    let seen = match once {
        true => {
            let seen = Seen::look_twice(run)?;
            say(&seen.table());
            seen
        }
        false => top::watch(run)?,
    };
    match seen.life {
        Life::Running | Life::Finished | Life::Stopped => Ok(()),
        Life::Failed | Life::Hung | Life::Gone(_) => {
            let problem = seen.life.words();
            Err(Error::file(run, problem, seen.life.hint()))
        }
    }
}
