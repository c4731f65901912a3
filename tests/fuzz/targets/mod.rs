//! What is fuzzed: a target for each parser of what others wrote, with inputs to start from.

mod attribute;
mod checkpoint;
mod cifar;
mod command_line;
mod description;
mod examples;
mod idx;
mod images;
mod matrix;
mod model;
mod operand;
mod photo;
mod rank_folder;
mod record;
mod rows;
mod sparse_model;
mod text;

use std::fs;
use std::path::{Path, PathBuf};

use flate2::Compression;
use flate2::write::GzEncoder;
use std::io::Write;

/// One parser.
pub struct Target {
    /// What it is called: its corpus and the file of its target have the same name.
    pub name: &'static str,
    /// Inputs that the parser takes, for mutations to begin with.
    pub seeds: fn(&Place) -> Vec<Vec<u8>>,
    /// Gives the parser an input, and uses what it makes of it. Errors are good: what must not be is a panic.
    pub run: fn(&Place, &[u8]),
}

/// All of them.
pub const TARGETS: &[Target] = &[
    images::TARGET,
    rows::TARGET,
    matrix::TARGET,
    model::TARGET,
    checkpoint::TARGET,
    sparse_model::TARGET,
    record::TARGET,
    rank_folder::TARGET,
    idx::TARGET,
    cifar::TARGET,
    photo::TARGET,
    examples::TARGET,
    text::LIBSVM,
    text::CRITEO,
    text::CSV,
    text::VW,
    description::TARGET,
    command_line::TARGET,
    operand::TARGET,
    attribute::TARGET,
];

/// What stands between the files of an input that is several.
const CUT: &[u8] = b"\n--8<--\n";

/// A folder for the files that parsers want; it is where the process works.
pub struct Place(PathBuf);

impl Place {
    /// In `folder`, which is emptied by nobody.
    pub fn new(folder: &Path) -> Self {
        Self(folder.to_path_buf())
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    /// Writes a file, with the folders that it is in.
    fn put(&self, name: &str, bytes: &[u8]) -> PathBuf {
        let path = self.path(name);
        if let Some(folder) = path.parent() {
            fs::create_dir_all(folder).expect("the folder of work can be written");
        }
        fs::write(&path, bytes).expect("the folder of work can be written");
        path
    }

    /// Removes what a parser made, if it made something.
    fn remove(&self, name: &str) {
        let path = self.path(name);
        let _ = match path.is_dir() {
            true => fs::remove_dir_all(path),
            false => fs::remove_file(path),
        };
    }

    fn get(&self, name: &str) -> Vec<u8> {
        fs::read(self.path(name)).expect("what was just written")
    }
}

/// The files of an input: as many as asked for, the last ones empty where it has fewer.
fn parts<const N: usize>(input: &[u8]) -> [&[u8]; N] {
    let mut rest = input;
    std::array::from_fn(|i| {
        let found = rest.windows(CUT.len()).position(|window| window == CUT);
        let (part, behind) = match found.filter(|_| i + 1 < N) {
            Some(at) => (&rest[..at], &rest[at + CUT.len()..]),
            None => (rest, &[][..]),
        };
        rest = behind;
        part
    })
}

/// An input of several files.
fn join(parts: &[&[u8]]) -> Vec<u8> {
    parts.join(CUT)
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut packer = GzEncoder::new(Vec::new(), Compression::default());
    packer.write_all(bytes).expect("memory takes it");
    packer.finish().expect("memory takes it")
}

/// What `tests/fixtures` holds under that name.
fn fixture(name: &str) -> Vec<u8> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures");
    fs::read(folder.join(name)).expect("fixtures are part of the sources")
}
