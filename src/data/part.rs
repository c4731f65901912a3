//! Samples of a batch that go through a model together.

use std::ops::Range;

use super::{Batch, Images, Scaling};

/// The pixels of some samples: (n, c, h, w).
#[derive(Clone, Copy, Debug)]
pub enum Values<'a> {
    /// Bytes as they are stored.
    Bytes(&'a [u8]),
    /// Scaled floats.
    Floats(&'a [f32]),
}

/// Some samples of a batch, or all of them.
#[derive(Clone, Copy, Debug)]
pub struct Part<'a> {
    /// Their pixels.
    pub images: Values<'a>,
    /// How bytes are to be scaled.
    pub scaling: &'a Scaling,
    /// Their labels.
    pub labels: &'a [u32],
    /// Which samples of the data set they are.
    pub samples: &'a [u64],
}

impl Part<'_> {
    /// Number of samples.
    pub fn len(&self) -> usize {
        self.labels.len()
    }

    /// Whether there is no sample.
    pub fn is_empty(&self) -> bool {
        self.labels.is_empty()
    }
}

impl Batch {
    /// All samples.
    pub fn all(&self) -> Part<'_> {
        self.part(0..self.len())
    }

    /// The samples at these places.
    pub fn part(&self, range: Range<usize>) -> Part<'_> {
        let pixels = |len: usize| {
            let each = len.checked_div(self.len()).unwrap_or(0);
            each * range.start..each * range.end
        };
        let images = match &self.images {
            Images::Bytes(values) => Values::Bytes(&values[pixels(values.len())]),
            Images::Floats(values) => Values::Floats(&values[pixels(values.len())]),
        };
        Part {
            images,
            scaling: &self.scaling,
            labels: &self.labels[range.clone()],
            samples: &self.samples()[range],
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_hold_the_pixels_labels_and_numbers_of_their_samples() {
        let (pixels, scaling) = (vec![1u8, 2, 3, 4, 5, 6], Scaling::unit(1));
        let batch = Batch::of(Images::Bytes(pixels), scaling.clone(), vec![7, 8, 9]);
        let part = batch.part(1..3);
        assert!(matches!(part.images, Values::Bytes([3, 4, 5, 6])));
        assert_eq!((part.labels, part.samples), (&[8, 9][..], &[1, 2][..]));
        assert!(batch.all().len() == 3 && batch.part(3..3).is_empty());
        let nothing = Batch::of(Images::Floats(Vec::new()), scaling, Vec::new());
        assert!(matches!(nothing.all().images, Values::Floats([])));
    }
}
