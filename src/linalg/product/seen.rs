//! What a rank shows the check of a product.

use std::ops::Range;

use ndarray::{Array2, s};

use super::super::check::{Look, Shares};
use super::super::operand::Factors;
use super::super::plan::Way;
use super::super::real::Real;
use super::super::source::Source;
use super::{Block, Left, Product};
use crate::{Result, interrupt};

/// What this rank shows the check.
pub(super) struct Seen<'a, T: Real> {
    pub(super) product: &'a Product<'a, T>,
    pub(super) held: Option<&'a Factors<T>>,
    /// Where factors are streamed: the rows of A and of B that this rank goes through.
    pub(super) rows: [Range<usize>; 2],
    /// The block of C that it still has.
    pub(super) last: Option<&'a Block<T>>,
}

impl<T: Real> Seen<'_, T> {
    /// Goes through rows of a source, in blocks of as many numbers as a panel has.
    fn stream(&self, source: &Source, rows: Range<usize>, look: &mut Look<T>) -> Result<()> {
        let Way::Streamed { rows: height, cols } = self.product.plan.way else {
            return Ok(());
        };
        let (height, width) = (height.max(cols), self.product.plan.panel);
        let mut buffer = Array2::zeros((height.min(rows.len()), width.min(source.cols())));
        for row in rows.clone().step_by(height) {
            for col in (0..source.cols()).step_by(width) {
                interrupt::check()?;
                let part = row..rows.end.min(row + height);
                let cols = col..source.cols().min(col + width);
                let mut block = buffer.slice_mut(s![..part.len(), ..cols.len()]);
                source.read(part.clone(), cols.clone(), block.view_mut())?;
                look(part, cols, block.view());
            }
        }
        Ok(())
    }
}

impl<T: Real> Shares<T> for Seen<'_, T> {
    fn a(&self, look: &mut Look<T>) -> Result<()> {
        if let Some(factors) = self.held {
            factors.look_at_a(look);
        }
        match self.product.a {
            Left::Source(source) => self.stream(source, self.rows[0].clone(), look),
            Left::Block(_) => Ok(()),
        }
    }

    fn b(&self, look: &mut Look<T>) -> Result<()> {
        if let Some(factors) = self.held {
            factors.look_at_b(look);
        }
        self.stream(self.product.b, self.rows[1].clone(), look)
    }

    fn c(&self, look: &mut Look<T>) -> Result<()> {
        if let Some(block) = self.last {
            look(block.rows.clone(), block.cols.clone(), block.numbers.view());
        }
        Ok(())
    }

    fn before(&self, row: usize) -> Result<Vec<f64>> {
        let Some(source) = self.product.c else {
            return Ok(Vec::new());
        };
        let mut numbers = Array2::<T>::zeros((1, source.cols()));
        source.read(row..row + 1, 0..source.cols(), numbers.view_mut())?;
        Ok(numbers.iter().map(|value| value.wide()).collect())
    }
}
