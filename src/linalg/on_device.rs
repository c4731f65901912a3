//! Products of panels by a device: in tiles that fit into its memory.

use ndarray::{ArrayView2, ArrayViewMut2, s};

use super::real::Real;
use crate::backend::Gemm;
use crate::backend::cuda::blas::{self, Blas, Stored};
use crate::backend::cuda::gemm::{self, Geometry};
use crate::backend::cuda::{Buffer, Device, Pinned, Stream};
use crate::{Error, Result};

/// Rows and columns of a tile at most: its arithmetic is worth the copies.
const SIDE: usize = 4096;

/// A device that multiplies.
pub struct Multiplier<T: Real> {
    /// Who multiplies there, if not our kernels.
    blas: Option<Blas>,
    stream: Stream,
    /// Rows and columns of its tiles.
    side: usize,
    a: Operand<T>,
    b: Operand<T>,
    c: Operand<T>,
}

/// A tile on the device, and its way there or back.
struct Operand<T: Real> {
    there: Buffer<T>,
    here: Pinned<T>,
}

impl<T: Real> Multiplier<T> {
    /// On a device of which so many bytes may be taken, for products of at most `longest` rows or columns.
    pub fn new(device: &Device, gemm: Gemm, memory: u64, longest: usize) -> Result<Self> {
        let fits = (memory / (3 * size_of::<T>() as u64)).isqrt() as usize;
        let side = SIDE.min(longest.max(1)).min(fits);
        if side == 0 {
            return Err(Error::DeviceMemory {
                device: device.facts().name.clone(),
                need: 3 * size_of::<T>() as u64,
                have: memory,
            });
        }
        let operand = || {
            Ok(Operand {
                there: Buffer::new(device, side * side)?,
                here: Pinned::new(device, side * side)?,
            })
        };
        let stream = Stream::new(device)?;
        let blas = match gemm {
            Gemm::Own => None,
            Gemm::Cublas => Some(Blas::open(&stream)?),
        };
        Ok(Self {
            blas,
            stream,
            side,
            a: operand()?,
            b: operand()?,
            c: operand()?,
        })
    }

    /// Adds α x·y to `c`.
    pub fn add(
        &mut self,
        alpha: T,
        x: ArrayView2<T>,
        y: ArrayView2<T>,
        c: &mut ArrayViewMut2<T>,
    ) -> Result<()> {
        let (m, n, k) = (x.nrows(), y.ncols(), x.ncols());
        let side = self.side;
        let cut = |len: usize| (0..len).step_by(side);
        let end = |start: usize, len: usize| len.min(start + side);
        for (row, col) in cut(m).flat_map(|row| cut(n).map(move |col| (row, col))) {
            let (rows, cols) = (row..end(row, m), col..end(col, n));
            for start in cut(k) {
                let part = start..end(start, k);
                let sizes = (rows.len(), cols.len(), part.len());
                self.a
                    .send(&self.stream, x.slice(s![rows.clone(), part.clone()]))?;
                self.b.send(&self.stream, y.slice(s![part, cols.clone()]))?;
                self.launch(sizes, start > 0)?;
            }
            if k > 0 {
                let mut tile = c.slice_mut(s![rows, cols]);
                self.receive(alpha, &mut tile)?;
            }
        }
        Ok(())
    }

    /// The product of what was sent, into c or added to it.
    fn launch(&mut self, (m, n, k): (usize, usize, usize), add: bool) -> Result<()> {
        let (a, b) = (self.a.there.part(0..m * k), self.b.there.part(0..k * n));
        let c = self.c.there.part_mut(0..m * n);
        let Some(blas) = &self.blas else {
            return gemm::product(&self.stream, Geometry::new(m, n, k, add), a, b, c);
        };
        let product = blas::Product {
            m,
            n,
            k,
            stored: [Stored::Plain; 2],
            add,
        };
        blas.product(product, a, b, c)
    }

    fn receive(&mut self, alpha: T, tile: &mut ArrayViewMut2<T>) -> Result<()> {
        let (len, Operand { there, here }) = (tile.len(), &mut self.c);
        self.stream.receive(there.part(0..len), here, 0..len)?;
        let values = &here.values()?[..len];
        let pairs = tile.iter_mut().zip(values);
        pairs.for_each(|(sum, &value)| *sum += alpha * value);
        Ok(())
    }
}

impl<T: Real> Operand<T> {
    /// Has a block copied to the device, row by row.
    fn send(&mut self, stream: &Stream, block: ArrayView2<T>) -> Result<()> {
        // Of the last copy, which may still be under way, this waits for the end.
        let values = &mut self.here.values_mut()?[..block.len()];
        let pairs = values.iter_mut().zip(&block);
        pairs.for_each(|(place, &value)| *place = value);
        let len = block.len();
        stream.send(&self.here, 0..len, self.there.part_mut(0..len))
    }
}
