//! TensorFlow's record files: a length, the bytes, and checksums of both; events and examples come in them.
//!
//! A record is `length: u64, masked CRC-32C of length, bytes, masked CRC-32C of bytes`, all little-endian. The mask is a
//! rotation and a constant, so that a checksum of something that holds checksums is not degenerate.

use std::fs::File;
use std::io::{self, Read, Write};
use std::path::Path;

/// Bytes before and behind the payload of a record.
const HEAD: usize = 12;
const TAIL: usize = 4;

/// The longest record that is believed, in bytes: a longer one is a mistake of who wrote it.
const LONGEST: u64 = 1 << 30;

/// Bytes that are read at once, so that a length takes no memory before its bytes are there.
const STRETCH: u64 = 1 << 20;

/// Writes `payload` as one record.
pub fn write(out: &mut impl Write, payload: &[u8]) -> io::Result<()> {
    let length = (payload.len() as u64).to_le_bytes();
    let mut record = Vec::with_capacity(HEAD + payload.len() + TAIL);
    record.extend(length);
    record.extend(masked(&length).to_le_bytes());
    record.extend(payload);
    record.extend(masked(payload).to_le_bytes());
    // One call for a whole record: a reader beside the writer sees few halves.
    out.write_all(&record)
}

/// The records of a file, one after the other, and where the next one begins.
pub struct Records<R> {
    input: R,
    /// Bytes of the whole records so far.
    offset: u64,
    payload: Vec<u8>,
}

