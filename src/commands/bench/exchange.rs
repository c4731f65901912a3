//! `phalanx bench exchange`: how long ranks take to agree, for each size of the parameters and number of ranks.

use std::path::PathBuf;
use std::time::Instant;

use serde::Serialize;

use super::{Waiting, check_ranks};
use crate::Result;
use crate::comm::{Comm, agree};
use crate::exchange::cost::{
    Line, Network, all_reduce_bytes, backup_bytes, node_shared_bytes, one_sided_bytes,
};
use crate::exchange::{Averaging, Freedom, Kind, Placement, Start, Tail};
use crate::observe::{say, seconds as words};
use crate::optim::{Momentum, Mover};

/// Measurements of each, in turns with the others; the median counts.
const ROUNDS: usize = 3;

/// Bytes of parameters up to which they may stay in a cache, where the cost model's one bandwidth is not theirs.
const CACHED: f64 = (16 << 20) as f64;

/// What to measure.
pub struct Settings {
    /// Bytes of the parameters.
    pub sizes: Vec<usize>,
    /// Ranks that take part, for each measurement; none for all.
    pub ranks: Vec<usize>,
    /// How long each measurement takes.
    pub seconds: f64,
    /// Parameters for which the cost model is to predict the time of a step.
    pub predict: Option<usize>,
    /// µs of a message and GB/s of a node that it assumes.
    pub network: (f64, f64),
    /// Where rows go besides the terminal.
    pub csv: Option<PathBuf>,
    /// Whether to print JSON.
    pub json: bool,
}

/// What is measured.
#[derive(Clone, Copy, Debug, PartialEq)]
enum What {
    /// Each rank copies the parameters.
    Copy,
    /// `MPI_Allreduce` of the parameters, and nothing else.
    Raw,
    /// A step of an exchange.
    Step(Kind),
}

impl What {
    /// Everything that so many ranks can do, on one node or on several.
    fn all(ranks: usize, one_node: bool) -> Vec<Self> {
        let mut all = vec![Self::Copy];
        // Of one rank there is nothing to reduce.
        if ranks > 1 {
            all.push(Self::Raw);
        }
        all.extend([Kind::AllReduce, Kind::NodeShared].map(Self::Step));
        let averaging = Averaging {
            every: 1,
            elastic: None,
        };
        all.push(Self::Step(Kind::Local(averaging)));
        all.push(Self::one_sided(false));
        if one_node {
            all.push(Self::one_sided(true));
            all.push(Self::Step(Kind::Backup {
                take: ranks,
                of: ranks,
            }));
        }
        all
    }

    fn one_sided(racy: bool) -> Self {
        Self::Step(Kind::OneSided(Freedom {
            placement: Placement::Sharded,
            racy,
            bound: None,
            divide: false,
        }))
    }

    fn name(self) -> &'static str {
        match self {
            Self::Copy => "memory copy",
            Self::Raw => "MPI_Allreduce",
            Self::Step(Kind::AllReduce) => "all-reduce",
            Self::Step(Kind::OneSided(freedom)) if freedom.racy => "one-sided racy",
            Self::Step(Kind::OneSided(_)) => "one-sided",
            Self::Step(Kind::Local(_)) => "local, every 1",
            Self::Step(Kind::Backup { .. }) => "backup, all",
            Self::Step(_) => "node-shared",
        }
    }

    /// Bytes that a rank must read or write in memory.
    fn bytes(self, parameters: usize, ranks: usize) -> f64 {
        match self {
            Self::Copy => 8.0 * parameters as f64,
            Self::Raw => {
                let sums = 2.0 * (ranks as f64 - 1.0) / ranks as f64;
                4.0 * parameters as f64 * sums
            }
            Self::Step(Kind::AllReduce | Kind::Local(_)) => all_reduce_bytes(parameters, ranks),
            Self::Step(Kind::Backup { .. }) => backup_bytes(parameters, ranks),
            Self::Step(Kind::OneSided(_)) => one_sided_bytes(parameters),
            Self::Step(_) => node_shared_bytes(parameters, ranks),
        }
    }
}

/// One row of the table.
#[derive(Clone, Debug, Serialize)]
struct Row {
    ranks: usize,
    bytes: usize,
    exchange: &'static str,
    /// Seconds of a step.
    seconds: f64,
    /// Bytes of the parameters over that time, in 10⁹.
    gb_per_s: f64,
    /// Seconds of the memory traffic that it cannot avoid, at the speed of the copy of this row.
    limit_seconds: f64,
    /// That over the time.
    share_of_limit: f64,
}

