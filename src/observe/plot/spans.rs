//! What each of several did when.

use super::Plot;
use super::scale::Scale;
use super::svg::Drawing;

const WIDTH: f64 = 980.0;
const LEFT: f64 = 64.0;
const RIGHT: f64 = 966.0;
const ROW: f64 = 22.0;
/// What is drawn at the most: more is not seen.
const MOST: usize = 6000;

/// Something that took a while.
#[derive(Clone, Debug)]
pub struct Span {
    /// Whose row it is in.
    pub row: usize,
    /// Its class.
    pub class: String,
    /// What it was.
    pub name: String,
    /// From when to when, in milliseconds.
    pub from: f64,
    /// See `from`.
    pub to: f64,
}

/// Rows of spans over one clock.
#[derive(Clone, Debug)]
pub struct Spans {
    /// What the plot's file is called.
    pub name: String,
    /// Its title.
    pub title: String,
    /// The names of rows.
    pub rows: Vec<String>,
    /// The class and name of each kind.
    pub keys: Vec<(String, String)>,
    /// The spans.
    pub spans: Vec<Span>,
}

impl Spans {
    /// Draws it; nothing if there is no span.
    pub fn draw(mut self) -> Option<Plot> {
        if self.spans.is_empty() {
            return None;
        }
        self.spans.truncate(MOST);
        let mut drawing = Drawing::default();
        let top = 8.0 + drawing.legend((LEFT, 4.0), RIGHT - LEFT, &self.keys);
        let bottom = top + ROW * self.rows.len() as f64;
        let ends = self.spans.iter().flat_map(|span| [span.from, span.to]);
        let x = Scale::of(ends, (LEFT, RIGHT), false);
        for (value, name) in x.ticks(10) {
            let at = x.at(value);
            drawing.line("grid", (at, top), (at, bottom));
            drawing.text("tick", (at, bottom + 15.0), "middle", &name);
        }
        for (i, name) in self.rows.iter().enumerate() {
            let y = top + ROW * (i as f64 + 0.5) + 4.0;
            drawing.text("tick", (LEFT - 6.0, y), "end", name);
        }
        for span in &self.spans {
            let (from, to) = (x.at(span.from), x.at(span.to));
            let told = format!("{}: {:.3} ms", span.name, span.to - span.from);
            let at = (from, top + ROW * span.row as f64 + 2.0);
            let size = ((to - from).max(0.3), ROW - 4.0);
            drawing.rect(&format!("fill {}", span.class), at, size, &told);
        }
        drawing.line("axis", (LEFT, bottom), (RIGHT, bottom));
        drawing.text("label", (RIGHT, bottom + 31.0), "end", "milliseconds");
        Some(Plot {
            about: format!(
                "{} rows over {:.1} ms, {} spans.",
                self.rows.len(),
                x.ends().1 - x.ends().0,
                self.spans.len()
            ),
            name: self.name,
            title: self.title,
            size: (WIDTH, bottom + 38.0),
            body: drawing.0,
            data: None,
        })
    }
}
