//! What is checked of each kernel on a device, whatever it is: results are those of the CPU's reference.

mod device;
mod elements;
mod models;
mod norms;
mod outcome;
mod pools;
mod products;

use std::fmt::Debug;

use phalanx::backend::cuda::{Buffer, Device, Stream, View};
use phalanx::rng::Stream as Random;

/// Where a check runs.
pub struct Place {
    /// The device.
    pub device: Device,
    /// Where work is asked for.
    pub stream: Stream,
    /// Whether a few small shapes are enough: sanitizers are slow.
    pub few: bool,
}

/// A name and what it checks.
pub type Check = (&'static str, fn(&Place));

/// All of them.
pub fn all() -> impl Iterator<Item = &'static Check> {
    let first = device::CHECKS.iter().chain(&elements::CHECKS);
    let layers = products::CHECKS.iter().chain(&pools::CHECKS);
    first
        .chain(layers)
        .chain(&norms::CHECKS)
        .chain(&outcome::CHECKS)
        .chain(&models::CHECKS)
}

impl Place {
    /// On the first device.
    pub fn open(few: bool) -> phalanx::Result<Self> {
        let device = Device::open(0)?;
        let stream = Stream::new(&device)?;
        Ok(Self {
            device,
            stream,
            few,
        })
    }

    /// A buffer with these values.
    pub fn put(&self, values: &[f32]) -> Buffer<f32> {
        self.stream.buffer(values).unwrap()
    }

    /// A buffer for results; what nobody writes stays NaN.
    pub fn room(&self, len: usize) -> Buffer<f32> {
        self.put(&vec![f32::NAN; len])
    }

    /// Room to work in, whose values mean nothing.
    pub fn scratch<T: phalanx::backend::cuda::Element>(&self, len: usize) -> Buffer<T> {
        Buffer::new(&self.device, len).unwrap()
    }

    /// The values behind a view.
    pub fn get(&self, view: View<f32>) -> Vec<f32> {
        self.stream.values(view).unwrap()
    }

    /// The first shapes where few are enough, else all.
    pub fn shapes<'a, T>(&self, shapes: &'a [T]) -> &'a [T] {
        match self.few {
            true => &shapes[..shapes.len().min(2)],
            false => shapes,
        }
    }
}

/// Normal random numbers, the same for the same key.
pub fn random(len: usize, key: u64) -> Vec<f32> {
    let mut stream = Random::new(&[key, len as u64]);
    (0..len).map(|_| stream.normal()).collect()
}

/// Fails unless each value is within `tolerance` of what is expected, as a share of the largest.
pub fn near(what: impl Debug, got: &[f32], expected: &[f32], tolerance: f32) {
    assert_eq!(got.len(), expected.len(), "{what:?}");
    let largest = expected.iter().fold(1e-3, |m: f32, v| m.max(v.abs()));
    for (i, (got, expected)) in got.iter().zip(expected).enumerate() {
        let error = (got - expected).abs() / largest;
        assert!(
            error <= tolerance,
            "{what:?}: value {i} is {got}, not {expected}"
        );
    }
}

/// Fails unless all bits are equal.
pub fn same(what: impl Debug, got: &[f32], expected: &[f32]) {
    let bits = |values: &[f32]| values.iter().map(|v| v.to_bits()).collect::<Vec<_>>();
    assert!(
        bits(got) == bits(expected),
        "{what:?}: {got:?}, not {expected:?}"
    );
}
