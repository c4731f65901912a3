//! Text into numbers of features, by hashing; `data/README.md` has it exactly.

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
fn bucket(value: f64) -> String {
    if value == 0.0 {
        return "0".into();
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
    format!("{sign}{}", range.floor() as i64)
}

/// The value that stands for a number: its logarithm, with its sign.
fn logarithm(value: f64) -> f32 {
    libm::copysign(libm::log1p(value.abs()), value) as f32
}

/// Bytes that are copied without a call, whatever their number.
const SHORT: usize = 16;

/// What the features of a column or a namespace begin with.
#[derive(Default)]
pub(super) struct Prefix {
    /// At least `SHORT` of them, of which `length` count.
    bytes: Vec<u8>,
    length: usize,
}

impl Prefix {
    /// Makes it `parts`, one behind the other.
    pub(super) fn set(&mut self, parts: &[&[u8]]) {
        self.bytes.clear();
        parts
            .iter()
            .for_each(|part| self.bytes.extend_from_slice(part));
        self.length = self.bytes.len();
        self.bytes.resize(self.length.max(SHORT), 0);
    }
}

/// Collects what the features of a row are written as, and makes numbers of them when the row is complete.
///
/// Not one by one: a processor waits when it is to read bytes together that it has just written apart. And what a bad line
/// was made of leaves no trace.
pub(super) struct Tokens {
    features: usize,
    names: bool,
    /// All tokens of the row, one behind the other, with room behind them.
    text: Vec<u8>,
    /// Where the next one begins.
    at: usize,
    /// Where each ends, and its value.
    ends: Vec<(usize, f32)>,
}

impl Tokens {
    pub(super) fn new(features: usize, names: bool) -> Self {
        Self {
            features,
            names,
            text: Vec::new(),
            at: 0,
            ends: Vec::new(),
        }
    }

    /// Begins a row.
    pub(super) fn begin_row(&mut self) {
        self.at = 0;
        self.ends.clear();
    }

    /// Adds the feature that is written as `parts` one behind the other.
    #[inline]
    pub(super) fn add<const N: usize>(&mut self, parts: [&[u8]; N], value: f32) {
        parts.into_iter().for_each(|part| self.write(part));
        self.ends.push((self.at, value));
    }

    /// Adds the feature that is written as `prefix` and the first `length` bytes of `text`.
    #[inline(always)]
    pub(super) fn add_named(&mut self, prefix: &Prefix, text: &[u8], length: usize, value: f32) {
        // Copies of a known length take an instruction: with room behind, copying too much does no harm.
        match (
            prefix.bytes.first_chunk::<SHORT>(),
            text.first_chunk::<SHORT>(),
        ) {
            (Some(front), Some(back)) if prefix.length <= SHORT && length <= SHORT => {
                if self.text.len() < self.at + 2 * SHORT {
                    self.text.resize(2 * (self.at + 2 * SHORT), 0);
                }
                let room = &mut self.text[self.at..self.at + 2 * SHORT];
                room[..SHORT].copy_from_slice(&front[..]);
                room[prefix.length..prefix.length + SHORT].copy_from_slice(&back[..]);
                self.at += prefix.length + length;
            }
            _ => {
                self.write(&prefix.bytes[..prefix.length]);
                self.write(&text[..length]);
            }
        }
        self.ends.push((self.at, value));
    }

    /// Writes behind what is there.
    fn write(&mut self, part: &[u8]) {
        let end = self.at + part.len();
        if end > self.text.len() {
            self.text.resize(2 * end, 0);
        }
        self.text[self.at..end].copy_from_slice(part);
        self.at = end;
    }

    /// Adds the feature of a number in the column `name`.
    pub(super) fn add_number(&mut self, name: &[u8], number: f64, how: Numeric) {
        match how {
            Numeric::Bucket => self.add([name, b"=", bucket(number).as_bytes()], 1.0),
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
        let token = [name, b"=", bucket(number).as_bytes()].concat();
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
    fn tokens_of_any_length_are_hashed_whole() {
        let long: String = ('a'..='z').cycle().take(40).collect();
        let mut tokens = Tokens::new(1 << 30, false);
        tokens.begin_row();
        for length in 0..=long.len() {
            let (front, back) = long.as_bytes().split_at(length);
            tokens.add([front, b"^", back, front], 1.0);
            let mut prefix = Prefix::default();
            prefix.set(&[front, b"#"]);
            for length in 0..=back.len() {
                tokens.add_named(&prefix, back, length, 1.0);
            }
        }
        let mut block = Block::default();
        tokens.end_row(true, &mut block);
        let mut expected = Vec::new();
        for (front, back) in (0..=long.len()).map(|length| long.split_at(length)) {
            let named = (0..=back.len()).map(|length| format!("{front}#{}", &back[..length]));
            let all = named.chain([format!("{front}^{back}{front}")]);
            expected.extend(all.map(|token| number(token.as_bytes(), 1 << 30)));
        }
        expected.sort_unstable();
        assert_eq!(block.indices(), expected);
    }

    #[test]
    fn numbers_fall_into_ranges_of_a_logarithmic_scale() {
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
            assert_eq!(bucket(value), expected, "{value}");
        }
        assert_eq!(logarithm(-3.0), -1.386_294_4);
    }
}
