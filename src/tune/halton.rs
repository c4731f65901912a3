//! Points that fill a cube evenly: Halton's sequence, shifted by a seed.

use crate::rng::Stream;

const PRIMES: [u64; 16] = [2, 3, 5, 7, 11, 13, 17, 19, 23, 29, 31, 37, 41, 43, 47, 53];

/// Point number `index` in the unit cube of `axes` dimensions; each seed shifts all points together, around the cube's ends.
pub fn halton(seed: u64, index: u64, axes: usize) -> Vec<f64> {
    let mut shifts = Stream::new(&[seed, 0x6861_6c74]);
    (0..axes)
        .map(|axis| {
            // More axes than primes begin anew, further along.
            let (base, later) = (
                PRIMES[axis % PRIMES.len()],
                (axis / PRIMES.len()) as u64 * 1009,
            );
            let point = radical_inverse(index + 1 + later, base) + shifts.fraction();
            point.fract()
        })
        .collect()
}

/// The digits of `number` in `base`, mirrored at the point.
fn radical_inverse(mut number: u64, base: u64) -> f64 {
    let (mut inverse, mut weight) = (0.0, 1.0 / base as f64);
    while number > 0 {
        inverse += (number % base) as f64 * weight;
        number /= base;
        weight /= base as f64;
    }
    inverse
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digits_are_mirrored() {
        let twos: Vec<f64> = (1..6).map(|i| radical_inverse(i, 2)).collect();
        assert_eq!(twos, [0.5, 0.25, 0.75, 0.125, 0.625]);
    }

    #[test]
    fn every_cell_of_a_grid_gets_its_share() {
        for seed in 0..5 {
            let mut cells = [[0; 4]; 3];
            for i in 0..120 {
                let point = halton(seed, i, 2);
                cells[(point[1] * 3.0) as usize][(point[0] * 4.0) as usize] += 1;
            }
            let all: Vec<i32> = cells.concat();
            assert!(all.iter().all(|count| (7..=13).contains(count)), "{all:?}");
        }
    }
}
