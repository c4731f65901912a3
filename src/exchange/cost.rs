//! What a step of an exchange costs, by latency and bandwidth: the α-β model.
//!
//! A message of b bytes takes α + β·b; n parameters are S = 4·n bytes; each of N nodes has P ranks. With momentum:
//!
//! | exchange | in a node | between nodes |
//! |---|---|---|
//! | node-shared | 2 meetings; each rank reads or writes S·(1 + 4/P) bytes | 2·log₂N messages and 2·(N−1)/N·S bytes a node |
//! | all-reduce | 2·log₂P messages and 2·(P−1)/P·S bytes a rank, then 5·S bytes for the step | 2·log₂(N·P) messages, 2·S bytes a node |
//! | one-sided | 4·S for the update, 4·S for adding and reading | N·P calls and 2·S bytes a rank, so 2·P·S a node |
//!
//! Counted is the optimal all-reduce (Rabenseifner: reduce-scatter and all-gather); MPI may do worse.

/// Time of something that has a fixed part and one that grows with bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Line {
    /// Seconds whatever the bytes.
    pub alpha: f64,
    /// Seconds a byte.
    pub beta: f64,
}

impl Line {
    /// Seconds for so many bytes.
    pub fn at(self, bytes: f64) -> f64 {
        self.alpha + self.beta * bytes
    }

    /// The line closest to pairs of bytes and seconds, by least squares of relative errors; neither part is below zero.
    pub fn fit(points: &[(f64, f64)]) -> Self {
        // Minimise Σ ((α + β·b − t)/t)²: ordinary least squares of u·α + v·β = 1 with u = 1/t and v = b/t.
        let sum = |f: &dyn Fn(f64, f64) -> f64| points.iter().map(|&(b, t)| f(b, t)).sum::<f64>();
        let (uu, uv, vv) = (
            sum(&|_, t| 1.0 / (t * t)),
            sum(&|b, t| b / (t * t)),
            sum(&|b, t| b * b / (t * t)),
        );
        let (u, v) = (sum(&|_, t| 1.0 / t), sum(&|b, t| b / t));
        let det = uu * vv - uv * uv;
        let both = Self {
            alpha: (u * vv - v * uv) / det,
            beta: (v * uu - u * uv) / det,
        };
        let (no_alpha, no_beta) = (
            Self {
                alpha: 0.0,
                beta: v / vv,
            },
            Self {
                alpha: u / uu,
                beta: 0.0,
            },
        );
        match both {
            Self { alpha, .. } if !alpha.is_finite() || alpha < 0.0 => no_alpha,
            Self { beta, .. } if !beta.is_finite() || beta < 0.0 => no_beta,
            both => both,
        }
    }

    /// The mean of relative errors against these points.
    pub fn error(self, points: &[(f64, f64)]) -> f64 {
        let errors = points.iter().map(|&(b, t)| (self.at(b) / t - 1.0).abs());
        errors.sum::<f64>() / points.len().max(1) as f64
    }
}

/// Bytes that each of P ranks of one node must read or write in memory in a node-shared step with momentum.
pub fn node_shared_bytes(parameters: usize, ranks: usize) -> f64 {
    4.0 * parameters as f64 * (1.0 + 4.0 / ranks as f64)
}

/// Bytes that each of P ranks of one node must read or write in an all-reduce and a momentum step on all parameters.
pub fn all_reduce_bytes(parameters: usize, ranks: usize) -> f64 {
    let sums = 2.0 * (ranks as f64 - 1.0) / ranks as f64;
    4.0 * parameters as f64 * (sums + 5.0)
}

/// Bytes that are read or written one after the other in a step of the first N gradients, all by one rank but the copies that
/// every rank makes for the next step: gradients, parameters twice, velocities six times, and a copy.
pub fn backup_bytes(parameters: usize, take: usize) -> f64 {
    4.0 * parameters as f64 * (take as f64 + 2.0 + 6.0 + 2.0)
}

/// Bytes that each rank must read or write in a one-sided step with momentum: gradients, velocities twice and updates, then
/// updates, parameters twice and its own copy.
pub fn one_sided_bytes(parameters: usize) -> f64 {
    4.0 * parameters as f64 * 8.0
}

/// The network between nodes.
#[derive(Clone, Copy, Debug)]
pub struct Network {
    /// Of a message, with the bandwidth of a node.
    pub line: Line,
    /// Ranks of each node.
    pub ranks: usize,
}

impl Network {
    /// Seconds that a node-shared step of so many parameters takes between N nodes, besides what it takes in one.
    pub fn node_shared(&self, parameters: usize, nodes: usize) -> f64 {
        let (n, s) = (nodes as f64, 4.0 * parameters as f64);
        if nodes < 2 {
            return 0.0;
        }
        2.0 * n.log2().ceil() * self.line.alpha + 2.0 * (n - 1.0) / n * s * self.line.beta
    }

    /// Likewise for an all-reduce over all ranks, of which those of a node share its bandwidth.
    pub fn all_reduce(&self, parameters: usize, nodes: usize) -> f64 {
        let (all, s) = ((nodes * self.ranks) as f64, 4.0 * parameters as f64);
        if nodes < 2 {
            return 0.0;
        }
        2.0 * all.log2().ceil() * self.line.alpha + 2.0 * s * self.line.beta
    }

    /// Likewise for a one-sided step: every rank of the node calls every rank, most of them elsewhere.
    pub fn one_sided(&self, parameters: usize, nodes: usize) -> f64 {
        let (all, s) = ((nodes * self.ranks) as f64, 4.0 * parameters as f64);
        if nodes < 2 {
            return 0.0;
        }
        let far = (nodes as f64 - 1.0) / nodes as f64;
        2.0 * all * far * self.line.alpha + 2.0 * self.ranks as f64 * s * far * self.line.beta
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fit_finds_the_line_that_times_came_from() {
        let line = Line {
            alpha: 3e-6,
            beta: 1e-10,
        };
        let sizes = [4e3, 64e3, 1e6, 16e6, 256e6];
        let points = sizes.map(|b| (b, line.at(b)));
        let found = Line::fit(&points);
        assert!((found.alpha / line.alpha - 1.0).abs() < 1e-6, "{found:?}");
        assert!((found.beta / line.beta - 1.0).abs() < 1e-6, "{found:?}");
        assert!(found.error(&points) < 1e-6);
        // Times that fall with bytes have no latency below zero, nor a bandwidth.
        let odd = Line::fit(&[(1e3, 2e-6), (1e6, 1e-6)]);
        assert!(odd.alpha > 0.0 && odd.beta == 0.0, "{odd:?}");
    }

    #[test]
    fn one_node_needs_no_network_and_many_need_twice_the_bytes() {
        let line = Line {
            alpha: 1e-6,
            beta: 1e-10,
        };
        let network = Network { line, ranks: 4 };
        assert_eq!(network.node_shared(1000, 1), 0.0);
        let many = network.node_shared(1 << 26, 1024);
        let bytes = 2.0 * (1u64 << 28) as f64;
        assert!((many / (bytes * 1e-10) - 1.0).abs() < 0.01, "{many}");
        assert!(network.one_sided(1 << 20, 64) > network.node_shared(1 << 20, 64));
    }
}
