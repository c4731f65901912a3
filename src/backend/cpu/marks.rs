//! Where certain bytes are in a text: one bit a byte, sixteen at a time.
#![allow(unsafe_code)]

/// Replaces `marks` by a bit for each byte of `text`, the lowest of the first word for the first: whether it is one of
/// `these`.
pub fn mark_bytes(text: &[u8], these: [u8; 3], marks: &mut Vec<u64>) {
    marks.clear();
    let (blocks, rest) = text.as_chunks();
    marks.extend(blocks.iter().map(|block| word(block, these)));
    if !rest.is_empty() {
        let mut last = [0; 64];
        last[..rest.len()].copy_from_slice(rest);
        // What is behind the text is none of them, even where zero is.
        marks.push(word(&last, these) & ((1 << rest.len()) - 1));
    }
}

#[cfg(target_arch = "x86_64")]
#[inline(always)]
fn word(block: &[u8; 64], these: [u8; 3]) -> u64 {
    use std::arch::x86_64::{
        _mm_cmpeq_epi8, _mm_loadu_si128, _mm_movemask_epi8, _mm_or_si128, _mm_set1_epi8,
    };
    let mut marks = 0;
    for (i, sixteen) in block.as_chunks::<16>().0.iter().enumerate() {
        // SAFETY: SSE2 is part of x86-64, and sixteen bytes are there to be read.
        let bits = unsafe {
            let bytes = _mm_loadu_si128(sixteen.as_ptr().cast());
            let [a, b, c] =
                these.map(|this| _mm_cmpeq_epi8(bytes, _mm_set1_epi8(this.cast_signed())));
            _mm_movemask_epi8(_mm_or_si128(_mm_or_si128(a, b), c))
        };
        marks |= u64::from(bits as u16) << (16 * i);
    }
    marks
}

#[cfg(not(target_arch = "x86_64"))]
fn word(block: &[u8; 64], these: [u8; 3]) -> u64 {
    let bits = block.iter().map(|byte| u64::from(these.contains(byte)));
    bits.enumerate().fold(0, |marks, (i, bit)| marks | bit << i)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_byte_is_marked_that_is_one_of_them_and_no_other() {
        let text: Vec<u8> = (0..700u32).map(|i| (i * i % 251) as u8).collect();
        for length in [0, 1, 15, 63, 64, 65, 128, 700] {
            for these in [[0, 1, 4], [9, 32, 58], [250, 255, 128]] {
                let mut marks = vec![7];
                mark_bytes(&text[..length], these, &mut marks);
                assert_eq!(marks.len(), length.div_ceil(64));
                let found = (0..64 * marks.len()).filter(|i| marks[i / 64] >> (i % 64) & 1 == 1);
                let expected = (0..length).filter(|&i| these.contains(&text[i]));
                assert!(found.eq(expected), "{length} {these:?}");
            }
        }
    }
}
