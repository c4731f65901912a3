//! What training changes in a model and no gradient moves: the running estimates of batch normalisation.

use super::layer::Tensor;
use super::model::Model;

impl Model {
    /// The table of the state: which range of `state` is which tensor.
    pub fn state_tensors(&self) -> Vec<Tensor> {
        let mut tensors = Vec::new();
        let mut end = 0;
        for (i, layer) in self.layers.iter().enumerate() {
            for (part, values) in layer.state() {
                let range = end..end + values.len();
                end = range.end;
                tensors.push(Tensor {
                    name: format!("{i}.{}.{part}", layer.name()),
                    shape: vec![values.len()],
                    range,
                });
            }
        }
        tensors
    }

    /// Its state, one tensor after the other; empty for most models.
    pub fn state(&self) -> Vec<f32> {
        let parts = self.layers.iter().flat_map(|layer| layer.state());
        parts
            .flat_map(|(_, values)| values.iter().copied())
            .collect()
    }

    /// Replaces its state by one that `state` gave.
    pub fn set_state(&mut self, mut values: &[f32]) {
        for layer in &mut self.layers {
            let len = layer.state().iter().map(|(_, values)| values.len()).sum();
            let (mine, rest) = values.split_at(len);
            if len > 0 {
                layer.set_state(mine);
            }
            values = rest;
        }
        assert!(values.is_empty(), "as much state as the layers have");
    }
}
