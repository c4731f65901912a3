//! Event files that any TensorBoard reads.
//!
//! One file for each rank in a folder of its own. Events are in the order of their steps, so that a run that goes on from a
//! checkpoint cuts off what is behind it and appends: no point is there twice, and none is missing.

mod histogram;
mod proto;

use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io::{BufReader, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use prost::{Message, Oneof};

use crate::tfrecord::{self, Records};
use crate::{Error, Result};
use proto::{Attribute, Content, Event, Metadata, Plugin, Session, What};

/// How the names of results begin.
pub const RESULT: &str = "result/";

/// A hyper-parameter's value.
#[derive(Clone, PartialEq, Oneof)]
pub enum Setting {
    /// A number.
    #[prost(double, tag = "2")]
    Number(f64),
    /// Words.
    #[prost(string, tag = "3")]
    Words(String),
    /// Yes or no.
    #[prost(bool, tag = "4")]
    Flag(bool),
}

/// A layer, for the picture of the model.
#[derive(Clone, Debug)]
pub struct Block {
    /// Its name; a slash puts it into a group.
    pub name: String,
    /// What kind of layer it is.
    pub kind: String,
    /// What it says of itself.
    pub words: String,
    /// The shape of what it gives, without the batch.
    pub shape: Vec<usize>,
}

/// How values are spread.
pub struct Spread {
    name: String,
    histogram: proto::Histogram,
}

impl Spread {
    /// Of the finite ones among `values`, if there are any.
    pub fn of(name: String, values: &[f32]) -> Option<Self> {
        let histogram = histogram::of(values)?;
        Some(Self { name, histogram })
    }
}

/// Writes one event file.
pub struct EventFile {
    file: BufWriter<File>,
    path: PathBuf,
}

impl EventFile {
    /// A new file in `folder`, which is made.
    pub fn create(folder: &Path) -> Result<Self> {
        fs::create_dir_all(folder).map_err(Error::io("create folder", folder))?;
        let host =
            hostname::get().map_or("host".into(), |name| name.to_string_lossy().into_owned());
        let (seconds, process) = (now() as u64, std::process::id());
        let path = folder.join(format!("events.out.tfevents.{seconds}.{host}.{process}"));
        let file = File::create(&path).map_err(Error::io("create", &path))?;
        let mut written = Self {
            file: BufWriter::new(file),
            path,
        };
        written.event(0, What::FileVersion("brain.Event:2".into()))?;
        written.flush()?;
        Ok(written)
    }

    /// Goes on in the file that is in `folder`, without its events behind `step`, and tells the step of the last that is left; a
    /// new one where there is none.
    pub fn resume(folder: &Path, step: u64) -> Result<(Self, Option<u64>)> {
        let Some((path, file, last)) = cut(folder, step)? else {
            return Self::create(folder).map(|file| (file, None));
        };
        let file = BufWriter::new(file);
        Ok((Self { file, path }, Some(last)))
    }

    /// Numbers of `step` by their names.
    pub fn scalars<'a>(
        &mut self,
        step: u64,
        values: impl IntoIterator<Item = (&'a str, f64)>,
    ) -> Result<()> {
        let value = |(tag, number): (&str, f64)| proto::Value {
            tag: tag.into(),
            metadata: None,
            content: Some(Content::Scalar(number as f32)),
        };
        let values = values.into_iter().map(value).collect();
        self.event(step, What::Summary(proto::Summary { values }))
    }

    /// How some values are spread at `step`.
    pub fn spread(&mut self, step: u64, spread: &Spread) -> Result<()> {
        let content = Content::Histogram(spread.histogram.clone());
        self.value(step, &spread.name, None, content)
    }

    /// A text in Markdown.
    pub fn text(&mut self, step: u64, tag: &str, text: &str) -> Result<()> {
        let tensor = proto::Tensor {
            kind: 7,
            shape: Some(proto::Shape::default()),
            strings: vec![text.as_bytes().to_vec()],
        };
        let content = Content::Tensor(tensor);
        self.value(step, tag, Some(plugin("text", Vec::new())), content)
    }

    /// The picture of a model: one block behind the other.
    pub fn graph(&mut self, blocks: &[Block]) -> Result<()> {
        let mut before: Option<&str> = None;
        let mut nodes = Vec::new();
        for block in blocks {
            let sizes = block.shape.iter().map(|&size| size as i64);
            // The batch may have any size.
            let dims = std::iter::once(-1).chain(sizes);
            let dims = dims.map(|size| proto::Dim { size }).collect();
            let shapes = proto::Shapes {
                shapes: vec![proto::Shape { dims }],
            };
            let attribute = |setting| Attribute {
                setting: Some(setting),
            };
            nodes.push(proto::Node {
                name: block.name.clone(),
                op: block.kind.clone(),
                inputs: before.into_iter().map(str::to_owned).collect(),
                attributes: BTreeMap::from([
                    (
                        "_output_shapes".into(),
                        attribute(proto::Setting::List(shapes)),
                    ),
                    (
                        "settings".into(),
                        attribute(proto::Setting::Words(block.words.clone().into_bytes())),
                    ),
                ]),
            });
            before = Some(&block.name);
        }
        let graph = proto::Graph {
            nodes,
            versions: Some(proto::Versions { producer: 22 }),
        };
        self.event(0, What::Graph(graph.encode_to_vec()))
    }

    /// What the run was started with, and the names of the numbers that tell how it went.
    pub fn begin_run(
        &mut self,
        settings: &BTreeMap<String, Setting>,
        metrics: &[&str],
    ) -> Result<()> {
        let kind = |setting: &Setting| match setting {
            Setting::Words(_) => 1,
            Setting::Flag(_) => 2,
            Setting::Number(_) => 3,
        };
        let parameters = settings.iter().map(|(name, setting)| proto::Parameter {
            name: name.clone(),
            kind: kind(setting),
        });
        let metrics = metrics.iter().map(|tag| proto::Metric {
            name: Some(proto::MetricName {
                tag: (*tag).to_owned(),
            }),
        });
        let experiment = proto::Experiment {
            parameters: parameters.collect(),
            metrics: metrics.collect(),
        };
        self.session(0, "experiment", Session::Experiment(experiment))?;
        let given = |setting: &Setting| proto::Given {
            value: Some(setting.clone()),
        };
        let parameters = settings
            .iter()
            .map(|(name, setting)| (name.clone(), given(setting)));
        let start = proto::Start {
            parameters: parameters.collect(),
            time: now(),
        };
        self.session(0, "session_start_info", Session::Start(start))
    }

    /// The run ended well, at `step`, with these numbers by name.
    pub fn end_run(&mut self, step: u64, results: &[(&str, f64)]) -> Result<()> {
        let names: Vec<String> = results
            .iter()
            .map(|(name, _)| format!("{RESULT}{name}"))
            .collect();
        let values = names.iter().zip(results);
        self.scalars(
            step,
            values.map(|(name, (_, value))| (name.as_str(), *value)),
        )?;
        let end = proto::End {
            status: 1,
            time: now(),
        };
        self.session(step, "session_end_info", Session::End(end))
    }

    /// Makes all so far visible to a TensorBoard that looks on.
    pub fn flush(&mut self) -> Result<()> {
        self.file.flush().map_err(Error::io("write", &self.path))
    }

    fn session(&mut self, step: u64, what: &str, session: Session) -> Result<()> {
        let data = proto::HParams {
            version: 0,
            session: Some(session),
        };
        let nothing = proto::Tensor {
            kind: 1,
            shape: Some(proto::Shape::default()),
            strings: Vec::new(),
        };
        let plugin = plugin("hparams", data.encode_to_vec());
        let tag = format!("_hparams_/{what}");
        self.value(step, &tag, Some(plugin), Content::Tensor(nothing))
    }

    fn value(
        &mut self,
        step: u64,
        tag: &str,
        metadata: Option<Metadata>,
        content: Content,
    ) -> Result<()> {
        let values = vec![proto::Value {
            tag: tag.into(),
            metadata,
            content: Some(content),
        }];
        self.event(step, What::Summary(proto::Summary { values }))
    }

    fn event(&mut self, step: u64, what: What) -> Result<()> {
        let event = Event {
            wall_time: now(),
            step: step as i64,
            what: Some(what),
        };
        tfrecord::write(&mut self.file, &event.encode_to_vec())
            .map_err(Error::io("write", &self.path))
    }
}

fn plugin(name: &str, content: Vec<u8>) -> Metadata {
    Metadata {
        plugin: Some(Plugin {
            name: name.into(),
            content,
        }),
        class: 2,
    }
}

/// Seconds since 1970, as TensorBoard counts time.
fn now() -> f64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0.0, |time| time.as_secs_f64())
}

