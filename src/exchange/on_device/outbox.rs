//! Gradients on their way from a device to other ranks and back, in buckets of pinned memory.

use std::ops::Range;

use crate::Result;
use crate::backend::cuda::{Device, Event, Pinned, Stream, View, ViewMut};
use crate::comm::{BUCKET, Comm};
use crate::nn::Outlet;

/// Copies each bucket to the host as soon as its gradients are there, on a stream of its own.
pub(super) struct Outbox {
    copies: Stream,
    buckets: Vec<Bucket>,
    /// Buckets, the last ones, whose copies have begun.
    begun: usize,
    /// All copies back have been made.
    back: Event,
}

struct Bucket {
    range: Range<usize>,
    values: Pinned<f32>,
    /// Its gradients are there.
    ready: Event,
}

impl Outbox {
    /// For so many gradients.
    pub(super) fn new(device: &Device, len: usize) -> Result<Self> {
        let bucket = |start: usize| {
            let range = start..len.min(start + BUCKET);
            Ok(Bucket {
                values: Pinned::new(device, range.len())?,
                range,
                ready: Event::new(device)?,
            })
        };
        let buckets = (0..len).step_by(BUCKET).map(bucket);
        Ok(Self {
            copies: Stream::new(device)?,
            buckets: buckets.collect::<Result<_>>()?,
            begun: 0,
            back: Event::new(device)?,
        })
    }

    /// Adds up over all ranks: `grads` hold the sums once `stream` has come to here; *collective*.
    pub(super) fn add_up(
        &mut self,
        comm: &dyn Comm,
        stream: &Stream,
        mut grads: ViewMut<f32>,
    ) -> Result<()> {
        self.ready(stream, grads.shared(), 0)?;
        self.begun = 0;
        for bucket in self.buckets.iter_mut().rev() {
            comm.sum(bucket.values.values_mut()?);
            let place = grads.again().part(bucket.range.clone());
            (self.copies).send(&bucket.values, 0..bucket.range.len(), place)?;
        }
        self.copies.record(&self.back)?;
        stream.wait_for(&self.back)
    }
}

impl Outlet for Outbox {
    fn ready(&mut self, stream: &Stream, grads: View<f32>, start: usize) -> Result<()> {
        let left = self.buckets.len() - self.begun;
        let whole = self.buckets[..left].iter_mut().rev();
        for bucket in whole.take_while(|bucket| bucket.range.start >= start) {
            stream.record(&bucket.ready)?;
            self.copies.wait_for(&bucket.ready)?;
            let (from, len) = (grads.part(bucket.range.clone()), bucket.range.len());
            self.copies.receive(from, &mut bucket.values, 0..len)?;
            self.begun += 1;
        }
        Ok(())
    }
}
