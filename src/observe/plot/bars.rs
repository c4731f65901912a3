//! Bars that are made of parts.

use super::Plot;
use super::scale::Scale;
use super::svg::Drawing;

const WIDTH: f64 = 480.0;
const RIGHT: f64 = 466.0;

/// One bar.
#[derive(Clone, Debug)]
pub struct Bar {
    /// Its name.
    pub name: String,
    /// Its parts, in the order of the keys.
    pub parts: Vec<f64>,
}

/// Bars side by side, that lie.
#[derive(Clone, Debug)]
pub struct Bars {
    /// What the plot's file is called.
    pub name: String,
    /// Its title.
    pub title: String,
    /// The class and name of each part.
    pub keys: Vec<(String, String)>,
    /// The unit of values.
    pub unit: String,
    /// The bars.
    pub bars: Vec<Bar>,
}

impl Bars {
    /// Draws it; nothing if there is no bar.
    pub fn draw(self) -> Option<Plot> {
        if self.bars.is_empty() {
            return None;
        }
        let longest = self.bars.iter().map(|bar| bar.name.chars().count()).max();
        let left = 14.0 + 6.6 * longest.unwrap_or(0) as f64;
        let mut drawing = Drawing::default();
        let top = match self.keys.len() {
            1 => 8.0,
            _ => 8.0 + drawing.legend((left, 4.0), RIGHT - left, &self.keys),
        };
        let row = (420.0 / self.bars.len() as f64).clamp(7.0, 24.0);
        let bottom = top + row * self.bars.len() as f64 + 4.0;
        let sums = self.bars.iter().map(|bar| bar.parts.iter().sum());
        let x = Scale::of(sums.chain([0.0]), (left, RIGHT), false);
        for (value, name) in x.ticks(6) {
            let at = x.at(value);
            drawing.line("grid", (at, top - 2.0), (at, bottom));
            drawing.text("tick", (at, bottom + 15.0), "middle", &name);
        }
        let mut words = Vec::new();
        for (i, bar) in self.bars.iter().enumerate() {
            let y = top + row * i as f64;
            if row >= 11.0 || i % 4 == 0 {
                let at = (left - 6.0, y + row / 2.0 + 4.0);
                drawing.text("tick", at, "end", &bar.name);
            }
            let mut sum = 0.0;
            for ((class, key), &part) in self.keys.iter().zip(&bar.parts) {
                let (from, to) = (x.at(sum), x.at(sum + part));
                let told = format!("{}: {key} {} {}", bar.name, figure(part), self.unit);
                let size = (to - from, (row - 4.0).max(row * 0.7));
                drawing.rect(&format!("fill {class}"), (from, y + 2.0), size, &told);
                sum += part;
            }
            words.push(format!("{}: {}", bar.name, self.words(bar)));
        }
        drawing.line("axis", (left, bottom), (RIGHT, bottom));
        drawing.text("label", (RIGHT, bottom + 31.0), "end", &self.unit);
        words.truncate(16);
        Some(Plot {
            about: format!("In {}. {}.", self.unit, words.join("; ")),
            name: self.name,
            title: self.title,
            size: (WIDTH, bottom + 38.0),
            body: drawing.0,
            data: None,
        })
    }

    fn words(&self, bar: &Bar) -> String {
        let parts = self
            .keys
            .iter()
            .zip(&bar.parts)
            .filter(|(_, part)| **part > 0.0);
        let words: Vec<String> = parts
            .map(|((_, key), &part)| format!("{key} {}", figure(part)))
            .collect();
        words.join(", ")
    }
}

/// Three digits, and no more behind the point than help.
fn figure(value: f64) -> String {
    match value.abs() {
        big if big >= 100.0 => format!("{value:.0}"),
        one if one >= 1.0 => format!("{value:.1}"),
        _ => format!("{value:.3}"),
    }
}
