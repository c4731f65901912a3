//! The threads of a rank: each takes its block of the batch through a model of its own.

use std::ops::Range;
use std::sync::Mutex;

use rayon::{ThreadPool, ThreadPoolBuilder};

use super::{Draw, Model, Peers, Tally};
use crate::comm::{Comm, ThreadComm, block, threads_of_one_rank};
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
    /// The other threads, if there are any.
    others: Option<Others>,
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
    /// Its gradients; empty before the first step.
    grads: Vec<f32>,
    tally: Tally,
}

impl Crew {
    /// So many threads for `model`; one of them is the caller's.
    pub fn new(model: Model, threads: usize) -> Result<Self> {
        let others = (threads > 1).then(|| Others::new(&model, threads));
        Ok(Self {
            model,
            others: others.transpose()?,
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
        self.models(0).for_each(|(model, _)| model.choose(&choices));
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
        others.share(
            batch.len(),
            |range| model.evaluate(params, batch.part(range)),
            |helper, range| helper.model.evaluate(params, batch.part(range)),
        )
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
        let tally = others.share(
            batch.len(),
            |range| model.gradients(params, batch.part(range), draw, scale, peers, grads),
            |helper, range| {
                let part = batch.part(range);
                let peers = Peers {
                    team: None,
                    threads: Some(&helper.place),
                };
                // By the thread that will use it: near to its core.
                helper.grads.resize(params.len(), 0.0);
                (helper.model).gradients(params, part, draw, scale, peers, &mut helper.grads)
            },
        );
        others.add_up(grads);
        tally
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
                grads: Vec::new(),
                tally: Tally::default(),
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

    /// Has each thread compute on its block of `n` samples: the caller's by `own`, the others by `work`. Gives the sum
    /// of the tallies, in the order of the threads.
    fn share(
        &self,
        n: usize,
        own: impl FnOnce(Range<usize>) -> Tally,
        work: impl Fn(&mut Helper, Range<usize>) -> Tally + Sync,
    ) -> Tally {
        let first = self.pool.in_place_scope(|scope| {
            scope.spawn_broadcast(|_, thread| {
                let mut helper = self.helpers[thread.index()].lock().expect(UNPOISONED);
                let _alarm = helper.place.alarm();
                let range = block(n, self.size(), thread.index() + 1);
                helper.tally = work(&mut helper, range);
            });
            let _alarm = self.place.alarm();
            own(block(n, self.size(), 0))
        });
        let helpers = self.helpers.iter();
        let tallies = helpers.map(|helper| helper.lock().expect(UNPOISONED).tally);
        tallies.fold(first, Tally::plus)
    }

    /// Adds the other threads' gradients to `grads`, in the order of the threads; each thread adds up its slice.
    fn add_up(&mut self, grads: &mut [f32]) {
        let (size, len) = (self.size(), grads.len());
        let helpers = self.helpers.iter_mut();
        let arenas: Vec<&[f32]> = helpers
            .map(|helper| helper.get_mut().expect(UNPOISONED).grads.as_slice())
            .collect();
        if len < FEW {
            return add(&arenas, 0, grads);
        }
        let mut rest = grads;
        let slices: Vec<_> = (0..size)
            .map(|thread| {
                let range = block(len, size, thread);
                let slice = rest.split_off_mut(..range.len());
                Mutex::new((range.start, slice.expect("blocks tile the range")))
            })
            .collect();
        let work = |thread: usize| {
            let (start, slice) = &mut *slices[thread].lock().expect(UNPOISONED);
            add(&arenas, *start, slice);
        };
        self.pool.in_place_scope(|scope| {
            scope.spawn_broadcast(|_, thread| work(thread.index() + 1));
            work(0);
        });
    }
}

/// Adds what each of the `arenas` holds from `start` on.
fn add(arenas: &[&[f32]], start: usize, sums: &mut [f32]) {
    for (i, sums) in sums.chunks_mut(CHUNK).enumerate() {
        for arena in arenas {
            let values = &arena[start + i * CHUNK..];
            let pairs = sums.iter_mut().zip(values);
            pairs.for_each(|(sum, value)| *sum += value);
        }
    }
}
