//! The space of a search: axes with values, and configurations as places in a unit cube.

use std::fmt;

/// One of the values of an axis.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// A number, with an order and distances.
    Number(f64),
    /// A word, as far from any other as from the next.
    Word(String),
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        match self {
            Self::Number(number) => number.fmt(f),
            Self::Word(word) => word.fmt(f),
        }
    }
}

/// One thing that can be chosen.
#[derive(Clone, Debug, PartialEq)]
pub struct Axis {
    /// What it is called.
    pub name: String,
    /// What may be chosen.
    pub values: Vec<Value>,
}

/// Numbers that differ by this factor or more are told apart by their ratios.
const WIDE: f64 = 4.0;

impl Axis {
    /// Where value `index` is: one coordinate for numbers, as many as there are values for words.
    fn place(&self, index: usize, to: &mut Vec<f64>) {
        let numbers: Option<Vec<f64>> = self.values.iter().map(number).collect();
        let Some(numbers) = numbers else {
            // Two different words are as far apart as the ends of an axis of numbers.
            let side = std::f64::consts::FRAC_1_SQRT_2;
            let each = (0..self.values.len()).map(|i| if i == index { side } else { 0.0 });
            to.extend(each);
            return;
        };
        let (least, most) = (numbers.iter()).fold((f64::MAX, f64::MIN), |(least, most), &x| {
            (least.min(x), most.max(x))
        });
        let by_ratio = least > 0.0 && most >= WIDE * least;
        let scale = |x: f64| if by_ratio { x.ln() } else { x };
        let width = scale(most) - scale(least);
        to.push(match width > 0.0 {
            true => (scale(numbers[index]) - scale(least)) / width,
            false => 0.0,
        });
    }
}

fn number(value: &Value) -> Option<f64> {
    match value {
        Value::Number(number) => Some(*number),
        Value::Word(_) => None,
    }
}

/// All configurations: every value of every axis with all others.
#[derive(Clone, Debug, PartialEq)]
pub struct Space {
    /// The axes, of which each has a value at least.
    pub axes: Vec<Axis>,
}

impl Space {
    /// How many configurations there are.
    pub fn len(&self) -> usize {
        self.axes.iter().map(|axis| axis.values.len()).product()
    }

    /// Whether there is none: an axis has no values.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The values' indices of configuration `index`, axis by axis; the last axis goes fastest.
    pub fn indices(&self, index: usize) -> Vec<usize> {
        let mut rest = index;
        let mut indices: Vec<usize> = (self.axes.iter().rev())
            .map(|axis| {
                let at = rest % axis.values.len();
                rest /= axis.values.len();
                at
            })
            .collect();
        indices.reverse();
        indices
    }

    /// The configuration that has these indices.
    pub fn index(&self, indices: &[usize]) -> usize {
        let axes = self.axes.iter().zip(indices);
        axes.fold(0, |index, (axis, at)| index * axis.values.len() + at)
    }

    /// The values of configuration `index`.
    pub fn values(&self, index: usize) -> Vec<&Value> {
        let axes = self.axes.iter().zip(self.indices(index));
        axes.map(|(axis, at)| &axis.values[at]).collect()
    }

    /// Where configuration `index` is in the unit cube.
    pub fn place(&self, index: usize) -> Vec<f64> {
        let mut place = Vec::new();
        for (axis, at) in self.axes.iter().zip(self.indices(index)) {
            axis.place(at, &mut place);
        }
        place
    }

    /// For each coordinate of a place, the axis that it belongs to.
    pub fn owners(&self) -> Vec<usize> {
        let mut owners = Vec::new();
        for (number, axis) in self.axes.iter().enumerate() {
            let mut one = Vec::new();
            axis.place(0, &mut one);
            owners.extend(one.iter().map(|_| number));
        }
        owners
    }

    /// The configuration that a point of the unit cube, one coordinate an axis, falls into.
    pub fn at(&self, point: &[f64]) -> usize {
        let axes = self.axes.iter().zip(point);
        let indices: Vec<usize> = axes
            .map(|(axis, x)| {
                let count = axis.values.len();
                ((x * count as f64) as usize).min(count - 1)
            })
            .collect();
        self.index(&indices)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn space() -> Space {
        let numbers = |values: &[f64]| values.iter().map(|&x| Value::Number(x)).collect();
        let words = ["a", "b", "c"]
            .map(|word| Value::Word(word.into()))
            .to_vec();
        let axis = |name: &str, values: Vec<Value>| Axis {
            name: name.into(),
            values,
        };
        Space {
            axes: vec![
                axis("ranks", numbers(&[1.0, 2.0, 3.0])),
                axis("exchange", words),
                axis("batch", numbers(&[8.0, 32.0, 128.0])),
            ],
        }
    }

    #[test]
    fn configurations_are_numbered_one_to_one() {
        let space = space();
        assert_eq!(space.len(), 27);
        for index in 0..space.len() {
            assert_eq!(space.index(&space.indices(index)), index);
        }
        let words: Vec<String> = space.values(14).iter().map(|v| v.to_string()).collect();
        assert_eq!(words, ["2", "b", "128"]);
    }

    #[test]
    fn wide_axes_are_told_by_ratio_and_words_are_equally_far_apart() {
        let space = space();
        // Ranks, three coordinates of words, batch.
        let place = space.place(space.index(&[1, 2, 1]));
        assert_eq!(place.len(), 5);
        assert!((place[0] - 0.5).abs() < 1e-12 && (place[4] - 0.5).abs() < 1e-12);
        let far = |a: usize, b: usize| {
            let (a, b) = (
                space.place(space.index(&[0, a, 0])),
                space.place(space.index(&[0, b, 0])),
            );
            let squares = a.iter().zip(&b).map(|(a, b)| (a - b) * (a - b));
            squares.sum::<f64>().sqrt()
        };
        for (a, b) in [(0, 1), (0, 2), (1, 2)] {
            assert!((far(a, b) - 1.0).abs() < 1e-12);
        }
        assert_eq!(space.owners(), [0, 1, 1, 1, 2]);
    }
}
