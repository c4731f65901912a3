//! Two-dimensional convolution: `y[o, i, j] = b[o] + Σ w[o, c, p, q] · x[c, i·stride + p − pad, j·stride + q − pad]`.
//!
//! Shapes, all row-major: `x: (n, ci, h, w)`, `w: (co, ci, kh, kw)`, `b: (co)`, `y: (n, co, oh, ow)`.
//! Cost of each pass: 2·n·co·oh·ow·ci·kh·kw FLOP; the methods differ in how near they come to the machine's limit.

pub(super) mod direct;
mod gemm;
mod geometry;
#[cfg(test)]
mod tests;
mod tune;
mod winograd;

pub use geometry::Geometry;

use super::Scratch;

/// What is computed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pass {
    /// `y` from `x`.
    Forward,
    /// Gradients of weights and biases from `x` and `dy`.
    GradParams,
    /// `dx` from `dy`.
    GradInput,
}

impl Pass {
    /// All passes.
    pub const ALL: [Self; 3] = [Self::Forward, Self::GradParams, Self::GradInput];
}

/// How it is computed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Method {
    /// Patches as columns of a matrix, block by block, and BLAS.
    Gemm,
    /// Own loops over eight samples at a time, for few channels.
    Direct,
    /// Fewer products on transformed tiles, for 3 × 3 and 5 × 5 kernels of stride 1; rounds off to about 1e-5.
    Winograd,
}

impl Method {
    /// All methods, in the order of their numbers.
    pub const ALL: [Self; 3] = [Self::Gemm, Self::Direct, Self::Winograd];
}

/// One layer's convolution: its sizes and a method for each pass.
#[derive(Debug)]
pub struct Conv2d {
    g: Geometry,
    chosen: [Method; 3],
}

impl Conv2d {
    /// A convolution of this geometry, with methods chosen by its sizes. The kernel must fit in the padded input.
    pub fn new(g: Geometry) -> Self {
        assert!(
            g.stride > 0 && g.kh > 0 && g.kw > 0 && g.ci > 0 && g.co > 0,
            "no size of a convolution is zero: {g:?}"
        );
        assert!(
            g.kh <= g.h + 2 * g.pad && g.kw <= g.w + 2 * g.pad,
            "the kernel fits in the padded input: {g:?}"
        );
        Self {
            g,
            chosen: Pass::ALL.map(|pass| presumed(&g, pass)),
        }
    }

    /// The sizes.
    pub fn geometry(&self) -> Geometry {
        self.g
    }

    /// The methods that can do this pass here.
    pub fn methods(&self, pass: Pass) -> Vec<Method> {
        let mut methods = vec![Method::Gemm];
        if direct::can(&self.g, pass) {
            methods.push(Method::Direct);
        }
        if winograd::can(&self.g, pass) {
            methods.push(Method::Winograd);
        }
        methods
    }

    /// The method of this pass.
    pub fn method(&self, pass: Pass) -> Method {
        self.chosen[pass as usize]
    }

    /// Uses this method, which must be among [`methods`](Self::methods), for this pass.
    pub fn select(&mut self, pass: Pass, method: Method) {
        assert!(
            self.methods(pass).contains(&method),
            "{method:?} cannot do {pass:?} of {:?}",
            self.g
        );
        self.chosen[pass as usize] = method;
    }

    /// `y = x ∗ w + b` for `n` samples.
    pub fn forward(
        &self,
        n: usize,
        x: &[f32],
        w: &[f32],
        b: &[f32],
        y: &mut [f32],
        scratch: &mut Scratch,
    ) {
        let g = self.g;
        assert!(x.len() == n * g.inputs() && y.len() == n * g.outputs());
        assert!(w.len() == g.weights() && b.len() == g.co);
        if n == 0 {
            return;
        }
        let scratch = scratch.at_least(self.memory());
        match self.method(Pass::Forward) {
            Method::Gemm => gemm::forward(&g, x, w, b, y, scratch),
            Method::Direct => direct::forward(&g, x, w, b, y, scratch),
            Method::Winograd => winograd::forward(&g, x, w, b, y, scratch),
        }
    }

