//! What is told of a product.

use serde_json::json;

use super::{Check, Settings};
use crate::comm::Comm;
use crate::linalg::{Plan, Summary, Verdict, Way, Work};
use crate::observe::{seconds, table};
use crate::train::readable;

/// Ranks that are shown one by one.
const SHOWN: usize = 16;

/// What each rank did, and the FLOP/s of its core.
pub(super) struct Share {
    work: Work,
    peak: f64,
}

/// All ranks' work, on every rank; *collective*.
pub(super) fn gather(comm: &dyn Comm, work: &Work, peak: f64) -> Vec<Share> {
    let mine = [
        work.reading,
        work.computing,
        work.talking,
        work.waiting,
        work.giving,
        work.checking,
        work.panel_bytes as f64,
        work.sum_bytes as f64,
        work.flop,
        peak,
    ];
    let all = comm.gather(&mine.map(f64::to_le_bytes).concat());
    let share = |bytes: &Vec<u8>| {
        let n: Vec<f64> = bytes
            .as_chunks()
            .0
            .iter()
            .map(|&n| f64::from_le_bytes(n))
            .collect();
        Share {
            work: Work {
                reading: n[0],
                computing: n[1],
                talking: n[2],
                waiting: n[3],
                giving: n[4],
                checking: n[5],
                panel_bytes: n[6] as u64,
                sum_bytes: n[7] as u64,
                flop: n[8],
            },
            peak: n[9],
        }
    };
    all.iter().map(share).collect()
}

/// A finished product.
pub(super) struct Report<'a> {
    pub(super) settings: &'a Settings,
    /// What computed.
    pub(super) device: &'a str,
    pub(super) plan: &'a Plan,
    pub(super) names: [&'a str; 2],
    pub(super) works: Vec<Share>,
    pub(super) verdict: Option<Verdict>,
    /// The largest difference from one product by BLAS, relative to what rounding can make.
    pub(super) dense: Option<f64>,
    pub(super) summary: Summary,
}

impl Report<'_> {
    pub(super) fn text(&self) -> String {
        match self.settings.json {
            true => self.json(),
            false => table("C = αA·B + βC", &self.rows()),
        }
    }

    fn most(&self, of: impl Fn(&Work) -> f64) -> f64 {
        self.works
            .iter()
            .map(|share| of(&share.work))
            .fold(0.0, f64::max)
    }

    /// Seconds of the product, without reading, writing and checking.
    fn product(&self) -> f64 {
        self.most(|work| work.computing + work.talking).max(1e-9)
    }

    /// Seconds of all that a rank did for the product.
    fn total(&self) -> f64 {
        let all = |work: &Work| {
            work.reading
                + work.computing
                + work.talking
                + work.waiting
                + work.giving
                + work.checking
        };
        self.most(all)
    }

    fn bytes(&self, of: fn(&Work) -> u64) -> u64 {
        self.works.iter().map(|share| of(&share.work)).sum()
    }

    fn rows(&self) -> Vec<(String, String)> {
        let (plan, job) = (self.plan, &self.plan.job);
        let rate = plan.flop() / self.product();
        let peak: f64 = self.works.iter().map(|share| share.peak).sum();
        let mut rows = vec![
            (
                "A".to_string(),
                format!("{}, {}×{}", self.names[0], job.m, job.k),
            ),
            (
                "B".into(),
                format!("{}, {}×{}", self.names[1], job.k, job.n),
            ),
        ];
        rows.extend(plan_rows(plan));
        rows.push(("device".into(), self.device.into()));
        let of = match peak.is_nan() {
            true => "copies to and from devices among it".into(),
            false => format!(
                "{:.0} % of {:.1} that BLAS reaches on all ranks at once",
                100.0 * rate / peak,
                peak / 1e9
            ),
        };
        let product = seconds(self.product());
        let product = format!("{product}, {:.1} GFLOP/s, {of}", rate / 1e9);
        rows.push(("product".into(), product));
        rows.push(("moved".into(), self.moved()));
        rows.push(("check".into(), self.check()));
        let summary = &self.summary;
        rows.push((
            "C".into(),
            format!(
                "Frobenius norm {:.9e}, largest element {:.6e}, sum {:.9e}, checksum {:016x}",
                summary.norm(),
                summary.greatest,
                summary.sum,
                summary.checksum
            ),
        ));
        if let Some(out) = &self.settings.out {
            rows.push((
                "written".into(),
                format!("{}/matrix.h5:/matrix", out.display()),
            ));
        }
        rows.push(("time".into(), seconds(self.total())));
        rows.extend(self.ranks());
        rows
    }

    fn moved(&self) -> String {
        let panels = self.bytes(|work| work.panel_bytes);
        let sums = self.bytes(|work| work.sum_bytes);
        format!(
            "{} of panels between nodes (planned {}), {} into sums (planned {})",
            readable(panels),
            readable(self.plan.panel_bytes),
            readable(sums),
            readable(self.plan.sum_bytes)
        )
    }

    fn check(&self) -> String {
        let checking = self.most(|work| work.checking);
        let share = 100.0 * checking / self.product();
        match (&self.verdict, self.dense, self.settings.check) {
            (Some(verdict), ..) => format!(
                "passed in {} ({share:.1} % of the product): rows differ by {:.2} of what rounding makes at most; an error of {:.1e} in one element \
                 would be seen, where elements are about {:.1e}; no element is off by more than {:.1e} Σ|a b|{}",
                seconds(checking),
                verdict.largest,
                verdict.notices,
                verdict.scale,
                verdict.bound,
                match verdict.again {
                    0 => String::new(),
                    rows => format!("; {rows} rows were computed again"),
                }
            ),
            (None, Some(largest), _) => format!(
                "equal to one product by BLAS, but for at most {largest:.3} of what rounding can make"
            ),
            (_, _, Check::Freivalds | Check::Dense | Check::None) => "none".into(),
        }
    }

    /// A line for each rank; of many, for the slowest.
    fn ranks(&self) -> Vec<(String, String)> {
        let words = |share: &Share| {
            let work = &share.work;
            let rate = match work.computing {
                0.0 => "idle".into(),
                time => format!("{:.1} GFLOP/s", work.flop / time / 1e9),
            };
            format!(
                "{rate}; {} computing, {} talking, {} waiting, {} reading, {} writing",
                seconds(work.computing),
                seconds(work.talking),
                seconds(work.waiting),
                seconds(work.reading),
                seconds(work.giving)
            )
        };
        let all = self.works.iter().enumerate();
        if self.works.len() <= SHOWN {
            return all
                .map(|(rank, share)| (format!("rank {rank}"), words(share)))
                .collect();
        }
        let slowest = all.max_by(|a, b| a.1.work.computing.total_cmp(&b.1.work.computing));
        let line = slowest.map(|(rank, share)| (format!("slowest, {rank}"), words(share)));
        line.into_iter().collect()
    }

    fn json(&self) -> String {
        let (plan, job) = (self.plan, &self.plan.job);
        let ranks: Vec<_> = (self.works.iter())
            .map(|share| {
                let work = &share.work;
                json!({
                    "computing": work.computing, "talking": work.talking, "waiting": work.waiting, "reading": work.reading,
                    "writing": work.giving, "checking": work.checking, "flop": work.flop, "peak": share.peak,
                })
            })
            .collect();
        let verdict = self.verdict.map(|verdict| {
            json!({
                "largest": verdict.largest, "bound": verdict.bound, "again": verdict.again, "notices": verdict.notices,
            })
        });
        json!({
            "m": job.m, "n": job.n, "k": job.k, "type": job.precision.to_string(), "grid": plan.grid.to_string(),
            "device": self.device,
            "algorithm": plan.algorithm().name(), "seconds": self.product(), "gflops": plan.flop() / self.product() / 1e9,
            "total_seconds": self.total(), "check_seconds": self.most(|work| work.checking), "check": verdict, "dense": self.dense,
            "panel_bytes": self.bytes(|work| work.panel_bytes), "planned_panel_bytes": plan.panel_bytes,
            "sum_bytes": self.bytes(|work| work.sum_bytes), "planned_sum_bytes": plan.sum_bytes,
            "norm": self.summary.norm(), "greatest": self.summary.greatest, "sum": self.summary.sum,
            "checksum": format!("{:016x}", self.summary.checksum), "ranks": ranks,
        })
        .to_string()
    }
}

