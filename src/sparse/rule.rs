//! How the gradient of one feature moves its weight. What a rule remembers of a feature is a few floats beside each other,
//! so that a feature costs one line of memory.

use serde::Serialize;

use crate::backend::cpu::{LANES, Lanes};

/// How weights are learnt.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[serde(tag = "name", rename_all = "lowercase")]
pub enum Rule {
    /// w ← w − η·g.
    Sgd {
        /// Pulls weights to zero in equal amounts.
        l1: f32,
        /// Pulls weights to zero in proportion.
        l2: f32,
    },
    /// n ← n + g², w ← w − η·g / √n (Duchi, Hazan and Singer, 2011).
    Adagrad {
        /// See `Sgd`.
        l1: f32,
        /// See `Sgd`.
        l2: f32,
    },
    /// FTRL-proximal (McMahan et al., 2013).
    Ftrl {
        /// Slows the first steps of a feature down.
        beta: f32,
        /// Keeps weights at zero until enough speaks against it.
        l1: f32,
        /// Pulls weights to zero in proportion.
        l2: f32,
    },
}

impl Rule {
    /// Floats that it remembers of a feature, the weight included.
    pub fn width(self) -> usize {
        match self {
            Self::Sgd { l1: 0.0, l2: 0.0 } => 1,
            Self::Adagrad { l1, l2 } if l1 > 0.0 || l2 > 0.0 => 4,
            _ => 2,
        }
    }

    /// As the user reads it.
    pub fn describe(self) -> String {
        let pulls = |l1: f32, l2: f32| match (l1 > 0.0, l2 > 0.0) {
            (false, false) => String::new(),
            (true, false) => format!(", L1 {l1}"),
            (false, true) => format!(", L2 {l2}"),
            (true, true) => format!(", L1 {l1}, L2 {l2}"),
        };
        match self {
            Self::Sgd { l1, l2 } => format!("sgd{}", pulls(l1, l2)),
            Self::Adagrad { l1, l2 } => format!("adagrad{}", pulls(l1, l2)),
            Self::Ftrl { beta, l1, l2 } => format!("ftrl, beta {beta}{}", pulls(l1, l2)),
        }
    }
}

/// A rule at one moment of a run, for features of `W` floats.
pub trait Move<const W: usize>: Copy + 'static {
    /// Which of the floats is a time, if any; the others are sums, to which several ranks may add.
    const TIME: Option<usize> = None;

    /// The same rule at the rate `lr`.
    fn at_rate(self, lr: f32) -> Self;
    /// The same rule when rates have summed up to `time`.
    fn at_time(self, _time: f32) -> Self {
        self
    }
    /// The same rule at the rate `lr`, when rates have summed up to `time`.
    fn at(self, lr: f32, time: f32) -> Self {
        self.at_rate(lr).at_time(time)
    }
    /// The weight of a feature.
    fn weight(self, state: [f32; W]) -> f32;
    /// A feature behind a step along `gradient`, where `weight` is what [`weight`](Self::weight) gives.
    fn moved(self, state: [f32; W], weight: f32, gradient: f32) -> [f32; W];

    /// As `weight`, of several features: what was remembered of them, float by float.
    #[inline(always)]
    fn weights<L: Lanes>(self, lanes: L, states: [L::Floats; W]) -> L::Floats {
        let states = states.map(|floats| lanes.each(floats));
        let mut weights = [0.0; LANES];
        for i in 0..LANES {
            weights[i] = self.weight(states.map(|floats| floats[i]));
        }
        lanes.of(weights)
    }

    /// As `moved`, of several features; the same bits.
    #[inline(always)]
    fn moves<L: Lanes>(
        self,
        lanes: L,
        states: [L::Floats; W],
        (weights, gradients): (L::Floats, L::Floats),
    ) -> [L::Floats; W] {
        let states = states.map(|floats| lanes.each(floats));
        let (weights, gradients) = (lanes.each(weights), lanes.each(gradients));
        let mut moved = [[0.0; LANES]; W];
        for i in 0..LANES {
            let state = states.map(|floats| floats[i]);
            let state = self.moved(state, weights[i], gradients[i]);
            for j in 0..W {
                moved[j][i] = state[j];
            }
        }
        moved.map(|floats| lanes.of(floats))
    }
}

