//! `manifest.json`: what a set of photos holds, and what it could not.

use std::fs;
use std::path::Path;

use serde::{Deserialize, Serialize};

use super::{Pack, Records, Report};
use crate::data::MANIFEST;
use crate::{Error, Result, files};

/// A shard, as the manifest tells of it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct ShardFile {
    pub(super) file: String,
    pub(super) samples: usize,
    pub(super) bytes: u64,
    pub(super) xxh3: String,
}

#[derive(Serialize)]
struct Manifest<'a> {
    format: &'static str,
    version: u32,
    records: Records,
    shape: [usize; 3],
    fit: String,
    samples: u64,
    classes: Vec<Class<'a>>,
    shards: &'a [ShardFile],
    failures: Vec<Failure<'a>>,
}

#[derive(Serialize)]
struct Class<'a> {
    name: &'a str,
    samples: u64,
}

#[derive(Serialize)]
struct Failure<'a> {
    photo: &'a str,
    reason: &'a str,
}

/// Brings the manifest of a set to the disk, into its folder, which nobody sees yet.
pub(super) fn write(
    folder: &Path,
    pack: &Pack,
    report: &Report,
    shards: &[ShardFile],
) -> Result<()> {
    let classes = report.classes.iter();
    let failures = report.failures.iter();
    let manifest = Manifest {
        format: "phalanx photos",
        version: 1,
        records: pack.records,
        shape: [pack.shape.c, pack.shape.h, pack.shape.w],
        fit: pack.fit.to_string(),
        samples: report.samples,
        classes: classes
            .map(|(name, samples)| Class {
                name,
                samples: *samples,
            })
            .collect(),
        shards,
        failures: failures
            .map(|(photo, reason)| Failure { photo, reason })
            .collect(),
    };
    let text = serde_json::to_string_pretty(&manifest).expect("plain values");
    let path = folder.join(MANIFEST);
    fs::write(&path, format!("{text}\n")).map_err(Error::io("write", &path))?;
    files::sync(&path)
}
