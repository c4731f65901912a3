//! The emulator of CUDA, for jobs on GPUs that are not there.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use crate::launch::skip;

/// The folder of the emulator, built once; none where it cannot be, and the job is then skipped.
pub fn emulator() -> Option<PathBuf> {
    static BUILT: OnceLock<Result<PathBuf, String>> = OnceLock::new();
    let build = || {
        let target = Path::new(env!("CARGO_TARGET_TMPDIR")).parent().unwrap();
        let folder = target.join("cuda-emulator");
        let sources = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/cuda-emulator");
        let mut make = Command::new("make");
        make.args(["-s", "-C", sources])
            .arg(format!("OUT={}", folder.display()));
        let output = make.output().map_err(|error| format!("make: {error}"))?;
        match output.status.success() {
            true => Ok(folder),
            false => Err(String::from_utf8_lossy(&output.stderr).into_owned()),
        }
    };
    match BUILT.get_or_init(build) {
        Ok(folder) => Some(folder.clone()),
        Err(why) => {
            assert!(std::env::var_os("CI").is_none(), "{why}");
            skip(format!("the emulator of CUDA cannot be built: {why}"));
            None
        }
    }
}
