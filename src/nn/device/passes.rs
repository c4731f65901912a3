//! The way through the layers of a model on a device, and back.

use super::{Backward, Pass};
use super::{DeviceModel, How};
use crate::Result;
use crate::backend::cpu::Timed;
use crate::backend::cuda::{Buffer, Stream, View, ViewMut};
use crate::nn::{Draw, Model, Outlet};

/// What passes work in.
pub(super) struct Work {
    /// Outputs; layers that work in place share the buffer of the one before.
    tape: Vec<Buffer<f32>>,
    /// Gradients with respect to outputs: of the layer at hand and of the one before, in turn.
    slopes: [Buffer<f32>; 2],
    /// What layers work in, one at a time.
    scratch: Buffer<f32>,
}

/// How many floats each buffer has.
pub(super) struct Sizes {
    pub(super) tape: Vec<usize>,
    pub(super) slope: usize,
    pub(super) scratch: usize,
}

impl Sizes {
    /// For up to `most` samples.
    pub(super) fn of(model: &mut Model, most: usize) -> Self {
        let mut tape: Vec<usize> = Vec::new();
        for stage in &model.stages {
            tape.resize(tape.len().max(stage.writes + 1), 0);
            let size = &mut tape[stage.writes];
            *size = (*size).max(most * stage.outputs);
        }
        let layers = model.layers.iter_mut();
        let scratch = layers.map(|layer| layer.on_device().scratch(most)).max();
        Self {
            slope: tape.iter().copied().max().unwrap_or(0),
            tape,
            scratch: scratch.unwrap_or(0),
        }
    }

    /// All floats.
    pub(super) fn floats(&self) -> usize {
        self.tape.iter().sum::<usize>() + 2 * self.slope + self.scratch
    }
}

impl Work {
    pub(super) fn new(stream: &Stream, model: &mut Model, most: usize) -> Result<Self> {
        let sizes = Sizes::of(model, most);
        let buffer = |len: usize| Buffer::new(stream.device(), len);
        Ok(Self {
            tape: sizes
                .tape
                .iter()
                .map(|&len| buffer(len))
                .collect::<Result<_>>()?,
            slopes: [buffer(sizes.slope)?, buffer(sizes.slope)?],
            scratch: buffer(sizes.scratch)?,
        })
    }

    /// The last values of a buffer, of `len`.
    pub(super) fn output(&self, buffer: usize, len: usize) -> View<'_, f32> {
        self.tape[buffer].part(0..len)
    }
}

impl DeviceModel {
    /// Launches the gradients of the batch that was taken in last.
    pub(super) fn gradients(
        &mut self,
        (draw, scale, team): How,
        params: View<f32>,
        grads: ViewMut<f32>,
        outlet: Option<&mut dyn Outlet>,
    ) -> Result<()> {
        let stream = self.stream.clone();
        let batch = self.intake.open(&stream)?;
        let pass = Pass {
            stream: &stream,
            n: batch.n,
            training: true,
            draw,
            samples: batch.samples,
            team: Some(team),
            blas: self.blas.as_ref(),
        };
        let mut run = Run {
            model: &mut self.paper,
            work: &mut self.work,
            images: batch.images,
            params,
            watched: self.watched,
        };
        self.report.clear(&stream)?;
        run.forward(pass)?;
        let z = run.logits(pass)?;
        self.report.losses(&stream, z, batch.labels, scale)?;
        run.backward(pass, grads, outlet)?;
        batch.leave(&stream)
    }

    /// Launches the losses of the batch that was taken in last.
    pub(super) fn evaluate_part(&mut self, params: View<f32>) -> Result<()> {
        let stream = self.stream.clone();
        let batch = self.intake.open(&stream)?;
        let pass = Pass {
            stream: &stream,
            n: batch.n,
            training: false,
            draw: Draw::default(),
            samples: batch.samples,
            team: None,
            blas: self.blas.as_ref(),
        };
        let mut run = Run {
            model: &mut self.paper,
            work: &mut self.work,
            images: batch.images,
            params,
            watched: false,
        };
        run.forward(pass)?;
        let z = run.logits(pass)?;
        self.report.losses(&stream, z, batch.labels, 0.0)?;
        batch.leave(&stream)
    }
}

/// A pass under way.
struct Run<'a> {
    model: &'a mut Model,
    work: &'a mut Work,
    images: View<'a, f32>,
    params: View<'a, f32>,
    watched: bool,
}

