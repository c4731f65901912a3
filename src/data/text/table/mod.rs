//! Tables as text: values of columns with a separator between them (CSV), one row a line.

mod columns;
mod fields;

pub use columns::{Options, Role, Scheme};
use fields::Fields;

use super::LineParser;
use super::features::Tokens;
use super::numbers::{label, long_real, shown};
use crate::data::rows::Block;

/// Reads lines of a table.
pub(super) struct Lines {
    tokens: Tokens,
    scheme: Scheme,
    header: bool,
    fields: Fields,
}

impl Lines {
    pub(super) fn new(tokens: Tokens, scheme: Scheme, (header, separator): (bool, u8)) -> Self {
        Self {
            tokens,
            scheme,
            header,
            fields: Fields::new(separator),
        }
    }

    fn label(&self, text: &[u8]) -> Result<bool, String> {
        match &self.scheme.positive {
            Some(_) if text.is_empty() => Err("the label is missing".into()),
            Some(positive) => Ok(text == positive.as_bytes()),
            None => understood(text).ok_or_else(|| {
                format!(
                    "label {}, expected 0 or 1, -1 or 1, true or false, yes or no",
                    shown(text)
                )
            }),
        }
    }

    /// Cuts a line into as many fields as there are columns.
    fn cut(&mut self, line: &[u8]) -> Result<(), String> {
        let (got, expected) = (self.fields.cut(line)?, self.scheme.columns.len());
        if got == expected {
            return Ok(());
        }
        Err(format!("{got} fields, expected {expected}"))
    }
}

impl LineParser for Lines {
    fn parse(&mut self, line: &[u8], block: &mut Block) -> Result<(), String> {
        self.cut(line)?;
        self.tokens.begin_row();
        let mut one = false;
        for (i, (name, role)) in self.scheme.columns.iter().enumerate() {
            let field = self.fields.get(line, i);
            let name = name.as_bytes();
            match role {
                Role::Label => one = self.label(field)?,
                Role::Dropped => {}
                Role::Number => match long_real(field) {
                    Some(number) => {
                        let how = self.scheme.numeric;
                        self.tokens.add_number(name, number, how);
                    }
                    // Whatever stands for a number that is not known, and nothing does too.
                    None => self.tokens.add([name, b"=", field], 1.0),
                },
                Role::Category => self.tokens.add([name, b"=", field], 1.0),
            }
        }
        self.tokens.end_row(one, block);
        Ok(())
    }

    fn heading(&mut self, line: &[u8]) -> Result<bool, String> {
        if !self.header {
            return Ok(false);
        }
        self.cut(line)?;
        for (i, (name, _)) in self.scheme.columns.iter().enumerate() {
            let field = self.fields.get(line, i);
            let unnamed = field.is_empty() && *name == (i + 1).to_string();
            if field != name.as_bytes() && !unnamed {
                let found = shown(field);
                return Err(format!(
                    "column {} is called {found}, expected `{name}`",
                    i + 1
                ));
            }
        }
        Ok(true)
    }

    fn hint(&self) -> &'static str {
        "all files have the same columns, with --no-header no line of names; --separator tells what is between fields, \
         --positive which label means 1, and --skip-bad leaves bad lines out"
    }
}

/// A label in one of the usual words.
fn understood(text: &[u8]) -> Option<bool> {
    let is = |words: &[&str]| {
        words
            .iter()
            .any(|word| text.eq_ignore_ascii_case(word.as_bytes()))
    };
    match label(text) {
        Ok(label) => Some(label),
        Err(_) if is(&["true", "yes", "t", "y"]) => Some(true),
        Err(_) if is(&["false", "no", "f", "n"]) => Some(false),
        Err(_) => None,
    }
}
