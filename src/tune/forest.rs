//! A forest of trees that split at random: what trees that saw different trials disagree about is in doubt.

use super::{Belief, Surrogate};
use crate::rng::Stream;

/// Trees.
const TREES: u64 = 200;
/// Splits that are tried, of which the best is taken.
const TRIES: u64 = 4;

/// Trees that were grown from values at places.
pub struct Forest {
    trees: Vec<Node>,
    /// The least doubt: that of values themselves.
    least: f64,
}

enum Node {
    Leaf(f64),
    Split {
        coordinate: usize,
        at: f64,
        below: Box<Node>,
        above: Box<Node>,
    },
}

impl Forest {
    /// Learns from `values` at `places`; nothing is learnt of no value.
    pub fn learn(seed: u64, places: &[Vec<f64>], values: &[f64]) -> Option<Self> {
        let count = values.len();
        if count == 0 {
            return None;
        }
        let mean = values.iter().sum::<f64>() / count as f64;
        let variance = values.iter().map(|v| (v - mean).powi(2)).sum::<f64>() / count as f64;
        let grown = |tree: u64| {
            let mut stream = Stream::new(&[seed, 0x0066_6f72, tree]);
            // Each tree sees the trials with some of them twice and others not at all.
            let seen: Vec<usize> = (0..count)
                .map(|_| stream.below(count as u64) as usize)
                .collect();
            grow(places, values, seen, &mut stream)
        };
        Some(Self {
            trees: (0..TREES).map(grown).collect(),
            least: 0.05 * variance.sqrt(),
        })
    }
}

impl Surrogate for Forest {
    fn believe(&self, at: &[f64]) -> Belief {
        let said: Vec<f64> = self.trees.iter().map(|tree| tree.value(at)).collect();
        let mean = said.iter().sum::<f64>() / said.len() as f64;
        let squares = said.iter().map(|value| (value - mean).powi(2));
        let variance = squares.sum::<f64>() / said.len() as f64;
        Belief {
            mean,
            deviation: variance.sqrt().max(self.least),
        }
    }
}

impl Node {
    fn value(&self, at: &[f64]) -> f64 {
        let mut node = self;
        loop {
            node = match node {
                Self::Leaf(value) => return *value,
                Self::Split {
                    coordinate,
                    at: edge,
                    below,
                    above,
                } => match at[*coordinate] < *edge {
                    true => below,
                    false => above,
                },
            };
        }
    }
}

/// Splits until all values of a leaf are one, or are at one place.
fn grow(places: &[Vec<f64>], values: &[f64], seen: Vec<usize>, stream: &mut Stream) -> Node {
    let mean = seen.iter().map(|&i| values[i]).sum::<f64>() / seen.len() as f64;
    let apart = |coordinate: usize| {
        let along = seen.iter().map(|&i| places[i][coordinate]);
        along.fold((f64::MAX, f64::MIN), |(least, most), x| {
            (least.min(x), most.max(x))
        })
    };
    let open: Vec<(usize, f64, f64)> = (0..places[0].len())
        .map(|coordinate| {
            let (least, most) = apart(coordinate);
            (coordinate, least, most)
        })
        .filter(|(_, least, most)| most > least)
        .collect();
    let alike = seen.iter().all(|&i| values[i] == values[seen[0]]);
    if open.is_empty() || alike {
        return Node::Leaf(mean);
    }
    let tries = (0..TRIES).map(|_| {
        let (coordinate, least, most) = open[stream.below(open.len() as u64) as usize];
        // Above the least and not above the most: neither side is empty.
        let at = most - stream.fraction() * (most - least);
        let sides = |i: &usize| places[*i][coordinate] < at;
        (rest(values, &seen, sides), coordinate, at)
    });
    let best = tries.min_by(|a, b| a.0.total_cmp(&b.0));
    let (_, coordinate, at) = best.expect("some splits are tried");
    let (below, above): (Vec<usize>, Vec<usize>) =
        seen.iter().partition(|&&i| places[i][coordinate] < at);
    let mut branch = |seen| Box::new(grow(places, values, seen, stream));
    Node::Split {
        coordinate,
        at,
        below: branch(below),
        above: branch(above),
    }
}

/// The squares that are left when each side has its mean.
fn rest(values: &[f64], seen: &[usize], is_below: impl Fn(&usize) -> bool) -> f64 {
    let mut sums = [(0.0, 0.0, 0.0); 2];
    for i in seen {
        let side = &mut sums[usize::from(is_below(i))];
        let value = values[*i];
        *side = (side.0 + 1.0, side.1 + value, side.2 + value * value);
    }
    let left = |(count, sum, squares): (f64, f64, f64)| match count > 0.0 {
        true => squares - sum * sum / count,
        false => 0.0,
    };
    sums.into_iter().map(left).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_are_learnt_and_doubt_is_at_their_edge() {
        let places: Vec<Vec<f64>> = (0..20).map(|i| vec![f64::from(i) / 19.0]).collect();
        let values: Vec<f64> = (0..20).map(|i| f64::from(i32::from(i >= 10))).collect();
        let forest = Forest::learn(1, &places, &values).unwrap();
        let at = |x: f64| forest.believe(&[x]);
        assert!(at(0.1).mean < 0.02 && at(0.9).mean > 0.98);
        assert!(at(0.5).deviation > 3.0 * at(0.1).deviation);
    }

    #[test]
    fn one_place_or_one_value_is_no_trouble() {
        let same = Forest::learn(1, &[vec![0.5], vec![0.5]], &[1.0, 3.0]).unwrap();
        assert!((same.believe(&[0.1]).mean - 2.0).abs() < 0.3);
        let one = Forest::learn(1, &[vec![0.5]], &[2.0]).unwrap();
        assert_eq!(one.believe(&[0.9]).mean, 2.0);
        assert!(Forest::learn(1, &[], &[]).is_none());
    }
}
