//! `phalanx bench train`: the speed of training in a steady state.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use super::train::BatchSize;
use crate::Result;
use crate::comm::{Comm, agree};
use crate::data::{Dataset, Description, Length, Loader, Scaling, SetWriter, Shape, Steps, digits};
use crate::exchange::{Exchange, Kind};
use crate::nn::zoo;
use crate::observe::{peak_memory_mb, say, table};
use crate::optim::{Schedule, Sgd};
use crate::train::{Parts, Reduce, Times, Trainer};

/// Different digits among the 60,000 of the built-in set: the speed does not depend on what is drawn.
const DISTINCT: usize = 2000;
/// More than are ever taken.
const STEPS: u64 = u64::MAX >> 8;

/// What to measure.
pub struct Settings {
    /// Name of the model.
    pub model: String,
    /// The data set, or none for the built-in one.
    pub data: Option<PathBuf>,
    /// Samples of a rank in a step.
    pub batch: usize,
    /// How ranks agree.
    pub exchange: Kind,
    /// How long.
    pub seconds: f64,
    /// Whether to print JSON.
    pub json: bool,
}

/// Measures and prints; *collective*.
pub fn run(comm: &dyn Comm, settings: &Settings) -> Result<()> {
    let data = open(comm, settings)?;
    let name = if settings.data.is_some() {
        data.path.display().to_string()
    } else {
        "digits".into()
    };
    let kind = settings.exchange.resolve(comm)?;
    let batch = BatchSize::PerRank(settings.batch).of_step(kind, comm.size());
    let model = zoo::build(&settings.model, data.shape, data.classes)?;
    let scaling = Scaling::unit(data.shape.c);
    let loader = Loader::new(data.clone(), scaling.clone(), 1);
    let parts = Parts {
        model,
        loader,
        scaling,
        steps: Steps::new(data.len(), batch, Length::Steps(STEPS)),
        reduce: Reduce::Mean,
        optimizer: Box::new(Sgd::default()),
        schedule: Schedule::constant(0.01),
        noise: None,
        seed: 1,
    };
    let mut trainer = Trainer::new(comm, parts);
    let mut exchange = kind.start(comm, &trainer.params)?;

    // Warm up, and learn how many steps fill the time; every rank takes the same number.
    let mut steps = 20;
    let warm = Instant::now();
    let mut rate = 0.0;
    while warm.elapsed().as_secs_f64() < settings.seconds / 4.0 || rate == 0.0 {
        rate = steps as f64 / take(comm, &mut trainer, &mut *exchange, steps)?;
        steps = agreed(comm, (rate * settings.seconds / 20.0).ceil() as u64);
        if agreed(
            comm,
            u64::from(warm.elapsed().as_secs_f64() >= settings.seconds / 4.0),
        ) > 0
        {
            break;
        }
    }
    let steps = agreed(comm, (rate * settings.seconds).ceil() as u64).max(1);
    trainer.times = Times::start();
    let seconds = take(comm, &mut trainer, &mut *exchange, steps)?;
    trainer.settle(exchange)?;

    let mut memory = [peak_memory_mb()];
    comm.sum(&mut memory);
    let mut sums: [f64; 4] = trainer.times.parts().map(|(_, time)| time);
    comm.sum(&mut sums);
    let mut samples = [trainer.times.samples];
    comm.sum(&mut samples);
    if comm.rank() > 0 {
        return Ok(());
    }
    let speed = samples[0] as f64 / seconds;
    let gflops = speed * trainer.model.flops() / 1e9;
    let names = trainer.times.parts().map(|(name, _)| name);
    let share = |i: usize| sums[i] / (seconds * comm.size() as f64);
    if settings.json {
        let line = serde_json::json!({
            "peer": "phalanx", "workload": format!("{}:{name}", settings.model), "procs": comm.size(), "threads": 1,
            "batch": settings.batch, "examples_per_s": speed, "s_per_batch": seconds / steps as f64,
            "rss_mb": memory[0], "steps": steps, "seconds": seconds, "gflops": gflops,
            "compute": share(0), "exchange": share(1), "wait": share(2), "load": share(3),
        });
        say(&line.to_string());
        return Ok(());
    }
    let shares: Vec<String> = names
        .iter()
        .enumerate()
        .map(|(i, name)| format!("{name} {:.1} %", 100.0 * share(i)))
        .collect();
    let rows = [
        (
            "work",
            format!(
                "{} on {name}, batch {} a rank",
                settings.model, settings.batch
            ),
        ),
        ("ranks", comm.size().to_string()),
        ("exchange", kind.describe().to_owned()),
        (
            "measured",
            format!(
                "{steps} steps a rank in {seconds:.2} s, {:.1} µs each",
                1e6 * seconds / steps as f64
            ),
        ),
        ("samples/s", format!("{speed:.0}")),
        (
            "GFLOP/s",
            format!("{gflops:.1}, {:.1} a rank", gflops / comm.size() as f64),
        ),
        ("where time went", shares.join(", ")),
        ("memory", format!("{:.0} MiB over all ranks", memory[0])),
    ];
    say(&table("bench train", &rows));
    Ok(())
}

