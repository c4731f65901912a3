//! Where the pieces of a joined table are, as a heap has it: whether what stands there ends where it does. Format: "HDF5 File Format
//! Specification", global heap block of virtual datasets, and serialized selections.

use super::text::{number, word};

/// The most dimensions of a table.
const DIMENSIONS: u64 = 32;

/// Whether all pieces are there; of a form that is not known here, which the library refuses or knows, that is taken for granted.
pub(super) fn are_whole(bytes: &[u8]) -> bool {
    let mut rest = Rest(bytes);
    match rest.take(1) {
        Some([0]) => all(&mut rest).is_some(),
        version => version.is_some(),
    }
}

fn all(rest: &mut Rest) -> Option<()> {
    for _ in 0..rest.number(8)? {
        // Names of file and table.
        rest.text()?;
        rest.text()?;
        // The part of that table, and the part of the whole.
        selection(rest)?;
        selection(rest)?;
    }
    // The checksum.
    rest.take(4).map(drop)
}

fn selection(rest: &mut Rest) -> Option<()> {
    let (kind, version) = (rest.number(4)?, rest.number(4)?);
    match (kind, version) {
        // Nothing, or all.
        (0 | 3, _) => rest.take(8).map(drop),
        // Blocks one by one, or start, stride, count and size of blocks at regular distances.
        (2, 1) => {
            rest.take(8)?;
            let (dimensions, blocks) = (rest.dimensions()?, rest.number(4)?);
            rest.numbers([2 * dimensions, blocks], 4)
        }
        (2, 2 | 3) => {
            let regular = rest.take(1)?[0] & 1 != 0;
            let width = match version {
                2 => {
                    rest.take(4)?;
                    if regular { 8 } else { 4 }
                }
                _ => rest.width()?,
            };
            let dimensions = rest.dimensions()?;
            match regular {
                true => rest.numbers([4, dimensions], width),
                false => {
                    let blocks = rest.number(width)?;
                    rest.numbers([2 * dimensions, blocks], width)
                }
            }
        }
        // The library joins no tables by points.
        _ => None,
    }
}

/// What has not been looked at.
struct Rest<'a>(&'a [u8]);

impl<'a> Rest<'a> {
    fn take(&mut self, bytes: usize) -> Option<&'a [u8]> {
        let (taken, behind) = self.0.split_at_checked(bytes)?;
        self.0 = behind;
        Some(taken)
    }

    /// A number of 2, 4 or 8 bytes.
    fn number(&mut self, width: usize) -> Option<u64> {
        let bytes = self.take(width)?;
        match width {
            8 => number(bytes, 0),
            4 => word(bytes, 0).map(u64::from),
            _ => super::text::short(bytes, 0).map(u64::from),
        }
    }

    /// How many bytes numbers have that follow.
    fn width(&mut self) -> Option<usize> {
        let width = usize::from(self.take(1)?[0]);
        [2, 4, 8].contains(&width).then_some(width)
    }

    fn dimensions(&mut self) -> Option<u64> {
        self.number(4)
            .filter(|count| (1..=DIMENSIONS).contains(count))
    }

    /// So many times so many numbers.
    fn numbers(&mut self, [a, b]: [u64; 2], width: usize) -> Option<()> {
        let bytes = a.checked_mul(b)?.checked_mul(width as u64)?;
        self.take(usize::try_from(bytes).ok()?).map(drop)
    }

    /// A text up to its zero.
    fn text(&mut self) -> Option<()> {
        let end = self.0.iter().position(|&byte| byte == 0)?;
        self.take(end + 1).map(drop)
    }
}