/// Measures and prints; *collective*.
pub fn run(comm: &dyn Comm, settings: &Settings) -> Result<()> {
    let ranks = check_ranks(comm, &settings.ranks)?;
    let mut waiting = Waiting::new(comm)?;
    let mut rows = Vec::new();
    let speaks = comm.rank() == 0;
    if speaks && !settings.json {
        say(&format!(
            "a step with momentum, the median of {ROUNDS} measurements in turns; limit: the memory traffic that cannot be avoided, at the speed of the copy\n\n{:>5} {:>9}  {:<15} {:>11} {:>8} {:>11} {:>6}",
            "ranks", "bytes", "exchange", "time", "GB/s", "limit", "share"
        ));
    }
    for &ranks in &ranks {
        let group = comm.split(usize::from(comm.rank() >= ranks));
        if comm.rank() < ranks {
            for &bytes in &settings.sizes {
                let found = measure(&*group, bytes, settings.seconds)?;
                if speaks {
                    found.iter().for_each(|row| row.print(settings.json));
                }
                rows.extend(found);
            }
        }
        waiting.for_all();
    }
    waiting.close()?;
    let write = || {
        let Some(path) = settings.csv.as_ref().filter(|_| speaks) else {
            return Ok(());
        };
        let mut writer = csv::Writer::from_writer(Vec::new());
        rows.iter().for_each(|row| {
            writer.serialize(row).expect("rows of plain values");
        });
        let bytes = writer.into_inner().expect("writing to memory");
        crate::files::write_text(path, &String::from_utf8_lossy(&bytes))
    };
    agree(comm, write())?;
    if let Some(parameters) = settings.predict.filter(|_| speaks) {
        say(prediction(&rows, parameters, settings.network).trim_end());
    }
    Ok(())
}

impl Row {
    fn print(&self, json: bool) {
        if json {
            let text = serde_json::to_string(self).expect("plain numbers");
            return say(&text);
        }
        say(&format!(
            "{:>5} {:>9}  {:<15} {:>11} {:>8.2} {:>11} {:>5.0} %",
            self.ranks,
            size(self.bytes),
            self.exchange,
            words(self.seconds),
            self.gb_per_s,
            words(self.limit_seconds),
            100.0 * self.share_of_limit,
        ));
    }
}

/// A row for everything that can be measured with this group; *collective* over it.
fn measure(comm: &dyn Comm, bytes: usize, seconds: f64) -> Result<Vec<Row>> {
    let one_node = comm.local_size() == comm.size();
    let all = What::all(comm.size(), one_node);
    let mut times = vec![Vec::new(); all.len()];
    let parameters = bytes / 4;
    for _ in 0..ROUNDS {
        for (what, times) in all.iter().zip(&mut times) {
            times.push(one(comm, *what, parameters, seconds)?);
        }
    }
    let median = |times: &mut Vec<f64>| {
        times.sort_unstable_by(f64::total_cmp);
        times[times.len() / 2]
    };
    let times: Vec<f64> = times.iter_mut().map(median).collect();
    let ranks = comm.size();
    let speed = What::Copy.bytes(parameters, ranks) / times[0];
    let row = |(what, &seconds): (&What, &f64)| {
        let limit = what.bytes(parameters, ranks) / speed;
        Row {
            ranks,
            bytes,
            exchange: what.name(),
            seconds,
            gb_per_s: bytes as f64 / seconds / 1e9,
            limit_seconds: limit,
            share_of_limit: limit / seconds,
        }
    };
    Ok(all.iter().zip(&times).map(row).collect())
}

