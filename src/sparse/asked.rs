//! Rows whose features are asked for some time before they are needed.

use super::hot::Table;
use crate::backend::cpu::{Cell, LANES, prefetch_line};
use crate::data::rows::Row;

/// Where features are kept.
#[derive(Clone, Copy)]
pub(super) struct Places<'a, const W: usize> {
    pub(super) cold: &'a [Cell<W>],
    /// The bias, and hot features behind it.
    pub(super) copies: &'a [Cell<W>],
    pub(super) hot: Table<'a>,
    /// Stands where a row has no feature, to fill vectors: zeros, and always moved by nothing.
    pub(super) spare: &'a Cell<W>,
    /// Whether a rule tells copies from others.
    pub(super) tells: bool,
}

impl<'a, const W: usize> Places<'a, W> {
    /// Where a feature is kept, and whether that is a copy.
    #[inline(always)]
    pub(super) fn cell(self, feature: u32) -> Option<(&'a Cell<W>, bool)> {
        match self.hot.slot(feature) {
            Some(slot) => Some((&self.copies[slot + 1], true)),
            None => (self.cold.get(feature as usize)).map(|cell| (cell, false)),
        }
    }
}

/// A row whose features are asked for.
pub(super) struct Asked<'a, const W: usize> {
    pub(super) row: Row<'a>,
    /// Where they are, and behind them the spare one, up to a multiple of [`LANES`].
    pub(super) cells: Vec<&'a Cell<W>>,
    /// Which of the cells are copies, where a rule tells these from others.
    pub(super) copied: Vec<bool>,
}

impl<const W: usize> Asked<'_, W> {
    const NO_ROW: Row<'static> = Row {
        indices: &[],
        values: None,
        label: false,
    };

    pub(super) fn nothing() -> Self {
        Self {
            row: Self::NO_ROW,
            cells: Vec::new(),
            copied: Vec::new(),
        }
    }
}

/// Asks for the features of a row, some at a time: between them there is something to compute, while memory answers.
pub(super) struct Asker<'a, 'b, const W: usize> {
    places: Places<'a, W>,
    asked: &'b mut Asked<'a, W>,
    /// Features asked for so far.
    next: usize,
    /// A feature that is none.
    bad: Option<u32>,
}

impl<'a, 'b, const W: usize> Asker<'a, 'b, W> {
    /// Begins with a row; without one there is nothing to ask for.
    #[inline(always)]
    pub(super) fn new(
        places: Places<'a, W>,
        asked: &'b mut Asked<'a, W>,
        row: Option<Row<'a>>,
    ) -> Self {
        asked.row = row.unwrap_or(Asked::<W>::NO_ROW);
        let count = asked.row.indices.len();
        let all = count.next_multiple_of(LANES);
        if asked.cells.len() != all {
            asked.cells.resize(all, places.spare);
        }
        asked.cells[count..].fill(places.spare);
        if places.tells {
            asked.copied.clear();
            asked.copied.resize(all, false);
        }
        Self {
            places,
            asked,
            next: 0,
            bad: None,
        }
    }

    /// Asks for so many more.
    #[inline(always)]
    pub(super) fn some(&mut self, count: usize) {
        let indices = self.asked.row.indices;
        let begin = self.next;
        let end = begin + count.min(indices.len() - begin);
        let cells = &mut self.asked.cells[begin..end];
        for (i, (place, &feature)) in cells.iter_mut().zip(&indices[begin..end]).enumerate() {
            let Some((cell, copied)) = self.places.cell(feature) else {
                self.bad = Some(feature);
                continue;
            };
            prefetch_line(cell);
            *place = cell;
            if self.places.tells {
                self.asked.copied[begin + i] = copied;
            }
        }
        self.next = end;
    }

    /// Asks for all that are left; gives one that is none.
    #[inline(always)]
    pub(super) fn rest(mut self) -> Option<u32> {
        self.some(usize::MAX);
        self.bad
    }
}
