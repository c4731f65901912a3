//! How much is said on stdout, decided once when the program starts.

use std::io::Write;
use std::sync::OnceLock;

use serde_json::{Value, json};

/// What the user wants to hear.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Voice {
    /// Progress, tables and results.
    #[default]
    Words,
    /// Results alone.
    Quiet,
    /// One JSON object a line, for programs; no words.
    Json,
}

static VOICE: OnceLock<Voice> = OnceLock::new();

impl Voice {
    /// From here on it is this one; what was said first counts.
    pub fn set(self) {
        let _ = VOICE.set(self);
    }

    /// The one that was chosen.
    pub fn get() -> Self {
        VOICE.get().copied().unwrap_or_default()
    }
}

/// Prints a result on stdout; a reader that has left, such as `head`, is no error.
pub fn say(text: &str) {
    if Voice::get() != Voice::Json {
        let _ = writeln!(std::io::stdout(), "{text}");
    }
}

/// Prints what is no result, such as settings.
pub fn mention(text: &str) {
    if Voice::get() == Voice::Words {
        say(text);
    }
}

/// Prints what happened for programs that read along: an object of its own on a line, with the `event` first.
pub fn emit(event: &str, fields: Value) {
    if Voice::get() != Voice::Json {
        return;
    }
    let fields = fields.as_object().cloned().unwrap_or_default();
    let event = [("event".to_owned(), json!(event))];
    let object: serde_json::Map<_, _> = event.into_iter().chain(fields).collect();
    // In one write, so that lines of others do not come between.
    let _ = std::io::stdout().write_all(format!("{}\n", Value::Object(object)).as_bytes());
}
