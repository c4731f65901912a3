//! Products by ranks as threads, against ndarray's.

use std::sync::Mutex;

use ndarray::Array2;
use ndarray::linalg::general_mat_mul;

use super::super::grid::Grid;
use super::super::plan::{Algorithm, Job};
use super::*;
use crate::comm::run_nodes;

/// Rows, columns and the sum's length.
type Shape = (usize, usize, usize);

fn whole<T: Real>(source: &Source) -> Array2<T> {
    let mut all = Array2::zeros((source.rows(), source.cols()));
    source
        .read(0..source.rows(), 0..source.cols(), all.view_mut())
        .unwrap();
    all
}

fn sources((m, n, k): Shape) -> [Source; 3] {
    let open = |rows, cols, seed| Source::open("random:normal", (Some(rows), Some(cols)), seed);
    [open(m, k, 1), open(k, n, 2), open(m, n, 3)].map(Result::unwrap)
}

/// What a test varies.
#[derive(Clone)]
struct Case {
    shape: Shape,
    nodes: Vec<usize>,
    memory: usize,
    grid: Option<Grid>,
    algorithm: Option<Algorithm>,
    unit: usize,
    flip: Option<(usize, usize)>,
}

impl Case {
    fn new(shape: Shape, ranks: usize) -> Self {
        Self {
            shape,
            nodes: vec![0; ranks],
            memory: 1 << 30,
            grid: None,
            algorithm: None,
            unit: 1,
            flip: None,
        }
    }

    fn plan<T: Real>(&self) -> Plan {
        let (m, n, k) = self.shape;
        Plan::choose(&Job {
            m,
            n,
            k,
            precision: T::PRECISION,
            nodes: self.nodes.clone(),
            memory: self.memory,
            grid: self.grid,
            algorithm: self.algorithm,
            unit: self.unit,
        })
        .unwrap()
    }

    /// The product by ranks, put together from the blocks they gave; and its plan.
    fn product<T: Real>(&self) -> Result<(Array2<T>, Plan)> {
        let (m, n, _) = self.shape;
        let plan = self.plan::<T>();
        let [a, b, c] = sources(self.shape);
        let whole = Mutex::new(Array2::from_elem((m, n), T::nan()));
        let ends = run_nodes(&self.nodes, |comm| {
            let product = Product {
                a: Left::Source(&a),
                b: &b,
                c: Some(&c),
                alpha: T::nearest(1.5),
                beta: T::nearest(-0.5),
                plan: &plan,
                check: Some(7),
                device: None,
                flip: self.flip,
            };
            let outcome = product.run(comm, &mut |row, col, block| {
                let mut all = whole.lock().unwrap();
                let (rows, cols) = (row..row + block.nrows(), col..col + block.ncols());
                let mut place = all.slice_mut(s![rows, cols]);
                assert!(place.iter().all(|x| x.is_nan()), "given twice");
                place.assign(&block);
                Ok(())
            })?;
            assert!(outcome.verdict.is_some());
            Ok(outcome.work)
        });
        let works = ends.into_iter().collect::<Result<Vec<Work>>>()?;
        let moved = |bytes: fn(&Work) -> u64| works.iter().map(bytes).sum::<u64>();
        assert_eq!(moved(|work| work.panel_bytes), plan.panel_bytes);
        assert_eq!(moved(|work| work.sum_bytes), plan.sum_bytes);
        let flop: f64 = works.iter().map(|work| work.flop).sum();
        assert_eq!(flop, plan.flop());
        Ok((whole.into_inner().unwrap(), plan))
    }

    fn expected<T: Real>(&self) -> Array2<T> {
        let [a, b, c] = sources(self.shape);
        let (a, b, mut c) = (whole::<T>(&a), whole::<T>(&b), whole::<T>(&c));
        general_mat_mul(T::nearest(1.5), &a, &b, T::nearest(-0.5), &mut c);
        c
    }

    /// Computes, compares, and gives the plan.
    fn holds<T: Real>(&self) -> Plan {
        let (found, plan) = self.product::<T>().unwrap();
        let expected = self.expected::<T>();
        let bound = 30.0 * T::ROUNDOFF * (self.shape.2 as f64 + 4.0);
        for (index, value) in found.indexed_iter() {
            let off = (value.wide() - expected[index].wide()).abs();
            assert!(off <= bound, "{index:?} is off by {off} on {}", plan.grid);
        }
        plan
    }
}

