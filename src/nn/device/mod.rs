//! A model on a device: parameters and batches go in, gradients and a tally come out, and nothing else crosses.
//!
//! ```text
//!  Batch ─▶ Intake (pinned memory, a stream of its own) ─▶ images ─▶ passes: a kernel a layer ─▶ gradients ─▶ Outlet
//!                                                                              └▶ Report: tally, flag, norm
//! ```

mod fault;
mod intake;
mod layer;
mod memory;
mod passes;
mod report;

use std::rc::Rc;

pub use layer::{Backward, DeviceLayer, Pass};
pub use memory::{bytes, most};

use super::{
    Arenas, Backend, Draw, Found, Grads, LayerCost, Model, Next, Params, ShardSums, Share, Tally,
};
use crate::backend::Gemm;
use crate::backend::cuda::blas::Blas;
use crate::backend::cuda::{Buffer, Device, Stream};
use crate::data::Batch;
use crate::{Error, Result};
use intake::Intake;
use passes::Work;
use report::Report;

/// A model whose layers are computed by a device.
pub struct DeviceModel {
    /// The model on paper; its layers hold what they keep on the device.
    paper: Model,
    /// Who multiplies there, if not our kernels.
    blas: Option<Blas>,
    stream: Rc<Stream>,
    /// The most samples at once.
    most: usize,
    intake: Intake,
    work: Work,
    report: Report,
    /// Parameters and gradients here, where the exchange has them on the host.
    own: Option<[Buffer<f32>; 2]>,
    begun: Begun,
    watched: bool,
}

/// What is to be known of a step until it ends.
#[derive(Clone, Copy, Default)]
struct Begun {
    /// Where its batch is.
    place: usize,
    /// Its samples.
    n: usize,
    /// Samples of the whole step, if the noise of gradients is measured.
    measured: Option<usize>,
}

impl DeviceModel {
    /// Takes the memory for up to `most` samples at once; `gemm` says whose kernels multiply in linear layers.
    pub fn new(model: Model, device: &Device, most: usize, gemm: Gemm) -> Result<Self> {
        let stream = Rc::new(Stream::new(device)?);
        let mut paper = model;
        for layer in &mut paper.layers {
            layer.on_device().allocate(&stream, most)?;
        }
        let blas = match gemm {
            Gemm::Own => None,
            Gemm::Cublas => Some(Blas::open(&stream)?),
        };
        let mut made = Self {
            blas,
            intake: Intake::new(device, paper.input, most)?,
            work: Work::new(&stream, &mut paper, most)?,
            report: Report::new(&stream, most)?,
            own: None,
            begun: Begun::default(),
            watched: false,
            paper,
            stream,
            most,
        };
        let state = made.paper.state();
        made.set_state(&state)?;
        Ok(made)
    }

    /// The device.
    pub fn device(&self) -> &Device {
        self.stream.device()
    }

    /// Parameters and gradients of its own, the former as the host has them.
    fn with_own(&mut self, params: &[f32]) -> Result<[Buffer<f32>; 2]> {
        let made = || -> Result<[Buffer<f32>; 2]> {
            let arena = || Buffer::new(self.stream.device(), params.len());
            Ok([arena()?, arena()?])
        };
        let mut own = self.own.take().map_or_else(made, Ok)?;
        self.stream.upload(params, own[0].view_mut())?;
        Ok(own)
    }
}

impl Backend for DeviceModel {
    fn model(&self) -> &Model {
        &self.paper
    }