impl Run<'_> {
    fn forward(&mut self, pass: Pass) -> Result<()> {
        let Model {
            layers,
            stages,
            clock,
            ..
        } = &mut *self.model;
        for (i, (layer, stage)) in layers.iter_mut().zip(&*stages).enumerate() {
            let (before, here) = self.work.tape.split_at_mut(stage.writes);
            let mut y = here[0].part_mut(0..pass.n * stage.outputs);
            // In place, it reads what it writes.
            let reads = stage.reads.filter(|_| !stage.in_place);
            let x = match reads {
                Some(buffer) => before[buffer].part(0..pass.n * stage.inputs),
                None => self.images,
            };
            let params = self.params.part(stage.range.clone());
            let scratch = self.work.scratch.view_mut();
            let in_place = layer.in_place();
            let layer = layer.on_device();
            let launch = || match in_place {
                false => layer.forward(pass, params, x, y, scratch),
                true => {
                    if !stage.in_place {
                        pass.stream.copy(x, y.again())?;
                    }
                    layer.apply(pass, y)
                }
            };
            timed(
                clock,
                (i, Timed::Forward),
                pass.stream,
                self.watched,
                launch,
            )?;
        }
        Ok(())
    }

    /// A copy of the logits, where the first slope will be.
    fn logits(&mut self, pass: Pass) -> Result<ViewMut<'_, f32>> {
        let size = pass.n * self.model.classes;
        let logits = self.work.tape.last().expect("a model has layers");
        let mut slope = self.work.slopes[0].part_mut(0..size);
        pass.stream.copy(logits.part(0..size), slope.again())?;
        Ok(slope)
    }

    fn backward(
        &mut self,
        pass: Pass,
        mut grads: ViewMut<f32>,
        mut outlet: Option<&mut dyn Outlet>,
    ) -> Result<()> {
        let (stream, watched) = (pass.stream, self.watched);
        let Work {
            tape,
            slopes,
            scratch,
        } = &mut *self.work;
        let [dy, dx] = slopes;
        let (mut dy, mut dx) = (dy.view_mut(), dx.view_mut());
        let Model {
            layers,
            stages,
            clock,
            ..
        } = &mut *self.model;
        let stages = layers.iter_mut().zip(&*stages).enumerate();
        for (i, (layer, stage)) in stages.rev() {
            let mut slope = dy.again().part(0..pass.n * stage.outputs);
            let y = tape[stage.writes].part(0..pass.n * stage.outputs);
            if layer.in_place() {
                // The slope of a copy is a copy of the slope: it can stay where it is.
                let launch = || layer.on_device().apply_back(pass, y, slope.again());
                timed(clock, (i, Timed::GradInput), stream, watched, launch)?;
                continue;
            }
            let layer = layer.on_device();
            let work = Backward {
                params: self.params.part(stage.range.clone()),
                x: match stage.reads {
                    Some(buffer) => tape[buffer].part(0..pass.n * stage.inputs),
                    None => self.images,
                },
                dy: slope.shared(),
            };
            if !stage.range.is_empty() {
                let mut mine = grads.again().part(stage.range.clone());
                if pass.n == 0 {
                    stream.clear(mine.again())?;
                }
                let launch = || layer.grad_params(pass, &work, mine, scratch.view_mut());
                timed(clock, (i, Timed::GradParams), stream, watched, launch)?;
                if let Some(outlet) = &mut outlet {
                    outlet.ready(stream, grads.shared(), stage.range.start)?;
                }
            }
            if stage.reads.is_some() {
                let dx = dx.again().part(0..pass.n * stage.inputs);
                let launch = || layer.grad_input(pass, &work, dx, scratch.view_mut());
                timed(clock, (i, Timed::GradInput), stream, watched, launch)?;
            }
            std::mem::swap(&mut dy, &mut dx);
        }
        Ok(())
    }
}

/// Launches, on behalf of a layer; where layers are watched, waits for the end.
fn timed(
    clock: &mut crate::backend::cpu::Clock,
    (layer, pass): (usize, Timed),
    stream: &Stream,
    watched: bool,
    launch: impl FnOnce() -> Result<()>,
) -> Result<()> {
    // A device works on by itself: how long a launch takes tells nothing.
    if !watched {
        return launch();
    }
    clock.time(layer, pass, || {
        launch()?;
        stream.wait()
    })
}
