//! Models: stacks of layers over two flat arenas, one of parameters and one of gradients.

mod activation;
mod arenas;
mod backend;
mod batch_norm;
mod conv2d;
mod crew;
mod description;
pub mod device;
mod dropout;
mod fault;
mod file;
mod flatten;
mod global_average;
mod layer;
mod linear;
mod local_response;
mod model;
mod peers;
mod pool;
mod shards;
mod spec;
mod state;
pub mod zoo;

pub use arenas::{Arenas, Grads, Outlet, Params};
pub use backend::{Backend, Found, Next};
pub use crew::Crew;
pub use device::DeviceModel;
pub use fault::Fault;
pub use file::{load, save};
pub use layer::{Draw, Init, Layer, Pass, Tensor};
pub use model::{LANES, LayerCost, Model, Summary};
pub use peers::Peers;
pub use shards::{ShardSums, Share};
pub use spec::{LayerSpec, Spec};

pub use crate::backend::cpu::softmax::Tally;
