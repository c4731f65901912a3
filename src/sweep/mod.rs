//! Studies: many runs of the program from one file, each a configuration of a grid or a list, repeated with seeds.
//!
//! A [`Study`] is read from TOML and becomes a [`Plan`], which is a list of command lines that were all understood before the first
//! one starts. A [`Launcher`] makes the runs and keeps a [`Record`] of each, so that a study that was killed goes on where it was. An
//! [`Outcome`] is what all records say: tables, plots and a page.

mod drawn;
mod figures;
mod launch;
mod outcome;
mod plan;
mod study;
mod table;

pub use figures::figures;
pub use launch::{Failure, Launcher, Order, Record};
pub use outcome::Outcome;
pub use plan::{Plan, Run, apart, words};
pub(crate) use plan::{option, same, split};
pub use study::{Column, Drawn, Study, read_toml};
pub use table::{Format, Row, Table, csv, short};