    /// Sets `dw` and `db` to the gradients of weights and biases, summed over `n` samples.
    pub fn grad_params(
        &self,
        n: usize,
        x: &[f32],
        dy: &[f32],
        dw: &mut [f32],
        db: &mut [f32],
        scratch: &mut Scratch,
    ) {
        let g = self.g;
        assert!(x.len() == n * g.inputs() && dy.len() == n * g.outputs());
        assert!(dw.len() == g.weights() && db.len() == g.co);
        db.fill(0.0);
        for sample in dy.chunks_exact(g.outputs()) {
            let planes = sample.chunks_exact(g.pixels());
            db.iter_mut()
                .zip(planes)
                .for_each(|(db, plane)| *db += sum(plane));
        }
        if n == 0 {
            return dw.fill(0.0);
        }
        let scratch = scratch.at_least(self.memory());
        match self.method(Pass::GradParams) {
            Method::Gemm => gemm::grad_weights(&g, x, dy, dw, scratch),
            Method::Direct => direct::grad_weights(&g, x, dy, dw, scratch),
            Method::Winograd => winograd::grad_weights(&g, x, dy, dw, scratch),
        }
    }

    /// Sets `dx` to the gradient of the input of `n` samples.
    pub fn grad_input(
        &self,
        n: usize,
        dy: &[f32],
        w: &[f32],
        dx: &mut [f32],
        scratch: &mut Scratch,
    ) {
        let g = self.g;
        assert!(dy.len() == n * g.outputs() && dx.len() == n * g.inputs());
        assert!(w.len() == g.weights());
        if n == 0 {
            return;
        }
        let scratch = scratch.at_least(self.memory());
        match self.method(Pass::GradInput) {
            Method::Gemm => gemm::grad_input(&g, dy, w, dx, scratch),
            Method::Direct => direct::grad_input(&g, dy, w, dx, scratch),
            Method::Winograd => winograd::grad_input(&g, dy, w, dx, scratch),
        }
    }

    /// Floats to work in, as many as any pass needs: what has been enough once always is.
    fn memory(&self) -> usize {
        let need = Pass::ALL.map(|pass| match self.method(pass) {
            Method::Gemm => gemm::memory(&self.g),
            Method::Direct => direct::memory(&self.g, pass),
            Method::Winograd => winograd::memory(&self.g),
        });
        need.into_iter().fold(0, usize::max)
    }
}

/// The method that is fastest as far as sizes tell.
fn presumed(g: &Geometry, pass: Pass) -> Method {
    // Forward, weights are read in order and need not stay in the cache.
    let light = g.weights() <= LIGHT || pass == Pass::Forward;
    let few = g.ci.min(g.co) <= 64;
    // Transforms are paid for by the sums over channels, sooner where the kernel is larger.
    let channels = if g.kh > 3 { 32 } else { 33 };
    let large = g.ci.min(g.co) >= channels && g.oh().min(g.ow()) > 4;
    if large && winograd::can(g, pass) {
        Method::Winograd
    } else if few && light && direct::can(g, pass) {
        Method::Direct
    } else {
        Method::Gemm
    }
}

/// Weights that stay in the second-level cache beside the planes of eight samples.
const LIGHT: usize = 1 << 15;

/// The sum of values, in 16 strands: a single one would wait for each addition.
fn sum(values: &[f32]) -> f32 {
    let mut strands = [0.0; 16];
    let chunks = values.chunks_exact(16);
    let rest: f32 = chunks.remainder().iter().sum();
    for chunk in chunks {
        strands.iter_mut().zip(chunk).for_each(|(s, v)| *s += v);
    }
    strands.iter().sum::<f32>() + rest
}
