//! Log lines on stderr: from rank 0 as much as `RUST_LOG` asks for, from other ranks warnings only, with their number.

use std::io::Write;

use log::LevelFilter;

use crate::comm::Start;

/// Sets up logging for this rank; `RUST_LOG` defaults to `warn`.
pub fn start(start: &Start) {
    let mut builder =
        env_logger::Builder::from_env(env_logger::Env::default().default_filter_or("warn"));
    let (rank, alone) = (start.rank, start.alone());
    if rank > 0 {
        builder.filter_level(LevelFilter::Warn);
    }
    builder.format(move |out, record| {
        let level = record.level().to_string().to_lowercase();
        match alone {
            true => writeln!(out, "{level}: {}", record.args()),
            false => writeln!(out, "{level}: rank {rank}: {}", record.args()),
        }
    });
    builder.init();
}
