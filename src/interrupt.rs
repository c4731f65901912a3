//! Ctrl-C and SIGTERM as an error that cleans up, where the default would leave half of a file behind, or as a wish that
//! training heeds at its next step.

use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};
use std::sync::{Arc, OnceLock};
use std::thread;
use std::time::{Duration, Instant};

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM, SIGUSR1, SIGUSR2};
use signal_hook::iterator::Signals;

use crate::{Error, Result};

/// Signals that people and batch systems send.
pub const SENT: [i32; 5] = [SIGHUP, SIGINT, SIGTERM, SIGUSR1, SIGUSR2];

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

/// Asks another process of ours to stop, as this one was asked.
pub fn pass_on(child: &std::process::Child) {
    let number = i32::try_from(child.id()).ok();
    let Some(pid) = number.and_then(rustix::process::Pid::from_raw) else {
        return;
    };
    if let Err(error) = rustix::process::kill_process(pid, rustix::process::Signal::TERM) {
        log::warn!("process {} cannot be asked to stop: {error}", child.id());
    }
}

/// The first signal that came since `heed`; 0 if none did.
static HEARD: AtomicI32 = AtomicI32::new(0);

/// Signals within this time are one wish: a batch system signals all processes of a job, and mpirun passes its own on.
const ONE_WISH: Duration = Duration::from_secs(1);

/// From here on SIGTERM, SIGINT and SIGUSR1 are a wish to stop, which `asked` tells; one that comes later than the first ends
/// the process at once, with code 1.
pub fn heed() {
    let Ok(mut signals) = Signals::new([SIGTERM, SIGINT, SIGUSR1]) else {
        log::warn!("signals cannot be caught here: they end the run without a checkpoint");
        return;
    };
    let listen = move || {
        let mut first: Option<Instant> = None;
        for signal in signals.forever() {
            match first {
                None => {
                    first = Some(Instant::now());
                    HEARD.store(signal, Ordering::Relaxed);
                }
                Some(first) if first.elapsed() > ONE_WISH => leave(1),
                Some(_) => {}
            }
        }
    };
    if let Err(error) = thread::Builder::new()
        .name("phalanx signals".into())
        .spawn(listen)
    {
        log::warn!("signals are not heeded: {error}");
    }
}

/// The name of the signal that asked this process to stop, if one did since `heed`.
pub fn asked() -> Option<&'static str> {
    match HEARD.load(Ordering::Relaxed) {
        SIGTERM => Some("SIGTERM"),
        SIGINT => Some("SIGINT"),
        SIGUSR1 => Some("SIGUSR1"),
        _ => None,
    }
}

/// Ends this process at once, without anything that might wait: what a whole exit runs may hang where the program does.
pub fn leave(code: u8) -> ! {
    signal_hook::low_level::exit(code.into())
}
