//! Which photos ranks take in turns.

use std::ops::Range;

use super::work::Note;

/// The fewest photos that a rank takes at once, where there are as many for each part.
const LEAST: usize = 4;

/// What is left of `photos` beside these notes, in stretches in the order that `ranks` take them. Each is one of `parts` of what
/// is left behind it, so that the last ones, at whose end ranks wait for each other, are short; and those that ranks take
/// at the same time are far apart, so that ranks do not write to the same file.
pub(super) fn partitions(
    notes: &[Note],
    photos: usize,
    parts: usize,
    ranks: usize,
) -> Vec<Range<usize>> {
    let starts = std::iter::once(0).chain(notes.iter().map(|note| note.end));
    let ends = notes.iter().map(|note| note.start).chain([photos]);
    let gaps: Vec<Range<usize>> = starts.zip(ends).map(|(start, end)| start..end).collect();
    let all: usize = gaps.iter().map(ExactSizeIterator::len).sum();
    let parts = parts.max(1);
    let least = all.div_ceil(parts).clamp(1, LEAST);
    let (mut sizes, mut left) = (Vec::new(), all);
    while left > 0 {
        let size = left.div_ceil(parts).max(least).min(left);
        sizes.push(size);
        left -= size;
    }
    // Rank after rank, as if each took its turn; then back to turns.
    let turns = (0..ranks).flat_map(|rank| (rank..sizes.len()).step_by(ranks));
    let mut at = 0;
    let mut taken: Vec<(usize, Range<usize>)> = turns
        .map(|turn| {
            at += sizes[turn];
            (turn, at - sizes[turn]..at)
        })
        .collect();
    taken.sort_by_key(|(turn, _)| *turn);
    let taken = taken.into_iter().map(|(_, stretch)| stretch);
    taken.flat_map(|stretch| within(&gaps, stretch)).collect()
}

/// Where a stretch is that counts only what is in `gaps`.
fn within(gaps: &[Range<usize>], stretch: Range<usize>) -> Vec<Range<usize>> {
    let mut before = 0;
    let mut found = Vec::new();
    for gap in gaps {
        let start = stretch.start.max(before);
        let end = stretch.end.min(before + gap.len());
        if start < end {
            found.push(gap.start + start - before..gap.start + end - before);
        }
        before += gap.len();
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn note(start: usize, end: usize) -> Note {
        Note {
            start,
            end,
            failures: Vec::new(),
            sums: Vec::new(),
            lengths: Vec::new(),
        }
    }

    #[test]
    fn partitions_are_what_no_note_speaks_of() {
        assert_eq!(partitions(&[], 10, 4, 1), [0..3, 3..6, 6..9, 9..10]);
        assert_eq!(
            partitions(&[note(2, 4), note(9, 10)], 10, 3, 1),
            [0..2, 4..5, 5..8, 8..9]
        );
        assert_eq!(partitions(&[note(0, 10)], 10, 3, 2), [0..0; 0]);
        assert_eq!(partitions(&[], 2, 100, 5), [0..1, 1..2]);
        // Of many, the last ones are short.
        let lengths: Vec<usize> = partitions(&[], 100, 2, 1)
            .iter()
            .map(ExactSizeIterator::len)
            .collect();
        assert_eq!(lengths, [50, 25, 13, 6, 4, 2]);
        // Ranks are far apart, and leave nothing out.
        assert_eq!(
            partitions(&[], 100, 4, 2),
            [
                0..25,
                56..75,
                25..39,
                75..86,
                39..47,
                86..92,
                47..52,
                92..96,
                52..56,
                96..100,
            ]
        );
        let mut gaps = partitions(&[note(7, 11), note(30, 50)], 100, 6, 3);
        gaps.sort_by_key(|gap| gap.start);
        let photos: Vec<usize> = gaps.into_iter().flatten().collect();
        assert_eq!(photos, Vec::from_iter((0..7).chain(11..30).chain(50..100)));
    }
}
