//! The verdict on made-up runs whose limits are known.

use super::*;
use crate::exchange::Conduct;

/// Ranks of a run of 100 s and 1000 steps that compute for 90 s, with no waiting.
fn ranks(size: usize) -> (Vec<RankReport>, Vec<Late>) {
    let report = |rank| RankReport {
        rank,
        host: "here".into(),
        steps: 1000,
        skipped: 0,
        share: 1.0 / size as f64,
        samples: 1000,
        compute_s: 90.0,
        exchange_s: 5.0,
        wait_s: 1.0,
        load_s: 1.0,
        evaluate_s: 1.0,
        checkpoint_s: 0.0,
        late_s: Some(1.0),
        waited_for: None,
        starved_s: Some(0.0),
        test_accuracy: None,
        validation_accuracy: None,
        checksum: String::new(),
        memory_mb: 1.0,
        staleness_mean: None,
        staleness_most: None,
        dropped: 0,
        conduct: Conduct::default(),
        waited: Vec::new(),
    };
    let late = Late {
        steps: 1000,
        last: 1000 / size as u64,
        busy: [1.0, 90.0, 0.1],
        blocks: 31,
        slow_blocks: 2,
        held_blocks: 2,
    };
    ((0..size).map(report).collect(), vec![late; size])
}

fn judge((ranks, late): (Vec<RankReport>, Vec<Late>), cores: f64) -> Vec<Finding> {
    verdict(&Facts {
        ranks: &ranks,
        late: &late,
        seconds: 100.0,
        cores,
        photos: None,
        memory: None,
        link: None,
    })
}

/// Rank 3 of four is busy for 80 s where others are for 20 s, who wait for it: with `busy` in load, compute and else.
fn with_late(busy: [f64; 3]) -> (Vec<RankReport>, Vec<Late>) {
    let (mut ranks, mut late) = ranks(4);
    for (rank, late) in ranks.iter_mut().zip(&mut late) {
        (rank.compute_s, rank.wait_s) = (20.0, 60.0);
        late.busy = [1.0, 20.0, 0.1];
    }
    (ranks[3].compute_s, ranks[3].wait_s) = (busy[1], 0.0);
    ranks[3].load_s = busy[0];
    (late[3].busy, late[3].last) = (busy, 990);
    (late[3].slow_blocks, late[3].held_blocks) = (31, 31);
    ranks[3].late_s = Some(170.0);
    (ranks, late)
}

#[test]
fn a_rank_that_others_wait_for_is_named_with_its_cause() {
    let cases = [
        (
            [1.0, 80.0, 0.1],
            Cause::Compute,
            "rank 3 slow in compute: 98 % of all waiting",
        ),
        (
            [61.0, 20.0, 0.1],
            Cause::Load,
            "rank 3 slow in loading: 98 % of all waiting",
        ),
        (
            [1.0, 20.0, 60.0],
            Cause::Other,
            "rank 3 late between steps: 98 % of all waiting",
        ),
    ];
    for (busy, cause, words) in cases {
        let found = judge(with_late(busy), 1.0);
        assert_eq!((found[0].rank, found[0].cause), (Some(3), Some(cause)));
        assert_eq!(found[0].what, words);
        assert_eq!(found.iter().filter(|one| one.rank.is_some()).count(), 1);
    }
}

#[test]
fn a_rank_without_a_core_is_not_slow_in_compute() {
    let (mut ranks, mut late) = with_late([1.0, 80.0, 0.1]);
    (ranks[3].starved_s, late[3].slow_blocks) = (Some(56.0), 2);
    let found = judge((ranks.clone(), late.clone()), 1.0);
    assert_eq!(
        (found[0].rank, found[0].cause),
        (Some(3), Some(Cause::Cores))
    );
    // Others are without one as well, for almost as long.
    let (mut alike, mut most) = (ranks.clone(), late.clone());
    for (rank, late) in alike.iter_mut().zip(&mut most).take(3) {
        (rank.starved_s, late.busy[1]) = (Some(40.0), 60.0);
    }
    let found = judge((alike, most), 1.0);
    assert!(found.iter().all(|one| one.rank.is_none()), "{found:?}");
    // Where two ranks share a core, chance decides who has it.
    ranks.iter_mut().for_each(|rank| rank.starved_s = Some(4.0));
    ranks[3].starved_s = Some(56.0);
    let found = judge((ranks, late), 0.5);
    assert!(found.iter().all(|one| one.rank.is_none()), "{found:?}");
    assert_eq!(found[0].cause, Some(Cause::Cores));
}

