//! A factor of a product that is held in memory, and the panels that ranks take from it.
//!
//! The ranks of a row of the grid have their rows of A in common, cut by columns; those of a column, B, cut by rows. Ranks of
//! one node read a panel where it is, in the memory of the rank that holds it. Of each other node one rank gets it over the
//! network, and gives it to the others there.

use std::ops::Range;

use ndarray::{ArrayView2, ArrayViewMut2, s};

use super::check::Look;
use super::grid::part;
use super::product::Left;
use super::real::Real;
use super::source::Source;
use crate::Result;
use crate::comm::{Comm, Courier, Parts, nodes};

/// Which factor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Side {
    /// A, cut by columns.
    Left,
    /// B, cut by rows.
    Right,
}

/// One rank's share of a factor.
struct Operand<T> {
    side: Side,
    /// Rows of A or columns of B, which all ranks of the group have in common.
    along: Range<usize>,
    /// The group's part of k.
    k: Range<usize>,
    /// Shares of k begin at multiples of it.
    unit: usize,
    group: Group,
    parts: Parts<T>,
}

/// How a panel comes from the node that has it to the others.
struct Route<'a, T> {
    /// The node that has it, of those of the group.
    home: usize,
    /// The panel itself, on the first rank of that node.
    panel: Option<ArrayView2<'a, T>>,
    /// Whether this rank is the first on its node, and whether that is another one.
    first: bool,
    away: bool,
}

impl<T: Real> Route<'_, T> {
    /// Gets the panel into `into`, on nodes that do not have it; gives the bytes that came from another node to this rank;
    /// *collective* for the group.
    fn go(self, here: &dyn Comm, leaders: &dyn Comm, into: &mut [T]) -> u64 {
        if let Some(panel) = self.panel {
            into.iter_mut()
                .zip(panel)
                .for_each(|(to, from)| *to = *from);
        }
        if self.first {
            // The first ranks of nodes are in the order of nodes.
            leaders.broadcast_data(T::data(into), self.home);
        }
        if !self.away {
            return 0;
        }
        here.broadcast_data(T::data(into), 0);
        if self.first {
            size_of_val(into) as u64
        } else {
            0
        }
    }
}

/// Ranks that share a factor, and how they are spread over nodes.
struct Group {
    size: usize,
    /// Of each rank of the group: which of the nodes, and its place there.
    places: Vec<(usize, usize)>,
    /// This rank's node, and its place there.
    mine: (usize, usize),
    nodes: usize,
}

impl Group {
    /// With `here`, the ranks of the group on this node; *collective*.
    fn new(group: &dyn Comm, here: &dyn Comm) -> Self {
        let nodes = nodes(group);
        let place = |rank: usize| {
            nodes[..rank]
                .iter()
                .filter(|&&node| node == nodes[rank])
                .count()
        };
        Self {
            size: group.size(),
            places: (0..nodes.len())
                .map(|rank| (nodes[rank], place(rank)))
                .collect(),
            mine: (nodes[group.rank()], here.rank()),
            nodes: nodes.iter().max().map_or(0, |last| last + 1),
        }
    }
}

impl<T: Real> Operand<T> {
    /// Lets `read` put this rank's share into memory; `group` are the ranks that share it, and shares of k begin at
    /// multiples of `unit`. With the groups that panels come by from other nodes. An error is this rank's own; *collective*.
    fn load(
        group: &dyn Comm,
        side: Side,
        read: impl FnOnce(Range<usize>, Range<usize>, ArrayViewMut2<T>) -> Result<()>,
        (along, k): (Range<usize>, Range<usize>),
        unit: usize,
    ) -> Result<(Self, [Box<dyn Comm>; 2])> {
        let here = group.node();
        let leaders = group.split(usize::from(here.rank() > 0));
        let spread = Group::new(group, &*here);
        let mine = share(&k, unit, group.size(), group.rank());
        let (rows, cols) = match side {
            Side::Left => (along.clone(), mine),
            Side::Right => (mine, along.clone()),
        };
        let parts = Parts::fill(&*here, rows.len() * cols.len(), |numbers| {
            let shape = (rows.len(), cols.len());
            let out = ArrayViewMut2::from_shape(shape, numbers).expect("as long as the block");
            read(rows, cols, out)
        })?;
        let operand = Self {
            side,
            along,
            k,
            unit,
            group: spread,
            parts,
        };
        Ok((operand, [here, leaders]))
    }

    /// Where the shares of k begin and end.
    fn cuts(&self) -> impl Iterator<Item = usize> {
        let shares =
            (0..self.group.size).map(|rank| share(&self.k, self.unit, self.group.size, rank).end);
        std::iter::once(self.k.start).chain(shares)
    }

    /// This rank's share: its rows, its columns, and the block.
    fn mine(&self) -> (Range<usize>, Range<usize>, ArrayView2<'_, T>) {
        let mut places = self.group.places.iter();
        let rank = places.position(|&place| place == self.group.mine);
        let rank = rank.expect("this rank is one of the group");
        let k = share(&self.k, self.unit, self.group.size, rank);
        let block = self.block(rank);
        match self.side {
            Side::Left => (self.along.clone(), k, block),
            Side::Right => (k, self.along.clone(), block),
        }
    }

