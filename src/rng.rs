//! Random numbers as pure functions of a key and a counter: the same on every machine and for any number of ranks.

/// Scrambles 64 bits into 64 others, one to one (the finaliser of SplitMix64).
pub fn mix(mut x: u64) -> u64 {
    x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

/// Numbers number 0, 1, 2 … of the sequence that `key` names.
#[derive(Clone, Debug)]
pub struct Stream {
    key: u64,
    counter: u64,
}

impl Stream {
    /// The sequence named by all of `parts` together, for example seed, purpose and sample.
    pub fn new(parts: &[u64]) -> Self {
        let absorb =
            |key: u64, &part: &u64| mix(key.wrapping_add(0x9e37_79b9_7f4a_7c15) ^ mix(part));
        Self {
            key: parts.iter().fold(parts.len() as u64, absorb),
            counter: 0,
        }
    }

    /// 64 random bits.
    pub fn bits(&mut self) -> u64 {
        self.counter = self.counter.wrapping_add(0x9e37_79b9_7f4a_7c15);
        mix(self.key ^ mix(self.counter))
    }

    /// Uniform in `0.0..1.0`, in steps of 2⁻²⁴.
    pub fn uniform(&mut self) -> f32 {
        (self.bits() >> 40) as f32 * (1.0 / (1u32 << 24) as f32)
    }

    /// Uniform in `0.0..1.0`, in steps of 2⁻⁵³.
    pub fn fraction(&mut self) -> f64 {
        (self.bits() >> 11) as f64 * (1.0 / (1u64 << 53) as f64)
    }

    /// Uniform in `low..high`.
    pub fn between(&mut self, low: f32, high: f32) -> f32 {
        low + (high - low) * self.uniform()
    }

    /// Uniform in `0..n`, without bias worth measuring for n far below 2⁶⁴.
    pub fn below(&mut self, n: u64) -> u64 {
        ((u128::from(self.bits()) * u128::from(n)) >> 64) as u64
    }

    /// Normal with mean 0 and variance 1 (Box–Muller; `libm` gives the same bits everywhere).
    pub fn normal(&mut self) -> f32 {
        let radius = libm::sqrtf(-2.0 * libm::logf(1.0 - self.uniform()));
        radius * libm::cosf(std::f32::consts::TAU * self.uniform())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_numbers_of_a_stream_never_change() {
        let mut stream = Stream::new(&[1, 2, 3]);
        let first: Vec<u64> = (0..3).map(|_| stream.below(1_000_000)).collect();
        assert_eq!(first, [519_771, 276_169, 127_997]);
    }

    #[test]
    fn uniform_and_normal_have_their_moments() {
        let mut stream = Stream::new(&[7]);
        let n = 100_000;
        let uniform: f64 = (0..n).map(|_| f64::from(stream.uniform())).sum::<f64>() / f64::from(n);
        let normals: Vec<f64> = (0..n).map(|_| f64::from(stream.normal())).collect();
        let mean = normals.iter().sum::<f64>() / f64::from(n);
        let variance = normals.iter().map(|x| x * x).sum::<f64>() / f64::from(n);
        assert!((uniform - 0.5).abs() < 0.005, "mean {uniform}");
        assert!(
            mean.abs() < 0.02 && (variance - 1.0).abs() < 0.02,
            "{mean} {variance}"
        );
    }

    #[test]
    fn streams_differ_in_every_part_of_their_key() {
        let head = |parts: &[u64]| Stream::new(parts).bits();
        let keys: [&[u64]; 6] = [&[], &[0], &[0, 0], &[1, 0], &[0, 1], &[1, 1]];
        for (i, a) in keys.iter().enumerate() {
            for b in &keys[..i] {
                assert_ne!(head(a), head(b), "{a:?} {b:?}");
            }
        }
    }
}