/// The event file in `folder` that was begun last.
fn newest(folder: &Path) -> Option<PathBuf> {
    let entries = fs::read_dir(folder).ok()?.flatten();
    let files = entries.map(|entry| entry.path());
    files
        .filter(|path| path.to_string_lossy().contains(".tfevents."))
        .max()
}

/// Cuts events behind `step` from the file in `folder`, if there is one that begins as such: gives the file, to be appended to, and
/// the step of its last event.
pub fn cut(folder: &Path, step: u64) -> Result<Option<(PathBuf, File, u64)>> {
    let Some(path) = newest(folder) else {
        return Ok(None);
    };
    let (end, last) = end_of(&path, step).map_err(Error::io("read", &path))?;
    let open = || {
        let file = OpenOptions::new().append(true).open(&path)?;
        file.set_len(end)?;
        Ok(file)
    };
    let file = open().map_err(Error::io("write", &path))?;
    Ok((end > 0).then_some((path, file, last)))
}

/// Where the first event begins that is behind `step`, or tells of an end, or is not whole; and the step of the one before it.
fn end_of(path: &Path, step: u64) -> std::io::Result<(u64, u64)> {
    let mut records = Records::new(BufReader::new(File::open(path)?));
    let mut last = 0;
    loop {
        let begin = records.offset();
        match records.read() {
            Ok(Some(bytes)) => match Event::decode(bytes) {
                Ok(event) if event.step as u64 <= step && !is_end(&event) => {
                    last = event.step as u64
                }
                _ => return Ok((begin, last)),
            },
            Err(tfrecord::Broken::Io(error)) => return Err(error),
            // A killed writer may leave half of an event.
            Ok(None) | Err(_) => return Ok((begin, last)),
        }
    }
}

