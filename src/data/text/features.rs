//! Text into numbers of features, by hashing; `data/README.md` has it exactly.

use std::io::Write;

use serde::{Deserialize, Serialize};
use xxhash_rust::xxh3::xxh3_64;

use crate::data::rows::Block;

/// The version of all that decides which number a text gets; part of a set's encoding.
pub const HASHING: u32 = 1;
/// Features to hash into unless the user says otherwise.
pub const DEFAULT_FEATURES: usize = 1 << 22;

/// What becomes of a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Numeric {
    /// A feature for each range of a logarithmic scale, with value 1.
    Bucket,
    /// One feature, with the number's logarithm as value.
    Value,
}

/// The number of the feature that is written `token`, of `features`: XXH3 scaled to that range.
#[inline]
pub fn number(token: &[u8], features: usize) -> u32 {
    let scaled = u128::from(xxh3_64(token)) * features as u128;
    (scaled >> 64) as u32
}

/// The range of a logarithmic scale that a number lies in: `0`, or `p` or `n` for its sign and the range's number.
fn bucket(value: f64, out: &mut Vec<u8>) {
    if value == 0.0 {
        return out.push(b'0');
    }
    let size = value.abs();
    // `libm` gives the same bits on every machine.
    let range = if size >= 1.0 {
        let log = libm::log(1.0 + size);
        log * log
    } else {
        4.0 * libm::log2(size)
    };
    let sign = if value > 0.0 { 'p' } else { 'n' };
    write!(out, "{sign}{}", range.floor() as i64).expect("memory takes all that is written");
}

/// The value that stands for a number: its logarithm, with its sign.
fn logarithm(value: f64) -> f32 {
    libm::copysign(libm::log1p(value.abs()), value) as f32
}

/// Collects what the features of a row are written as, and makes numbers of them when the row is complete.
///
/// Not one by one: a processor waits when it is to read bytes together that it has just written apart. And what a bad line
/// was made of leaves no trace.
pub(super) struct Tokens {
    features: usize,
    names: bool,
    /// All tokens of the row, one behind the other.
    text: Vec<u8>,
    /// Where each ends, and its value.
    ends: Vec<(usize, f32)>,
}

impl Tokens {
    pub(super) fn new(features: usize, names: bool) -> Self {
        Self {
            features,
            names,
            text: Vec::new(),
            ends: Vec::new(),
        }
    }

    /// Begins a row.
    pub(super) fn begin_row(&mut self) {
        self.text.clear();
        self.ends.clear();
    }

    /// Adds the feature that is written as `parts` one behind the other.
    #[inline]
    pub(super) fn add<const N: usize>(&mut self, parts: [&[u8]; N], value: f32) {
        for part in parts {
            // A copy of a known length is one instruction, where any other is a call: so are most categories of click logs.
            match <&[u8; 8]>::try_from(part) {
                Ok(eight) => self.text.extend_from_slice(eight),
                Err(_) => self.text.extend_from_slice(part),
            }
        }
        self.ends.push((self.text.len(), value));
    }

    /// Adds the feature of a number in the column `name`.
    pub(super) fn add_number(&mut self, name: &[u8], number: f64, how: Numeric) {
        match how {
            Numeric::Bucket => {
                self.text.extend_from_slice(name);
                self.text.push(b'=');
                bucket(number, &mut self.text);
                self.add([], 1.0);
            }
            // What is zero is not stored.
            Numeric::Value if number == 0.0 => {}
            Numeric::Value => self.add([name], logarithm(number)),
        }
    }

    /// Ends the row: its features get their numbers.
    pub(super) fn end_row(&mut self, label: bool, block: &mut Block) {
        let mut begin = 0;
        for &(end, value) in &self.ends {
            let token = &self.text[begin..end];
            begin = end;
            let index = number(token, self.features);
            block.feature(index, value);
            if self.names {
                block.name(index, || String::from_utf8_lossy(token).into_owned());
            }
        }
        block.end_row(label);
    }

    /// The number of the feature for the range that a number in the column `name` falls into.
    pub(super) fn range(&self, name: &[u8], number: f64) -> u32 {
        let mut token = [name, b"="].concat();
        bucket(number, &mut token);
        self::number(&token, self.features)
    }

    /// Whether what features are called is kept.
    pub(super) fn keeps_names(&self) -> bool {
        self.names
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The example of data/README.md.
    #[test]
    fn a_token_gets_the_number_that_the_specification_shows() {
        // By the C library of XXH3.
        assert_eq!(xxh3_64(b"C7=68fd1e64"), 0x4472_c78c_5c89_2ac5);
        assert_eq!(number(b"C7=68fd1e64", 1 << 22), 1_121_457);
        assert_eq!(number(b"C7=68fd1e64", 33_762_578), 9_027_316);
        assert_eq!(number(b"education=Bachelors", 1 << 22), 4_074_904);
        assert_eq!(number(b"user^age", 1 << 22), 4_189_836);
    }

    #[test]
    fn numbers_fall_into_ranges_of_a_logarithmic_scale() {
        let text = |value| {
            let mut out = Vec::new();
            bucket(value, &mut out);
            String::from_utf8(out).unwrap()
        };
        // ln 2 squared is 0.48, ln 3 squared 1.21, ln 39 squared 13.4, ln 1001 squared 47.7; 4 log2 0.3 is -6.9.
        let cases = [
            (0.0, "0"),
            (-0.0, "0"),
            (1.0, "p0"),
            (2.0, "p1"),
            (38.0, "p13"),
            (1000.0, "p47"),
            (-2.0, "n1"),
            (0.5, "p-4"),
            (0.3, "p-7"),
            (-0.3, "n-7"),
        ];
        for (value, expected) in cases {
            assert_eq!(text(value), expected, "{value}");
        }
        assert_eq!(logarithm(-3.0), -1.386_294_4);
    }
}
