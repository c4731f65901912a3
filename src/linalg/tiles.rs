//! Element by element: what can be done with a matrix that nobody has as a whole.

use std::ops::Range;

use ndarray::Array2;

use super::product::Give;
use super::real::Real;
use super::source::Source;
use crate::comm::{Comm, agree, block};
use crate::observe::Progress;
use crate::{Error, Result, interrupt};

/// A matrix to be made element by element.
pub enum Tilewise<'a> {
    /// A as it is.
    Copy(&'a Source),
    /// A with its rows as columns.
    Transpose(&'a Source),
    /// αA + βB.
    Add {
        /// A.
        a: &'a Source,
        /// B.
        b: &'a Source,
        /// α.
        alpha: f64,
        /// β.
        beta: f64,
    },
}

impl Tilewise<'_> {
    /// Rows and columns of what is made.
    pub fn shape(&self) -> (usize, usize) {
        match self {
            Self::Copy(a) | Self::Add { a, .. } => (a.rows(), a.cols()),
            Self::Transpose(a) => (a.cols(), a.rows()),
        }
    }

    /// Tiles in memory at once.
    fn tiles(&self) -> usize {
        match self {
            Self::Copy(_) => 1,
            Self::Transpose(_) | Self::Add { .. } => 2,
        }
    }

    /// Makes this rank's rows, in tiles that fit into `memory` bytes, and hands each to `give` with the row and column of its
    /// first element; *collective*.
    pub fn go<T: Real>(&self, comm: &dyn Comm, memory: usize, give: &mut Give<T>) -> Result<()> {
        let (rows, cols) = self.shape();
        let numbers = memory / size_of::<T>() / self.tiles();
        if numbers == 0 {
            let least = size_of::<T>() * self.tiles();
            let problem = format!(
                "--memory {memory} is too little: the least that would do is {least} bytes a rank"
            );
            return agree(comm, Err(Error::Usage(problem)));
        }
        // Whole rows as far as they fit; a tile of a transposed matrix is better a square.
        let width = match self {
            Self::Transpose(_) => cols.min(numbers.isqrt()),
            _ => cols.min(numbers),
        };
        let height = (numbers / width.max(1)).max(1);
        let mine = block(rows, comm.size(), comm.rank());
        let progress =
            (comm.rank() == 0).then(|| Progress::new("going through", mine.len() as u64));
        let mut work = || {
            for row in mine.clone().step_by(height) {
                let part = row..mine.end.min(row + height);
                for col in (0..cols).step_by(width) {
                    interrupt::check()?;
                    let across = col..cols.min(col + width);
                    let tile = self.tile(part.clone(), across)?;
                    give(row, col, tile.view())?;
                }
                if let Some(progress) = &progress {
                    progress.add(part.len() as u64);
                }
            }
            Ok(())
        };
        let done = work();
        agree(comm, done)
    }

    fn tile<T: Real>(&self, rows: Range<usize>, cols: Range<usize>) -> Result<Array2<T>> {
        let read = |source: &Source, rows: Range<usize>, cols: Range<usize>| {
            let mut tile = Array2::zeros((rows.len(), cols.len()));
            source.read(rows, cols, tile.view_mut()).map(|()| tile)
        };
        match self {
            Self::Copy(a) => read(a, rows, cols),
            Self::Transpose(a) => {
                let tile: Array2<T> = read(a, cols, rows)?;
                Ok(tile.t().as_standard_layout().into_owned())
            }
            Self::Add { a, b, alpha, beta } => {
                let mut tile: Array2<T> = read(a, rows.clone(), cols.clone())?;
                let other: Array2<T> = read(b, rows, cols)?;
                let (alpha, beta) = (T::nearest(*alpha), T::nearest(*beta));
                tile.zip_mut_with(&other, |x, &y| *x = alpha * *x + beta * y);
                Ok(tile)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use ndarray::s;

    use super::*;
    use crate::comm::run_ranks;

    fn made(what: &Tilewise, ranks: usize, memory: usize) -> Array2<f64> {
        let all = Mutex::new(Array2::from_elem(what.shape(), f64::NAN));
        run_ranks(ranks, |comm| {
            what.go::<f64>(comm, memory, &mut |row, col, tile| {
                assert!(tile.len() * 8 <= memory);
                let place = s![row..row + tile.nrows(), col..col + tile.ncols()];
                all.lock().unwrap().slice_mut(place).assign(&tile);
                Ok(())
            })
            .unwrap();
        });
        all.into_inner().unwrap()
    }

    #[test]
    fn tiles_of_any_size_on_any_ranks_make_the_matrix() {
        let open = |seed| Source::open("random:normal", (Some(13), Some(9)), seed).unwrap();
        let (a, b) = (open(1), open(2));
        let [x, y] = [&a, &b].map(|source| made(&Tilewise::Copy(source), 1, 1 << 20));
        let sum = Tilewise::Add {
            a: &a,
            b: &b,
            alpha: 2.0,
            beta: -0.5,
        };
        for (ranks, memory) in [(1, 1 << 20), (2, 200), (3, 16), (5, 1000), (20, 64)] {
            assert_eq!(made(&Tilewise::Copy(&a), ranks, memory), x);
            assert_eq!(made(&Tilewise::Transpose(&a), ranks, memory), x.t());
            assert_eq!(made(&sum, ranks, memory), 2.0 * &x - 0.5 * &y);
        }
    }
}
