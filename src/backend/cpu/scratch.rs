//! Memory to work in.

/// Memory that grows to the largest need of all who borrow it, and starts on a cache line.
#[derive(Debug, Default)]
pub struct Scratch(Vec<f32>);

impl Scratch {
    /// Floats of a cache line.
    const LINE: usize = 16;

    /// `len` floats of any value.
    pub fn at_least(&mut self, len: usize) -> &mut [f32] {
        if self.0.len() < len + Self::LINE {
            // Not resized: what was there is of no use.
            self.0 = Vec::new();
            self.0 = vec![0.0; len + Self::LINE];
        }
        let skip = self.0.as_ptr().align_offset(4 * Self::LINE);
        &mut self.0[skip.min(Self::LINE)..][..len]
    }

    /// Where it is, and how large.
    #[cfg(test)]
    pub(crate) fn place(&self) -> (usize, usize) {
        (self.0.as_ptr() as usize, self.0.len())
    }
}
