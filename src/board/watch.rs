//! The watchdog thread of a rank, from the moment the ranks start training until the end.

use std::hash::{BuildHasher, Hasher, RandomState};
use std::net::{SocketAddr, UdpSocket};
use std::path::PathBuf;
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, Thread};
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use super::report::{self, Stall};
use super::ring::{self, Member, Ring, Trouble};
use super::verdict::{Observer, Seen, Verdict, verdict};
use super::{Board, Phase, Rows};
use crate::Result;
use crate::comm::{Comm, path_of_first};

/// From one look at the board to the next.
const TICK: Duration = Duration::from_millis(250);

/// Who a rank is, for all others.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Card {
    pub(super) host: String,
    pub(super) pid: u32,
    /// The first rank of its node.
    pub(super) leader: usize,
    /// Where the node hears heartbeats: the first rank's alone.
    addresses: Vec<SocketAddr>,
    /// The first rank's names the run.
    run: u64,
}

/// What the watchdog thread of a rank knows and has.
struct Watchdog {
    rank: usize,
    timeout: Duration,
    /// World ranks of this node.
    here: Vec<usize>,
    cards: Vec<Card>,
    /// On the first rank of a node among several.
    ring: Option<Ring>,
    /// Where the board is written.
    file: PathBuf,
}

/// The watch over a run.
pub struct Watch {
    board: Rc<Board>,
    /// None where nothing is watched.
    watchdog: Option<Watchdog>,
}

impl Watch {
    /// Prepares to end the job when a rank has not moved for `timeout`, with the board written to `file`, which only the
    /// first rank needs to know; without a timeout there is a board that nobody watches. *Collective*.
    pub fn open(comm: &dyn Comm, timeout: Option<Duration>, file: Option<PathBuf>) -> Result<Self> {
        let node = comm.node();
        let Some(timeout) = timeout else {
            return Ok(Self {
                board: Rc::new(Board::open(&*node)?),
                watchdog: None,
            });
        };
        let here = numbers(&*node, comm.rank());
        let (socket, addresses) = match here[0] == comm.rank() && here.len() < comm.size() {
            true => open_socket(),
            false => (None, Vec::new()),
        };
        let card = Card {
            host: hostname::get().map_or("?".into(), |name| name.to_string_lossy().into_owned()),
            pid: std::process::id(),
            leader: here[0],
            addresses,
            run: RandomState::new().build_hasher().finish(),
        };
        let bytes = serde_json::to_vec(&card).expect("plain values");
        let read =
            |bytes: &Vec<u8>| serde_json::from_slice(bytes).expect("written by the same program");
        let cards: Vec<Card> = comm.gather(&bytes).iter().map(read).collect();
        let file = path_of_first(comm, file);
        let board = Rc::new(Board::open(&*node)?);
        let watchdog = Watchdog {
            rank: comm.rank(),
            timeout,
            ring: socket.map(|socket| place(socket, &cards, comm.rank())),
            here,
            cards,
            file,
        };
        Ok(Self {
            board,
            watchdog: Some(watchdog),
        })
    }

    /// The board to mark; a trainer by itself has none.
    pub fn board(&self) -> Option<Rc<Board>> {
        Some(self.board.clone())
    }

    /// Does `work` under watch. All other holders of the board must have let go of it when it returns well. *Collective*.
    pub fn over<T>(self, work: impl FnOnce() -> Result<T>) -> Result<T> {
        let Self { board, watchdog } = self;
        let done = match watchdog {
            Some(watchdog) => watched(&board, watchdog, work)?,
            None => work()?,
        };
        // No thread is left: nobody reads the memory any more.
        match Rc::into_inner(board) {
            Some(board) => board.close().map(|()| done),
            None => Ok(done),
        }
    }
}

/// Does `work` while the watchdog looks at the board.
fn watched<T>(
    board: &Board,
    mut watchdog: Watchdog,
    work: impl FnOnce() -> Result<T>,
) -> Result<T> {
    let over = AtomicBool::new(false);
    thread::scope(|scope| {
        let (rows, over) = (board.rows(), &over);
        let thread = scope.spawn(move || watchdog.watch(&rows, over));
        let _end = End {
            board,
            over,
            thread: thread.thread(),
        };
        work()
    })
}

/// Ends the watch however the work ends.
struct End<'a> {
    board: &'a Board,
    over: &'a AtomicBool,
    thread: &'a Thread,
}

impl Drop for End<'_> {
    fn drop(&mut self) {
        self.board.turn(Phase::Done);
        self.over.store(true, Ordering::Release);
        self.thread.unpark();
    }
}

/// Every rank's number, in rank order; *collective*.
fn numbers(comm: &dyn Comm, mine: usize) -> Vec<usize> {
    let read = |bytes: Vec<u8>| bytes.try_into().map_or(0, u64::from_le_bytes) as usize;
    let all = comm.gather(&(mine as u64).to_le_bytes());
    all.into_iter().map(read).collect()
}

fn open_socket() -> (Option<UdpSocket>, Vec<SocketAddr>) {
    match ring::open() {
        Ok((socket, addresses)) => (Some(socket), addresses),
        Err(error) => {
            log::warn!("no heartbeats between nodes: {error}");
            (None, Vec::new())
        }
    }
}

