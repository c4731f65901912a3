//! Models: stacks of layers over two flat arenas, one of parameters and one of gradients.

mod file;
mod layer;
mod linear;
mod model;
pub mod zoo;

pub use file::{load, save};
pub use layer::{Layer, Tensor};
pub use model::Model;

pub use crate::backend::cpu::softmax::Tally;
