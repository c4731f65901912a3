//! How ranks agree, as it is typed.

use clap::{Args, ValueEnum};

use super::{below_one, positive};
use crate::commands::train::Strategy;
use crate::exchange::{Averaging, Freedom, Kind, Placement};
use crate::{Error, Result};

#[derive(Args)]
pub(super) struct ExchangeArgs {
    /// How ranks agree: every step together, in shared memory of each node (node-shared) or by messages alone (all-reduce),
    /// or each rank by itself (one-sided); auto measures at the start which of the first two is faster here.
    #[arg(long, value_enum, default_value_t = ExchangeArg::Auto, help_heading = "Exchange")]
    exchange: ExchangeArg,
    /// With --exchange all-reduce: add up each layer's gradients on a second thread while those of the layers before are still
    /// computed; worth it where a core is free for that thread.
    #[arg(long, help_heading = "Exchange")]
    overlap: bool,
    /// Who holds the parameters of a one-sided exchange: all ranks of a node in common and blocks on several nodes, or rank 0
    /// alone, as a parameter server.
    #[arg(long, value_enum, default_value_t = PlacementArg::Sharded, help_heading = "Exchange")]
    placement: PlacementArg,
    /// One-sided: the most steps that a rank may be ahead of the slowest one when it reads parameters; 0 keeps all in step,
    /// inf lets them run.
    #[arg(long, value_name = "S", value_parser = staleness, help_heading = "Exchange")]
    staleness: Option<Staleness>,
    /// One-sided: divide the rate of an update by one plus the updates of others that it missed.
    #[arg(long, help_heading = "Exchange")]
    lr_by_staleness: bool,
    /// One-sided, on one node: add without locks, as in Hogwild!; of additions at the same moment one may be lost.
    #[arg(long, help_heading = "Exchange")]
    racy: bool,
    /// Each rank takes steps by itself, and every K steps parameters are averaged.
    #[arg(long, value_name = "K", value_parser = positive, help_heading = "Exchange")]
    sync_every: Option<usize>,
    /// With --sync-every: elastic averaging, in which ranks and a common centre are drawn towards each other; the centre goes
    /// this share of the way to the ranks' mean.
    #[arg(long, value_name = "SHARE", value_parser = below_one, num_args = 0..=1, default_missing_value = "0.9", requires = "sync_every", help_heading = "Exchange")]
    elastic: Option<f64>,
    /// Backup workers: every step takes the first N gradients of P ranks, as in 3-of-4, and drops those that come too late.
    #[arg(long, value_name = "N-of-P", value_parser = aggregate, conflicts_with = "sync_every", help_heading = "Exchange")]
    aggregate: Option<(usize, usize)>,
}

/// What may be typed beside it when parameters are to be the same on any number of ranks.
#[derive(Args)]
pub(super) struct ShardArgs {
    /// The same parameters, bit for bit, on any number of ranks that divides --virtual-shards, and when repeated. Methods of
    /// convolutions are chosen as with --no-tune.
    #[arg(long, help_heading = "Exchange")]
    reproducible: bool,
    /// Parts that each step is computed in with --reproducible: a power of two.
    #[arg(long, value_name = "V", default_value_t = 8, value_parser = shards, requires = "reproducible", help_heading = "Exchange")]
    virtual_shards: usize,
}

impl ShardArgs {
    /// Whether results are not to depend on the number of ranks.
    pub(super) fn is_reproducible(&self) -> bool {
        self.reproducible
    }

    /// The shards, if there are to be any.
    pub(super) fn resolve(&self, kind: Kind) -> Result<Option<usize>> {
        if self.reproducible && !kind.is_lockstep() {
            let problem = "--reproducible needs ranks that take every step together: --exchange node-shared or all-reduce; \
                an asynchronous run is repeated by --record and `phalanx replay`";
            return Err(Error::Usage(problem.into()));
        }
        if self.reproducible && kind == Kind::Overlapped {
            let problem = "--reproducible adds up whole shards: leave --overlap out";
            return Err(Error::Usage(problem.into()));
        }
        Ok(self.reproducible.then_some(self.virtual_shards))
    }
}

#[derive(Clone, Copy, PartialEq, ValueEnum)]
enum ExchangeArg {
    Auto,
    NodeShared,
    AllReduce,
    OneSided,
}

