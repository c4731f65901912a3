//! `phalanx bench`.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};

use super::bench_input::BenchInput;
use super::choice::{self, ModelArgs};
use super::data::features;
use super::device::DeviceArgs;
use super::exchange::ExchangeArgs;
use super::matrix::Type;
use super::sparse::{SparseExchange, SparseOptimizer};
use super::{positive, positive_real, rate, threads};
use crate::backend::Wanted;
use crate::commands::bench::costs::Extra;
use crate::commands::bench::{Settings, exchange, kernels, matmul, sparse, train};
use crate::train::Inject;
use crate::{Error, Result};

/// Measure speed in a steady state.
#[derive(Subcommand)]
pub(super) enum Bench {
    Train(BenchTrain),
    Exchange(BenchExchange),
    Sparse(BenchSparse),
    Matmul(BenchMatmul),
    Kernels(BenchKernels),
    Input(Box<BenchInput>),
}

/// Each GPU kernel by itself: whether it computes what the CPU does, and how fast it is.
///
/// Prints for each kernel its largest difference from the CPU, the time of a launch, GFLOP/s, GB/s, and the share of the roofline:
/// of the time that arithmetic or memory traffic needs at least on this GPU. Ends with an error if a kernel is wrong.
#[derive(Args)]
pub(super) struct BenchKernels {
    /// Which GPU: cuda, cuda:1 for the second, or auto, which here is the same as cuda: CPUs have none of these kernels.
    #[arg(long, value_name = "DEVICE", default_value_t = Wanted::Cuda(None))]
    device: Wanted,
    /// Samples of a batch [default: 128; on the emulator 3].
    #[arg(long, value_name = "N", value_parser = positive)]
    batch: Option<usize>,
    /// Only kernels whose names hold this.
    #[arg(long, value_name = "NAME")]
    only: Option<String>,
    /// How long each kernel is repeated.
    #[arg(long, value_name = "S", default_value = "0.2", value_parser = positive_real)]
    seconds: f64,
    /// Print a line of JSON for each kernel instead of a table.
    #[arg(long)]
    json: bool,
}

/// The number of the GPU.
fn gpu(device: Wanted) -> Result<usize> {
    match device {
        Wanted::Cuda(number) => Ok(number.unwrap_or(0)),
        Wanted::Auto => Ok(0),
        Wanted::Cpu => Err(Error::Usage(
            "bench kernels --device cpu: these kernels are for GPUs; bench train --by-layer measures the CPU's".into(),
        )),
    }
}

/// The time of each exchange without any training; start it under mpirun with the ranks to measure.
///
/// Prints a row for each number of ranks and size of the parameters: the time of a memory copy, of MPI_Allreduce alone, and of
/// a step of each exchange with momentum; GB/s, and the share of the limit, which is the time of the memory traffic that the
/// exchange cannot avoid. With --predict, fits the cost model of each exchange to these times and tells what it predicts
/// for many nodes.
#[derive(Args)]
pub(super) struct BenchExchange {
    /// Bytes of the parameters, such as 4KiB,1MiB,256MiB [default: 4 KiB to 64 MiB in steps of 16 times, and 256 MiB].
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_parser = bytes, default_value = "4KiB,64KiB,1MiB,16MiB,64MiB,256MiB")]
    sizes: Vec<usize>,
    /// How many of the ranks take part, such as 1,2,4,8 [default: all].
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_parser = positive)]
    ranks: Vec<usize>,
    /// How long each measurement takes; there are three of each, in turns.
    #[arg(long, value_name = "S", default_value = "0.2", value_parser = positive_real)]
    seconds: f64,
    /// Tell what the fitted cost model predicts for a step of so many parameters on 2 to 1024 nodes.
    #[arg(long, value_name = "PARAMETERS", value_parser = positive)]
    predict: Option<usize>,
    /// Network between nodes that --predict assumes: µs of a message, and GB/s of a node; measured nowhere here.
    #[arg(long, value_name = "US,GB/S", value_parser = network, default_value = "2,12", requires = "predict")]
    network: (f64, f64),
    /// Write all rows to this file too.
    #[arg(long, value_name = "FILE")]
    csv: Option<PathBuf>,
    /// Print a line of JSON for each row instead of a table.
    #[arg(long)]
    json: bool,
}

