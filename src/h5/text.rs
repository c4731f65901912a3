//! Text attributes of a file's root group, read past HDF5.
//!
//! They lie in a global heap, which HDF5's library believes: up to 1.10 at least, one wrong byte there makes it crash or go round
//! in circles. Here every address and size is held against the file before it is used. Format: "HDF5 File Format Specification",
//! with addresses and sizes of eight bytes, as all writers have them; attributes in headers, where HDF5 keeps them unless there
//! are many and the file is of its latest format. What is found in no header is not there.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;

/// What follows a header's first block, at most: files that are damaged may lead in circles.
const BLOCKS: usize = 64;
/// The largest block of a header, and the largest heap, that are looked at.
const LARGEST: u64 = 16 << 20;
/// The longest name of an attribute is shorter than a message, and those are.
const ATTRIBUTE: u16 = 0x0c;
const CONTINUATION: u16 = 0x10;
/// Bytes in front of an object in a heap, and in front of the first.
pub(super) const HEAD: usize = 16;

/// The text of the root's attribute `name`, if the file at `path` has a sound one.
pub(super) fn attribute(path: &Path, name: &str) -> Option<String> {
    let file = File::open(path).ok()?;
    let mut left = BLOCKS;
    let mut blocks = vec![first_block(&file)?];
    while let Some(block) = blocks.pop() {
        for (kind, body) in block.messages() {
            match kind {
                ATTRIBUTE => {
                    if let Some(found) = text_of(&file, body, name) {
                        return found;
                    }
                }
                CONTINUATION if left > 0 => {
                    left -= 1;
                    let (at, size) = (number(body, 0)?, number(body, 8)?);
                    blocks.extend(block.next(&file, at, size));
                }
                _ => {}
            }
        }
    }
    None
}

/// Some messages of an object's header.
struct Block {
    bytes: Vec<u8>,
    /// Bytes in front of a message's body: type, size, flags, and by version what else.
    head: usize,
    modern: bool,
}

impl Block {
    /// Type and body of each message that is here and not elsewhere.
    fn messages(&self) -> impl Iterator<Item = (u16, &[u8])> {
        let mut rest = self.bytes.as_slice();
        std::iter::from_fn(move || {
            loop {
                let (head, behind) = rest.split_at_checked(self.head)?;
                let (kind, size, flags) = match self.modern {
                    true => (u16::from(head[0]), short(head, 1)?, head[3]),
                    false => (short(head, 0)?, short(head, 2)?, head[4]),
                };
                let (body, behind) = behind.split_at_checked(size.into())?;
                rest = behind;
                let shared = flags & 2 != 0;
                if !shared {
                    return Some((kind, body));
                }
            }
        })
    }

    /// The block that a continuation names.
    fn next(&self, file: &File, at: u64, size: u64) -> Option<Self> {
        let mut bytes = read(file, at, size)?;
        if self.modern {
            let framed = bytes.len() >= 8 && bytes.starts_with(b"OCHK");
            bytes = framed.then(|| bytes[4..bytes.len() - 4].to_vec())?;
        }
        Some(Self {
            bytes,
            head: self.head,
            modern: self.modern,
        })
    }
}

/// The first messages of the root group.
fn first_block(file: &File) -> Option<Block> {
    let start = read(file, 0, 48)?;
    // Where the addresses of offsets and lengths are 8 bytes, and the file begins at its first byte.
    let (sizes, base, root) = match start[8] {
        0 => (13, 24, 64),
        1 => (13, 28, 68),
        2 | 3 => (9, 12, 36),
        _ => return None,
    };
    if start[sizes..sizes + 2] != [8, 8] || number(&start, base)? != 0 {
        return None;
    }
    let root = number(&read(file, root, 8)?, 0)?;
    let head = read(file, root, 16)?;
    if head[0] == 1 {
        return Some(Block {
            bytes: read(file, root.checked_add(16)?, word(&head, 8)?.into())?,
            head: 8,
            modern: false,
        });
    }
    if !head.starts_with(b"OHDR\x02") {
        return None;
    }
    let flags = head[5];
    let mut at = 6;
    at += if flags & 0x20 != 0 { 16 } else { 0 };
    at += if flags & 0x10 != 0 { 4 } else { 0 };
    let width = 1 << (flags & 3);
    let size = read(file, root.checked_add(at)?, width)?;
    let size = size
        .iter()
        .rev()
        .fold(0, |n, &byte| n << 8 | u64::from(byte));
    Some(Block {
        bytes: read(file, root.checked_add(at + width)?, size)?,
        head: if flags & 4 != 0 { 6 } else { 4 },
        modern: true,
    })
}

