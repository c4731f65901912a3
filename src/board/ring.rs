//! Heartbeats between nodes: each node's first rank sends its node's rows to the next two nodes of a ring, by datagrams.
//!
//! Cost: two datagrams and two answers a node every half second, on however many nodes. At first a datagram goes to
//! every address of the receiver, then to the one that was answered from. Nothing that arrives is believed before it is
//! checked: strangers do not know the run's number.

use std::io;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::Phase;
use super::verdict::Seen;

/// From one datagram to the next.
const EVERY: Duration = Duration::from_millis(500);
/// What was not heard for so long is old: an address that was answered from is then one of many again.
const FORGET: Duration = Duration::from_secs(5);
/// Who said that it ends the job, and did not in so long, does not.
const ENDING: Duration = Duration::from_secs(10);
/// Rows in a datagram: with more it could exceed 64 KiB.
const MOST: usize = 1000;
/// Datagrams read at one time: who floods the port shall not keep the watchdog from its work.
const READ: usize = 200;
/// Addresses of a node that are tried.
const ADDRESSES: usize = 16;

/// One message.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
struct Datagram {
    /// The run's number.
    run: u64,
    /// The sender's node.
    node: usize,
    body: Body,
}

#[derive(Debug, PartialEq, Serialize, Deserialize)]
enum Body {
    /// A node's rows.
    Rows {
        /// Which of the receiver's addresses this was sent to.
        address: usize,
        /// How many nodes up to the sender, itself included and counted backwards, have only ranks that wait.
        waiting: usize,
        /// Rank, phase, step, and milliseconds since it moved and since its heart beat.
        rows: Vec<(usize, u32, u64, u32, u32)>,
    },
    /// The answer: rows came by that address.
    Heard { address: usize },
    /// The sender tells of a silent node and ends the job: nobody else needs to.
    Told,
}

fn parse(bytes: &[u8]) -> Option<Datagram> {
    serde_json::from_slice(bytes).ok()
}

/// A node that this one listens to.
pub(super) struct Before {
    pub(super) node: usize,
    /// Its ranks.
    ranks: Vec<usize>,
    /// When it was last heard, if ever.
    heard: Option<Duration>,
    /// Its rows at that time.
    rows: Vec<Seen>,
    waiting: usize,
}

/// A node that this one sends to.
struct After {
    node: usize,
    addresses: Vec<SocketAddr>,
    /// The address that was answered from, and when.
    answered: Option<(usize, Duration)>,
}

/// One node's place in the ring.
pub(super) struct Ring {
    socket: UdpSocket,
    run: u64,
    node: usize,
    nodes: usize,
    /// The nearest first.
    before: Vec<Before>,
    after: Vec<After>,
    sent: Option<Duration>,
    /// When another node said that it ends the job.
    told: Option<Duration>,
    buffer: Vec<u8>,
}

/// A node as the ring needs to know it.
pub(super) struct Member {
    /// World ranks.
    pub(super) ranks: Vec<usize>,
    pub(super) addresses: Vec<SocketAddr>,
}

/// What is wrong between nodes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Trouble {
    /// Nothing came from these nodes any more.
    Silent(Vec<usize>),
    /// Nothing ever came from any node, so that nothing is known.
    Deaf,
    /// All ranks of all nodes wait.
    AllWait,
}

/// A socket for heartbeats, and the addresses by which other nodes may reach it.
pub(super) fn open() -> io::Result<(UdpSocket, Vec<SocketAddr>)> {
    // Where there is no IPv6, the first fails; where there is, it serves both.
    let socket = UdpSocket::bind("[::]:0").or_else(|_| UdpSocket::bind("0.0.0.0:0"))?;
    socket.set_nonblocking(true)?;
    let port = socket.local_addr()?.port();
    let far = |address: &IpAddr| match address {
        IpAddr::V4(address) => !address.is_loopback() && !address.is_link_local(),
        IpAddr::V6(address) => !address.is_loopback() && !address.is_unicast_link_local(),
    };
    let mut addresses: Vec<IpAddr> = if_addrs::get_if_addrs()?
        .iter()
        .map(|interface| interface.ip())
        .filter(far)
        .collect();
    // Those of version 4 first: there are fewer of them that lead nowhere.
    addresses.sort_by_key(IpAddr::is_ipv6);
    addresses.truncate(ADDRESSES);
    let with_port = |address| SocketAddr::new(address, port);
    Ok((socket, addresses.into_iter().map(with_port).collect()))
}