#[test]
fn one_long_pause_names_nobody() {
    // All waiting is for rank 1, which was late once.
    let (mut ranks, mut late) = ranks(4);
    ranks.iter_mut().for_each(|rank| rank.late_s = Some(0.0));
    (ranks[1].late_s, ranks[1].compute_s) = (Some(60.0), 99.0);
    late[1].busy[1] = 110.0;
    let found = judge((ranks, late), 1.0);
    assert!(found.iter().all(|one| one.rank.is_none()), "{found:?}");
}

#[test]
fn ranks_that_are_alike_are_not_named_and_nothing_stands_out() {
    for size in [1, 2, 8] {
        let found = judge(ranks(size), 1.0);
        assert_eq!(found.len(), 1);
        assert_eq!((found[0].rank, found[0].cause), (None, None));
        assert_eq!(found[0].what, "nothing stands out");
    }
}

#[test]
fn limits_of_all_ranks_are_told_with_their_share() {
    let (mut slow, late) = ranks(2);
    slow.iter_mut()
        .for_each(|rank| (rank.compute_s, rank.load_s) = (50.0, 41.0));
    let found = judge((slow, late.clone()), 1.0);
    assert_eq!(found[0].what, "input bound: 41 % of the time in loading");

    let (mut slow, _) = ranks(2);
    slow.iter_mut()
        .for_each(|rank| (rank.compute_s, rank.exchange_s) = (40.0, 55.0));
    let link = |rate| Facts {
        ranks: &slow,
        late: &late,
        seconds: 100.0,
        cores: 1.0,
        photos: None,
        memory: None,
        link: Some(Moved { rate, most: 1e9 }),
    };
    assert_eq!(
        verdict(&link(0.92e9))[0].what,
        "network bound at 92 % of the measured link"
    );
    // Far from what the link carries, it is not to blame.
    assert_eq!(verdict(&link(0.1e9))[0].cause, Some(Cause::Exchange));

    let (slow, _) = ranks(2);
    let memory = |rate| {
        let moved = Moved { rate, most: 1e10 };
        verdict(&Facts {
            ranks: &slow,
            late: &late,
            seconds: 100.0,
            cores: 1.0,
            photos: None,
            memory: Some(Memory {
                steps: moved,
                exchange: moved,
            }),
            link: None,
        })
    };
    assert_eq!(
        memory(8e9)[0].what,
        "memory-bandwidth bound at 80 % of what copies reach"
    );
    assert_eq!(memory(3e9)[0].cause, None);
}

/// Who trained on photos was told to write the set contiguous, which only sets of pixels can be.
#[test]
fn advice_on_photos_is_what_can_be_done_for_photos() {
    let (mut slow, late) = ranks(2);
    slow.iter_mut()
        .for_each(|rank| (rank.compute_s, rank.load_s) = (50.0, 41.0));
    let advice = |photos| {
        let facts = Facts {
            ranks: &slow,
            late: &late,
            seconds: 100.0,
            cores: 1.0,
            photos,
            memory: None,
            link: None,
        };
        verdict(&facts)[0].advice.clone()
    };
    let photos = |cached| {
        Some(Photos {
            cached,
            decoders: 2,
        })
    };
    assert!(advice(None).contains("phalanx data split"));
    let (anew, kept) = (advice(photos(false)), advice(photos(true)));
    for advice in [&anew, &kept] {
        assert!(!advice.contains("data split"), "{advice}");
        for words in ["phalanx data pack", "--decoders", "threads than 2"] {
            assert!(advice.contains(words), "{advice}");
        }
    }
    assert!(anew.contains("--cache node") && !kept.contains("--cache"));
}

#[test]
fn a_slow_rank_among_those_that_go_alone_is_named_by_its_own_steps() {
    let (mut all, _) = ranks(3);
    for rank in &mut all {
        (rank.compute_s, rank.late_s, rank.share) = (20.0, None, 0.45);
    }
    (all[2].steps, all[2].share) = (200, 0.1);
    let found = judge((all, Vec::new()), 1.0);
    assert_eq!(
        (found[0].rank, found[0].cause),
        (Some(2), Some(Cause::Compute))
    );
    assert_eq!(
        found[0].what,
        "rank 2 slow in compute: it made 10 % of the updates"
    );
}
