//! Running estimates of batch normalisation, made equal on all ranks.

use crate::comm::Comm;
use crate::nn::Crew;

/// Gives every rank the mean of the ranks' states, each weighed by the steps it was made of; *collective*.
///
/// Estimates are linear in the batches, so that averaging now and then gives what averaging at the end would.
pub(super) fn average(comm: &dyn Comm, crew: &mut Crew, steps: u64) {
    let state = crew.model().state();
    if state.is_empty() || comm.size() == 1 {
        return;
    }
    // In doubles, where the mean of equal floats is that float.
    let weight = steps as f64;
    let weighed = state.iter().map(|&value| f64::from(value) * weight);
    let mut sums: Vec<f64> = weighed.chain([weight]).collect();
    comm.sum(&mut sums);
    let total = sums[state.len()];
    if total > 0.0 {
        let mean = sums[..state.len()].iter().map(|sum| (sum / total) as f32);
        crew.set_state(&mean.collect::<Vec<_>>());
    }
}
