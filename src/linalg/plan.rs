//! How a product is divided among ranks: a value that is chosen, shown and tested without any rank, then carried out.
//!
//! Rank (r, c, l) of a grid computes the block (r, c) of C from the l-th part of k. Its row of the grid has the rows r of A
//! in common, cut by columns; its column has the columns c of B, cut by rows. Where all that fits into memory it is *held*,
//! and panels go from rank to rank (between nodes) or are read where they are (inside a node): SUMMA. Where it does not,
//! each rank *streams* panels from the source, for one tile of its block of C after the other.

use std::collections::BTreeSet;

use super::grid::{Grid, Place, longest, part};
use super::real::Precision;
use crate::{Error, Result};

/// What a core, a node's memory and its network do, about, a second: they decide between plans, not what a run reports.
const FLOP: f64 = 60e9;
const MEMORY: f64 = 8e9;
const NETWORK: f64 = 1e9;
/// Seconds of a message between nodes, and of making or reading one number of a matrix.
const LATENCY: f64 = 50e-6;
const MAKING: f64 = 5e-9;
/// A plan must be this much faster to be taken instead of a simpler one.
const WORTH: f64 = 0.98;

/// Columns of A, and rows of B, that are sent or streamed at once.
const PANEL: usize = 512;
/// The least side of a tile that is worth streaming.
const LEAST: usize = 64;

/// What is to be computed, by whom.
#[derive(Clone, Debug, PartialEq)]
pub struct Job {
    /// Rows of A and C.
    pub m: usize,
    /// Columns of B and C.
    pub n: usize,
    /// Columns of A, rows of B.
    pub k: usize,
    /// Of all numbers.
    pub precision: Precision,
    /// The node of each rank; ranks of a node follow one another.
    pub nodes: Vec<usize>,
    /// Bytes that a rank may take.
    pub memory: usize,
    /// The arrangement, if it is not to be chosen.
    pub grid: Option<Grid>,
    /// Which way, if it is not to be chosen.
    pub algorithm: Option<Algorithm>,
    /// C and k are cut at multiples of this only: where products are to be the same bits on any number of ranks.
    pub unit: usize,
}

/// The ways to divide a product.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Algorithm {
    /// C in blocks; every rank goes through all of k.
    Summa,
    /// C in blocks, and k in layers whose results are added up.
    Layered,
    /// k only: for a small C.
    SplitK,
    /// C in blocks whose panels come from the source each time.
    Streamed,
}

impl Algorithm {
    /// What it is called.
    pub fn name(self) -> &'static str {
        match self {
            Self::Summa => "summa",
            Self::Layered => "layered",
            Self::SplitK => "split-k",
            Self::Streamed => "streamed",
        }
    }
}

/// Where panels are while a product is computed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// A and B are in memory.
    Held,
    /// They are read or made again for each tile of C of at most these rows and columns.
    Streamed {
        /// Rows.
        rows: usize,
        /// Columns.
        cols: usize,
    },
}

/// A product, divided.
#[derive(Clone, Debug, PartialEq)]
pub struct Plan {
    /// What it is for.
    pub job: Job,
    /// Who has which part.
    pub grid: Grid,
    /// Where panels are.
    pub way: Way,
    /// Width of the panels that are sent or streamed.
    pub panel: usize,
    /// Bytes that panels take between nodes.
    pub panel_bytes: u64,
    /// Bytes that ranks give to sums over layers.
    pub sum_bytes: u64,
    /// Bytes that the rank with most of them needs.
    pub memory: usize,
    /// Seconds that it would take at the rates assumed here.
    pub seconds: f64,
}

impl Plan {
    /// The best one within the memory; or an error with the least that would do.
    pub fn choose(job: &Job) -> Result<Self> {
        let grids = match job.grid {
            Some(grid) => vec![grid],
            None => grids(job),
        };
        let wanted = |plan: &Self| {
            job.algorithm
                .is_none_or(|wanted| wanted == plan.algorithm())
        };
        let (mut best, mut least) = (None::<Self>, usize::MAX);
        // Streaming reads or makes numbers again and again: only where they do not fit, or where the user wants it.
        for streamed in [false, true] {
            for &grid in &grids {
                let plan = match streamed {
                    false => Self::held(job, grid),
                    true => Self::streamed(job, grid),
                };
                if wanted(&plan) {
                    let needs = if streamed {
                        least_memory(job)
                    } else {
                        plan.memory
                    };
                    least = least.min(needs);
                    plan.replaces(&mut best);
                }
            }
        }
        match best {
            Some(plan) => Ok(plan),
            None if least == usize::MAX => Err(Error::Usage(format!(
                "no arrangement of {} ranks does `--algorithm {}`",
                job.nodes.len(),
                job.algorithm.map_or("auto", Algorithm::name)
            ))),
            None => Err(Error::Usage(format!(
                "--memory {} is too little for this product: the least that would do is {} bytes a rank",
                job.memory, least
            ))),
        }
    }

