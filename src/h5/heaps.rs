//! What HDF5's library does not live through in the heaps of a file. Up to 1.10 at least, it goes on from an object by the size that stands
//! there, also where that is zero; and it reads the pieces of a joined table past the end of what the heap has of them, where other memory is.

use std::collections::BTreeSet;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;

use super::pieces;
use super::text::{HEAD, in_heap, number, short, word};

/// Bytes at the begin and at the end of a file that are looked through: writers put heaps there, and a file of numbers is not
/// read for its heaps' sake.
const STRETCH: u64 = 1 << 20;
const SIGNATURE: &[u8] = b"GCOL\x01";
/// How a header says that a table is joined of others, without the version in front: behind it are the heap and the number there.
const JOINED: u8 = 3;
/// The most joined tables of a stretch: each has a heap looked through, and a file may name one long heap as often as it likes.
const MOST: usize = 1000;

/// What is wrong with the heaps of the file at `path`, as far as they were looked for.
pub(super) fn problem(path: &Path) -> Option<&'static str> {
    let found = || {
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
                return Ok(Some("has a heap without an end"));
            }
            let joined: BTreeSet<(u64, u32)> = (bytes.windows(14))
                .filter_map(|header| place(&file, header))
                .collect();
            if joined.len() > MOST {
                return Ok(Some("joins more tables than are looked through"));
            }
            let is_whole = |&(heap, index): &(u64, u32)| {
                in_heap(&file, heap, index).is_some_and(|pieces| pieces::are_whole(&pieces))
            };
            if !joined.iter().all(is_whole) {
                return Ok(Some("joins a table of pieces that it does not have"));
            }
        }
        std::io::Result::Ok(None)
    };
    // What cannot be read is told when it is opened.
    found().unwrap_or(None)
}

/// The heap that has the pieces of a table, and their number there, if this says that the table is joined.
fn place(file: &File, header: &[u8]) -> Option<(u64, u32)> {
    if !matches!(header, [4 | 5, JOINED, ..]) {
        return None;
    }
    let (heap, index) = (number(header, 2)?, word(header, 10)?);
    let mut signature = [0; SIGNATURE.len()];
    file.read_exact_at(&mut signature, heap).ok()?;
    (signature == SIGNATURE).then_some((heap, index))
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

    /// Found by changing bytes: where memory behind the heap is not this process's, HDF5's library has no end but that of the process.
    #[test]
    fn pieces_that_are_not_whole_are_refused_and_all_forms_of_whole_ones_are_not() {
        use hdf5::Selection;
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("joined.h5");
        let blocks = Selection::from((0..1, 0..2));
        let file = hdf5::File::create(&path).unwrap();
        for (name, part) in [("all", Selection::All), ("blocks", blocks)] {
            let size = if name == "all" { [2, 3] } else { [1, 2] };
            let builder = file.new_dataset::<f32>();
            let builder = builder.virtual_map("a.h5", "a", size, Selection::All, [2, 3], part);
            builder.shape((2, 3)).create(name).unwrap();
        }
        drop(file);
        assert_eq!(super::problem(&path), None);
        let good = fs::read(&path).unwrap();
        let heap = good
            .windows(5)
            .position(|five| five == b"GCOL\x01")
            .unwrap();
        // The first object begins with its version; the number of pieces is behind it.
        let entries = heap + 32 + 1;
        assert_eq!(good[entries..entries + 8], [1, 0, 0, 0, 0, 0, 0, 0]);
        for (at, byte) in [(entries, 2), (heap + 24, 9)] {
            let mut bad = good.clone();
            bad[at] = byte;
            fs::write(&path, bad).unwrap();
            assert!(super::problem(&path).unwrap().contains("pieces"), "{at}");
        }
        // A header that names an object which is not there.
        let header = good
            .windows(2 + 8)
            .position(|ten| ten[..2] == [4, 3] && ten[2..] == (heap as u64).to_le_bytes());
        let mut bad = good.clone();
        bad[header.unwrap() + 10] = 200;
        fs::write(&path, bad).unwrap();
        assert!(super::problem(&path).unwrap().contains("pieces"));
    }
}
