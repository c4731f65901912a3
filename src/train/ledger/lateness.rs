//! What came of the steps that ranks told each other of.

/// Steps of a block: a rank is slow in one if it is in the middle of its steps, whatever happened in a few.
const BLOCK: usize = 32;
/// Steps that a block must have to count.
const LEAST: usize = 8;
/// How many times as long as others a rank must be busy to be slow.
const SLOW: f64 = 1.15;

/// One rank among others.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Late {
    /// Steps that were told of.
    pub steps: u64,
    /// Of them, those it came to last.
    pub last: u64,
    /// Seconds in load, in compute and in what else was before an exchange.
    pub busy: [f64; 3],
    /// Blocks of steps, and those in which it was slower than others.
    pub blocks: u64,
    /// See `blocks`.
    pub slow_blocks: u64,
}

/// All ranks.
#[derive(Clone, Debug, Default)]
pub struct Lateness(Vec<Late>);

impl Lateness {
    /// Takes in what ranks noted, `fields` numbers a step, of which the first three are seconds in load, compute and else. Gives the rank
    /// that came last to each step.
    pub(super) fn add(&mut self, ranks: &[Vec<f32>], fields: usize) -> Vec<usize> {
        self.0.resize(ranks.len(), Late::default());
        let steps = ranks.iter().map(|notes| notes.len() / fields).min();
        let busy = |step: usize| -> Vec<f64> {
            let note = |notes: &Vec<f32>| notes[step * fields..][..3].iter().sum::<f32>();
            ranks.iter().map(|notes| f64::from(note(notes))).collect()
        };
        let table: Vec<Vec<f64>> = (0..steps.unwrap_or(0)).map(busy).collect();
        for (late, notes) in self.0.iter_mut().zip(ranks) {
            late.steps += table.len() as u64;
            for note in notes.chunks_exact(fields) {
                let parts = late.busy.iter_mut().zip(note);
                parts.for_each(|(sum, &time)| *sum += f64::from(time));
            }
        }
        let last: Vec<usize> = table.iter().map(|busy| longest(busy)).collect();
        last.iter().for_each(|&rank| self.0[rank].last += 1);
        let blocks = table.chunks(BLOCK).filter(|block| block.len() >= LEAST);
        blocks.for_each(|block| self.block(block));
        last
    }

    /// Counts a block of steps, each with the seconds that ranks were busy.
    fn block(&mut self, steps: &[Vec<f64>]) {
        for (rank, late) in self.0.iter_mut().enumerate() {
            let against = |busy: &Vec<f64>| {
                let others = busy.iter().enumerate().filter(|(other, _)| *other != rank);
                let typical = median(others.map(|(_, &time)| time).collect());
                busy[rank] / typical.unwrap_or(busy[rank]).max(1e-9)
            };
            let times = median(steps.iter().map(against).collect());
            late.blocks += 1;
            late.slow_blocks += u64::from(times.is_some_and(|times| times > SLOW));
        }
    }

    /// Every rank, in their order; none where ranks do not step together.
    pub fn ranks(&self) -> &[Late] {
        &self.0
    }
}

/// Where the greatest is.
fn longest(times: &[f64]) -> usize {
    let pairs = times.iter().enumerate();
    let most = pairs.max_by(|(_, a), (_, b)| a.total_cmp(b));
    most.map_or(0, |(rank, _)| rank)
}

/// The one in the middle, or between the two there; nothing of nothing.
pub(crate) fn median(mut values: Vec<f64>) -> Option<f64> {
    values.sort_unstable_by(f64::total_cmp);
    let middle = values.len() / 2;
    match values.len() % 2 {
        _ if values.is_empty() => None,
        0 => Some((values[middle - 1] + values[middle]) / 2.0),
        _ => Some(values[middle]),
    }
}
