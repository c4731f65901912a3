//! Plots as SVG, whose colours a page's style sheet decides, or a file's own; PNG by way of that.

mod bars;
mod heat;
mod lines;
mod png;
mod scale;
mod spans;
mod svg;

pub use bars::{Bar, Bars};
pub use heat::Heat;
pub use lines::{Lines, Series};
pub use spans::{Span, Spans};
pub use svg::escape;

use std::path::Path;

use crate::{Error, Result, files};

/// The style of a plot that stands for itself.
const STYLE: &str = include_str!("plot.css");

/// A plot, drawn.
#[derive(Clone, Debug)]
pub struct Plot {
    /// What its file is called, without an ending.
    pub name: String,
    /// Its title.
    pub title: String,
    /// What it shows, in words, for those who do not see it.
    pub about: String,
    /// Its width and height.
    size: (f64, f64),
    /// What is drawn, with classes in place of colours.
    body: String,
    /// What a reader may ask it for: points by series, as JSON.
    data: Option<String>,
}

impl Plot {
    /// As part of a page that has a style for it.
    pub fn inline(&self) -> String {
        let (name, title, about) = (escape(&self.name), escape(&self.title), escape(&self.about));
        let ((width, height), body) = (self.size, &self.body);
        let reads = match &self.data {
            Some(data) => format!(
                "<p class=\"readout\" role=\"status\"></p><script type=\"application/json\">{}</script>",
                data.replace('<', "\\u003c")
            ),
            None => String::new(),
        };
        let focus = self.data.as_ref().map_or("", |_| " tabindex=\"0\"");
        format!(
            "<figure class=\"plot\"><figcaption>{title}</figcaption>\
             <svg viewBox=\"0 0 {width} {height}\" role=\"img\" aria-label=\"{title}. {about}\" data-plot=\"{name}\"{focus}>{body}</svg>{reads}</figure>"
        )
    }

    /// As a file of its own, light.
    pub fn standalone(&self) -> String {
        let ((width, height), body) = (self.size, &self.body);
        let (title, about) = (escape(&self.title), escape(&self.about));
        let below = height + HEAD;
        format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{below}\" viewBox=\"0 {} {width} {below}\" role=\"img\">\
             <title>{title}</title><desc>{about}</desc><style>{STYLE}</style>\
             <rect class=\"paper\" x=\"0\" y=\"{}\" width=\"{width}\" height=\"{below}\"/>\
             <text class=\"title\" x=\"12\" y=\"-8\">{title}</text>{body}</svg>\n",
            -HEAD, -HEAD
        )
    }

    /// As pixels, three for each unit.
    pub fn png(&self) -> Result<Vec<u8>> {
        png::render(&self.standalone())
    }
}

/// Writes plots into a folder, which is made: each as SVG and as PNG. Where no font is installed the latter are left out, and that is told.
pub fn write_all(plots: &[Plot], folder: &Path) -> Result<()> {
    std::fs::create_dir_all(folder).map_err(Error::io("create folder", folder))?;
    let path = |plot: &Plot, ending: &str| folder.join(format!("{}.{ending}", plot.name));
    for plot in plots {
        files::write_text(&path(plot, "svg"), &plot.standalone())?;
    }
    for plot in plots {
        match plot.png() {
            Ok(png) => files::write(&path(plot, "png"), &png)?,
            Err(error) => {
                log::warn!("plots are there as SVG only: {error}");
                break;
            }
        }
    }
    Ok(())
}

/// Room for the title of a plot that stands for itself.
const HEAD: f64 = 28.0;

/// A class for the n-th of several things.
fn colour(n: usize) -> String {
    format!("s{}", n % 8)
}

#[cfg(test)]
mod tests;