/// Rows a second of sparse logistic regression; start it under mpirun with the ranks to measure.
///
/// Each exchange runs over the data some times, in turns with the others; medians are printed. One-sided on one node, it is
/// compared with its limit: the same memory moved in the same order, with nothing computed.
#[derive(Args)]
pub(super) struct BenchSparse {
    /// The data set [default: synthetic clicks, made in memory's reach and removed again].
    #[arg(long, value_name = "DATA")]
    data: Option<PathBuf>,
    /// A test set, whose log loss after one pass is told too.
    #[arg(long, value_name = "DATA", requires = "data")]
    test: Option<PathBuf>,
    /// Rows to make.
    #[arg(long, value_name = "N", default_value = "1000000", value_parser = positive, conflicts_with = "data")]
    rows: usize,
    /// Features to make.
    #[arg(long, value_name = "N", default_value = "33762578", value_parser = features, conflicts_with = "data")]
    features: usize,
    /// Which exchanges to measure.
    #[arg(
        long,
        value_name = "LIST",
        value_delimiter = ',',
        default_value = "one-sided,owners"
    )]
    exchanges: Vec<SparseExchange>,
    /// How gradients become updates.
    #[arg(long, value_enum, default_value_t = SparseOptimizer::Adagrad)]
    optimizer: SparseOptimizer,
    /// Learning rate.
    #[arg(long, value_name = "X", default_value = "0.1", value_parser = rate)]
    lr: f32,
    /// Rows that a rank takes at once, one-sided.
    #[arg(long, value_name = "N", default_value = "256", value_parser = positive)]
    batch: usize,
    /// Rows of a step over all ranks, in step.
    #[arg(long, value_name = "N", default_value = "1000", value_parser = positive)]
    global_batch: usize,
    /// Times that each is measured.
    #[arg(long, value_name = "N", default_value = "5", value_parser = positive)]
    rounds: usize,
    /// Print a line of JSON for each exchange instead of a table.
    #[arg(long)]
    json: bool,
}

/// GFLOP/s of products of matrices; start it under mpirun with the ranks to measure.
///
/// Each product is computed in turns with as much work by one call of BLAS on each rank by itself, which moves nothing; the
/// share is the one's speed in the other's.
#[derive(Args)]
pub(super) struct BenchMatmul {
    /// Shapes: a number for square matrices, or m×n×k as in 100000x64x64.
    #[arg(long, value_name = "LIST", value_delimiter = ',', default_value = "4096", value_parser = shape)]
    sizes: Vec<[usize; 3]>,
    /// Numbers to compute with.
    #[arg(
        long,
        value_name = "LIST",
        value_delimiter = ',',
        default_value = "f32,f64"
    )]
    r#type: Vec<Type>,
    /// How many of the ranks take part, such as 1,2 [default: all].
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_parser = positive)]
    ranks: Vec<usize>,
    /// Times that each is measured.
    #[arg(long, value_name = "N", default_value = "3", value_parser = positive)]
    rounds: usize,
    #[command(flatten)]
    device: DeviceArgs,
    /// Print a line of JSON for each shape instead of a table.
    #[arg(long)]
    json: bool,
}

fn shape(text: &str) -> Result<[usize; 3], String> {
    let sides: Result<Vec<usize>, String> = text.split('x').map(positive).collect();
    match *sides?.as_slice() {
        [n] => Ok([n; 3]),
        [m, n, k] => Ok([m, n, k]),
        _ => Err("expected one number, or three as in 100000x64x64".into()),
    }
}

/// A number of bytes, with or without a unit.
fn bytes(text: &str) -> Result<usize, String> {
    match super::bytes(text)? {
        bytes @ 4.. => Ok(bytes),
        _ => Err("must be at least one parameter of 4 bytes".into()),
    }
}

fn network(text: &str) -> Result<(f64, f64), String> {
    let (latency, bandwidth) = text
        .split_once(',')
        .ok_or("expected two numbers, such as 2,12")?;
    Ok((positive_real(latency)?, positive_real(bandwidth)?))
}

/// Samples a second of training; start it under mpirun with the ranks to measure.
///
/// Prints a row for each number of ranks and batch size: seconds a step, samples/s, GFLOP/s and their share of the ranks'
/// measured peak, where the ranks' time went, and the peak of their memory.
#[derive(Args)]
pub(super) struct BenchTrain {
    /// The model: softmax, mlp, lenet, alexnet or flowers [default: softmax].
    #[arg(long, value_name = "MODEL", value_parser = choice::name, conflicts_with = "model_file")]
    model: Option<String>,
    #[command(flatten)]
    choice: ModelArgs,
    /// The data set [default: drawn digits, or painted images of the size that the model was made for; removed again].
    #[arg(long, value_name = "FILE")]
    data: Option<PathBuf>,
    /// Samples that each rank takes in a step: one number, or several such as 32,64,128.
    #[arg(long, value_name = "LIST", default_value = "100", value_delimiter = ',', value_parser = positive)]
    batch: Vec<usize>,
    /// Threads that each rank splits its batch over.
    #[arg(long, value_name = "T", default_value_t = 1, value_parser = threads)]
    threads: usize,
    #[command(flatten)]
    device: DeviceArgs,
    /// How many of the ranks take part, such as 1,2,4 to see how speed grows with ranks [default: all].
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_parser = positive)]
    ranks: Vec<usize>,
    #[command(flatten)]
    exchange: ExchangeArgs,
    /// How long each measurement takes, after a quarter of it to warm up.
    #[arg(long, value_name = "S", default_value = "5", value_parser = positive_real)]
    seconds: f64,
    /// Tell for each layer and pass the time, GFLOP/s, share of the peak and memory traffic, of the first rank's first thread.
    #[arg(long)]
    by_layer: bool,
    /// Tell what each of these costs a run: as long again for each, the ranks train in turns with it and without it. Resources are sampled 20
    /// times as often as in a run and checkpoints are written one behind the other, which is taken into account; files are written
    /// to a folder here that is removed again. Not with --by-layer, which looks at the clock as often as a trace does.
    #[arg(
        long,
        value_enum,
        value_name = "LIST",
        value_delimiter = ',',
        conflicts_with = "by_layer"
    )]
    costs: Vec<ExtraArg>,
    /// Choose the methods of convolutions by their sizes alone, not by measuring at the start.
    #[arg(long)]
    no_tune: bool,
    /// Test aid: have rank RANK compute FACTOR times as long; may be given several times.
    #[arg(long, value_name = "slow:RANK:FACTOR")]
    inject: Vec<Inject>,
    /// Print a line of JSON for each measurement instead of a table.
    #[arg(long)]
    json: bool,
}

