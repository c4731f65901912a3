//! Running estimates of batch normalisation, made equal on all ranks.

use crate::Result;
use crate::comm::Comm;
use crate::nn::Backend;

/// Gives every rank the mean of the ranks' states, each weighed by the steps it was made of, or of the shards' states, where
/// there are shards; *collective*.
///
/// Estimates are linear in the batches, so that averaging now and then gives what averaging at the end would.
pub(super) fn average(comm: &dyn Comm, backend: &mut dyn Backend, steps: u64) -> Result<()> {
    let state = backend.state()?;
    if state.is_empty() {
        return Ok(());
    }
    let shards = backend.shard_states();
    let mine: Vec<u8> = match shards.is_empty() {
        true => bytes(&state, steps).collect(),
        false => (shards.iter()).flat_map(|shard| bytes(shard, 1)).collect(),
    };
    let all = comm.gather(&mine).concat();
    let each = 8 + size_of_val(&state[..]);
    let states: Vec<(Vec<f32>, u64)> = all.chunks_exact(each).map(read).collect();
    let weighed = states.iter().map(|(state, weight)| (&state[..], *weight));
    if let Some(mean) = mean(weighed) {
        (backend.shard_states().into_iter()).for_each(|state| state.copy_from_slice(&mean));
        backend.set_state(&mean)?;
    }
    Ok(())
}

/// The mean of states with their weights, summed in their order, so that it repeats; none where nothing has weight.
pub(super) fn mean<'a>(states: impl Iterator<Item = (&'a [f32], u64)>) -> Option<Vec<f32>> {
    // In doubles, where the mean of equal floats is that float.
    let (mut sums, mut total) = (Vec::new(), 0.0);
    for (state, weight) in states {
        sums.resize(state.len(), 0.0);
        total += weight as f64;
        let pairs = sums.iter_mut().zip(state);
        pairs.for_each(|(sum, &value)| *sum += f64::from(value) * weight as f64);
    }
    let mean = sums.iter().map(|sum| (sum / total) as f32);
    (total > 0.0).then(|| mean.collect())
}

fn bytes(state: &[f32], weight: u64) -> impl Iterator<Item = u8> {
    let values = state.iter().flat_map(|value| value.to_le_bytes());
    weight.to_le_bytes().into_iter().chain(values)
}

fn read(bytes: &[u8]) -> (Vec<f32>, u64) {
    let (weight, values) = bytes.split_at(8);
    let values = values.chunks_exact(4);
    let values = values.map(|four| f32::from_le_bytes(four.try_into().expect("four bytes")));
    let weight = u64::from_le_bytes(weight.try_into().expect("eight bytes"));
    (values.collect(), weight)
}
