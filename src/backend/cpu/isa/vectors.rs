//! The vectors of an instruction set, so that one kernel serves every width.
#![allow(unsafe_code)]

use std::fmt::Debug;

use super::super::Work;

/// A set of instructions that this machine was found to have: only then is there a value of the type, and whoever has
/// one may use its vectors.
///
/// Kernels are `#[inline(always)]`, down to [`run`](Self::run), which alone is compiled for the set.
pub(in super::super) trait Vectors: Copy + Debug + Send + Sync + 'static {
    /// Floats side by side in memory, aligned to their size.
    type Vector: Copy + Debug + Default + Send + Sync + AsRef<[f32]> + AsMut<[f32]>;
    /// The same in a register.
    type Register: Copy;
    /// A bit for each lane.
    type Bits: Copy + Debug + Default + Send + Sync;

    /// Floats in a vector.
    const LANES: usize;
    /// Registers that hold vectors.
    const REGISTERS: usize;

    /// The set, where the kernels are to use it.
    fn here() -> Option<Self>;

    /// Does `work`, compiled for this set, in a function by itself.
    fn run(self, work: impl Work);

    /// All lanes from memory.
    fn load(self, from: &Self::Vector) -> Self::Register;

    /// All lanes from memory of any alignment.
    ///
    /// # Safety
    /// As many floats must be there.
    unsafe fn load_at(self, from: *const f32) -> Self::Register;

    /// All lanes from bytes.
    ///
    /// # Safety
    /// As many bytes must be there.
    unsafe fn load_bytes(self, from: *const u8) -> Self::Register;

    /// All lanes to memory.
    fn store(self, to: &mut Self::Vector, x: Self::Register);

    /// All lanes to memory of any alignment.
    ///
    /// # Safety
    /// There must be room for as many floats.
    unsafe fn store_at(self, to: *mut f32, x: Self::Register);

    /// The same in all lanes.
    fn splat(self, x: f32) -> Self::Register;

    /// `a + b`.
    fn add(self, a: Self::Register, b: Self::Register) -> Self::Register;

    /// `a − b`.
    fn sub(self, a: Self::Register, b: Self::Register) -> Self::Register;

    /// `a · b`.
    fn mul(self, a: Self::Register, b: Self::Register) -> Self::Register;

    /// `a · b + c`, rounded once.
    fn mul_add(self, a: Self::Register, b: Self::Register, c: Self::Register) -> Self::Register;

    /// `c − a · b`, rounded once.
    fn less_mul(self, c: Self::Register, a: Self::Register, b: Self::Register) -> Self::Register;

    /// `max(x, 0)`, where NaN goes through, and which lanes are above zero or NaN.
    fn rectify(self, x: Self::Register) -> (Self::Register, Self::Bits);

    /// The lanes whose bit is set; zero in the others.
    fn keep(self, x: Self::Register, bits: Self::Bits) -> Self::Register;

    /// The larger of `best` and `x`, NaN being above all, and the number of the one taken.
    fn larger(
        self,
        best: (Self::Register, Self::Register),
        x: (Self::Register, Self::Register),
    ) -> (Self::Register, Self::Register);

    /// `x` where `a` is equal to `b`; zero in the other lanes.
    fn where_equal(self, a: Self::Register, b: Self::Register, x: Self::Register)
    -> Self::Register;

    /// Rows of eight to columns.
    fn transpose(self, rows: &[[f32; 8]; 8]) -> [[f32; 8]; 8];

    /// The sum of the lanes, in a fixed order.
    fn across(self, x: Self::Register) -> f32;
}

/// Vectors as the floats that they are.
pub(in super::super) fn floats<V: Vectors>(x: &[V::Vector]) -> &[f32] {
    // SAFETY: a vector is so many floats, without gaps.
    unsafe { std::slice::from_raw_parts(x.as_ptr().cast(), x.len() * V::LANES) }
}

/// Vectors as the floats that they are.
pub(in super::super) fn floats_mut<V: Vectors>(x: &mut [V::Vector]) -> &mut [f32] {
    // SAFETY: a vector is so many floats, without gaps.
    unsafe { std::slice::from_raw_parts_mut(x.as_mut_ptr().cast(), x.len() * V::LANES) }
}