#[derive(Clone, Copy, ValueEnum)]
enum ExtraArg {
    /// What --trace notes.
    Trace,
    /// metrics.csv, with a bar on a terminal or lines elsewhere.
    Progress,
    /// resources.csv, a row a second.
    Resources,
    /// Event files with histograms.
    Tensorboard,
    /// A checkpoint each 30 s.
    Checkpoint,
}

impl From<ExtraArg> for Extra {
    fn from(typed: ExtraArg) -> Self {
        match typed {
            ExtraArg::Trace => Self::Trace,
            ExtraArg::Progress => Self::Progress,
            ExtraArg::Resources => Self::Resources,
            ExtraArg::Tensorboard => Self::TensorBoard,
            ExtraArg::Checkpoint => Self::Checkpoint,
        }
    }
}

impl BenchSparse {
    fn resolve(self) -> sparse::Settings {
        sparse::Settings {
            data: self.data,
            test: self.test,
            rows: self.rows,
            features: self.features,
            kinds: self
                .exchanges
                .into_iter()
                .map(SparseExchange::kind)
                .collect(),
            rule: self.optimizer.rule(0.0, 0.0, 1.0),
            lr: self.lr,
            batch: self.batch,
            global_batch: self.global_batch,
            rounds: self.rounds,
            json: self.json,
        }
    }
}

impl Bench {
    pub(super) fn resolve(self) -> Result<Settings> {
        let typed = match self {
            Self::Train(typed) => typed,
            Self::Sparse(typed) => return Ok(Settings::Sparse(typed.resolve())),
            Self::Input(typed) => return Ok(Settings::Input(Box::new(typed.resolve()))),
            Self::Kernels(typed) => {
                return Ok(Settings::Kernels(kernels::Settings {
                    device: gpu(typed.device)?,
                    batch: typed.batch,
                    only: typed.only,
                    seconds: typed.seconds,
                    json: typed.json,
                }));
            }
            Self::Matmul(typed) => {
                return Ok(Settings::Matmul(matmul::Settings {
                    shapes: typed.sizes,
                    precisions: typed.r#type.into_iter().map(Into::into).collect(),
                    ranks: typed.ranks,
                    rounds: typed.rounds,
                    device: typed.device.resolve(),
                    json: typed.json,
                }));
            }
            Self::Exchange(typed) => {
                return Ok(Settings::Exchange(exchange::Settings {
                    sizes: typed.sizes,
                    ranks: typed.ranks,
                    seconds: typed.seconds,
                    predict: typed.predict,
                    network: typed.network,
                    csv: typed.csv,
                    json: typed.json,
                }));
            }
        };
        let stall = |fault: &&Inject| matches!(fault, Inject::Stall { .. });
        if let Some(stall) = typed.inject.iter().find(stall) {
            let problem =
                format!("--inject {stall}: a bench would never end; use it with `phalanx train`");
            return Err(Error::Usage(problem));
        }
        Ok(Settings::Train(train::Settings {
            model: typed
                .choice
                .resolve(typed.model.or(Some("softmax".into())))?,
            data: typed.data,
            batches: typed.batch,
            threads: typed.threads,
            device: typed.device.resolve(),
            ranks: typed.ranks,
            exchange: typed.exchange.resolve(None)?,
            seconds: typed.seconds,
            by_layer: typed.by_layer,
            costs: typed.costs.into_iter().map(Into::into).collect(),
            tune: !typed.no_tune,
            json: typed.json,
            inject: typed.inject,
        }))
    }
}
