//! What a device does in turn, and the places in it that others wait for.
#![allow(unsafe_code)]

use std::ops::Range;

use cudarc::driver::result::{self, stream::StreamKind};
use cudarc::driver::sys;

use super::device::Device;
use super::driver::failed;
use super::memory::{Buffer, Element, Pinned, View, ViewMut};
use crate::Result;

/// Work that a device does in turn, beside that of other streams.
pub struct Stream {
    device: Device,
    handle: sys::CUstream,
}

// SAFETY: the driver's functions may be called from any thread.
unsafe impl Send for Stream {}
// SAFETY: as above; the driver has its own locks.
unsafe impl Sync for Stream {}

impl Stream {
    /// One with nothing to do.
    pub fn new(device: &Device) -> Result<Self> {
        device.enter()?;
        let handle =
            result::stream::create(StreamKind::NonBlocking).map_err(failed("cuStreamCreate"))?;
        Ok(Self {
            device: device.clone(),
            handle,
        })
    }

    /// Where it is.
    pub fn device(&self) -> &Device {
        &self.device
    }

    /// Waits until all is done; an error of a kernel shows here.
    pub fn wait(&self) -> Result<()> {
        self.device.enter()?;
        // SAFETY: the stream is open.
        unsafe { result::stream::synchronize(self.handle) }.map_err(failed("cuStreamSynchronize"))
    }

    /// Marks the place behind all that was asked until now.
    pub fn record(&self, event: &Event) -> Result<()> {
        self.device.enter()?;
        // SAFETY: stream and event are open.
        unsafe { result::event::record(event.handle, self.handle) }.map_err(failed("cuEventRecord"))
    }

    /// What is asked from now on waits for what was marked by `event`.
    pub fn wait_for(&self, event: &Event) -> Result<()> {
        self.device.enter()?;
        let flags = sys::CUevent_wait_flags::CU_EVENT_WAIT_DEFAULT;
        // SAFETY: stream and event are open.
        unsafe { result::stream::wait_event(self.handle, event.handle, flags) }
            .map_err(failed("cuStreamWaitEvent"))
    }

    /// A buffer with these values, there when it returns.
    pub fn buffer<T: Element>(&self, values: &[T]) -> Result<Buffer<T>> {
        let mut buffer = Buffer::new(&self.device, values.len())?;
        self.upload(values, buffer.view_mut())?;
        Ok(buffer)
    }

    /// A buffer of zeros.
    pub fn zeros<T: Element>(&self, len: usize) -> Result<Buffer<T>> {
        let mut buffer = Buffer::new(&self.device, len)?;
        self.clear(buffer.view_mut())?;
        Ok(buffer)
    }

    /// Copies from any memory of the host and waits.
    pub fn upload<T: Element>(&self, from: &[T], to: ViewMut<T>) -> Result<()> {
        assert_eq!(from.len(), to.len(), "as many values on both sides");
        if from.is_empty() {
            return Ok(());
        }
        self.device.enter()?;
        // SAFETY: as many values are in both, and nobody changes the host's until the wait below is over.
        unsafe { result::memcpy_htod_async(to.address(), from, self.handle) }
            .map_err(failed("cuMemcpyHtoDAsync"))?;
        self.wait()
    }

    /// Copies to any memory of the host and waits.
    pub fn download<T: Element>(&self, from: View<T>, to: &mut [T]) -> Result<()> {
        assert_eq!(from.len(), to.len(), "as many values on both sides");
        if to.is_empty() {
            return Ok(());
        }
        self.device.enter()?;
        // SAFETY: as many values are in both, and nobody looks at the host's until the wait below is over.
        unsafe { result::memcpy_dtoh_async(to, from.address(), self.handle) }
            .map_err(failed("cuMemcpyDtoHAsync"))?;
        self.wait()
    }

    /// Values of a device, after all that was asked until now.
    pub fn values<T: Element>(&self, from: View<T>) -> Result<Vec<T>> {
        let mut values = vec![T::default(); from.len()];
        self.download(from, &mut values)?;
        Ok(values)
    }

