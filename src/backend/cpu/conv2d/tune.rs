//! Which method is fastest here: by measuring, since caches, BLAS and neighbours differ from node to node.

use std::time::{Duration, Instant};

use super::{Conv2d, Pass, Scratch};

/// Time after which a method has been measured, and the fewest runs: the first one of them also warms up.
const ENOUGH: Duration = Duration::from_millis(3);
const ROUNDS: usize = 4;

/// What the fastest takes of the present method's time, at the most, to take its place: close calls would fall one way
/// today and the other tomorrow.
const MARGIN: f64 = 0.9;

/// Products beyond which fewer samples are measured than will come.
const PRODUCTS: usize = 1 << 28;

/// Made-up values of a batch, in the order of the passes' arguments.
struct Batch {
    n: usize,
    x: Vec<f32>,
    w: Vec<f32>,
    b: Vec<f32>,
    y: Vec<f32>,
}

impl Conv2d {
    /// Measures all methods with made-up batches of `n` samples, fewer if that takes long, and takes the fastest for
    /// each pass; the present one stays unless another is faster by a tenth. Takes a few milliseconds for each
    /// method of a small layer.
    ///
    /// Methods round differently: runs that shall be equal to the last bit must use the same ones.
    pub fn tune(&mut self, n: usize, scratch: &mut Scratch) {
        let g = self.g;
        let products = g.outputs() * g.taps();
        // Whole groups of eight: a cut one would speak against the method that works on eight at a time.
        let n = n.min((PRODUCTS / products).max(8).next_multiple_of(8));
        if n == 0 {
            return;
        }
        let values = |len: usize| (0..len).map(|i| (i % 7) as f32 * 0.1 - 0.3).collect();
        let mut batch = Batch {
            n,
            x: values(n * g.inputs()),
            w: values(g.weights()),
            b: values(g.co),
            y: values(n * g.outputs()),
        };
        for pass in Pass::ALL {
            let methods = self.methods(pass);
            let mut times = vec![Duration::MAX; methods.len()];
            let mut spent = Duration::ZERO;
            // In turns, so that a disturbance meets them all.
            for round in 0.. {
                if round >= ROUNDS && spent > ENOUGH * methods.len() as u32 {
                    break;
                }
                for (&method, best) in methods.iter().zip(&mut times) {
                    let chosen = self.method(pass);
                    self.select(pass, method);
                    let start = Instant::now();
                    self.run(pass, &mut batch, scratch);
                    *best = start.elapsed().min(*best);
                    spent += start.elapsed();
                    self.select(pass, chosen);
                }
            }
            let time = |method| {
                let position = methods.iter().position(|&other| other == method);
                position.map_or(Duration::MAX, |i| times[i])
            };
            let fastest = methods.iter().copied().min_by_key(|&method| time(method));
            let present = self.method(pass);
            if let Some(fastest) = fastest
                && time(fastest) < time(present).mul_f64(MARGIN)
            {
                self.select(pass, fastest);
            }
        }
    }

    /// One pass; what it computes overwrites what it would be computed from, with the values of no interest.
    fn run(&self, pass: Pass, batch: &mut Batch, scratch: &mut Scratch) {
        let Batch { n, x, w, b, y } = batch;
        match pass {
            Pass::Forward => self.forward(*n, x, w, b, y, scratch),
            Pass::GradParams => self.grad_params(*n, x, y, w, b, scratch),
            Pass::GradInput => self.grad_input(*n, y, w, x, scratch),
        }
    }
}
