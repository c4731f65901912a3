//! What a device says of a step: a few numbers, in one copy.

use crate::Result;
use crate::backend::cuda::{Buffer, Pinned, Stream, View, ViewMut, reduce, softmax};
use crate::nn::Tally;

/// Where the device adds up losses, looks at gradients, and how that reaches the host.
pub(super) struct Report {
    /// Loss, right answers, the sum of squares of gradients.
    numbers: Buffer<f64>,
    /// Whether all gradients are finite.
    flag: Buffer<u32>,
    scratch: Buffer<f64>,
    numbers_here: Pinned<f64>,
    flag_here: Pinned<u32>,
    /// Which of them were sent.
    sent: (bool, bool),
}

/// The numbers, as they arrived.
pub(super) struct Read {
    pub(super) tally: Tally,
    pub(super) squares: f64,
    pub(super) finite: bool,
}

impl Report {
    /// Of batches of up to `most` samples.
    pub(super) fn new(stream: &Stream, most: usize) -> Result<Self> {
        let device = stream.device();
        Ok(Self {
            numbers: stream.zeros(3)?,
            flag: stream.zeros(1)?,
            scratch: Buffer::new(device, scratch(most))?,
            numbers_here: Pinned::new(device, 3)?,
            flag_here: Pinned::new(device, 1)?,
            sent: (false, false),
        })
    }

    /// Bytes that it takes.
    pub(super) fn bytes(most: usize) -> usize {
        8 * (scratch(most) + 3) + 4
    }

    /// Begins at zero.
    pub(super) fn clear(&mut self, stream: &Stream) -> Result<()> {
        stream.clear(self.numbers.view_mut())
    }

    /// Turns logits into slopes, and adds their losses up.
    pub(super) fn losses(
        &mut self,
        stream: &Stream,
        z: ViewMut<f32>,
        labels: View<u32>,
        scale: f32,
    ) -> Result<()> {
        let tally = self.numbers.part_mut(0..2);
        let scratch = self.scratch.view_mut();
        softmax::cross_entropy(stream, z, labels, scale, tally, scratch)
    }

    /// Looks at gradients, if there are any, and sends the numbers to the host.
    pub(super) fn send(
        &mut self,
        stream: &Stream,
        grads: Option<View<f32>>,
        squares: bool,
    ) -> Result<()> {
        self.sent = (grads.is_some(), squares);
        if let Some(grads) = grads {
            reduce::finite(stream, grads, self.flag.view_mut())?;
            stream.receive(self.flag.view(), &mut self.flag_here, 0..1)?;
            if squares {
                let (out, scratch) = (self.numbers.part_mut(2..3), self.scratch.view_mut());
                reduce::squares(stream, grads, out, scratch)?;
            }
        }
        stream.receive(self.numbers.view(), &mut self.numbers_here, 0..3)
    }

    /// The numbers of `count` samples, once they are there.
    pub(super) fn read(&self, count: usize) -> Result<Read> {
        let finite = !self.sent.0 || reduce::is_finite(self.flag_here.values()?[0]);
        let numbers = self.numbers_here.values()?;
        Ok(Read {
            tally: Tally {
                loss: numbers[0],
                correct: numbers[1] as u64,
                count: count as u64,
            },
            squares: if self.sent.1 { numbers[2] } else { 0.0 },
            finite,
        })
    }
}

fn scratch(most: usize) -> usize {
    softmax::scratch(most).max(reduce::SCRATCH)
}
