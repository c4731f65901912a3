//! Batch normalisation on a device. Sums over ranks go by way of the host: a few numbers a channel.

use super::BatchNorm;
use crate::Result;
use crate::backend::cuda::batch_norm::{self, Normal, Statistics};
use crate::backend::cuda::{Buffer, Stream, View, ViewMut};
use crate::nn::device::{Backward, DeviceLayer, Pass};

/// What the layer keeps on a device.
pub(super) struct There {
    mean: Buffer<f32>,
    var: Buffer<f32>,
    stats: Statistics,
    /// Of the latest batch: sums, sums of squares and the count.
    sums: Buffer<f64>,
    /// Of its gradient.
    slopes: Buffer<f64>,
    scratch: Buffer<f64>,
    /// Elements of a channel in the latest batch.
    count: f64,
}

/// Why there is memory.
const ALLOCATED: &str = "it was allocated before the first pass";

impl BatchNorm {
    /// Adds up over the ranks of the team, if the batch is theirs; gives the last sum.
    fn over_ranks(across: bool, pass: Pass, sums: &mut Buffer<f64>) -> Result<Option<f64>> {
        let Some(team) = pass.team.filter(|team| across && team.size() > 1) else {
            return Ok(None);
        };
        let mut values = pass.stream.values(sums.view())?;
        team.sum(&mut values[..]);
        pass.stream.upload(&values, sums.view_mut())?;
        Ok(values.last().copied())
    }
}

impl DeviceLayer for BatchNorm {
    fn bytes(&self, _n: usize) -> usize {
        let c = self.channels.c;
        4 * 4 * c + 8 * (4 * c + 1 + batch_norm::scratch(self.channels))
    }

    fn allocate(&mut self, stream: &Stream, _n: usize) -> Result<()> {
        let (device, c) = (stream.device(), self.channels.c);
        self.there = Some(There {
            mean: Buffer::new(device, c)?,
            var: Buffer::new(device, c)?,
            stats: Statistics::new(device, c)?,
            sums: Buffer::new(device, 2 * c + 1)?,
            slopes: Buffer::new(device, 2 * c)?,
            scratch: Buffer::new(device, batch_norm::scratch(self.channels))?,
            count: 0.0,
        });
        Ok(())
    }

    fn forward(
        &mut self,
        pass: Pass,
        params: View<f32>,
        x: View<f32>,
        y: ViewMut<f32>,
        _scratch: ViewMut<f32>,
    ) -> Result<()> {
        let (stream, eps) = (pass.stream, self.settings.eps);
        let there = self.there.as_mut().expect(ALLOCATED);
        if pass.training {
            let (sums, scratch) = (there.sums.view_mut(), there.scratch.view_mut());
            batch_norm::sums(stream, self.channels, x, sums, scratch)?;
            let mine = (pass.n * self.channels.plane) as f64;
            let all = Self::over_ranks(self.settings.across_ranks, pass, &mut there.sums)?;
            there.count = all.unwrap_or(mine);
            // Statistics of nothing would be no numbers.
            if there.count > 0.0 {
                let (mean, var) = (there.mean.view_mut(), there.var.view_mut());
                let momentum = self.settings.momentum;
                batch_norm::running(stream, there.sums.view(), momentum, mean, var)?;
                there.stats.of_batch(stream, there.sums.view(), eps)?;
            }
        } else {
            let (mean, var) = (there.mean.view(), there.var.view());
            there.stats.of_run(stream, mean, var, eps)?;
        }
        let (gamma, beta) = params.split_at(self.channels.c);
        batch_norm::forward(stream, self.channels, x, there.normal(gamma), beta, y)
    }

    fn grad_params(
        &mut self,
        pass: Pass,
        work: &Backward,
        grads: ViewMut<f32>,
        _scratch: ViewMut<f32>,
    ) -> Result<()> {
        let stream = pass.stream;
        let there = self.there.as_mut().expect(ALLOCATED);
        if pass.n == 0 {
            // A rank without samples has nothing to add; its statistics may be of nothing too.
            stream.clear(there.slopes.view_mut())?;
        } else {
            let gamma = work.params.part(0..self.channels.c);
            let normal = Normal {
                mean: there.stats.mean.view(),
                inv_std: there.stats.inv_std.view(),
                gamma,
            };
            let (sums, scratch) = (there.slopes.view_mut(), there.scratch.view_mut());
            batch_norm::backward_sums(
                stream,
                self.channels,
                work.x,
                work.dy,
                normal,
                sums,
                scratch,
            )?;
        }
        let (dgamma, dbeta) = grads.split_at(self.channels.c);
        batch_norm::grads(stream, there.slopes.view(), dgamma, dbeta)?;
        Self::over_ranks(self.settings.across_ranks, pass, &mut there.slopes)?;
        Ok(())
    }

    fn grad_input(
        &mut self,
        pass: Pass,
        work: &Backward,
        dx: ViewMut<f32>,
        _scratch: ViewMut<f32>,
    ) -> Result<()> {
        if pass.n == 0 {
            return Ok(());
        }
        let there = self.there.as_ref().expect(ALLOCATED);
        let normal = there.normal(work.params.part(0..self.channels.c));
        batch_norm::backward(
            pass.stream,
            self.channels,
            work.x,
            work.dy,
            normal,
            there.slopes.view(),
            there.count,
            dx,
        )
    }

    fn state(&self, stream: &Stream) -> Result<Vec<f32>> {
        let there = self.there.as_ref().expect(ALLOCATED);
        Ok([
            stream.values(there.mean.view())?,
            stream.values(there.var.view())?,
        ]
        .concat())
    }

    fn set_state(&mut self, stream: &Stream, values: &[f32]) -> Result<()> {
        let there = self.there.as_mut().expect(ALLOCATED);
        let (mean, var) = values.split_at(self.channels.c);
        stream.upload(mean, there.mean.view_mut())?;
        stream.upload(var, there.var.view_mut())
    }
}

impl There {
    fn normal<'a>(&'a self, gamma: View<'a, f32>) -> Normal<'a> {
        Normal {
            mean: self.stats.mean.view(),
            inv_std: self.stats.inv_std.view(),
            gamma,
        }
    }
}
