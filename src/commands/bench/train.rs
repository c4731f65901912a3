//! `phalanx bench train`: the speed of training in a steady state, for each batch size and number of ranks.

use std::path::PathBuf;
use std::sync::Arc;
use std::thread;
use std::time::Instant;

use super::costs::{self, Extra, Scratch};
use super::row::{self, Row};
use super::set::BuiltIn;
use super::steady::Steady;
use super::{Waiting, agreed, check_ranks, layers};
use crate::backend::cpu::peak_flops;
use crate::backend::{Gemm, Wanted};
use crate::comm::{Comm, agree};
use crate::commands::device::Chosen;
use crate::commands::train::BatchSize;
use crate::commands::warn_if_crowded;
use crate::data::{Dataset, Length, Loader, Scaling, Steps};
use crate::exchange::{Kind, OnDevice, fastest};
use crate::nn::{Backend, Crew, Init, zoo::Choice};
use crate::observe::{peak_memory_mb, proportional_memory_mb, restart_peak_memory, say};
use crate::optim::{Schedule, Sgd};
use crate::train::{Inject, OnNan, Parts, Reduce, Times, Trainer, budget};
use crate::{Error, Result};

/// More than are ever taken.
const STEPS: u64 = u64::MAX >> 8;

/// What to measure.
pub struct Settings {
    /// The model.
    pub model: Choice,
    /// The data set, or none for a built-in one that suits the model.
    pub data: Option<PathBuf>,
    /// Samples of a rank in a step, for each measurement.
    pub batches: Vec<usize>,
    /// Threads of each rank.
    pub threads: usize,
    /// What computes, and whose kernels multiply.
    pub device: (Wanted, Gemm),
    /// Ranks that take part, for each measurement; none for all.
    pub ranks: Vec<usize>,
    /// How ranks agree.
    pub exchange: Kind,
    /// How long each measurement takes.
    pub seconds: f64,
    /// Whether to tell the layers' times too.
    pub by_layer: bool,
    /// What it is told of too what it costs.
    pub costs: Vec<Extra>,
    /// Whether methods are chosen by measurement.
    pub tune: bool,
    /// Whether to print JSON.
    pub json: bool,
    /// Faults on demand.
    pub inject: Vec<Inject>,
}

impl Settings {
    /// What is asked for that a device cannot do.
    fn unfit(&self) -> Option<&'static str> {
        let asked = [
            (self.threads > 1, "--threads divides a batch over cores"),
            (
                self.exchange == Kind::Overlapped,
                "--overlap is for gradients that the CPU computes",
            ),
        ];
        let found = asked.into_iter().find(|(there, _)| *there);
        found.map(|(_, what)| what)
    }
}

/// Measures and prints; *collective*.
pub fn run(comm: &dyn Comm, settings: &Settings) -> Result<()> {
    let ranks = check_ranks(comm, &settings.ranks)?;
    Inject::on(&settings.inject, comm)?;
    let most = ranks.iter().max().copied().unwrap_or(1);
    let most = most * settings.batches.iter().max().copied().unwrap_or(1);
    let (data, name) = match &settings.data {
        Some(path) => {
            let data = agree(comm, Dataset::open(path))?;
            (Arc::new(data), path.display().to_string())
        }
        None => {
            let (shape, classes) = settings.model.home();
            let set = BuiltIn {
                shape,
                classes,
                least: 2 * most,
            };
            // Before it is written: a slip of the finger must not fill the disk.
            if let Some(have) = budget(comm)
                && (set.least * shape.len()) as u64 > have
            {
                let problem = format!(
                    "a step of {most} samples of {shape} does not fit into memory: give a smaller --batch"
                );
                return Err(Error::Usage(problem));
            }
            (set.open(comm)?, set.name().to_owned())
        }
    };
    warn_if_crowded(comm, settings.threads);
    if data.len() < most {
        let problem = format!(
            "a step of {most} samples is more than the {} in {}: the batch would be cut",
            data.len(),
            data.path.display()
        );
        return Err(Error::Usage(problem));
    }
    let unfit = settings.unfit();
    let chosen = Chosen::find(comm, settings.device, unfit)?;
    if comm.rank() == 0 && !settings.json {
        let mut work = format!("{} on {name}", settings.model);
        for fault in &settings.inject {
            work += &format!(", with {fault}");
        }
        say(&row::head(
            &work,
            &data,
            settings.exchange,
            (&chosen, settings.threads),
        ));
    }
    let mut waiting = Waiting::new(comm)?;
    for &ranks in &ranks {
        let bench = comm.split(usize::from(comm.rank() >= ranks));
        if comm.rank() < ranks {
            let peak = peak_of_all(&*bench, &chosen, settings.threads);
            for &batch in &settings.batches {
                let row = measure(&*bench, settings, &chosen, &data, (batch, peak))?;
                if comm.rank() == 0 {
                    say(&if settings.json {
                        row.json(&settings.model.to_string(), &name)
                    } else {
                        row.line()
                    });
                    if settings.by_layer && !settings.json {
                        say(&layers::table(&row));
                    }
                    for cost in row.costs.iter().filter(|_| !settings.json) {
                        say(&cost.line());
                    }
                }
            }
        }
        waiting.for_all();
    }
    waiting.close()
}

