//! Writing a set in another format, visible only when complete.

use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use super::{names, place};
use crate::comm::block;
use crate::data::Dataset;
use crate::data::examples::{Example, Feature};
use crate::data::photos::{held, png_of_planes};
use crate::files::Staged;
use crate::observe::Progress;
use crate::{Error, Result, interrupt, tfrecord};

/// What to write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// TensorFlow's examples, in so many files: one is a plain file, more are in a folder.
    Tfrecord(usize),
    /// A folder with IDX files of images and labels.
    Idx,
    /// A folder with a folder of PNG files for each class.
    Png,
    /// A folder with `images.npy` and `labels.npy`.
    Npy,
}

/// Writes `data` as `out`.
pub fn export(data: &Dataset, format: Format, out: &Path, force: bool) -> Result<()> {
    check(data, format)?;
    place::check(data, format, out, force)?;
    let staged = Staged::new(out, force)?;
    let place = staged.path();
    if format != Format::Tfrecord(1) {
        fs::create_dir(place).map_err(Error::io("create folder", place))?;
    }
    match format {
        Format::Tfrecord(files) => examples(data, place, files)?,
        Format::Idx => idx(data, place)?,
        Format::Png => pngs(data, place)?,
        Format::Npy => npy(data, place)?,
    }
    staged.commit()
}

/// Refuses sets that the format cannot hold.
fn check(data: &Dataset, format: Format) -> Result<()> {
    let refused = |expected: &str, got: String| {
        Err(Error::Mismatch {
            what: format!("{} to export", data.path.display()),
            expected: expected.into(),
            got,
            hint: "`phalanx data export npy` takes any set of images",
        })
    };
    let bytes = data.element() == "u8";
    if format != Format::Npy && !bytes {
        return refused("images of bytes", "floats".into());
    }
    match format {
        Format::Tfrecord(_) | Format::Png if !matches!(data.shape.c, 1 | 3) => {
            refused("1 or 3 channels", data.shape.to_string())
        }
        Format::Tfrecord(files) if files > data.len() => Err(Error::Usage(format!(
            "{files} files asked for, 1 to {} are possible",
            data.len()
        ))),
        Format::Idx if data.classes > 256 => {
            refused("at most 256 classes", format!("{} classes", data.classes))
        }
        Format::Png => names::folders(data).map(|_| ()),
        _ => Ok(()),
    }
}

/// A file that is written in large pieces.
struct Out {
    file: BufWriter<File>,
    path: PathBuf,
}

impl Out {
    fn create(path: PathBuf) -> Result<Self> {
        let file = File::create(&path).map_err(Error::io("create", &path))?;
        Ok(Self {
            file: BufWriter::with_capacity(1 << 20, file),
            path,
        })
    }

    fn with(&mut self, write: impl FnOnce(&mut BufWriter<File>) -> io::Result<()>) -> Result<()> {
        write(&mut self.file).map_err(Error::io("write", &self.path))
    }

    fn put(&mut self, bytes: &[u8]) -> Result<()> {
        self.with(|file| file.write_all(bytes))
    }

    fn close(mut self) -> Result<()> {
        self.with(|file| file.flush())
    }
}

/// Goes through all samples.
fn each(data: &Dataset, visit: &mut dyn FnMut(usize) -> Result<()>) -> Result<()> {
    let progress = Progress::new("exporting", data.len() as u64);
    for index in 0..data.len() {
        interrupt::check()?;
        visit(index)?;
        progress.add(1);
    }
    Ok(())
}

/// The image of a sample as a file.
struct Picture {
    format: &'static str,
    bytes: Vec<u8>,
    /// Whether EXIF asks to turn it, or to see it in a mirror.
    turned: bool,
}

/// A sample as it is stored, if it is a JPEG file of which all can be decoded; else a PNG file.
fn picture(data: &Dataset, index: usize) -> Result<Picture> {
    let whole = |file: &[u8]| match held(file, data.shape.c)? {
        Ok(orientation) => Some(Ok(Picture {
            format: "jpeg",
            bytes: file.to_vec(),
            turned: orientation != 1,
        })),
        Err(problem) => Some(Err(Error::file(
            &data.path,
            format!("sample {index} {problem}"),
            "pack the photos again",
        ))),
    };
    let stored = data.with_record(index, |file| whole(file).transpose());
    match stored.transpose()?.flatten() {
        Some(picture) => Ok(picture),
        None => Ok(Picture {
            format: "png",
            bytes: png(data, index)?,
            turned: false,
        }),
    }
}

