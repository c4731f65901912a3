//! Where numbers left the finite ones.

use super::{Crew, Model, Tally};
use crate::backend::cpu::{finite, odd};
use crate::data::{Batch, Images, Part};

/// The first value on the way from input to gradients that is NaN or infinite.
#[derive(Clone, Debug, PartialEq)]
pub struct Fault {
    /// Whose value it is, such as `the output of layer 3 (conv2d)`.
    pub what: String,
    /// The value.
    pub value: f64,
}

impl Crew {
    /// What is not finite in a step that gave `tally` and `grads`. Costs one reading of the gradients if nothing is.
    pub fn fault(
        &mut self,
        params: &[f32],
        batch: &Batch,
        tally: Tally,
        grads: &[f32],
    ) -> Option<Fault> {
        if tally.loss.is_finite() {
            return (!finite(grads)).then(|| self.model().in_gradients(grads));
        }
        let before = in_input(batch).or_else(|| self.model().in_params(params));
        let found = before.or_else(|| self.in_outputs(params, batch));
        Some(found.unwrap_or_else(|| Fault {
            what: "the loss".into(),
            value: tally.loss,
        }))
    }

    /// That of the first layer that has one on any thread: layers behind it may carry it to all of them.
    fn in_outputs(&mut self, params: &[f32], batch: &Batch) -> Option<Fault> {
        let models = self.models(batch.len());
        let found = models.filter_map(|(model, range)| model.in_outputs(params, batch.part(range)));
        found
            .min_by_key(|(layer, _)| *layer)
            .map(|(_, fault)| fault)
    }
}

impl Model {
    /// A parameter that is not finite.
    pub fn in_params(&self, params: &[f32]) -> Option<Fault> {
        let mut tensors = self.tensors().iter();
        tensors.find_map(|tensor| {
            let what = || format!("a parameter in {}", tensor.name);
            fault(&params[tensor.range.clone()], what)
        })
    }

    /// An output that is not finite, with the number of its layer.
    fn in_outputs(&mut self, params: &[f32], part: Part) -> Option<(usize, Fault)> {
        let mut outputs = self.outputs(params, part);
        outputs.find_map(|(i, name, values)| {
            let found = fault(values, || format!("the output of layer {i} ({name})"))?;
            Some((i, found))
        })
    }

    pub(super) fn in_gradients(&self, grads: &[f32]) -> Fault {
        // Gradients come from the loss: the last layer's come first.
        let mut tensors = self.tensors().iter().rev();
        let found = tensors.find_map(|tensor| {
            let what = || format!("the gradient of {}", tensor.name);
            fault(&grads[tensor.range.clone()], what)
        });
        found.expect("every gradient belongs to a tensor")
    }
}

fn in_input(batch: &Batch) -> Option<Fault> {
    match &batch.images {
        Images::Floats(values) => fault(values, || "the input".into()),
        Images::Bytes(_) => None,
    }
}

pub(super) fn fault(values: &[f32], what: impl Fn() -> String) -> Option<Fault> {
    let value = odd(values)?;
    Some(Fault {
        what: what(),
        value: f64::from(value),
    })
}
