//! One page about one run or several: all in one file, which needs nothing else.

mod compare;
mod figures;
mod page;
mod run;
mod sheet;
mod shell;
mod trace;

pub use figures::plots;
pub use page::page;
pub use run::Run;
pub use sheet::Sheet;
pub use shell::{Section, gallery, grid, shell};

#[cfg(test)]
mod tests;
