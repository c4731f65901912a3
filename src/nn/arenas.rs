//! Parameters and gradients of a step, in the host's memory or in a device's.

use crate::Result;
use crate::backend::cuda::{Stream, View, ViewMut};
use crate::comm::{Comm, Courier};

/// What a rank's share of a step is computed with.
pub struct Arenas<'a> {
    /// The ranks that take the step together.
    pub team: &'a dyn Comm,
    /// The parameters.
    pub params: Params<'a>,
    /// Where the rank's gradients are to be written.
    pub grads: Grads<'a>,
    /// Who takes parts of the gradients as soon as they are there, if they are added up while others are computed.
    pub courier: Option<&'a mut Courier>,
}

/// Parameters, where they are.
#[derive(Clone, Copy)]
pub enum Params<'a> {
    /// In the host's memory.
    Host(&'a [f32]),
    /// In a device's, as this stream leaves them.
    Device(&'a Stream, View<'a, f32>),
}

impl<'a> Params<'a> {
    /// Those of the host; who computes on one has no others.
    pub fn host(self) -> &'a [f32] {
        match self {
            Self::Host(values) => values,
            Self::Device(..) => unreachable!("these parameters are on a device"),
        }
    }

    /// Sets `values` to them.
    pub fn read(self, values: &mut Vec<f32>) -> Result<()> {
        values.clear();
        match self {
            Self::Host(from) => values.extend_from_slice(from),
            Self::Device(stream, from) => {
                values.resize(from.len(), 0.0);
                stream.download(from, values)?;
            }
        }
        Ok(())
    }
}

/// Where gradients are written.
pub enum Grads<'a> {
    /// To the host's memory.
    Host(&'a mut [f32]),
    /// To a device's, and to whom it is told when they are there, if somebody wants to know.
    Device(ViewMut<'a, f32>, Option<&'a mut dyn Outlet>),
}

/// Who takes gradients from a device while others are still computed.
pub trait Outlet {
    /// The gradients from `start` on are there once the stream has come to here; the next call is for those before.
    fn ready(&mut self, stream: &Stream, grads: View<f32>, start: usize) -> Result<()>;
}

impl<'a> Grads<'a> {
    /// Those of the host; who computes on one has no others.
    pub fn host(self) -> &'a mut [f32] {
        match self {
            Self::Host(values) => values,
            Self::Device(..) => unreachable!("these gradients are on a device"),
        }
    }
}
