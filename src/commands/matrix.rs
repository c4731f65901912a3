//! `phalanx matrix`: element by element, and small systems.

use std::path::PathBuf;
use std::time::Instant;

use serde_json::json;

use crate::comm::{Comm, agree};
use crate::linalg::{
    Output, Precision, Real, Solvable, Source, Summary, Tilewise, solve, solve_bytes,
};
use crate::observe::{say, seconds, table};
use crate::train::readable;
use crate::{Error, Result};

/// What all commands on matrices have in common.
pub struct Common {
    /// The matrix A: a data set of a file, or a formula.
    pub a: String,
    /// What was said of A's rows and columns.
    pub shape: (Option<usize>, Option<usize>),
    /// Numbers to compute with, if not those of the files.
    pub precision: Option<Precision>,
    /// The key of random matrices.
    pub seed: u64,
    /// Bytes that a rank may take.
    pub memory: usize,
    /// Whether to print JSON.
    pub json: bool,
}

impl Common {
    /// The matrix A.
    pub fn open(&self) -> Result<Source> {
        Source::open(&self.a, self.shape, self.seed)
    }

    /// Numbers to compute with: as asked for, or those of the files, the wider ones where they differ.
    pub fn precision(&self, sources: &[&Source]) -> Precision {
        self.precision.unwrap_or_else(|| precision_of(sources))
    }
}

/// That of the files among `sources`, the wider where they differ; double without files.
pub fn precision_of(sources: &[&Source]) -> Precision {
    let mut of_files = sources
        .iter()
        .filter_map(|source| source.precision())
        .peekable();
    match of_files.peek().is_some() && of_files.all(|one| one == Precision::Single) {
        true => Precision::Single,
        false => Precision::Double,
    }
}

/// What to do.
pub enum Action {
    /// Tell its norm.
    Norm,
    /// Rows become columns.
    Transpose,
    /// αA + βB.
    Add {
        /// B.
        b: String,
        /// α.
        alpha: f64,
        /// β.
        beta: f64,
    },
    /// X with A·X = B.
    Solve {
        /// B.
        b: String,
    },
}

/// What to do with which matrix.
pub struct Settings {
    /// The matrix.
    pub common: Common,
    /// What to do.
    pub action: Action,
    /// Where the result goes.
    pub out: Option<PathBuf>,
    /// Whether an older one may be replaced.
    pub force: bool,
}

/// Does it and prints; *collective*.
pub fn run(comm: &dyn Comm, settings: &Settings) -> Result<()> {
    let (a, b) = agree(comm, open(settings))?;
    let sources: Vec<&Source> = std::iter::once(&a).chain(&b).collect();
    let precision = settings.common.precision(&sources);
    let (start, title) = (Instant::now(), title(settings, &a, precision));
    let done = match (&settings.action, precision) {
        (Action::Solve { .. }, Precision::Single) => solved::<f32>(comm, settings, &a, &b),
        (Action::Solve { .. }, Precision::Double) => solved::<f64>(comm, settings, &a, &b),
        (_, Precision::Single) => tilewise::<f32>(comm, settings, &a, &b),
        (_, Precision::Double) => tilewise::<f64>(comm, settings, &a, &b),
    };
    let (summary, error) = done?;
    if comm.rank() > 0 {
        return Ok(());
    }
    let time = start.elapsed().as_secs_f64();
    if settings.common.json {
        say(&json!({
            "a": settings.common.a, "rows": a.rows(), "cols": a.cols(), "type": precision.to_string(), "norm": summary.norm(),
            "greatest": summary.greatest, "sum": summary.sum, "checksum": format!("{:016x}", summary.checksum),
            "backward_error": error, "seconds": time,
        })
        .to_string());
        return Ok(());
    }
    let mut rows = vec![
        ("norm", format!("{:.12e}, Frobenius", summary.norm())),
        (
            "largest",
            format!("{:.12e} in absolute value", summary.greatest),
        ),
        ("sum", format!("{:.12e}", summary.sum)),
        ("checksum", format!("{:016x}", summary.checksum)),
    ];
    if let Some(error) = error {
        let words = format!("exact for A and B that differ by {error:.1e} of their norms");
        rows.push(("error", words));
    }
    if let Some(out) = &settings.out {
        rows.push(("written", format!("{}/matrix.h5:/matrix", out.display())));
    }
    rows.push(("time", seconds(time)));
    say(&table(&title, &rows));
    Ok(())
}

