//! From places in the order to batches in memory, ahead of training where that helps.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;
use std::time::Instant;

use super::augment::Augmenter;
use super::sampler::{Order, Shuffle};
use super::{Augment, Dataset, Place, Scaling};
use crate::{Error, Result};

/// Below this rate a mapped batch came from the disk and not from memory, so the next one is asked for ahead.
const DISK_BYTES_PER_S: f64 = 5e8;

/// Samples whose bytes are on their way to the cache while one is converted: they lie anywhere in memory.
const AHEAD: usize = 6;

/// The pixels of a batch: (n, c, h, w).
#[derive(Clone, Debug)]
pub enum Images {
    /// Bytes as they are stored; the model's first layer scales them.
    Bytes(Vec<u8>),
    /// Scaled floats.
    Floats(Vec<f32>),
}

/// Samples ready for a model.
#[derive(Clone, Debug)]
pub struct Batch {
    /// Their pixels.
    pub images: Images,
    /// How bytes are to be scaled.
    pub scaling: Scaling,
    /// Their labels.
    pub labels: Vec<u32>,
    /// Which samples of the data set they are.
    indices: Vec<u64>,
}

impl Batch {
    /// An empty batch for samples of `data`.
    pub fn new(data: &Dataset, scaling: &Scaling) -> Self {
        let images = match data.element() {
            "u8" => Images::Bytes(Vec::new()),
            _ => Images::Floats(Vec::new()),
        };
        Self {
            images,
            scaling: scaling.clone(),
            labels: Vec::new(),
            indices: Vec::new(),
        }
    }

    /// Given samples, numbered from 0.
    pub fn of(images: Images, scaling: Scaling, labels: Vec<u32>) -> Self {
        let indices = (0..labels.len() as u64).collect();
        Self {
            images,
            scaling,
            labels,
            indices,
        }
    }

    /// Number of samples.
    pub fn len(&self) -> usize {
        self.labels.len()
    }

    /// Whether there is no sample.
    pub fn is_empty(&self) -> bool {
        self.labels.is_empty()
    }

    /// Which samples of the data set they are.
    pub fn samples(&self) -> &[u64] {
        &self.indices
    }

    /// Fills the batch with the samples of `data` that `indices` name.
    pub fn gather(&mut self, data: &Dataset, indices: impl Iterator<Item = usize>) -> Result<()> {
        self.fill(data, indices, None)
    }

    /// Fills the batch, with images as they are or as an epoch's draws change them.
    fn fill(
        &mut self,
        data: &Dataset,
        indices: impl Iterator<Item = usize>,
        mut changes: Option<(u64, &mut Augmenter)>,
    ) -> Result<()> {
        let each = data.shape.len();
        self.indices.clear();
        self.indices.extend(indices.map(|index| index as u64));
        let (indices, n) = (&self.indices, self.indices.len());
        let prefetch = prefetcher(data, indices);
        match &mut self.images {
            Images::Bytes(pixels) => {
                pixels.resize(n * each, 0);
                let threads = match data.is_encoded() {
                    true => data.decoders().min(n).max(1),
                    false => 1,
                };
                bytes(data, indices, pixels, changes, threads)?;
            }
            Images::Floats(values) => {
                values.resize(n * each, 0.0);
                for (i, image) in values.chunks_exact_mut(each).enumerate() {
                    prefetch(i);
                    match &mut changes {
                        None => data.sample(indices[i] as usize, &self.scaling, image)?,
                        Some((epoch, augmenter)) => {
                            augmenter.floats(*epoch, (data, indices[i]), &self.scaling, image)?
                        }
                    };
                }
            }
        }
        self.labels.clear();
        self.labels
            .extend(indices.iter().map(|&index| data.labels()[index as usize]));
        Ok(())
    }
}

