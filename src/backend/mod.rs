//! Arithmetic of the layers, by device.

pub mod cpu;
