//! Who with whom: a square of squares, the more the darker.

use super::Plot;
use super::svg::Drawing;

const WIDTH: f64 = 480.0;
/// More than so many in a row are too small to see.
const MOST: usize = 64;

/// Values by row and column.
#[derive(Clone, Debug)]
pub struct Heat {
    /// What the plot's file is called.
    pub name: String,
    /// Its title.
    pub title: String,
    /// What rows and columns are.
    pub rows: String,
    /// See `rows`.
    pub columns: String,
    /// The unit of values.
    pub unit: String,
    /// The values, of as many columns in each row.
    pub values: Vec<Vec<f64>>,
}

impl Heat {
    /// Draws it; nothing if all is zero or there are too many.
    pub fn draw(self) -> Option<Plot> {
        let most = self.values.iter().flatten().copied().fold(0.0, f64::max);
        let size = self.values.len();
        if most <= 0.0 || size > MOST {
            return None;
        }
        let mut drawing = Drawing::default();
        let (left, top) = (64.0, 40.0);
        let cell = (360.0 / size as f64).min(44.0);
        let wide = cell * size as f64;
        drawing.text("label", (left, 14.0), "start", &self.columns);
        drawing.text("label", (left - 34.0, top - 8.0), "start", &self.rows);
        let every = size.div_ceil(16);
        let mut worst = (0, 0, 0.0);
        for (i, row) in self.values.iter().enumerate() {
            let y = top + cell * i as f64;
            if i % every == 0 {
                let middle = cell * (i as f64 + 0.5);
                drawing.text(
                    "tick",
                    (left - 8.0, top + middle + 4.0),
                    "end",
                    &i.to_string(),
                );
                drawing.text("tick", (left + middle, top - 6.0), "middle", &i.to_string());
            }
            for (j, &value) in row.iter().enumerate() {
                let at = (left + cell * j as f64 + 1.0, y + 1.0);
                let told = format!(
                    "{} {i}, {} {j}: {value:.2} {}",
                    self.rows, self.columns, self.unit
                );
                drawing.rect("cell", at, (cell - 2.0, cell - 2.0), "");
                let solid = 0.98 * value / most + 0.001;
                drawing.faded("fill heat", at, (cell - 2.0, cell - 2.0), (solid, &told));
                if cell >= 34.0 && value > 0.0 {
                    let class = if value > 0.55 * most { "over" } else { "tick" };
                    let middle = (at.0 + cell / 2.0 - 1.0, at.1 + cell / 2.0 + 3.0);
                    drawing.text(class, middle, "middle", &format!("{value:.1}"));
                }
                if value > worst.2 {
                    worst = (i, j, value);
                }
            }
        }
        let about = format!(
            "The darkest: {} {}, {} {}, {:.2} {}.",
            self.rows, worst.0, self.columns, worst.1, worst.2, self.unit
        );
        drawing.text("label", (left + wide, top + wide + 20.0), "end", &self.unit);
        Some(Plot {
            name: self.name,
            title: self.title,
            about,
            size: (WIDTH, top + wide + 30.0),
            body: drawing.0,
            data: None,
        })
    }
}
