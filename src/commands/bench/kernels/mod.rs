//! Each GPU kernel by itself: whether it computes what the CPU does, and how fast it is.

mod case;
mod elements;
mod layers;
mod products;
mod roofline;

use serde_json::json;

use crate::backend::cuda::{Device, Event, Facts, Stream};
use crate::comm::Comm;
use crate::train::readable;
use crate::{Error, Result};
use case::{Case, Sizes};
use roofline::Peak;

/// What to measure.
pub struct Settings {
    /// Which GPU.
    pub device: usize,
    /// Samples of a batch; by default as many as suit the device.
    pub batch: Option<usize>,
    /// Only kernels whose names hold this.
    pub only: Option<String>,
    /// How long each is repeated.
    pub seconds: f64,
    /// A line of JSON for each instead of a table.
    pub json: bool,
}

/// Checks and measures on the first rank.
pub(super) fn run(comm: &dyn Comm, settings: &Settings) -> Result<()> {
    if comm.rank() != 0 {
        return Ok(());
    }
    let device = Device::open(settings.device)?;
    let stream = Stream::new(&device)?;
    let facts = device.facts();
    let sizes = Sizes::of(facts.emulated, settings.batch);
    let peak = Peak::of(facts);
    if !settings.json {
        println!("{}", head(&device, &sizes, peak.as_ref())?);
    }
    let mut wrong = Vec::new();
    for make in products::CASES
        .into_iter()
        .chain(layers::CASES)
        .chain(elements::CASES)
    {
        for mut case in make(&stream, &sizes)? {
            if !settings
                .only
                .as_ref()
                .is_none_or(|only| case.name.contains(only.as_str()))
            {
                continue;
            }
            let seconds = time(&stream, &mut case, settings.seconds)?;
            println!(
                "{}",
                row(&case, seconds, facts, peak.as_ref(), settings.json)
            );
            if !case.right() {
                wrong.push(case.name);
            }
        }
    }
    match wrong.is_empty() {
        true => Ok(()),
        false => Err(Error::Wrong(format!(
            "the kernels {} differ from the CPU",
            wrong.join(", ")
        ))),
    }
}

/// Seconds of one launch: after one to warm up, as many as fill the time, between two events.
fn time(stream: &Stream, case: &mut Case, seconds: f64) -> Result<f64> {
    let (begin, end) = (Event::new(stream.device())?, Event::new(stream.device())?);
    let mut repeated = |times: usize| -> Result<f64> {
        stream.record(&begin)?;
        for _ in 0..times {
            (case.launch)(stream)?;
        }
        stream.record(&end)?;
        stream.wait()?;
        Ok(begin.seconds_to(&end)? / times as f64)
    };
    let first = repeated(1)?.max(1e-7);
    let times = (seconds / first) as usize;
    repeated(times.clamp(1, 100_000))
}

fn head(device: &Device, sizes: &Sizes, peak: Option<&Peak>) -> Result<String> {
    let facts = device.facts();
    let mut lines = vec![format!(
        "{}, compute capability {}.{}, {} multiprocessors, {} of memory, {} free",
        facts.name,
        facts.capability.0,
        facts.capability.1,
        facts.multiprocessors,
        readable(facts.memory),
        readable(device.free()?),
    )];
    match (facts.emulated, peak) {
        (true, _) => lines.push(
            "an emulator on the CPU: results are checked, times mean nothing and are left out"
                .into(),
        ),
        (false, Some(peak)) => lines.push(peak.describe()),
        (false, None) => lines.push("its peak is not known: no share of it is told".into()),
    }
    lines.push(format!("batches of {}", sizes.n));
    lines.push(format!(
        "  {:<26} {:<34} {:>9} {:>6} {:>10} {:>9} {:>8} {:>9}",
        "kernel", "shape", "error", "", "µs", "GFLOP/s", "GB/s", "roofline"
    ));
    Ok(lines.join("\n"))
}

fn row(case: &Case, seconds: f64, facts: &Facts, peak: Option<&Peak>, as_json: bool) -> String {
    let measured = !facts.emulated;
    let share = peak
        .filter(|_| measured)
        .map(|peak| peak.seconds(case) / seconds);
    if as_json {
        let number = |value: f64| measured.then_some(value);
        return json!({
            "device": facts.name, "emulated": facts.emulated, "kernel": case.name, "shape": case.shape,
            "error": case.error, "tolerance": case.tolerance, "right": case.right(),
            "seconds": number(seconds), "gflops": number(case.flops / seconds / 1e9),
            "gbytes": number(case.bytes / seconds / 1e9), "roofline_share": share,
        })
        .to_string();
    }
    let figure = |value: f64, digits: usize| match measured {
        true => format!("{value:.digits$}"),
        false => "–".into(),
    };
    format!(
        "  {:<26} {:<34} {:>9.1e} {:>6} {:>10} {:>9} {:>8} {:>9}",
        case.name,
        case.shape,
        case.error,
        if case.right() { "right" } else { "WRONG" },
        figure(seconds * 1e6, 1),
        figure(case.flops / seconds / 1e9, 1),
        figure(case.bytes / seconds / 1e9, 1),
        share.map_or("–".into(), |share| format!("{:.0} %", 100.0 * share)),
    )
}