impl Ring {
    /// The place of `node` among `members`, two or more.
    pub(super) fn new(socket: UdpSocket, run: u64, node: usize, members: &[Member]) -> Self {
        let nodes = members.len();
        let near = 1..=2.min(nodes - 1);
        let before = near.clone().map(|back| {
            let node = (node + nodes - back) % nodes;
            Before {
                node,
                ranks: members[node].ranks.clone(),
                heard: None,
                rows: Vec::new(),
                waiting: 0,
            }
        });
        let after = near.map(|on| {
            let node = (node + on) % nodes;
            After {
                node,
                addresses: members[node].addresses.clone(),
                answered: None,
            }
        });
        Self {
            socket,
            run,
            node,
            nodes,
            before: before.collect(),
            after: after.collect(),
            sent: None,
            told: None,
            buffer: vec![0; 1 << 16],
        }
    }

    /// Nodes up to this one, counted backwards, whose ranks all wait.
    fn waiting(&self, now: Duration, waits: bool) -> usize {
        let fresh = |before: &&Before| {
            before
                .heard
                .is_some_and(|heard| now.saturating_sub(heard) < FORGET)
        };
        let before = self.before.first().filter(fresh);
        let before = before.map_or(0, |before| before.waiting);
        match waits {
            true => (before + 1).min(self.nodes),
            false => 0,
        }
    }

    /// Sends `rows`, if it is time to; `waits` says whether all of these ranks have waited for too long.
    pub(super) fn send(&mut self, now: Duration, rows: &[Seen], waits: bool) {
        if self
            .sent
            .is_some_and(|sent| now.saturating_sub(sent) < EVERY)
        {
            return;
        }
        self.sent = Some(now);
        let milliseconds = |time: Duration| time.as_millis().min(u128::from(u32::MAX)) as u32;
        let row = |seen: &Seen| {
            let times = (milliseconds(seen.still), milliseconds(seen.silent));
            (seen.rank, seen.phase as u32, seen.step, times.0, times.1)
        };
        let rows: Vec<_> = rows.iter().take(MOST).map(row).collect();
        for after in &self.after {
            let answered = after
                .answered
                .filter(|(_, when)| now.saturating_sub(*when) < FORGET);
            for (i, address) in after.addresses.iter().enumerate() {
                if answered.is_some_and(|(good, _)| good != i) {
                    continue;
                }
                let body = Body::Rows {
                    address: i,
                    waiting: self.waiting(now, waits),
                    rows: rows.clone(),
                };
                self.post(body, *address);
            }
        }
    }

    /// Says that this node ends the job. The next one would else tell the same a second later.
    pub(super) fn tell(&self) {
        for address in self.after.iter().flat_map(|after| &after.addresses) {
            self.post(Body::Told, *address);
        }
    }

    fn post(&self, body: Body, to: SocketAddr) {
        let datagram = Datagram {
            run: self.run,
            node: self.node,
            body,
        };
        let bytes = serde_json::to_vec(&datagram).expect("plain numbers");
        let through_v6 = self.socket.local_addr().is_ok_and(|own| own.is_ipv6());
        let to = match to {
            SocketAddr::V4(to) if through_v6 => {
                SocketAddr::from((to.ip().to_ipv6_mapped(), to.port()))
            }
            to => to,
        };
        // A datagram may get lost in any case: the next one follows soon.
        let _ = self.socket.send_to(&bytes, to);
    }

    /// Reads what has come.
    pub(super) fn receive(&mut self, now: Duration) {
        let mut buffer = std::mem::take(&mut self.buffer);
        for _ in 0..READ {
            match self.socket.recv_from(&mut buffer) {
                Ok((len, from)) => self.take(&buffer[..len], from, now),
                Err(_) => break,
            }
        }
        self.buffer = buffer;
    }