    /// Takes the place of `best` if it is better and fits into memory.
    fn replaces(self, best: &mut Option<Self>) {
        let better = match best {
            None => true,
            Some(best) if best.way != self.way && best.way == Way::Held => false,
            Some(best) => self.seconds < best.seconds * WORTH,
        };
        if better && self.memory <= self.job.memory {
            *best = Some(self);
        }
    }

    /// Which way it is.
    pub fn algorithm(&self) -> Algorithm {
        match (self.way, self.grid) {
            (Way::Streamed { .. }, _) => Algorithm::Streamed,
            (_, Grid { layers: 1, .. }) => Algorithm::Summa,
            (
                _,
                Grid {
                    rows: 1, cols: 1, ..
                },
            ) => Algorithm::SplitK,
            _ => Algorithm::Layered,
        }
    }

    /// Floating-point operations of the whole product.
    pub fn flop(&self) -> f64 {
        2.0 * self.job.m as f64 * self.job.n as f64 * self.job.k as f64
    }

    /// The rows of C at a place, its columns, and its part of k.
    pub fn ranges(&self, place: Place) -> [std::ops::Range<usize>; 3] {
        let Job { m, n, k, unit, .. } = self.job;
        [
            part(m, unit, self.grid.rows, place.row),
            part(n, unit, self.grid.cols, place.col),
            part(k, unit, self.grid.layers, place.layer),
        ]
    }

    fn held(job: &Job, grid: Grid) -> Self {
        let [m, n, k] = sides(job, grid);
        let size = job.precision.bytes();
        let crosses = job.nodes.iter().any(|node| *node != job.nodes[0]);
        let (a, b) = (m * longest(k, 1, grid.cols), longest(k, 1, grid.rows) * n);
        // Panels from other nodes, the one at work and the one on its way; or one that is put together of several ranks' shares.
        let alone = grid.rows * grid.cols == 1;
        let buffers = if alone { 0 } else { 2 * PANEL.min(k) * (m + n) };
        let memory = size * (a + b + m * n + buffers) + vectors(job);
        let moved = between_nodes(job, grid);
        let steps = k.div_ceil(PANEL) as f64;
        let network = if crosses {
            steps * 2.0 * LATENCY + moved.busiest / NETWORK
        } else {
            0.0
        };
        let seconds = compute([m, n, k], size) + making(a + b) + network + moved.sums(m * n * size);
        Self {
            job: job.clone(),
            grid,
            way: Way::Held,
            panel: PANEL,
            panel_bytes: moved.panels,
            sum_bytes: moved.sum_bytes,
            memory,
            seconds,
        }
    }

    fn streamed(job: &Job, grid: Grid) -> Self {
        let [m, n, k] = sides(job, grid);
        let size = job.precision.bytes();
        let numbers = job.memory.saturating_sub(vectors(job)) / size;
        let panel = match (k.min(PANEL), numbers) {
            (panel, numbers) if numbers < 4 * panel * panel => panel.min(LEAST),
            (panel, _) => panel,
        };
        let (rows, cols) = tile((m, n), panel, numbers);
        let again = (n.div_ceil(cols) * m + m.div_ceil(rows) * n) * k;
        let moved = between_nodes(job, grid);
        let seconds = compute([m, n, k], size) + making(again) + moved.sums(m * n * size);
        Self {
            job: job.clone(),
            grid,
            way: Way::Streamed { rows, cols },
            panel,
            panel_bytes: 0,
            sum_bytes: moved.sum_bytes,
            memory: size * (rows * cols + panel * (rows + cols)) + vectors(job),
            seconds,
        }
    }
}

/// The longest sides of what a rank computes.
fn sides(job: &Job, grid: Grid) -> [usize; 3] {
    [
        longest(job.m, job.unit, grid.rows),
        longest(job.n, job.unit, grid.cols),
        longest(job.k, job.unit, grid.layers),
    ]
}

/// The tile of C with the longest sides for which the tile and a panel of A and of B are so many numbers.
fn tile((m, n): (usize, usize), panel: usize, numbers: usize) -> (usize, usize) {
    let (w, p) = (numbers as f64, panel as f64);
    let side = ((p * p + w).sqrt() - p).floor() as usize;
    let other = |one: usize| numbers.saturating_sub(one * panel) / (one + panel);
    let least = |side: usize| side.min(LEAST);
    match (m <= side, n <= side) {
        (true, _) => (m, other(m).clamp(least(n), n)),
        (_, true) => (other(n).clamp(least(m), m), n),
        _ => (side.clamp(least(m), m), side.clamp(least(n), n)),
    }
}

/// Bytes without which a product cannot even be streamed.
fn least_memory(job: &Job) -> usize {
    let [m, n, k] = [job.m, job.n, job.k].map(|side| side.min(LEAST));
    job.precision.bytes() * (m * n + k * (m + n)) + vectors(job)
}

/// Bytes of the vectors that the check of the result needs.
fn vectors(job: &Job) -> usize {
    8 * (job.n + 2 * job.k + 5 * job.m)
}

