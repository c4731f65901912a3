//! Faults on demand, to test what a run does about them.

use std::fmt;
use std::str::FromStr;
use std::thread;
use std::time::{Duration, Instant};

use crate::Error;
use crate::comm::Comm;

/// The largest factor: a day for a second.
const MOST: f64 = 86_400.0;

/// One fault.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Inject {
    /// A rank computes so many times as long.
    Slow {
        /// The rank.
        rank: usize,
        /// How many times, 1 or more.
        factor: f64,
    },
    /// A rank gets every batch so much later.
    Load {
        /// The rank.
        rank: usize,
        /// How much, in milliseconds.
        late: f64,
    },
    /// A rank sleeps for ever while it computes a step.
    Stall {
        /// The rank.
        rank: usize,
        /// The step, from 1.
        step: u64,
    },
}

impl Inject {
    /// The rank that it strikes.
    pub fn rank(self) -> usize {
        match self {
            Self::Slow { rank, .. } | Self::Load { rank, .. } | Self::Stall { rank, .. } => rank,
        }
    }

    /// Those of `all` that strike this rank; refuses one on a rank that is not there.
    pub fn on(all: &[Self], comm: &dyn Comm) -> Result<Vec<Self>, Error> {
        let size = comm.size();
        if let Some(fault) = all.iter().find(|fault| fault.rank() >= size) {
            let problem = format!(
                "--inject {fault}: there is no rank {} among {size} (they count from 0)",
                fault.rank()
            );
            return Err(Error::Usage(problem));
        }
        let here = |fault: &&Self| fault.rank() == comm.rank();
        Ok(all.iter().filter(here).copied().collect())
    }

    /// Strikes in `step`, from 1, which has been computed on since `start`.
    pub fn strike(self, step: u64, start: Instant) {
        match self {
            Self::Slow { factor, .. } => linger(start.elapsed().mul_f64(factor - 1.0)),
            Self::Stall { step: last, .. } if step == last => loop {
                thread::park();
            },
            Self::Stall { .. } | Self::Load { .. } => {}
        }
    }

    /// Strikes while a batch is loaded.
    pub fn hold(self) {
        if let Self::Load { late, .. } = self {
            linger(Duration::from_secs_f64(late / 1e3));
        }
    }
}

/// Returns after `time`. The system wakes a sleeper late, so that the end of it is spent awake.
fn linger(time: Duration) {
    const LATE: Duration = Duration::from_micros(300);
    let start = Instant::now();
    thread::sleep(time.saturating_sub(LATE));
    while start.elapsed() < time {
        thread::yield_now();
    }
}

impl FromStr for Inject {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let expected = "expected slow:RANK:FACTOR, load:RANK:MILLISECONDS or stall:RANK:STEP";
        let parts: Vec<&str> = text.split(':').collect();
        let &[fault, rank, value] = &parts[..] else {
            return Err(expected.into());
        };
        let whole = |text: &str, what: &str| {
            let number = text.parse::<usize>();
            number.map_err(|_| format!("{what} `{text}` is no whole number: {expected}"))
        };
        match fault {
            "slow" => {
                let rank = whole(rank, "the rank")?;
                match value.parse::<f64>() {
                    Ok(factor) if (1.0..=MOST).contains(&factor) => Ok(Self::Slow { rank, factor }),
                    _ => Err(format!(
                        "the factor `{value}` is no number from 1 to {MOST}: {expected}"
                    )),
                }
            }
            "load" => {
                let rank = whole(rank, "the rank")?;
                match value.parse::<f64>() {
                    Ok(late) if (0.0..=1e3 * MOST).contains(&late) => Ok(Self::Load { rank, late }),
                    _ => Err(format!(
                        "the milliseconds `{value}` are no number from 0 to a day: {expected}"
                    )),
                }
            }
            "stall" => {
                let rank = whole(rank, "the rank")?;
                match whole(value, "the step")? as u64 {
                    0 => Err("steps count from 1".into()),
                    step => Ok(Self::Stall { rank, step }),
                }
            }
            _ => Err(format!("there is no fault `{fault}`: {expected}")),
        }
    }
}

impl fmt::Display for Inject {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        match self {
            Self::Slow { rank, factor } => write!(f, "slow:{rank}:{factor}"),
            Self::Load { rank, late } => write!(f, "load:{rank}:{late}"),
            Self::Stall { rank, step } => write!(f, "stall:{rank}:{step}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn faults_are_read_as_they_are_written() {
        for text in ["slow:0:1", "slow:12:2.5", "load:3:0.5", "stall:1:20"] {
            assert_eq!(text.parse::<Inject>().unwrap().to_string(), text);
        }
    }

    #[test]
    fn what_is_no_fault_is_refused_with_its_reason() {
        let cases = [
            ("", "expected slow:RANK:FACTOR"),
            ("slow", "expected slow"),
            ("slow:1", "expected slow"),
            ("slow:1:2:3", "expected slow"),
            ("slow:-1:2", "the rank `-1`"),
            ("slow:1:0.5", "the factor `0.5`"),
            ("slow:1:nan", "the factor `nan`"),
            ("slow:1:inf", "the factor `inf`"),
            ("load:1:-1", "the milliseconds `-1`"),
            ("load:x:1", "the rank `x`"),
            ("stall:1:0", "steps count from 1"),
            ("stall:1:x", "the step `x`"),
            ("fire:1:2", "no fault `fire`"),
        ];
        for (text, reason) in cases {
            let error = text.parse::<Inject>().unwrap_err();
            assert!(error.contains(reason), "{text}: {error}");
        }
    }

    #[test]
    fn a_slow_rank_takes_as_many_times_as_long() {
        let slow = Inject::Slow {
            rank: 0,
            factor: 3.0,
        };
        let start = Instant::now();
        thread::sleep(Duration::from_millis(20));
        slow.strike(1, start);
        assert!(start.elapsed() >= Duration::from_millis(60));
    }
}
