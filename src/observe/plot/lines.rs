//! Curves over one axis.

use serde_json::json;

use super::scale::{Scale, short};
use super::svg::Drawing;
use super::{Plot, colour};

const WIDTH: f64 = 480.0;
const LEFT: f64 = 52.0;
const RIGHT: f64 = 466.0;
const TALL: f64 = 190.0;
/// Points of a curve that are drawn: more than a screen can show.
const POINTS: usize = 700;
/// Up to so many points are marked each by itself.
const MARKED: usize = 30;
/// Up to so many values of x are a column of points each, which are this far from its middle at most.
const COLUMNS: usize = 6;
const APART: f64 = 9.0;

/// One curve.
#[derive(Clone, Debug)]
pub struct Series {
    /// Its name.
    pub name: String,
    /// Its points, by x.
    pub points: Vec<(f64, f64)>,
    /// The number of its colour.
    pub colour: usize,
    /// Whether it is drawn in dashes.
    pub dashed: bool,
}

impl Series {
    /// Its colour, and whether it is in dashes.
    fn class(&self) -> String {
        let dashes = if self.dashed { " dashed" } else { "" };
        format!("{}{dashes}", colour(self.colour))
    }
}

/// Several curves.
#[derive(Clone, Debug)]
pub struct Lines {
    /// What the plot's file is called.
    pub name: String,
    /// Its title.
    pub title: String,
    /// What x is, and the unit of y, if any.
    pub x: String,
    /// See `x`.
    pub unit: String,
    /// The curves.
    pub series: Vec<Series>,
    /// Whether y begins at zero.
    pub from_zero: bool,
}

impl Lines {
    /// Draws it; nothing if there is no point.
    pub fn draw(self) -> Option<Plot> {
        self.draw_over(Vec::new())
    }

    /// Draws it over clouds of points, which are not joined; nothing if there is no curve.
    pub fn draw_over(self, clouds: Vec<Series>) -> Option<Plot> {
        self.draw_all(clouds, None)
    }

    /// Draws it together with curves of another unit, whose axis is on the right; nothing if there is no curve of the first.
    pub fn draw_beside(self, unit: &str, series: Vec<Series>) -> Option<Plot> {
        self.draw_all(Vec::new(), Some((unit, series)))
    }

    fn draw_all(
        mut self,
        mut clouds: Vec<Series>,
        mut beside: Option<(&str, Vec<Series>)>,
    ) -> Option<Plot> {
        let others = beside.iter_mut().flat_map(|(_, series)| series);
        for one in self.series.iter_mut().chain(&mut clouds).chain(others) {
            (one.points).retain(|(x, y)| x.is_finite() && y.is_finite());
        }
        self.series.retain(|one| !one.points.is_empty());
        if self.series.is_empty() {
            return None;
        }
        let (unit, mut others) = beside.unwrap_or_default();
        others.retain(|one| !one.points.is_empty());
        let right = if others.is_empty() {
            RIGHT
        } else {
            RIGHT - 40.0
        };
        let mut drawing = Drawing::default();
        let items: Vec<(String, String)> = (clouds.iter().chain(&self.series).chain(&others))
            .map(|one| (one.class(), one.name.clone()))
            .collect();
        let top = 8.0 + drawing.legend((LEFT, 4.0), RIGHT - LEFT, &items);
        let bottom = top + TALL;
        let all = || {
            clouds
                .iter()
                .chain(&self.series)
                .flat_map(|one| &one.points)
        };
        let across = all().chain(others.iter().flat_map(|one| &one.points));
        let columns = columns(&clouds);
        let inset = columns.as_ref().map_or(0.0, |_| APART + 2.0);
        let ends = (LEFT + inset, right - inset);
        let x = Scale::of(across.map(|point| point.0), ends, false);
        let zero = self.from_zero.then_some(0.0);
        let values = all().map(|point| point.1).chain(zero);
        let y = Scale::of(values, (bottom, top), !self.from_zero).rounded(5);
        for (value, name) in y.ticks(5) {
            let at = y.at(value);
            drawing.line("grid", (LEFT, at), (right, at));
            drawing.text("tick", (LEFT - 6.0, at + 4.0), "end", &name);
        }
        let values = others.iter().flat_map(|one| &one.points);
        let second = Scale::of(
            values.map(|point| point.1).chain(zero),
            (bottom, top),
            false,
        );
        let second = second.rounded(5);
        if !others.is_empty() {
            for (value, name) in second.ticks(5) {
                drawing.text(
                    "tick",
                    (right + 6.0, second.at(value) + 4.0),
                    "start",
                    &name,
                );
            }
        }
        for (value, name) in columns.clone().unwrap_or_else(|| x.ticks(6)) {
            drawing.text("tick", (x.at(value), bottom + 16.0), "middle", &name);
        }
        drawing.line("axis", (LEFT, bottom), (right, bottom));
        let below = match (self.unit.as_str(), others.is_empty()) {
            ("", true) => self.x.clone(),
            (left, true) => format!("{} · y in {left}", self.x),
            (left, false) => format!("{} · left {left}, right {unit}", self.x),
        };
        drawing.text("label", (RIGHT, bottom + 33.0), "end", &below);
        let place = |&(a, b): &(f64, f64)| (x.at(a), y.at(b));
        let aside = |&(a, b): &(f64, f64)| (x.at(a), second.at(b));
        let fill = |one: &Series| format!("fill {}", colour(one.colour));
        for one in &clouds {
            for (i, point) in one.points.iter().enumerate() {
                // By the golden ratio, of which no few multiples meet.
                let part = (i as f64 * 0.618_034).fract();
                let aside = columns.as_ref().map_or(0.0, |_| APART * (2.0 * part - 1.0));
                let (x, y) = place(point);
                drawing.dot(&fill(one), (x + aside, y));
            }
        }
        for one in &self.series {
            let drawn = thinned(&one.points);
            drawing.path(&format!("curve {}", one.class()), drawn.iter().map(place));
            if one.points.len() <= MARKED {
                (one.points.iter()).for_each(|point| drawing.dot(&fill(one), place(point)));
            }
        }
        for one in &others {
            drawing.path(
                &format!("curve {}", one.class()),
                one.points.iter().map(aside),
            );
            (one.points.iter()).for_each(|point| drawing.dot(&fill(one), aside(point)));
        }
        let series: Vec<_> = (self.series.iter().chain(&others))
            .map(|one| json!({"name": one.name, "points": thinned(&one.points)}))
            .collect();
        let (low, high) = x.ends();
        let data = json!({"x": self.x, "unit": self.unit, "series": series,
            "box": [ends.0, top, ends.1, bottom], "ends": [low, high]});
        Some(Plot {
            about: self.about(&others, y.is_log()),
            name: self.name,
            title: self.title,
            size: (WIDTH, bottom + 40.0),
            body: drawing.0,
            data: Some(data.to_string()),
        })
    }

