//! What a trainer gives to checkpoints, and takes back.

use serde::{Deserialize, Serialize};

use super::{Trainer, own};
use crate::checkpoint::{Checkpoint, Snapshot};
use crate::comm::Comm;
use crate::data::Piece;
use crate::exchange::{Conduct, Exchange};
use crate::train::{Noise, Sums, Times};
use crate::{Error, Result};

/// In checkpoints: the state of a rank's model, or of each shard's.
const MODEL: &str = "model_state";
const SHARDS: &str = "shard_states";

/// Numbers that all ranks have in common.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Common {
    /// How the batch has grown with the noise, what was measured of that, and for which step it was decided last.
    pieces: Vec<Piece>,
    noise: Option<Noise>,
    decided: Option<u64>,
    /// Steps skipped in a row.
    in_a_row: u64,
}

/// A rank's own numbers.
#[derive(Serialize, Deserialize)]
struct Note {
    times: Times,
    updates: u64,
    skipped: u64,
    conduct: Conduct,
    #[serde(default)]
    ledger: Sums,
}

impl Trainer {
    /// What all ranks have in common after a step.
    pub fn common(&self) -> Common {
        let grows = self.noise.is_some();
        Common {
            pieces: if grows {
                self.steps.pieces().to_vec()
            } else {
                Vec::new()
            },
            noise: self.noise.clone(),
            decided: self.requested,
            in_a_row: self.in_a_row,
        }
    }

    /// Copies what this rank gives to a checkpoint after a step.
    pub fn save(&mut self, exchange: &mut dyn Exchange, to: &mut Snapshot) -> Result<()> {
        exchange.save(&mut self.mover, to)?;
        let state = self.backend.state()?;
        let (rank, size) = exchange.place();
        match self.shards {
            _ if state.is_empty() => {}
            None => to.own(MODEL, state.len()).copy_from_slice(&state),
            Some(all) => {
                let (mine, len) = (own(all, size, rank), state.len());
                let values = to.common(SHARDS, mine.start * len, mine.len() * len, all * len);
                let states = self.backend.shard_states();
                let pairs = values.chunks_exact_mut(len).zip(states);
                pairs.for_each(|(values, state)| values.copy_from_slice(state));
            }
        }
        let note = Note {
            times: self.times.now(),
            updates: self.mover.taken(),
            skipped: self.skipped,
            conduct: self.conduct_of(exchange),
            ledger: self.ledger.sums().clone(),
        };
        to.note = serde_json::to_string(&note).expect("plain values");
        Ok(())
    }

    /// Goes on from a checkpoint, before an exchange is started.
    pub fn go_on(&mut self, comm: &dyn Comm, from: &Checkpoint, common: Common) -> Result<()> {
        from.read("parameters", 0..self.params.len(), &mut self.params)?;
        self.first = from.manifest.step;
        self.steps.go_on(common.pieces);
        if let (Some(noise), Some(measured)) = (&mut self.noise, common.noise) {
            noise.go_on(measured);
        }
        self.decided = common.decided;
        self.in_a_row = common.in_a_row;
        let (parts, rank) = (from.manifest.parts.len(), comm.rank());
        let mine = note(from, rank.min(parts - 1))?;
        self.times = mine.times;
        self.skipped = mine.skipped;
        if parts == comm.size() {
            self.past = mine.conduct;
            self.ledger.go_on(mine.ledger);
            return Ok(());
        }
        // Other ranks than now: what they have seen is still seen once, by those that there are.
        self.times.samples = 0;
        for part in (rank..parts).step_by(comm.size()) {
            self.times.samples += note(from, part)?.times.samples;
        }
        Ok(())
    }

    /// Takes back what the exchange and the model gave, once the exchange is started; *collective*.
    pub fn take_back(
        &mut self,
        comm: &dyn Comm,
        exchange: &mut dyn Exchange,
        from: &Checkpoint,
    ) -> Result<()> {
        let part = comm.rank().min(from.manifest.parts.len() - 1);
        let updates = note(from, part)?.updates;
        exchange.load(&mut self.mover, updates, from, part)?;
        let len = self.backend.state()?.len();
        match self.shards {
            _ if len == 0 => Ok(()),
            None => {
                let state = from.own(part, MODEL)?.filter(|state| state.len() == len);
                let state = state.ok_or_else(|| odd(from, MODEL, len))?;
                self.backend.set_state(&state)
            }
            Some(all) => {
                let (rank, size) = exchange.place();
                let mine = own(all, size, rank);
                let mut values = vec![0.0; mine.len() * len];
                from.read(SHARDS, mine.start * len..mine.end * len, &mut values)?;
                self.backend.set_shard_states(values.chunks_exact(len));
                Ok(())
            }
        }
    }

    /// How this rank's updates were, those before the run was resumed too.
    pub(super) fn conduct_of(&self, exchange: &dyn Exchange) -> Conduct {
        let mut conduct = exchange.conduct();
        conduct.merge(&self.past);
        conduct
    }
}

fn note(from: &Checkpoint, part: usize) -> Result<Note> {
    let text = from.note(part)?;
    serde_json::from_str(&text).map_err(|error| {
        let problem = format!("the note of part {part} is not understood: {error}");
        Error::file(from.path(), problem, "it was written by another phalanx")
    })
}

fn odd(from: &Checkpoint, name: &str, len: usize) -> Error {
    let problem = format!("has no `{name}` of {len} values");
    Error::file(from.path(), problem, "the checkpoint is of another model")
}
