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

/// Writes one event file.
pub struct EventFile {
    file: BufWriter<File>,
    path: PathBuf,
}

impl EventFile {
    /// A new file in `folder`, which is made.
    pub fn create(folder: &Path) -> Result<Self> {
        fs::create_dir_all(folder).map_err(Error::io("create folder", folder))?;
        let host = hostname::get().map_or("host".into(), |name| name.to_string_lossy().into_owned());
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

    /// Goes on in the file that is in `folder`, without its events behind `step`; a new one where there is none.
    pub fn resume(folder: &Path, step: u64) -> Result<Self> {
        let Some(path) = newest(folder) else {
            return Self::create(folder);
        };
        let end = end_of(&path, step).map_err(Error::io("read", &path))?;
        let open = || {
            let file = OpenOptions::new().append(true).open(&path)?;
            file.set_len(end)?;
            Ok(file)
        };
        let file = open().map_err(Error::io("write", &path))?;
        Ok(Self {
            file: BufWriter::new(file),
            path,
        })
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

    /// How `values` are spread at `step`.
    pub fn histogram(&mut self, step: u64, tag: &str, values: &[f32]) -> Result<()> {
        let Some(histogram) = histogram::of(values) else {
            return Ok(());
        };
        self.value(step, tag, None, Content::Histogram(histogram))
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
    pub fn begin_run(&mut self, settings: &BTreeMap<String, Setting>, metrics: &[&str]) -> Result<()> {
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
        self.session("experiment", Session::Experiment(experiment))?;
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
        self.session("session_start_info", Session::Start(start))
    }

    /// The run ended well.
    pub fn end_run(&mut self) -> Result<()> {
        let end = proto::End {
            status: 1,
            time: now(),
        };
        self.session("session_end_info", Session::End(end))
    }

    /// Makes all so far visible to a TensorBoard that looks on.
    pub fn flush(&mut self) -> Result<()> {
        self.file.flush().map_err(Error::io("write", &self.path))
    }

    fn session(&mut self, what: &str, session: Session) -> Result<()> {
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
        self.value(0, &tag, Some(plugin), Content::Tensor(nothing))
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

/// Where the first event behind `step`, or the first that is not whole, begins.
fn end_of(path: &Path, step: u64) -> std::io::Result<u64> {
    let mut records = Records::new(BufReader::new(File::open(path)?));
    loop {
        let begin = records.offset();
        match records.next() {
            Ok(Some(bytes)) => match Event::decode(bytes) {
                Ok(event) if event.step as u64 <= step => {}
                _ => return Ok(begin),
            },
            Err(tfrecord::Broken::Io(error)) => return Err(error),
            // A killed writer may leave half of an event.
            Ok(None) | Err(_) => return Ok(begin),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn steps(folder: &Path) -> Vec<i64> {
        let file = File::open(newest(folder).unwrap()).unwrap();
        let mut records = Records::new(BufReader::new(file));
        let mut steps = Vec::new();
        while let Some(bytes) = records.next().unwrap() {
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
        let mut file = EventFile::resume(folder.path(), 3).unwrap();
        for step in 4..=6 {
            file.scalars(step, [("loss", 1.0)]).unwrap();
        }
        file.flush().unwrap();
        assert_eq!(steps(folder.path()), [0, 1, 2, 3, 4, 5, 6]);
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    }
}