/// Asks for the first samples, and then for one further on each time a sample is taken.
fn prefetcher(data: &Dataset, indices: &[u64]) -> impl Fn(usize) {
    let ask = move |&index: &u64| data.prefetch(index as usize);
    indices.iter().take(AHEAD).for_each(ask);
    move |i| indices.get(i + AHEAD).into_iter().for_each(ask)
}

/// Fills `pixels` with the samples of `data` that `indices` name, by so many threads; what comes out does not depend on them.
fn bytes(
    data: &Dataset,
    indices: &[u64],
    pixels: &mut [u8],
    mut changes: Option<(u64, &mut Augmenter)>,
    threads: usize,
) -> Result<()> {
    if threads > 1 {
        let half = threads / 2 * indices.len() / threads;
        let (first, second) = pixels.split_at_mut(half * data.shape.len());
        let mut other = changes.as_ref().map(|(epoch, a)| (*epoch, (**a).clone()));
        let others = other.as_mut().map(|(epoch, augmenter)| (*epoch, augmenter));
        return thread::scope(|scope| {
            let far = &indices[half..];
            let far = scope.spawn(move || bytes(data, far, second, others, threads - threads / 2));
            let near = bytes(data, &indices[..half], first, changes, threads / 2);
            let far = far.join().expect("a decoder does not panic");
            near.and(far)
        });
    }
    let prefetch = prefetcher(data, indices);
    for (i, image) in pixels.chunks_exact_mut(data.shape.len()).enumerate() {
        prefetch(i);
        data.with_bytes(indices[i] as usize, |bytes| {
            match &mut changes {
                None => image.copy_from_slice(bytes),
                Some((epoch, augmenter)) => {
                    augmenter.bytes(*epoch, indices[i], bytes, image);
                }
            }
            Ok(())
        })?;
    }
    Ok(())
}

/// Delivers the batches that were requested, in that order.
///
/// Mapped data is gathered when it is asked for, straight into the batch: no thread, no second copy. Data that must
/// be read through HDF5 is read by a thread while the batch before is in use, and photos are decoded by a few.
pub struct Loader {
    reader: Reader,
    wanted: VecDeque<Place>,
    batch: Batch,
    helper: Option<Helper>,
}

struct Helper {
    requests: Sender<(Place, Batch)>,
    batches: Receiver<Result<Batch>>,
    spare: Vec<Batch>,
}

impl Loader {
    /// Batches of `data`, shuffled by `seed`.
    pub fn new(data: Arc<Dataset>, scaling: Scaling, seed: u64) -> Self {
        Self::augmented(data, scaling, seed, &Augment::default())
    }

    /// The same with images changed as `augment` says, which must fit their shape; also drawn by `seed`.
    pub fn augmented(data: Arc<Dataset>, scaling: Scaling, seed: u64, augment: &Augment) -> Self {
        Self::shuffled(data, scaling, seed, augment, Shuffle::Samples)
    }

    /// The same with the samples in another kind of order.
    pub fn shuffled(
        data: Arc<Dataset>,
        scaling: Scaling,
        seed: u64,
        augment: &Augment,
        shuffle: Shuffle,
    ) -> Self {
        let batch = Batch::new(&data, &scaling);
        let is_read_ahead = data.is_read_ahead();
        let reader = Reader::new(data, seed, augment, shuffle);
        let helper = is_read_ahead.then(|| Helper::start(reader.clone()));
        Self {
            reader,
            wanted: VecDeque::new(),
            batch,
            helper,
        }
    }

    /// Announces a batch that `take` will deliver; at most one more than was delivered.
    pub fn request(&mut self, place: Place) {
        match &mut self.helper {
            None => self.wanted.push_back(place),
            Some(helper) => {
                let batch = helper.spare.pop().unwrap_or_else(|| self.batch.clone());
                // A helper that is gone has left its error in `batches`.
                let _ = helper.requests.send((place, batch));
            }
        }
    }

