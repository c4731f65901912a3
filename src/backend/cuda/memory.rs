//! Memory: buffers on a device with views of their parts, and pinned memory of the host that a device copies from and to by
//! itself.
#![allow(unsafe_code)]

use std::marker::PhantomData;
use std::ops::Range;

use cudarc::driver::result;

use super::device::Device;
use super::driver::failed;
use super::stream::Event;
use crate::Result;

/// What buffers hold: plain numbers.
pub trait Element: Copy + Default + Send + Sync + 'static {}

impl Element for f32 {}
impl Element for f64 {}
impl Element for i32 {}
impl Element for u8 {}
impl Element for u32 {}
impl Element for u64 {}

/// Values on a device. Fresh ones are anything. Dropped, it waits for the device and gives the memory back.
pub struct Buffer<T> {
    device: Device,
    address: u64,
    len: usize,
    of: PhantomData<T>,
}

impl<T: Element> Buffer<T> {
    /// Room for so many values.
    pub fn new(device: &Device, len: usize) -> Result<Self> {
        Ok(Self {
            address: device.allocate(len * size_of::<T>())?,
            device: device.clone(),
            len,
            of: PhantomData,
        })
    }

    /// Number of values.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there is no value.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Where it is.
    pub fn device(&self) -> &Device {
        &self.device
    }

    /// All of it, to read.
    pub fn view(&self) -> View<'_, T> {
        View {
            address: self.address,
            len: self.len,
            of: PhantomData,
        }
    }

    /// All of it, to write.
    pub fn view_mut(&mut self) -> ViewMut<'_, T> {
        ViewMut {
            address: self.address,
            len: self.len,
            of: PhantomData,
        }
    }

    /// A part of it, to read.
    pub fn part(&self, range: Range<usize>) -> View<'_, T> {
        self.view().part(range)
    }

    /// A part of it, to write.
    pub fn part_mut(&mut self, range: Range<usize>) -> ViewMut<'_, T> {
        self.view_mut().part(range)
    }
}

impl<T> Drop for Buffer<T> {
    fn drop(&mut self) {
        self.device.release(self.address, self.len * size_of::<T>());
    }
}

/// Values on a device, to read.
#[derive(Clone, Copy)]
pub struct View<'a, T> {
    address: u64,
    len: usize,
    of: PhantomData<&'a [T]>,
}

/// Values on a device, to write.
pub struct ViewMut<'a, T> {
    address: u64,
    len: usize,
    of: PhantomData<&'a mut [T]>,
}

impl<'a, T: Element> View<'a, T> {
    /// Number of values.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there is no value.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Where the first is, in the device's memory.
    pub fn address(&self) -> u64 {
        self.address
    }

    /// Some of the values.
    pub fn part(self, range: Range<usize>) -> Self {
        Self {
            address: inside::<T>(self.address, self.len, &range),
            len: range.len(),
            of: PhantomData,
        }
    }

    /// The first `middle` values, and the others.
    pub fn split_at(self, middle: usize) -> (Self, Self) {
        (self.part(0..middle), self.part(middle..self.len))
    }
}

impl<'a, T: Element> ViewMut<'a, T> {
    /// Number of values.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there is no value.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Where the first is, in the device's memory.
    pub fn address(&self) -> u64 {
        self.address
    }

    /// Some of the values.
    pub fn part(self, range: Range<usize>) -> Self {
        Self {
            address: inside::<T>(self.address, self.len, &range),
            len: range.len(),
            of: PhantomData,
        }
    }

    /// The first `middle` values, and the others.
    pub fn split_at(self, middle: usize) -> (Self, Self) {
        let high = View::<T> {
            address: self.address,
            len: self.len,
            of: PhantomData,
        };
        let high = high.part(middle..self.len);
        let high = Self {
            address: high.address,
            len: high.len,
            of: PhantomData,
        };
        (self.part(0..middle), high)
    }

    /// The same values, to write for a while.
    pub fn again(&mut self) -> ViewMut<'_, T> {
        ViewMut {
            address: self.address,
            len: self.len,
            of: PhantomData,
        }
    }

    /// The same values, to read for a while.
    pub fn shared(&self) -> View<'_, T> {
        View {
            address: self.address,
            len: self.len,
            of: PhantomData,
        }
    }
}

/// Where `range` of the values begins, which must be inside.
fn inside<T>(address: u64, len: usize, range: &Range<usize>) -> u64 {
    assert!(
        range.start <= range.end && range.end <= len,
        "{range:?} of {len} values"
    );
    address + (range.start * size_of::<T>()) as u64
}

/// Memory of the host that stays in its place, so that a device copies from and to it while the host computes. Who looks at it
/// waits for the last copy.
pub struct Pinned<T: Element> {
    values: *mut T,
    len: usize,
    copied: Event,
    device: Device,
}

// SAFETY: it owns its memory; the driver's functions may be called from any thread.
unsafe impl<T: Element> Send for Pinned<T> {}

impl<T: Element> Pinned<T> {
    /// So many zeros.
    pub fn new(device: &Device, len: usize) -> Result<Self> {
        let copied = Event::new(device)?;
        let bytes = (len * size_of::<T>()).max(1);
        // SAFETY: freed when this is dropped.
        let values = unsafe { result::malloc_host(bytes, 0) }.map_err(failed("cuMemHostAlloc"))?;
        // SAFETY: so many bytes are there, and zeros are a value of every `Element`.
        unsafe { values.cast::<u8>().write_bytes(0, bytes) };
        Ok(Self {
            values: values.cast(),
            len,
            copied,
            device: device.clone(),
        })
    }

    /// Number of values.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there is no value.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The values, after the last copy.
    pub fn values(&self) -> Result<&[T]> {
        self.copied.wait()?;
        Ok(self.raw())
    }

    /// The values to change, after the last copy.
    pub fn values_mut(&mut self) -> Result<&mut [T]> {
        self.copied.wait()?;
        // SAFETY: as many values are there, of this alone, and no copy is under way.
        Ok(unsafe { std::slice::from_raw_parts_mut(self.values, self.len) })
    }

    /// What is recorded behind each copy.
    pub(super) fn copied(&self) -> &Event {
        &self.copied
    }

    /// The values, perhaps before the last copy: for those who start the next.
    pub(super) fn raw(&self) -> &[T] {
        // SAFETY: as many values are there as long as this lives.
        unsafe { std::slice::from_raw_parts(self.values, self.len) }
    }

    /// Where the values from `range` on are, which must be inside.
    pub(super) fn at(&mut self, range: &Range<usize>) -> *mut T {
        assert!(
            range.start <= range.end && range.end <= self.len,
            "{range:?} of {}",
            self.len
        );
        self.values.wrapping_add(range.start)
    }
}

impl<T: Element> Drop for Pinned<T> {
    fn drop(&mut self) {
        let _ = self.copied.wait();
        if self.device.enter().is_ok() {
            // SAFETY: from `malloc_host`, and no copy is under way.
            let _ = unsafe { result::free_host(self.values.cast()) };
        }
    }
}
