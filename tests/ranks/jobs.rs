//! Whole jobs of the program, as a user starts them.

/// Jobs by name.
pub const JOBS: [(&str, fn()); 0] = [];
