//! Threads of one process as a group: those of one rank, or ranks as threads, so that tests need no launcher.

use std::any::Any;
use std::collections::HashMap;
use std::ops::AddAssign;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, RwLock};
use std::time::Duration;

use super::shared::Cells;
use super::{Comm, Counters, Data, Op, Shared, Window};
use crate::Result;

/// Why a lock is never poisoned: ranks leave by panic only between locks.
const UNPOISONED: &str = "no rank panics while it holds a lock";

type Parcel = Option<Box<dyn Any + Send>>;

/// What the threads of one group have in common.
struct Group {
    meeting: Meeting,
    parcels: Vec<Mutex<Parcel>>,
    /// The node that each is said to be on.
    nodes: Vec<usize>,
}

impl Group {
    fn new(nodes: Vec<usize>, failed: Arc<AtomicBool>) -> Arc<Self> {
        let size = nodes.len();
        let meeting = Meeting {
            size,
            state: Mutex::default(),
            changed: Condvar::new(),
            failed,
        };
        Arc::new(Self {
            meeting,
            parcels: (0..size).map(|_| Mutex::new(None)).collect(),
            nodes,
        })
    }
}

/// A barrier that lets go when a peer has failed, where `std`'s would wait for ever.
struct Meeting {
    size: usize,
    /// How many have arrived, and how many meetings there have been.
    state: Mutex<(usize, u64)>,
    changed: Condvar,
    failed: Arc<AtomicBool>,
}

impl Meeting {
    fn wait(&self) {
        let mut state = self.state.lock().expect(UNPOISONED);
        state.0 += 1;
        if state.0 == self.size {
            *state = (0, state.1 + 1);
            self.changed.notify_all();
            return;
        }
        let this = state.1;
        while state.1 == this {
            state = self
                .changed
                .wait_timeout(state, Duration::from_millis(20))
                .expect(UNPOISONED)
                .0;
            if self.failed.load(Ordering::Relaxed) && state.1 == this {
                drop(state);
                panic!("a peer failed");
            }
        }
    }
}

/// Tells the others when its thread unwinds.
pub struct Alarm(Arc<AtomicBool>);

impl Drop for Alarm {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.store(true, Ordering::Relaxed);
        }
    }
}

/// One of the threads of a group.
pub struct ThreadComm {
    rank: usize,
    group: Arc<Group>,
}

/// The places of `size` threads that work together, in their order.
pub fn threads_of_one_rank(size: usize) -> Vec<ThreadComm> {
    let group = Group::new(vec![0; size], Arc::default());
    let place = |rank| ThreadComm {
        rank,
        group: group.clone(),
    };
    (0..size).map(place).collect()
}

/// Runs `body` once per rank, each on its own thread, and returns what each gave, in rank order.
///
/// # Panics
/// Panics if any rank does.
pub fn run_ranks<T: Send>(size: usize, body: impl Fn(&dyn Comm) -> T + Sync) -> Vec<T> {
    run_nodes(&vec![0; size], body)
}

/// As `run_ranks`, with ranks that are to believe that they are on these nodes: they have no memory in common with ranks
/// of other nodes.
///
/// # Panics
/// Panics if any rank does.
pub fn run_nodes<T: Send>(nodes: &[usize], body: impl Fn(&dyn Comm) -> T + Sync) -> Vec<T> {
    let failed = Arc::new(AtomicBool::new(false));
    let group = Group::new(nodes.to_vec(), failed.clone());
    std::thread::scope(|scope| {
        let spawn = |rank| {
            let (group, body, alarm) = (group.clone(), &body, Alarm(failed.clone()));
            scope.spawn(move || {
                let _alarm = alarm;
                body(&ThreadComm { rank, group })
            })
        };
        let ranks: Vec<_> = (0..nodes.len()).map(spawn).collect();
        ranks
            .into_iter()
            .map(|rank| rank.join().expect("a rank panicked"))
            .collect()
    })
}

impl ThreadComm {
    /// To be held while others may wait for this thread: should it panic, they do too, instead of waiting for ever.
    pub fn alarm(&self) -> Alarm {
        Alarm(self.group.meeting.failed.clone())
    }

