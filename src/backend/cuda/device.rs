//! A GPU: what it is, and what is allocated on it.
#![allow(unsafe_code)]

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use cudarc::driver::result;
use cudarc::driver::sys::{self, CUdevice_attribute as Attribute};

use super::driver::{describe, failed};
use super::launch::Kernel;
use super::missing::{Missing, OLDEST, OLDEST_DRIVER};
use super::module::{Modules, Source};
use crate::{Error, Result};

/// A GPU that is open; clones are the same one.
#[derive(Clone)]
pub struct Device(Arc<Open>);

/// What a GPU is.
#[derive(Clone, Debug, PartialEq)]
pub struct Facts {
    /// Its number on this host, from 0.
    pub index: usize,
    /// Its name.
    pub name: String,
    /// Where it is on the host's bus, such as `00000000:65:00.0`, if the driver tells.
    pub address: Option<String>,
    /// Its compute capability.
    pub capability: (u32, u32),
    /// Bytes of its memory.
    pub memory: u64,
    /// How many multiprocessors it has.
    pub multiprocessors: u32,
    /// Clock of its cores, in kHz.
    pub clock: u32,
    /// Clock of its memory, in kHz.
    pub memory_clock: u32,
    /// Width of its memory's bus, in bits.
    pub memory_bus: u32,
    /// Whether it is the emulator, on which times mean nothing.
    pub emulated: bool,
}

struct Open {
    device: sys::CUdevice,
    context: sys::CUcontext,
    facts: Facts,
    modules: Modules,
    bytes: AtomicU64,
    buffers: AtomicUsize,
}

// SAFETY: the driver's functions may be called from any thread; a context is made current in a thread before it is used there.
unsafe impl Send for Open {}
// SAFETY: as above; what changes here is atomic or behind a lock.
unsafe impl Sync for Open {}

impl Device {
    /// How many GPUs there are; an error says what is missing to use any.
    pub fn count() -> Result<usize> {
        // SAFETY: loading the driver's library runs its initialisation, which every CUDA program does.
        if !unsafe { sys::is_culib_present() } {
            return Err(Error::NoDevice(Missing::Driver));
        }
        let mut version = 0;
        // SAFETY: writes one number to where it is told.
        let answer = unsafe { sys::cuDriverGetVersion(&mut version) };
        answer
            .result()
            .map_err(|e| Error::NoDevice(Missing::Start(describe(&e))))?;
        let version = u32::try_from(version).unwrap_or(0);
        if version < OLDEST_DRIVER {
            return Err(Error::NoDevice(Missing::NewDriver { found: version }));
        }
        match result::init() {
            Ok(()) => {}
            Err(e) if e.0 == sys::CUresult::CUDA_ERROR_NO_DEVICE => return Ok(0),
            Err(e) => return Err(Error::NoDevice(Missing::Start(describe(&e)))),
        }
        let count = result::device::get_count().map_err(failed("cuDeviceGetCount"))?;
        Ok(usize::try_from(count).unwrap_or(0))
    }

    /// Opens a GPU; an error says what is missing to use it.
    pub fn open(index: usize) -> Result<Self> {
        let found = Self::count()?;
        let number = i32::try_from(index).ok().filter(|_| index < found);
        let asked = Error::NoDevice(Missing::Device {
            asked: index,
            found,
        });
        let device = result::device::get(number.ok_or(asked)?).map_err(failed("cuDeviceGet"))?;
        let facts = facts(device, index)?;
        if facts.capability < OLDEST {
            let (name, found) = (facts.name, facts.capability);
            return Err(Error::NoDevice(Missing::Capability { name, found }));
        }
        let modules = Modules::new(&facts)?;
        // SAFETY: the device was given by the driver; released when this is dropped.
        let context = unsafe { result::primary_ctx::retain(device) }
            .map_err(failed("cuDevicePrimaryCtxRetain"))?;
        let open = Open {
            device,
            context,
            facts,
            modules,
            bytes: AtomicU64::new(0),
            buffers: AtomicUsize::new(0),
        };
        Ok(Self(Arc::new(open)))
    }

    /// What it is.
    pub fn facts(&self) -> &Facts {
        &self.0.facts
    }

    /// Bytes of its memory that are free now.
    pub fn free(&self) -> Result<u64> {
        self.enter()?;
        let (free, _) = result::mem_get_info().map_err(failed("cuMemGetInfo"))?;
        Ok(free as u64)
    }

