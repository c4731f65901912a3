//! A watch on an MPI that may never come back.

use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::thread;
use std::time::Duration;

/// Calls for help when a stage takes too long. Ends with its owner.
pub struct Watch(Sender<&'static str>);

impl Watch {
    /// Starts watching; `late` is told the stage that did not end within `patience`.
    pub fn start(patience: Duration, late: impl FnOnce(&str) + Send + 'static) -> Self {
        let (sender, receiver) = mpsc::channel();
        thread::spawn(move || {
            let mut stage = "starting";
            loop {
                match receiver.recv_timeout(patience) {
                    Ok(next) => stage = next,
                    Err(RecvTimeoutError::Disconnected) => return,
                    Err(RecvTimeoutError::Timeout) => return late(stage),
                }
            }
        });
        Self(sender)
    }

    /// The next stage begins.
    pub fn stage(&self, name: &'static str) {
        // The watching thread is gone only after it has called for help.
        let _ = self.0.send(name);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_stage_that_does_not_end_calls_for_help() {
        let called = |stages: u64, pause: u64| {
            let (sender, receiver) = mpsc::channel();
            let late = move |stage: &str| sender.send(stage.to_owned()).unwrap();
            let watch = Watch::start(Duration::from_millis(400), late);
            for _ in 0..stages {
                watch.stage("a stage");
                thread::sleep(Duration::from_millis(pause));
            }
            drop(watch);
            receiver.recv().ok()
        };
        assert_eq!(called(5, 100), None, "longer in all, but never too long");
        assert_eq!(called(1, 2000).as_deref(), Some("a stage"));
    }
}