/// Seconds of a rank's product: of its arithmetic, and of the memory it reads and writes.
fn compute([m, n, k]: [usize; 3], size: usize) -> f64 {
    let [m, n, k, size] = [m, n, k, size].map(|x| x as f64);
    let arithmetic = 2.0 * m * n * k / (FLOP * 4.0 / size);
    arithmetic + (m * k + k * n + m * n) * size / MEMORY
}

fn making(numbers: usize) -> f64 {
    numbers as f64 * MAKING
}

/// What goes from node to node, and into sums.
struct Moved {
    panels: u64,
    sum_bytes: u64,
    /// Bytes of panels that the node with most of them gets.
    busiest: f64,
    layers: usize,
    /// Whether sums over layers cross nodes.
    far_sums: bool,
}

impl Moved {
    /// Seconds to add up blocks of `bytes` over layers.
    fn sums(&self, bytes: usize) -> f64 {
        if self.layers == 1 {
            return 0.0;
        }
        let rate = if self.far_sums { NETWORK } else { MEMORY / 4.0 };
        let share = 2.0 * (self.layers - 1) as f64 / self.layers as f64;
        LATENCY + share * bytes as f64 / rate
    }
}

fn between_nodes(job: &Job, grid: Grid) -> Moved {
    let size = job.precision.bytes() as u64;
    let node = |row, col, layer| job.nodes[grid.rank(Place { row, col, layer })];
    let mut moved = Moved {
        panels: 0,
        sum_bytes: 0,
        busiest: 0.0,
        layers: grid.layers,
        far_sums: false,
    };
    let mut got = vec![0u64; job.nodes.iter().max().map_or(0, |last| last + 1)];
    for layer in 0..grid.layers {
        let k = part(job.k, job.unit, grid.layers, layer).len() as u64;
        // Each node of a row of ranks gets the part of A that is not there; so does each of a column, of B.
        let mut give = |ranks: &[usize], length: u64| {
            let bytes = length * k * size;
            let nodes: BTreeSet<usize> = ranks.iter().copied().collect();
            moved.panels += bytes * (nodes.len() as u64 - 1);
            for node in nodes {
                let away = ranks.iter().filter(|&&other| other != node).count();
                got[node] += bytes * away as u64 / ranks.len() as u64;
            }
        };
        for row in 0..grid.rows {
            let ranks: Vec<usize> = (0..grid.cols).map(|col| node(row, col, layer)).collect();
            give(&ranks, part(job.m, job.unit, grid.rows, row).len() as u64);
        }
        for col in 0..grid.cols {
            let ranks: Vec<usize> = (0..grid.rows).map(|row| node(row, col, layer)).collect();
            give(&ranks, part(job.n, job.unit, grid.cols, col).len() as u64);
        }
    }
    moved.busiest = got.into_iter().max().unwrap_or(0) as f64;
    if grid.layers > 1 {
        moved.sum_bytes = (job.m * job.n * grid.layers) as u64 * size;
        let far = |row, col| (1..grid.layers).any(|l| node(row, col, l) != node(row, col, 0));
        moved.far_sums = (0..grid.rows).any(|row| (0..grid.cols).any(|col| far(row, col)));
    }
    moved
}

/// All arrangements that could be worth it, simpler ones first.
fn grids(job: &Job) -> Vec<Grid> {
    let ranks = job.nodes.len();
    let divisors = |n: usize| (1..=n).filter(move |d| n.is_multiple_of(*d));
    let [m, n, k] = [job.m, job.n, job.k].map(|side| side.div_ceil(job.unit));
    let mut all = Vec::new();
    // Fewer ranks than three quarters never pay, unless there is not enough to do for more.
    let few = m.saturating_mul(n).saturating_mul(k) < ranks;
    let fewest = if few { 1 } else { ranks - ranks / 4 };
    for size in (fewest..=ranks).rev() {
        for layers in divisors(size) {
            for cols in divisors(size / layers) {
                let grid = Grid::new(size / layers / cols, cols, layers);
                // Sums over layers have an order of their own: not where bits must not depend on it.
                let fits = grid.rows <= m && cols <= n && layers <= k;
                if fits && (layers == 1 || job.unit == 1) {
                    all.extend(nears(job, grid));
                }
            }
        }
    }
    all.sort_by_key(|grid| {
        (
            grid.layers,
            ranks - grid.size(),
            grid.rows.abs_diff(grid.cols),
        )
    });
    all
}

/// A grid with its ranks one behind the other in rows, and, between nodes, in rectangles as large as a node.
fn nears(job: &Job, grid: Grid) -> Vec<Grid> {
    let mut all = vec![grid];
    let node = job
        .nodes
        .iter()
        .take_while(|node| **node == job.nodes[0])
        .count();
    if node < job.nodes.len() {
        for height in 2..=node {
            let width = node / height;
            if height * width == node
                && grid.rows.is_multiple_of(height)
                && grid.cols.is_multiple_of(width)
            {
                all.push(Grid {
                    near: (height, width),
                    ..grid
                });
            }
        }
    }
    all
}

#[cfg(test)]
mod tests;