/// Takes `count` steps on every rank and returns the seconds from the first start to the last end; *collective*.
fn take(
    comm: &dyn Comm,
    trainer: &mut Trainer,
    exchange: &mut dyn Exchange,
    count: u64,
) -> Result<f64> {
    comm.barrier();
    let start = Instant::now();
    let mut ahead = trainer.claim(exchange)?;
    for i in 1..=count {
        let step = ahead.expect("there are steps without end");
        ahead = if i < count {
            trainer.claim(exchange)?
        } else {
            None
        };
        trainer.step(exchange, step)?;
    }
    comm.barrier();
    Ok(start.elapsed().as_secs_f64())
}

/// The greatest of the ranks' numbers; *collective*.
fn agreed(comm: &dyn Comm, mine: u64) -> u64 {
    let mut number = [mine];
    comm.max(&mut number);
    number[0]
}

/// Opens the set to measure on, making the built-in one for as long as it takes to open it; *collective*.
fn open(comm: &dyn Comm, settings: &Settings) -> Result<Arc<Dataset>> {
    if let Some(path) = &settings.data {
        return Ok(Arc::new(agree(
            comm,
            Dataset::open(path).and_then(|data| data.enough_for(comm.size()).map(|()| data)),
        )?));
    }
    let mut key = [
        std::process::id().into(),
        std::time::UNIX_EPOCH
            .elapsed()
            .map_or(0, |time| time.as_nanos() as u64),
    ];
    comm.broadcast(0, &mut key);
    let path = std::env::temp_dir().join(format!("phalanx-bench-{}-{}.h5", key[0], key[1]));
    agree(
        comm,
        if comm.local_rank() == 0 {
            make(&path)
        } else {
            Ok(())
        },
    )?;
    let data = agree(comm, Dataset::open(&path))?;
    if comm.local_rank() == 0 {
        // The map stays; a name that cannot be removed is only litter.
        let _ = std::fs::remove_file(&path);
    }
    Ok(Arc::new(data))
}

fn make(path: &Path) -> Result<()> {
    let side = digits::SIDE;
    let mut pixels = vec![0; DISTINCT * side * side];
    let draw = |(index, image): (usize, &mut [u8])| digits::draw(1, index as u64, side, image);
    let labels: Vec<u32> = pixels
        .chunks_exact_mut(side * side)
        .enumerate()
        .map(draw)
        .collect();
    let about = Description {
        samples: 60_000,
        shape: Shape {
            c: 1,
            h: side,
            w: side,
        },
        classes: 10,
        class_names: Vec::new(),
        float: false,
        shards: 1,
        provenance: "made for a benchmark".into(),
        force: true,
    };
    let mut writer = SetWriter::create(path, about)?;
    for i in 0..60_000 {
        let digit = i % DISTINCT;
        writer.push(&pixels[digit * side * side..][..side * side], labels[digit])?;
    }
    writer.finish()
}