    fn begin(&mut self, share: &Share, arenas: Arenas) -> Result<()> {
        if !share.cuts.is_empty() || arenas.courier.is_some() {
            let problem = "steps in shards, and gradients by layer, are for the CPU's threads";
            return Err(Error::Usage(problem.into()));
        }
        let &Share { batch, draw, .. } = share;
        if !self.intake.has(draw.step) {
            self.intake.take(batch.all(), None)?;
        }
        let stream = self.stream.clone();
        self.begun = Begun {
            place: self.intake.place(),
            n: batch.len(),
            measured: share.measured,
        };
        let how = (draw, share.scale, arenas.team);
        match (arenas.params, arenas.grads) {
            (Params::Device(_, params), Grads::Device(mut grads, outlet)) => {
                self.gradients(how, params, grads.again(), outlet)?;
                self.report
                    .send(&stream, Some(grads.shared()), share.measured.is_some())
            }
            (Params::Host(params), Grads::Host(grads)) => {
                let mut own = self.with_own(params)?;
                let [params, there] = &mut own;
                self.gradients(how, params.view(), there.view_mut(), None)?;
                self.report
                    .send(&stream, Some(there.view()), share.measured.is_some())?;
                stream.download(there.view(), grads)?;
                self.own = Some(own);
                Ok(())
            }
            _ => unreachable!("parameters and gradients are in one place"),
        }
    }

    fn stages(&self) -> bool {
        true
    }

    fn stage(&mut self, step: u64, batch: &Batch) -> Result<()> {
        self.intake.take(batch.all(), Some(step))
    }

    fn end(&mut self, params: Params, grads: Grads) -> Result<Found> {
        let read = self.report.read(self.begun.n)?;
        let share = self.begun.measured;
        let norm = Share::norm_of(share, read.squares, read.tally);
        let sums = ShardSums {
            tally: read.tally,
            norm,
        };
        let fault = match read.tally.loss.is_finite() && read.finite {
            true => None,
            false => self.fault(params, grads, read.tally)?,
        };
        Ok(Found { sums, fault })
    }

    /// Batches are launched one behind the other; the tally is added up on the device and read once.
    fn evaluate(&mut self, params: Params, batch: &mut Batch, next: Next) -> Result<Tally> {
        let stream = self.stream.clone();
        let own = match params {
            Params::Host(params) => Some(self.with_own(params)?),
            Params::Device(..) => None,
        };
        let params = match (&own, params) {
            (Some([params, _]), _) => params.view(),
            (None, Params::Device(_, params)) => params,
            (None, Params::Host(_)) => unreachable!("copied above"),
        };
        self.report.clear(&stream)?;
        let mut count = 0;
        while next(batch)? {
            for start in (0..batch.len()).step_by(self.most.max(1)) {
                let part = batch.part(start..batch.len().min(start + self.most));
                count += part.len();
                self.intake.take(part, None)?;
                self.evaluate_part(params)?;
            }
        }
        self.report.send(&stream, None, false)?;
        let tally = self.report.read(count)?.tally;
        self.own = own.or(self.own.take());
        Ok(tally)
    }

    fn state(&mut self) -> Result<Vec<f32>> {
        let layers = self.paper.layers.iter_mut();
        let states = layers.map(|layer| layer.on_device().state(&self.stream));
        Ok(states.collect::<Result<Vec<_>>>()?.concat())
    }

    fn set_state(&mut self, values: &[f32]) -> Result<()> {
        self.paper.set_state(values);
        let mut rest = values;
        for layer in &mut self.paper.layers {
            let len = layer.state().iter().map(|(_, values)| values.len()).sum();
            let (mine, behind) = rest.split_at(len);
            layer.on_device().set_state(&self.stream, mine)?;
            rest = behind;
        }
        Ok(())
    }

    fn watch(&mut self) {
        self.watched = true;
        self.paper.watch();
    }

    fn costs(&self) -> Vec<LayerCost> {
        let mut costs = self.paper.costs();
        costs.iter_mut().for_each(|cost| cost.methods = [""; 3]);
        costs
    }

    fn stream(&self) -> Option<Rc<Stream>> {
        Some(self.stream.clone())
    }
}

/// What names a training step's random numbers, its factor of losses, and who takes it together.
type How<'a> = (Draw, f32, &'a dyn crate::comm::Comm);
