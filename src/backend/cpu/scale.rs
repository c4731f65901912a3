//! Pixels into inputs: `out = pixel × factor + shift`. Cost: one pass, bound by writing the floats.
#![allow(unsafe_code)]

use super::has_avx2;

/// Scales bytes.
pub fn bytes(pixels: &[u8], factor: f32, shift: f32, out: &mut [f32]) {
    #[cfg(target_arch = "x86_64")]
    if has_avx2() {
        // SAFETY: the instructions were just found to be there.
        return unsafe { bytes_avx2(pixels, factor, shift, out) };
    }
    bytes_anywhere(pixels, factor, shift, out);
}

/// Scales floats that are stored in little-endian order, at any alignment.
pub fn floats(pixels: &[u8], factor: f32, shift: f32, out: &mut [f32]) {
    for (out, four) in out.iter_mut().zip(pixels.chunks_exact(4)) {
        let pixel = f32::from_le_bytes(four.try_into().expect("chunks of four"));
        *out = pixel * factor + shift;
    }
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
fn bytes_avx2(pixels: &[u8], factor: f32, shift: f32, out: &mut [f32]) {
    bytes_anywhere(pixels, factor, shift, out);
}

#[inline(always)]
fn bytes_anywhere(pixels: &[u8], factor: f32, shift: f32, out: &mut [f32]) {
    for (out, &pixel) in out.iter_mut().zip(pixels) {
        *out = f32::from(pixel) * factor + shift;
    }
}
