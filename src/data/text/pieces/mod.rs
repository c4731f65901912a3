//! Text cut into pieces at line ends: a line belongs to the piece in which its first byte lies.
//!
//! Pieces are numbered through all files, and the same for any number of ranks, packed or plain. Of a plain file a rank
//! reads the bytes of its own pieces; a gzipped one it unpacks as a whole.

mod packed;
mod plain;

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use memchr::memchr_iter;

use crate::data::unpack::{self, is_packed};
use crate::{Error, Result};
use packed::Packed;
use plain::Plain;

/// Bytes beyond which a line must be something else.
const LONGEST: usize = 1 << 26;
/// Bytes behind which no further line is looked at before reading begins.
const LOOKED_AT: usize = 1 << 24;
/// Bytes read at once behind the end of a strip, where its last line ends.
const STEP: usize = 1 << 12;
/// Bytes of a plain file read at once: few enough to be parsed out of the cache they were read into.
const STRIP: u64 = 1 << 18;

/// Whole lines of one file: a piece, or a strip of one.
pub(super) struct Strip<'a> {
    /// The piece's place among those of all files.
    pub(super) number: usize,
    /// Whether it is the first of its file.
    pub(super) first: bool,
    /// Whether it is the last of its piece.
    pub(super) last: bool,
    /// The file.
    pub(super) path: &'a Path,
    /// Its lines, if it is this rank's.
    pub(super) text: Option<&'a [u8]>,
    front: Front,
}

/// What lies in front of a strip.
#[derive(Clone, Copy)]
enum Front {
    Bytes(u64),
    Lines(usize),
}

impl Strip<'_> {
    /// Where the byte `at` of the text is.
    pub(super) fn place(&self, at: usize) -> Place {
        let text = self.text.unwrap_or_default();
        Place {
            path: self.path.to_path_buf(),
            front: self.front,
            lines: memchr_iter(b'\n', &text[..at]).count(),
        }
    }
}

/// A line of a file.
pub(super) struct Place {
    pub(super) path: PathBuf,
    /// What is in front of its strip.
    front: Front,
    /// Lines of the strip in front of it.
    lines: usize,
}

impl Place {
    /// The line's number, from 1; may read all of the file in front of it.
    pub(super) fn line(&self) -> Result<usize> {
        let before = match self.front {
            Front::Lines(lines) => lines,
            Front::Bytes(bytes) => lines_before(&self.path, bytes)?,
        };
        Ok(before + self.lines + 1)
    }
}

fn lines_before(path: &Path, end: u64) -> Result<usize> {
    let file = File::open(path).map_err(Error::io("read", path))?;
    let (mut front, mut lines) = (file.take(end), 0);
    let mut buffer = vec![0; 1 << 20];
    loop {
        match front.read(&mut buffer).map_err(Error::io("read", path))? {
            0 => return Ok(lines),
            got => lines += memchr_iter(b'\n', &buffer[..got]).count(),
        }
    }
}

/// Goes through the pieces of all files in order, and reads those of one rank.
pub(super) struct Pieces<'a> {
    inputs: &'a [PathBuf],
    /// Bytes of a piece, and of what is read of it at once.
    size: u64,
    strip: u64,
    /// Which rank reads, of how many.
    rank: (usize, usize),
    /// Number of the next piece.
    number: usize,
    open: Option<Open>,
    text: Vec<u8>,
    /// Bytes of the files that are behind.
    done: u64,
}

struct Open {
    kind: Kind,
    /// Where the next strip begins in the text, and the next piece.
    at: u64,
    next: u64,
    /// Bytes of the file.
    length: u64,
}

enum Kind {
    Plain(Plain),
    Packed(Box<Packed>),
}

impl<'a> Pieces<'a> {
    /// Pieces of `size` bytes of these files, for rank `rank.0` of `rank.1`.
    pub(super) fn new(inputs: &'a [PathBuf], size: usize, rank: (usize, usize)) -> Self {
        Self {
            inputs,
            size: size as u64,
            strip: STRIP,
            rank,
            number: 0,
            open: None,
            text: Vec::new(),
            done: 0,
        }
    }

