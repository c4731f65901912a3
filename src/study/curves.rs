//! What a speed may depend on a parameter like: not at all, in a straight line, by its logarithm, or up to a limit.

use super::least_squares::{Fitted, Measured, fit};

/// A kind of curve.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// y = a
    Constant,
    /// y = a + b·x
    Linear,
    /// y = a + b·ln x
    Logarithmic,
    /// y = a·x / (x + b): half of the limit a at x = b.
    Saturating,
}

impl Shape {
    /// All of them.
    pub const ALL: [Self; 4] = [
        Self::Constant,
        Self::Linear,
        Self::Logarithmic,
        Self::Saturating,
    ];

    /// As the user reads it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Constant => "constant",
            Self::Linear => "linear",
            Self::Logarithmic => "logarithmic",
            Self::Saturating => "saturating",
        }
    }

    /// What the coefficients are, in a formula.
    pub fn formula(self) -> &'static str {
        match self {
            Self::Constant => "a",
            Self::Linear => "a + b·x",
            Self::Logarithmic => "a + b·ln x",
            Self::Saturating => "a·x / (x + b)",
        }
    }

    /// The curve of this kind that is closest to what was `measured` at `x`; none where that cannot tell.
    pub fn fit(self, x: &[f64], measured: Measured) -> Option<Curve> {
        let ones = vec![1.0; x.len()];
        let map = |f: fn(f64) -> f64| x.iter().map(|&x| f(x)).collect();
        let fitted = match self {
            Self::Constant => fit(&[ones], measured),
            Self::Linear => fit(&[ones, x.to_vec()], measured),
            Self::Logarithmic => fit(&[ones, map(f64::ln)], measured),
            Self::Saturating => saturating(x, measured),
        }?;
        let known = fitted.estimates.iter().all(Option::is_some);
        known.then_some(Curve {
            shape: self,
            fitted,
        })
    }
}

/// A curve with its coefficients.
#[derive(Clone, Debug)]
pub struct Curve {
    /// Its kind.
    pub shape: Shape,
    /// Its coefficients a and b, and how well it fits.
    pub fitted: Fitted,
}

impl Curve {
    /// What it says of `x`.
    pub fn at(&self, x: f64) -> f64 {
        let value = |i: usize| self.fitted.estimates[i].map_or(0.0, |estimate| estimate.value);
        match self.shape {
            Shape::Constant => value(0),
            Shape::Linear => value(0) + value(1) * x,
            Shape::Logarithmic => value(0) + value(1) * x.ln(),
            Shape::Saturating => value(0) * x / (x + value(1)),
        }
    }
}

/// All curves for the same measurements.
#[derive(Clone, Debug)]
pub struct Described {
    /// Those that can be told, the best by Akaike's criterion first.
    pub curves: Vec<Curve>,
    /// How many different values the parameter has.
    pub levels: usize,
    /// The correlation of the two.
    pub correlation: Option<f64>,
}

impl Described {
    /// By how much a curve's criterion is above the best: beyond 10 it is out of the question.
    pub fn behind(&self, curve: &Curve) -> f64 {
        curve.fitted.aic() - self.curves[0].fitted.aic()
    }
}

/// Fits all curves to what was `measured` at positive `x`; through two levels of it all that are not level are the same.
pub fn describe(x: &[f64], measured: Measured) -> Option<Described> {
    let mut levels = x.to_vec();
    levels.sort_by(f64::total_cmp);
    levels.dedup();
    let shapes = if levels.len() > 2 {
        Shape::ALL.len()
    } else {
        2
    };
    let mut curves: Vec<Curve> = (Shape::ALL[..shapes].iter())
        .filter_map(|shape| shape.fit(x, measured))
        .collect();
    curves.sort_by(|a, b| a.fitted.aic().total_cmp(&b.fitted.aic()));
    (!curves.is_empty()).then(|| Described {
        curves,
        levels: levels.len(),
        correlation: super::correlation(x, measured.y),
    })
}

/// The closest y = a·x / (x + b): for each b the best a is known, so that only b is searched for.
fn saturating(x: &[f64], measured: Measured) -> Option<Fitted> {
    let y = measured.y;
    let (least, most) = (x.iter())
        .filter(|&&x| x > 0.0)
        .fold((f64::MAX, 0.0), |(least, most): (f64, f64), &x| {
            (least.min(x), most.max(x))
        });
    if least >= most {
        return None;
    }
    let share = |half: f64| -> Vec<f64> { x.iter().map(|x| x / (x + half)).collect() };
    let dot = |a: &[f64], b: &[f64]| -> f64 { a.iter().zip(b).map(|(a, b)| a * b).sum() };
    let best_a = |z: &[f64]| dot(z, y) / dot(z, z);
    let left = |log: f64| {
        let z = share(log.exp());
        let a = best_a(&z);
        z.iter()
            .zip(y)
            .map(|(z, y)| (y - a * z).powi(2))
            .sum::<f64>()
    };
    // Halves of the limit far outside of what was measured are a constant, or a line from zero.
    let (from, to) = ((least / 1e3).ln(), (most * 1e3).ln());
    const STEPS: u32 = 64;
    let step = (to - from) / f64::from(STEPS);
    let at = |i: u32| from + step * f64::from(i);
    let best = (0..=STEPS).min_by(|&i, &j| left(at(i)).total_cmp(&left(at(j))))?;
    // At the ends there is no limit to tell: the constant and the line say the same.
    if best == 0 || best == STEPS {
        return None;
    }
    let half = narrow(&left, (at(best) - step, at(best) + step)).exp();
    let z = share(half);
    let a = best_a(&z);
    // Straightened at the best point, the errors are those of a line.
    let slope: Vec<f64> = x.iter().map(|x| -a * x / (x + half).powi(2)).collect();
    let straight: Vec<f64> = (y.iter().zip(&slope))
        .map(|(y, slope)| y + half * slope)
        .collect();
    let straight = Measured {
        y: &straight,
        ..measured
    };
    let mut fitted = fit(&[z.clone(), slope], straight)?;
    let values: Vec<f64> = z.iter().map(|z| a * z).collect();
    fitted.residuals = y.iter().zip(&values).map(|(y, value)| y - value).collect();
    fitted.values = values;
    let around = super::centred(y);
    let squares = |values: &[f64]| values.iter().map(|value| value * value).sum();
    fitted.squares = (squares(&fitted.residuals), squares(&around));
    Some(fitted)
}

/// Where `f` is lowest between two points, by sections of the golden ratio.
fn narrow(f: &dyn Fn(f64) -> f64, (mut low, mut high): (f64, f64)) -> f64 {
    let ratio = (5.0_f64.sqrt() - 1.0) / 2.0;
    for _ in 0..80 {
        let (first, second) = (high - ratio * (high - low), low + ratio * (high - low));
        match f(first) < f(second) {
            true => high = second,
            false => low = first,
        }
    }
    0.5 * (low + high)
}
