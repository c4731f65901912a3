//! `phalanx report` and `phalanx plot`: what runs have to tell, as a page and as pictures.

use std::fs;
use std::path::PathBuf;

use crate::observe::{Run, page, plots, say};
use crate::{Error, Result, files};

/// What `phalanx report` is to do.
pub struct Settings {
    /// The run folders, one at the least.
    pub runs: Vec<PathBuf>,
    /// The page to write.
    pub out: PathBuf,
}

/// What `phalanx plot` is to do.
pub struct PlotSettings {
    /// The run folders, one at the least.
    pub runs: Vec<PathBuf>,
    /// The folder to write to.
    pub out: PathBuf,
    /// What pictures are made of.
    pub format: Format,
}

/// What a picture is made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// Lines and text.
    Svg,
    /// Pixels.
    Png,
}

/// Writes the page.
pub fn run(settings: &Settings) -> Result<()> {
    let text = page(&read(&settings.runs)?);
    files::write_text(&settings.out, &text)?;
    say(&format!(
        "{} written ({} KiB): open it in a browser",
        settings.out.display(),
        text.len().div_ceil(1024)
    ));
    Ok(())
}

/// Writes the pictures.
pub fn plot(settings: &PlotSettings) -> Result<()> {
    let plots = plots(&read(&settings.runs)?);
    if plots.is_empty() {
        let problem = "has nothing to draw yet: no row of metrics.csv, no ranks.csv";
        return Err(Error::file(
            &settings.runs[0],
            problem,
            "wait until it has taken some steps",
        ));
    }
    let out = &settings.out;
    fs::create_dir_all(out).map_err(Error::io("create folder", out))?;
    for plot in &plots {
        let path = |ending: &str| out.join(format!("{}.{ending}", plot.name));
        match settings.format {
            Format::Svg => files::write_text(&path("svg"), &plot.standalone())?,
            Format::Png => files::write(&path("png"), &plot.png()?)?,
        }
        say(&format!("{}: {}", plot.name, plot.title));
    }
    say(&format!(
        "{} plots written to {}",
        plots.len(),
        out.display()
    ));
    Ok(())
}

fn read(runs: &[PathBuf]) -> Result<Vec<Run>> {
    runs.iter().map(|run| Run::read(run)).collect()
}
