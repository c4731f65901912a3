//! Batches on their way to a device: by way of pinned memory, on a stream of their own, into two places in turn, so that one is
//! filled while the other is computed with.

use crate::Result;
use crate::backend::cuda::{Buffer, Device, Element, Event, Pinned, Stream, View, ViewMut, scale};
use crate::data::{Part, Scaling, Shape, Values};

/// Where batches arrive.
pub(super) struct Intake {
    /// Copies to the device run here.
    copies: Stream,
    places: [Place; 2],
    /// The place that is filled next.
    next: usize,
    shape: Shape,
    /// How many samples each place has room for.
    most: usize,
    /// Bytes as floats.
    entry: Buffer<f32>,
    /// What they are scaled by, channel by channel.
    factors: Buffer<f32>,
    shifts: Buffer<f32>,
    scaling: Option<Scaling>,
}

/// One place for a batch.
struct Place {
    pixels: Lane<u8>,
    floats: Lane<f32>,
    labels: Lane<u32>,
    samples: Lane<u64>,
    n: usize,
    /// Whether pixels came as bytes.
    bytes: bool,
    /// Whose batch it is, if it was taken in ahead.
    step: Option<u64>,
    /// All copies are there.
    arrived: Event,
    /// Nobody reads what is there any more.
    left: Event,
}

/// A buffer of the device and the host's memory that fills it; empty until it is needed.
struct Lane<T: Element> {
    host: Option<Pinned<T>>,
    device: Option<Buffer<T>>,
}

impl<T: Element> Lane<T> {
    fn new() -> Self {
        Self {
            host: None,
            device: None,
        }
    }

    /// Has `values` copied, of at most `most`.
    fn send(&mut self, stream: &Stream, values: &[T], most: usize) -> Result<()> {
        let device = stream.device();
        if self.host.is_none() {
            self.host = Some(Pinned::new(device, most)?);
            self.device = Some(Buffer::new(device, most)?);
        }
        let (Some(host), Some(place)) = (&mut self.host, &mut self.device) else {
            unreachable!("just made")
        };
        if values.is_empty() {
            return Ok(());
        }
        host.values_mut()?[..values.len()].copy_from_slice(values);
        stream.send(host, 0..values.len(), place.part_mut(0..values.len()))
    }

    fn view(&self, len: usize) -> View<'_, T> {
        let place = self.device.as_ref().expect("something was sent");
        place.part(0..len)
    }
}

/// A batch on the device.
#[derive(Clone, Copy)]
pub(super) struct Arrived<'a> {
    pub(super) n: usize,
    /// Its images as floats.
    pub(super) images: View<'a, f32>,
    pub(super) labels: View<'a, u32>,
    pub(super) samples: View<'a, u64>,
    left: &'a Event,
}

impl Arrived<'_> {
    /// Everything that reads it has been launched.
    pub(super) fn leave(&self, stream: &Stream) -> Result<()> {
        stream.record(self.left)
    }
}

impl Intake {
    /// For up to `most` samples of this shape.
    pub(super) fn new(device: &Device, shape: Shape, most: usize) -> Result<Self> {
        Ok(Self {
            copies: Stream::new(device)?,
            places: [Place::new(device)?, Place::new(device)?],
            next: 0,
            shape,
            most,
            entry: Buffer::new(device, most * shape.len())?,
            factors: Buffer::new(device, shape.c)?,
            shifts: Buffer::new(device, shape.c)?,
            scaling: None,
        })
    }

    /// Bytes that it takes on the device for up to `n` samples.
    pub(super) fn bytes(shape: Shape, n: usize, bytes: bool) -> usize {
        let pixel = if bytes { 1 } else { 4 };
        let label_and_number = 4 + 8;
        let scaling = 2 * 4 * shape.c;
        n * (4 * shape.len() + 2 * (pixel * shape.len() + label_and_number)) + scaling
    }

    /// Has a batch copied, for `step` if that is to be found again.
    pub(super) fn take(&mut self, part: Part, step: Option<u64>) -> Result<()> {
        assert!(part.len() <= self.most, "no more samples than were planned");
        if self.scaling.as_ref() != Some(part.scaling) {
            let (factors, shifts) = part.scaling.channels();
            let of_bytes: Vec<f32> = factors.iter().map(|factor| factor / 255.0).collect();
            self.copies.device().wait()?;
            self.copies.upload(&of_bytes, self.factors.view_mut())?;
            self.copies.upload(&shifts, self.shifts.view_mut())?;
            self.scaling = Some(part.scaling.clone());
        }
        let (copies, most) = (&self.copies, self.most);
        let place = &mut self.places[self.next];
        copies.wait_for(&place.left)?;
        (place.n, place.step) = (part.len(), step);
        match part.images {
            Values::Bytes(pixels) => {
                place.bytes = true;
                (place.pixels).send(copies, pixels, most * self.shape.len())?;
            }
            Values::Floats(values) => {
                place.bytes = false;
                (place.floats).send(copies, values, most * self.shape.len())?;
            }
        }
        place.labels.send(copies, part.labels, most)?;
        place.samples.send(copies, part.samples, most)?;
        copies.record(&place.arrived)?;
        self.next = 1 - self.next;
        Ok(())
    }

    /// Whether the batch that was taken in last is that of `step`.
    pub(super) fn has(&self, step: u64) -> bool {
        self.places[1 - self.next].step == Some(step)
    }

    /// The batch that was taken in last, scaled: there once `stream` has come to here.
    pub(super) fn open(&mut self, stream: &Stream) -> Result<Arrived<'_>> {
        let place = &mut self.places[1 - self.next];
        place.step = None;
        stream.wait_for(&place.arrived)?;
        let (n, len) = (place.n, place.n * self.shape.len());
        let images = match place.bytes {
            false => place.floats.view(len),
            true => {
                let out: ViewMut<f32> = self.entry.part_mut(0..len);
                let scaling = self.scaling.as_ref().expect("a batch came");
                let pixels = place.pixels.view(len);
                match scaling.uniform() {
                    Some((factor, shift)) => scale::bytes(stream, pixels, factor, shift, out)?,
                    None => {
                        let (plane, by) = (self.shape.h * self.shape.w, &self.factors);
                        scale::channels(stream, plane, pixels, by.view(), self.shifts.view(), out)?;
                    }
                }
                self.entry.part(0..len)
            }
        };
        Ok(Arrived {
            n,
            images,
            labels: place.labels.view(n),
            samples: place.samples.view(n),
            left: &place.left,
        })
    }

    /// The floats that arrived at a place, which may be anything; none if bytes did.
    pub(super) fn floats(&self, place: usize) -> Option<View<'_, f32>> {
        let place = &self.places[place];
        (!place.bytes).then(|| place.floats.view(place.n * self.shape.len()))
    }

    /// Which place the batch that was taken in last is at.
    pub(super) fn place(&self) -> usize {
        1 - self.next
    }
}

impl Place {
    fn new(device: &Device) -> Result<Self> {
        Ok(Self {
            pixels: Lane::new(),
            floats: Lane::new(),
            labels: Lane::new(),
            samples: Lane::new(),
            n: 0,
            bytes: false,
            step: None,
            arrived: Event::new(device)?,
            left: Event::new(device)?,
        })
    }
}
