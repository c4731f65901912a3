//! `phalanx trace`: the trace of a matrix, a product or a power.

use super::matrix::Common;
use crate::Result;
use crate::comm::{Comm, agree};
use crate::linalg::trace::{Factor, Job, Share, Traced, Via, power, trace};
use crate::linalg::{Precision, Real, Source};
use crate::observe::{say, seconds, table};
use crate::train::readable;

/// Ranks that are shown one by one.
const SHOWN: usize = 16;

/// Which trace, and how.
pub struct Settings {
    /// The matrix A, and what may be taken for it.
    pub common: Common,
    /// The matrix B, if there is one.
    pub b: Option<String>,
    /// The power of A.
    pub power: u32,
    /// How to take the trace of a product.
    pub via: Via,
    /// Whether powers that need products must have the same bits on any number of ranks.
    pub reproducible: bool,
}

impl Settings {
    /// What to compute, with which numbers.
    fn open(&self) -> Result<(Job, Precision)> {
        let a = self.common.open()?;
        let factor = match &self.b {
            None => Factor::None,
            Some(text) => self.open_b(&a, text)?,
        };
        let precision = match &factor {
            Factor::Other(b) => self.common.precision(&[&a, b]),
            Factor::None | Factor::Itself => self.common.precision(&[&a]),
        };
        let job = Job {
            a,
            factor,
            via: self.via,
            memory: self.common.memory,
        };
        Ok((job, precision))
    }

    fn open_b(&self, a: &Source, text: &str) -> Result<Factor> {
        let (fits, next) = (
            (Some(a.cols()), Some(a.rows())),
            self.common.seed.wrapping_add(1),
        );
        // A file has its own shape, which is compared with A's where both can be named; a formula takes any.
        let b =
            Source::open(text, (None, None), next).or_else(|_| Source::open(text, fits, next))?;
        let same = (b.name(), b.rows(), b.cols()) == (a.name(), a.rows(), a.cols());
        // Two random matrices have two seeds.
        let random = text.starts_with("random:");
        Ok(match same && a.rows() == a.cols() && !random {
            true => Factor::Itself,
            false => Factor::Other(b),
        })
    }

    /// What the trace is of.
    fn subject(&self) -> String {
        match (&self.b, self.power) {
            (Some(_), _) => "A·B".into(),
            (None, 1) => "A".into(),
            (None, 2) => "A·A".into(),
            (None, k) => format!("A to the power of {k}"),
        }
    }
}

/// Computes and prints; *collective*.
pub fn run(comm: &dyn Comm, settings: &Settings) -> Result<()> {
    let (job, precision) = agree(comm, settings.open())?;
    let compute = match precision {
        Precision::Single => compute::<f32>,
        Precision::Double => compute::<f64>,
    };
    let traced = compute(comm, settings, &job)?;
    if comm.rank() > 0 {
        return Ok(());
    }
    if settings.common.json {
        say(&json(settings, &job, precision, &traced));
        return Ok(());
    }
    let title = format!("trace of {}", settings.subject());
    say(&table(&title, &rows(settings, &job, precision, &traced)));
    Ok(())
}

fn compute<T: Real>(comm: &dyn Comm, settings: &Settings, job: &Job) -> Result<Traced> {
    match settings.b {
        Some(_) => trace::<T>(comm, job),
        None => power::<T>(comm, job, settings.power, settings.reproducible),
    }
}

fn rows(
    settings: &Settings,
    job: &Job,
    precision: Precision,
    traced: &Traced,
) -> Vec<(String, String)> {
    let shape = |name: &str, rows: usize, cols: usize| format!("{name}, {rows}×{cols}");
    let (m, n) = (job.a.rows(), job.a.cols());
    let mut rows = vec![("A".to_string(), shape(job.a.name(), m, n))];
    if let Some(b) = &settings.b {
        rows.push(("B".into(), shape(b, n, m)));
    }
    let value = traced.sum.high;
    let relative = match value {
        0.0 => String::new(),
        value => format!(", relatively {:.1e}", traced.bound / value.abs()),
    };
    let how = match (&settings.b, settings.power, job.via) {
        (None, 1, _) => format!("the diagonal, {precision}"),
        (_, _, Via::Direct) => format!("direct, {precision}"),
        (_, _, Via::Product) => format!("by products of blocks, {precision}"),
    };
    let tiles = traced.tiles();
    rows.extend([
        ("trace".into(), format!("{value:?}")),
        (
            "error".into(),
            format!("at most {:.1e}{relative}", traced.bound),
        ),
        ("method".into(), how),
        (
            "work".into(),
            format!(
                "{} numbers read or made, {}, in {tiles} tiles of up to {} rows",
                traced.numbers(),
                readable(traced.bytes()),
                traced.side
            ),
        ),
        ("time".into(), seconds(traced.seconds)),
    ]);
    rows.extend(ranks(&traced.shares));
    rows
}

/// A line for each rank; of many, one for all.
fn ranks(shares: &[Share]) -> Vec<(String, String)> {
    let words = |share: &Share| {
        let (making, adding) = (seconds(share.making), seconds(share.adding));
        format!(
            "{} tiles, {making} of reading or making, {adding} of adding",
            share.tiles
        )
    };
    if shares.len() <= SHOWN {
        let line = |(rank, share)| (format!("rank {rank}"), words(share));
        return shares.iter().enumerate().map(line).collect();
    }
    let busy = |share: &Share| share.making + share.adding;
    let order = |a: &&Share, b: &&Share| busy(a).total_cmp(&busy(b));
    let (least, most) = (shares.iter().min_by(order), shares.iter().max_by(order));
    let ends = [("idlest", least), ("busiest", most)];
    let line = |(name, share): (&str, Option<&Share>)| {
        share.map(|share| (format!("{name} of {} ranks", shares.len()), words(share)))
    };
    ends.into_iter().filter_map(line).collect()
}

fn json(settings: &Settings, job: &Job, precision: Precision, traced: &Traced) -> String {
    let rank = |share: &Share| {
        serde_json::json!({
            "tiles": share.tiles, "numbers": share.numbers, "making": share.making, "adding": share.adding,
        })
    };
    let ranks: Vec<_> = traced.shares.iter().map(rank).collect();
    serde_json::json!({
        "a": settings.common.a, "b": settings.b, "rows": job.a.rows(), "cols": job.a.cols(), "power": settings.power,
        "via": job.via.to_string(), "type": precision.to_string(), "seed": settings.common.seed,
        "trace": traced.sum.high, "trace_low": traced.sum.low, "error_bound": traced.bound, "seconds": traced.seconds,
        "numbers": traced.numbers(), "bytes": traced.bytes(), "tiles": traced.tiles(), "side": traced.side, "ranks": ranks,
    })
    .to_string()
}
