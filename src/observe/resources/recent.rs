//! How fast a rank was in its last seconds.

use std::collections::VecDeque;

use super::Beat;

/// How far back it is remembered: steps may take seconds.
const SECONDS: f64 = 10.0;

/// The beats of the last seconds.
#[derive(Default)]
pub(super) struct Recent(VecDeque<(f64, Beat)>);

impl Recent {
    /// Remembers a beat at a time.
    pub(super) fn add(&mut self, seconds: f64, beat: Beat) {
        self.0.push_back((seconds, beat));
        while self.0.len() > 2 && self.0[0].0 < seconds - SECONDS {
            self.0.pop_front();
        }
    }

    /// Samples in a second.
    pub(super) fn speed(&self) -> f64 {
        match self.ends() {
            Some((passed, first, last)) => {
                last.samples.saturating_sub(first.samples) as f64 / passed
            }
            None => 0.0,
        }
    }

    /// Shares of the time in compute, exchange, wait and load, in per cent.
    pub(super) fn percents(&self) -> [f64; 4] {
        let Some((passed, first, last)) = self.ends() else {
            return [0.0; 4];
        };
        let share = |i: usize| {
            let percent = 100.0 * (last.parts[i] - first.parts[i]) / passed;
            (percent * 10.0).round() / 10.0
        };
        [0, 1, 2, 3].map(share)
    }

    fn ends(&self) -> Option<(f64, Beat, Beat)> {
        let (first, last) = (self.0.front()?, self.0.back()?);
        let passed = last.0 - first.0;
        (passed > 0.0).then_some((passed, first.1, last.1))
    }
}

/// A time since 1970 as dstat writes it, such as `17 Nov 2026 05:48:27 UTC`.
pub(super) fn date(seconds: f64) -> String {
    let (days, rest) = ((seconds / 86400.0) as i64, seconds as i64 % 86400);
    // Years from March on: the leap day is the last of one. Eras of 400 years are alike.
    let shifted = days + 719_468;
    let (era, day) = (shifted / 146_097, shifted % 146_097);
    let year = (day - day / 1460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day + 2) / 153;
    let day = day - (153 * month + 2) / 5 + 1;
    let names = [
        "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec", "Jan", "Feb",
    ];
    let year = era * 400 + year + i64::from(month >= 10);
    let (hour, minute, second) = (rest / 3600, rest / 60 % 60, rest % 60);
    let month = names[month as usize];
    format!("{day:02} {month} {year} {hour:02}:{minute:02}:{second:02} UTC")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn speed_and_shares_are_those_of_the_last_ten_seconds() {
        let mut recent = Recent::default();
        for second in 0..=30u64 {
            // Twice as fast from second 20 on, where it only computes.
            let beat = Beat {
                samples: 100 * second + 100 * second.saturating_sub(20),
                parts: [second as f64, (second as f64 / 2.0).min(10.0), 0.0, 0.0],
                ..Beat::default()
            };
            recent.add(second as f64, beat);
        }
        assert_eq!(recent.speed(), 200.0);
        assert_eq!(recent.percents(), [100.0, 0.0, 0.0, 0.0]);
        assert_eq!(Recent::default().speed(), 0.0);
    }

    #[test]
    fn dates_are_those_of_the_calendar() {
        for (seconds, words) in [
            (0.0, "01 Jan 1970 00:00:00 UTC"),
            (951_827_696.0, "29 Feb 2000 12:34:56 UTC"),
            (1_794_894_507.0, "17 Nov 2026 05:48:27 UTC"),
            (4_107_542_399.0, "28 Feb 2100 23:59:59 UTC"),
            (4_107_542_400.0, "01 Mar 2100 00:00:00 UTC"),
        ] {
            assert_eq!(date(seconds), words);
        }
    }
}
