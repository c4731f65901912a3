//! cuBLAS, where it is installed: matrix products by NVIDIA's kernels instead of ours.
#![allow(unsafe_code)]

use std::ffi::c_int;

use cudarc::cublas::result::{self, CublasError};
use cudarc::cublas::sys::{self, cublasOperation_t as Operation};

use super::launch::int;
use super::missing::Missing;
use super::{Device, Element, Stream, View, ViewMut};
use crate::{Error, Result};

/// cuBLAS on a stream.
pub struct Blas {
    handle: sys::cublasHandle_t,
    device: Device,
}

// SAFETY: a handle may be used by one thread after another; nobody else has it.
unsafe impl Send for Blas {}

/// How a factor is stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stored {
    /// As it is multiplied, row by row.
    Plain,
    /// Its transpose, row by row.
    Turned,
}

/// A product: a of (m, k) times b of (k, n).
#[derive(Clone, Copy, Debug)]
pub struct Product {
    /// Rows of a and c.
    pub m: usize,
    /// Columns of b and c.
    pub n: usize,
    /// Columns of a and rows of b.
    pub k: usize,
    /// How a and b are stored.
    pub stored: [Stored; 2],
    /// Whether c is added to.
    pub add: bool,
}

/// What cuBLAS multiplies.
pub trait Number: Element {
    /// Calls it: operations, sizes in its order, factors with how far apart their rows are, and c with the factor of what it was.
    ///
    /// # Safety
    ///
    /// Handle and addresses must be sound for these sizes.
    unsafe fn multiply(
        handle: sys::cublasHandle_t,
        operations: [Operation; 2],
        sizes: [c_int; 3],
        factors: [(u64, c_int); 2],
        c: (u64, c_int, bool),
    ) -> Result<(), CublasError>;
}

impl Number for f32 {
    unsafe fn multiply(
        handle: sys::cublasHandle_t,
        [of_a, of_b]: [Operation; 2],
        [m, n, k]: [c_int; 3],
        [(a, lda), (b, ldb)]: [(u64, c_int); 2],
        (c, ldc, add): (u64, c_int, bool),
    ) -> Result<(), CublasError> {
        let (one, beta) = (1.0, f32::from(u8::from(add)));
        let (a, b, c) = (a as *const Self, b as *const Self, c as *mut Self);
        // SAFETY: as promised by the caller; the factors live on the host during the call.
        unsafe {
            result::sgemm(
                handle, of_a, of_b, m, n, k, &one, a, lda, b, ldb, &beta, c, ldc,
            )
        }
    }
}

impl Number for f64 {
    unsafe fn multiply(
        handle: sys::cublasHandle_t,
        [of_a, of_b]: [Operation; 2],
        [m, n, k]: [c_int; 3],
        [(a, lda), (b, ldb)]: [(u64, c_int); 2],
        (c, ldc, add): (u64, c_int, bool),
    ) -> Result<(), CublasError> {
        let (one, beta) = (1.0, f64::from(u8::from(add)));
        let (a, b, c) = (a as *const Self, b as *const Self, c as *mut Self);
        // SAFETY: as promised by the caller; the factors live on the host during the call.
        unsafe {
            result::dgemm(
                handle, of_a, of_b, m, n, k, &one, a, lda, b, ldb, &beta, c, ldc,
            )
        }
    }
}

impl Blas {
    /// Opens it for what is launched on `stream`, which must live longer.
    pub fn open(stream: &Stream) -> Result<Self> {
        // SAFETY: loading the library runs its initialisation, which every program that uses it does.
        if !unsafe { sys::is_culib_present() } {
            return Err(Error::NoDevice(Missing::Blas));
        }
        stream.device().enter()?;
        let handle = result::create_handle().map_err(failed("cublasCreate"))?;
        let made = Self {
            handle,
            device: stream.device().clone(),
        };
        // SAFETY: both are open; the driver's streams are the runtime's.
        unsafe { result::set_stream(made.handle, stream.handle().cast()) }
            .map_err(failed("cublasSetStream"))?;
        Ok(made)
    }

    /// `c = a·b`, or c + a·b, all row by row without gaps.
    pub fn product<T: Number>(
        &self,
        product: Product,
        a: View<T>,
        b: View<T>,
        c: ViewMut<T>,
    ) -> Result<()> {
        let Product {
            m,
            n,
            k,
            stored,
            add,
        } = product;
        assert_eq!(
            (a.len(), b.len(), c.len()),
            (m * k, k * n, m * n),
            "{product:?}"
        );
        if m * n * k == 0 {
            return Ok(());
        }
        // cuBLAS counts column by column, where rows are columns of the transpose: cᵀ = bᵀ·aᵀ.
        let [of_a, of_b] = stored.map(|stored| match stored {
            Stored::Plain => Operation::CUBLAS_OP_N,
            Stored::Turned => Operation::CUBLAS_OP_T,
        });
        let row = |stored, plain, turned| match stored {
            Stored::Plain => int(plain),
            Stored::Turned => int(turned),
        };
        let (lda, ldb) = (row(stored[0], k, m), row(stored[1], n, k));
        let sizes = [n, m, k].map(int);
        let factors = [(b.address(), ldb), (a.address(), lda)];
        let place = (c.address(), int(n), add);
        self.device.enter()?;
        // SAFETY: the views are alive and as large as was checked; their buffers wait for the device before they end.
        unsafe { T::multiply(self.handle, [of_b, of_a], sizes, factors, place) }
            .map_err(failed("cublasGemm"))
    }
}

impl Drop for Blas {
    fn drop(&mut self) {
        if self.device.enter().is_ok() {
            // SAFETY: opened once, and not used any more.
            let _ = unsafe { result::destroy_handle(self.handle) };
        }
    }
}

/// Turns what cuBLAS answered to `call` into an error.
fn failed(call: &'static str) -> impl FnOnce(CublasError) -> Error {
    move |error| Error::Cuda {
        call,
        answer: format!("{:?}", error.0),
    }
}
