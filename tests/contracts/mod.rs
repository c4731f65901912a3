//! What every group of ranks must keep, on threads and under mpirun alike.

mod batch_norm;
mod comm;
mod exchange;
pub mod sets;
pub mod threads;

use phalanx::comm::Comm;

/// A check that all ranks of a group run together.
pub type Check = (&'static str, fn(&dyn Comm));

/// All of them.
pub const CHECKS: [Check; 20] = [
    (
        "sums and maxima are the same on every rank",
        comm::reductions,
    ),
    (
        "a broadcast gives every rank the root's values",
        comm::broadcast,
    ),
    (
        "gather keeps each rank's bytes and their order",
        comm::gather,
    ),
    ("split groups by color and keeps the order", comm::split),
    ("ranks know their place on the node", comm::node),
    (
        "a window loses no concurrent addition",
        comm::window_additions,
    ),
    ("a counter gives every number once", comm::counter),
    ("node-shared memory is seen by every rank", comm::shared),
    ("an error on one rank is an error on all", comm::agreement),
    (
        "ranks in step equal one rank with the whole batch",
        exchange::synchronous_equals_one_rank,
    ),
    (
        "every optimizer in step equals one rank with the whole batch",
        exchange::every_optimizer_equals_one_rank,
    ),
    (
        "ranks in step equal one rank while the batch grows",
        exchange::growing_batches_equal_one_rank,
    ),
    (
        "ranks in step measure noise together and grow the batch by it",
        exchange::noise_is_measured_together,
    ),
    (
        "ranks in step repeat themselves bit for bit",
        exchange::synchronous_repeats,
    ),
    (
        "a fault on one rank moves no parameter",
        exchange::a_fault_moves_nothing,
    ),
    (
        "one-sided loses no update",
        exchange::one_sided_loses_no_update,
    ),
    (
        "one-sided trains as well as ranks in step",
        exchange::one_sided_trains,
    ),
    (
        "batch norm across ranks equals one rank with the whole batch",
        batch_norm::across_ranks_equals_one_rank,
    ),
    (
        "running estimates of a batch norm end equal on every rank",
        batch_norm::estimates_end_equal,
    ),
    (
        "ranks with threads equal one rank of one thread with the whole batch",
        threads::ranks_with_threads_equal_one_rank,
    ),
];
