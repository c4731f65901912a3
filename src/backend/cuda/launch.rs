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