/// Stochastic gradient descent: the weight.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Sgd {
    lr: f32,
}

impl Move<1> for Sgd {
    fn at_rate(self, lr: f32) -> Self {
        Self { lr }
    }

    #[inline(always)]
    fn weight(self, [weight]: [f32; 1]) -> f32 {
        weight
    }

    #[inline(always)]
    fn moved(self, [now]: [f32; 1], _weight: f32, gradient: f32) -> [f32; 1] {
        [now - self.lr * gradient]
    }

    #[inline(always)]
    fn weights<L: Lanes>(self, _lanes: L, [weights]: [L::Floats; 1]) -> L::Floats {
        weights
    }

    #[inline(always)]
    fn moves<L: Lanes>(
        self,
        lanes: L,
        [now]: [L::Floats; 1],
        (_weights, gradients): (L::Floats, L::Floats),
    ) -> [L::Floats; 1] {
        [lanes.sub(now, lanes.mul(lanes.splat(self.lr), gradients))]
    }
}

/// What pulls weights to zero, also those that no row has touched for long: they are brought up to date when one does.
///
/// In continuous time, dw/dt = −λ₂·w − λ₁·sign(w), which ends at zero. From t₀ to t, with d = e^{−λ₂(t − t₀)}, a weight
/// shrinks to d·|w| − λ₁·(1 − d)/λ₂, or zero. Time is the sum of rates so far, rounded to f32 the same way on both ends, so that
/// many short stretches add up to the long one.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Pull {
    pub(super) l1: f32,
    pub(super) l2: f32,
    now: f32,
}

impl Pull {
    pub(super) fn new(l1: f32, l2: f32) -> Self {
        Self { l1, l2, now: 0.0 }
    }

    #[inline(always)]
    fn on(self, weight: f32, since: f32) -> f32 {
        let time = self.now - since;
        if weight == 0.0 || time <= 0.0 {
            return weight;
        }
        let shrunk = libm::expf(-self.l2 * time);
        let away = match self.l2 {
            0.0 => self.l1 * time,
            l2 => self.l1 * (1.0 - shrunk) / l2,
        };
        let left = weight.abs() * shrunk - away;
        left.max(0.0).copysign(weight)
    }
}

/// Stochastic gradient descent with a pull to zero: the weight, and when it was brought up to date.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct PulledSgd {
    pub(super) pull: Pull,
    lr: f32,
}

impl PulledSgd {
    pub(super) fn new(pull: Pull) -> Self {
        Self { pull, lr: 0.0 }
    }
}

impl Move<2> for PulledSgd {
    const TIME: Option<usize> = Some(1);

    fn at_rate(self, lr: f32) -> Self {
        Self { lr, ..self }
    }

    fn at_time(self, time: f32) -> Self {
        let pull = Pull {
            now: time,
            ..self.pull
        };
        Self { pull, ..self }
    }

    #[inline(always)]
    fn weight(self, [weight, since]: [f32; 2]) -> f32 {
        self.pull.on(weight, since)
    }

    #[inline(always)]
    fn moved(self, _state: [f32; 2], weight: f32, gradient: f32) -> [f32; 2] {
        [weight - self.lr * gradient, self.pull.now]
    }
}

/// AdaGrad: the weight, and the sum of squared gradients.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Adagrad {
    lr: f32,
}

/// The weight and sum behind a step of AdaGrad.
#[inline(always)]
fn adapted(lr: f32, weight: f32, squares: f32, gradient: f32) -> (f32, f32) {
    let squares = squares + gradient * gradient;
    // Next to nothing is added so that zeros need no branch: a gradient of zero then moves nothing.
    (weight - lr / (squares + TINY).sqrt() * gradient, squares)
}

/// Far below the square of any gradient that matters.
const TINY: f32 = 1e-30;

