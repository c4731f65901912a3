//! The sources of the kernels, one an operation.

use std::fs;
use std::path::Path;

use crate::{Error, Result};

/// Names a folder whose sources are taken instead of the embedded ones: to try a change without building, and for tests that
/// must see that a wrong kernel is noticed.
const FOLDER: &str = "PHALANX_KERNELS";

/// An operation's kernels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// ReLU and tanh.
    Activation,
    /// Batch normalisation.
    BatchNorm,
    /// Biases by themselves.
    Bias,
    /// Convolution.
    Conv2d,
    /// Dropout.
    Dropout,
    /// Block matrix product.
    Gemm,
    /// Fully connected layer.
    Linear,
    /// Local response normalisation.
    LocalResponse,
    /// Pooling.
    Pool,
    /// Sums over all of a tensor.
    Reduce,
    /// Scaling of pixels.
    Scale,
    /// Softmax with cross-entropy.
    Softmax,
    /// Steps of optimizers.
    Update,
}

impl Source {
    /// All of them.
    pub const ALL: [Self; 13] = [
        Self::Activation,
        Self::BatchNorm,
        Self::Bias,
        Self::Conv2d,
        Self::Dropout,
        Self::Gemm,
        Self::Linear,
        Self::LocalResponse,
        Self::Pool,
        Self::Reduce,
        Self::Scale,
        Self::Softmax,
        Self::Update,
    ];

    /// Its name, that of its file without the ending.
    pub fn name(self) -> &'static str {
        self.embedded().0.trim_end_matches(".cu")
    }

    /// Its file in `kernels/`.
    pub fn file(self) -> &'static str {
        self.embedded().0
    }

    /// Its text, with the headers it includes in their places.
    pub fn text(self) -> Result<String> {
        let (file, embedded) = self.embedded();
        spliced(file, embedded, &mut Vec::new())
    }

    fn embedded(self) -> (&'static str, &'static str) {
        match self {
            Self::Activation => (
                "activation.cu",
                include_str!("../../../../kernels/activation.cu"),
            ),
            Self::BatchNorm => (
                "batch_norm.cu",
                include_str!("../../../../kernels/batch_norm.cu"),
            ),
            Self::Bias => ("bias.cu", include_str!("../../../../kernels/bias.cu")),
            Self::Conv2d => ("conv2d.cu", include_str!("../../../../kernels/conv2d.cu")),
            Self::Dropout => ("dropout.cu", include_str!("../../../../kernels/dropout.cu")),
            Self::Gemm => ("gemm.cu", include_str!("../../../../kernels/gemm.cu")),
            Self::Linear => ("linear.cu", include_str!("../../../../kernels/linear.cu")),
            Self::LocalResponse => (
                "local_response.cu",
                include_str!("../../../../kernels/local_response.cu"),
            ),
            Self::Pool => ("pool.cu", include_str!("../../../../kernels/pool.cu")),
            Self::Reduce => ("reduce.cu", include_str!("../../../../kernels/reduce.cu")),
            Self::Scale => ("scale.cu", include_str!("../../../../kernels/scale.cu")),
            Self::Softmax => ("softmax.cu", include_str!("../../../../kernels/softmax.cu")),
            Self::Update => ("update.cu", include_str!("../../../../kernels/update.cu")),
        }
    }
}

/// What sources include.
const HEADERS: [(&str, &str); 2] = [
    ("common.cuh", include_str!("../../../../kernels/common.cuh")),
    ("tile.cuh", include_str!("../../../../kernels/tile.cuh")),
];

/// A file's text with each header in the place of the first line that includes it; compilers are told what line is whose.
fn spliced(file: &str, embedded: &str, seen: &mut Vec<&'static str>) -> Result<String> {
    let text = match std::env::var_os(FOLDER) {
        None => embedded.to_string(),
        Some(folder) => {
            let path = Path::new(&folder).join(file);
            fs::read_to_string(&path).map_err(Error::io("read", &path))?
        }
    };
    let mut out = format!("#line 1 \"{file}\"\n");
    for (number, line) in text.lines().enumerate() {
        let name = line
            .strip_prefix("#include \"")
            .and_then(|rest| rest.strip_suffix('"'));
        match name.and_then(|name| HEADERS.iter().find(|(header, _)| *header == name)) {
            None => out.extend([line, "\n"]),
            Some((header, embedded)) => {
                if !seen.contains(header) {
                    seen.push(header);
                    out.push_str(&spliced(header, embedded, seen)?);
                }
                out.push_str(&format!("#line {} \"{file}\"\n", number + 2));
            }
        }
    }
    Ok(out)
}

/// How many parameters a kernel has, from its text; zero if it is not there.
pub(super) fn parameters(text: &str, kernel: &str) -> usize {
    let begin = format!("{kernel}(");
    let mut places = text.match_indices(&begin).map(|(at, _)| text.split_at(at));
    let declared = places.find(|(before, _)| {
        // `extern "C" __global__ void`, perhaps with bounds, is what stands before it.
        let line = before.rsplit(['}', ';', '{']).next().unwrap_or_default();
        line.contains("__global__") && !before.ends_with(|c: char| c.is_alphanumeric() || c == '_')
    });
    declared.map_or(0, |(_, behind)| {
        let list = behind[begin.len()..].split(')').next().unwrap_or_default();
        list.split(',').count()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_source_has_kernels_and_its_headers_once() {
        assert_eq!(parameters(&Source::Scale.text().unwrap(), "scale_bytes"), 5);
        for source in Source::ALL {
            let text = source.text().unwrap();
            assert!(text.contains("extern \"C\" __global__"), "{source:?}");
            assert!(!text.contains("#include \""), "{source:?}");
            for kernel in ["conv2d_forward", "conv2d_forward_narrow"] {
                let expected = if source == Source::Conv2d { 5 } else { 0 };
                assert_eq!(parameters(&text, kernel), expected, "{source:?}");
            }
            for (header, _) in HEADERS {
                let first = format!("#line 1 \"{header}\"");
                assert!(text.matches(&first).count() <= 1, "{source:?} {header}");
            }
        }
    }
}
