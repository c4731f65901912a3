//! `phalanx report` and `phalanx plot`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

use crate::commands::page::{Format, PlotSettings, Settings};

/// Write one page about one run or several: verdict, curves, ranks, resources, timeline and settings.
///
/// The page is one HTML file that needs nothing else: it can be mailed, printed and read on a phone. Several runs are compared: their curves
/// one over the other, their figures and settings side by side. Runs that have not ended, or were made by an older phalanx, are shown as
/// far as they tell.
#[derive(Args)]
pub(super) struct Report {
    /// Run folders.
    #[arg(required = true, value_name = "RUN")]
    runs: Vec<PathBuf>,
    /// The page to write.
    #[arg(long, value_name = "FILE", default_value = "report.html")]
    out: PathBuf,
}

impl Report {
    pub(super) fn resolve(self) -> Settings {
        Settings {
            runs: self.runs,
            out: self.out,
        }
    }
}

/// Write the plots of a report as files of their own.
///
/// Several runs are drawn one over the other; what is about the ranks of one has its number behind the name. PNG needs a font on this
/// machine, SVG does not.
#[derive(Args)]
pub(super) struct Plot {
    /// Run folders.
    #[arg(required = true, value_name = "RUN")]
    runs: Vec<PathBuf>,
    /// The folder to write to; files in it with the names of plots are replaced.
    #[arg(long, value_name = "DIR", default_value = "plots")]
    out: PathBuf,
    /// What pictures are made of.
    #[arg(long, value_enum, default_value = "svg")]
    format: Made,
}

#[derive(Clone, Copy, ValueEnum)]
enum Made {
    /// Lines and text.
    Svg,
    /// Pixels, three for each unit.
    Png,
}

impl Plot {
    pub(super) fn resolve(self) -> PlotSettings {
        PlotSettings {
            runs: self.runs,
            out: self.out,
            format: match self.format {
                Made::Svg => Format::Svg,
                Made::Png => Format::Png,
            },
        }
    }
}
