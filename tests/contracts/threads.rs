//! Contracts of a rank's threads: they change nothing but rounding.

use phalanx::comm::Comm;
use phalanx::exchange::Kind;
use phalanx::nn::Spec;
use phalanx::optim::Rule;
use phalanx::train::Trainer;

use super::batch_norm::state_distance;
use super::exchange::{distance, run_model, same_bits_everywhere};

/// A network with batch normalisation and dropout.
pub fn normal(across_ranks: bool) -> Spec {
    let text = format!(
        "name = \"normal\"\n\
        [[layer]]\nkind = \"conv2d\"\noutputs = 3\nkernel = 5\nstride = 4\n\
        [[layer]]\nkind = \"batch_norm\"\nacross_ranks = {across_ranks}\n\
        [[layer]]\nkind = \"tanh\"\n\
        [[layer]]\nkind = \"dropout\"\nrate = 0.2\n\
        [[layer]]\nkind = \"linear\"\n"
    );
    Spec::parse(&text).unwrap()
}

/// Trains for two epochs in steps of 333, which few numbers of threads can share evenly, and of a single sample: most
/// threads have none of it.
pub fn run(comm: &dyn Comm, kind: Kind, model: (&Spec, usize)) -> Trainer {
    let plain = (Rule::Sgd { weight_decay: 0.0 }, None);
    run_model(comm, kind, (333, 2), 0.1, plain, model)
}

/// Fails unless parameters and running estimates are those of `truth`.
pub fn assert_near(trainer: &Trainer, truth: &Trainer, what: &str) {
    let (params, state) = (distance(trainer, truth), state_distance(trainer, truth));
    assert!(params < 1e-5, "{what}: parameters differ by {params}");
    assert!(state < 1e-5, "{what}: estimates differ by {state}");
}

pub fn ranks_with_threads_equal_one_rank(comm: &dyn Comm) {
    let alone = comm.split(comm.rank());
    let single = run(&*alone, Kind::AllReduce, (&normal(false), 1));
    for (kind, threads) in [(Kind::NodeShared, 2), (Kind::AllReduce, 3)] {
        let together = run(comm, kind, (&normal(true), threads));
        same_bits_everywhere(comm, &together);
        assert_near(&together, &single, &format!("{kind:?}, {threads} threads"));
    }
}