    /// Believes a datagram that is this run's, from a neighbour, and about its ranks; others are nobody's.
    fn take(&mut self, bytes: &[u8], from: SocketAddr, now: Duration) {
        let Some(datagram) = parse(bytes).filter(|datagram| datagram.run == self.run) else {
            return;
        };
        let node = datagram.node;
        match datagram.body {
            Body::Heard { address } => {
                let mut after = self.after.iter_mut();
                if let Some(after) = after.find(|after| after.node == node)
                    && address < after.addresses.len()
                {
                    after.answered = Some((address, now));
                }
            }
            Body::Told => {
                if self.before.iter().any(|before| before.node == node) {
                    self.told = Some(now);
                }
            }
            Body::Rows {
                address,
                waiting,
                rows,
            } => {
                let mut before = self.before.iter_mut();
                let Some(before) = before.find(|before| before.node == node) else {
                    return;
                };
                let Some(rows) = seen(&rows, &before.ranks) else {
                    return;
                };
                before.heard = Some(now);
                before.rows = rows;
                before.waiting = waiting.min(self.nodes);
                self.post(Body::Heard { address }, from);
            }
        }
    }

    /// What is wrong, while all of this node's ranks have waited for `waited`, at least `timeout`.
    ///
    /// Nodes with better knowledge speak first: that of the culprit itself, then the next in the ring.
    pub(super) fn trouble(
        &self,
        now: Duration,
        waited: Duration,
        timeout: Duration,
    ) -> Option<Trouble> {
        let ending = |told: Duration| now.saturating_sub(told) < ENDING;
        if self.told.is_some_and(ending) {
            return None;
        }
        let grace = |steps: u32| timeout + Duration::from_millis(250) * steps;
        if self.before.iter().all(|before| before.heard.is_none()) {
            // Nobody can tell nodes to be second: lower ones are a little faster.
            let late = waited >= grace(4 + 3 * self.node.min(3) as u32);
            return late.then_some(Trouble::Deaf);
        }
        let ago = |before: &Before| now.saturating_sub(before.heard.unwrap_or_default());
        let gone = |before: &Before| before.rows.iter().all(|seen| seen.phase == Phase::Done);
        let silent = |before: &&Before| {
            let over = before.heard.is_some() && gone(before);
            !over && ago(before) >= timeout
        };
        let mut near = self.before.iter().enumerate();
        let due =
            near.any(|(i, before)| silent(&before) && ago(before) >= grace(4 * (i as u32 + 1)));
        if due {
            let silent = self.before.iter().filter(silent);
            return Some(Trouble::Silent(silent.map(|before| before.node).collect()));
        }
        let all = self.waiting(now, true) == self.nodes;
        (all && self.node == 0).then_some(Trouble::AllWait)
    }

    /// What was last heard of other nodes' ranks, as it would be now had nothing changed; and when from each node.
    pub(super) fn known(&self, now: Duration) -> Vec<(usize, Option<Duration>, Vec<Seen>)> {
        let known = |before: &Before| {
            let ago = before.heard.map(|heard| now.saturating_sub(heard));
            let age = |seen: &Seen| Seen {
                still: seen.still + ago.unwrap_or_default(),
                silent: seen.silent + ago.unwrap_or_default(),
                ..*seen
            };
            (before.node, ago, before.rows.iter().map(age).collect())
        };
        self.before.iter().map(known).collect()
    }
}

/// Rows of a datagram, if they make sense and are of `ranks`.
fn seen(rows: &[(usize, u32, u64, u32, u32)], ranks: &[usize]) -> Option<Vec<Seen>> {
    let one = |&(rank, phase, step, still, silent): &(usize, u32, u64, u32, u32)| {
        Some(Seen {
            rank: ranks.contains(&rank).then_some(rank)?,
            phase: Phase::from_number(phase)?,
            step,
            still: Duration::from_millis(still.into()),
            silent: Duration::from_millis(silent.into()),
        })
    };
    let good = !rows.is_empty() && rows.len() <= ranks.len();
    good.then(|| rows.iter().map(one).collect())?
}

#[cfg(test)]
mod tests;
