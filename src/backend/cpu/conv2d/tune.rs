//! Which method is fastest here: by measuring, since caches, BLAS and neighbours differ from node to node.

use std::time::{Duration, Instant};

use super::{Conv2d, Pass, Scratch};

/// Time after which a method has been measured.
const ENOUGH: Duration = Duration::from_millis(3);

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
    /// each pass; the present one stays unless another is faster by a [`MARGIN`]. Takes a few milliseconds for each
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
            let present = self.method(pass);
            let time = self.time(pass, &mut batch, Duration::MAX, scratch);
            let mut best = (time.mul_f64(MARGIN), present);
            let rivals = self.methods(pass).into_iter();
            for method in rivals.filter(|&method| method != present) {
                self.select(pass, method);
                let time = self.time(pass, &mut batch, best.0, scratch);
                if time < best.0 {
                    best = (time, method);
                }
            }
            self.select(pass, best.1);
        }
    }

    /// The shortest time of a pass; of a single run, which also allocates, if that is far above the rival's time.
    fn time(
        &self,
        pass: Pass,
        batch: &mut Batch,
        rival: Duration,
        scratch: &mut Scratch,
    ) -> Duration {
        let start = Instant::now();
        self.run(pass, batch, scratch);
        let mut best = start.elapsed();
        if best / 3 > rival {
            return best;
        }
        let (start, mut runs) = (Instant::now(), 0);
        while runs < 2 || start.elapsed() < ENOUGH {
            let start = Instant::now();
            self.run(pass, batch, scratch);
            best = best.min(start.elapsed());
            runs += 1;
        }
        best
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
