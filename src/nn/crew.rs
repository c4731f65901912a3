//! The threads of a rank: each takes its block of the batch through a model of its own.

use std::ops::Range;
use std::slice::ChunksExact;
use std::sync::Mutex;

use rayon::{ThreadPool, ThreadPoolBuilder};

use super::shards::{ShardSums, Share, Tree};
use super::{Draw, Found, Model, Peers, Tally};
use crate::comm::{Comm, ThreadComm, block, plus, threads_of_one_rank, tree_middle};
use crate::data::Batch;
use crate::{Error, Result};

/// Why a lock is never poisoned.
const UNPOISONED: &str = "a thread that panics takes the others with it";

/// Parameters below which one thread adds up faster than it can wake the others.
const FEW: usize = 1 << 16;

/// Gradients that are added up before the next ones are looked at: sums stay in the cache.
const CHUNK: usize = 1 << 12;

/// A model for each thread of a rank, all of the same kind and with the same state.
///
/// What it computes depends on the number of threads only by rounding, and not on which thread is faster.
pub struct Crew {
    /// Of the thread that calls.
    model: Model,
    /// Where it adds up shards.
    tree: Tree,
    /// The other threads, if there are any.
    others: Option<Others>,
    /// What the last step came to, until somebody asks.
    pub(super) found: Found,
}

struct Others {
    pool: ThreadPool,
    /// The calling thread among all.
    place: ThreadComm,
    helpers: Vec<Mutex<Helper>>,
}

/// What one of the other threads works with.
struct Helper {
    place: ThreadComm,
    model: Model,
    tree: Tree,
    /// Its gradients; empty before the first step.
    grads: Vec<f32>,
    sums: ShardSums,
}

impl Crew {
    /// So many threads for `model`; one of them is the caller's.
    pub fn new(model: Model, threads: usize) -> Result<Self> {
        let others = (threads > 1).then(|| Others::new(&model, threads));
        Ok(Self {
            model,
            tree: Tree::default(),
            others: others.transpose()?,
            found: Found::default(),
        })
    }

    /// How many threads.
    pub fn threads(&self) -> usize {
        self.others.as_ref().map_or(1, |others| others.size())
    }

    /// The model of the first.
    pub fn model(&self) -> &Model {
        &self.model
    }

    /// The models and the blocks of `n` samples that they take, in the order of the threads.
    pub(super) fn models(&mut self, n: usize) -> impl Iterator<Item = (&mut Model, Range<usize>)> {
        let size = self.threads();
        let others = self
            .others
            .iter_mut()
            .flat_map(|others| &mut others.helpers);
        let others = others.map(|helper| &mut helper.get_mut().expect(UNPOISONED).model);
        let all = std::iter::once(&mut self.model).chain(others).enumerate();
        all.map(move |(thread, model)| (model, block(n, size, thread)))
    }

    /// Measures which method is fastest for each convolution, with batches of `n` samples. `agree` replaces a rank's
    /// choices, in numbers, by those of all.
    pub fn tune(&mut self, n: usize, agree: impl FnOnce(&mut [u64])) {
        let mut choices = self.model.tune(n.div_ceil(self.threads()));
        agree(&mut choices);
        self.choose(&choices);
    }

    /// Takes the methods that a measurement has found.
    pub fn choose(&mut self, choices: &[u64]) {
        self.models(0).for_each(|(model, _)| model.choose(choices));
    }

    /// Starts to add up the time of each layer of the first thread's model.
    pub fn watch(&mut self) {
        self.model.watch();
    }

    /// Replaces the state by one that a model of this kind gave.
    pub fn set_state(&mut self, values: &[f32]) {
        self.models(0)
            .for_each(|(model, _)| model.set_state(values));
    }

    /// Losses and right answers over `batch`.
    pub fn evaluate(&mut self, params: &[f32], batch: &Batch) -> Tally {
        let model = &mut self.model;
        let Some(others) = &self.others else {
            return model.evaluate(params, batch.all());
        };
        let (n, size) = (batch.len(), others.size());
        let part = |thread| batch.part(block(n, size, thread));
        let own = others.share(
            || model.evaluate(params, part(0)),
            |helper, thread| helper.sums.tally = helper.model.evaluate(params, part(thread)),
        );
        others
            .sums()
            .fold(own, |sum, theirs| sum.plus(theirs.tally))
    }

