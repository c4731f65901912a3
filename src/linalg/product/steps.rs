//! The products of panels.

use std::ops::Range;
use std::time::Instant;

use ndarray::linalg::{general_mat_mul, general_mat_vec_mul};
use ndarray::{Array2, ArrayView2, ArrayViewMut2, Axis, s};

use super::super::operand::Factors;
use super::super::real::Real;
use super::{Product, Work, timed};
use crate::observe::Progress;
use crate::{Result, interrupt};

/// The most of k that is multiplied at once, unless that is little work: users want to see how far it is, and to stop it.
const STEP: usize = 1024;
/// Products and sums that are worth a call, and the most of k that is then multiplied at once.
const CALL: usize = 1 << 24;
const LONG: usize = 16 * STEP;

/// The products of panels that make a tile.
pub(super) struct Steps<'a, T: Real> {
    pub(super) product: &'a Product<'a, T>,
    pub(super) work: &'a mut Work,
    pub(super) progress: Option<&'a Progress>,
}

impl<T: Real> Steps<'_, T> {
    /// From factors in memory.
    pub(super) fn held(&mut self, factors: &mut Factors<T>, mut c: ArrayViewMut2<T>) -> Result<()> {
        let (plan, spread) = (self.product.plan, factors.is_spread());
        let most = match (plan.job.unit, spread) {
            (1, true) => plan.panel,
            (1, false) => (CALL / c.len().max(1)).clamp(STEP, LONG),
            (unit, _) => unit,
        };
        let panels = factors.panels(most);
        if let Some(first) = panels.first().filter(|_| spread) {
            let bring = || factors.begin(first);
            self.work.panel_bytes += timed(&mut self.work.talking, bring);
        }
        // A rank whose device fails still has panels that others wait for.
        let mut failed = Ok(());
        for (i, k) in panels.iter().enumerate() {
            // Where ranks wait for one another's panels, they go on to the end together.
            if !spread {
                interrupt::check()?;
            }
            let next = panels.get(i + 1).filter(|_| spread);
            let (start, mut seconds) = (Instant::now(), 0.0);
            self.work.panel_bytes += factors.work(k, next, |x, y| {
                if failed.is_ok() {
                    failed = timed(&mut seconds, || self.product.multiply(x, y, &mut c));
                }
            });
            self.work.computing += seconds;
            self.work.talking += start.elapsed().as_secs_f64() - seconds;
            self.advance(&c, k.len());
        }
        failed
    }

    /// From factors of which each panel is read when it is needed.
    pub(super) fn streamed(
        &mut self,
        [rows, cols, k]: [Range<usize>; 3],
        mut c: ArrayViewMut2<T>,
    ) -> Result<()> {
        if c.is_empty() {
            return Ok(());
        }
        let most = self.product.plan.panel.min(k.len());
        let mut a = Array2::zeros((rows.len(), most));
        let mut b = Array2::zeros((most, cols.len()));
        for at in k.clone().step_by(most.max(1)) {
            interrupt::check()?;
            let part = at..k.end.min(at + most);
            let mut x = a.slice_mut(s![.., ..part.len()]);
            let mut y = b.slice_mut(s![..part.len(), ..]);
            timed(&mut self.work.reading, || {
                self.product
                    .a
                    .read(rows.clone(), part.clone(), x.view_mut())?;
                self.product
                    .b
                    .read(part.clone(), cols.clone(), y.view_mut())
            })?;
            let multiply = || self.product.multiply(x.view(), y.view(), &mut c);
            timed(&mut self.work.computing, multiply)?;
            self.advance(&c, part.len());
        }
        Ok(())
    }

    /// So much of k is done.
    fn advance(&mut self, c: &ArrayViewMut2<T>, k: usize) {
        self.work.flop += 2.0 * c.len() as f64 * k as f64;
        if let Some(progress) = self.progress {
            progress.add(k as u64);
        }
    }
}

impl<T: Real> Product<'_, T> {
    /// Adds α x·y to `c`; in tiles of the plan's unit, where bits must not depend on who has them.
    fn multiply(&self, x: ArrayView2<T>, y: ArrayView2<T>, c: &mut ArrayViewMut2<T>) -> Result<()> {
        if let Some(device) = self.device {
            return device.borrow_mut().add(self.alpha, x, y, c);
        }
        let unit = self.plan.job.unit;
        if unit == 1 {
            add_product(self.alpha, x, y, c);
            return Ok(());
        }
        let rows = c.axis_chunks_iter_mut(Axis(0), unit);
        for (mut c, x) in rows.zip(x.axis_chunks_iter(Axis(0), unit)) {
            let columns = c.axis_chunks_iter_mut(Axis(1), unit);
            for (mut c, y) in columns.zip(y.axis_chunks_iter(Axis(1), unit)) {
                general_mat_mul(self.alpha, &x, &y, T::one(), &mut c);
            }
        }
        Ok(())
    }
}

/// Adds α x·y to `c`; what is a product of vectors, or of one and a matrix, by the calls that BLAS has for those, which pack
/// nothing.
fn add_product<T: Real>(alpha: T, x: ArrayView2<T>, y: ArrayView2<T>, c: &mut ArrayViewMut2<T>) {
    match c.dim() {
        (1, 1) => c[(0, 0)] += alpha * x.row(0).dot(&y.column(0)),
        (1, _) => general_mat_vec_mul(alpha, &y.t(), &x.row(0), T::one(), &mut c.row_mut(0)),
        (_, 1) => general_mat_vec_mul(alpha, &x, &y.column(0), T::one(), &mut c.column_mut(0)),
        _ => general_mat_mul(alpha, &x, &y, T::one(), c),
    }
}
