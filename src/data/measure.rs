//! Mean and deviation of photos in their own files, which no file tells.

use std::ops::Range;
use std::thread;

use super::Dataset;
use super::photos::{add_moments, figures, moments};
use crate::comm::{Comm, agree, block};
use crate::observe::Progress;
use crate::{Result, interrupt};

impl Dataset {
    /// Finds mean and deviation of each channel of photos in their own files, with the bits that they have where the photos are
    /// packed; *collective*.
    pub fn measure(&mut self, comm: &dyn Comm) -> Result<()> {
        if !self.is_folder() || !self.mean.is_empty() {
            return Ok(());
        }
        let mut sums = agree(
            comm,
            self.sums(
                block(self.len(), comm.size(), comm.rank()),
                comm.rank() == 0,
            ),
        )?;
        comm.sum(&mut sums[..]);
        let count = self.len() as u128 * (self.shape.h * self.shape.w) as u128;
        let figures = |sums: &[u64]| figures([sums[0].into(), sums[1].into()], count);
        (self.mean, self.std) = sums.chunks_exact(2).map(figures).unzip();
        Ok(())
    }

    /// Of each channel of some samples, the sum of the bytes and of their squares.
    fn sums(&self, samples: Range<usize>, shown: bool) -> Result<Vec<u64>> {
        let threads = self.decoders();
        let part = |i: usize| {
            let part = block(samples.len(), threads, i);
            samples.start + part.start..samples.start + part.end
        };
        let all: Vec<Result<Vec<[u64; 2]>>> = thread::scope(|scope| {
            let others: Vec<_> = (1..threads)
                .map(part)
                .map(|part| scope.spawn(|| self.sums_of(part, &|| ())))
                .collect();
            let progress = shown.then(|| Progress::new("measuring photos", part(0).len() as u64));
            let mine = self.sums_of(part(0), &|| progress.iter().for_each(|bar| bar.add(1)));
            let others = others.into_iter().map(|thread| thread.join());
            let others = others.map(|sums| sums.expect("a decoder does not panic"));
            std::iter::once(mine).chain(others).collect()
        });
        let mut sums = vec![[0; 2]; self.shape.c];
        for some in all {
            add_moments(&mut sums, some?);
        }
        Ok(sums.concat())
    }

    fn sums_of(&self, samples: Range<usize>, advanced: &dyn Fn()) -> Result<Vec<[u64; 2]>> {
        let mut sums = vec![[0; 2]; self.shape.c];
        for index in samples {
            interrupt::check()?;
            self.with_bytes(index, |pixels| {
                let planes = pixels.chunks_exact(self.shape.h * self.shape.w);
                add_moments(&mut sums, planes.map(moments));
                Ok(())
            })?;
            advanced();
        }
        Ok(sums)
    }
}
