//! Which configuration to try next, and when to stop.

use super::{Belief, Forest, Gaussian, Space, Surrogate, halton};

/// What learns from trials.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Model {
    /// A Gaussian process.
    Gaussian,
    /// A forest of random trees.
    Forest,
    /// Nothing: every next one is drawn.
    Random,
}

/// How a search goes.
#[derive(Clone, Debug)]
pub struct Settings {
    /// What learns.
    pub model: Model,
    /// Names the random choices.
    pub seed: u64,
    /// Trials before the model is asked.
    pub first: usize,
    /// The least number of trials before it may stop by itself.
    pub least: usize,
    /// It stops when less than this share of the best is expected to be gained.
    pub gain: f64,
    /// The longest time that a configuration may take, in the unit of trials.
    pub limit: Option<f64>,
}

impl Default for Settings {
    /// As CherryPick has it: three trials to begin with, six at least, a tenth to gain.
    fn default() -> Self {
        Self {
            model: Model::Gaussian,
            seed: 1,
            first: 3,
            least: 6,
            gain: 0.1,
            limit: None,
        }
    }
}

/// A configuration that was tried.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Trial {
    /// Its number in the space.
    pub index: usize,
    /// How long it took, in whatever unit all have; nothing for one that failed.
    pub time: Option<f64>,
}

/// What to do next.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Proposal {
    /// Try this one. Of the first ones, and of those drawn, nothing is expected.
    Try {
        /// Its number in the space.
        index: usize,
        /// The share of the best that is expected to be gained.
        gain: Option<f64>,
    },
    /// Nothing more: all were tried, or too little is expected of the best of the others.
    Stop {
        /// The share of the best that would be gained.
        gain: f64,
    },
}

/// A search over a space.
pub struct Search<'a> {
    space: &'a Space,
    settings: Settings,
    /// What an hour of each configuration costs: what is looked for is the least of time times price.
    prices: Vec<f64>,
    places: Vec<Vec<f64>>,
    owners: Vec<usize>,
    trials: Vec<Trial>,
}

impl<'a> Search<'a> {
    /// For the least time, or with `prices`, one for each configuration, for the least cost.
    pub fn new(space: &'a Space, settings: Settings, prices: Option<Vec<f64>>) -> Self {
        Self {
            space,
            settings,
            prices: prices.unwrap_or_else(|| vec![1.0; space.len()]),
            places: (0..space.len()).map(|index| space.place(index)).collect(),
            owners: space.owners(),
            trials: Vec::new(),
        }
    }

    /// How it goes.
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// The configuration of which most is expected, also where it would stop; nothing if all were tried.
    pub fn go_on(&self) -> Option<usize> {
        let open: Vec<usize> = self.open();
        let (model, best) = (self.model()?, self.best()?);
        let best = self.cost(&best).ln();
        let gain = |index: usize| self.gain(index, model.believe(&self.places[index]), best);
        open.into_iter()
            .max_by(|&a, &b| gain(a).total_cmp(&gain(b)))
    }

    fn open(&self) -> Vec<usize> {
        let tried = |index: &usize| self.trials.iter().any(|trial| trial.index == *index);
        (0..self.space.len())
            .filter(|index| !tried(index))
            .collect()
    }

    fn cost(&self, trial: &Trial) -> f64 {
        trial.time.unwrap_or(f64::INFINITY) * self.prices[trial.index]
    }

    /// All trials so far.
    pub fn trials(&self) -> &[Trial] {
        &self.trials
    }

    /// Forgets all trials but the first so many.
    pub fn forget(&mut self, trials: usize) {
        self.trials.truncate(trials);
    }

    /// Takes what a trial gave.
    pub fn learn(&mut self, trial: Trial) {
        self.trials.push(trial);
    }

    /// The best trial: the cheapest of those that kept to the limit.
    pub fn best(&self) -> Option<Trial> {
        let kept = |trial: &&Trial| {
            let time = trial.time.unwrap_or(f64::INFINITY);
            time.is_finite() && self.settings.limit.is_none_or(|limit| time <= limit)
        };
        let trials = self.trials.iter().filter(kept);
        trials
            .min_by(|a, b| self.cost(a).total_cmp(&self.cost(b)))
            .copied()
    }

    /// What the model expects each configuration to take: times, with a low and a high end that hold about 19 of 20.
    pub fn expected(&self) -> Option<Vec<(f64, f64, f64)>> {
        let model = self.model()?;
        let ends = |place: &Vec<f64>| {
            let Belief { mean, deviation } = model.believe(place);
            let [low, middle, high] = [-2.0, 0.0, 2.0].map(|by| (mean + by * deviation).exp());
            (middle, low, high)
        };
        Some(self.places.iter().map(ends).collect())
    }