/// The text of the attribute in `body`; the outer none if it has another name, the inner one if it is not sound.
fn text_of(file: &File, body: &[u8], name: &str) -> Option<Option<String>> {
    let (version, flags) = (*body.first()?, *body.get(1)?);
    let sizes = [short(body, 2)?, short(body, 4)?, short(body, 6)?].map(usize::from);
    let (start, unit) = match version {
        1 => (8, 8),
        2 => (8, 1),
        3 => (9, 1),
        _ => return None,
    };
    let mut rest = body.get(start..)?;
    let mut part = |size: usize| {
        let (part, behind) = rest.split_at_checked(size.next_multiple_of(unit))?;
        rest = behind;
        Some(&part[..size])
    };
    let [called, kind, _space] = [part(sizes[0])?, part(sizes[1])?, part(sizes[2])?];
    if called.strip_suffix(b"\0") != Some(name.as_bytes()) {
        return None;
    }
    // A type of its own, of variable length, which is text.
    let text = version == 1 || flags & 3 == 0;
    let text = text && matches!(kind, [class, string, ..] if class & 15 == 9 && string & 15 == 1);
    Some(text.then(|| object(file, rest)).flatten())
}

/// The text that a reference of length, heap and number in it leads to.
fn object(file: &File, reference: &[u8]) -> Option<String> {
    let (length, at) = (word(reference, 0)?, number(reference, 4)?);
    let wanted = word(reference, 12)?;
    if length == 0 {
        return Some(String::new());
    }
    let bytes = in_heap(file, at, wanted)?;
    let bytes = Some(bytes).filter(|bytes| bytes.len() == length as usize)?;
    // A writer in C may have counted the zero at the end.
    let text = bytes.split(|&byte| byte == 0).next()?;
    String::from_utf8(text.to_vec()).ok()
}

/// The object with a number of the heap at `at`, if both are sound.
pub(super) fn in_heap(file: &File, at: u64, wanted: u32) -> Option<Vec<u8>> {
    let head = read(file, at, HEAD as u64)?;
    if !head.starts_with(b"GCOL\x01") {
        return None;
    }
    let heap = read(file, at, number(&head, 8)?)?;
    let mut rest = heap.get(HEAD..)?;
    loop {
        let index = short(rest, 0)?;
        let size = usize::try_from(number(rest, 8)?).ok()?;
        let behind = rest.get(HEAD..)?;
        if u32::from(index) == wanted && index > 0 {
            return behind.get(..size).map(<[u8]>::to_vec);
        }
        // What is free has number 0, and nothing lies behind it.
        rest = behind.get(size.checked_next_multiple_of(8).filter(|_| index > 0)?..)?;
    }
}

/// So many bytes of the file, if it has them.
fn read(file: &File, at: u64, size: u64) -> Option<Vec<u8>> {
    let length = file.metadata().ok()?.len();
    if size > LARGEST || at.checked_add(size)? > length {
        return None;
    }
    let mut bytes = vec![0; size as usize];
    file.read_exact_at(&mut bytes, at).ok()?;
    Some(bytes)
}

pub(super) fn short(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_le_bytes(*bytes.get(at..)?.first_chunk()?))
}

pub(super) fn word(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_le_bytes(*bytes.get(at..)?.first_chunk()?))
}

pub(super) fn number(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_le_bytes(*bytes.get(at..)?.first_chunk()?))
}

#[cfg(test)]
mod tests {
    use hdf5::types::VarLenUnicode;

    use super::*;

    /// A file with texts of several lengths, by HDF5's library, in its oldest or its latest format.
    fn written(path: &Path, latest: bool, many: usize) {
        let mut builder = hdf5::FileBuilder::new();
        if latest {
            builder.with_fapl(|access| access.libver_latest());
        }
        let file = builder.create(path).unwrap();
        for i in 0..many {
            let text: VarLenUnicode = "é".repeat(i * 37).parse().unwrap();
            let attribute = file.new_attr::<VarLenUnicode>();
            let attribute = attribute.create(format!("text-{i}").as_str()).unwrap();
            attribute.write_scalar(&text).unwrap();
        }
        file.new_attr::<f64>().create("number").unwrap();
    }

    #[test]
    fn texts_are_those_that_the_library_wrote() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("texts.h5");
        // Beyond eight the latest format puts attributes elsewhere.
        for (latest, many) in [(false, 40), (true, 7)] {
            written(&path, latest, many);
            for i in 0..many {
                let found = attribute(&path, &format!("text-{i}"));
                assert_eq!(found, Some("é".repeat(i * 37)), "{latest} {i}");
            }
            assert_eq!(attribute(&path, "number"), None);
            assert_eq!(attribute(&path, "text"), None);
        }
    }

    #[test]
    fn no_wrong_byte_in_a_heap_hangs_or_crashes() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("texts.h5");
        written(&path, false, 3);
        let good = std::fs::read(&path).unwrap();
        let heap = good.windows(5).position(|five| five == b"GCOL\x01");
        let heap = heap.expect("it has a heap");
        for at in heap..heap + 120 {
            for byte in [0, 1, 0x7f, 0xff] {
                let mut bad = good.clone();
                bad[at] = byte;
                std::fs::write(&path, bad).unwrap();
                for i in 0..3 {
                    let found = attribute(&path, &format!("text-{i}"));
                    let text = found.unwrap_or_default();
                    assert!(text.chars().count() <= 74, "{at}: {text}");
                }
            }
        }
    }
}
