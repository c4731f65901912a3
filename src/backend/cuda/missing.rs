//! What a machine lacks to compute on a GPU.

/// The oldest compute capability that the kernels are compiled for: Volta's.
pub const OLDEST: (u32, u32) = (7, 0);

/// The oldest driver, by the version of CUDA that it is for: it has every function that is called here.
pub const OLDEST_DRIVER: u32 = 11_020;

/// Why no GPU can be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Missing {
    /// No driver library.
    #[error("there is no NVIDIA driver (libcuda.so was not found)")]
    Driver,
    /// A driver that is too old.
    #[error("the NVIDIA driver is too old: it is for CUDA {}.{}, and 11.2 is needed", found / 1000, found % 1000 / 10)]
    NewDriver {
        /// The version of CUDA that it is for, times 1000.
        found: u32,
    },
    /// A driver that does not start.
    #[error("the NVIDIA driver does not start: {0}")]
    Start(String),
    /// No GPU, or not so many.
    #[error("{}", devices(*asked, *found))]
    Device {
        /// The number that was asked for, from 0.
        asked: usize,
        /// How many there are.
        found: usize,
    },
    /// A GPU that the kernels are not for.
    #[error("{name} has compute capability {}.{}, and {}.{} is needed", found.0, found.1, OLDEST.0, OLDEST.1)]
    Capability {
        /// The GPU's name.
        name: String,
        /// What it can.
        found: (u32, u32),
    },
    /// No compiler for kernels.
    #[error("there is no compiler for kernels (libnvrtc.so was not found)")]
    Compiler,
    /// A compiler that has given up such old GPUs.
    #[error("{compiler} compiles for compute capability {}.{} and above, and the GPU has {}.{}", oldest.0, oldest.1, found.0, found.1)]
    OldCompiler {
        /// Its name and version.
        compiler: String,
        /// The oldest that it knows.
        oldest: (u32, u32),
        /// What the GPU can.
        found: (u32, u32),
    },
    /// No cuBLAS, which was asked for.
    #[error("there is no cuBLAS (libcublas.so was not found)")]
    Blas,
}

impl Missing {
    /// What to do about it.
    pub fn hint(&self) -> &'static str {
        match self {
            Self::Driver | Self::NewDriver { .. } | Self::Start(_) => {
                "install NVIDIA's driver of the GPU, or use --device cpu"
            }
            Self::Device { .. } => {
                "ask for one of those there are (see nvidia-smi and CUDA_VISIBLE_DEVICES), or use --device cpu"
            }
            Self::Capability { .. } => "use a GPU from Volta on, or --device cpu",
            Self::Blas => {
                "install the CUDA toolkit's cuBLAS and let LD_LIBRARY_PATH name its folder, or leave --gemm cublas out"
            }
            Self::OldCompiler { .. } => {
                "let LD_LIBRARY_PATH name the folder of an NVRTC of CUDA 12 (from PyPI: nvidia-cuda-nvrtc-cu12), or use --device cpu"
            }
            Self::Compiler => {
                "install the CUDA toolkit's NVRTC (on a cluster: module load cuda; from PyPI: nvidia-cuda-nvrtc-cu12) and let \
                 LD_LIBRARY_PATH name its folder, or use --device cpu"
            }
        }
    }
}

fn devices(asked: usize, found: usize) -> String {
    match found {
        0 => "there is no CUDA device".into(),
        1 => format!("device {asked} was asked for, and there is only device 0"),
        _ => format!(
            "device {asked} was asked for, and there are 0 to {}",
            found - 1
        ),
    }
}