/// A plan by itself.
pub(super) fn plan(plan: &Plan, as_json: bool) -> String {
    let job = &plan.job;
    if as_json {
        return json!({
            "m": job.m, "n": job.n, "k": job.k, "type": job.precision.to_string(), "ranks": job.nodes.len(),
            "grid": plan.grid.to_string(), "algorithm": plan.algorithm().name(), "memory": plan.memory,
            "panel_bytes": plan.panel_bytes, "sum_bytes": plan.sum_bytes, "flop": plan.flop(), "seconds": plan.seconds,
        })
        .to_string();
    }
    let mut rows = plan_rows(plan);
    rows.push((
        "guess".to_string(),
        format!(
            "{} at the rates that plans are chosen by",
            seconds(plan.seconds)
        ),
    ));
    let title = format!(
        "plan of a product {}×{} of a sum over {}, {}",
        job.m, job.n, job.k, job.precision
    );
    table(&title, &rows)
}

fn plan_rows(plan: &Plan) -> Vec<(String, String)> {
    let (job, grid) = (&plan.job, plan.grid);
    let nodes = job.nodes.iter().max().map_or(0, |last| last + 1);
    let idle = job.nodes.len() - grid.size();
    let panels = match plan.way {
        Way::Held if plan.panel_bytes == 0 => {
            "read where they are, in the node's memory".to_string()
        }
        Way::Held => format!(
            "of {} columns, sent between nodes while the last one is multiplied",
            plan.panel
        ),
        Way::Streamed { rows, cols } => {
            format!(
                "of {} columns, read again for each tile of {rows}×{cols}",
                plan.panel
            )
        }
    };
    let mut all = vec![
        (
            "plan".to_string(),
            format!(
                "{} on {} × {} ranks and {} layers of k, {nodes} node{}{}",
                plan.algorithm().name(),
                grid.rows,
                grid.cols,
                grid.layers,
                if nodes == 1 { "" } else { "s" },
                match idle {
                    0 => String::new(),
                    idle => format!(", {idle} ranks idle"),
                }
            ),
        ),
        ("panels".into(), panels),
        (
            "memory".into(),
            format!(
                "{} of {} a rank",
                readable(plan.memory as u64),
                readable(job.memory as u64)
            ),
        ),
        ("flop".into(), format!("{:.3e}", plan.flop())),
    ];
    let picture = grid.picture();
    for (i, line) in picture.lines().enumerate() {
        let name = if i == 0 { "owners of C" } else { "" };
        all.push((name.into(), line.to_string()));
    }
    all
}