    /// What to do next.
    pub fn next(&self) -> Proposal {
        let tried = |index: usize| self.trials.iter().any(|trial| trial.index == index);
        let open = self.open();
        if open.is_empty() {
            return Proposal::Stop { gain: 0.0 };
        }
        let count = self.trials.len();
        let drawn = || Proposal::Try {
            index: self.spread(&tried),
            gain: None,
        };
        if count < self.settings.first {
            return drawn();
        }
        let (Some(model), Some(best)) = (self.model(), self.best()) else {
            // Nothing has been learnt, or nothing kept to the limit: what is likeliest to keep to it comes first.
            return self.likeliest(&open).unwrap_or_else(drawn);
        };
        let best = self.cost(&best).ln();
        let gains = open.iter().map(|&index| {
            let belief = model.believe(&self.places[index]);
            (index, self.gain(index, belief, best))
        });
        let (index, gain) = gains
            .max_by(|a, b| a.1.total_cmp(&b.1))
            .expect("some are open");
        match count >= self.settings.least && gain < self.settings.gain {
            true => Proposal::Stop { gain },
            false => Proposal::Try {
                index,
                gain: Some(gain),
            },
        }
    }

    /// The next point of an even spread that was not tried.
    fn spread(&self, tried: &impl Fn(usize) -> bool) -> usize {
        let axes = self.space.axes.len();
        let points = (0..).map(|i| self.space.at(&halton(self.settings.seed, i, axes)));
        // Some configurations of an odd space are met late: then whichever is open.
        let mut met = points.take(64 * self.space.len()).filter(|&i| !tried(i));
        let open = || (0..self.space.len()).find(|&i| !tried(i));
        met.next().or_else(open).expect("some are open")
    }

    /// The one that is likeliest to keep to the limit, where there is a limit and a model.
    fn likeliest(&self, open: &[usize]) -> Option<Proposal> {
        let (model, _) = (self.model()?, self.settings.limit?);
        let chance = |index: &usize| self.chance(model.believe(&self.places[*index]));
        let best = open.iter().max_by(|a, b| chance(a).total_cmp(&chance(b)))?;
        Some(Proposal::Try {
            index: *best,
            gain: None,
        })
    }

    /// The share of the best that configuration `index` is expected to gain: that of logarithms, which ratios are differences of.
    fn gain(&self, index: usize, belief: Belief, best: f64) -> f64 {
        let mean = belief.mean + self.prices[index].ln();
        let ahead = best - mean;
        let expected = match belief.deviation > 0.0 {
            true => {
                let z = ahead / belief.deviation;
                ahead * below(z) + belief.deviation * density(z)
            }
            false => ahead.max(0.0),
        };
        expected * self.chance(belief)
    }

    /// How likely the limit is kept to.
    fn chance(&self, belief: Belief) -> f64 {
        match self.settings.limit {
            None => 1.0,
            Some(limit) => below((limit.ln() - belief.mean) / belief.deviation.max(1e-9)),
        }
    }

    /// A model of the logarithms of times. Trials that failed count as twice the longest.
    fn model(&self) -> Option<Box<dyn Surrogate>> {
        let times = || self.trials.iter().filter_map(|trial| trial.time);
        let longest = times().fold(0.0, f64::max);
        if longest <= 0.0 {
            return None;
        }
        let places: Vec<Vec<f64>> = (self.trials.iter())
            .map(|trial| self.places[trial.index].clone())
            .collect();
        let values: Vec<f64> = (self.trials.iter())
            .map(|trial| trial.time.unwrap_or(2.0 * longest).ln())
            .collect();
        match self.settings.model {
            Model::Gaussian => {
                let learnt = Gaussian::learn(&places, &self.owners, &values)?;
                Some(Box::new(learnt))
            }
            Model::Forest => {
                let learnt = Forest::learn(self.settings.seed, &places, &values)?;
                Some(Box::new(learnt))
            }
            Model::Random => None,
        }
    }
}

/// The share of a normal distribution that is below `z`.
fn below(z: f64) -> f64 {
    0.5 * libm::erfc(-z / std::f64::consts::SQRT_2)
}

fn density(z: f64) -> f64 {
    (-0.5 * z * z).exp() / (2.0 * std::f64::consts::PI).sqrt()
}

#[cfg(test)]
mod tests {
    use super::super::{Axis, Value};
    use super::*;

