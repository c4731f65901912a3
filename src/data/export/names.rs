//! What exports call their files and folders, so that they are known again when they are to be replaced.

use std::collections::HashMap;

use super::Format;
use crate::data::Dataset;
use crate::{Error, Result};

/// The longest name that file systems take, in bytes.
const LONGEST: usize = 255;

/// File `i` of so many with TensorFlow's records.
pub(super) fn part(i: usize, files: usize) -> String {
    format!("part-{i:05}-of-{files:05}.tfrecord")
}

/// The PNG file of a sample.
pub(super) fn sample(index: usize) -> String {
    format!("{index:08}.png")
}

/// Whether an export of this format calls a file so.
pub(super) fn is_file(name: &str, format: Format) -> bool {
    match format {
        Format::Tfrecord(_) => is_part(name).unwrap_or(false),
        Format::Idx => matches!(
            name,
            "images-idx3-ubyte" | "images-idx4-ubyte" | "labels-idx1-ubyte"
        ),
        Format::Png => {
            let number = name.strip_suffix(".png").and_then(|n| n.parse().ok());
            number.is_some_and(|number| sample(number) == name)
        }
        Format::Npy => matches!(name, "images.npy" | "labels.npy"),
    }
}

fn is_part(name: &str) -> Option<bool> {
    let numbers = name.strip_prefix("part-")?.strip_suffix(".tfrecord")?;
    let (i, files) = numbers.split_once("-of-")?;
    let (i, files) = (i.parse().ok()?, files.parse().ok()?);
    Some(i < files && part(i, files) == name)
}

/// Whether the folder of a class can be called so.
pub(super) fn is_folder(name: &str) -> bool {
    let odd = |c: char| c == '/' || c.is_control();
    !name.is_empty() && name.len() <= LONGEST && !name.starts_with('.') && !name.contains(odd)
}

/// The folder of each class: called as the class is, or by its number where there is no name that a folder can have.
pub(super) fn folders(data: &Dataset) -> Result<Vec<String>> {
    let mut classes = HashMap::new();
    let folder = |class: u32| {
        let name = data.class_names.get(class as usize);
        let name = name.filter(|name| is_folder(name)).cloned();
        let name = name.unwrap_or_else(|| class.to_string());
        match classes.insert(name.clone(), class) {
            None => Ok(name),
            Some(other) => Err(Error::Mismatch {
                what: format!("classes {other} and {class} of {}", data.path.display()),
                expected: "a folder for each".into(),
                got: format!("`{name}` for both"),
                hint: "`phalanx data export tfrecord` and `npy` take classes of any names",
            }),
        }
    };
    (0..data.classes).map(folder).collect()
}
