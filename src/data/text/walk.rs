//! One pass over the text by all ranks: pieces become blocks of rows, and what goes wrong is agreed on.

use std::path::PathBuf;

use memchr::memchr_iter;

use super::pieces::{Pieces, Place, Strip};
use super::{Import, LineParser, plain};
use crate::comm::{Comm, agree};
use crate::data::rows::Block;
use crate::observe::Progress;
use crate::{Error, Result, interrupt};

/// The most shards: their names have so many digits.
const MOST_SHARDS: usize = 100_000;
/// Lines between two looks at whether the user wants to stop.
const LOOK: usize = 4096;

/// What to go through, by whom.
pub(super) struct Walk<'a> {
    comm: &'a dyn Comm,
    inputs: &'a [PathBuf],
    shard_size: usize,
    skip_bad: bool,
    /// Bytes of all files.
    bytes: u64,
}

/// Bad lines that one rank has left out.
#[derive(Default)]
pub(super) struct Bad {
    count: u64,
    /// The piece of the first one, where it is and what is wrong with it.
    first: Option<(usize, Place, String)>,
}

impl<'a> Walk<'a> {
    /// Bytes of all files.
    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Checks that every rank sees the same files; *collective*.
    pub(super) fn new(comm: &'a dyn Comm, import: &'a Import) -> Result<Self> {
        let length = |path: &PathBuf| {
            let length = std::fs::metadata(path).map_err(Error::io("read", path))?;
            match length.is_file() {
                true => Ok(length.len()),
                false => Err(Error::file(
                    path,
                    "is no file",
                    "give the text files themselves",
                )),
            }
        };
        let lengths: Result<Vec<u64>> = import.inputs.iter().map(length).collect();
        let lengths = agree(comm, lengths)?;
        let mut first = lengths.clone();
        comm.broadcast(0, &mut first);
        let differs = lengths
            .iter()
            .zip(&first)
            .position(|(mine, first)| mine != first);
        let same = match differs {
            None => Ok(()),
            Some(at) => Err(Error::Mismatch {
                what: format!("bytes of {}", import.inputs[at].display()),
                expected: format!("{} as on rank 0", first[at]),
                got: lengths[at].to_string(),
                hint: "give files that every rank sees, and that nobody writes to",
            }),
        };
        agree(comm, same)?;
        Ok(Self {
            comm,
            inputs: &import.inputs,
            shard_size: import.shard_size,
            skip_bad: import.skip_bad,
            bytes: lengths.iter().sum(),
        })
    }

    /// Makes rows of this rank's pieces and gives them to `each` with the piece's number, if there are any; *collective*.
    ///
    /// Ranks agree after each has had a piece: a failure on one of them does not keep the others busy for long.
    pub(super) fn go(
        &self,
        what: &'static str,
        lines: &mut dyn LineParser,
        each: &mut dyn FnMut(usize, &Block) -> Result<()>,
    ) -> Result<Bad> {
        let (rank, ranks) = (self.comm.rank(), self.comm.size());
        let progress = (rank == 0).then(|| Progress::new(what, self.bytes));
        let mut pieces = Pieces::new(self.inputs, self.shard_size, (rank, ranks));
        let (mut block, mut bad, mut shown) = (Block::default(), Bad::default(), 0);
        loop {
            let step = self.step(&mut pieces, lines, &mut block, &mut bad);
            let step = step.and_then(|number| match number {
                Some(number) if !block.is_empty() => each(number, &block).map(|()| Some(number)),
                _ => Ok(number),
            });
            if let Some(progress) = &progress {
                let passed = pieces.passed();
                progress.add(passed - shown);
                shown = passed;
            }
            if matches!(step, Ok(Some(number)) if (number + 1) % ranks != 0) {
                continue;
            }
            if agree(self.comm, step)?.is_none() {
                return Ok(bad);
            }
        }
    }

    /// Makes rows of the next piece if it is this rank's; gives its number, or none behind the last.
    fn step(
        &self,
        pieces: &mut Pieces,
        lines: &mut dyn LineParser,
        block: &mut Block,
        bad: &mut Bad,
    ) -> Result<Option<usize>> {
        interrupt::check()?;
        block.clear();
        loop {
            let Some(strip) = pieces.next()? else {
                return Ok(None);
            };
            if strip.number >= MOST_SHARDS {
                return Err(Error::Usage(format!(
                    "more than {MOST_SHARDS} shards: give a larger --shard-size"
                )));
            }
            self.parse(&strip, lines, block, bad)?;
            if strip.last {
                return Ok(Some(strip.number));
            }
        }
    }

    /// Makes rows of a strip, if it is this rank's.
    fn parse(
        &self,
        strip: &Strip,
        lines: &mut dyn LineParser,
        block: &mut Block,
        bad: &mut Bad,
    ) -> Result<()> {
        let Some(text) = strip.text else {
            return Ok(());
        };
        let mut begin = 0;
        for (i, end) in memchr_iter(b'\n', text).chain([text.len()]).enumerate() {
            let (at, first) = (begin, strip.first && i == 0);
            begin = end + 1;
            if i % LOOK == 0 {
                interrupt::check()?;
            }
            let line = plain(&text[at..end], first);
            if first {
                let heading = lines.heading(line);
                if heading.map_err(|problem| fault(&strip.place(at), problem, lines.hint()))? {
                    continue;
                }
            }
            if line.is_empty() {
                continue;
            }
            let Err(problem) = lines.parse(line, block) else {
                continue;
            };
            block.forget_row();
            if !self.skip_bad {
                return Err(fault(&strip.place(at), problem, lines.hint()));
            }
            bad.count += 1;
            bad.first
                .get_or_insert_with(|| (strip.number, strip.place(at), problem));
        }
        Ok(())
    }

    /// How many lines all ranks left out, and the first of them in words; *collective*.
    pub(super) fn first_bad(&self, bad: Bad) -> (u64, Option<String>) {
        let mut count = [bad.count];
        self.comm.sum(&mut count);
        // The lowest piece of all ranks as the greatest distance to the end.
        let distance = |number: usize| (MOST_SHARDS - number) as u64;
        let mine = bad
            .first
            .as_ref()
            .map_or(0, |(number, ..)| distance(*number));
        let mut greatest = [mine];
        self.comm.max(&mut greatest);
        let words = match bad.first {
            Some((_, place, problem)) if [mine] == greatest => {
                fault(&place, problem, "").to_string()
            }
            _ => String::new(),
        };
        let all = self.comm.gather(words.as_bytes());
        let words = all.iter().find(|words| !words.is_empty());
        let words = words.map(|words| String::from_utf8_lossy(words).into_owned());
        (count[0], words)
    }
}

/// What is wrong with a line, with its number; or what went wrong when looking for that.
fn fault(place: &Place, problem: String, hint: &'static str) -> Error {
    match place.line() {
        Ok(line) => Error::Line {
            path: place.path.clone(),
            line,
            problem,
            hint,
        },
        Err(error) => error,
    }
}
