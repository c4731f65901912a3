//! Importing CIFAR-10 in its binary version: records of one label byte and 3 × 32 × 32 pixel bytes.

use std::fs::File;
use std::io::{BufReader, Read};
use std::path::{Path, PathBuf};

use super::{Description, SetWriter, Shape};
use crate::observe::Progress;
use crate::{Error, Result};

const SHAPE: Shape = Shape { c: 3, h: 32, w: 32 };
const RECORD: usize = 1 + 3 * 32 * 32;
const NAMES: [&str; 10] = [
    "airplane",
    "automobile",
    "bird",
    "cat",
    "deer",
    "dog",
    "frog",
    "horse",
    "ship",
    "truck",
];
const HINT: &str = "give the .bin files of the binary version of CIFAR-10";

/// Makes a set at `out` from `files`, in the order given.
pub fn import(files: &[PathBuf], out: &Path, shards: usize, force: bool) -> Result<()> {
    let counts = files
        .iter()
        .map(|file| count(file))
        .collect::<Result<Vec<_>>>()?;
    let samples = counts.iter().sum();
    let name = |path: &PathBuf| {
        path.file_name()
            .unwrap_or_default()
            .to_string_lossy()
            .into_owned()
    };
    let about = Description {
        samples,
        shape: SHAPE,
        classes: 10,
        class_names: NAMES.map(String::from).to_vec(),
        float: false,
        shards,
        provenance: format!(
            "CIFAR-10 binary files {}",
            files.iter().map(name).collect::<Vec<_>>().join(", ")
        ),
        force,
    };
    let mut writer = SetWriter::create(out, about)?;
    let progress = Progress::new("importing", samples as u64);
    for (path, n) in files.iter().zip(counts) {
        let mut file = BufReader::new(File::open(path).map_err(Error::io("read", path))?);
        let mut record = [0; RECORD];
        for i in 0..n {
            file.read_exact(&mut record)
                .map_err(Error::io("read", path))?;
            let [label, pixels @ ..] = &record;
            if *label > 9 {
                return Err(Error::file(
                    path,
                    format!("record {i} has label {label}, expected 0 to 9"),
                    HINT,
                ));
            }
            writer.push(pixels, u32::from(*label))?;
            progress.add(1);
        }
    }
    writer.finish()
}

/// Records in a file, which must be whole.
fn count(path: &Path) -> Result<usize> {
    let bytes = std::fs::metadata(path)
        .map_err(Error::io("read", path))?
        .len() as usize;
    if bytes == 0 || !bytes.is_multiple_of(RECORD) {
        let problem = format!("has {bytes} bytes, expected a multiple of {RECORD}");
        return Err(Error::file(path, problem, HINT));
    }
    Ok(bytes / RECORD)
}
