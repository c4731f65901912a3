//! Contracts of `Comm`, `Window` and shared memory.

use std::sync::atomic::Ordering;

use phalanx::Error;
use phalanx::comm::{Comm, agree};

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
            window.add(owner, 10, &[1.0; 90]).unwrap();
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

pub fn counter(comm: &dyn Comm) {
    let window = comm.window(&[]).unwrap();
    let owner = comm.size() - 1;
    let mut mine: Vec<u64> = (0..100)
        .map(|_| window.fetch_add(owner, 1).unwrap())
        .collect();
    assert!(mine.is_sorted(), "one rank's claims rise");
    comm.barrier();
    let bytes: Vec<u8> = mine.drain(..).flat_map(u64::to_le_bytes).collect();
    let number = |eight: &[u8]| u64::from_le_bytes(eight.try_into().unwrap());
    let mut all: Vec<u64> = comm.gather(&bytes).concat().chunks(8).map(number).collect();
    all.sort_unstable();
    assert!(all.into_iter().eq(0..100 * comm.size() as u64));
    assert_eq!(
        window.fetch_add(owner, 0).unwrap(),
        100 * comm.size() as u64
    );
    window.close().unwrap();
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
