//! What looks on while a run goes on: event files, and the thread that samples resources.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::settings::Events as Wanted;
use super::{Plan, Settings};
use crate::Result;
use crate::backend::cuda::Facts;
use crate::comm::Comm;
use crate::nn::Model;
use crate::observe::resources::{Pulse, Sampler, Who};
use crate::observe::tensorboard::{self, Block, EventFile, RESULT, Setting};
use crate::train::{Events, Journal, Tap, Trainer, rank_folder};

/// Where a rank is, and where it writes.
pub(super) struct Place {
    rank: usize,
    ranks: usize,
    is_first: bool,
    /// The run folder, and the rank's own in it.
    run: PathBuf,
    folder: PathBuf,
    /// The step that the run goes on from.
    gone: Option<u64>,
}

impl Place {
    pub(super) fn new(comm: &dyn Comm, run: &Path, gone: Option<u64>) -> Self {
        Self {
            rank: comm.rank(),
            ranks: comm.size(),
            is_first: comm.local_rank() == 0,
            run: run.to_path_buf(),
            folder: rank_folder(run, comm.rank()),
            gone,
        }
    }
}

/// Has all that is wanted look on at this rank, on a device if it has one; gives what samples it.
pub(super) fn attach(
    settings: &Settings,
    plan: &Plan,
    (place, device): (&Place, Option<&Facts>),
    (trainer, journal): (&mut Trainer, &mut Journal),
) -> Sampler {
    let pulse = Arc::new(Pulse::default());
    let wanted = settings.observe.tensorboard;
    let events = match wanted {
        Wanted::Off => None,
        _ => match open(settings, place, trainer.model()) {
            Ok((file, last)) => {
                let watched = settings.watched();
                Some(Events::new(
                    file,
                    (plan.log_every, last),
                    watched,
                    pulse.clone(),
                ))
            }
            Err(error) => {
                Events::warn(&error);
                None
            }
        },
    };
    if wanted == Wanted::On && events.is_some() && place.rank == 0 {
        let taken = place.gone.unwrap_or(0);
        trainer.tap = Some(Tap::new(plan.eval_every, taken, trainer.steps()));
    }
    journal.attach(pulse.clone(), events);
    let who = Who {
        rank: place.rank,
        ranks: place.ranks,
        is_first: place.is_first,
        folder: place.folder.clone(),
        gpu: device.and_then(|facts| facts.address.clone()),
    };
    let from = place.gone.map(|step| (step, trainer.times.past()));
    Sampler::open(settings.observe.resources, who, pulse, from)
}

/// The rank's event file, and the step of its last row.
fn open(settings: &Settings, place: &Place, model: &Model) -> Result<(EventFile, u64)> {
    let (mut file, last) = match place.gone {
        None => (EventFile::create(&place.folder)?, None),
        Some(step) => {
            // Of a run that goes on with fewer ranks, nobody else would.
            for rank in (place.rank + place.ranks..).step_by(place.ranks) {
                let folder = rank_folder(&place.run, rank);
                if !folder.is_dir() {
                    break;
                }
                tensorboard::cut(&folder, step)?;
            }
            EventFile::resume(&place.folder, step)?
        }
    };
    if last.is_none() && place.rank == 0 {
        begin(&mut file, settings, place, model)?;
    }
    file.flush()?;
    Ok((file, last.or(place.gone).unwrap_or(0)))
}

/// What an event file of the first rank begins with: settings, in words and as hyper-parameters, and the model.
fn begin(file: &mut EventFile, settings: &Settings, place: &Place, model: &Model) -> Result<()> {
    let path = place.run.join("settings.toml");
    let text = fs::read_to_string(&path).map_err(crate::Error::io("read", &path))?;
    let indented: Vec<String> = text.lines().map(|line| format!("    {line}")).collect();
    file.text(0, "settings", &indented.join("\n"))?;
    let table: toml::Table = text.parse().unwrap_or_default();
    let mut given = BTreeMap::new();
    flatten(&table, "", &mut given);
    let mut results = vec!["seconds", "samples_per_s"];
    if settings.validation.is_some() {
        results.extend(["validation_loss", "validation_accuracy"]);
    }
    if settings.test.is_some() {
        results.extend(["test_loss", "test_accuracy"]);
    }
    let results: Vec<String> = results
        .iter()
        .map(|name| format!("{RESULT}{name}"))
        .collect();
    let mut metrics: Vec<&str> = results.iter().map(String::as_str).collect();
    metrics.push("train/loss");
    file.begin_run(&given, &metrics)?;
    file.graph(&blocks(model))
}

/// Numbers, words and flags of a table and of those in it, by name; lists are left out.
fn flatten(table: &toml::Table, before: &str, to: &mut BTreeMap<String, Setting>) {
    for (name, value) in table {
        // What was typed is in the text, and folders of this machine tell nothing apart.
        if ["command", "folder", "phalanx"].contains(&name.as_str()) {
            continue;
        }
        let setting = match value {
            toml::Value::Table(inner) => {
                // All of `resolved` is: its name would only be in the way.
                let before = match name.as_str() {
                    "resolved" => String::new(),
                    name => format!("{before}{name}."),
                };
                flatten(inner, &before, to);
                continue;
            }
            toml::Value::String(words) => Setting::Words(words.clone()),
            toml::Value::Integer(number) => Setting::Number(*number as f64),
            toml::Value::Float(number) => Setting::Number(*number),
            toml::Value::Boolean(flag) => Setting::Flag(*flag),
            toml::Value::Array(_) | toml::Value::Datetime(_) => continue,
        };
        to.insert(format!("{before}{name}"), setting);
    }
}

/// The model's layers, with names that TensorBoard takes.
fn blocks(model: &Model) -> Vec<Block> {
    let input = Block {
        name: "input".into(),
        kind: "input".into(),
        words: String::new(),
        shape: vec![model.input.c, model.input.h, model.input.w],
    };
    let layers = model.summary().into_iter().enumerate();
    let layers = layers.map(|(i, layer)| Block {
        name: format!("{i}.{}", layer.name),
        kind: layer.name.into(),
        words: format!(
            "{} parameters, {:.3} MFLOP forward",
            layer.params,
            layer.flops / 1e6
        ),
        shape: vec![layer.output.c, layer.output.h, layer.output.w],
    });
    std::iter::once(input).chain(layers).collect()
}
