//! Contracts of batch normalisation: what ranks share of it.

use phalanx::comm::Comm;
use phalanx::exchange::{Kind, Placement};
use phalanx::nn::Spec;
use phalanx::optim::Rule;
use phalanx::train::Trainer;

use super::exchange::{distance, run_model, same_bits_everywhere};

fn run(comm: &dyn Comm, kind: Kind, batch: usize, across_ranks: bool) -> Trainer {
    let text = format!(
        "name = \"normal\"\n\
        [[layer]]\nkind = \"conv2d\"\noutputs = 3\nkernel = 5\nstride = 4\n\
        [[layer]]\nkind = \"batch_norm\"\nacross_ranks = {across_ranks}\n\
        [[layer]]\nkind = \"tanh\"\n\
        [[layer]]\nkind = \"linear\"\n"
    );
    let plain = (Rule::Sgd { weight_decay: 0.0 }, None);
    run_model(
        comm,
        kind,
        (batch, 2),
        0.1,
        plain,
        (&Spec::parse(&text).unwrap(), 1),
    )
}

/// The greatest difference between two trainers' running estimates.
pub(super) fn state_distance(a: &Trainer, b: &Trainer) -> f32 {
    let (a, b) = (a.model().state(), b.model().state());
    let pairs = a.iter().zip(&b);
    pairs.map(|(a, b)| (a - b).abs()).fold(0.0, f32::max)
}

/// Steps of 333, which most numbers of ranks cannot share evenly, and a last one of a single sample: most ranks have
/// none of it.
pub fn across_ranks_equals_one_rank(comm: &dyn Comm) {
    let alone = comm.split(comm.rank());
    let single = run(&*alone, Kind::AllReduce, 333, false);
    for kind in [Kind::AllReduce, Kind::NodeShared] {
        let together = run(comm, kind, 333, true);
        same_bits_everywhere(comm, &together);
        let (params, state) = (
            distance(&together, &single),
            state_distance(&together, &single),
        );
        assert!(params < 1e-5, "{kind:?}: parameters differ by {params}");
        assert!(state < 1e-5, "{kind:?}: estimates differ by {state}");
    }
}

/// Each rank estimates from its own batches: the means lie near the whole batches' and are the same everywhere.
pub fn estimates_end_equal(comm: &dyn Comm) {
    let alone = comm.split(comm.rank());
    let single = run(&*alone, Kind::AllReduce, 250, false);
    let in_step = run(comm, Kind::NodeShared, 250, false);
    same_bits_everywhere(comm, &in_step);
    let far = state_distance(&in_step, &single);
    assert!(far < 0.05, "estimates differ by {far}");
    let apart = run(comm, Kind::one_sided(Placement::Sharded), 50, false);
    same_bits_everywhere(comm, &apart);
    assert!(apart.model().state().iter().all(|value| value.is_finite()));
}
