//! `phalanx replay`: a recorded asynchronous run once more, on one rank.

use std::fs;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::device::Chosen;
use super::train::{Plan, Sets};
use crate::backend::{Gemm, Wanted};
use crate::comm::{Comm, threads_of_one_rank};
use crate::data::Loader;
use crate::exchange::Record;
use crate::nn::{self, Crew};
use crate::observe::{Progress, say, table};
use crate::optim::Mover;
use crate::train::{Replay, RunFolder, Trainer, UPDATES, checksum};
use crate::{Error, Result, cli};

/// The most ranks of a record: more were never started.
const MOST_RANKS: usize = 1 << 20;

/// What to repeat.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The run folder.
    pub run: PathBuf,
    /// Where the model goes, if anywhere.
    pub out: Option<PathBuf>,
}

/// What a record begins with, in `updates/run.json`.
#[derive(Serialize, Deserialize)]
pub(super) struct Header {
    phalanx: String,
    /// The command's arguments, and the folder it was given in.
    arguments: Vec<String>,
    folder: PathBuf,
    ranks: usize,
    parameters: usize,
    /// How convolutions work, in numbers; empty where that was not measured.
    methods: Vec<u64>,
}

impl Header {
    /// Begins a record; gives its folder.
    pub(super) fn write(
        comm: &dyn Comm,
        folder: &RunFolder,
        trainer: &Trainer,
        methods: &[u64],
    ) -> Result<PathBuf> {
        let path = folder.file(UPDATES);
        fs::create_dir_all(&path).map_err(Error::io("create folder", &path))?;
        let here = std::env::current_dir().map_err(Error::io("find", Path::new(".")))?;
        let header = Self {
            phalanx: env!("CARGO_PKG_VERSION").into(),
            arguments: std::env::args().skip(1).collect(),
            folder: here,
            ranks: comm.size(),
            parameters: trainer.model().params(),
            methods: methods.to_vec(),
        };
        let text = serde_json::to_string_pretty(&header).expect("plain values");
        crate::files::write_text(&path.join("run.json"), &text)?;
        Ok(path)
    }

    fn read(folder: &Path) -> Result<Self> {
        let path = folder.join("run.json");
        let text = fs::read_to_string(&path).map_err(|error| {
            let hint = "give the folder of a run that was trained with --record";
            Error::file(&path, error, hint)
        })?;
        let header: Self = serde_json::from_str(&text)
            .map_err(|error| Error::file(&path, error, "the record is damaged"))?;
        if !(1..=MOST_RANKS).contains(&header.ranks) {
            let problem = format!("is of {} ranks", header.ranks);
            return Err(Error::file(&path, problem, "the record is damaged"));
        }
        Ok(header)
    }
}

/// Repeats the run, on one rank.
pub fn run(settings: &Settings) -> Result<()> {
    let folder = settings.run.join(UPDATES);
    let header = Header::read(&folder)?;
    let recorded = recorded_checksum(&settings.run)?;
    let mut train = cli::train_settings(&header.arguments)?;
    let place = |path: &mut PathBuf| *path = header.folder.join(&path);
    place(&mut train.data);
    train.test.iter_mut().for_each(place);
    let here = &threads_of_one_rank(1)[0];
    let chosen = Chosen::find(here, (Wanted::Cpu, Gemm::Own), None)?;
    let sets = Sets::open(here, &train, None)?;
    let (plan, model) = Plan::new((here, header.ranks), &train, sets, &chosen, None)?;
    let params = model.params();
    if params != header.parameters {
        return Err(Error::Mismatch {
            what: format!("parameters of {}", train.model),
            expected: header.parameters.to_string(),
            got: params.to_string(),
            hint: "the model is not the one that was recorded",
        });
    }
    let mut crew = Crew::new(model, train.threads)?;
    crew.choose(&header.methods);
    let (data, scaling) = (plan.data.clone(), plan.scaling.clone());
    let shuffle = train.input.shuffle;
    let loader = Loader::shuffled(data, scaling, train.seed, &train.augment, shuffle);
    let mover = || Mover::new(train.rule.build(crew.model().tensors(), train.clip_norm));
    let workers = (0..header.ranks)
        .map(|rank| Ok((Record::open(&folder, rank, params)?, mover())))
        .collect::<Result<Vec<_>>>()?;
    let updates: u64 = workers.iter().map(|(record, _)| record.left()).sum();
    let start = std::time::Instant::now();
    let bar = Progress::new("updates", updates);
    let init = crew.model().init(train.init, train.seed);
    let mut replay = Replay {
        crew,
        loader,
        steps: plan.steps.clone(),
        schedule: plan.schedule.clone(),
        seed: train.seed,
    };
    let params = replay.run(init, workers, |made| bar.add(made))?;
    drop(bar);
    let checksum = format!("{:016x}", checksum(replay.crew.model(), &params));
    if let Some(out) = &settings.out {
        let samples = (&plan.scaling, &plan.data.origin());
        nn::save(out, replay.crew.model(), &params, samples)?;
    }
    let rows = [
        ("run", settings.run.display().to_string()),
        ("ranks", header.ranks.to_string()),
        ("updates", updates.to_string()),
        ("time", format!("{:.2} s", start.elapsed().as_secs_f64())),
        ("checksum", checksum.clone()),
        ("recorded", recorded.clone()),
    ];
    say(&table("replay", &rows));
    if checksum != recorded {
        return Err(Error::Mismatch {
            what: "checksum of the parameters".into(),
            expected: recorded,
            got: checksum,
            hint: "the data, the program or the machine's kind of processor is not the one of the recorded run",
        });
    }
    Ok(())
}

/// The checksum that the run ended with.
fn recorded_checksum(run: &Path) -> Result<String> {
    #[derive(Deserialize)]
    struct Ended {
        checksum: String,
    }
    let path = run.join("result.toml");
    let text = fs::read_to_string(&path).map_err(|error| {
        let hint = "the run did not come to its end: there is nothing to compare with";
        Error::file(&path, error, hint)
    })?;
    let ended: Ended = toml::from_str(&text)
        .map_err(|error| Error::file(&path, error, "the result is damaged"))?;
    Ok(ended.checksum)
}