    /// As `gradients`, of one thread and without talking to other ranks; hands over the gradients of each layer as soon as
    /// they are there.
    pub fn gradients_by_layer<'a>(
        &mut self,
        params: &[f32],
        batch: &Batch,
        how: (Draw, f32),
        grads: &'a mut [f32],
        ready: &mut dyn FnMut(&'a mut [f32]),
    ) -> Tally {
        assert!(self.others.is_none(), "one thread");
        let alone = Peers::default();
        (self.model).gradients_by_layer(params, batch.all(), how, alone, grads, ready)
    }

    /// As `gradients`, in shards, which the number of threads must divide; what the sums are does not depend on that number.
    pub fn sharded_gradients(
        &mut self,
        params: &[f32],
        work: &Share,
        grads: &mut [f32],
    ) -> ShardSums {
        let shards = work.cuts.len() - 1;
        let (model, tree) = (&mut self.model, &mut self.tree);
        let Some(others) = &mut self.others else {
            return tree.add_up((model, params), work, 0..shards, grads);
        };
        let each = shards / others.size();
        let of = |thread: usize| thread * each..(thread + 1) * each;
        let own = others.share(
            || tree.add_up((model, params), work, of(0), grads),
            |helper, thread| {
                helper.grads.resize(params.len(), 0.0);
                let Helper {
                    tree, model, grads, ..
                } = helper;
                helper.sums = tree.add_up((model, params), work, of(thread), grads);
            },
        );
        others.add_up(grads);
        let all: Vec<ShardSums> = [own].into_iter().chain(others.sums()).collect();
        fold(&all)
    }

    /// The states that shards have left the model in, in the order of shards; none where there are no shards.
    pub fn shard_states(&mut self) -> Vec<&mut Vec<f32>> {
        let others = (self.others.iter_mut()).flat_map(|others| &mut others.helpers);
        let others = others.map(|helper| &mut helper.get_mut().expect(UNPOISONED).tree);
        let trees = std::iter::once(&mut self.tree).chain(others);
        trees.flat_map(|tree| &mut tree.states).collect()
    }

    /// Replaces these states, of which every thread has as many.
    pub fn set_shard_states(&mut self, mut states: ChunksExact<f32>) {
        let each = states.len() / self.threads();
        let others = (self.others.iter_mut()).flat_map(|others| &mut others.helpers);
        let others = others.map(|helper| &mut helper.get_mut().expect(UNPOISONED).tree);
        for tree in std::iter::once(&mut self.tree).chain(others) {
            tree.states = states.by_ref().take(each).map(<[f32]>::to_vec).collect();
        }
    }

    /// The losses of a training step, and sets `grads` to the gradient of `scale` times their sum.
    ///
    /// Layers that normalise by the batch of all ranks add up over `team`: then it is *collective* over that.
    pub fn gradients(
        &mut self,
        params: &[f32],
        batch: &Batch,
        draw: Draw,
        scale: f32,
        team: &dyn Comm,
        grads: &mut [f32],
    ) -> Tally {
        let (model, team) = (&mut self.model, Some(team));
        let Some(others) = &mut self.others else {
            let peers = Peers {
                team,
                threads: None,
            };
            return model.gradients(params, batch.all(), draw, scale, peers, grads);
        };
        let peers = Peers {
            team,
            threads: Some(&others.place),
        };
        let (n, size) = (batch.len(), others.size());
        let part = |thread| batch.part(block(n, size, thread));
        let own = others.share(
            || model.gradients(params, part(0), draw, scale, peers, grads),
            |helper, thread| {
                let peers = Peers {
                    team: None,
                    threads: Some(&helper.place),
                };
                // By the thread that will use it: near to its core.
                helper.grads.resize(params.len(), 0.0);
                let (part, grads) = (part(thread), &mut helper.grads);
                helper.sums.tally =
                    (helper.model).gradients(params, part, draw, scale, peers, grads);
            },
        );
        others.add_up(grads);
        others
            .sums()
            .fold(own, |sum, theirs| sum.plus(theirs.tally))
    }
}

