//! Global heaps that HDF5's library would go round in circles in: up to 1.10 at least, it goes on from an object by the size that
//! stands there, also where that is zero.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;

use super::text::{HEAD, number, short};

/// Bytes at the begin and at the end of a file that are looked through: writers put heaps there, and a file of numbers is not
/// read for its heaps' sake.
const STRETCH: u64 = 1 << 20;
const SIGNATURE: &[u8] = b"GCOL\x01";

/// Whether the heaps of the file at `path` have an end, as far as they were looked for.
pub(super) fn are_sound(path: &Path) -> bool {
    let ends = || {
        let file = File::open(path)?;
        let length = file.metadata()?.len();
        let first = length.min(STRETCH);
        let last = first.max(length.saturating_sub(STRETCH));
        for stretch in [0..first, last..length] {
            let mut bytes = vec![0; (stretch.end - stretch.start) as usize];
            file.read_exact_at(&mut bytes, stretch.start)?;
            let is_heap = |&at: &usize| bytes[at..].starts_with(SIGNATURE);
            let mut heaps = (0..bytes.len()).filter(is_heap);
            if heaps.any(|at| !has_end(&bytes[at..])) {
                return Ok(false);
            }
        }
        std::io::Result::Ok(true)
    };
    // What cannot be read is told when it is opened.
    ends().unwrap_or(true)
}

/// Whether each object of a heap leads further, until its end or that of what is known of it.
fn has_end(heap: &[u8]) -> bool {
    let size = number(heap, 8).and_then(|size| usize::try_from(size).ok());
    let heap = &heap[..size.unwrap_or(0).min(heap.len())];
    let mut at = HEAD;
    while let (Some(index), Some(size)) = (
        object(heap, at, short),
        object(heap, at.saturating_add(8), number),
    ) {
        // What is free has number 0, and a size that counts its own head.
        let step = match index {
            0 => size,
            _ => (HEAD as u64).saturating_add(size.checked_next_multiple_of(8).unwrap_or(size)),
        };
        if step == 0 {
            return false;
        }
        at = at.saturating_add(usize::try_from(step).unwrap_or(usize::MAX));
    }
    true
}

fn object<T>(heap: &[u8], at: usize, read: impl Fn(&[u8], usize) -> Option<T>) -> Option<T> {
    (at < heap.len()).then(|| read(heap, at)).flatten()
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::super::{File, Piece};

    /// Found by changing bytes: `phalanx trace` on such a file did not end.
    #[test]
    fn a_heap_without_an_end_is_refused_and_others_are_not() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("joined.h5");
        let piece = Piece {
            file: "a.h5".into(),
            table: "a".into(),
            rows: 0..2,
            cols: 0..3,
        };
        let file = File::create(&path).unwrap();
        file.join::<f32>("whole", (2, 3), &[piece]).unwrap();
        drop(file);
        assert!(File::open(&path).unwrap().any_table("whole").is_ok());
        let mut bytes = fs::read(&path).unwrap();
        let heap = bytes.windows(5).position(|five| five == b"GCOL\x01");
        let heap = heap.expect("joined tables are described in a heap");
        let first = u64::from_le_bytes(bytes[heap + 24..heap + 32].try_into().unwrap());
        let free = heap + 32 + first.next_multiple_of(8) as usize;
        assert_eq!(bytes[free..free + 2], [0, 0], "what is free comes last");
        bytes[free + 8..free + 16].fill(0);
        fs::write(&path, bytes).unwrap();
        let error = File::open(&path).err().expect("it is refused");
        assert!(error.to_string().contains("heap"), "{error}");
    }
}
