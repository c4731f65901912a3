//! One kernel at one size.

use crate::Result;
use crate::backend::cuda::{Buffer, Stream, ViewMut};
use crate::rng::Stream as Random;

/// What is launched again and again.
pub(super) type Launch = Box<dyn FnMut(&Stream) -> Result<()>>;

/// What makes cases of one operation.
pub(super) type Make = fn(&Stream, &Sizes) -> Result<Vec<Case>>;

/// A kernel that was compared with the CPU, ready to be timed.
pub(super) struct Case {
    pub name: &'static str,
    pub shape: String,
    /// Arithmetic of a launch.
    pub flops: f64,
    /// Bytes that a launch must move at least.
    pub bytes: f64,
    /// Whether the arithmetic is of doubles.
    pub double: bool,
    /// Largest difference from the CPU, as a share of the largest value.
    pub error: f64,
    /// What it may be.
    pub tolerance: f64,
    pub launch: Launch,
}

impl Case {
    /// Launches once, into `out`, and compares that with what the CPU gave.
    pub(super) fn checked(
        stream: &Stream,
        (name, shape): (&'static str, String),
        (flops, bytes): (f64, f64),
        mut out: Buffer<f32>,
        expected: &[f32],
        mut launch: impl FnMut(&Stream, ViewMut<f32>) -> Result<()> + 'static,
    ) -> Result<Self> {
        launch(stream, out.view_mut())?;
        let error = worst(&stream.values(out.view())?, expected);
        Ok(Self {
            name,
            shape,
            flops,
            bytes,
            double: false,
            error,
            tolerance: 1e-4,
            launch: Box::new(move |stream| launch(stream, out.view_mut())),
        })
    }

    /// Whether it computes what the CPU does; a NaN does not.
    pub(super) fn right(&self) -> bool {
        self.error <= self.tolerance
    }
}

/// Sizes of what is measured.
pub(super) struct Sizes {
    /// Samples.
    pub n: usize,
    /// Whether layers are small ones.
    pub small: bool,
    /// Elements of kernels that go over elements.
    pub elements: usize,
    /// Side of square matrices.
    pub side: usize,
}

impl Sizes {
    /// As suit a GPU, or the emulator.
    pub(super) fn of(emulated: bool, batch: Option<usize>) -> Self {
        match emulated {
            true => Self {
                n: batch.unwrap_or(3),
                small: true,
                elements: 5003,
                side: 100,
            },
            false => Self {
                n: batch.unwrap_or(128),
                small: false,
                elements: 1 << 26,
                side: 4096,
            },
        }
    }
}

/// Normal random numbers.
pub(super) fn random(len: usize, key: u64) -> Vec<f32> {
    let mut stream = Random::new(&[key]);
    (0..len).map(|_| stream.normal()).collect()
}

/// The largest difference, as a share of the largest value; NaN if anything is.
pub(super) fn worst(got: &[f32], expected: &[f32]) -> f64 {
    let largest = expected.iter().fold(1e-6, |m: f32, v| m.max(v.abs()));
    let mut worst = 0.0f64;
    for (got, expected) in got.iter().zip(expected) {
        let error = f64::from((got - expected).abs() / largest);
        if error.is_nan() {
            return f64::NAN;
        }
        worst = worst.max(error);
    }
    worst
}