    /// Shows `mine` to every rank and passes each rank's value, in rank order, to `visit`.
    fn share<V: Send + 'static>(&self, mine: V, mut visit: impl FnMut(usize, &V)) {
        *self.group.parcels[self.rank].lock().expect(UNPOISONED) = Some(Box::new(mine));
        self.barrier();
        for (rank, parcel) in self.group.parcels.iter().enumerate() {
            let parcel = parcel.lock().expect(UNPOISONED);
            let value = parcel.as_ref().and_then(|boxed| boxed.downcast_ref());
            visit(rank, value.expect("all ranks call the same collective"));
        }
        self.barrier();
    }

    /// What rank 0 made, on every rank.
    fn of_first<V: Clone + Send + 'static>(&self, make: impl FnOnce() -> V) -> V {
        let mut found = None;
        self.share((self.rank == 0).then(make), |rank, made: &Option<V>| {
            if rank == 0 {
                found.clone_from(made);
            }
        });
        found.expect("rank 0 is always there")
    }

    fn reduce<V: Copy + PartialOrd + AddAssign + Send + 'static>(&self, values: &mut [V], op: Op) {
        self.share(values.to_vec(), |rank, theirs| {
            for (value, &other) in values.iter_mut().zip(theirs) {
                match op {
                    _ if rank == 0 => *value = other,
                    Op::Sum => *value += other,
                    Op::Max if other > *value => *value = other,
                    Op::Max => {}
                }
            }
        });
    }

    fn copy<V: Copy + Send + 'static>(&self, values: &mut [V], root: usize) {
        self.share(values.to_vec(), |rank, theirs| {
            if rank == root {
                values.copy_from_slice(theirs);
            }
        });
    }
}

impl Comm for ThreadComm {
    fn rank(&self) -> usize {
        self.rank
    }

    fn size(&self) -> usize {
        self.group.parcels.len()
    }

    fn local_rank(&self) -> usize {
        let nodes = &self.group.nodes;
        let before = nodes[..self.rank].iter();
        before.filter(|&&node| node == nodes[self.rank]).count()
    }

    fn local_size(&self) -> usize {
        let nodes = &self.group.nodes;
        let all = nodes.iter();
        all.filter(|&&node| node == nodes[self.rank]).count()
    }

    fn barrier(&self) {
        self.group.meeting.wait();
    }

    fn all_reduce(&self, data: Data, op: Op) {
        match data {
            Data::F32(values) => self.reduce(values, op),
            Data::F64(values) => self.reduce(values, op),
            Data::U64(values) => self.reduce(values, op),
        }
    }

    fn broadcast_data(&self, data: Data, root: usize) {
        match data {
            Data::F32(values) => self.copy(values, root),
            Data::F64(values) => self.copy(values, root),
            Data::U64(values) => self.copy(values, root),
        }
    }

    fn swap_data(&self, data: Data, peer: usize) {
        match data {
            Data::F32(values) => self.copy(values, peer),
            Data::F64(values) => self.copy(values, peer),
            Data::U64(values) => self.copy(values, peer),
        }
    }

    fn gather(&self, mine: &[u8]) -> Vec<Vec<u8>> {
        let mut all = Vec::with_capacity(self.size());
        self.share(mine.to_vec(), |_, theirs| all.push(theirs.clone()));
        all
    }

    fn deal_counts(&self, mine: &[u64]) -> Vec<u64> {
        let mut got = vec![0; self.size()];
        self.share(mine.to_vec(), |rank, theirs| got[rank] = theirs[self.rank]);
        got
    }

    fn deal(&self, words: &[u32], counts: &[u64], from: &[u64], got: &mut Vec<u32>) {
        got.clear();
        let mine = (words.to_vec(), counts.to_vec());
        self.share(mine, |rank, (words, counts)| {
            let start: u64 = counts[..self.rank].iter().sum();
            assert_eq!(counts[self.rank], from[rank], "what was said before");
            got.extend_from_slice(&words[start as usize..][..from[rank] as usize]);
        });
    }

    fn split(&self, color: usize) -> Box<dyn Comm> {
        let mut colors = Vec::new();
        self.share(color, |_, &theirs| colors.push(theirs));
        let groups = self.of_first(|| {
            let mut groups: HashMap<usize, Arc<Group>> = HashMap::new();
            for &color in &colors {
                let members = colors.iter().zip(&self.group.nodes);
                let nodes = members.filter(|(other, _)| **other == color);
                let nodes = nodes.map(|(_, &node)| node).collect();
                groups
                    .entry(color)
                    .or_insert_with(|| Group::new(nodes, self.group.meeting.failed.clone()));
            }
            groups
        });
        let rank = colors[..self.rank]
            .iter()
            .filter(|&&other| other == color)
            .count();
        Box::new(ThreadComm {
            rank,
            group: groups[&color].clone(),
        })
    }