#[test]
fn products_of_any_shape_on_any_ranks_are_those_of_one() {
    for shape in [
        (1, 1, 1),
        (37, 29, 41),
        (5, 64, 200),
        (130, 7, 3),
        (1, 90, 1),
        (1, 90, 300),
        (9, 1, 300),
        (1, 1, 5000),
    ] {
        for ranks in [1, 2, 3, 4, 6, 7, 8] {
            Case::new(shape, ranks).holds::<f32>();
            Case::new(shape, ranks).holds::<f64>();
        }
    }
}

#[test]
fn every_algorithm_gives_the_product() {
    let algorithms = [
        Algorithm::Summa,
        Algorithm::Layered,
        Algorithm::SplitK,
        Algorithm::Streamed,
    ];
    for algorithm in algorithms {
        for ranks in [4, 6, 8] {
            let case = Case {
                algorithm: Some(algorithm),
                ..Case::new((70, 50, 90), ranks)
            };
            assert_eq!(case.holds::<f64>().algorithm(), algorithm);
            case.holds::<f32>();
        }
    }
    for grid in [(3, 2, 1), (2, 3, 1), (1, 2, 3), (2, 1, 2), (1, 1, 6)] {
        let case = Case {
            grid: Some(Grid::new(grid.0, grid.1, grid.2)),
            ..Case::new((23, 31, 47), 7)
        };
        case.holds::<f64>();
    }
}

#[test]
fn every_cap_on_memory_gives_the_product() {
    let shape = (300, 200, 250);
    let mut streamed = 0;
    for memory in [1 << 30, 1_000_000, 400_000, 200_000, 120_000] {
        for ranks in [1, 2, 3, 4] {
            let case = Case {
                memory,
                ..Case::new(shape, ranks)
            };
            let plan = case.holds::<f64>();
            assert!(plan.memory <= memory);
            streamed += usize::from(plan.way != Way::Held);
        }
    }
    assert!(streamed >= 8);
}

#[test]
fn panels_go_between_nodes_as_the_plan_says() {
    let nodes: [&[usize]; 5] = [
        &[0, 1],
        &[0, 0, 1, 1],
        &[0, 0, 0, 1, 1, 1],
        &[0, 0, 1, 2],
        &[0, 0, 1, 1, 2, 2, 3, 3],
    ];
    for nodes in nodes {
        for grid in [None, Some(Grid::new(2, nodes.len() / 2, 1))] {
            let case = Case {
                nodes: nodes.to_vec(),
                grid,
                ..Case::new((60, 70, 1300), nodes.len())
            };
            let plan = case.holds::<f64>();
            if grid.is_some() {
                assert!(plan.panel_bytes > 0);
            }
        }
    }
}

#[test]
fn products_in_units_are_the_same_bits_on_any_ranks() {
    let case = |ranks| Case {
        unit: 32,
        ..Case::new((150, 170, 190), ranks)
    };
    let (one, _) = case(1).product::<f64>().unwrap();
    for ranks in [2, 3, 4, 6, 7, 8] {
        let (many, _) = case(ranks).product::<f64>().unwrap();
        assert_eq!(one, many, "{ranks} ranks");
    }
}

#[test]
fn one_wrong_element_is_found_and_named() {
    for (ranks, algorithm) in [
        (1, Algorithm::Summa),
        (4, Algorithm::Summa),
        (4, Algorithm::SplitK),
    ] {
        for (row, col) in [(0, 0), (69, 49), (31, 7)] {
            let case = Case {
                flip: Some((row, col)),
                algorithm: Some(algorithm),
                ..Case::new((70, 50, 90), ranks)
            };
            let errors = [
                case.product::<f32>().map(|_| ()),
                case.product::<f64>().map(|_| ()),
            ];
            for error in errors.map(Result::unwrap_err) {
                let named = format!("element ({row}, {col})");
                assert!(error.to_string().contains(&named), "{error}");
            }
        }
    }
    let streamed = Case {
        flip: Some((69, 3)),
        algorithm: Some(Algorithm::Streamed),
        ..Case::new((70, 50, 90), 3)
    };
    let error = streamed.product::<f64>().map(|_| ()).unwrap_err();
    assert!(error.to_string().contains("row 69"), "{error}");
}
