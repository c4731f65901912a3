//! The small transforms of F(4×4, 3×3), on eight tiles or kernels at a time.
#![allow(unsafe_code)]

/// Tiles or kernels side by side.
pub(super) const WIDTH: usize = 8;

/// One place of eight tiles.
pub(super) type Lanes = [f32; WIDTH];

/// Rows and columns of a tile of the input.
pub(super) const EDGE: usize = 6;

/// Rows and columns of a tile of the output.
pub(super) const OUT: usize = 4;

/// Of input tiles.
pub(super) const BT: [[f32; EDGE]; EDGE] = [
    [4.0, 0.0, -5.0, 0.0, 1.0, 0.0],
    [0.0, -4.0, -4.0, 1.0, 1.0, 0.0],
    [0.0, 4.0, -4.0, -1.0, 1.0, 0.0],
    [0.0, -2.0, -1.0, 2.0, 1.0, 0.0],
    [0.0, 2.0, -1.0, -2.0, 1.0, 0.0],
    [0.0, 4.0, 0.0, -5.0, 0.0, 1.0],
];

/// Of kernels.
pub(super) const G: [[f32; 3]; EDGE] = [
    [1.0 / 4.0, 0.0, 0.0],
    [-1.0 / 6.0, -1.0 / 6.0, -1.0 / 6.0],
    [-1.0 / 6.0, 1.0 / 6.0, -1.0 / 6.0],
    [1.0 / 24.0, 1.0 / 12.0, 1.0 / 6.0],
    [1.0 / 24.0, -1.0 / 12.0, 1.0 / 6.0],
    [0.0, 0.0, 1.0],
];

/// Back to output tiles.
pub(super) const AT: [[f32; EDGE]; OUT] = [
    [1.0, 1.0, 1.0, 1.0, 1.0, 0.0],
    [0.0, 1.0, -1.0, 2.0, -2.0, 0.0],
    [0.0, 1.0, 1.0, 4.0, 4.0, 0.0],
    [0.0, 1.0, -1.0, 8.0, -8.0, 1.0],
];

/// Rows to columns.
pub(super) const fn transposed<const R: usize, const S: usize>(l: &[[f32; S]; R]) -> [[f32; R]; S] {
    let mut turned = [[0.0; R]; S];
    let mut i = 0;
    while i < R * S {
        turned[i % S][i / S] = l[i / S][i % S];
        i += 1;
    }
    turned
}

/// `l·d·lᵀ` for each lane. Inlined where `l` is constant, its zeros cost nothing.
#[inline(always)]
pub(super) fn sandwich<const R: usize, const S: usize>(
    l: &[[f32; S]; R],
    d: &[[Lanes; S]; S],
) -> [[Lanes; R]; R] {
    let mut half = [[[0.0; WIDTH]; S]; R];
    for (half, l) in half.iter_mut().zip(l) {
        for (d, l) in d.iter().zip(l) {
            for (half, d) in half.iter_mut().zip(d) {
                add(half, *l, d);
            }
        }
    }
    let mut whole = [[[0.0; WIDTH]; R]; R];
    for (whole, half) in whole.iter_mut().zip(&half) {
        for (whole, l) in whole.iter_mut().zip(l) {
            for (half, l) in half.iter().zip(l) {
                add(whole, *l, half);
            }
        }
    }
    whole
}

/// `to += factor · from`.
#[inline(always)]
fn add(to: &mut Lanes, factor: f32, from: &Lanes) {
    if factor != 0.0 {
        (0..WIDTH).for_each(|i| to[i] += factor * from[i]);
    }
}

/// Loops that are worth compiling for several instruction sets. `run` and what it calls must always be inlined.
pub(super) trait Stage {
    fn run(self);
}

/// Runs a stage, compiled for AVX2 where the machine has it.
pub(super) fn fastest(stage: impl Stage) {
    #[cfg(target_arch = "x86_64")]
    if super::super::super::has_avx2() {
        // SAFETY: AVX2 and FMA were just found.
        return unsafe { wide(stage) };
    }
    stage.run();
}

/// # Safety
/// The machine must have AVX2 and FMA.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma")]
unsafe fn wide(stage: impl Stage) {
    stage.run();
}
