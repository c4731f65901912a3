//! What a GPU does, as NVIDIA's management library tells where it is installed.

use nvml_wrapper::Nvml;

/// What a GPU does for all who use it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Load {
    /// Share of the last moments in which it computed.
    pub percent: u32,
    /// Bytes in use.
    pub memory: u64,
}

/// A GPU that is looked at.
pub(super) struct Gpu {
    library: Nvml,
    /// Where it is on the host's bus: programs number GPUs in other ways than the library does.
    address: String,
}

impl Gpu {
    /// The one at this place, where the library is there and knows it.
    pub(super) fn open(address: &str) -> Option<Self> {
        let library = Nvml::init().ok()?;
        library.device_by_pci_bus_id(address).ok()?;
        Some(Self {
            library,
            address: address.into(),
        })
    }

    /// What it does now; nothing where it does not tell.
    pub(super) fn load(&self) -> Option<Load> {
        let device = self.library.device_by_pci_bus_id(&*self.address).ok()?;
        Some(Load {
            percent: device.utilization_rates().ok()?.gpu,
            memory: device.memory_info().ok()?.used,
        })
    }
}
