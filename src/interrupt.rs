//! Ctrl-C and SIGTERM as an error that cleans up, where the default would leave half of a file behind.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use signal_hook::consts::{SIGINT, SIGTERM};

use crate::{Error, Result};

static ASKED: OnceLock<Arc<AtomicBool>> = OnceLock::new();

/// From here on the first signal is an error at the next `check`; a second one ends the process at once.
pub fn listen() {
    let asked = ASKED.get_or_init(Arc::default);
    for signal in [SIGINT, SIGTERM] {
        // The order matters: the first signal finds the flag unset and sets it, the second finds it set and exits.
        let shut = signal_hook::flag::register_conditional_shutdown(signal, 1, asked.clone());
        let set = signal_hook::flag::register(signal, asked.clone());
        if shut.and(set).is_err() {
            log::warn!(
                "signal {signal} cannot be caught here: an interrupted command may leave a .partial file"
            );
        }
    }
}

/// An error if a signal has come since `listen`.
pub fn check() -> Result<()> {
    match ASKED.get() {
        Some(asked) if asked.load(Ordering::Relaxed) => Err(Error::Interrupted),
        _ => Ok(()),
    }
}

/// Ends this process at once, without anything that might wait: what a whole exit runs may hang where the program does.
pub fn leave(code: u8) -> ! {
    signal_hook::low_level::exit(code.into())
}