    fn about(&self, others: &[Series], log: bool) -> String {
        let curve = |one: &Series| {
            let (first, last) = (one.points[0], one.points[one.points.len() - 1]);
            let write = |value: f64| short(value, value.abs().max(1e-9) / 1e3);
            format!(
                "{} from {} at {} {} to {} at {}",
                one.name,
                write(first.1),
                self.x,
                write(first.0),
                write(last.1),
                write(last.0)
            )
        };
        let words: Vec<String> = self.series.iter().chain(others).map(curve).collect();
        let scale = if log {
            " The y axis is logarithmic."
        } else {
            ""
        };
        format!("By {}: {}.{scale}", self.x, words.join("; "))
    }
}

/// The values of x and their names, where points are so many and x so few whole numbers that they would hide each other.
fn columns(clouds: &[Series]) -> Option<Vec<(f64, String)>> {
    let points = || clouds.iter().flat_map(|one| &one.points);
    let mut values: Vec<f64> = Vec::new();
    for &(x, _) in points() {
        if !values.contains(&x) {
            values.push(x);
        }
        if values.len() > COLUMNS || x.fract() != 0.0 {
            return None;
        }
    }
    values.sort_by(f64::total_cmp);
    let is_crowded = points().count() > MARKED * values.len().max(1);
    let named = values.into_iter().map(|value| (value, short(value, 1.0)));
    is_crowded.then(|| named.collect())
}

/// So few points that what is drawn looks the same: of each stretch the lowest and the highest.
fn thinned(points: &[(f64, f64)]) -> Vec<(f64, f64)> {
    if points.len() <= POINTS {
        return points.to_vec();
    }
    let each = points.len().div_ceil(POINTS / 2);
    let mut kept = Vec::with_capacity(POINTS + 2);
    kept.push(points[0]);
    for stretch in points[1..points.len() - 1].chunks(each) {
        let by = |a: &&(f64, f64), b: &&(f64, f64)| a.1.total_cmp(&b.1);
        let ends = [stretch.iter().min_by(by), stretch.iter().max_by(by)];
        let mut ends: Vec<(f64, f64)> = ends.into_iter().flatten().copied().collect();
        ends.sort_by(|a, b| a.0.total_cmp(&b.0));
        ends.dedup();
        kept.extend(ends);
    }
    kept.push(points[points.len() - 1]);
    kept
}
