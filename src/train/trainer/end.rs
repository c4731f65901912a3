//! What a trainer does when no step is left.

use std::time::{Duration, Instant};

use xxhash_rust::xxh3::Xxh3;

use super::Trainer;
use crate::Result;
use crate::board::Phase;
use crate::comm::{Comm, agree};
use crate::data::Dataset;
use crate::exchange::Exchange;
use crate::nn::{Model, Params, Tally};
use crate::observe::timeline::{self, Kind};
use crate::train::{Outcome, Watched, statistics};

/// Values that are digested at once.
const PIECE: usize = 1 << 14;
/// Less than this was only a look whether a checkpoint is due.
const SHORT: Duration = Duration::from_micros(50);

impl Trainer {
    /// What there was to do for checkpoints since `begin` is done.
    pub(in super::super) fn saved(&mut self, begin: Instant) {
        let time = begin.elapsed();
        self.times.checkpoint += time;
        if time >= SHORT {
            timeline::span(Kind::Checkpoint, 0, begin);
        }
    }

    /// A digest of the bits of parameters and state.
    pub fn checksum(&self) -> u64 {
        checksum(self.model(), &self.params)
    }

    /// What `data` gives with the parameters that an exchange has given back; *collective*.
    pub fn evaluate_settled(&mut self, comm: &dyn Comm, data: &Dataset) -> Result<Tally> {
        let params = std::mem::take(&mut self.params);
        let tally = self.evaluate(comm, Params::Host(&params), data);
        self.params = params;
        tally
    }

    /// Refuses parameters and results that are not finite: no step follows whose loss would show it; *collective*.
    pub fn check_end(&self, comm: &dyn Comm, watched: Watched, outcome: &Outcome) -> Result<()> {
        let results = [(watched, outcome.settled), (Watched::Test, outcome.test)];
        let losses = results.map(|(set, tally)| (set, tally.map_or(0.0, |tally| tally.loss)));
        let bad = losses.into_iter().find(|(_, loss)| !loss.is_finite());
        let mine = match (self.model().in_params(&self.params), bad) {
            (Some(fault), _) => Err(self.diverged(fault.what, fault.value, outcome.steps, None)),
            (None, Some((Watched::Test, loss))) => {
                Err(self.diverged("the test loss".into(), loss, outcome.steps, None))
            }
            (None, Some((Watched::Validation, loss))) => {
                Err(self.diverged("the validation loss".into(), loss, outcome.steps, None))
            }
            (None, None) => Ok(()),
        };
        agree(comm, mine)
    }

    /// Ends the exchange and takes the parameters back, they and the model's state the same on every rank; *collective*.
    pub fn settle(&mut self, comm: &dyn Comm, exchange: Box<dyn Exchange + '_>) -> Result<()> {
        self.turn(Phase::Settle);
        self.conduct = self.conduct_of(&*exchange);
        if exchange.team().size() == comm.size() {
            self.ledger.gather(comm);
        }
        statistics::average(comm, &mut *self.backend, self.times.steps)?;
        self.params = exchange.settle()?;
        Ok(())
    }
}

/// A digest of the bits of a model's parameters and state.
pub fn checksum(model: &Model, params: &[f32]) -> u64 {
    let state = model.state();
    let mut hash = Xxh3::new();
    let mut bytes = Vec::new();
    // Piece by piece: the bytes of all would be the parameters once more.
    for values in params.chunks(PIECE).chain(state.chunks(PIECE)) {
        bytes.clear();
        bytes.extend(values.iter().flat_map(|value| value.to_le_bytes()));
        hash.update(&bytes);
    }
    hash.digest()
}