    /// The share of a rank of the group that is on this node.
    fn block(&self, rank: usize) -> ArrayView2<'_, T> {
        let k = share(&self.k, self.unit, self.group.size, rank).len();
        let shape = self.shape(k);
        let numbers = self.parts.of(self.group.places[rank].1);
        ArrayView2::from_shape(shape, numbers).expect("as long as the block")
    }

    /// Who has `k`, which is within one share.
    fn owner(&self, k: &Range<usize>) -> usize {
        let has =
            |&rank: &usize| share(&self.k, self.unit, self.group.size, rank).contains(&k.start);
        (0..self.group.size)
            .find(has)
            .expect("a panel is within the group's part of k")
    }

    /// The part `k` of a share on this node.
    fn slice(&self, rank: usize, k: &Range<usize>) -> ArrayView2<'_, T> {
        let start = share(&self.k, self.unit, self.group.size, rank).start;
        let range = k.start - start..k.end - start;
        let block = self.block(rank);
        match self.side {
            Side::Left => block.slice_move(s![.., range]),
            Side::Right => block.slice_move(s![range, ..]),
        }
    }

    /// Whether the panel `k` is in several shares.
    fn is_cut(&self, k: &Range<usize>) -> bool {
        k.end > share(&self.k, self.unit, self.group.size, self.owner(k)).end
    }

    /// Rows and columns of a panel.
    fn shape(&self, k: usize) -> (usize, usize) {
        match self.side {
            Side::Left => (self.along.len(), k),
            Side::Right => (k, self.along.len()),
        }
    }

    /// Puts a panel that is in several shares, all of them on this node, together.
    fn assemble(&self, k: &Range<usize>, buffer: &mut Vec<T>) {
        let shape = self.shape(k.len());
        buffer.resize(shape.0 * shape.1, T::zero());
        let mut panel = ArrayViewMut2::from_shape(shape, buffer).expect("as long as the panel");
        for rank in 0..self.group.size {
            let share = share(&self.k, self.unit, self.group.size, rank);
            let part = k.start.max(share.start)..k.end.min(share.end);
            if part.is_empty() {
                continue;
            }
            let place = part.start - k.start..part.end - k.start;
            let mut place = match self.side {
                Side::Left => panel.slice_mut(s![.., place]),
                Side::Right => panel.slice_mut(s![place, ..]),
            };
            place.assign(&self.slice(rank, &part));
        }
    }

    /// The panel `k`: where it is, or in the buffer that it was brought into or put together in.
    fn panel<'a>(&'a self, k: &Range<usize>, buffer: &'a [T]) -> ArrayView2<'a, T> {
        let owner = self.owner(k);
        if self.group.places[owner].0 == self.group.mine.0 && !self.is_cut(k) {
            return self.slice(owner, k);
        }
        let shape = self.shape(k.len());
        ArrayView2::from_shape(shape, &buffer[..shape.0 * shape.1]).expect("as long as the panel")
    }

    /// How the panel `k`, within one share, comes to nodes that do not have it.
    fn route(&self, k: &Range<usize>) -> Route<'_, T> {
        let owner = self.owner(k);
        let (home, (node, place)) = (self.group.places[owner].0, self.group.mine);
        let first = place == 0;
        Route {
            home,
            panel: (first && home == node).then(|| self.slice(owner, k)),
            first,
            away: home != node,
        }
    }

    /// Gives the memory back; *collective*.
    fn close(self) -> Result<()> {
        self.parts.close()
    }
}

/// One rank's shares of both factors, and the panels that it multiplies.
pub(super) struct Factors<T> {
    a: Operand<T>,
    b: Operand<T>,
    courier: Courier,
    /// Panels of both from other nodes: those at work, and the next.
    now: [Vec<T>; 2],
    next: [Vec<T>; 2],
}

/// Where the factors come from, and which part of them a rank needs.
pub(super) struct Need<'a, T> {
    /// A.
    pub(super) left: &'a Left<'a, T>,
    /// B.
    pub(super) right: &'a Source,
    /// The ranks with the same rows of A, and those with the same columns of B, in this part of k.
    pub(super) groups: [&'a dyn Comm; 2],
    /// Rows of A, columns of B, and the part of k.
    pub(super) ranges: [Range<usize>; 3],
    /// Shares of k begin at multiples of it.
    pub(super) unit: usize,
}

