//! Vowpal Wabbit's text: `label [importance] [base] ['tag]|namespace[:weight] feature[:value] … |…`.

use memchr::memchr;

use super::LineParser;
use super::features::{Prefix, Tokens};
use super::numbers::{label, real, shown};
use crate::backend::cpu::mark_bytes;
use crate::data::rows::Block;

/// Reads lines of named features in namespaces.
pub(super) struct Lines {
    tokens: Tokens,
    /// What the features of the namespace at hand begin with.
    prefix: Prefix,
    /// Which bytes of it end a word or a name.
    marks: Vec<u64>,
}

impl Lines {
    pub(super) fn new(tokens: Tokens) -> Self {
        Self {
            tokens,
            prefix: Prefix::default(),
            marks: Vec::new(),
        }
    }

    /// The features between two bars.
    fn namespace(&mut self, text: &[u8]) -> Result<(), String> {
        // What touches the bar is the namespace; a blank there means the one without a name.
        let end = text.iter().position(|&byte| blank(byte));
        let (head, features) = text.split_at(end.unwrap_or(text.len()));
        let colon = head.iter().position(|&byte| byte == b':');
        let (name, weight) = weighed(head, colon)?;
        self.prefix.set(&[name, b"^"]);
        let mut marks = std::mem::take(&mut self.marks);
        mark_bytes(features, [b' ', b'\t', b':'], &mut marks);
        let done = self.features(features, &marks, weight);
        self.marks = marks;
        done
    }

    /// The features of the namespace that `prefix` names, in the text whose blanks and colons are marked.
    fn features(&mut self, text: &[u8], marks: &[u64], weight: f32) -> Result<(), String> {
        let (mut begin, mut colon) = (0, None);
        for (i, &word) in marks.iter().enumerate() {
            let mut word = word;
            while word != 0 {
                let at = 64 * i + word.trailing_zeros() as usize;
                word &= word - 1;
                if text[at] == b':' {
                    colon = colon.or(Some(at - begin));
                    continue;
                }
                if at > begin {
                    self.feature(&text[begin..], at - begin, colon, weight)?;
                }
                (begin, colon) = (at + 1, None);
            }
        }
        if begin < text.len() {
            self.feature(&text[begin..], text.len() - begin, colon, weight)?;
        }
        Ok(())
    }

    /// The feature that the first `length` bytes of `text` are.
    #[inline(always)]
    fn feature(
        &mut self,
        text: &[u8],
        length: usize,
        colon: Option<usize>,
        weight: f32,
    ) -> Result<(), String> {
        if colon.is_none() && weight == 1.0 {
            self.tokens.add_named(&self.prefix, text, length, 1.0);
            return Ok(());
        }
        let token = &text[..length];
        let (feature, value) = weighed(token, colon)?;
        if feature.is_empty() {
            return Err(format!("{} has no name before its value", shown(token)));
        }
        let value = value * weight;
        if !value.is_finite() {
            return Err(format!(
                "{} times the weight of its namespace is too large",
                shown(token)
            ));
        }
        self.tokens
            .add_named(&self.prefix, text, feature.len(), value);
        Ok(())
    }
}

impl LineParser for Lines {
    fn parse(&mut self, line: &[u8], block: &mut Block) -> Result<(), String> {
        let Some(bar) = memchr(b'|', line) else {
            if line.trim_ascii().is_empty() {
                return Ok(());
            }
            return Err("no `|`, expected `label |namespace feature …`".into());
        };
        let label = head(&line[..bar])?;
        self.tokens.begin_row();
        let mut rest = &line[bar + 1..];
        loop {
            let end = memchr(b'|', rest);
            self.namespace(&rest[..end.unwrap_or(rest.len())])?;
            let Some(end) = end else { break };
            rest = &rest[end + 1..];
        }
        self.tokens.end_row(label, block);
        Ok(())
    }

    fn hint(&self) -> &'static str {
        "a line is `label |namespace feature:value …`; --skip-bad leaves bad lines out"
    }
}

