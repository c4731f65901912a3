//! What one rank writes down, copied out of the run's way.

use super::manifest::Array;

/// Stretches of arrays, and a note. Its memory is used again by the next one.
#[derive(Default)]
pub struct Snapshot {
    pieces: Vec<Piece>,
    /// Pieces that are filled; those behind keep their memory.
    used: usize,
    /// The rank's own small numbers, as text.
    pub note: String,
}

pub(super) struct Piece {
    pub(super) array: Array,
    pub(super) values: Vec<f32>,
}

impl Snapshot {
    /// Forgets all, but keeps the memory.
    pub fn clear(&mut self) {
        self.used = 0;
        self.note.clear();
    }

    /// A stretch of an array that ranks have in common: the `len` values from `start` on, of `of` in all. Zeros, to be filled.
    pub fn common(&mut self, name: &str, start: usize, len: usize, of: usize) -> &mut [f32] {
        self.piece(Array {
            name: name.into(),
            start: start as u64,
            len: len as u64,
            of: Some(of as u64),
        })
    }

    /// An array that is this rank's own, of `len` values. Zeros, to be filled.
    pub fn own(&mut self, name: &str, len: usize) -> &mut [f32] {
        self.piece(Array {
            name: name.into(),
            start: 0,
            len: len as u64,
            of: None,
        })
    }

    /// The values in it.
    pub fn len(&self) -> usize {
        self.pieces().map(|piece| piece.values.len()).sum()
    }

    /// Whether no array is in it.
    pub fn is_empty(&self) -> bool {
        self.used == 0
    }

    pub(super) fn pieces(&self) -> impl Iterator<Item = &Piece> {
        self.pieces[..self.used].iter()
    }

    fn piece(&mut self, array: Array) -> &mut [f32] {
        let len = array.len as usize;
        if self.used == self.pieces.len() {
            let values = Vec::new();
            self.pieces.push(Piece { array, values });
        } else {
            self.pieces[self.used].array = array;
        }
        let values = &mut self.pieces[self.used].values;
        self.used += 1;
        values.clear();
        values.resize(len, 0.0);
        values
    }
}
