//! Inputs made from good ones by small changes: the same changes on every machine.

use phalanx::rng::Stream;

/// Numbers that lengths and indices go wrong with.
const EDGES: [u64; 9] = [
    0,
    1,
    0x7f,
    0xff,
    0xffff,
    0x7fff_ffff,
    0xffff_ffff,
    i64::MAX as u64,
    u64::MAX,
];

/// Words that texts go wrong with.
const WORDS: [&[u8]; 8] = [
    b"-1",
    b"0",
    b"4294967296",
    b"18446744073709551615",
    b"1e999",
    b"nan",
    b"\xff\xfe",
    b"\0",
];

/// The most bytes of an input.
const LONGEST: usize = 1 << 16;

/// Changed inputs, without end.
pub struct Mutations<'a> {
    good: &'a [Vec<u8>],
    stream: Stream,
}

impl<'a> Mutations<'a> {
    /// Of these, which are at least one.
    pub fn new(good: &'a [Vec<u8>], seed: u64) -> Self {
        Self {
            good,
            stream: Stream::new(&[0x6675_7a7a, seed]),
        }
    }

    fn below(&mut self, end: usize) -> usize {
        self.stream.below(end.max(1) as u64) as usize
    }

    /// A part of `bytes` that is not longer than `most`.
    fn part(&mut self, bytes: &[u8], most: usize) -> std::ops::Range<usize> {
        let start = self.below(bytes.len());
        let length = self.below(most.min(bytes.len() - start) + 1);
        start..start + length
    }

    /// The next input.
    pub fn make(&mut self) -> Vec<u8> {
        let which = self.below(self.good.len());
        let mut input = self.good[which].clone();
        for _ in 0..=self.below(4) {
            self.change(&mut input);
        }
        input.truncate(LONGEST);
        input
    }

    fn change(&mut self, input: &mut Vec<u8>) {
        if input.is_empty() {
            input.push(self.below(256) as u8);
            return;
        }
        let at = self.below(input.len());
        match self.below(9) {
            0 => input[at] ^= 1 << self.below(8),
            1 => input[at] = self.below(256) as u8,
            2 => {
                let width = 1 << self.below(4);
                let number = EDGES[self.below(EDGES.len())].to_le_bytes();
                let end = input.len().min(at + width);
                input[at..end].copy_from_slice(&number[..end - at]);
                if self.below(2) == 0 {
                    input[at..end].reverse();
                }
            }
            3 => {
                let part = self.part(input, 64);
                input.drain(part);
            }
            4 => {
                let part = self.part(input, 64);
                let copy = input[part].to_vec();
                input.splice(at..at, copy);
            }
            5 => {
                let word = WORDS[self.below(WORDS.len())];
                input.splice(at..at, word.iter().copied());
            }
            6 => input.truncate(at),
            7 => self.renumber(input, at),
            _ => {
                // Part of another input in place of part of this one.
                let other = self.below(self.good.len());
                let from = self.part(&self.good[other].clone(), 256);
                let (to, from) = (self.part(input, 256), &self.good[other][from]);
                input.splice(to, from.iter().copied());
            }
        }
    }

    /// Writes another number in place of the first one behind `at`, in digits.
    fn renumber(&mut self, input: &mut Vec<u8>, at: usize) {
        let digit = |byte: &u8| byte.is_ascii_digit();
        let Some(first) = input[at..].iter().position(digit).map(|first| at + first) else {
            return;
        };
        let count = input[first..].iter().take_while(|byte| digit(byte)).count();
        let number = EDGES[self.below(EDGES.len())].to_string();
        input.splice(first..first + count, number.into_bytes());
    }
}
