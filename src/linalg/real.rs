//! The two kinds of numbers that matrices have.

use std::fmt;

use ndarray::NdFloat;

use crate::backend::cuda::{blas, gemm};
use crate::comm::{Data, Plain};
use crate::h5::Number;

/// How precise the numbers of a matrix are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Precision {
    /// 32 bits.
    Single,
    /// 64 bits.
    Double,
}

impl Precision {
    /// Bytes of a number.
    pub fn bytes(self) -> usize {
        match self {
            Self::Single => 4,
            Self::Double => 8,
        }
    }
}

impl fmt::Display for Precision {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str(match self {
            Self::Single => "f32",
            Self::Double => "f64",
        })
    }
}

/// A number of a matrix: `f32` or `f64`.
pub trait Real: NdFloat + Number + Plain + gemm::Number + blas::Number {
    /// Which of the two.
    const PRECISION: Precision;
    /// Half the distance from 1 to the next number: the most that one rounding changes, relatively.
    const ROUNDOFF: f64;

    /// The same number, exactly.
    fn wide(self) -> f64;
    /// The nearest number of this precision.
    fn nearest(value: f64) -> Self;
    /// As what ranks exchange.
    fn data(values: &mut [Self]) -> Data<'_>;
    /// Its bits.
    fn bits(self) -> u64;
    /// With the lowest bit of its exponent turned over: twice as large, or half.
    fn flipped(self) -> Self;
}

impl Real for f32 {
    const PRECISION: Precision = Precision::Single;
    const ROUNDOFF: f64 = f32::EPSILON as f64 / 2.0;

    #[inline(always)]
    fn wide(self) -> f64 {
        f64::from(self)
    }

    #[inline(always)]
    fn nearest(value: f64) -> Self {
        value as Self
    }

    fn data(values: &mut [Self]) -> Data<'_> {
        values.into()
    }

    fn bits(self) -> u64 {
        u64::from(self.to_bits())
    }

    fn flipped(self) -> Self {
        Self::from_bits(self.to_bits() ^ 1 << (Self::MANTISSA_DIGITS - 1))
    }
}

impl Real for f64 {
    const PRECISION: Precision = Precision::Double;
    const ROUNDOFF: f64 = f64::EPSILON / 2.0;

    #[inline(always)]
    fn wide(self) -> f64 {
        self
    }

    #[inline(always)]
    fn nearest(value: f64) -> Self {
        value
    }

    fn data(values: &mut [Self]) -> Data<'_> {
        values.into()
    }

    fn bits(self) -> u64 {
        self.to_bits()
    }

    fn flipped(self) -> Self {
        Self::from_bits(self.to_bits() ^ 1 << (Self::MANTISSA_DIGITS - 1))
    }
}
