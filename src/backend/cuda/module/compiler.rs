//! NVRTC: CUDA C++ into images that a driver loads.
#![allow(unsafe_code)]

use std::ffi::{CStr, CString};

use cudarc::nvrtc::result::{self, NvrtcError};
use cudarc::nvrtc::sys;

use super::super::missing::Missing;
use crate::{Error, Result};

/// Whether there is a compiler.
pub(super) fn present() -> bool {
    // SAFETY: loading the compiler's library runs its initialisation, which every program that compiles kernels does.
    unsafe { sys::is_culib_present() }
}

/// Its version: what it makes depends on that too.
pub(super) fn identity() -> Result<String> {
    let (mut major, mut minor) = (0, 0);
    // SAFETY: writes two numbers to where it is told.
    let answer = unsafe { sys::nvrtcVersion(&mut major, &mut minor) };
    answer.result().map_err(failed("nvrtcVersion"))?;
    Ok(format!("NVRTC {major}.{minor}"))
}

/// What to compile for: the device's own architecture, or, if the compiler is older than the device, the newest it knows in a
/// form that the driver translates. An error says that the compiler is too new to know the device.
pub fn architecture(capability: (u32, u32)) -> Result<String> {
    let wanted = (10 * capability.0 + capability.1) as i32;
    let mut count = 0;
    // SAFETY: writes one number to where it is told.
    unsafe { sys::nvrtcGetNumSupportedArchs(&mut count) }
        .result()
        .map_err(failed("nvrtcGetNumSupportedArchs"))?;
    let mut known = vec![0; usize::try_from(count).unwrap_or(0)];
    // SAFETY: writes as many numbers as it just said.
    unsafe { sys::nvrtcGetSupportedArchs(known.as_mut_ptr()) }
        .result()
        .map_err(failed("nvrtcGetSupportedArchs"))?;
    let newest = known.iter().filter(|&&known| known <= wanted).max();
    match newest {
        Some(&known) if known < wanted => Ok(format!("compute_{known}")),
        Some(_) => Ok(format!("sm_{wanted}")),
        None => {
            let oldest = known.into_iter().min().unwrap_or(0) as u32;
            Err(Error::NoDevice(Missing::OldCompiler {
                compiler: identity()?,
                oldest: (oldest / 10, oldest % 10),
                found: capability,
            }))
        }
    }
}

/// The image of a source for an architecture such as `sm_80`.
pub fn compile(file: &str, text: &str, architecture: &str) -> Result<Vec<u8>> {
    let program = Program::compiled(file, text, architecture)?;
    if !architecture.starts_with("sm_") {
        return program.ptx();
    }
    let mut size = 0;
    // SAFETY: the program is compiled; writes one number to where it is told.
    unsafe { sys::nvrtcGetCUBINSize(program.0, &mut size) }
        .result()
        .map_err(failed("nvrtcGetCUBINSize"))?;
    let mut image = vec![0u8; size];
    // SAFETY: writes as many bytes as it just said.
    unsafe { sys::nvrtcGetCUBIN(program.0, image.as_mut_ptr().cast()) }
        .result()
        .map_err(failed("nvrtcGetCUBIN"))?;
    Ok(image)
}

/// The assembly of a source for an architecture such as `compute_80`, for those who read it.
pub fn ptx(file: &str, text: &str, architecture: &str) -> Result<String> {
    let ptx = Program::compiled(file, text, architecture)?.ptx()?;
    let text = CStr::from_bytes_until_nul(&ptx)
        .map_or(String::new(), |text| text.to_string_lossy().into_owned());
    Ok(text)
}

struct Program(sys::nvrtcProgram);

impl Program {
    fn compiled(file: &str, text: &str, architecture: &str) -> Result<Self> {
        let string = |text: &str| CString::new(text).expect("sources hold no zero");
        let (text, name) = (string(text), string(file));
        let program =
            Self(result::create_program(&text, Some(&name)).map_err(failed("nvrtcCreateProgram"))?);
        // Products and sums are fused only where a kernel says so: everything else then rounds as on the CPU.
        let options = [
            "--std=c++17".to_string(),
            "--fmad=false".to_string(),
            format!("--gpu-architecture={architecture}"),
        ];
        // SAFETY: the program was made above and is not destroyed yet.
        match unsafe { result::compile_program(program.0, &options) } {
            Ok(()) => Ok(program),
            Err(error) => Err(Error::Kernel {
                file: file.into(),
                architecture: architecture.into(),
                log: program.log().unwrap_or_else(|| error.to_string()),
            }),
        }
    }

    /// With a zero at its end.
    fn ptx(&self) -> Result<Vec<u8>> {
        // SAFETY: the program is compiled and not destroyed yet.
        let text = unsafe { result::get_ptx(self.0) }.map_err(failed("nvrtcGetPTX"))?;
        Ok(text.into_iter().map(|byte| byte as u8).collect())
    }

    /// What the compiler said.
    fn log(&self) -> Option<String> {
        // SAFETY: the program is not destroyed yet.
        let text = unsafe { result::get_program_log(self.0) }.ok()?;
        let bytes: Vec<u8> = text.into_iter().map(|byte| byte as u8).collect();
        let text = CStr::from_bytes_until_nul(&bytes).ok()?.to_string_lossy();
        Some(text.trim_end().to_string())
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        // SAFETY: made by `create_program` and not used any more.
        let _ = unsafe { result::destroy_program(self.0) };
    }
}

fn failed(call: &'static str) -> impl FnOnce(NvrtcError) -> Error {
    move |error| Error::Cuda {
        call,
        answer: error.to_string(),
    }
}
