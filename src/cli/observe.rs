//! What a run shows and writes of itself while it goes on, as it is typed.

use clap::{Args, ValueEnum};

use crate::commands::train::{Events, Observe};
use crate::observe::resources::Records;

#[derive(Args)]
#[command(next_help_heading = "Observing")]
pub(super) struct ObserveArgs {
    /// Once a second, write what each rank and its host use to resources.csv in the rank's folder of the run (csv), and on the
    /// first rank of each host in the columns of `dstat -T -cdngym` to dstat.csv too (dstat). `phalanx top` needs it.
    #[arg(long, value_enum, value_name = "HOW", default_value_t = RecordsArg::Csv)]
    resources: RecordsArg,
    /// Write event files for TensorBoard into the ranks' folders of the run: numbers at every row of metrics.csv, the model's graph,
    /// settings and results (scalars), and histograms of weights and gradients at evaluations too (on). Show them by
    /// `tensorboard --logdir RUN`.
    #[arg(long, value_enum, value_name = "WHAT", default_value_t = EventsArg::On)]
    tensorboard: EventsArg,
    /// Print one JSON object a line on stdout and nothing else, for programs: `event` is start, row (of metrics.csv), end, or stopped.
    #[arg(long)]
    json: bool,
}

#[derive(Clone, Copy, ValueEnum)]
enum EventsArg {
    Off,
    Scalars,
    On,
}

#[derive(Clone, Copy, ValueEnum)]
enum RecordsArg {
    Off,
    Csv,
    Dstat,
}

impl ObserveArgs {
    pub(super) fn resolve(&self) -> Observe {
        Observe {
            resources: match self.resources {
                RecordsArg::Off => Records::Off,
                RecordsArg::Csv => Records::Csv,
                RecordsArg::Dstat => Records::Dstat,
            },
            tensorboard: match self.tensorboard {
                EventsArg::Off => Events::Off,
                EventsArg::Scalars => Events::Scalars,
                EventsArg::On => Events::On,
            },
            json: self.json,
        }
    }
}
