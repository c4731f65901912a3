//! Starting kernels.
#![allow(unsafe_code)]

use std::ffi::c_void;

use cudarc::driver::{result, sys};

use super::driver::failed;
use super::memory::{Element, View, ViewMut};
use super::stream::Stream;
use crate::Result;

/// Threads of a block of kernels that work on elements, each of which a thread takes by itself.
const BLOCK: u32 = 256;

/// Blocks at most of such kernels: enough for every device; threads go on with the elements behind.
const BLOCKS: usize = 4096;

/// How many threads: blocks in three directions, and threads of each block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Grid {
    /// Blocks.
    pub blocks: [u32; 3],
    /// Threads of a block.
    pub threads: u32,
}

impl Grid {
    /// Blocks in one direction.
    pub fn of(blocks: usize, threads: u32) -> Self {
        Self::with([blocks, 1, 1], threads)
    }

    /// Blocks in three directions.
    pub fn with(blocks: [usize; 3], threads: u32) -> Self {
        let blocks = blocks.map(|n| u32::try_from(n).expect("sizes of layers fit in 32 bits"));
        Self { blocks, threads }
    }

    /// A thread for each of so many elements, or for several if there are very many.
    pub fn over(elements: usize) -> Self {
        Self::of(elements.div_ceil(BLOCK as usize).clamp(1, BLOCKS), BLOCK)
    }
}

/// A kernel that can be started.
#[derive(Clone, Copy)]
pub(super) struct Kernel {
    pub(super) function: sys::CUfunction,
    /// How many arguments it takes.
    pub(super) parameters: usize,
}

/// A kernel's argument: its bytes.
#[derive(Clone, Copy)]
pub(super) struct Arg([u64; 12]);

impl Arg {
    /// Of a type that the kernel knows by the same layout.
    pub fn of<T: Copy>(value: T) -> Self {
        let mut words = [0u64; 12];
        assert!(size_of::<T>() <= size_of_val(&words) && align_of::<T>() <= 8);
        // SAFETY: the words are large enough, and aligned for it.
        unsafe { words.as_mut_ptr().cast::<T>().write(value) };
        Self(words)
    }

    /// A size or number of elements.
    pub fn size(value: usize) -> Self {
        Self::of(value as u64)
    }

    /// A size that kernels count in 32 bits.
    pub fn int(value: usize) -> Self {
        Self::of(int(value))
    }
}

/// Division of numbers below 2³¹ as kernels do it: `(n·times / 2³² + n) >> shift`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub(super) struct Divisor {
    by: u32,
    times: u32,
    shift: u32,
}

impl Divisor {
    /// By this number, which is not zero.
    pub(super) fn new(by: usize) -> Self {
        let by = int(by) as u32;
        assert!(by > 0, "nothing is divided by zero");
        let shift = u32::BITS - (by - 1).leading_zeros();
        let times = ((1u64 << 32) * ((1u64 << shift) - u64::from(by)) / u64::from(by) + 1) as u32;
        Self { by, times, shift }
    }
}

impl From<Divisor> for Arg {
    fn from(divisor: Divisor) -> Self {
        Self::of(divisor)
    }
}

/// A size as kernels count it.
pub(super) fn int(value: usize) -> i32 {
    i32::try_from(value).expect("sizes of layers fit in 31 bits")
}

impl<T: Element> From<View<'_, T>> for Arg {
    fn from(view: View<T>) -> Self {
        Self::of(view.address())
    }
}

impl<T: Element> From<&ViewMut<'_, T>> for Arg {
    fn from(view: &ViewMut<T>) -> Self {
        Self::of(view.address())
    }
}

impl From<f32> for Arg {
    fn from(value: f32) -> Self {
        Self::of(value)
    }
}

impl From<f64> for Arg {
    fn from(value: f64) -> Self {
        Self::of(value)
    }
}

impl Kernel {
    /// Starts it behind what the stream has to do, with these arguments, which must be the kernel's.
    pub(super) fn start<const N: usize>(
        self,
        stream: &Stream,
        grid: Grid,
        mut args: [Arg; N],
    ) -> Result<()> {
        assert_eq!(N, self.parameters, "as many arguments as the kernel takes");
        stream.device().enter()?;
        let mut places = args.each_mut().map(|arg| (&raw mut arg.0).cast::<c_void>());
        let [x, y, z] = grid.blocks;
        // SAFETY: the launch files pass what their kernel takes: views that are alive now, whose buffers wait for the device before
        // they end, and of the sizes that they checked. Arguments are copied by the call.
        unsafe {
            result::launch_kernel(
                self.function,
                (x, y, z),
                (grid.threads, 1, 1),
                0,
                stream.handle(),
                &mut places,
            )
        }
        .map_err(failed("cuLaunchKernel"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_product_and_a_shift_divide_every_number_that_kernels_count() {
        let edges = |by: u32| {
            let near = [0, 1, by - 1, by, by + 1, i32::MAX as u32 / by * by];
            near.into_iter().chain((0..31).map(|bit| 1 << bit))
        };
        for by in (1..2000).chain([4095, 65537, 1 << 20, 123_456_789, i32::MAX as u32]) {
            let divisor = Divisor::new(by as usize);
            let numbers = edges(by).chain((1..200).map(|i| i * 10_737_418));
            for n in numbers.filter(|&n| n <= i32::MAX as u32) {
                let high = ((u64::from(n) * u64::from(divisor.times)) >> 32) as u32;
                assert_eq!((high + n) >> divisor.shift, n / by, "{n} / {by}");
            }
        }
    }
}
