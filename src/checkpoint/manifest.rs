//! `manifest.json`: what a checkpoint consists of, written when all of that is there.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use xxhash_rust::xxh3::xxh3_64;

use crate::{Error, Result};

/// What every manifest begins with.
const FORMAT: &str = "phalanx checkpoint";
/// Version of the format that this program writes, and the newest that it reads.
pub const VERSION: u32 = 1;
/// More is no manifest.
const MOST_BYTES: u64 = 64 << 20;

/// What a checkpoint consists of, and the numbers that all ranks have in common.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Manifest {
    /// Steps that had been taken.
    pub step: u64,
    /// What trained: `dense` or `sparse`.
    pub kind: String,
    /// How good the model was when it was last looked at, less being better; none if it never was.
    pub score: Option<f64>,
    /// What must be the same for the run to go on, by name.
    pub facts: BTreeMap<String, String>,
    /// Small numbers that all ranks have in common; what they mean is the trainer's business.
    pub state: Value,
    /// The parts, in rank order.
    pub parts: Vec<PartFile>,
}

/// The file of one rank.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PartFile {
    /// Its size.
    pub bytes: u64,
    /// XXH3 (64 bits, in hexadecimal) of all its bytes.
    pub xxh3: String,
    /// What it holds.
    pub arrays: Vec<Array>,
}

/// A stretch of an array, or a rank's own one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Array {
    /// Its name, unique in its part.
    pub name: String,
    /// Where the stretch begins.
    pub start: u64,
    /// Values in it.
    pub len: u64,
    /// Values of the whole array; none where it is a rank's own.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub of: Option<u64>,
}

/// What stands in the file: what follows the version differs from version to version.
#[derive(Serialize, Deserialize)]
struct Written {
    format: String,
    version: u32,
    /// Of the program that wrote it.
    phalanx: String,
    /// XXH3 of `checkpoint` as compact JSON.
    xxh3: String,
    checkpoint: Value,
}

impl Manifest {
    /// Its text.
    pub fn text(&self) -> String {
        let checkpoint = serde_json::to_value(self).expect("plain values");
        let written = Written {
            format: FORMAT.into(),
            version: VERSION,
            phalanx: env!("CARGO_PKG_VERSION").into(),
            xxh3: digest(&checkpoint),
            checkpoint,
        };
        serde_json::to_string_pretty(&written).expect("plain values") + "\n"
    }

    /// Reads what `text` wrote at `path`.
    pub fn read(path: &Path) -> Result<Self> {
        let size = fs::metadata(path).map_err(Error::io("read", path))?.len();
        if size > MOST_BYTES {
            let problem = format!("has {size} bytes, which no manifest has");
            return Err(Error::file(path, problem, DAMAGED));
        }
        let text = fs::read(path).map_err(Error::io("read", path))?;
        Self::parse(&text, path)
    }

    /// Reads the text of a manifest, which was at `path`.
    pub fn parse(text: &[u8], path: &Path) -> Result<Self> {
        let bad = |problem: String, hint| Err(Error::file(path, problem, hint));
        // The version first: what a newer one says need not be understood.
        let value: Value = match serde_json::from_slice(text) {
            Ok(value) => value,
            Err(error) => return bad(format!("is damaged: {error}"), DAMAGED),
        };
        if value.get("format").and_then(Value::as_str) != Some(FORMAT) {
            return bad("is not a checkpoint's manifest".into(), DAMAGED);
        }
        let version = value.get("version").and_then(Value::as_u64);
        if version.is_some_and(|version| version > VERSION.into()) {
            let problem = format!(
                "has format version {}, and this program reads up to {VERSION}",
                version.unwrap_or(0)
            );
            return bad(problem, "it was written by a newer phalanx: use that one");
        }
        let written: Written = match serde_json::from_value(value) {
            Ok(written) => written,
            Err(error) => return bad(format!("is damaged: {error}"), DAMAGED),
        };
        let found = digest(&written.checkpoint);
        if found != written.xxh3 {
            let problem = format!("is damaged: checksum {found}, expected {}", written.xxh3);
            return bad(problem, DAMAGED);
        }
        match serde_json::from_value(written.checkpoint) {
            Ok(manifest) => Ok(manifest),
            Err(error) => bad(format!("is damaged: {error}"), DAMAGED),
        }
    }
}

pub(super) const DAMAGED: &str = "resume from an older checkpoint with --resume RUN:STEP";

/// The checksum of a value as compact JSON, whose order of names is that of the alphabet.
fn digest(value: &Value) -> String {
    format!("{:016x}", xxh3_64(value.to_string().as_bytes()))
}
