//! Kernels' sources on their way to a device: embedded, compiled at first use, kept on disk.
#![allow(unsafe_code)]

mod cache;
mod compiler;
mod source;

pub use compiler::{architecture, compile, ptx};
pub use source::Source;

use std::ffi::CString;
use std::sync::{Mutex, PoisonError};

use cudarc::driver::{result, sys};

use super::device::Facts;
use super::driver::failed;
use super::launch::Kernel;
use super::missing::Missing;
use crate::{Error, Result};
use cache::Cache;

/// What is loaded on one device.
pub(super) struct Modules {
    /// What kernels are compiled for, such as `sm_80`.
    architecture: String,
    loaded: Mutex<Vec<Module>>,
}

struct Module {
    source: Source,
    text: String,
    handle: sys::CUmodule,
    kernels: Vec<(&'static str, Kernel)>,
}

impl Modules {
    /// Nothing yet; an error says that there is no compiler.
    pub(super) fn new(facts: &Facts) -> Result<Self> {
        if !compiler::present() {
            return Err(Error::NoDevice(Missing::Compiler));
        }
        Ok(Self {
            architecture: architecture(facts.capability)?,
            loaded: Mutex::default(),
        })
    }

    /// A kernel of a source, in the current context.
    pub(super) fn kernel(
        &self,
        facts: &Facts,
        source: Source,
        name: &'static str,
    ) -> Result<Kernel> {
        let mut loaded = self.loaded.lock().unwrap_or_else(PoisonError::into_inner);
        let at = match loaded.iter().position(|module| module.source == source) {
            Some(at) => at,
            None => {
                loaded.push(self.load(facts, source)?);
                loaded.len() - 1
            }
        };
        loaded[at].kernel(name)
    }

    fn load(&self, facts: &Facts, source: Source) -> Result<Module> {
        let text = source.text()?;
        let kind = if facts.emulated { "-emulator" } else { "" };
        let place = format!("{}-{}{kind}", source.name(), self.architecture);
        let cache = Cache::of_user();
        let make = || compile(source.file(), &text, &self.architecture);
        let key = format!("{text}{}", compiler::identity()?);
        let image = cache.get_or(&place, &key, make)?;
        let handle = match open(&image) {
            Ok(handle) => handle,
            // What was kept may be of another driver: compiled anew, it fits or says why not.
            Err(_) => open(&cache.renew(&place, &key, make)?)?,
        };
        Ok(Module {
            source,
            text,
            handle,
            kernels: Vec::new(),
        })
    }

    /// Takes all away again, in the current context, for which nothing runs any more.
    pub(super) fn unload(&mut self) {
        let loaded = self
            .loaded
            .get_mut()
            .unwrap_or_else(PoisonError::into_inner);
        for module in loaded.drain(..) {
            // SAFETY: loaded here, once, and its kernels are not started any more.
            let _ = unsafe { result::module::unload(module.handle) };
        }
    }
}

impl Module {
    fn kernel(&mut self, name: &'static str) -> Result<Kernel> {
        if let Some((_, kernel)) = self.kernels.iter().find(|(known, _)| *known == name) {
            return Ok(*kernel);
        }
        let text = CString::new(name).expect("names of kernels hold no zero");
        // SAFETY: the module is loaded.
        let function = unsafe { result::module::get_function(self.handle, text) }
            .map_err(failed("cuModuleGetFunction"))?;
        let kernel = Kernel {
            function,
            parameters: source::parameters(&self.text, name),
        };
        self.kernels.push((name, kernel));
        Ok(kernel)
    }
}

fn open(image: &[u8]) -> Result<sys::CUmodule> {
    // SAFETY: an image as a compiler makes it, with a zero behind it where it is text.
    unsafe { result::module::load_data(image.as_ptr().cast()) }.map_err(failed("cuModuleLoadData"))
}