    /// Bytes of the files, as they are stored, that have been gone through.
    pub(super) fn passed(&mut self) -> u64 {
        let here = self.open.as_mut().map_or(0, |open| match &mut open.kind {
            Kind::Plain(_) => open.at.min(open.length),
            Kind::Packed(packed) => packed.taken(),
        });
        self.done + here
    }

    /// The next strip; none behind the last.
    pub(super) fn next(&mut self) -> Result<Option<Strip<'_>>> {
        loop {
            let Some(path) = self.inputs.first() else {
                return Ok(None);
            };
            if self.open.is_none() {
                self.open = Some(Open::new(path)?);
            }
            let open = self.open.as_mut().expect("opened above");
            let mine = self.number % self.rank.1 == self.rank.0;
            let first = open.at == 0;
            let sizes = (self.size, self.strip);
            if let Some((front, skip)) = open.read(path, sizes, mine, &mut self.text)? {
                let (number, last) = (self.number, open.at == open.next);
                self.number += usize::from(last);
                return Ok(Some(Strip {
                    number,
                    first,
                    last,
                    path,
                    text: mine.then_some(&self.text[skip..]),
                    front,
                }));
            }
            self.done += open.length;
            self.open = None;
            self.inputs = &self.inputs[1..];
        }
    }
}

impl Open {
    fn new(path: &Path) -> Result<Self> {
        let kind = if is_packed(path)? {
            Kind::Packed(Box::new(Packed::open(path)?))
        } else {
            Kind::Plain(Plain::open(path)?)
        };
        let length = std::fs::metadata(path)
            .map_err(Error::io("read", path))?
            .len();
        Ok(Self {
            kind,
            at: 0,
            next: 0,
            length,
        })
    }

    /// Reads the next strip into `text` if there is one, of a plain file only if it is `mine`; gives what is in front of it,
    /// and where it begins in `text`.
    fn read(
        &mut self,
        path: &Path,
        (size, strip): (u64, u64),
        mine: bool,
        text: &mut Vec<u8>,
    ) -> Result<Option<(Front, usize)>> {
        text.clear();
        let begin = self.at;
        let piece = match begin == self.next {
            true => begin + size,
            false => self.next,
        };
        let (end, found) = match &mut self.kind {
            Kind::Plain(plain) if begin >= plain.length() => return Ok(None),
            Kind::Plain(_) if !mine => (piece, (Front::Bytes(begin), 0)),
            Kind::Plain(plain) => {
                let inside = begin + strip < piece.min(plain.length());
                let end = if inside { begin + strip } else { piece };
                let (from, skip) = plain.read(path, begin, end, text)?;
                (end, (Front::Bytes(from), skip))
            }
            Kind::Packed(packed) => match packed.read(path, begin, size as usize, text)? {
                Some(lines) => (piece, (Front::Lines(lines), 0)),
                None => return Ok(None),
            },
        };
        (self.at, self.next) = (end, piece);
        Ok(Some(found))
    }
}

fn refuse_long(path: &Path, bytes: u64) -> Result<()> {
    if bytes <= LONGEST as u64 {
        return Ok(());
    }
    let problem = format!("has no line end within {LONGEST} bytes");
    Err(Error::file(path, problem, "is it text, one row a line?"))
}

fn damaged(path: &Path, error: &std::io::Error) -> Error {
    let problem = format!("cannot be unpacked to its end ({error})");
    let hint = "it is damaged or cut short: check it with `gzip -t`, and get it again";
    Error::file(path, problem, hint)
}