/// Why a file has no further record.
#[derive(Debug, thiserror::Error)]
pub enum Broken {
    /// The file ends inside a record.
    #[error("ends inside the record at byte {0}")]
    Short(u64),
    /// A checksum does not fit.
    #[error("the record at byte {0} is damaged: its {1} does not fit its checksum")]
    Damaged(u64, &'static str),
    /// A length that fits its checksum cannot be.
    #[error("the record at byte {0} has {1} bytes, more than the {LONGEST} that are believed")]
    Long(u64, u64),
    /// The file cannot be read.
    #[error(transparent)]
    Io(#[from] io::Error),
}

impl<R: Read> Records<R> {
    /// From the begin of `input`.
    pub fn new(input: R) -> Self {
        Self {
            input,
            offset: 0,
            payload: Vec::new(),
        }
    }

    /// Where the next record begins: behind all that were whole.
    pub fn offset(&self) -> u64 {
        self.offset
    }

    /// The next record, or nothing at the end.
    pub fn read(&mut self) -> Result<Option<&[u8]>, Broken> {
        let mut head = [0; HEAD];
        match fill(&mut self.input, &mut head)? {
            0 => return Ok(None),
            HEAD => {}
            _ => return Err(Broken::Short(self.offset)),
        }
        let number = length(&head).ok_or(Broken::Damaged(self.offset, "length"))?;
        if number > LONGEST {
            return Err(Broken::Long(self.offset, number));
        }
        let whole = number + TAIL as u64;
        self.payload.clear();
        while (self.payload.len() as u64) < whole {
            let more = STRETCH.min(whole - self.payload.len() as u64);
            let read = self
                .input
                .by_ref()
                .take(more)
                .read_to_end(&mut self.payload)?;
            if (read as u64) < more {
                return Err(Broken::Short(self.offset));
            }
        }
        let (payload, checksum) = self.payload.split_at(number as usize);
        if masked(payload).to_le_bytes() != checksum {
            return Err(Broken::Damaged(self.offset, "content"));
        }
        self.offset += HEAD as u64 + whole;
        Ok(Some(payload))
    }
}

/// Whether a file begins as record files do: with a length and its checksum.
pub fn is_at(path: &Path) -> io::Result<bool> {
    let mut head = [0; HEAD];
    let read = fill(&mut File::open(path)?, &mut head)?;
    Ok(read == HEAD && length(&head).is_some())
}

/// The length that a record begins with, if its checksum fits.
fn length(head: &[u8; HEAD]) -> Option<u64> {
    let (length, checksum) = head.split_first_chunk()?;
    (masked(length).to_le_bytes() == checksum).then(|| u64::from_le_bytes(*length))
}

/// Reads until `bytes` is full or the input ends; gives how many there were.
fn fill(input: &mut impl Read, bytes: &mut [u8]) -> io::Result<usize> {
    let mut done = 0;
    while done < bytes.len() {
        match input.read(&mut bytes[done..]) {
            Ok(0) => break,
            Ok(n) => done += n,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(done)
}

fn masked(bytes: &[u8]) -> u32 {
    crc32c::crc32c(bytes)
        .rotate_right(15)
        .wrapping_add(0xa282_ead8)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(payloads: &[&[u8]]) -> Vec<u8> {
        let mut file = Vec::new();
        payloads.iter().for_each(|p| write(&mut file, p).unwrap());
        file
    }

    #[test]
    fn what_was_written_is_read_again() {
        let long = vec![7; 3 << 20];
        let file = file(&[b"one", b"", &long]);
        let mut records = Records::new(&file[..]);
        assert_eq!(records.read().unwrap(), Some(&b"one"[..]));
        assert_eq!(records.offset(), 12 + 3 + 4);
        assert_eq!(records.read().unwrap(), Some(&b""[..]));
        assert_eq!(records.read().unwrap(), Some(&long[..]));
        assert_eq!(records.read().unwrap(), None);
        assert_eq!(records.offset(), file.len() as u64);
    }

    /// The first record that TensorFlow 2 writes into an event file, but for its time: version and wall time 0.
    #[test]
    fn the_bytes_are_those_of_tensorflow() {
        let event = b"\x09\0\0\0\0\0\0\0\0\x1a\rbrain.Event:2";
        let file = file(&[event]);
        assert_eq!(file[..8], 24u64.to_le_bytes());
        // The checksum of a length of 24, as every event file begins.
        assert_eq!(file[8..12], [0xa3, 0x7f, 0x4b, 0x22]);
    }

    #[test]
    fn every_cut_and_every_flipped_bit_is_found() {
        let whole = file(&[b"first", b"second"]);
        for end in 0..whole.len() {
            let mut records = Records::new(&whole[..end]);
            let outcome = (records.read().map(|r| r.is_some()), records.offset());
            match outcome {
                (Ok(false), _) => assert_eq!(end, 0),
                (Ok(true), _) => assert!(end >= 21),
                (Err(Broken::Short(0)), _) => assert!(end < 21),
                other => panic!("{end}: {other:?}"),
            }
        }
        for bit in 0..8 * 21 {
            let mut file = whole.clone();
            file[bit / 8] ^= 1 << (bit % 8);
            assert!(matches!(
                Records::new(&file[..]).read(),
                Err(Broken::Damaged(0, _))
            ));
        }
    }
    /// A length that fits its checksum was called damaged where it is too large.
    #[test]
    fn a_length_that_cannot_be_is_told_apart_from_a_damaged_one() {
        let length = (LONGEST + 1).to_le_bytes();
        let mut head = [&length[..], &masked(&length).to_le_bytes()].concat();
        let told = Records::new(&head[..]).read().unwrap_err().to_string();
        assert!(told.contains("has 1073741825 bytes, more than"), "{told}");
        head[0] ^= 1;
        let told = Records::new(&head[..]).read().unwrap_err().to_string();
        assert!(told.contains("its length does not fit"), "{told}");
    }

    #[test]
    fn a_record_file_is_known_by_its_first_length() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        let whole = file(&[b"record"]);
        for (bytes, known) in [
            (&whole[..], true),
            (&whole[..HEAD], true),
            (&whole[..HEAD - 1], false),
            (b"a text that is no record", false),
            (b"", false),
        ] {
            std::fs::write(&path, bytes).unwrap();
            assert_eq!(is_at(&path).unwrap(), known, "{bytes:?}");
        }
    }
}
