//! Contracts of `Comm`, `Window` and shared memory.

use std::sync::atomic::Ordering;

use phalanx::Error;
use phalanx::comm::{Comm, Stripes, agree};

pub fn reductions(comm: &dyn Comm) {
    let (rank, size) = (comm.rank(), comm.size());
    let ranks: usize = (0..size).sum();
    let mut floats = [rank as f32, 1.0, -(rank as f32)];
    comm.sum(&mut floats);
    assert_eq!(floats, [ranks as f32, size as f32, -(ranks as f32)]);
    let mut doubles = [rank as f64 * 1e300];
    comm.max(&mut doubles);
    assert_eq!(doubles, [(size - 1) as f64 * 1e300]);
    let mut counts = [1u64 << 60 | rank as u64];
    comm.max(&mut counts);
    assert_eq!(counts, [1 << 60 | (size - 1) as u64]);
    let mut long = vec![1u64; 100_000];
    comm.sum(&mut long);
    assert!(long.iter().all(|&n| n == size as u64));
}

pub fn broadcast(comm: &dyn Comm) {
    for root in 0..comm.size() {
        let mut values = [comm.rank() as f32 + 0.5; 3];
        comm.broadcast(root, &mut values);
        assert_eq!(values, [root as f32 + 0.5; 3]);
    }
}

pub fn gather(comm: &dyn Comm) {
    let mine = vec![comm.rank() as u8; comm.rank() * 3];
    let all = comm.gather(&mine);
    let expected: Vec<Vec<u8>> = (0..comm.size())
        .map(|rank| vec![rank as u8; rank * 3])
        .collect();
    assert_eq!(all, expected);
}

pub fn split(comm: &dyn Comm) {
    let part = comm.split(comm.rank() % 2);
    assert_eq!(part.rank(), comm.rank() / 2);
    assert_eq!(part.size(), (comm.size() + 1 - comm.rank() % 2) / 2);
    let mut sum = [comm.rank() as u64];
    part.sum(&mut sum);
    let peers = (comm.rank() as u64 % 2..comm.size() as u64).step_by(2);
    assert_eq!(sum, [peers.sum::<u64>()]);
}

pub fn node(comm: &dyn Comm) {
    let node = comm.node();
    assert_eq!(
        (node.rank(), node.size()),
        (comm.local_rank(), comm.local_size())
    );
    let mut most = [comm.local_rank() as u64];
    node.max(&mut most);
    assert_eq!(most[0] + 1, comm.local_size() as u64);
}

pub fn window_additions(comm: &dyn Comm) {
    let (size, rounds) = (comm.size(), 50);
    let window = comm.window(&[comm.rank() as f32; 100]).unwrap();
    for _ in 0..rounds {
        for owner in 0..size {
            let mut sums = [0.0; 90];
            window.add(owner, 10, &[1.0; 90], &mut sums).unwrap();
            assert!(sums.iter().all(|&sum| sum >= owner as f32 + 1.0));
        }
    }
    comm.barrier();
    for owner in 0..size {
        let mut all = [0.0; 100];
        window.get(owner, 0, &mut all).unwrap();
        assert_eq!(all[..10], [owner as f32; 10]);
        assert_eq!(all[10..], [(owner + size * rounds) as f32; 90]);
        let mut one = [0.0];
        window.get(owner, 99, &mut one).unwrap();
        assert_eq!(one[0], all[99]);
    }
    window.close().unwrap();
}

/// Stretches in any order, several of them in one call.
pub fn window_stretches(comm: &dyn Comm) {
    let (size, rounds) = (comm.size(), 20);
    let window = comm.window(&[comm.rank() as f32; 40]).unwrap();
    let (places, width) = ([9, 0, 4], 3);
    let delta: Vec<f32> = (1..=9).map(|value| value as f32).collect();
    for _ in 0..rounds {
        for owner in 0..size {
            window.add_at(owner, &places, width, &delta).unwrap();
        }
    }
    comm.barrier();
    for owner in 0..size {
        let (mut found, mut all) = ([0.0; 9], [0.0; 40]);
        window.get_at(owner, &places, width, &mut found).unwrap();
        window.get(owner, 0, &mut all).unwrap();
        let (times, owner) = ((size * rounds) as f32, owner as f32);
        let expected: Vec<f32> = delta.iter().map(|delta| owner + times * delta).collect();
        assert_eq!(found[..], expected);
        assert_eq!(all[27..30], expected[..3]);
        assert_eq!(all[..3], expected[3..6]);
        assert_eq!(all[12..15], expected[6..]);
        assert!((3..12).chain(15..27).chain(30..40).all(|i| all[i] == owner));
        window.get_at(0, &[], width, &mut []).unwrap();
    }
    comm.barrier();
    window.close().unwrap();
}

