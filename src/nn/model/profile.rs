//! What a model's layers cost, and the choice of how they work.

use super::Model;
use crate::backend::cpu::conv2d::{Conv2d, Method, Pass};
use crate::backend::cpu::{Scratch, Timed};

/// How the first layers of small models work.
pub const LANES: &str = "lanes";

/// What a layer did while it was watched.
#[derive(Clone, Debug)]
pub struct LayerCost {
    /// Number and name.
    pub name: String,
    /// One output sample's dimensions.
    pub output: String,
    /// How its passes work, where there is a choice.
    pub methods: [&'static str; 3],
    /// Seconds in each pass: forward, gradient of parameters (in lanes: of both), gradient of inputs.
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
            let mut seconds = [Timed::Forward, Timed::GradParams, Timed::GradInput]
                .map(|pass| times[pass as usize].as_secs_f64());
            let mut flops = [flops.forward, flops.grad_params, back];
            if methods[1] == LANES {
                // In lanes, part of the work for both gradients is done once: they have one figure.
                for parts in [&mut seconds, &mut flops] {
                    parts[1] += std::mem::take(&mut parts[2]);
                }
            }
            costs.push(LayerCost {
                name: format!("{i} {}", layer.name()),
                output: layer.output().to_string(),
                methods,
                seconds,
                flops,
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
            Some(_) if i < done => [LANES; 3],
            Some(conv) => Pass::ALL.map(|pass| match conv.method(pass) {
                Method::Gemm => "gemm",
                Method::Direct => "direct",
                Method::Winograd => "winograd",
            }),
            None => [""; 3],
        };
        layers.enumerate().map(name).collect()
    }

    /// Measures with batches of `n` samples which method is fastest for each convolution; gives the choices in numbers.
    pub(in super::super) fn tune(&mut self, n: usize) -> Vec<u64> {
        let mut choices = Vec::new();
        let mut scratch = Scratch::default();
        for conv in self.convolutions() {
            conv.tune(n, &mut scratch);
            choices.extend(Pass::ALL.map(|pass| conv.method(pass) as u64));
        }
        choices
    }

    /// Takes choices that `tune` has made for a model of this kind.
    pub(in super::super) fn choose(&mut self, choices: &[u64]) {
        for (conv, choices) in self.convolutions().zip(choices.chunks_exact(3)) {
            for (pass, &choice) in Pass::ALL.into_iter().zip(choices) {
                let Some(&method) = Method::ALL.get(choice as usize) else {
                    continue;
                };
                // A rank on another kind of machine may lack it.
                if conv.methods(pass).contains(&method) {
                    conv.select(pass, method);
                }
            }
        }
    }

    /// Those that are not in lanes.
    fn convolutions(&mut self) -> impl Iterator<Item = &mut Conv2d> {
        let done = self.head.as_ref().map_or(0, |head| head.layers);
        let layers = self.layers.iter_mut().skip(done);
        layers.filter_map(|layer| layer.convolution_mut())
    }
}
