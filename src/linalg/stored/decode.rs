//! Bytes of a file into numbers.

use crate::backend::cpu::{Work, wide};
use crate::h5::Cell;
use crate::linalg::Real;

/// Numbers that are looked at together, in wide vectors.
const LANES: usize = 32;

/// The numbers of some bytes; where one is not finite, its place and what it is in the file.
pub(super) fn decode<T: Real>(cell: Cell, bytes: &[u8], out: &mut [T]) -> Result<(), (usize, f64)> {
    match cell {
        Cell::F32 => numbers(bytes, out, |b| f64::from(f32::from_ne_bytes(b))),
        Cell::F64 => numbers(bytes, out, f64::from_ne_bytes),
        Cell::Signed(1) => numbers(bytes, out, |b| f64::from(i8::from_ne_bytes(b))),
        Cell::Signed(2) => numbers(bytes, out, |b| f64::from(i16::from_ne_bytes(b))),
        Cell::Signed(4) => numbers(bytes, out, |b| f64::from(i32::from_ne_bytes(b))),
        Cell::Signed(_) => numbers(bytes, out, |b| i64::from_ne_bytes(b) as f64),
        Cell::Unsigned(1) => numbers(bytes, out, |b| f64::from(u8::from_ne_bytes(b))),
        Cell::Unsigned(2) => numbers(bytes, out, |b| f64::from(u16::from_ne_bytes(b))),
        Cell::Unsigned(4) => numbers(bytes, out, |b| f64::from(u32::from_ne_bytes(b))),
        Cell::Unsigned(_) => numbers(bytes, out, |b| u64::from_ne_bytes(b) as f64),
    }
}

fn numbers<T: Real, const N: usize>(
    bytes: &[u8],
    out: &mut [T],
    number: impl Fn([u8; N]) -> f64 + Copy,
) -> Result<(), (usize, f64)> {
    let (bytes, _) = bytes.as_chunks();
    let mut finite = true;
    wide(Numbers {
        bytes,
        out: &mut *out,
        number,
        finite: &mut finite,
    });
    if finite {
        return Ok(());
    }
    let at = out.iter().position(|value| !value.is_finite());
    let at = at.expect("one of them is not finite");
    Err((at, number(bytes[at])))
}

/// Numbers of `N` bytes each, and whether all of them are finite.
struct Numbers<'a, F, T, const N: usize> {
    bytes: &'a [[u8; N]],
    out: &'a mut [T],
    number: F,
    finite: &'a mut bool,
}

impl<F: Fn([u8; N]) -> f64, T: Real, const N: usize> Work for Numbers<'_, F, T, N> {
    #[inline(always)]
    fn run(self) {
        let (out, rest) = self.out.as_chunks_mut::<LANES>();
        let (bytes, rest_bytes) = self.bytes.as_chunks::<LANES>();
        // Zero times a number is zero, times anything else it is not: a test that, unlike comparisons, goes in vectors.
        let mut zeros = [T::zero(); LANES];
        for (out, bytes) in out.iter_mut().zip(bytes) {
            for lane in 0..LANES {
                out[lane] = T::nearest((self.number)(bytes[lane]));
            }
            for lane in 0..LANES {
                zeros[lane] += out[lane] * T::zero();
            }
        }
        for (out, &bytes) in rest.iter_mut().zip(rest_bytes) {
            *out = T::nearest((self.number)(bytes));
            zeros[0] += *out * T::zero();
        }
        *self.finite = zeros.iter().all(|&zero| zero == T::zero());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_bad_number_anywhere_is_found() {
        let good: Vec<f64> = (0..100).map(|i| f64::from(i) - 50.0).collect();
        let bytes = |values: &[f64]| -> Vec<u8> {
            values
                .iter()
                .flat_map(|value| value.to_ne_bytes())
                .collect()
        };
        let mut out = vec![0.0f64; 100];
        decode(Cell::F64, &bytes(&good), &mut out).unwrap();
        assert_eq!(out, good);
        let mut single = vec![0.0f32; 100];
        for at in 0..100 {
            for bad in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, 1e39] {
                let mut values = good.clone();
                values[at] = bad;
                let (found, value) = decode(Cell::F64, &bytes(&values), &mut single).unwrap_err();
                assert_eq!((found, value.to_bits()), (at, bad.to_bits()));
                let double = decode(Cell::F64, &bytes(&values), &mut out);
                assert_eq!(double.is_ok(), bad == 1e39);
            }
        }
    }
}