/// More stretches than go into one message.
pub fn many_stretches(comm: &dyn Comm) {
    let (count, width) = (3000, 2);
    let window = comm.window(&vec![0.0; count * width]).unwrap();
    let places: Vec<u32> = (0..count as u32).filter(|place| place % 3 > 0).collect();
    let delta: Vec<f32> = (0..places.len() * width).map(|i| i as f32).collect();
    for round in 0..10 {
        for owner in 0..comm.size() {
            let owner = (owner + comm.rank() + round) % comm.size();
            window.add_at(owner, &places, width, &delta).unwrap();
        }
    }
    comm.barrier();
    let mut found = vec![0.0; delta.len()];
    for owner in 0..comm.size() {
        window.get_at(owner, &places, width, &mut found).unwrap();
        let times = 10.0 * comm.size() as f32;
        let pairs = found.iter().zip(&delta);
        assert!(pairs.clone().all(|(found, delta)| *found == times * delta));
    }
    comm.barrier();
    window.close().unwrap();
}

/// Parts of different lengths, some of them empty.
pub fn dealing(comm: &dyn Comm) {
    let (rank, size) = (comm.rank() as u64, comm.size() as u64);
    let count = |from: u64, to: u64| (from * to) % 5;
    let word = |from: u64, to: u64, i: u64| (1000 * from + 10 * to + i) as u32;
    for _ in 0..3 {
        let counts: Vec<u64> = (0..size).map(|to| count(rank, to)).collect();
        let words = |from: u64, to: u64| (0..count(from, to)).map(move |i| word(from, to, i));
        let mine: Vec<u32> = (0..size).flat_map(|to| words(rank, to)).collect();
        let from = comm.deal_counts(&counts);
        assert!((0..size).all(|peer| from[peer as usize] == count(peer, rank)));
        let mut got = vec![7; 3];
        comm.deal(&mine, &counts, &from, &mut got);
        let expected: Vec<u32> = (0..size).flat_map(|peer| words(peer, rank)).collect();
        assert_eq!(got, expected);
    }
}

/// On one node in shared memory, and else by messages.
pub fn counters(comm: &dyn Comm) {
    for counters in [comm.counters(3).unwrap(), comm.far_counters(3).unwrap()] {
        let mut mine: Vec<u64> = (0..100).map(|_| counters.add(1, 1).unwrap()).collect();
        assert!(mine.is_sorted(), "one rank's claims rise");
        counters.add(2, 1 << 40).unwrap();
        comm.barrier();
        let bytes: Vec<u8> = mine.drain(..).flat_map(u64::to_le_bytes).collect();
        let number = |eight: &[u8]| u64::from_le_bytes(eight.try_into().unwrap());
        let mut all: Vec<u64> = comm.gather(&bytes).concat().chunks(8).map(number).collect();
        all.sort_unstable();
        let size = comm.size() as u64;
        assert!(all.into_iter().eq(0..100 * size));
        let mut last = [0; 3];
        counters.read(&mut last).unwrap();
        assert_eq!(last, [0, 100 * size, size << 40]);
        comm.barrier();
        counters.close().unwrap();
    }
}

