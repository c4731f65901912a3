//! Criteo's click logs: a label, 13 integers and 26 hexadecimal categories, separated by tabs.

use memchr::memchr_iter;

use super::LineParser;
use super::features::{Numeric, Prefix, Tokens};
use super::numbers::{integer, label, shown};
use crate::data::rows::Block;

const INTEGERS: usize = 13;
const CATEGORIES: usize = 26;
const COLUMNS: usize = 1 + INTEGERS + CATEGORIES;

/// Integers below this have their features in a table: most are, and logarithms take time.
const SMALL: usize = 1024;

/// Reads lines of a click log.
pub(super) struct Lines {
    tokens: Tokens,
    numeric: Numeric,
    /// `I1` to `I13`.
    names: Vec<Vec<u8>>,
    /// `C1=` to `C26=`.
    categories: Vec<Prefix>,
    /// The feature of each small integer, one column behind the other; empty where it would not do.
    small: Vec<u32>,
}

impl Lines {
    pub(super) fn new(tokens: Tokens, numeric: Numeric) -> Self {
        let names: Vec<_> = (1..=INTEGERS)
            .map(|i| format!("I{i}").into_bytes())
            .collect();
        let categories = (1..=CATEGORIES).map(|i| {
            let mut prefix = Prefix::default();
            prefix.set(&[format!("C{i}=").as_bytes()]);
            prefix
        });
        let mut small = Vec::new();
        if numeric == Numeric::Bucket && !tokens.keeps_names() {
            for name in &names {
                small.extend((0..SMALL).map(|number| tokens.range(name, number as f64)));
            }
        }
        Self {
            tokens,
            numeric,
            categories: categories.collect(),
            names,
            small,
        }
    }

    fn integer(&mut self, column: usize, field: &[u8], block: &mut Block) -> Result<(), String> {
        let name = &self.names[column];
        if field.is_empty() {
            self.tokens.add([name, b"="], 1.0);
            return Ok(());
        }
        match integer(field) {
            Some(number @ 0..) if (number as usize) < SMALL && !self.small.is_empty() => {
                let feature = self.small[column * SMALL + number as usize];
                block.feature(feature, 1.0);
                Ok(())
            }
            Some(number) => {
                self.tokens.add_number(name, number as f64, self.numeric);
                Ok(())
            }
            None => Err(format!(
                "column {} is {}, expected an integer or nothing",
                column + 2,
                shown(field)
            )),
        }
    }

    fn category(&mut self, column: usize, rest: &mut Option<&[u8]>) -> Result<(), String> {
        let name = &self.categories[column - INTEGERS];
        // Nearly all have eight digits: no need to look for the tab.
        if let Some(text) = *rest
            && let Some((eight, behind)) = text.split_first_chunk()
            && matches!(behind, [] | [b'\t', ..])
            && all_digits(eight)
        {
            *rest = behind.get(1..);
            self.tokens.add_named(name, text, eight.len(), 1.0);
            return Ok(());
        }
        let field = cut(rest)?;
        if field.len() > 16 || !field.iter().all(u8::is_ascii_hexdigit) {
            return Err(format!(
                "column {} is {}, expected hexadecimal digits, at most 16, or nothing",
                column + 2,
                shown(field)
            ));
        }
        self.tokens.add_named(name, field, field.len(), 1.0);
        Ok(())
    }

    /// Takes all columns of a line; gives the label.
    fn columns(&mut self, line: &[u8], block: &mut Block) -> Result<bool, String> {
        self.tokens.begin_row();
        let mut rest = Some(line);
        let label = label(cut(&mut rest)?)?;
        for column in 0..INTEGERS {
            self.integer(column, cut(&mut rest)?, block)?;
        }
        for column in INTEGERS..INTEGERS + CATEGORIES {
            self.category(column, &mut rest)?;
        }
        match rest {
            None => Ok(label),
            Some(_) => Err("more columns".into()),
        }
    }
}

impl LineParser for Lines {
    fn parse(&mut self, line: &[u8], block: &mut Block) -> Result<(), String> {
        let label = self.columns(line, block).map_err(|problem| {
            // Where the columns are not those of a click log, that is what is wrong, and not what is found in them.
            match 1 + memchr_iter(b'\t', line).count() {
                COLUMNS => problem,
                count => format!("{count} columns, expected {COLUMNS} separated by tabs"),
            }
        })?;
        self.tokens.end_row(label, block);
        Ok(())
    }

    fn hint(&self) -> &'static str {
        "a line is a label, 13 integers and 26 hexadecimal categories, with tabs between them; --skip-bad leaves bad lines out"
    }
}

/// A byte in each of the eight of a word.
const fn eight(byte: u8) -> u64 {
    u64::from_le_bytes([byte; 8])
}

