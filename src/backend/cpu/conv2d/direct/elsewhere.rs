//! What stands for a convolution in lanes on machines that have none: nothing can be one.

use super::super::super::lanes::{Eight, Planes};
use super::Geometry;

/// A convolution in lanes, of which there is none here.
#[derive(Debug)]
pub(in super::super::super) enum Group {}

impl Group {
    pub fn new(_g: Geometry, _y: Planes, _dx: Option<Planes>) -> Self {
        unreachable!("a stack in lanes asks for AVX2 first")
    }

    pub fn slopes(g: &Geometry) -> Planes {
        Planes::tight(g.co, g.oh(), g.ow())
    }

    pub fn prepare(&mut self, _w: &[f32]) {
        match *self {}
    }

    pub fn forward(
        &mut self,
        _x: &[Eight],
        _b: &[f32],
        _y: &mut [Eight],
        _bits: Option<&mut [u8]>,
    ) {
        match *self {}
    }

    pub fn prepare_back(&mut self, _w: &[f32]) {
        match *self {}
    }

    pub fn add(&mut self, _x: &[Eight], _dy: &[Eight], _slopes: &Planes) {
        match *self {}
    }

    pub fn grad_input(&mut self, _dy: &[Eight], _dx: &mut [Eight], _bits: Option<&[u8]>) {
        match *self {}
    }

    pub fn gradients(&self, _grads: &mut [f32]) {
        match *self {}
    }
}