/// A tree has one order of additions: each rank's result is the oracle's, whose ranks are the leaves.
pub fn tree_sums(comm: &dyn Comm) {
    if !comm.size().is_power_of_two() {
        return;
    }
    // So far apart that every order of additions has bits of its own, and more than a bucket.
    let value = |rank: usize, i: usize| ((i % 1000) as f32 + 0.1) * 3f32.powi(rank as i32 % 7);
    let len = 300_000;
    let mut values: Vec<f32> = (0..len).map(|i| value(comm.rank(), i)).collect();
    comm.tree_sum(&mut values);
    fn tree(ranks: std::ops::Range<usize>, value: &dyn Fn(usize) -> f32) -> f32 {
        if ranks.len() == 1 {
            return value(ranks.start);
        }
        let middle = ranks.start + ranks.len() / 2;
        tree(ranks.start..middle, value) + tree(middle..ranks.end, value)
    }
    let expected = |i: usize| tree(0..comm.size(), &|rank| value(rank, i));
    assert!(
        values
            .iter()
            .enumerate()
            .all(|(i, &sum)| sum == expected(i))
    );
    let mut doubles = [comm.rank() as f64, 0.5];
    comm.tree_sum(&mut doubles);
    assert_eq!(doubles[1], 0.5 * comm.size() as f64);
}

/// Every rank adds to all stripes at the same time, beginning at different ones.
pub fn stripes(comm: &dyn Comm) {
    if comm.local_size() < comm.size() {
        return;
    }
    let (len, rounds) = (10_000, 50);
    let stripes = Stripes::new(comm, &vec![1.0; len], false).unwrap();
    let count = stripes.count();
    let mut seen: Vec<Vec<u32>> = vec![Vec::new(); count];
    for round in 0..rounds {
        for i in 0..count {
            let s = (i + comm.rank() + round) % count;
            let n = stripes.range(s).len();
            let mut sums = vec![0.0; n];
            let before = stripes.add(s, &vec![1.0; n], &mut sums);
            // Everything that was added before, and nothing else, is in what comes back.
            assert!(sums.iter().all(|&sum| sum == before as f32 + 2.0));
            seen[s].push(before);
        }
    }
    comm.barrier();
    let all = rounds * comm.size();
    for (s, seen) in seen.iter().enumerate() {
        let mut values = vec![0.0; stripes.range(s).len()];
        assert_eq!(stripes.read(s, &mut values) as usize, all);
        assert!(values.iter().all(|&value| value == 1.0 + all as f32));
        let bytes: Vec<u8> = seen.iter().flat_map(|n| n.to_le_bytes()).collect();
        let number = |four: &[u8]| u32::from_le_bytes(four.try_into().unwrap());
        let mut order: Vec<u32> = comm.gather(&bytes).concat().chunks(4).map(number).collect();
        order.sort_unstable();
        assert!(
            order.into_iter().eq(0..all as u32),
            "every place in the order once"
        );
    }
    comm.barrier();
    stripes.close().unwrap();
}

pub fn shared(comm: &dyn Comm) {
    let node = comm.node();
    let (rank, size) = (node.rank(), node.size());
    // Ranks bring different amounts, the first none at all.
    let memory = node.shared(rank * 5).unwrap();
    assert!((0..size).all(|owner| memory.of(owner).len() == owner * 5));
    memory.write(rank, 0, &vec![rank as f32; rank * 5]);
    node.barrier();
    for owner in 0..size {
        let mut values = vec![-1.0; owner * 5];
        memory.read(owner, 0, &mut values);
        assert!(values.iter().all(|&value| value == owner as f32));
    }
    if size > 1 {
        node.barrier();
        // Every rank adds into the same cell.
        (0..1000).for_each(|_| {
            memory.of(size - 1)[0].fetch_add(1, Ordering::Relaxed);
        });
        node.barrier();
        let start = ((size - 1) as f32).to_bits();
        assert_eq!(
            memory.of(size - 1)[0].load(Ordering::Relaxed),
            start + 1000 * size as u32
        );
    }
    node.barrier();
    memory.close().unwrap();
}

pub fn agreement(comm: &dyn Comm) {
    let last = comm.size() - 1;
    let fine = agree(comm, Ok(comm.rank()));
    assert_eq!(fine.unwrap(), comm.rank());
    let mine = match comm.rank() {
        rank if rank == last => Err(Error::Usage("the last rank cannot".into())),
        rank => Ok(rank),
    };
    let message = agree(comm, mine).unwrap_err().to_string();
    assert!(message.ends_with("the last rank cannot"), "{message}");
}