impl Move<2> for Adagrad {
    fn at_rate(self, lr: f32) -> Self {
        Self { lr }
    }

    #[inline(always)]
    fn weight(self, [weight, _]: [f32; 2]) -> f32 {
        weight
    }

    #[inline(always)]
    fn moved(self, [now, squares]: [f32; 2], _weight: f32, gradient: f32) -> [f32; 2] {
        let (weight, squares) = adapted(self.lr, now, squares, gradient);
        [weight, squares]
    }

    #[inline(always)]
    fn weights<L: Lanes>(self, _lanes: L, [weights, _]: [L::Floats; 2]) -> L::Floats {
        weights
    }

    #[inline(always)]
    fn moves<L: Lanes>(
        self,
        lanes: L,
        [now, squares]: [L::Floats; 2],
        (_weights, gradients): (L::Floats, L::Floats),
    ) -> [L::Floats; 2] {
        let squares = lanes.add(squares, lanes.mul(gradients, gradients));
        let root = lanes.sqrt(lanes.add(squares, lanes.splat(TINY)));
        let step = lanes.mul(lanes.div(lanes.splat(self.lr), root), gradients);
        [lanes.sub(now, step), squares]
    }
}

/// AdaGrad with a pull to zero: the weight, the sum of squared gradients, when the weight was brought up to date, and a
/// float that keeps features from lying across lines of memory.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct PulledAdagrad {
    pull: Pull,
    lr: f32,
}

impl PulledAdagrad {
    pub(super) fn new(pull: Pull) -> Self {
        Self { pull, lr: 0.0 }
    }
}

impl Move<4> for PulledAdagrad {
    const TIME: Option<usize> = Some(2);

    fn at_rate(self, lr: f32) -> Self {
        Self { lr, ..self }
    }

    fn at_time(self, time: f32) -> Self {
        let pull = Pull {
            now: time,
            ..self.pull
        };
        Self { pull, ..self }
    }

    #[inline(always)]
    fn weight(self, [weight, _, since, _]: [f32; 4]) -> f32 {
        self.pull.on(weight, since)
    }

    #[inline(always)]
    fn moved(self, [_, squares, _, _]: [f32; 4], weight: f32, gradient: f32) -> [f32; 4] {
        let (weight, squares) = adapted(self.lr, weight, squares, gradient);
        [weight, squares, self.pull.now, 0.0]
    }
}

/// FTRL-proximal: z, the sum of gradients less what the weight has followed of them, and n, the sum of their squares.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Ftrl {
    beta: f32,
    l1: f32,
    l2: f32,
    lr: f32,
}

impl Ftrl {
    pub(super) fn new(beta: f32, l1: f32, l2: f32) -> Self {
        Self {
            beta,
            l1,
            l2,
            lr: 1.0,
        }
    }
}

impl Move<2> for Ftrl {
    fn at_rate(self, lr: f32) -> Self {
        Self { lr, ..self }
    }

    #[inline(always)]
    fn weight(self, [z, n]: [f32; 2]) -> f32 {
        let beyond = (z.abs() - self.l1).max(0.0);
        let slope = (self.beta + n.sqrt()) / self.lr + self.l2;
        // With a beta of zero, the first weight is zero over zero.
        -beyond.copysign(z) / slope.max(TINY)
    }

