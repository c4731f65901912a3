//! Where numbers left the finite ones on a device: brought to the host, and looked at there.

use super::DeviceModel;
use crate::Result;
use crate::backend::cuda::View;
use crate::nn::fault::fault;
use crate::nn::{Fault, Grads, Params, Tally};

impl DeviceModel {
    /// What is not finite in the step that was begun last, which has something that is not.
    pub(super) fn fault(
        &self,
        params: Params,
        grads: Grads,
        tally: Tally,
    ) -> Result<Option<Fault>> {
        let values = |view: View<f32>| self.stream.values(view);
        if tally.loss.is_finite() {
            let grads = match &grads {
                Grads::Host(grads) => grads.to_vec(),
                Grads::Device(grads, _) => values(grads.shared())?,
            };
            return Ok(Some(self.paper.in_gradients(&grads)));
        }
        if let Some(floats) = self.intake.floats(self.begun.place)
            && let Some(found) = fault(&values(floats)?, || "the input".into())
        {
            return Ok(Some(found));
        }
        let mut here = Vec::new();
        params.read(&mut here)?;
        if let Some(found) = self.paper.in_params(&here) {
            return Ok(Some(found));
        }
        for (i, (layer, stage)) in self.paper.layers.iter().zip(&self.paper.stages).enumerate() {
            let output = self.work.output(stage.writes, self.begun.n * stage.outputs);
            let what = || format!("the output of layer {i} ({})", layer.name());
            if let Some(found) = fault(&values(output)?, what) {
                return Ok(Some(found));
            }
        }
        Ok(Some(Fault {
            what: "the loss".into(),
            value: tally.loss,
        }))
    }
}
