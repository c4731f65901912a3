//! Bad input: each gets a clear error, the right exit code, and no rank hangs.

/// Jobs by name.
pub const JOBS: [(&str, fn()); 0] = [];
