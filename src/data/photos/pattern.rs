//! Names of files that tell a class, such as `{class}_{number}.jpg`.

use std::fmt;
use std::str::FromStr;

/// A pattern with `{class}` in it.
#[derive(Clone, Debug, PartialEq)]
pub struct Pattern(Vec<Piece>);

#[derive(Clone, Debug, PartialEq)]
enum Piece {
    /// `{class}`: one letter or more, as many as fit.
    Class,
    /// `{number}`: one digit or more.
    Number,
    /// `*`: anything, or nothing.
    Any,
    Letter(char),
}

impl Pattern {
    /// The class of a file with this name, if it fits.
    pub fn class<'a>(&self, name: &'a str) -> Option<&'a str> {
        let (from, to) = fits(&self.0, name, 0)?;
        name.get(from..to)
    }
}

/// Where the class is in `name`, from `at` on which must fit the pieces; (0, 0) if these have none.
fn fits(pieces: &[Piece], name: &str, at: usize) -> Option<(usize, usize)> {
    let rest = &name[at..];
    let Some((piece, behind)) = pieces.split_first() else {
        return rest.is_empty().then_some((0, 0));
    };
    // Ends of the letters in turn that a piece may take, the longest first.
    let ends = |good: fn(char) -> bool| {
        let letters = rest.char_indices().take_while(move |(_, c)| good(*c));
        let ends: Vec<usize> = letters.map(|(i, c)| at + i + c.len_utf8()).collect();
        ends.into_iter().rev()
    };
    match piece {
        Piece::Letter(letter) => {
            let found = rest.starts_with(*letter);
            found.then(|| fits(behind, name, at + letter.len_utf8()))?
        }
        Piece::Class => ends(|_| true).find_map(|end| fits(behind, name, end).map(|_| (at, end))),
        Piece::Number => ends(|c| c.is_ascii_digit()).find_map(|end| fits(behind, name, end)),
        Piece::Any => (ends(|_| true).chain([at])).find_map(|end| fits(behind, name, end)),
    }
}

impl FromStr for Pattern {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (mut pieces, mut rest) = (Vec::new(), text);
        while let Some(letter) = rest.chars().next() {
            let words = [
                ("{class}", Piece::Class),
                ("{number}", Piece::Number),
                ("*", Piece::Any),
            ];
            let word = words.into_iter().find(|(word, _)| rest.starts_with(word));
            let (length, piece) = match word {
                Some((word, piece)) => (word.len(), piece),
                None => (letter.len_utf8(), Piece::Letter(letter)),
            };
            pieces.push(piece);
            rest = &rest[length..];
        }
        let wild = |piece: &&Piece| !matches!(piece, Piece::Letter(_));
        // Each multiplies the ways in which a name may fit.
        if pieces.iter().filter(wild).count() > 4 {
            return Err("at most four of {class}, {number} and * can be told apart".into());
        }
        match pieces
            .iter()
            .filter(|piece| **piece == Piece::Class)
            .count()
        {
            1 => Ok(Self(pieces)),
            count => Err(format!(
                "expected {{class}} once, got it {count} times; for example {{class}}_{{number}}.jpg"
            )),
        }
    }
}

impl fmt::Display for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        self.0.iter().try_for_each(|piece| match piece {
            Piece::Class => f.write_str("{class}"),
            Piece::Number => f.write_str("{number}"),
            Piece::Any => f.write_str("*"),
            Piece::Letter(letter) => write!(f, "{letter}"),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_class_is_what_the_rest_of_the_pattern_leaves() {
        for (pattern, name, class) in [
            (
                "{class}_{number}.jpg",
                "great_pyrenees_12.jpg",
                Some("great_pyrenees"),
            ),
            ("{class}_{number}.jpg", "great_pyrenees.jpg", None),
            ("{class}.*", "cat.jpg", Some("cat")),
            ("{class}.{number}.jpg", "cat.123.jpg", Some("cat")),
            ("IMG{number}-{class}.*", "IMG7-träume.png", Some("träume")),
            ("*-{class}.webp", "a-b-c.webp", Some("c")),
            ("{class}", "all.jpg", Some("all.jpg")),
            ("{class}.jpg", ".jpg", None),
        ] {
            let parsed: Pattern = pattern.parse().unwrap();
            assert_eq!(parsed.class(name), class, "{pattern} on {name}");
            assert_eq!(parsed.to_string(), pattern);
        }
    }

    #[test]
    fn a_pattern_needs_one_class_and_few_wild_parts() {
        for bad in ["", "*.jpg", "{class}{class}", "*{class}***", "{Class}"] {
            assert!(bad.parse::<Pattern>().is_err(), "{bad}");
        }
    }
}
