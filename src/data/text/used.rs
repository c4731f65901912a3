//! Which features occur, and how many different ones must have met in one number.

use crate::backend::cpu::prefetch_line;
use crate::comm::Comm;

/// Bytes that a rank sends at once.
const CHUNK: usize = 1 << 20;

/// Features whose words are asked for before they are needed.
const AHEAD: usize = 32;

/// A bit for each feature.
pub(super) struct Used {
    words: Vec<u64>,
}

impl Used {
    pub(super) fn new(features: usize) -> Self {
        Self {
            words: vec![0; features.div_ceil(64)],
        }
    }

    /// These occur.
    pub(super) fn mark(&mut self, indices: &[u32]) {
        for (i, &index) in indices.iter().enumerate() {
            if let Some(&ahead) = indices.get(i + AHEAD) {
                prefetch_line(&self.words[ahead as usize / 64]);
            }
            self.words[index as usize / 64] |= 1 << (index % 64);
        }
    }

    /// How many occur on any rank; *collective*.
    pub(super) fn count(&self, comm: &dyn Comm) -> u64 {
        let mut count = 0;
        for words in self.words.chunks(CHUNK / 8) {
            let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
            let mut any = vec![0; bytes.len()];
            for theirs in comm.gather(&bytes) {
                any.iter_mut().zip(theirs).for_each(|(a, b)| *a |= b);
            }
            count += any
                .iter()
                .map(|byte| u64::from(byte.count_ones()))
                .sum::<u64>();
        }
        count
    }
}

/// Of hashed features: how many different ones there are about, and how many of them share their number with another.
///
/// With n numbers of which m are used, linear counting gives d = -n ln(1 - m/n) different ones; one of them is alone with
/// probability about exp(-d/n) = 1 - m/n.
pub fn collisions(used: u64, features: usize) -> (f64, f64) {
    let (n, m) = (features as f64, used as f64);
    // Full to the last number, there is no telling: as if one were free.
    let fill = (m / n).min(1.0 - 1.0 / n.max(2.0));
    let different = -n * (-fill).ln_1p();
    (different, different * fill)
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use super::*;
    use crate::comm::run_ranks;
    use crate::data::text::features::number;

    #[test]
    fn features_of_all_ranks_are_counted_once() {
        let counts = run_ranks(3, |comm| {
            let mut used = Used::new(20_000_000);
            let mine = comm.rank() as u32;
            used.mark(&[0, 63, 64, 100 + mine, 19_999_999]);
            used.count(comm)
        });
        assert_eq!(counts, [7; 3]);
    }

    #[test]
    fn collisions_are_estimated_close_to_what_they_are() {
        let (features, different) = (50_000, 20_000);
        let mut places = HashMap::<u32, u64>::new();
        for i in 0..different {
            let place = number(format!("id={i}").as_bytes(), features);
            *places.entry(place).or_default() += 1;
        }
        let shared: u64 = places.values().filter(|&&count| count > 1).sum();
        let (estimate, colliding) = collisions(places.len() as u64, features);
        assert!(
            (estimate / different as f64 - 1.0).abs() < 0.02,
            "{estimate}"
        );
        let error = colliding / shared as f64 - 1.0;
        assert!(error.abs() < 0.05, "{colliding} for {shared}");
    }
}