    #[inline(always)]
    fn moved(self, [z, n]: [f32; 2], weight: f32, gradient: f32) -> [f32; 2] {
        let squares = n + gradient * gradient;
        let sigma = (squares.sqrt() - n.sqrt()) / self.lr;
        [z + gradient - sigma * weight, squares]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backend::cpu::{LaneWork, in_lanes, with_each_set};

    #[test]
    fn a_pull_in_many_stretches_equals_one_long_pull() {
        for (l1, l2) in [(0.1, 0.0), (0.0, 0.5), (0.05, 0.3)] {
            let rule = PulledSgd::new(Pull::new(l1, l2));
            let mut state = [1.0, 0.0];
            for stretch in 1..=100 {
                let now = rule.at(0.0, stretch as f32 * 0.01);
                state = now.moved(state, now.weight(state), 0.0);
            }
            let long = rule.at(0.0, 1.0).weight([1.0, 0.0]);
            assert!(
                (state[0] - long).abs() < 1e-5,
                "{} against {long}",
                state[0]
            );
            assert_eq!(rule.at(0.0, 1e6).weight([-1e-3, 0.0]).abs(), 0.0);
        }
    }

    /// The sums that the paper's Algorithm 1 keeps, step by step in double precision.
    #[test]
    fn ftrl_follows_its_paper() {
        let (alpha, beta, l1, l2) = (0.5, 1.0, 0.2, 0.1);
        let rule = Ftrl::new(beta as f32, l1 as f32, l2 as f32).at(alpha as f32, 0.0);
        let (mut z, mut n, mut state) = (0.0f64, 0.0f64, [0.0f32; 2]);
        for gradient in [0.9f64, -0.3, 0.7, 0.7, -1.5, 0.01] {
            let weight = match z.abs() <= l1 {
                true => 0.0,
                false => -(z - z.signum() * l1) / ((beta + n.sqrt()) / alpha + l2),
            };
            let got = rule.weight(state);
            assert!(
                (f64::from(got) - weight).abs() < 1e-6,
                "{got} against {weight}"
            );
            let sigma = ((n + gradient * gradient).sqrt() - n.sqrt()) / alpha;
            z += gradient - sigma * weight;
            n += gradient * gradient;
            state = rule.moved(state, got, gradient as f32);
        }
    }

    /// Every rule in lanes, against itself one by one.
    struct Both<M, const W: usize>(M);

    impl<M: Move<W>, const W: usize> LaneWork for Both<M, W> {
        #[inline(always)]
        fn run(self, lanes: impl Lanes) {
            let float = |j: usize, i: usize| [0.3, 1.7, 0.2, 0.0][j] * (i as f32 - 3.0);
            let states: [[f32; LANES]; W] = std::array::from_fn(|j| {
                std::array::from_fn(|i| float(j, i).abs() - j as f32 * 0.1)
            });
            let gradients = std::array::from_fn(|i| 0.4 - 0.1 * i as f32);
            let given = states.map(|floats| lanes.of(floats.map(f32::abs)));
            let weights = self.0.weights(lanes, given);
            let both = (weights, lanes.of(gradients));
            let moved = self.0.moves(lanes, given, both);
            let moved = moved.map(|floats| lanes.each(floats));
            for i in 0..LANES {
                let state = states.map(|floats| floats[i].abs());
                let weight = self.0.weight(state);
                assert_eq!(lanes.each(weights)[i], weight);
                let expected = self.0.moved(state, weight, gradients[i]);
                assert_eq!(moved.map(|floats| floats[i]), expected, "lane {i}");
            }
        }
    }

    #[test]
    fn rules_in_lanes_give_the_bits_of_rules_one_by_one() {
        with_each_set(|_| {
            in_lanes(Both(Sgd::default().at(0.3, 0.0)));
            in_lanes(Both(Adagrad::default().at(0.3, 0.0)));
            in_lanes(Both(PulledSgd::new(Pull::new(0.1, 0.2)).at(0.3, 2.0)));
            in_lanes(Both(PulledAdagrad::new(Pull::new(0.1, 0.2)).at(0.3, 2.0)));
            in_lanes(Both(Ftrl::new(1.0, 0.1, 0.2).at(0.3, 0.0)));
        });
    }

    #[test]
    fn adagrad_moves_by_the_rate_at_first_and_less_later() {
        let rule = Adagrad::default().at(0.1, 0.0);
        let mut state = [0.0; 2];
        for (step, expected) in [-0.1, -0.1 - 0.1 / 2f32.sqrt()].into_iter().enumerate() {
            state = rule.moved(state, state[0], 3.0);
            assert!((state[0] - expected).abs() < 1e-6, "step {step}: {state:?}");
        }
        assert_eq!(rule.moved([1.0, 0.0], 1.0, 0.0), [1.0, 0.0]);
    }
}