/// The place of the node that `leader` leads.
fn place(socket: UdpSocket, cards: &[Card], leader: usize) -> Ring {
    let leaders = leaders(cards);
    let member = |&leader: &usize| Member {
        ranks: (0..cards.len())
            .filter(|&rank| cards[rank].leader == leader)
            .collect(),
        addresses: cards[leader].addresses.clone(),
    };
    let members: Vec<Member> = leaders.iter().map(member).collect();
    let node = leaders.iter().position(|&other| other == leader);
    Ring::new(socket, cards[0].run, node.unwrap_or(0), &members)
}

/// The first rank of each node.
pub(super) fn leaders(cards: &[Card]) -> Vec<usize> {
    let leads = |&rank: &usize| cards[rank].leader == rank;
    (0..cards.len()).filter(leads).collect()
}

impl Watchdog {
    /// Looks at the board until the work is `over`; ends the job if a rank hangs.
    fn watch(&mut self, rows: &Rows, over: &AtomicBool) {
        let mut observer = Observer::new(&rows.read());
        let mut last = Instant::now();
        while !over.load(Ordering::Acquire) {
            rows.beat();
            // What takes longer than this is time in which this process did not run: nobody else is to blame for it.
            let passed = last.elapsed().min(2 * TICK);
            last = Instant::now();
            observer.look(&rows.read(), passed);
            let seen = observer.seen(&self.here);
            if let Some(stall) = self.judge(observer.now(), seen) {
                if let Some(ring) = &self.ring {
                    ring.tell();
                }
                report::end(&stall, &self.file);
            }
            thread::park_timeout(TICK);
        }
        // So that the next node does not take the silence that follows for a hang.
        let seen = observer.seen(&self.here);
        let done = |seen: Seen| Seen {
            phase: Phase::Done,
            ..seen
        };
        let seen: Vec<Seen> = seen.into_iter().map(done).collect();
        if let Some(ring) = &mut self.ring {
            ring.send(observer.now() + TICK * 2, &seen, false);
        }
    }

    /// What this rank has to tell, if anything.
    fn judge(&mut self, now: Duration, seen: Vec<Seen>) -> Option<Stall> {
        let verdict = verdict(&seen, self.timeout);
        let waited = match verdict {
            Some(Verdict::Waiting(time)) => Some(time),
            _ => None,
        };
        let mut known = Vec::new();
        let mut trouble = None;
        if let Some(ring) = &mut self.ring {
            ring.receive(now);
            ring.send(now, &seen, waited.is_some());
            known = ring.known(now);
            trouble = waited.and_then(|waited| ring.trouble(now, waited, self.timeout));
        }
        let one_node = self.here.len() == self.cards.len();
        let (culprits, what) = match (verdict?, trouble) {
            (Verdict::Culprits { ranks, teller }, _) if teller == self.rank => {
                let what = report::culprits(&ranks, &seen, &self.cards, self.timeout);
                (ranks, what)
            }
            (Verdict::Waiting(time), trouble) if one_node || trouble == Some(Trouble::AllWait) => {
                // Of those that see the same, the first speaks.
                let busy = seen.iter().find(|seen| seen.phase != Phase::Done)?;
                if busy.rank != self.rank {
                    return None;
                }
                let size = self.cards.len();
                (Vec::new(), report::all_wait(size, &seen, time))
            }
            (Verdict::Waiting(time), Some(Trouble::Silent(nodes))) => {
                report::silent(&nodes, &known, &self.cards, time)
            }
            (Verdict::Waiting(time), Some(Trouble::Deaf)) => {
                let what = report::deaf(&self.here, &self.cards, time);
                (Vec::new(), what)
            }
            _ => return None,
        };
        let others = known.into_iter().flat_map(|(_, _, rows)| rows);
        Some(Stall {
            what,
            culprits,
            rows: seen.into_iter().chain(others).collect(),
            cards: self.cards.clone(),
            teller: self.rank,
            timeout: self.timeout,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::comm::run_ranks;

    #[test]
    fn work_under_watch_gives_its_result_and_its_error() {
        let ends = run_ranks(3, |comm| {
            let limit = Some(Duration::from_secs(60));
            let watch = Watch::open(comm, limit, None).unwrap();
            let board = watch.board();
            let good = watch.over(move || {
                let board = board.expect("a board");
                board.mark(3, Phase::Compute);
                Ok(comm.rank())
            });
            let watch = Watch::open(comm, limit, None).unwrap();
            let bad: Result<()> = watch.over(|| Err(crate::Error::Interrupted));
            let off = Watch::open(comm, None, None).unwrap();
            let board = off.board();
            assert!(board.is_some_and(|board| board.glance().read() == (0, Phase::Start)));
            (good.unwrap(), bad.is_err(), off.over(|| Ok(5)).unwrap())
        });
        assert_eq!(ends, [(0, true, 5), (1, true, 5), (2, true, 5)]);
    }

    #[test]
    fn nodes_are_counted_by_their_first_ranks() {
        let card = |leader| Card {
            host: "h".into(),
            pid: 1,
            leader,
            addresses: Vec::new(),
            run: 0,
        };
        // Ranks dealt out to three nodes in turn.
        let cards: Vec<Card> = [0, 1, 2, 0, 1, 2].into_iter().map(card).collect();
        assert_eq!(leaders(&cards), [0, 1, 2]);
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        let ring = place(socket, &cards, 1);
        let known = ring.known(Duration::ZERO);
        assert_eq!(
            known.iter().map(|known| known.0).collect::<Vec<_>>(),
            [0, 2]
        );
    }
}