/// One row of the table; *collective*.
fn measure(
    comm: &dyn Comm,
    settings: &Settings,
    chosen: &Chosen,
    data: &Arc<Dataset>,
    (batch, peak): (usize, f64),
) -> Result<Row> {
    data.enough_for(comm.size())?;
    agree(comm, settings.exchange.check(comm, None))?;
    let model = settings.model.build(data.shape, data.classes)?;
    let kind = match settings.exchange {
        Kind::Auto if chosen.device.is_some() => Kind::OnDevice,
        Kind::Auto if settings.tune && comm.size() > 1 => fastest(comm, model.params())?.0,
        kind => kind,
    };
    let backend: Box<dyn Backend> = match chosen.device {
        Some(_) => {
            let fixed = OnDevice::bytes(comm, model.params(), 0);
            let how = (settings.threads, fixed);
            chosen.backend(comm, model, data, how, (batch, batch))?
        }
        None => {
            let mut crew = Crew::new(model, settings.threads)?;
            if settings.tune {
                crew.tune(batch, |choices| comm.broadcast(0, choices));
            }
            Box::new(crew)
        }
    };
    restart_peak_memory();
    let scaling = Scaling::unit(data.shape.c);
    let loader = Loader::new(data.clone(), scaling.clone(), 1);
    let parts = Parts {
        backend,
        loader,
        scaling,
        steps: Steps::new(
            data.len(),
            BatchSize::PerRank(batch).of_step(kind, comm.size()),
            Length::Steps(STEPS),
        ),
        reduce: Reduce::Mean,
        shards: None,
        optimizer: Box::new(Sgd::default()),
        schedule: Schedule::constant(0.01),
        noise: None,
        init: Init::default(),
        seed: 1,
        on_nan: OnNan::Stop,
    };
    let mut trainer = Trainer::new(comm, parts);
    let here = settings
        .inject
        .iter()
        .filter(|fault| fault.rank() == comm.rank());
    trainer.inject = here.copied().collect();
    let mut steady = Steady::start(comm, trainer, kind)?;

    // Warm up, and learn how many steps fill the time; every rank takes the same number.
    let (warm, mut steps) = (Instant::now(), 1);
    let rate = loop {
        let rate = steps as f64 / steady.take(steps)?;
        if agreed(comm, warm.elapsed().as_millis() as u64) as f64 >= 250.0 * settings.seconds {
            break rate;
        }
        steps *= 2;
    };
    let steps = agreed(comm, (rate * settings.seconds).ceil() as u64).max(1);
    steady.trainer.times = Times::start();
    if settings.by_layer {
        steady.trainer.watch();
    }
    let seconds = steady.take(steps)?;
    let mut times: [f64; 4] = steady.trainer.times.parts().map(|(_, time)| time);
    comm.sum(&mut times);
    let mut samples = [steady.trainer.times.samples];
    comm.sum(&mut samples);
    let layers = steady.trainer.costs();

    let mut memory = [peak_memory_mb(), proportional_memory_mb()];
    comm.sum(&mut memory);
    let how = (settings.seconds, steps as f64 / seconds);
    let mut costs = Vec::new();
    if !settings.costs.is_empty() {
        let scratch = Scratch::make(comm)?;
        for &extra in &settings.costs {
            costs.push(costs::measure(&mut steady, extra, &scratch, how)?);
        }
    }
    let trainer = steady.settle()?;
    let speed = samples[0] as f64 / seconds;
    Ok(Row {
        batch,
        ranks: comm.size(),
        threads: settings.threads,
        steps,
        seconds,
        speed,
        flops: speed * trainer.model().flops(),
        peak,
        shares: times.map(|time| time / (seconds * comm.size() as f64)),
        memory,
        layers,
        costs,
        faults: settings.inject.iter().map(ToString::to_string).collect(),
        device: chosen.words.clone(),
        emulated: chosen.is_emulated(),
    })
}

/// FLOP/s of a device on paper, or of a core at its best. The latter is measured on all ranks at once, as they will compute:
/// the best core of an otherwise idle machine is nobody's share; *collective*.
fn peak_of_all(comm: &dyn Comm, chosen: &Chosen, threads: usize) -> f64 {
    comm.barrier();
    let mut peak = [match &chosen.device {
        Some(_) => chosen.peak().unwrap_or(f64::NAN),
        None => peak_of_threads(threads),
    }];
    comm.sum(&mut peak);
    peak[0] / comm.size() as f64
}

/// FLOP/s of one of so many cores, measured on all at once.
fn peak_of_threads(threads: usize) -> f64 {
    let sum: f64 = thread::scope(|scope| {
        let others: Vec<_> = (1..threads).map(|_| scope.spawn(peak_flops)).collect();
        let own = peak_flops();
        let others = others.into_iter();
        own + others
            .map(|other| other.join().expect("a measurement"))
            .sum::<f64>()
    });
    sum / threads as f64
}
