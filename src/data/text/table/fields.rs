//! One line of a table cut into fields.

use csv_core::{ReadRecordResult, Reader, ReaderBuilder, Terminator};
use memchr::{memchr, memchr_iter};

/// Cuts lines; keeps its memory from one to the next.
pub(super) struct Fields {
    separator: u8,
    reader: Reader,
    /// The fields without their quotes, of a line that has some.
    unquoted: Vec<u8>,
    ends: Vec<usize>,
    quoted: bool,
}

impl Fields {
    pub(super) fn new(separator: u8) -> Self {
        // A carriage return within a line is part of a field.
        let mut builder = ReaderBuilder::new();
        builder
            .delimiter(separator)
            .terminator(Terminator::Any(b'\n'));
        Self {
            separator,
            reader: builder.build(),
            unquoted: Vec::new(),
            ends: Vec::new(),
            quoted: false,
        }
    }

    /// Cuts a line; gives the number of its fields.
    pub(super) fn cut(&mut self, line: &[u8]) -> Result<usize, String> {
        self.ends.clear();
        self.quoted = memchr(b'"', line).is_some();
        if self.quoted {
            return self.unquote(line);
        }
        self.ends.extend(memchr_iter(self.separator, line));
        self.ends.push(line.len());
        Ok(self.ends.len())
    }

    /// Field `i` of the line that was cut, without blanks around it.
    pub(super) fn get<'a>(&'a self, line: &'a [u8], i: usize) -> &'a [u8] {
        let (text, gap) = match self.quoted {
            true => (self.unquoted.as_slice(), 0),
            false => (line, 1),
        };
        let begin = if i == 0 { 0 } else { self.ends[i - 1] + gap };
        text[begin..self.ends[i]].trim_ascii()
    }

    fn unquote(&mut self, line: &[u8]) -> Result<usize, String> {
        self.reader.reset();
        // Quotes only go away, and each field takes at least a byte of the line or the end.
        self.unquoted.resize(line.len() + 1, 0);
        self.ends.resize(line.len() + 2, 0);
        let (mut read, mut written, mut count) = (0, 0, 0);
        for input in [line, b"\n"] {
            let mut at = 0;
            while at < input.len() {
                let (result, taken, wrote, fields) = self.reader.read_record(
                    &input[at..],
                    &mut self.unquoted[written..],
                    &mut self.ends[count..],
                );
                at += taken;
                read += taken;
                written += wrote;
                count += fields;
                if let ReadRecordResult::Record = result
                    && read >= line.len()
                {
                    self.ends.truncate(count);
                    return Ok(count);
                }
            }
        }
        Err(
            "a quoted field does not end on its line: line breaks inside fields are not supported"
                .into(),
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fields(line: &str) -> Result<Vec<String>, String> {
        let mut fields = Fields::new(b',');
        // Twice, as memory is kept.
        fields.cut(b"\"left, over\",x,y,z")?;
        let count = fields.cut(line.as_bytes())?;
        let field = |i| String::from_utf8(fields.get(line.as_bytes(), i).to_vec()).unwrap();
        Ok((0..count).map(field).collect())
    }

    #[test]
    fn fields_lose_quotes_and_blanks() {
        assert_eq!(fields("a, b ,,c").unwrap(), ["a", "b", "", "c"]);
        assert_eq!(fields("a").unwrap(), ["a"]);
        assert_eq!(fields(",").unwrap(), ["", ""]);
        let quoted = fields("\"a, b\",\"say \"\"no\"\"\",3,\"\"").unwrap();
        assert_eq!(quoted, ["a, b", "say \"no\"", "3", ""]);
        assert_eq!(fields("\"a\",b\rc,d").unwrap(), ["a", "b\rc", "d"]);
        assert!(
            fields("1,\"two")
                .unwrap_err()
                .contains("does not end on its line")
        );
    }
}