/// Whether it tells how the run has ended: one that goes on has not.
fn is_end(event: &Event) -> bool {
    match &event.what {
        Some(What::Summary(summary)) => {
            let mut values = summary.values.iter();
            values.any(|value| value.tag.starts_with(RESULT))
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn steps(folder: &Path) -> Vec<i64> {
        let file = File::open(newest(folder).unwrap()).unwrap();
        let mut records = Records::new(BufReader::new(file));
        let mut steps = Vec::new();
        while let Some(bytes) = records.read().unwrap() {
            steps.push(Event::decode(bytes).unwrap().step);
        }
        steps
    }

    #[test]
    fn a_resumed_file_has_every_step_once() {
        let folder = tempfile::tempdir().unwrap();
        let mut file = EventFile::create(folder.path()).unwrap();
        for step in 1..=5 {
            file.scalars(step, [("loss", 1.0)]).unwrap();
        }
        file.flush().unwrap();
        // Killed in the middle of an event.
        let path = newest(folder.path()).unwrap();
        let whole = fs::metadata(&path).unwrap().len();
        let cut = OpenOptions::new().write(true).open(&path).unwrap();
        cut.set_len(whole - 3).unwrap();
        let (mut file, last) = EventFile::resume(folder.path(), 3).unwrap();
        assert_eq!(last, Some(3));
        for step in 4..=6 {
            file.scalars(step, [("loss", 1.0)]).unwrap();
        }
        file.flush().unwrap();
        assert_eq!(steps(folder.path()), [0, 1, 2, 3, 4, 5, 6]);
        // It had ended, and goes on from its last checkpoint.
        file.end_run(6, &[("loss", 1.0)]).unwrap();
        file.flush().unwrap();
        assert_eq!(steps(folder.path()).len(), 9);
        let (_, last) = EventFile::resume(folder.path(), 6).unwrap();
        assert_eq!((last, steps(folder.path()).len()), (Some(6), 7));
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    }
}