impl<T: Real> Factors<T> {
    /// Reads this rank's shares into memory. An error is this rank's own; *collective* for both groups.
    pub(super) fn load(need: Need<T>) -> Result<Self> {
        let [row, col] = need.groups;
        let ([rows, cols, k], unit) = (need.ranges, need.unit);
        // Both are read even if one fails: others take part in both.
        let left = |rows, cols, out: ArrayViewMut2<T>| need.left.read(rows, cols, out);
        let right = |rows, cols, out: ArrayViewMut2<T>| need.right.read(rows, cols, out);
        let a = Operand::load(row, Side::Left, left, (rows, k.clone()), unit);
        let b = Operand::load(col, Side::Right, right, (cols, k), unit);
        let ((a, [here, leaders]), (b, [here_b, leaders_b])) = (a?, b?);
        Ok(Self {
            a,
            b,
            courier: Courier::of(vec![here, leaders, here_b, leaders_b]),
            now: Default::default(),
            next: Default::default(),
        })
    }

    /// Whether panels come from other nodes.
    pub(super) fn is_spread(&self) -> bool {
        self.a.group.nodes > 1 || self.b.group.nodes > 1
    }

    /// The parts of k that are multiplied at once: at most so much, and, where they come from other nodes or bits must not
    /// depend on them, each within one rank's share of A and of B.
    pub(super) fn panels(&self, most: usize) -> Vec<Range<usize>> {
        let mut cuts: Vec<usize> = match self.is_spread() || self.a.unit > 1 {
            true => self.a.cuts().chain(self.b.cuts()).collect(),
            false => vec![self.a.k.start, self.a.k.end],
        };
        cuts.sort_unstable();
        let parts = cuts.windows(2).map(|pair| pair[0]..pair[1]);
        parts
            .flat_map(|part| {
                let end = part.end;
                part.step_by(most).map(move |at| at..end.min(at + most))
            })
            .collect()
    }

    /// Brings the first panel; gives the bytes that came from other nodes to this rank; *collective*.
    pub(super) fn begin(&mut self, first: &Range<usize>) -> u64 {
        let bring = Bring::new(&self.a, &self.b, first, &mut self.next);
        let bytes = self.courier.alone(|comms| bring.go(comms));
        std::mem::swap(&mut self.now, &mut self.next);
        bytes
    }

    /// Does `work` with the panel `k` of both factors, which was brought before, while the next one, if it is to come from
    /// other nodes, is brought; gives the bytes that came to this rank; *collective* with a `next`.
    pub(super) fn work(
        &mut self,
        k: &Range<usize>,
        next: Option<&Range<usize>>,
        work: impl FnOnce(ArrayView2<T>, ArrayView2<T>),
    ) -> u64 {
        for (operand, buffer) in [&self.a, &self.b].into_iter().zip(&mut self.now) {
            if operand.is_cut(k) {
                operand.assemble(k, buffer);
            }
        }
        let [x, y] = [self.a.panel(k, &self.now[0]), self.b.panel(k, &self.now[1])];
        let Some(next) = next else {
            work(x, y);
            return 0;
        };
        let bring = Bring::new(&self.a, &self.b, next, &mut self.next);
        let (bytes, ()) = (self.courier).beside(|comms| bring.go(comms), || work(x, y));
        std::mem::swap(&mut self.now, &mut self.next);
        bytes
    }

    /// Looks at this rank's share of A.
    pub(super) fn look_at_a(&self, look: &mut Look<T>) {
        let (rows, cols, block) = self.a.mine();
        look(rows, cols, block);
    }

    /// Looks at this rank's share of B.
    pub(super) fn look_at_b(&self, look: &mut Look<T>) {
        let (rows, cols, block) = self.b.mine();
        look(rows, cols, block);
    }

    /// Gives the memory back; *collective*.
    pub(super) fn close(self) -> Result<()> {
        self.a.close()?;
        self.b.close()
    }
}

/// A panel of both factors on its way, which another thread than the first may bring.
struct Bring<'a, T> {
    routes: [Option<Route<'a, T>>; 2],
    into: [&'a mut [T]; 2],
}

impl<'a, T: Real> Bring<'a, T> {
    fn new(
        a: &'a Operand<T>,
        b: &'a Operand<T>,
        k: &Range<usize>,
        into: &'a mut [Vec<T>; 2],
    ) -> Self {
        let rooms = [a, b].map(|operand| match operand.group.nodes {
            1 => 0,
            _ => k.len() * operand.along.len(),
        });
        for (buffer, room) in into.iter_mut().zip(rooms) {
            buffer.resize(room, T::zero());
        }
        let route = |operand: &'a Operand<T>| (operand.group.nodes > 1).then(|| operand.route(k));
        Self {
            routes: [route(a), route(b)],
            into: into.each_mut().map(Vec::as_mut_slice),
        }
    }

    fn go(self, comms: &[Box<dyn Comm>]) -> u64 {
        let groups = comms.chunks(2).map(|pair| [&*pair[0], &*pair[1]]);
        let all = self.routes.into_iter().zip(self.into).zip(groups);
        all.filter_map(|((route, into), [here, leaders])| {
            route.map(|route| route.go(here, leaders, into))
        })
        .sum()
    }
}

/// The part of `k` that a rank of a group holds.
fn share(k: &Range<usize>, unit: usize, size: usize, rank: usize) -> Range<usize> {
    let part = part(k.len(), unit, size, rank);
    k.start + part.start..k.start + part.end
}
