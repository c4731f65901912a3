//! A run that notes what every rank does.

use crate::comm::Comm;
use crate::observe::timeline::{self, Offset, Written};
use crate::train::{RunFolder, Trainer};

/// Notes are being taken.
pub(super) struct Tracing {
    start: Offset,
}

impl Tracing {
    /// Begins; *collective*.
    pub(super) fn start(comm: &dyn Comm) -> Self {
        let start = Offset::measure(comm);
        timeline::start(comm.size());
        Self { start }
    }

    /// Ends, and writes `trace.json`; also of a run that was stopped; *collective*.
    pub(super) fn end(
        self,
        comm: &dyn Comm,
        trainer: &Trainer,
        folder: Option<&RunFolder>,
    ) -> Option<Written> {
        let log = timeline::take().expect("notes were begun on this thread");
        let end = Offset::measure(comm);
        let summary = trainer.model().summary();
        let layers: Vec<String> = summary.iter().map(|layer| layer.name.to_string()).collect();
        let path = folder.map(|folder| folder.file("trace.json"));
        let times = (&self.start, &end);
        let written = timeline::write(comm, &log, times, &layers, path.as_deref());
        // The run has ended well without it, and its model is still to be written.
        written
            .inspect_err(|error| log::warn!("there will be no trace: {error}"))
            .ok()
    }
}
