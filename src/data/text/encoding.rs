//! How text became rows, as a set tells it and another import may take it over.

use std::path::Path;

use serde::{Deserialize, Serialize};

use super::features::{HASHING, Numeric};
use super::table::Scheme;
use crate::data::rows::RowSet;
use crate::data::shard_paths;
use crate::{Error, Result};

/// All that decides which numbers a line becomes. Written into every shard as JSON.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "format", rename_all = "lowercase")]
pub enum Encoding {
    /// Features have numbers already.
    Libsvm {
        /// How many there are.
        features: usize,
        /// The first one's number in the text.
        base: u32,
    },
    /// Click logs.
    Criteo {
        /// How many features there are.
        features: usize,
        /// Version of the hashing.
        hashing: u32,
        /// What became of integers.
        numeric: Numeric,
    },
    /// A table of named columns.
    Csv {
        /// How many features there are.
        features: usize,
        /// Version of the hashing.
        hashing: u32,
        /// What its columns are for.
        #[serde(flatten)]
        scheme: Scheme,
    },
    /// Named features in namespaces.
    Vw {
        /// How many features there are.
        features: usize,
        /// Version of the hashing.
        hashing: u32,
    },
}

impl Encoding {
    /// How many features there are.
    pub fn features(&self) -> usize {
        match self {
            Self::Libsvm { features, .. }
            | Self::Criteo { features, .. }
            | Self::Csv { features, .. }
            | Self::Vw { features, .. } => *features,
        }
    }

    /// The version of the hashing, where features are hashed.
    pub fn hashing(&self) -> Option<u32> {
        match self {
            Self::Libsvm { .. } => None,
            Self::Criteo { hashing, .. } | Self::Csv { hashing, .. } | Self::Vw { hashing, .. } => {
                Some(*hashing)
            }
        }
    }

    /// As it stands in the files.
    pub(super) fn text(&self) -> String {
        serde_json::to_string(self).expect("plain values have a text")
    }

    /// The encoding of the set at `path`.
    pub(super) fn of(path: &Path) -> Result<Self> {
        // One shard tells it: the others may be large.
        let first = &shard_paths(path)?[0];
        let RowSet { about, .. } = RowSet::open(first)?;
        let text = about.encoding;
        let bad = |why: String| {
            let problem = format!("its encoding cannot be taken over ({why}): {text:?}");
            let hint = "--like takes a set that the same kind of import made";
            Error::file(path, problem, hint)
        };
        let encoding: Self = serde_json::from_str(&text).map_err(|error| bad(error.to_string()))?;
        match encoding.hashing() {
            Some(version) if version != HASHING => Err(bad(format!(
                "hashing {version}, this program has {HASHING}"
            ))),
            _ if encoding.features() != about.features => Err(bad(format!(
                "of {} features, the set has {}",
                encoding.features(),
                about.features
            ))),
            _ => Ok(encoding),
        }
    }
}