/// The label of what stands before the first bar.
fn head(text: &[u8]) -> Result<bool, String> {
    let touches = text.last().is_some_and(|&byte| !blank(byte));
    let mut given = words(text);
    let Some(first) = given.next() else {
        return Err("no label before the first `|`, expected 0 or 1, or -1 or 1".into());
    };
    let mut last = first;
    let mut numbers = [None; 2];
    let mut count = 0;
    for word in given {
        if count < 2 {
            numbers[count] = Some(word);
        }
        count += 1;
        last = word;
    }
    let tagged = touches || last[0] == b'\'';
    if tagged && count == 0 {
        return Err(format!(
            "{} is a tag, as it touches the `|` or begins with a quote, and there is no label",
            shown(first)
        ));
    }
    let count = count - usize::from(tagged);
    if count > 2 {
        return Err(format!(
            "{} words before the `|`, expected a label, an importance, a base and a tag at most",
            count + 1
        ));
    }
    let label = label(first)?;
    let named = [("importance", 1.0), ("base", 0.0)];
    for ((what, only), word) in named
        .into_iter()
        .zip(numbers.into_iter().flatten())
        .take(count)
    {
        if real(word) != Some(only) {
            return Err(format!("{what} {}: only {only} is supported", shown(word)));
        }
    }
    Ok(label)
}

/// A name and the number behind its colon, which is 1 without.
#[inline]
fn weighed(token: &[u8], colon: Option<usize>) -> Result<(&[u8], f32), String> {
    let Some(colon) = colon else {
        return Ok((token, 1.0));
    };
    match real(&token[colon + 1..]) {
        Some(value) => Ok((&token[..colon], value)),
        None => Err(format!(
            "{}: expected a finite number behind the colon",
            shown(token)
        )),
    }
}

fn blank(byte: u8) -> bool {
    byte == b' ' || byte == b'\t'
}

fn words(text: &[u8]) -> impl Iterator<Item = &[u8]> {
    text.split(|&byte| blank(byte))
        .filter(|word| !word.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::text::features::number;

    fn parse(line: &str) -> Result<Block, String> {
        let mut block = Block::default();
        Lines::new(Tokens::new(1 << 22, true)).parse(line.as_bytes(), &mut block)?;
        Ok(block)
    }

    #[test]
    fn features_are_hashed_with_their_namespace() {
        let block = parse("-1 1.0 0 'row7|site:0.5 news id:3 |user age:-4\tnew | plain").unwrap();
        let mut expected = [
            ("site^news", 0.5),
            ("site^id", 1.5),
            ("user^age", -4.0),
            ("user^new", 1.0),
            ("^plain", 1.0),
        ]
        .map(|(token, value)| (number(token.as_bytes(), 1 << 22), value));
        expected.sort_by_key(|&(index, _)| index);
        let row = block.row(0);
        assert!(!row.label);
        assert_eq!(row.indices, expected.map(|(index, _)| index));
        assert_eq!(row.values.unwrap(), expected.map(|(_, value)| value));
        assert!(parse("1 |").unwrap().row(0).indices.is_empty());
        assert!(parse("1 tag|a b").unwrap().row(0).label);
    }

    #[test]
    fn a_bad_line_is_refused_with_what_was_found() {
        let cases = [
            ("1 a b", "no `|`"),
            ("|a b", "no label"),
            ("1|a b", "`1` is a tag"),
            ("3 |a b", "label `3`"),
            ("1 2 |a b", "importance `2`: only 1"),
            ("1 1 0.5 |a b", "base `0.5`: only 0"),
            ("1 1 0 0 |a b", "4 words before"),
            ("1 |a b:x", "`b:x`: expected a finite number"),
            ("1 |a b:nan", "`b:nan`"),
            ("1 |a b:", "`b:`"),
            ("1 |a :2", "`:2` has no name"),
            ("1 |a:x b", "`a:x`"),
            ("1 |a:1e30 b:1e30", "too large"),
        ];
        for (line, problem) in cases {
            let found = parse(line).unwrap_err();
            assert!(found.contains(problem), "{line}: {found}");
        }
    }
}
