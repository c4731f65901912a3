//! What every group of ranks must keep, on threads and under mpirun alike.

mod agreement;
mod batch_norm;
mod comm;
mod exchange;
pub mod sets;
mod sparse;
pub mod threads;

use phalanx::comm::Comm;

/// A check that all ranks of a group run together.
pub type Check = (&'static str, fn(&dyn Comm));

/// All of them.
pub const CHECKS: [Check; 39] = [
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
    (
        "stretches of a window are read and added to in one call",
        comm::window_stretches,
    ),
    (
        "many stretches of a window lose no addition",
        comm::many_stretches,
    ),
    (
        "every rank gets the parts that ranks have for it",
        comm::dealing,
    ),
    ("a counter gives every number once", comm::counters),
    (
        "sums by a tree have one order of additions",
        comm::tree_sums,
    ),
    ("stripes lose no addition and order them all", comm::stripes),
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
        "shards give the same bits on any number of ranks",
        agreement::shards_give_the_same_bits,
    ),
    (
        "shards of networks give the same bits on any number of ranks and threads",
        agreement::shards_of_networks_give_the_same_bits,
    ),
    (
        "gradients added up while others are computed are the same",
        agreement::overlapped_networks_are_in_step,
    ),
    (
        "one-sided without staleness is in step",
        agreement::no_staleness_is_in_step,
    ),
    (
        "no update is staler than the bound",
        agreement::staleness_is_bounded,
    ),
    (
        "averaging after every step is in step",
        agreement::averaging_every_step_is_in_step,
    ),
    (
        "elastic averaging draws ranks together as its formula says",
        agreement::elastic_averaging_draws_ranks_together,
    ),
    (
        "steps with backup go on without the slowest rank",
        agreement::backup_goes_on_without_the_slowest,
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
    (
        "sparse ranks in step equal the dense exchange",
        sparse::owners_equal_the_dense_exchange,
    ),
    (
        "sparse and reproducible: the same bits on any number of ranks",
        sparse::reproducible_on_any_number_of_ranks,
    ),
    (
        "sparse ranks in step send what their rows touch",
        sparse::bytes_grow_with_rows_alone,
    ),
    (
        "sparse ranks out of step take every row once and learn",
        sparse::free_ranks_learn,
    ),
    (
        "no sparse rank runs further ahead than the bound",
        sparse::bounded_ranks_stay_close,
    ),
    (
        "a sparse rank that was away goes on at the rate of the moment",
        sparse::who_was_away_goes_on_at_the_rate_of_the_moment,
    ),
];