fn png(data: &Dataset, index: usize) -> Result<Vec<u8>> {
    data.with_bytes(index, |pixels| {
        png_of_planes(pixels, data.shape)
            .map_err(|problem| Error::file(&data.path, format!("sample {index} {problem}"), ""))
    })
}

fn examples(data: &Dataset, place: &Path, files: usize) -> Result<()> {
    let path = |i: usize| match files {
        1 => place.to_path_buf(),
        _ => place.join(names::part(i, files)),
    };
    let mut out = Out::create(path(0))?;
    let (mut number, mut turned) = (0, 0);
    each(data, &mut |index| {
        if index == block(data.len(), files, number).end {
            number += 1;
            std::mem::replace(&mut out, Out::create(path(number))?).close()?;
        }
        let picture = picture(data, index)?;
        turned += usize::from(picture.turned);
        let label = data.labels()[index];
        let mut features = vec![
            ("image/encoded", Feature::bytes(&picture.bytes)),
            ("image/format", Feature::bytes(picture.format.as_bytes())),
            ("image/class/label", Feature::integer(label.into())),
        ];
        // The size of what is encoded: a photo that is stored as it was has its own.
        if picture.format == "png" {
            let dims = [data.shape.h, data.shape.w, data.shape.c];
            let names = ["image/height", "image/width", "image/channels"];
            let sizes = dims.map(|dim| Feature::integer(dim as i64));
            features.extend(names.into_iter().zip(sizes));
        }
        if let Some(name) = data.class_names.get(label as usize) {
            features.push(("image/class/text", Feature::bytes(name.as_bytes())));
        }
        let example = Example::of(features).to_bytes();
        out.with(|file| tfrecord::write(file, &example))
    })?;
    if turned > 0 {
        log::warn!(
            "{turned} of {} samples are JPEG files that are upright only as their EXIF asks; TensorFlow's decode_jpeg does not turn them",
            data.len()
        );
    }
    out.close()
}

fn idx(data: &Dataset, place: &Path) -> Result<()> {
    let head = |dims: &[usize]| {
        let mut head = vec![0, 0, 8, dims.len() as u8];
        dims.iter()
            .for_each(|&dim| head.extend((dim as u32).to_be_bytes()));
        head
    };
    let (n, shape) = (data.len(), data.shape);
    let dims = match shape.c {
        1 => vec![n, shape.h, shape.w],
        c => vec![n, c, shape.h, shape.w],
    };
    let name = format!("images-idx{}-ubyte", dims.len());
    let mut images = Out::create(place.join(name))?;
    let mut labels = Out::create(place.join("labels-idx1-ubyte"))?;
    images.put(&head(&dims))?;
    labels.put(&head(&[n]))?;
    each(data, &mut |index| {
        data.with_bytes(index, |pixels| images.put(pixels))?;
        labels.put(&[data.labels()[index] as u8])
    })?;
    images.close()?;
    labels.close()
}

fn pngs(data: &Dataset, place: &Path) -> Result<()> {
    let folders = names::folders(data)?;
    for folder in &folders {
        let folder = place.join(folder);
        fs::create_dir(&folder).map_err(Error::io("create folder", &folder))?;
    }
    each(data, &mut |index| {
        let folder = &folders[data.labels()[index] as usize];
        let path = place.join(folder).join(names::sample(index));
        fs::write(&path, png(data, index)?).map_err(Error::io("write", &path))
    })
}

fn npy(data: &Dataset, place: &Path) -> Result<()> {
    let (n, shape) = (data.len(), data.shape);
    let kind = match data.element() {
        "u8" => "|u1",
        _ => "<f4",
    };
    let mut images = Out::create(place.join("images.npy"))?;
    let mut labels = Out::create(place.join("labels.npy"))?;
    let dims = format!("({n}, {}, {}, {})", shape.c, shape.h, shape.w);
    images.put(&npy_head(kind, &dims))?;
    labels.put(&npy_head("<i8", &format!("({n},)")))?;
    each(data, &mut |index| {
        data.with_bytes(index, |pixels| images.put(pixels))?;
        labels.put(&i64::from(data.labels()[index]).to_le_bytes())
    })?;
    images.close()?;
    labels.close()
}

/// The head of version 1.0 of NumPy's files: what is in it, filled up to a multiple of 64 bytes.
fn npy_head(kind: &str, dims: &str) -> Vec<u8> {
    let words = format!("{{'descr': '{kind}', 'fortran_order': False, 'shape': {dims}, }}");
    let length = (10 + words.len() + 1).next_multiple_of(64) - 10;
    let mut head = b"\x93NUMPY\x01\x00".to_vec();
    head.extend((length as u16).to_le_bytes());
    head.extend(format!("{words:<width$}\n", width = length - 1).as_bytes());
    head
}