#[derive(Clone, Copy, PartialEq, ValueEnum)]
enum PlacementArg {
    Sharded,
    Rank0,
}

/// A bound on staleness, or none.
#[derive(Clone, Copy)]
pub(super) struct Staleness(pub(super) Option<u64>);

pub(super) fn staleness(text: &str) -> Result<Staleness, String> {
    match text {
        "inf" => Ok(Staleness(None)),
        _ => {
            let bound = text.parse();
            let bound = bound.map_err(|_| "expected a number of steps, or inf".to_string())?;
            Ok(Staleness(Some(bound)))
        }
    }
}

pub(super) fn shards(text: &str) -> Result<usize, String> {
    match positive(text)? {
        number if !number.is_power_of_two() => Err("must be a power of two".into()),
        number if number > 512 => Err("must be at most 512".into()),
        number => Ok(number),
    }
}

fn aggregate(text: &str) -> Result<(usize, usize), String> {
    let expected = || "expected N-of-P, such as 3-of-4".to_string();
    let (take, of) = text.split_once("-of-").ok_or_else(expected)?;
    let number = |text: &str| positive(text).map_err(|_| expected());
    let (take, of) = (number(take)?, number(of)?);
    if take > of {
        return Err(format!("{take} gradients of {of} ranks are too many"));
    }
    Ok((take, of))
}

impl ExchangeArgs {
    /// The exchange that the arguments name, or that belongs to a strategy.
    pub(super) fn resolve(&self, strategy: Option<Strategy>) -> Result<Kind> {
        let chosen = match strategy {
            None => (self.exchange, self.placement),
            Some(Strategy::OneDevice | Strategy::MultiWorker) => {
                (ExchangeArg::Auto, PlacementArg::Sharded)
            }
            Some(Strategy::Mirrored) => (ExchangeArg::NodeShared, PlacementArg::Sharded),
            Some(Strategy::ParameterServer) => (ExchangeArg::OneSided, PlacementArg::Rank0),
        };
        self.kind(chosen)
    }

    fn kind(&self, (exchange, placement): (ExchangeArg, PlacementArg)) -> Result<Kind> {
        let usage = |problem: &str| Err(Error::Usage(problem.into()));
        let free = exchange == ExchangeArg::OneSided;
        let options = [
            (placement == PlacementArg::Rank0, "--placement"),
            (self.staleness.is_some(), "--staleness"),
            (self.lr_by_staleness, "--lr-by-staleness"),
            (self.racy, "--racy"),
        ];
        if let Some((_, name)) = options.iter().find(|(given, _)| *given && !free) {
            return usage(&format!(
                "{name} needs --exchange one-sided: in the others no rank goes its own way"
            ));
        }
        if self.overlap && exchange != ExchangeArg::AllReduce {
            return usage(
                "--overlap needs --exchange all-reduce: the others send nothing while gradients are computed",
            );
        }
        if self.racy && placement == PlacementArg::Rank0 {
            let out = match self.placement {
                PlacementArg::Rank0 => "leave --placement out",
                PlacementArg::Sharded => "give --exchange one-sided in place of --strategy",
            };
            return usage(&format!(
                "--racy needs parameters that ranks have in common: {out}"
            ));
        }
        if exchange != ExchangeArg::Auto && (self.sync_every.is_some() || self.aggregate.is_some())
        {
            return usage(
                "--sync-every and --aggregate are exchanges of their own: leave --exchange out",
            );
        }
        if let Some((take, of)) = self.aggregate {
            return Ok(Kind::Backup { take, of });
        }
        if let Some(every) = self.sync_every {
            return Ok(Kind::Local(Averaging {
                every: every as u64,
                elastic: self.elastic.map(|share| share as f32),
            }));
        }
        Ok(match exchange {
            ExchangeArg::Auto => Kind::Auto,
            ExchangeArg::NodeShared => Kind::NodeShared,
            ExchangeArg::AllReduce if self.overlap => Kind::Overlapped,
            ExchangeArg::AllReduce => Kind::AllReduce,
            ExchangeArg::OneSided => Kind::OneSided(Freedom {
                placement: match placement {
                    PlacementArg::Sharded => Placement::Sharded,
                    PlacementArg::Rank0 => Placement::Rank0,
                },
                racy: self.racy,
                bound: self.staleness.and_then(|Staleness(bound)| bound),
                divide: self.lr_by_staleness,
            }),
        })
    }
}
