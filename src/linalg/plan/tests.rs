//! Plans, without ranks.

use super::*;

fn job(m: usize, n: usize, k: usize, nodes: &[usize]) -> Job {
    Job {
        m,
        n,
        k,
        precision: Precision::Double,
        nodes: nodes.to_vec(),
        memory: 1 << 40,
        grid: None,
        algorithm: None,
        unit: 1,
    }
}

fn choose(job: &Job) -> (String, Algorithm) {
    let plan = Plan::choose(job).unwrap();
    (plan.grid.to_string(), plan.algorithm())
}

#[test]
fn shapes_decide_how_ranks_are_arranged() {
    let summa = Algorithm::Summa;
    assert_eq!(
        choose(&job(1000, 1000, 1000, &[0])),
        ("1x1x1".into(), summa)
    );
    assert_eq!(
        choose(&job(8192, 8192, 8192, &[0; 4])),
        ("2x2x1".into(), summa)
    );
    assert_eq!(
        choose(&job(100_000, 64, 64, &[0; 4])),
        ("4x1x1".into(), summa)
    );
    assert_eq!(
        choose(&job(64, 100_000, 64, &[0; 2])),
        ("1x2x1".into(), summa)
    );
    let long = job(1, 1, 1_000_000, &[0; 2]);
    assert_eq!(choose(&long), ("1x1x2".into(), Algorithm::SplitK));
    let long = job(64, 64, 1_000_000, &[0; 8]);
    assert_eq!(choose(&long), ("1x1x8".into(), Algorithm::SplitK));
}

#[test]
fn nodes_are_rectangles_where_that_saves_bytes() {
    let nodes: Vec<usize> = (0..16).map(|rank| rank / 4).collect();
    let plan = Plan::choose(&Job {
        algorithm: Some(Algorithm::Summa),
        ..job(8192, 8192, 8192, &nodes)
    })
    .unwrap();
    assert_eq!(
        (plan.grid.rows, plan.grid.cols, plan.grid.near),
        (4, 4, (2, 2))
    );
    // Each row and each column of ranks is on two nodes: A and B go over the network once.
    assert_eq!(plan.panel_bytes, 2 * 8192 * 8192 * 8);
    let rows = Plan::held(&plan.job, Grid::new(4, 4, 1));
    assert_eq!(rows.panel_bytes, 3 * 8192 * 8192 * 8);
}

#[test]
fn layers_are_taken_where_they_save_bytes_between_nodes() {
    // Small C, long k, eight nodes of one rank: moving A and B would cost far more than adding up C.
    let nodes: Vec<usize> = (0..8).collect();
    let (_, algorithm) = choose(&job(512, 512, 100_000, &nodes));
    assert_eq!(algorithm, Algorithm::SplitK);
    let plan = Plan::choose(&job(4096, 4096, 65_536, &nodes)).unwrap();
    assert!(plan.grid.layers > 1, "{}", plan.grid);
}

#[test]
fn a_cap_on_memory_makes_a_product_stream_and_is_kept() {
    let mut job = job(20_000, 20_000, 20_000, &[0; 2]);
    for memory in [1 << 34, 1 << 30, 1 << 27, 1 << 23] {
        job.memory = memory;
        let plan = Plan::choose(&job).unwrap();
        assert!(plan.memory <= memory, "{} for {memory}", plan.memory);
        assert_eq!(plan.way == Way::Held, memory == 1 << 34);
    }
    job.memory = 1 << 20;
    let error = Plan::choose(&job).unwrap_err().to_string();
    let least = least_memory(&job);
    assert!(error.contains(&least.to_string()), "{error}");
    job.memory = least;
    assert!(Plan::choose(&job).unwrap().memory <= least);
    job.memory = least - 1;
    assert!(Plan::choose(&job).is_err());
}

#[test]
fn every_rank_that_works_has_its_part_and_all_parts_are_there() {
    for (m, n, k) in [
        (1, 1, 1),
        (7, 5, 3),
        (100, 1, 1),
        (13, 17, 1000),
        (3, 300, 2),
    ] {
        for ranks in 1..=8 {
            let job = job(m, n, k, &vec![0; ranks]);
            let plan = Plan::choose(&job).unwrap();
            let places = (0..ranks).filter_map(|rank| plan.grid.place(rank));
            let volume: usize = places
                .map(|place| {
                    plan.ranges(place)
                        .iter()
                        .map(|range| range.len())
                        .product::<usize>()
                })
                .sum();
            assert_eq!(volume, m * n * k, "{} of {ranks} ranks", plan.grid);
        }
    }
}

#[test]
fn what_is_asked_for_is_taken_or_refused() {
    let mut asked = job(100, 100, 100, &[0; 6]);
    asked.algorithm = Some(Algorithm::Layered);
    let plan = Plan::choose(&asked).unwrap();
    assert_eq!(plan.algorithm(), Algorithm::Layered);
    asked.grid = Some(Grid::new(1, 1, 1));
    assert!(Plan::choose(&asked).is_err());
    asked.algorithm = None;
    assert_eq!(Plan::choose(&asked).unwrap().grid.size(), 1);
}
