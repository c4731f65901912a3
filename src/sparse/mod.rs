//! Wide sparse logistic regression.

mod quality;

pub use quality::{Auc, Calibration, Quality, Summary};
