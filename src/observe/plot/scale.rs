//! From values to places, and round values to mark on the way.

/// An axis.
#[derive(Clone, Copy, Debug)]
pub(super) struct Scale {
    low: f64,
    high: f64,
    /// Where these two are.
    from: f64,
    to: f64,
    log: bool,
}

impl Scale {
    /// Holds all `values`, from a place to another. In powers where they are above zero and far apart, if that is wished.
    pub(super) fn of(
        values: impl Iterator<Item = f64>,
        (from, to): (f64, f64),
        powers: bool,
    ) -> Self {
        let start = (f64::INFINITY, f64::NEG_INFINITY);
        let values = values.filter(|value| value.is_finite());
        let (low, high) = values.fold(start, |(low, high), value| {
            (low.min(value), high.max(value))
        });
        let (low, high) = match low <= high {
            true => (low, high),
            false => (0.0, 1.0),
        };
        let log = powers && low > 0.0 && high / low > 200.0;
        let (low, high) = match low == high {
            // Nothing that is counted is less than nothing.
            true if low == 0.0 => (0.0, 1.0),
            true => (
                low - 0.5 * low.abs().max(1.0),
                high + 0.5 * high.abs().max(1.0),
            ),
            false => (low, high),
        };
        Self {
            low,
            high,
            from,
            to,
            log,
        }
    }

    /// Reaches to the round values around.
    pub(super) fn rounded(mut self, count: usize) -> Self {
        if !self.log {
            let step = step(self.high - self.low, count);
            self.low = (self.low / step).floor() * step;
            self.high = (self.high / step).ceil() * step;
        }
        self
    }

    /// The ends.
    pub(super) fn ends(&self) -> (f64, f64) {
        (self.low, self.high)
    }

    /// Whether it is in powers.
    pub(super) fn is_log(&self) -> bool {
        self.log
    }

    /// Where `value` is.
    pub(super) fn at(&self, value: f64) -> f64 {
        let part = match self.log {
            true => (value / self.low).ln() / (self.high / self.low).ln(),
            false => (value - self.low) / (self.high - self.low),
        };
        self.from + part * (self.to - self.from)
    }

    /// Round values, about `count` of them, and how they are written.
    pub(super) fn ticks(&self, count: usize) -> Vec<(f64, String)> {
        if self.log {
            let powers = self.low.log10().ceil() as i32..=self.high.log10().floor() as i32;
            let each = powers.clone().count().div_ceil(count.max(1)).max(1);
            let values = powers.step_by(each).map(|power| 10f64.powi(power));
            return values.map(|value| (value, short(value, value))).collect();
        }
        let step = step(self.high - self.low, count);
        let first = (self.low / step - 1e-9).ceil() as i64;
        let last = (self.high / step + 1e-9).floor() as i64;
        let values = (first..=last).map(|i| i as f64 * step);
        values.map(|value| (value, short(value, step))).collect()
    }
}

/// 1, 2 or 5 times a power of ten, so that about `count` of them make up `range`.
fn step(range: f64, count: usize) -> f64 {
    let rough = range / count.max(1) as f64;
    let power = 10f64.powf(rough.log10().floor());
    let times = [1.0, 2.0, 5.0, 10.0];
    let fits = times
        .into_iter()
        .find(|times| times * power >= rough * 0.999);
    // Of a range that is next to nothing, there is no end to smaller ones.
    (fits.unwrap_or(10.0) * power).max(f64::MIN_POSITIVE)
}

/// A round value in few characters, as exact as `step` asks for.
pub(super) fn short(value: f64, step: f64) -> String {
    let units = [(1e9, "G"), (1e6, "M"), (1e3, "k")];
    let unit = units
        .into_iter()
        .find(|(size, _)| value.abs() >= 10.0 * size);
    let (size, name) = unit.unwrap_or((1.0, ""));
    let (value, step) = (value / size, step / size);
    if value != 0.0 && value.abs() < 1e-3 {
        return format!("{value:.0e}");
    }
    let digits = (-step.abs().log10()).ceil().clamp(0.0, 6.0) as usize;
    format!("{value:.digits$}{name}")
}
