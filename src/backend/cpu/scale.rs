//! Pixels into inputs: `out = pixel × factor + shift`. Cost: one pass, bound by writing the floats.

use super::wide;

/// Scales bytes.
pub fn bytes(pixels: &[u8], factor: f32, shift: f32, out: &mut [f32]) {
    wide(|| {
        for (out, &pixel) in out.iter_mut().zip(pixels) {
            *out = f32::from(pixel) * factor + shift;
        }
    });
}

/// Scales floats that are stored in little-endian order, at any alignment.
pub fn floats(pixels: &[u8], factor: f32, shift: f32, out: &mut [f32]) {
    for (out, four) in out.iter_mut().zip(pixels.chunks_exact(4)) {
        let pixel = f32::from_le_bytes(four.try_into().expect("chunks of four"));
        *out = pixel * factor + shift;
    }
}