/// Whether all eight bytes are hexadecimal digits, asked of all at once.
fn all_digits(bytes: &[u8; 8]) -> bool {
    let word = u64::from_le_bytes(*bytes);
    // The high bit of each byte below 0x80 that is at least `least`.
    let reaches = |word: u64, least: u8| word + eight(0x80 - least);
    let ascii = word & eight(0x80) == 0;
    let word = word & eight(0x7f);
    let small = word | eight(0x20);
    let digits = reaches(word, b'0') & !reaches(word, b'9' + 1);
    let letters = reaches(small, b'a') & !reaches(small, b'f' + 1);
    ascii && (digits | letters) & eight(0x80) == eight(0x80)
}

/// Takes a field and its tab off the rest of a line, which is none behind the last.
fn cut<'a>(rest: &mut Option<&'a [u8]>) -> Result<&'a [u8], String> {
    let text = rest.take().ok_or("no more columns")?;
    // Fields are short: a loop is done before a faster search has begun.
    let Some(tab) = text.iter().position(|&byte| byte == b'\t') else {
        return Ok(text);
    };
    *rest = Some(&text[tab + 1..]);
    Ok(&text[..tab])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::text::features::number;

    fn line(label: &str, integers: [&str; 13], category: &str) -> String {
        let categories = [category; 26].join("\t");
        format!("{label}\t{}\t{categories}", integers.join("\t"))
    }

    fn parse(line: &str, numeric: Numeric) -> Result<Block, String> {
        let mut block = Block::default();
        let tokens = Tokens::new(1 << 22, false);
        Lines::new(tokens, numeric).parse(line.as_bytes(), &mut block)?;
        Ok(block)
    }

    const FEW: [&str; 13] = [
        "1", "-2", "", "0", "38", "1000", "0", "0", "0", "0", "0", "0", "7",
    ];

    #[test]
    fn a_field_is_a_feature_also_where_nothing_is_in_it() {
        let block = parse(&line("1", FEW, "68fd1e64"), Numeric::Bucket).unwrap();
        let mut tokens = vec!["I1=p0", "I2=n1", "I3=", "I4=0", "I5=p13", "I6=p47", "I7=0"];
        tokens.extend(["I8=0", "I9=0", "I10=0", "I11=0", "I12=0", "I13=p4"]);
        let categories: Vec<_> = (1..=26).map(|i| format!("C{i}=68fd1e64")).collect();
        tokens.extend(categories.iter().map(String::as_str));
        let mut expected: Vec<_> = tokens
            .iter()
            .map(|token| number(token.as_bytes(), 1 << 22))
            .collect();
        expected.sort();
        assert_eq!(block.row(0).indices, expected);
        assert!(block.row(0).label && block.row(0).values.is_none());
        let empty = parse(&line("0", [""; 13], ""), Numeric::Bucket).unwrap();
        assert_eq!(empty.row(0).indices.len(), 39);
    }

    #[test]
    fn hexadecimal_digits_are_told_from_all_other_bytes() {
        for byte in 0..=255u8 {
            for at in 0..8 {
                let mut bytes = *b"09afAF5c";
                bytes[at] = byte;
                assert_eq!(all_digits(&bytes), byte.is_ascii_hexdigit(), "{byte}");
            }
        }
    }

    #[test]
    fn a_number_can_be_a_value() {
        let block = parse(&line("0", FEW, ""), Numeric::Value).unwrap();
        let row = block.row(0);
        let value = |token: &str| {
            let at = row
                .indices
                .iter()
                .position(|&i| i == number(token.as_bytes(), 1 << 22));
            at.map(|at| row.values.unwrap()[at])
        };
        assert_eq!(value("I1"), Some(2f32.ln()));
        assert_eq!(value("I2"), Some(-(3f32.ln())));
        assert_eq!(value("I3="), Some(1.0), "nothing is a feature");
        assert_eq!(value("I4"), None, "zero is not stored");
        assert_eq!(value("C1="), Some(1.0));
    }

    #[test]
    fn a_bad_line_is_refused_with_what_was_found() {
        let good = line("1", FEW, "ab");
        let mut half = FEW;
        half[2] = "1.5";
        let cases = [
            (
                good.replacen("\tab\tab", "\tab", 1),
                "39 columns, expected 40",
            ),
            (format!("{good}\t"), "41 columns"),
            (
                line("1", half, ""),
                "column 4 is `1.5`, expected an integer",
            ),
            (line("1", FEW, "xyz"), "column 15 is `xyz`, expected hexa"),
            (line("", FEW, ""), "label nothing, expected 0 or 1"),
            (line("7", FEW, ""), "label `7`"),
            (line("x", FEW, "0123456789abcdef0"), "label `x`"),
            (line("1", FEW, "0123456789abcdef0"), "column 15"),
            (line("1", FEW, "0123abcx"), "column 15 is `0123abcx`"),
            (line("1", FEW, "0123abcd") + "\t", "41 columns"),
            (line("1", FEW, "0123abcd") + "x", "column 40 is `0123abcdx`"),
            ("1".into(), "1 columns"),
        ];
        for (line, problem) in cases {
            let found = parse(&line, Numeric::Bucket).unwrap_err();
            assert!(found.contains(problem), "{line}: {found}");
        }
    }
}
