//! What a model's layers cost, and the choice of how they work.

use super::Model;
use crate::backend::cpu::Timed;
use crate::backend::cpu::conv2d::{Conv2d, Method, Pass};

/// What a layer did while it was watched.
#[derive(Clone, Debug)]
pub struct LayerCost {
    /// Number and name.
    pub name: String,
    /// One output sample's dimensions.
    pub output: String,
    /// How its passes work, where there is a choice.
    pub methods: [&'static str; 3],
    /// Seconds in each pass: forward, gradient of parameters, gradient of inputs.
    pub seconds: [f64; 3],
    /// Floating-point operations of each pass for one sample; methods that save some are given those they save.
    pub flops: [f64; 3],
    /// Bytes that the forward pass must read and write for one sample, parameters not counted.
    pub bytes: f64,
    /// Bytes of its parameters.
    pub param_bytes: f64,
}

impl Model {
    /// Starts to add up the time of each layer.
    pub fn watch(&mut self) {
        self.clock.start(self.layers.len());
    }

    /// What each layer did since `watch`.
    pub fn costs(&self) -> Vec<LayerCost> {
        let methods = self.methods();
        let times = self.clock.times().iter();
        let layers = self.layers.iter().zip(&self.stages).zip(times).zip(methods);
        let mut costs = Vec::new();
        for (i, (((layer, stage), times), methods)) in layers.enumerate() {
            let flops = layer.flops();
            // A model's first layer has no use for the gradient of its input.
            let back = stage.reads.map_or(0.0, |_| flops.grad_input);
            costs.push(LayerCost {
                name: format!("{i} {}", layer.name()),
                output: layer.output().to_string(),
                methods,
                seconds: [Timed::Forward, Timed::GradParams, Timed::GradInput]
                    .map(|pass| times[pass as usize].as_secs_f64()),
                flops: [flops.forward, flops.grad_params, back],
                bytes: 4.0 * (stage.inputs + stage.outputs) as f64,
                param_bytes: 4.0 * stage.range.len() as f64,
            });
        }
        costs
    }

    /// How each layer's passes work, empty where there is no choice.
    pub fn methods(&self) -> Vec<[&'static str; 3]> {
        let done = self.head.as_ref().map_or(0, |head| head.layers);
        let layers = self.layers.iter().map(|layer| layer.convolution());
        let name = |(i, layer): (usize, Option<&Conv2d>)| match layer {
            Some(_) if i < done => ["lanes"; 3],
            Some(conv) => Pass::ALL.map(|pass| match conv.method(pass) {
                Method::Gemm => "gemm",
                Method::Direct => "direct",
                Method::Winograd => "winograd",
            }),
            None => [""; 3],
        };
        layers.enumerate().map(name).collect()
    }

    /// Measures with batches of `n` samples which method is fastest for each convolution. `agree` replaces a rank's
    /// choices, in numbers, by those of all.
    pub fn tune(&mut self, n: usize, agree: impl FnOnce(&mut [u64])) {
        let done = self.head.as_ref().map_or(0, |head| head.layers);
        let layers = self.layers.iter_mut().skip(done);
        let mut convolutions: Vec<_> = layers.filter_map(|layer| layer.convolution_mut()).collect();
        let mut choices = Vec::new();
        for conv in &mut convolutions {
            conv.tune(n, &mut self.scratch);
            choices.extend(Pass::ALL.map(|pass| conv.method(pass) as u64));
        }
        agree(&mut choices);
        for (conv, choices) in convolutions.iter_mut().zip(choices.chunks_exact(3)) {
            for (pass, &choice) in Pass::ALL.into_iter().zip(choices) {
                let method = Method::ALL[choice as usize];
                // A rank on another kind of machine may lack it.
                if conv.methods(pass).contains(&method) {
                    conv.select(pass, method);
                }
            }
        }
        // What only the slower methods needed is given back.
        self.scratch = Default::default();
    }
}
