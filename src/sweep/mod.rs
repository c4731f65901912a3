//! Studies: many runs of the program from one file, each a configuration of a grid or a list, repeated with seeds.
//!
//! A [`Study`] is read from TOML and becomes a [`Plan`], which is a list of command lines that were all understood before the first
//! one starts; a run is done when its folder says so, so that a study that was killed goes on where it was.

mod figures;
mod plan;
mod study;
mod table;

pub use figures::figures;
pub use plan::{Plan, Run};
pub use study::{Column, Study};
pub use table::{Cell, Format, Row, Table};