    fn space() -> Space {
        let numbers = |values: &[f64]| values.iter().map(|&x| Value::Number(x)).collect();
        let words = ["node-shared", "all-reduce", "one-sided"];
        let axis = |name: &str, values: Vec<Value>| Axis {
            name: name.into(),
            values,
        };
        Space {
            axes: vec![
                axis("ranks", numbers(&[1.0, 2.0, 4.0, 8.0])),
                axis("batch", numbers(&[16.0, 32.0, 64.0, 128.0, 256.0])),
                axis(
                    "exchange",
                    words.map(|word| Value::Word(word.into())).to_vec(),
                ),
            ],
        }
    }

    /// A time as clusters have it: work that is shared, and messages that grow with ranks.
    fn time(space: &Space, index: usize) -> f64 {
        let at = space.indices(index);
        let ranks: f64 = [1.0, 2.0, 4.0, 8.0][at[0]];
        let batch = [16.0, 32.0, 64.0, 128.0, 256.0][at[1]];
        let per_message = [0.2, 1.0, 0.5][at[2]];
        1.0 / ranks + per_message * ranks.log2() * 16.0 / batch + batch / 1024.0
    }

    /// How many trials it takes to be within 5 % of the best.
    fn trials_to_good(model: Model, seed: u64) -> usize {
        let space = space();
        let best = (0..space.len())
            .map(|i| time(&space, i))
            .fold(f64::MAX, f64::min);
        let settings = Settings {
            model,
            seed,
            gain: 0.0,
            ..Settings::default()
        };
        let mut search = Search::new(&space, settings, None);
        while let Proposal::Try { index, .. } = search.next() {
            let time = time(&space, index);
            search.learn(Trial {
                index,
                time: Some(time),
            });
            if time <= 1.05 * best {
                break;
            }
        }
        search.trials().len()
    }

    #[test]
    fn few_trials_find_a_good_one_where_drawing_takes_many() {
        let median = |model: Model| {
            let mut all: Vec<usize> = (0..21).map(|seed| trials_to_good(model, seed)).collect();
            all.sort_unstable();
            all[10]
        };
        let (gaussian, forest, random) = (
            median(Model::Gaussian),
            median(Model::Forest),
            median(Model::Random),
        );
        assert!(
            gaussian <= 8 && forest <= 12,
            "{gaussian} {forest} {random}"
        );
        assert!(gaussian * 2 <= random, "{gaussian} {forest} {random}");
    }

    #[test]
    fn it_stops_when_there_is_little_to_gain_and_at_the_end_of_the_space() {
        let space = space();
        let mut search = Search::new(&space, Settings::default(), None);
        let stopped = loop {
            match search.next() {
                Proposal::Stop { gain } => break gain,
                Proposal::Try { index, .. } => search.learn(Trial {
                    index,
                    time: Some(time(&space, index)),
                }),
            }
        };
        let count = search.trials().len();
        assert!(
            (6..20).contains(&count) && stopped < 0.1,
            "{count} {stopped}"
        );
        let never = Settings {
            gain: 0.0,
            ..Settings::default()
        };
        let mut search = Search::new(&space, never, None);
        while let Proposal::Try { index, .. } = search.next() {
            search.learn(Trial { index, time: None });
        }
        assert_eq!(search.trials().len(), space.len());
        assert_eq!(search.best(), None);
    }

    #[test]
    fn prices_and_limits_move_the_best() {
        let space = space();
        let ranks = |index: usize| [1.0, 2.0, 4.0, 8.0][space.indices(index)[0]];
        let prices: Vec<f64> = (0..space.len()).map(ranks).collect();
        let all = |search: &mut Search| {
            while let Proposal::Try { index, .. } = search.next() {
                let time = Some(time(&space, index));
                search.learn(Trial { index, time });
            }
            search.best().unwrap()
        };
        let mut fastest = Search::new(&space, Settings::default(), None);
        let mut cheapest = Search::new(&space, Settings::default(), Some(prices.clone()));
        let limited = Settings {
            limit: Some(0.8),
            ..Settings::default()
        };
        let mut limited = Search::new(&space, limited, Some(prices));
        let (fastest, cheapest, limited) =
            (all(&mut fastest), all(&mut cheapest), all(&mut limited));
        assert!(ranks(fastest.index) > ranks(cheapest.index));
        assert!(limited.time.unwrap() <= 0.8 && cheapest.time.unwrap() > 0.8);
    }

    #[test]
    fn the_normal_distribution_is_the_one_of_tables() {
        assert!((below(1.959_964) - 0.975).abs() < 1e-6 && (below(0.0) - 0.5).abs() < 1e-12);
        assert!((density(0.0) - 0.398_942_28).abs() < 1e-8);
    }
}
