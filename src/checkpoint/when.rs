//! How often checkpoints are written, as it is typed.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

/// From one checkpoint to the next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum When {
    /// So many steps.
    Steps(u64),
    /// So much time, by the clock of the first rank.
    Time(Duration),
    /// An epoch.
    Epoch,
}

impl FromStr for When {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let expected = || "expected steps (500), a time (30s, 10m, 2h) or epoch".to_string();
        if text == "epoch" {
            return Ok(Self::Epoch);
        }
        match text.replace('_', "").parse::<u64>() {
            Ok(0) => Err("must be at least 1".into()),
            Ok(steps) => Ok(Self::Steps(steps)),
            Err(_) => time(text).map(Self::Time).map_err(|_| expected()),
        }
    }
}

impl fmt::Display for When {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        match self {
            Self::Steps(1) => write!(f, "step"),
            Self::Steps(steps) => write!(f, "{steps} steps"),
            Self::Time(time) => write!(f, "{time:?}"),
            Self::Epoch => write!(f, "epoch"),
        }
    }
}

/// A time with its unit: `90s`, `10m`, `1.5h` or `2d`.
pub fn time(text: &str) -> Result<Duration, String> {
    let expected = || "expected a time with its unit, such as 30s, 10m or 2h".to_string();
    let units = [('s', 1.0), ('m', 60.0), ('h', 3600.0), ('d', 86400.0)];
    let unit = units.iter().find(|(unit, _)| text.ends_with(*unit));
    let (unit, seconds) = unit.ok_or_else(expected)?;
    let number: f64 = text
        .trim_end_matches(*unit)
        .parse()
        .map_err(|_| expected())?;
    let time = number * seconds;
    match (0.001..=1e9).contains(&time) {
        true => Ok(Duration::from_secs_f64(time)),
        false => Err("must be from 0.001 s to 1e9 s".into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_times_and_epochs_are_told_apart() {
        let good = [
            ("500", When::Steps(500)),
            ("1_000", When::Steps(1000)),
            ("30s", When::Time(Duration::from_secs(30))),
            ("10m", When::Time(Duration::from_secs(600))),
            ("1.5h", When::Time(Duration::from_secs(5400))),
            ("2d", When::Time(Duration::from_secs(172_800))),
            ("epoch", When::Epoch),
        ];
        for (text, when) in good {
            assert_eq!(text.parse(), Ok(when), "{text}");
        }
        for text in [
            "0", "", "s", "-5s", "0s", "nan s", "infm", "10 weeks", "epochs", "1e99d",
        ] {
            assert!(text.parse::<When>().is_err(), "{text}");
        }
    }
}
