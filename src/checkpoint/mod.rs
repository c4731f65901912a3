//! Checkpoints: all that a run needs to go on, written while it goes on; `docs/checkpoint.md` specifies what is on disk.
//!
//! This room knows nothing of models. A rank fills a [`Snapshot`] with stretches of arrays and a note, and its [`Keeper`] has a
//! thread write them as the rank's part. When the parts of all ranks are over, the first rank's thread adds the [`Manifest`] and
//! gives the checkpoint its name in one step. A [`Checkpoint`] that was found whole gives arrays back by name and range,
//! whichever parts they are in and however many ranks ask.
//!
//! ```text
//!  Snapshot ─▶ Keeper ─▶ part-00000.h5 ┐
//!  Snapshot ─▶ Keeper ─▶ part-00001.h5 ┴▶ manifest.json ─▶ checkpoints/step-000000500 ─▶ Store ─▶ Checkpoint
//! ```

mod keeper;
mod manifest;
mod part;
mod snapshot;
mod store;
mod when;
mod writer;

pub use keeper::{Keeper, Kept};
pub use manifest::{Array, Manifest, PartFile, VERSION};
pub use snapshot::Snapshot;
pub use store::{Checkpoint, FOLDER, Store};
pub use when::{When, time};
