//! What is to compute, as the user types it.

use std::fmt;
use std::str::FromStr;

/// Which device.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Wanted {
    /// A GPU if there is one, else the CPU.
    #[default]
    Auto,
    /// The CPU.
    Cpu,
    /// A GPU: of this number on every host, or for each rank its own as far as there are.
    Cuda(Option<usize>),
}

/// Whose kernels multiply matrices on a GPU.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Gemm {
    /// Ours.
    #[default]
    Own,
    /// NVIDIA's.
    Cublas,
}

impl FromStr for Wanted {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let expected = "expected auto, cpu, cuda or cuda:N";
        match text {
            "auto" => Ok(Self::Auto),
            "cpu" => Ok(Self::Cpu),
            "cuda" => Ok(Self::Cuda(None)),
            _ => {
                let number = text.strip_prefix("cuda:").ok_or(expected)?;
                let number = number
                    .parse()
                    .map_err(|_| format!("`{number}` is no number of a device: {expected}"))?;
                Ok(Self::Cuda(Some(number)))
            }
        }
    }
}

impl fmt::Display for Wanted {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        match self {
            Self::Auto => f.write_str("auto"),
            Self::Cpu => f.write_str("cpu"),
            Self::Cuda(None) => f.write_str("cuda"),
            Self::Cuda(Some(number)) => write!(f, "cuda:{number}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn devices_are_read_as_they_are_written() {
        for text in ["auto", "cpu", "cuda", "cuda:0", "cuda:13"] {
            assert_eq!(text.parse::<Wanted>().unwrap().to_string(), text);
        }
        for text in ["", "gpu", "cuda:", "cuda:x", "cuda:-1", "CUDA"] {
            let problem = text.parse::<Wanted>().unwrap_err();
            assert!(problem.contains("expected auto, cpu"), "{text}: {problem}");
        }
    }
}
