//! LibSVM text: `label index:value …`, with comments behind `#`.

use memchr::memchr;

use super::LineParser;
use super::numbers::{label, real, shown, whole};
use crate::data::rows::{Block, MOST_FEATURES};

/// Reads lines of numbered features.
pub(super) struct Lines {
    /// Number of the first feature in the text.
    base: u64,
    /// Every index, counted from 0, is below it.
    features: u64,
}

impl Lines {
    pub(super) fn new(base: u32, features: usize) -> Self {
        Self {
            base: base.into(),
            features: features as u64,
        }
    }

    fn feature(&self, token: &[u8]) -> Result<(u32, f32), String> {
        let Some(colon) = memchr(b':', token) else {
            return Err(format!("{}, expected index:value", shown(token)));
        };
        let (index, value) = (&token[..colon], &token[colon + 1..]);
        if index == b"qid" {
            return Err(format!(
                "{}: queries of ranking sets are not supported, expected index:value",
                shown(token)
            ));
        }
        let Some(number) = whole(index) else {
            return Err(format!(
                "{} has no index: expected a whole number before the colon",
                shown(token)
            ));
        };
        let Some(value) = real(value) else {
            return Err(format!(
                "{} has no value: expected a finite number behind the colon",
                shown(token)
            ));
        };
        let place = number.checked_sub(self.base);
        match place.filter(|&place| place < self.features) {
            Some(place) => Ok((place as u32, value)),
            None => Err(format!(
                "feature {number}, expected {} to {}",
                self.base,
                self.base + self.features - 1
            )),
        }
    }
}

impl LineParser for Lines {
    fn parse(&mut self, line: &[u8], block: &mut Block) -> Result<(), String> {
        let line = match memchr(b'#', line) {
            Some(comment) => &line[..comment],
            None => line,
        };
        let mut tokens = words(line);
        let Some(first) = tokens.next() else {
            return Ok(());
        };
        let label = label(first)?;
        for token in tokens {
            let (index, value) = self.feature(token)?;
            block.feature(index, value);
        }
        block.end_row(label);
        Ok(())
    }

    fn hint(&self) -> &'static str {
        "a line is `label index:value …`; --base tells how features are numbered, --features how many there are, and \
         --skip-bad leaves bad lines out"
    }
}

/// What blanks and tabs keep apart.
fn words(line: &[u8]) -> impl Iterator<Item = &[u8]> {
    line.split(|&byte| byte == b' ' || byte == b'\t')
        .filter(|word| !word.is_empty())
}

/// What a first pass over the text finds: the lowest and the highest index.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Span {
    pub(super) lowest: u64,
    pub(super) highest: u64,
}

impl Span {
    pub(super) const NONE: Self = Self {
        lowest: MOST_FEATURES as u64,
        highest: 0,
    };

    pub(super) fn widen(&mut self, indices: &[u32]) {
        for &index in indices {
            self.lowest = self.lowest.min(index.into());
            self.highest = self.highest.max(index.into());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &str) -> Result<Block, String> {
        let mut block = Block::default();
        Lines::new(1, 123).parse(line.as_bytes(), &mut block)?;
        Ok(block)
    }

    #[test]
    fn a_line_is_a_label_and_numbered_values() {
        let block = parse("+1 3:1 11:0.5\t14:-2e1  123:1 # seen 4:4").unwrap();
        let row = block.row(0);
        assert!(row.label);
        assert_eq!(row.indices, [2, 10, 13, 122]);
        assert_eq!(row.values, Some(&[1.0, 0.5, -20.0, 1.0][..]));
        let block = parse("-1 7:1 2:1 7:2").unwrap();
        assert_eq!(block.row(0).indices, [1, 6], "sorted");
        assert_eq!(block.row(0).values, Some(&[1.0, 3.0][..]), "summed");
        assert!(parse("0").unwrap().row(0).indices.is_empty());
        assert!(parse("  ").unwrap().is_empty() && parse("# note").unwrap().is_empty());
    }

    #[test]
    fn a_bad_line_is_refused_with_what_was_found() {
        let cases = [
            ("2 1:1", "label `2`, expected 0 or 1"),
            ("x 1:1", "label `x`"),
            ("1 qid:7 1:1", "`qid:7`: queries"),
            ("1 124:1", "feature 124, expected 1 to 123"),
            ("1 0:1", "feature 0, expected 1 to 123"),
            ("1 99999999999:1", "feature 99999999999"),
            ("1 3:", "`3:` has no value"),
            ("1 :3", "`:3` has no index"),
            ("1 3", "`3`, expected index:value"),
            ("1 3:nan", "`3:nan` has no value: expected a finite"),
            ("1 3:inf", "`3:inf`"),
            ("1 -3:1", "`-3:1` has no index"),
            ("1 3:1:2", "`3:1:2` has no value"),
        ];
        for (line, problem) in cases {
            let found = parse(line).unwrap_err();
            assert!(found.contains(problem), "{line}: {found}");
        }
    }
}
