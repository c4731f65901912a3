//! Looks at gradients before they are exchanged, now and then.

use std::time::{Duration, Instant};

use crate::Result;
use crate::data::Steps;
use crate::nn::{Arenas, Grads, Params, Tensor};
use crate::observe::tensorboard::Spread;
use crate::train::Every;

/// Time between two looks, in times that one took: they may cost half of a per cent.
const PAUSE: u32 = 200;

/// How this rank's gradients are spread at the steps at which the watched set is looked at, and the weights after these.
pub struct Tap {
    every: Every,
    /// Looks that were due so far.
    seen: u64,
    found: Vec<Spread>,
    cost: Duration,
    /// Not before this.
    next: Instant,
    /// What a device's values are copied to.
    values: Vec<f32>,
}

impl Tap {
    /// For a run that has taken so many steps.
    pub fn new(every: Every, taken: u64, steps: &Steps) -> Self {
        Self {
            every,
            seen: every.due(taken, steps),
            found: Vec::new(),
            cost: Duration::ZERO,
            next: Instant::now(),
            values: Vec::new(),
        }
    }

    /// Looks at the gradients of the step that makes so many taken, if that is due.
    pub fn gradients(
        &mut self,
        taken: u64,
        steps: &Steps,
        tensors: &[Tensor],
        arenas: Arenas,
    ) -> Result<()> {
        let due = self.every.due(taken, steps);
        if due == self.seen {
            return Ok(());
        }
        self.seen = due;
        // One that would cost too much is left out, and not made up for: points are where evaluations are.
        if Instant::now() < self.next {
            return Ok(());
        }
        let begin = Instant::now();
        match (arenas.grads, arenas.params) {
            (Grads::Host(grads), _) => self.add("gradients", tensors, grads),
            (Grads::Device(grads, _), Params::Device(stream, _)) => {
                let values = Params::Device(stream, grads.shared());
                self.copied("gradients", tensors, values)?;
            }
            (Grads::Device(..), Params::Host(_)) => {}
        }
        self.cost = begin.elapsed();
        Ok(())
    }

    /// What was found, with the weights; nothing if it was not looked at gradients.
    pub fn take(&mut self, tensors: &[Tensor], params: Params) -> Result<Vec<Spread>> {
        if self.found.is_empty() {
            return Ok(Vec::new());
        }
        let begin = Instant::now();
        match params {
            Params::Host(values) => self.add("weights", tensors, values),
            there => self.copied("weights", tensors, there)?,
        }
        self.next = Instant::now() + (self.cost + begin.elapsed()) * PAUSE;
        Ok(std::mem::take(&mut self.found))
    }

    fn copied(&mut self, what: &str, tensors: &[Tensor], there: Params) -> Result<()> {
        let mut values = std::mem::take(&mut self.values);
        there.read(&mut values)?;
        self.add(what, tensors, &values);
        self.values = values;
        Ok(())
    }

    fn add(&mut self, what: &str, tensors: &[Tensor], values: &[f32]) {
        let of = |tensor: &Tensor| {
            let name = format!("{what}/{}", tensor.name);
            Spread::of(name, &values[tensor.range.clone()])
        };
        self.found.extend(tensors.iter().filter_map(of));
    }
}
