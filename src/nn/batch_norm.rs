//! Batch normalisation.

mod there;

use super::device::DeviceLayer;
use super::layer::{Backward, Init, Layer, Pass};
use crate::backend::cpu::batch_norm::{Channels, Gradient, Running, Statistics};
use crate::backend::cpu::{Input, Scratch};
use crate::data::Shape;
use crate::rng::Stream;
use there::There;

/// How a batch is normalised.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Settings {
    /// Share of the newest batch in the running estimates.
    pub(super) momentum: f32,
    /// What is added to a variance.
    pub(super) eps: f32,
    /// Whether the batch is that of all ranks of the team, or of the rank.
    pub(super) across_ranks: bool,
}

/// Each channel brought to mean 0 and variance 1, then scaled by gamma and shifted by beta, its parameters.
///
/// Training normalises by the batch and keeps running estimates, which evaluation normalises by.
pub(super) struct BatchNorm {
    settings: Settings,
    channels: Channels,
    shape: Shape,
    running: Running,
    stats: Statistics,
    /// Of the latest batch: sums, sums of squares and the count.
    sums: Vec<f64>,
    /// Of its gradient.
    slopes: Vec<f64>,
    /// What it keeps on a device, if it is there.
    there: Option<There>,
}

impl BatchNorm {
    pub(super) fn new(settings: Settings, shape: Shape) -> Self {
        let Shape { c, h, w } = shape;
        Self {
            settings,
            channels: Channels { c, plane: h * w },
            shape,
            running: Running::new(c),
            stats: Statistics::new(c),
            sums: vec![0.0; 2 * c + 1],
            slopes: vec![0.0; 2 * c],
            there: None,
        }
    }

    /// Adds up over those that share a batch: the threads of the rank, or of all ranks.
    fn sum(&self, pass: Pass, values: &mut [f64]) {
        pass.peers.sum(self.settings.across_ranks, values);
    }

    /// Elements of a channel in the latest batch.
    fn count(&self) -> f64 {
        self.sums[2 * self.channels.c]
    }
}

impl Layer for BatchNorm {
    fn name(&self) -> &'static str {
        "batch_norm"
    }

    fn output(&self) -> Shape {
        self.shape
    }

    fn tensors(&self) -> Vec<(&'static str, Vec<usize>)> {
        let c = self.channels.c;
        vec![("weight", vec![c]), ("bias", vec![c])]
    }

    fn init(&self, _init: Init, _stream: &mut Stream, params: &mut [f32]) {
        let (gamma, beta) = params.split_at_mut(self.channels.c);
        gamma.fill(1.0);
        beta.fill(0.0);
    }

    fn state(&self) -> Vec<(&'static str, &[f32])> {
        vec![
            ("running_mean", &self.running.mean),
            ("running_var", &self.running.var),
        ]
    }

    fn set_state(&mut self, values: &[f32]) {
        let (mean, var) = values.split_at(self.channels.c);
        self.running.mean.copy_from_slice(mean);
        self.running.var.copy_from_slice(var);
    }

    fn forward(
        &mut self,
        pass: Pass,
        params: &[f32],
        x: Input,
        y: &mut [f32],
        _scratch: &mut Scratch,
    ) {
        let (x, eps) = (x.floats(), self.settings.eps);
        if pass.training {
            // Taken out and put back: summing looks at the layer too.
            let mut sums = std::mem::take(&mut self.sums);
            self.channels.sums(x, &mut sums);
            self.sum(pass, &mut sums);
            self.sums = sums;
            self.running.update(&self.sums, self.settings.momentum);
            self.stats.of_batch(&self.sums, eps);
        } else {
            self.stats.of_run(&self.running, eps);
        }
        let (gamma, beta) = params.split_at(self.channels.c);
        self.channels.forward(x, &self.stats, gamma, beta, y);
    }

    fn grad_params(
        &mut self,
        pass: Pass,
        work: &Backward,
        grads: &mut [f32],
        _scratch: &mut Scratch,
    ) {
        let (c, x) = (self.channels.c, work.x.floats());
        let mut slopes = std::mem::take(&mut self.slopes);
        if x.is_empty() {
            // A rank without samples has nothing to add; its statistics may be of nothing too.
            slopes.fill(0.0);
        } else {
            self.channels
                .backward_sums(x, work.dy, &self.stats, &mut slopes);
        }
        let (dgamma, dbeta) = grads.split_at_mut(c);
        let single = |sums: &[f64], grads: &mut [f32]| {
            let pairs = grads.iter_mut().zip(sums);
            pairs.for_each(|(grad, &sum)| *grad = sum as f32);
        };
        single(&slopes[..c], dbeta);
        single(&slopes[c..], dgamma);
        self.sum(pass, &mut slopes);
        self.slopes = slopes;
    }

    fn grad_input(&mut self, _pass: Pass, work: &Backward, dx: &mut [f32], _scratch: &mut Scratch) {
        let layer = Gradient {
            stats: &self.stats,
            gamma: &work.params[..self.channels.c],
            sums: &self.slopes,
            count: self.count(),
        };
        self.channels.backward(work.x.floats(), work.dy, layer, dx);
    }

    fn on_device(&mut self) -> &mut dyn DeviceLayer {
        self
    }
}
