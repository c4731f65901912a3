//! Launches `kernels/update.cu`: steps of the optimizers in [`crate::optim`], rounding as they do.

use super::launch::{Arg, Grid};
use super::module::Source;
use super::{Stream, View, ViewMut};
use crate::Result;

/// Where the amounts go that are to be added to parameters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Target {
    /// They are added.
    Params,
    /// They replace gradients, for who moves the parameters elsewhere.
    Grads,
}

/// What an optimizer moves: parameters and their gradients, as many.
pub struct Moved<'a> {
    /// Parameters.
    pub params: ViewMut<'a, f32>,
    /// Gradients.
    pub grads: ViewMut<'a, f32>,
    /// What becomes of the amounts.
    pub target: Target,
}

impl Moved<'_> {
    fn args(&self) -> [Arg; 4] {
        assert_eq!(self.params.len(), self.grads.len(), "a gradient each");
        let apply = Arg::of(i32::from(self.target == Target::Params));
        let n = Arg::size(self.params.len());
        [(&self.params).into(), (&self.grads).into(), n, apply]
    }
}

/// Plain descent: `params −= lr × (gradient + weight_decay × params)`.
pub fn sgd(stream: &Stream, lr: f32, weight_decay: f32, moved: Moved) -> Result<()> {
    let [p, g, n, apply] = moved.args();
    let args = [lr.into(), weight_decay.into(), p, g, n, apply];
    start(stream, "update_sgd", moved.params.len(), args)
}

/// Settings of momentum.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Momentum {
    /// Learning rate.
    pub lr: f32,
    /// Share of the velocity that stays.
    pub momentum: f32,
    /// Whether to look ahead.
    pub nesterov: bool,
    /// Share of each parameter that is added to its gradient.
    pub weight_decay: f32,
}

/// Momentum, classic or Nesterov's.
pub fn momentum(
    stream: &Stream,
    settings: Momentum,
    moved: Moved,
    velocity: ViewMut<f32>,
) -> Result<()> {
    assert_eq!(moved.params.len(), velocity.len(), "a velocity each");
    let [p, g, n, apply] = moved.args();
    let keep = settings.momentum;
    let (now, then) = match settings.nesterov {
        true => (1.0f32, keep),
        false => (0.0, 1.0),
    };
    let args = [
        settings.lr.into(),
        keep.into(),
        settings.weight_decay.into(),
        now.into(),
        then.into(),
        p,
        g,
        (&velocity).into(),
        n,
        apply,
    ];
    start(stream, "update_momentum", moved.params.len(), args)
}

/// Settings of Adam at one step.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Adam {
    /// Learning rate.
    pub lr: f32,
    /// Share of the first moment that stays.
    pub beta1: f64,
    /// Share of the second moment that stays.
    pub beta2: f64,
    /// How fast parameters fade.
    pub weight_decay: f64,
    /// Whether fading bypasses the moments: AdamW.
    pub decoupled: bool,
    /// What is added to roots.
    pub epsilon: f64,
    /// The step's number, from 1.
    pub step: i32,
}

/// What the kernel reads.
#[repr(C)]
#[derive(Clone, Copy)]
struct Rates {
    rate: f32,
    root: f32,
    keep1: f32,
    take1: f32,
    keep2: f32,
    take2: f32,
    coupled: f32,
    fade: f32,
    epsilon: f32,
}

impl Adam {
    fn rates(self) -> Rates {
        let correction = |beta: f64| 1.0 - beta.powi(self.step);
        let (coupled, fade) = match self.decoupled {
            true => (0.0, (f64::from(self.lr) * self.weight_decay) as f32),
            false => (self.weight_decay as f32, 0.0),
        };
        Rates {
            rate: (f64::from(self.lr) / correction(self.beta1)) as f32,
            root: (1.0 / correction(self.beta2).sqrt()) as f32,
            keep1: self.beta1 as f32,
            take1: (1.0 - self.beta1) as f32,
            keep2: self.beta2 as f32,
            take2: (1.0 - self.beta2) as f32,
            coupled,
            fade,
            epsilon: self.epsilon as f32,
        }
    }
}

/// Adam and AdamW, with the first and second moments.
pub fn adam(
    stream: &Stream,
    settings: Adam,
    moved: Moved,
    [first, second]: [ViewMut<f32>; 2],
) -> Result<()> {
    let sizes = (first.len(), second.len());
    assert_eq!(sizes, (moved.params.len(), moved.params.len()), "moments");
    let [p, g, n, apply] = moved.args();
    let rates = Arg::of(settings.rates());
    let args = [rates, p, g, (&first).into(), (&second).into(), n, apply];
    start(stream, "update_adam", moved.params.len(), args)
}

/// Settings of LARS.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Lars {
    /// Learning rate.
    pub lr: f32,
    /// How far a tensor moves, as a share of its norm.
    pub trust: f64,
    /// Share of the velocity that stays.
    pub momentum: f64,
    /// Share of each parameter that is added to its gradient.
    pub weight_decay: f64,
}

/// LARS for one tensor, or a part of one: `squares` are those of the whole tensor's parameters and gradients; without, it moves at
/// the plain rate and does not fade.
pub fn lars(
    stream: &Stream,
    settings: Lars,
    squares: Option<View<f64>>,
    moved: Moved,
    velocity: ViewMut<f32>,
) -> Result<()> {
    assert_eq!(moved.params.len(), velocity.len(), "a velocity each");
    assert!(squares.is_none_or(|squares| squares.len() == 2));
    let [p, g, n, apply] = moved.args();
    let args = [
        settings.lr.into(),
        settings.trust.into(),
        (settings.momentum as f32).into(),
        settings.weight_decay.into(),
        squares.map_or(Arg::of(0u64), Arg::from),
        p,
        g,
        (&velocity).into(),
        n,
        apply,
    ];
    start(stream, "update_lars", moved.params.len(), args)
}

/// Shortens a gradient, whose whole has this square of its norm, to `limit` where it is longer.
pub fn clip(stream: &Stream, limit: f64, square: View<f64>, grads: ViewMut<f32>) -> Result<()> {
    assert_eq!(square.len(), 1, "one square");
    let n = Arg::size(grads.len());
    let args = [limit.into(), square.into(), (&grads).into(), n];
    start(stream, "update_clip", grads.len(), args)
}

/// `params += deltas`.
pub fn add(stream: &Stream, deltas: View<f32>, params: ViewMut<f32>) -> Result<()> {
    assert_eq!(deltas.len(), params.len(), "an amount each");
    let args = [deltas.into(), (&params).into(), Arg::size(params.len())];
    start(stream, "update_add", params.len(), args)
}

fn start<const N: usize>(
    stream: &Stream,
    name: &'static str,
    n: usize,
    args: [Arg; N],
) -> Result<()> {
    if n == 0 {
        return Ok(());
    }
    let kernel = stream.device().kernel(Source::Update, name)?;
    kernel.start(stream, Grid::over(n), args)
}