impl Others {
    fn new(model: &Model, threads: usize) -> Result<Self> {
        let pool = ThreadPoolBuilder::new()
            .num_threads(threads - 1)
            .thread_name(|i| format!("phalanx {}", i + 1))
            .build()
            .map_err(|error| Error::Usage(format!("--threads {threads}: {error}")))?;
        let mut places = threads_of_one_rank(threads).into_iter();
        let place = places.next().expect("two threads or more");
        let helper = |place| {
            let mut twin = model.spec.build(model.input, model.classes as u32)?;
            twin.set_state(&model.state());
            Ok(Mutex::new(Helper {
                place,
                model: twin,
                tree: Tree::default(),
                grads: Vec::new(),
                sums: ShardSums::default(),
            }))
        };
        let helpers = places.map(helper).collect::<Result<_>>()?;
        Ok(Self {
            pool,
            place,
            helpers,
        })
    }

    /// All threads, the caller's among them.
    fn size(&self) -> usize {
        self.helpers.len() + 1
    }

    /// What the other threads' last work added up to, in their order.
    fn sums(&self) -> impl Iterator<Item = ShardSums> {
        let helpers = self.helpers.iter();
        helpers.map(|helper| helper.lock().expect(UNPOISONED).sums)
    }

    /// Has every thread compute: the caller's does `own`, the others, by their numbers, `work`.
    fn share<T>(&self, own: impl FnOnce() -> T, work: impl Fn(&mut Helper, usize) + Sync) -> T {
        self.pool.in_place_scope(|scope| {
            scope.spawn_broadcast(|_, thread| {
                let mut helper = self.helpers[thread.index()].lock().expect(UNPOISONED);
                let _alarm = helper.place.alarm();
                work(&mut helper, thread.index() + 1);
            });
            let _alarm = self.place.alarm();
            own()
        })
    }

    /// Adds the other threads' gradients to `grads`, by the tree over threads; each thread adds up its slice.
    fn add_up(&mut self, grads: &mut [f32]) {
        let (size, len) = (self.size(), grads.len());
        let helpers = self.helpers.iter_mut();
        let helpers = helpers.map(|helper| &mut helper.get_mut().expect(UNPOISONED).grads[..]);
        let mut arenas: Vec<&mut [f32]> = [grads].into_iter().chain(helpers).collect();
        if len < FEW {
            return add(&mut arenas);
        }
        let slices: Vec<_> = (0..size)
            .map(|thread| {
                let own = block(len, size, thread).len();
                let slices = arenas.iter_mut().map(|arena| {
                    let slice = arena.split_off_mut(..own);
                    slice.expect("blocks tile the range")
                });
                Mutex::new(slices.collect::<Vec<_>>())
            })
            .collect();
        let work = |thread: usize| add(&mut slices[thread].lock().expect(UNPOISONED));
        self.pool.in_place_scope(|scope| {
            scope.spawn_broadcast(|_, thread| work(thread.index() + 1));
            work(0);
        });
    }
}

/// Adds all to the first by the tree over them, chunk by chunk.
fn add(arenas: &mut [&mut [f32]]) {
    let len = arenas[0].len();
    for start in (0..len).step_by(CHUNK) {
        add_chunk(arenas, &(start..len.min(start + CHUNK)));
    }
}

fn add_chunk(arenas: &mut [&mut [f32]], chunk: &Range<usize>) {
    if arenas.len() == 1 {
        return;
    }
    let (low, high) = arenas.split_at_mut(tree_middle(&(0..arenas.len())));
    add_chunk(low, chunk);
    add_chunk(high, chunk);
    plus(&mut low[0][chunk.clone()], &high[0][chunk.clone()]);
}

/// The sum by the tree.
fn fold(sums: &[ShardSums]) -> ShardSums {
    match sums {
        [one] => *one,
        _ => {
            let (low, high) = sums.split_at(tree_middle(&(0..sums.len())));
            fold(low).plus(fold(high))
        }
    }
}