    /// Bytes and number of the buffers on it that this program has: none once all are dropped.
    pub fn allocated(&self) -> (u64, usize) {
        let (bytes, buffers) = (&self.0.bytes, &self.0.buffers);
        (
            bytes.load(Ordering::Relaxed),
            buffers.load(Ordering::Relaxed),
        )
    }

    /// Waits until everything is done that was asked of it.
    pub fn wait(&self) -> Result<()> {
        self.enter()?;
        result::ctx::synchronize().map_err(failed("cuCtxSynchronize"))
    }

    /// A function of a source, compiled if it is the first one used of it.
    pub(super) fn kernel(&self, source: Source, name: &'static str) -> Result<Kernel> {
        self.enter()?;
        self.0.modules.kernel(&self.0.facts, source, name)
    }

    /// Makes it the one that this thread calls.
    pub(super) fn enter(&self) -> Result<()> {
        // SAFETY: the context lives as long as this.
        unsafe { result::ctx::set_current(self.0.context) }.map_err(failed("cuCtxSetCurrent"))
    }

    /// Memory on it: the address of so many bytes, or why there is none.
    pub(super) fn allocate(&self, bytes: usize) -> Result<u64> {
        if bytes == 0 {
            return Ok(0);
        }
        self.enter()?;
        // SAFETY: given back by `release`, once.
        let address = unsafe { result::malloc_sync(bytes) };
        let address = address.map_err(|error| match super::driver::out_of_memory(&error) {
            true => Error::DeviceMemory {
                device: self.0.facts.name.clone(),
                need: bytes as u64,
                have: self.free().unwrap_or(0),
            },
            false => failed("cuMemAlloc")(error),
        })?;
        self.0.bytes.fetch_add(bytes as u64, Ordering::Relaxed);
        self.0.buffers.fetch_add(1, Ordering::Relaxed);
        Ok(address)
    }

    /// Gives memory back, once nothing uses it any more.
    pub(super) fn release(&self, address: u64, bytes: usize) {
        if bytes == 0 {
            return;
        }
        // What the device still does with it must end first; its errors are told by whoever waits for results.
        let _ = self.wait();
        // SAFETY: from `allocate`, and nobody has the address any more.
        let _ = unsafe { result::free_sync(address) };
        self.0.bytes.fetch_sub(bytes as u64, Ordering::Relaxed);
        self.0.buffers.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        // SAFETY: nothing that was made in the context is left: buffers, streams and events hold the device.
        unsafe {
            if result::ctx::set_current(self.context).is_ok() {
                self.modules.unload();
            }
            let _ = result::primary_ctx::release(self.device);
        }
    }
}

fn facts(device: sys::CUdevice, index: usize) -> Result<Facts> {
    let attribute = |attribute: Attribute| {
        // SAFETY: the device was given by the driver.
        let value = unsafe { result::device::get_attribute(device, attribute) };
        value
            .map(|value| u32::try_from(value).unwrap_or(0))
            .map_err(failed("cuDeviceGetAttribute"))
    };
    let name = result::device::get_name(device).map_err(failed("cuDeviceGetName"))?;
    // SAFETY: the device was given by the driver.
    let memory =
        unsafe { result::device::total_mem(device) }.map_err(failed("cuDeviceTotalMem"))?;
    let places = [
        Attribute::CU_DEVICE_ATTRIBUTE_PCI_DOMAIN_ID,
        Attribute::CU_DEVICE_ATTRIBUTE_PCI_BUS_ID,
        Attribute::CU_DEVICE_ATTRIBUTE_PCI_DEVICE_ID,
    ];
    let place: Option<Vec<u32>> = places.into_iter().map(|at| attribute(at).ok()).collect();
    let address = |place: Vec<u32>| format!("{:08x}:{:02x}:{:02x}.0", place[0], place[1], place[2]);
    Ok(Facts {
        index,
        emulated: name.contains("emulator"),
        name,
        address: place.map(address),
        capability: (
            attribute(Attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR)?,
            attribute(Attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR)?,
        ),
        memory: memory as u64,
        multiprocessors: attribute(Attribute::CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT)?,
        clock: attribute(Attribute::CU_DEVICE_ATTRIBUTE_CLOCK_RATE)?,
        memory_clock: attribute(Attribute::CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE)?,
        memory_bus: attribute(Attribute::CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH)?,
    })
}
