//! Calls of the driver, with what they answer as errors.

use cudarc::driver::result::DriverError;
use cudarc::driver::sys::CUresult;

use crate::Error;

/// Turns the driver's answer to `call` into an error.
pub(super) fn failed(call: &'static str) -> impl FnOnce(DriverError) -> Error {
    move |error| Error::Cuda {
        call,
        answer: describe(&error),
    }
}

/// Name and explanation of what the driver answered.
pub(super) fn describe(error: &DriverError) -> String {
    let text = |text: Result<&std::ffi::CStr, DriverError>| {
        text.map_or(String::new(), |text| text.to_string_lossy().into_owned())
    };
    match error.error_name() {
        Ok(name) => format!(
            "{} ({})",
            name.to_string_lossy(),
            text(error.error_string())
        ),
        Err(_) => format!("error {}", error.0 as u32),
    }
}

/// Whether there was no memory.
pub(super) fn out_of_memory(error: &DriverError) -> bool {
    error.0 == CUresult::CUDA_ERROR_OUT_OF_MEMORY
}
