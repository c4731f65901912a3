//! A grid that was measured before, in place of trials.

use std::path::Path;

use super::{Model, Proposal, Search, Settings, Space, Task, Trial};
use crate::observe::Sheet;
use crate::study::median;
use crate::sweep::same;
use crate::{Error, Result};

/// The times of all configurations.
pub struct Recorded {
    times: Vec<f64>,
}

/// How searches with different seeds went.
#[derive(Clone, Debug, PartialEq)]
pub struct Score {
    /// Searches.
    pub seeds: usize,
    /// Those that had a configuration within a share of the best after so many trials, if they made as many.
    pub good: usize,
    /// Those that had one when they stopped by themselves, or after so many trials.
    pub kept: usize,
    /// Trials until the first such one: the middle, and the most.
    pub trials: (f64, usize),
    /// Trials until the search stopped by itself, and how far from the best it was then: the middle of each.
    pub stopped: (f64, f64),
}

impl Recorded {
    /// Reads `runs.csv` of a study over the same space: the middle of all its seeds.
    pub fn read(path: &Path, task: &Task, space: &Space) -> Result<Self> {
        let sheet = Sheet::read(path)?;
        let wrong = |problem: String| {
            let hint = "it is runs.csv of a `phalanx sweep` over the same values";
            Error::file(path, problem, hint)
        };
        let column = |name: &str| -> Result<Vec<String>> {
            let cells = sheet.column(name);
            let cells = cells.ok_or_else(|| wrong(format!("has no column `{name}`")))?;
            Ok(cells.map(str::to_owned).collect())
        };
        let axes = space.axes.iter().map(|axis| column(&axis.name));
        let axes: Vec<Vec<String>> = axes.collect::<Result<_>>()?;
        let figures = column(&task.measure.figure)?;
        let time = |index: usize| {
            let values: Vec<String> = space.values(index).iter().map(|v| v.to_string()).collect();
            let fits = |row: &usize| {
                axes.iter()
                    .zip(&values)
                    .all(|(axis, value)| same(&axis[*row], value))
            };
            let rows = (0..figures.len()).filter(fits);
            let times: Vec<f64> = rows.filter_map(|row| figures[row].parse().ok()).collect();
            median(times)
                .map(|figure| task.measure.time(figure))
                .ok_or_else(|| {
                    wrong(format!(
                        "has no `{}` of {}",
                        task.measure.figure,
                        values.join(", ")
                    ))
                })
        };
        let times: Result<Vec<f64>> = (0..space.len()).map(time).collect();
        Ok(Self { times: times? })
    }

    /// The time of configuration `index`.
    pub fn time(&self, index: usize) -> f64 {
        self.times[index]
    }

    /// Searches with `seeds` seeds: how many of them find a configuration within `share` of the best in `trials` trials.
    pub fn score(
        &self,
        (task, space): (&Task, &Space),
        settings: &Settings,
        seeds: usize,
        (share, trials): (f64, usize),
    ) -> Result<Score> {
        let prices = task.prices(space);
        let limit = settings.limit.unwrap_or(f64::INFINITY);
        let cost = |index: usize| {
            let price = prices.as_ref().map_or(1.0, |prices| prices[index]);
            match self.times[index] <= limit {
                true => self.times[index] * price,
                false => f64::INFINITY,
            }
        };
        let best = (0..space.len()).map(cost).fold(f64::INFINITY, f64::min);
        if !best.is_finite() {
            let problem = "no configuration of the grid keeps to measure.limit";
            return Err(Error::Usage(problem.into()));
        }
        let mut found: Vec<usize> = Vec::new();
        let mut stops: Vec<(usize, f64)> = Vec::new();
        for seed in 0..seeds as u64 {
            let settings = Settings {
                seed,
                ..settings.clone()
            };
            let mut search = Search::new(space, settings, prices.clone());
            let (mut first, mut stopped) = (None, None);
            let mut least = f64::INFINITY;
            for number in 1..=space.len() {
                let index = match search.next() {
                    Proposal::Try { index, .. } => index,
                    Proposal::Stop { .. } => {
                        stopped.get_or_insert((number - 1, least / best));
                        match (first, search.go_on()) {
                            (None, Some(index)) => index,
                            _ => break,
                        }
                    }
                };
                search.learn(Trial {
                    index,
                    time: Some(self.times[index]),
                });
                least = least.min(cost(index));
                if cost(index) <= (1.0 + share) * best {
                    first.get_or_insert(number);
                }
                // What is only drawn never stops by itself.
                if first.is_some()
                    && (stopped.is_some() || search.settings().model == Model::Random)
                {
                    break;
                }
            }
            found.push(first.unwrap_or(space.len()));
            stops.push(stopped.unwrap_or((search.trials().len(), least / best)));
        }
        let middle = |all: Vec<f64>| median(all).unwrap_or(f64::NAN);
        let kept = found.iter().zip(&stops);
        let kept = kept.filter(|(first, (stopped, _))| **first <= trials.min(*stopped));
        Ok(Score {
            seeds,
            good: found.iter().filter(|&&first| first <= trials).count(),
            kept: kept.count(),
            trials: (
                middle(found.iter().map(|&first| first as f64).collect()),
                found.iter().copied().max().unwrap_or(0),
            ),
            stopped: (
                middle(stops.iter().map(|(trials, _)| *trials as f64).collect()),
                middle(stops.iter().map(|(_, far)| far - 1.0).collect()),
            ),
        })
    }
}