/// Seconds of one step of the slowest rank, in a steady state of about so many seconds; *collective*.
fn one(comm: &dyn Comm, what: What, parameters: usize, seconds: f64) -> Result<f64> {
    let Some(kind) = (match what {
        What::Step(kind) => Some(kind),
        _ => None,
    }) else {
        let (mut a, mut b) = (vec![1e-3f32; parameters], vec![0.0f32; parameters]);
        return repeat(comm, seconds, || {
            match what {
                What::Copy => std::hint::black_box(&mut b).copy_from_slice(&a),
                _ => {
                    comm.sum(&mut a[..]);
                    a[0] = 1e-3;
                }
            }
            Ok(())
        });
    };
    let start = Start {
        state: 1,
        ..Start::default()
    };
    let mut exchange = kind.start(comm, vec![0.0; parameters], start)?;
    let mut mover = Mover::new(Box::new(Momentum::new(0.9, false, 0.0)));
    exchange.arenas().grads.host().fill(1e-3);
    let mine = Tail {
        share: 1.0 / comm.size() as f64,
        ..Tail::default()
    };
    let mut taken = 0;
    let time = repeat(comm, seconds, || {
        let step = exchange.claim(taken)?;
        taken += 1;
        exchange.ready(step)?;
        exchange.step(mine, 1e-6, &mut mover).map(|_| ())
    })?;
    exchange.leave()?;
    exchange.settle()?;
    Ok(time)
}

/// Seconds of one repetition of `work`; *collective*.
fn repeat(comm: &dyn Comm, seconds: f64, mut work: impl FnMut() -> Result<()>) -> Result<f64> {
    let mut timed = |count: u64| -> Result<f64> {
        comm.barrier();
        let start = Instant::now();
        (0..count).try_for_each(|_| work())?;
        let mut longest = [start.elapsed().as_secs_f64()];
        comm.max(&mut longest);
        Ok(longest[0])
    };
    // The first touches memory for the first time.
    timed(1)?;
    let mut count = 1;
    loop {
        let taken = timed(count)?;
        if taken >= 0.5 * seconds || count >= 1 << 20 {
            return Ok(taken / count as f64);
        }
        let more = (seconds / taken.max(1e-9)).min(100.0) * count as f64;
        count = (more as u64).max(count + 1);
    }
}

/// What the cost model, fitted to `rows`, makes of a step on many nodes.
fn prediction(rows: &[Row], parameters: usize, (latency, bandwidth): (f64, f64)) -> String {
    let ranks = rows.iter().map(|row| row.ranks).max().unwrap_or(1);
    let mut text = format!(
        "\nfitted to the rows of {ranks} ranks past the caches (16 MiB and more, if there are two): time = α + β × bytes of the parameters\n"
    );
    let mut near = [Line::default(); 3];
    let names = ["node-shared", "all-reduce", "one-sided"];
    for (line, name) in near.iter_mut().zip(names) {
        let of = rows
            .iter()
            .filter(|row| row.ranks == ranks && row.exchange == name);
        let mut points: Vec<(f64, f64)> = of.map(|row| (row.bytes as f64, row.seconds)).collect();
        let large = |point: &(f64, f64)| point.0 >= CACHED;
        if points.iter().filter(|point| large(point)).count() > 1 {
            points.retain(large);
        }
        *line = Line::fit(&points);
        text += &format!(
            "  {name:<12} α {:>9}  1/β {:>6.2} GB/s  mean error {:.0} %\n",
            words(line.alpha),
            1e-9 / line.beta,
            100.0 * line.error(&points)
        );
    }
    let network = Network {
        line: Line {
            alpha: latency * 1e-6,
            beta: 1e-9 / bandwidth,
        },
        ranks,
    };
    text += &format!(
        "predicted, not measured: a step of {parameters} parameters on nodes of {ranks} ranks, were messages {latency} µs and a node's network {bandwidth} GB/s\n{:>7}  {:>12} {:>12} {:>12}\n",
        "nodes", names[0], names[1], names[2]
    );
    let bytes = 4.0 * parameters as f64;
    for nodes in (0..=10).map(|power| 1usize << power) {
        let far = [
            network.node_shared(parameters, nodes),
            network.all_reduce(parameters, nodes),
            network.one_sided(parameters, nodes),
        ];
        let [a, b, c] = [0, 1, 2].map(|i| words(near[i].at(bytes) + far[i]));
        text += &format!("{nodes:>7}  {a:>12} {b:>12} {c:>12}\n");
    }
    text
}

fn size(bytes: usize) -> String {
    let units = [(30, "GiB"), (20, "MiB"), (10, "KiB")];
    let unit = units.iter().find(|(shift, _)| bytes >> shift > 0);
    match unit {
        Some((shift, unit)) if bytes.is_multiple_of(1 << shift) => {
            format!("{} {unit}", bytes >> shift)
        }
        _ => format!("{bytes} B"),
    }
}