fn open(settings: &Settings) -> Result<(Source, Option<Source>)> {
    let a = settings.common.open()?;
    let next = settings.common.seed.wrapping_add(1);
    let b = match &settings.action {
        Action::Norm | Action::Transpose => None,
        Action::Add { b, .. } => Some(Source::open(b, (Some(a.rows()), Some(a.cols())), next)?),
        Action::Solve { b } => {
            if a.rows() != a.cols() {
                return Err(Error::Mismatch {
                    what: format!("columns of {}", a.name()),
                    expected: a.rows().to_string(),
                    got: a.cols().to_string(),
                    hint: "a system needs as many equations as unknowns",
                });
            }
            // A formula has one column, a file what it has.
            let file = Source::open(b, (Some(a.rows()), None), next);
            let b = file.or_else(|error| match error {
                Error::Usage(_) => Source::open(b, (Some(a.rows()), Some(1)), next),
                error => Err(error),
            })?;
            Some(b)
        }
    };
    Ok((a, b))
}

fn title(settings: &Settings, a: &Source, precision: Precision) -> String {
    let what = match &settings.action {
        Action::Norm => "matrix".into(),
        Action::Transpose => "transposed matrix of".into(),
        Action::Add { b, alpha, beta } => format!("{alpha}·A + {beta}·B with B {b} and A"),
        Action::Solve { b } => format!("X with A·X = B, B {b} and A"),
    };
    format!(
        "{what} {}, {}×{}, {precision}",
        a.name(),
        a.rows(),
        a.cols()
    )
}

type Told = (Summary, Option<f64>);

fn tilewise<T: Real>(
    comm: &dyn Comm,
    settings: &Settings,
    a: &Source,
    b: &Option<Source>,
) -> Result<Told> {
    let what = match (&settings.action, b) {
        (&Action::Add { alpha, beta, .. }, Some(b)) => Tilewise::Add { a, b, alpha, beta },
        (Action::Transpose, _) => Tilewise::Transpose(a),
        _ => Tilewise::Copy(a),
    };
    let mut out = match &settings.out {
        Some(path) => Some(Output::<T>::create(
            comm,
            path,
            what.shape(),
            settings.force,
        )?),
        None => None,
    };
    let mut summary = Summary::default();
    let done = what.go(comm, settings.common.memory, &mut |row, col, tile| {
        summary.add(row, col, tile);
        out.as_mut().map_or(Ok(()), |out| out.write(row, col, tile))
    });
    match out {
        Some(out) => out.conclude(comm, done)?,
        None => done?,
    }
    Ok((summary.together(comm), None))
}

fn solved<T: Solvable>(
    comm: &dyn Comm,
    settings: &Settings,
    a: &Source,
    b: &Option<Source>,
) -> Result<Told> {
    let b = b.as_ref().expect("a system has a right side");
    let need = solve_bytes::<T>(a.rows(), b.cols());
    if need > settings.common.memory {
        return Err(Error::Usage(format!(
            "this system takes {} of memory: give --memory {need}, or solve a smaller one",
            readable(need as u64)
        )));
    }
    let solved = solve::<T>(a, b)?;
    let mut summary = Summary::default();
    summary.add(0, 0, solved.x.view());
    if let Some(path) = &settings.out {
        let mut out = Output::create(comm, path, solved.x.dim(), settings.force)?;
        let done = out.write(0, 0, solved.x.view());
        out.conclude(comm, done)?;
    }
    Ok((summary, Some(solved.backward_error)))
}