    fn node(&self) -> Box<dyn Comm> {
        self.split(self.group.nodes[self.rank])
    }

    fn window(&self, init: &[f32]) -> Result<Box<dyn Window>> {
        let window =
            self.of_first(|| ThreadWindow((0..self.size()).map(|_| Arc::default()).collect()));
        *window.0[self.rank].write().expect(UNPOISONED) = init.to_vec();
        self.barrier();
        Ok(Box::new(window))
    }

    fn far_counters(&self, len: usize) -> Result<Box<dyn Counters>> {
        let all: Arc<[AtomicU64]> = self.of_first(|| (0..len).map(|_| AtomicU64::new(0)).collect());
        Ok(Box::new(ThreadCounters(all)))
    }

    fn shared(&self, len: usize) -> Result<Shared> {
        assert_eq!(self.local_size(), self.size(), "memory of one node");
        let mine: Arc<[AtomicU32]> = (0..len).map(|_| AtomicU32::new(0)).collect();
        let mut all = Vec::with_capacity(self.size());
        self.share(mine, |_, theirs| all.push(theirs.clone()));
        Ok(Shared(Box::new(ThreadCells(all))))
    }
}

struct ThreadCounters(Arc<[AtomicU64]>);

impl Counters for ThreadCounters {
    fn add(&self, i: usize, amount: u64) -> Result<u64> {
        Ok(self.0[i].fetch_add(amount, Ordering::AcqRel))
    }

    fn read(&self, out: &mut [u64]) -> Result<()> {
        let pairs = out.iter_mut().zip(&*self.0);
        pairs.for_each(|(value, counter)| *value = counter.load(Ordering::Acquire));
        Ok(())
    }

    fn close(self: Box<Self>) -> Result<()> {
        Ok(())
    }
}

struct ThreadCells(Vec<Arc<[AtomicU32]>>);

impl Cells for ThreadCells {
    fn of(&self, owner: usize) -> &[AtomicU32] {
        &self.0[owner]
    }

    fn close(self: Box<Self>) -> Result<()> {
        Ok(())
    }
}

/// What each rank opened to the others.
#[derive(Clone)]
struct ThreadWindow(Vec<Arc<RwLock<Vec<f32>>>>);

impl Window for ThreadWindow {
    fn get(&self, owner: usize, offset: usize, out: &mut [f32]) -> Result<()> {
        let floats = self.0[owner].read().expect(UNPOISONED);
        out.copy_from_slice(&floats[offset..][..out.len()]);
        Ok(())
    }

    fn add(&self, owner: usize, offset: usize, delta: &[f32], out: &mut [f32]) -> Result<()> {
        let mut floats = self.0[owner].write().expect(UNPOISONED);
        let place = &mut floats[offset..][..delta.len()];
        place
            .iter_mut()
            .zip(delta)
            .for_each(|(value, change)| *value += change);
        out.copy_from_slice(place);
        Ok(())
    }

    fn get_at(&self, owner: usize, places: &[u32], width: usize, out: &mut [f32]) -> Result<()> {
        let floats = self.0[owner].read().expect(UNPOISONED);
        for (&place, out) in places.iter().zip(out.chunks_exact_mut(width)) {
            out.copy_from_slice(&floats[place as usize * width..][..width]);
        }
        Ok(())
    }

    fn add_at(&self, owner: usize, places: &[u32], width: usize, delta: &[f32]) -> Result<()> {
        let mut floats = self.0[owner].write().expect(UNPOISONED);
        for (&place, delta) in places.iter().zip(delta.chunks_exact(width)) {
            let values = &mut floats[place as usize * width..][..width];
            let pairs = values.iter_mut().zip(delta);
            pairs.for_each(|(value, change)| *value += change);
        }
        Ok(())
    }

    fn close(self: Box<Self>) -> Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[should_panic(expected = "a rank panicked")]
    fn a_failing_rank_frees_its_peers() {
        run_ranks(3, |comm| {
            let part = comm.split(comm.rank() / 2);
            assert_ne!(comm.rank(), 1, "rank 1 breaks");
            part.barrier();
            comm.barrier();
        });
    }
}