    /// Copies `range` of pinned memory, later; who changes it waits.
    pub fn send<T: Element>(
        &self,
        from: &Pinned<T>,
        range: Range<usize>,
        to: ViewMut<T>,
    ) -> Result<()> {
        let values = &from.raw()[range];
        assert_eq!(values.len(), to.len(), "as many values on both sides");
        if values.is_empty() {
            return Ok(());
        }
        // Behind the last copy, perhaps of another stream: who waits for this one waits for all.
        self.wait_for(from.copied())?;
        // SAFETY: the memory stays as it is until the event recorded below is over.
        unsafe { result::memcpy_htod_async(to.address(), values, self.handle) }
            .map_err(failed("cuMemcpyHtoDAsync"))?;
        self.record(from.copied())
    }

    /// Copies into `range` of pinned memory, later; who looks at it waits.
    pub fn receive<T: Element>(
        &self,
        from: View<T>,
        to: &mut Pinned<T>,
        range: Range<usize>,
    ) -> Result<()> {
        assert_eq!(range.len(), from.len(), "as many values on both sides");
        if from.is_empty() {
            return Ok(());
        }
        self.wait_for(to.copied())?;
        let bytes = from.len() * size_of::<T>();
        let place = to.at(&range);
        // SAFETY: so many bytes are in both; nobody looks at the host's until the event recorded below is over.
        let answer =
            unsafe { sys::cuMemcpyDtoHAsync_v2(place.cast(), from.address(), bytes, self.handle) };
        answer.result().map_err(failed("cuMemcpyDtoHAsync"))?;
        self.record(to.copied())
    }

    /// Copies on the device, later.
    pub fn copy<T: Element>(&self, from: View<T>, to: ViewMut<T>) -> Result<()> {
        assert_eq!(from.len(), to.len(), "as many values on both sides");
        if from.is_empty() {
            return Ok(());
        }
        self.device.enter()?;
        let bytes = from.len() * size_of::<T>();
        // SAFETY: so many bytes are in both.
        unsafe { result::memcpy_dtod_async(to.address(), from.address(), bytes, self.handle) }
            .map_err(failed("cuMemcpyDtoDAsync"))
    }

    /// Sets all to zero, later.
    pub fn clear<T: Element>(&self, values: ViewMut<T>) -> Result<()> {
        if values.is_empty() {
            return Ok(());
        }
        self.device.enter()?;
        let bytes = values.len() * size_of::<T>();
        // SAFETY: so many bytes are there, and zeros are a value of every `Element`.
        unsafe { result::memset_d8_async(values.address(), 0, bytes, self.handle) }
            .map_err(failed("cuMemsetD8Async"))
    }

    pub(super) fn handle(&self) -> sys::CUstream {
        self.handle
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        if self.device.enter().is_ok() {
            // SAFETY: not used any more; the driver ends it once its work is done.
            let _ = unsafe { result::stream::destroy(self.handle) };
        }
    }
}

/// A place in a stream.
pub struct Event {
    device: Device,
    handle: sys::CUevent,
}

// SAFETY: the driver's functions may be called from any thread.
unsafe impl Send for Event {}
// SAFETY: as above; the driver has its own locks.
unsafe impl Sync for Event {}

impl Event {
    /// Of no stream yet: who waits for it does not wait.
    pub fn new(device: &Device) -> Result<Self> {
        device.enter()?;
        let flags = sys::CUevent_flags::CU_EVENT_DEFAULT;
        let handle = result::event::create(flags).map_err(failed("cuEventCreate"))?;
        Ok(Self {
            device: device.clone(),
            handle,
        })
    }

    /// Waits until all before it is done.
    pub fn wait(&self) -> Result<()> {
        self.device.enter()?;
        // SAFETY: the event is open.
        unsafe { result::event::synchronize(self.handle) }.map_err(failed("cuEventSynchronize"))
    }

    /// Seconds from this place to `later`, both of which are over.
    pub fn seconds_to(&self, later: &Self) -> Result<f64> {
        self.device.enter()?;
        // SAFETY: both events are open.
        let milliseconds = unsafe { result::event::elapsed(self.handle, later.handle) };
        Ok(f64::from(milliseconds.map_err(failed("cuEventElapsedTime"))?) / 1e3)
    }
}

impl Drop for Event {
    fn drop(&mut self) {
        if self.device.enter().is_ok() {
            // SAFETY: not used any more.
            let _ = unsafe { result::event::destroy(self.handle) };
        }
    }
}
