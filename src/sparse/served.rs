//! A trained sparse model in memory, once on each node, for predictions.

use std::sync::atomic::Ordering;

use super::model::Model;
use super::quality::Quality;
use crate::Result;
use crate::comm::{Comm, Shared};
use crate::data::rows::{Row, RowSet};
use crate::{Error, backend::cpu::prefetch_line};

/// Weights that ranks of a node have in common.
pub struct Served {
    memory: Shared,
    bias: f32,
}

impl Served {
    /// Puts a model where all ranks of the node see it; *collective*.
    pub fn new(comm: &dyn Comm, model: &Model) -> Result<Self> {
        let node = comm.node();
        let memory = node.shared(if node.rank() == 0 { model.features } else { 0 })?;
        if node.rank() == 0 {
            let cells = memory.of(0);
            for (&index, weight) in model.indices.iter().zip(&model.weights) {
                cells[index as usize].store(weight.to_bits(), Ordering::Relaxed);
            }
        }
        node.barrier();
        Ok(Self {
            memory,
            bias: model.bias,
        })
    }

    /// The logit of a row, or the feature of it that there is none of.
    pub fn logit(&self, row: Row) -> Result<f32, u32> {
        let cells = self.memory.of(0);
        let value = |i: usize| row.values.map_or(1.0, |values| values[i]);
        for &feature in row.indices {
            let cell = cells.get(feature as usize).ok_or(feature)?;
            prefetch_line(cell);
        }
        let weight = |&feature: &u32| cells[feature as usize].load(Ordering::Relaxed);
        let each = row
            .indices
            .iter()
            .map(|feature| f32::from_bits(weight(feature)));
        let each = each.enumerate();
        Ok(each.fold(self.bias, |sum, (i, weight)| sum + weight * value(i)))
    }

    /// The logits of rows, in order, which `quality` takes note of.
    pub fn logits(
        &self,
        set: &RowSet,
        range: std::ops::Range<usize>,
        quality: &mut Quality,
    ) -> Result<Vec<f32>> {
        let mut logits = Vec::with_capacity(range.len());
        for (number, row) in range.clone().zip(set.rows(range)) {
            let logit = self.logit(row).map_err(|feature| {
                let features = set.about.features;
                let problem =
                    format!("row {number} has feature {feature}, expected below {features}");
                Error::file(&set.path, problem, "make or import the set again")
            })?;
            if !logit.is_finite() {
                let problem = format!("row {number} has a value that is no finite number");
                return Err(Error::file(
                    &set.path,
                    problem,
                    "make or import the set again",
                ));
            }
            quality.add(logit, row.label);
            logits.push(logit);
        }
        Ok(logits)
    }

    /// Gives the memory back; *collective*.
    pub fn close(self) -> Result<()> {
        self.memory.close()
    }
}