/// The first lines of a file, plain or gzipped, up to `most` of them.
pub(super) fn head(path: &Path, most: usize) -> Result<Vec<Vec<u8>>> {
    let mut from = unpack::open(path)?;
    let (mut text, mut lines) = (Vec::new(), 0);
    while lines < most {
        let old = text.len();
        let got = (&mut from).take(1 << 20).read_to_end(&mut text);
        if got.map_err(|error| damaged(path, &error))? == 0 {
            break;
        }
        lines += memchr_iter(b'\n', &text[old..]).count();
        if lines == 0 {
            refuse_long(path, text.len() as u64)?;
        } else if text.len() > LOOKED_AT {
            break;
        }
    }
    let lines = text.split(|&byte| byte == b'\n').take(most);
    Ok(lines.map(<[u8]>::to_vec).collect())
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::data::unpack::packed;

    /// All pieces of one rank: number and text.
    fn pieces(
        inputs: &[PathBuf],
        (size, strip): (usize, u64),
        rank: (usize, usize),
    ) -> Vec<(usize, String)> {
        let mut pieces = Pieces::new(inputs, size, rank);
        pieces.strip = strip;
        let mut all = Vec::<(usize, String)>::new();
        let mut whole = true;
        while let Some(strip) = pieces.next().unwrap() {
            if let Some(text) = strip.text {
                if whole {
                    all.push((strip.number, String::new()));
                }
                let (number, piece) = all.last_mut().unwrap();
                assert_eq!(*number, strip.number);
                piece.push_str(str::from_utf8(text).unwrap());
            }
            whole = strip.last;
        }
        assert!(whole, "every piece ends");
        all
    }

    #[test]
    fn pieces_are_the_lines_that_begin_in_them_packed_or_plain() {
        let folder = tempfile::tempdir().unwrap();
        let texts = [
            "",
            "\n",
            "a",
            "a\nbb\n",
            "a\nbb\n\nlong long line\nc\nd\n\n\ne",
        ];
        for text in texts {
            let inputs = ["plain", "packed.gz"].map(|name| folder.path().join(name));
            fs::write(&inputs[0], text).unwrap();
            fs::write(&inputs[1], packed(text.as_bytes())).unwrap();
            for size in 1..text.len() + 3 {
                // A slow reference: each line to the piece of its first byte.
                let mut expected = vec![String::new(); text.len().div_ceil(size)];
                let mut at = 0;
                for line in text.split_inclusive('\n') {
                    expected[at / size].push_str(line);
                    at += line.len();
                }
                let ways = [1, 2, 3].map(|ranks| [1, 2, 5, STRIP].map(|strip| (ranks, strip)));
                for (input, &(ranks, strip)) in inputs
                    .iter()
                    .flat_map(|input| ways.as_flattened().iter().map(move |way| (input, way)))
                {
                    let input = std::slice::from_ref(input);
                    let mut all: Vec<_> = (0..ranks)
                        .flat_map(|rank| pieces(input, (size, strip), (rank, ranks)))
                        .collect();
                    all.sort();
                    let texts: Vec<_> = all.into_iter().map(|(_, text)| text).collect();
                    assert_eq!(texts, expected, "{text:?} by {size}, {strip}, {input:?}");
                }
            }
        }
    }

    #[test]
    fn numbers_go_on_through_files_and_lines_are_counted_in_each() {
        let folder = tempfile::tempdir().unwrap();
        let inputs = ["one", "two"].map(|name| folder.path().join(name));
        fs::write(&inputs[0], "1\n2\n3\n4").unwrap();
        fs::write(&inputs[1], "5\n6\n7\n").unwrap();
        let mut pieces = Pieces::new(&inputs, 4, (0, 1));
        let mut seen = Vec::new();
        while let Some(piece) = pieces.next().unwrap() {
            let text = String::from_utf8(piece.text.unwrap().to_vec()).unwrap();
            seen.push((
                piece.number,
                piece.first,
                piece.place(0).line().unwrap(),
                text,
            ));
        }
        let expected = [
            (0, true, 1, "1\n2\n"),
            (1, false, 3, "3\n4"),
            (2, true, 1, "5\n6\n"),
            (3, false, 3, "7\n"),
        ];
        let expected = expected.map(|(n, first, line, text)| (n, first, line, text.to_owned()));
        assert_eq!(seen, expected);
        assert_eq!(pieces.passed(), 13);
    }
}