    /// The oldest batch requested and not yet delivered.
    pub fn take(&mut self) -> Result<&Batch> {
        match &mut self.helper {
            None => {
                let place = self.wanted.pop_front().expect("a batch was requested");
                self.reader.load(&place, &mut self.batch)?;
                if let Some(next) = self.wanted.front().filter(|_| self.reader.slow) {
                    self.reader.hint(next);
                }
            }
            Some(helper) => {
                let batch = helper.batches.recv().map_err(|_| {
                    Error::Usage("the loader's thread ended before its work".into())
                })??;
                helper.spare.push(std::mem::replace(&mut self.batch, batch));
            }
        }
        Ok(&self.batch)
    }

    /// The batch that was delivered last.
    pub fn batch(&self) -> &Batch {
        &self.batch
    }
}

impl Helper {
    fn start(mut reader: Reader) -> Self {
        let (requests, inbox) = channel::<(Place, Batch)>();
        let (outbox, batches) = channel();
        // Ends when the loader is dropped and `requests` with it.
        thread::spawn(move || {
            for (place, mut batch) in inbox {
                let loaded = reader.load(&place, &mut batch).map(|()| batch);
                if outbox.send(loaded).is_err() {
                    return;
                }
            }
        });
        Self {
            requests,
            batches,
            spare: Vec::new(),
        }
    }
}

/// Turns places into samples.
#[derive(Clone)]
struct Reader {
    data: Arc<Dataset>,
    seed: u64,
    shuffle: Shuffle,
    /// Where the shards begin.
    starts: Vec<usize>,
    order: Option<(u64, Order)>,
    augmenter: Option<Augmenter>,
    /// Whether the last batch came at the speed of a disk.
    slow: bool,
    /// The stretch of samples, of an epoch, behind which the next one was asked for.
    asked: Option<(u64, usize)>,
}

impl Reader {
    fn new(data: Arc<Dataset>, seed: u64, augment: &Augment, shuffle: Shuffle) -> Self {
        let augmenter =
            (!augment.is_none()).then(|| Augmenter::new(augment.clone(), seed, data.shape));
        Self {
            starts: data.shard_starts(),
            data,
            seed,
            shuffle,
            order: None,
            augmenter,
            slow: false,
            asked: None,
        }
    }

    fn order(&mut self, epoch: u64) -> Order {
        if let Some((_, order)) = self.order.as_ref().filter(|(known, _)| *known == epoch) {
            return order.clone();
        }
        let set = (self.data.len(), &self.starts[..]);
        let order = Order::new(self.shuffle, set, self.seed, epoch);
        self.order = Some((epoch, order.clone()));
        order
    }

    fn load(&mut self, place: &Place, batch: &mut Batch) -> Result<()> {
        let start = Instant::now();
        let order = self.order(place.epoch);
        self.ask_ahead(place, &order);
        let indices = place.positions.clone().map(|k| order.at(k));
        let changes = self.augmenter.as_mut();
        batch.fill(
            &self.data,
            indices,
            changes.map(|changes| (place.epoch, changes)),
        )?;
        let bytes = (batch.len() * self.data.shape.len()) as f64;
        self.slow = bytes < DISK_BYTES_PER_S * start.elapsed().as_secs_f64();
        Ok(())
    }

    /// Asks for the next stretch of shards as a whole when the first sample of one is taken: what lies beside each other comes
    /// from a disk in large pieces.
    fn ask_ahead(&mut self, place: &Place, order: &Order) {
        let Order::Shards(order) = order else {
            return;
        };
        let stretch = (place.epoch, order.number(place.positions.start));
        if self.asked != Some(stretch) {
            self.asked = Some(stretch);
            let next = order.next(place.positions.start);
            (next.iter()).for_each(|&(first, last)| self.data.hint_all(first, last));
        }
    }

    fn hint(&mut self, place: &Place) {
        let order = self.order(place.epoch);
        place
            .positions
            .clone()
            .for_each(|k| self.data.hint(order.at(k)));
    }
}
