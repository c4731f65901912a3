//! Contracts of exchanges that let ranks go their own way, and of results that do not depend on the number of ranks.

use std::thread::sleep;
use std::time::{Duration, Instant};

use phalanx::comm::Comm;
use phalanx::data::{Length, Steps};
use phalanx::exchange::{Averaging, Exchange, Freedom, Kind, Start, Tail};
use phalanx::nn::{Spec, zoo};
use phalanx::optim::{Mover, Rule, Schedule, Sgd};
use phalanx::train::{Noise, Trainer};

use super::exchange::{SAMPLES, distance, rules, run, run_steps, same_bits_everywhere};

/// Convolutions, pooling, dropout and batch normalisation.
const NET: &str = "name = \"small\"
[[layer]]
kind = \"conv2d\"
outputs = 4
kernel = 3
stride = 2
pad = 1
[[layer]]
kind = \"batch_norm\"
[[layer]]
kind = \"relu\"
[[layer]]
kind = \"max_pool\"
kernel = 2
[[layer]]
kind = \"dropout\"
rate = 0.3
[[layer]]
kind = \"linear\"
";

fn small() -> Spec {
    zoo::spec("lenet").unwrap()
}

fn sharded(
    comm: &dyn Comm,
    kind: Kind,
    (rule, limit): (Rule, Option<f64>),
    spec: &Spec,
    threads: usize,
) -> Trainer {
    let steps = Steps::new(SAMPLES, 52, Length::Epochs(1));
    let measured = matches!(rule, Rule::Sgd { .. });
    let noise = measured.then(|| Noise::new(None));
    let run = (steps, Schedule::constant(0.05), noise);
    run_steps(comm, kind, run, (rule, limit), (spec, threads), Some(8))
}

/// The bits of a run in eight shards are those of one rank alone, for every optimizer; other numbers of ranks are refused.
pub fn shards_give_the_same_bits(comm: &dyn Comm) {
    if 8 % comm.size() != 0 {
        assert!(Kind::NodeShared.check(comm, Some(8)).is_err());
        return;
    }
    if Kind::NodeShared.check(comm, Some(8)).is_err() {
        // Ranks that are not numbered node by node.
        assert!(comm.local_size() < comm.size());
        return;
    }
    let alone = comm.split(comm.rank());
    let softmax = zoo::spec("softmax").unwrap();
    let all = rules().into_iter().map(|rule| (rule, None));
    let clipped = Rule::Sgd { weight_decay: 0.0 };
    for optimizer in all.chain([(clipped, Some(0.3))]) {
        let single = sharded(&*alone, Kind::AllReduce, optimizer, &softmax, 1);
        for kind in [Kind::AllReduce, Kind::NodeShared] {
            let together = sharded(comm, kind, optimizer, &softmax, 1);
            same_bits_everywhere(comm, &together);
            let (a, b) = (together.checksum(), single.checksum());
            assert_eq!(a, b, "{optimizer:?}, {kind:?}");
            assert_eq!(together.noise_scale(), single.noise_scale());
        }
    }
}

/// Likewise for a network with convolutions, dropout and batch normalisation, and with threads.
pub fn shards_of_networks_give_the_same_bits(comm: &dyn Comm) {
    if 8 % comm.size() != 0 || Kind::NodeShared.check(comm, Some(8)).is_err() {
        return;
    }
    let alone = comm.split(comm.rank());
    let (momentum, weight_decay) = (0.9, 0.0);
    let rule = Rule::Momentum {
        momentum,
        weight_decay,
    };
    for spec in [small(), Spec::parse(NET).unwrap()] {
        let single = sharded(&*alone, Kind::NodeShared, (rule, None), &spec, 1);
        for threads in [1, 2]
            .into_iter()
            .filter(|threads| threads * comm.size() <= 8)
        {
            let together = sharded(comm, Kind::NodeShared, (rule, None), &spec, threads);
            same_bits_everywhere(comm, &together);
            assert_eq!(together.checksum(), single.checksum(), "{threads} threads");
        }
    }
}

/// A network's gradients are added up layer by layer while others are computed, and come out as if they were not.
pub fn overlapped_networks_are_in_step(comm: &dyn Comm) {
    let rule = Rule::Sgd { weight_decay: 0.0 };
    let runs = [Kind::AllReduce, Kind::Overlapped].map(|kind| {
        let steps = Steps::new(SAMPLES, 48, Length::Epochs(1));
        let run = (steps, Schedule::constant(0.05), None);
        run_steps(comm, kind, run, (rule, None), (&small(), 1), None)
    });
    same_bits_everywhere(comm, &runs[1]);
    let worst = distance(&runs[0], &runs[1]);
    assert!(worst < 1e-5, "parameters differ by {worst}");
}

/// With a bound of no steps at all, ranks by themselves do as ranks in step whose gradients are added up.
pub fn no_staleness_is_in_step(comm: &dyn Comm) {
    let (batch, size) = (25, comm.size());
    if !(SAMPLES / batch).is_multiple_of(size) {
        return;
    }
    let bounded = Kind::OneSided(Freedom {
        bound: Some(0),
        ..Freedom::default()
    });
    let free = run(comm, bounded, batch, 2, 0.05);
    same_bits_everywhere(comm, &free);
    let alone = comm.split(comm.rank());
    let single = run(
        &*alone,
        Kind::AllReduce,
        batch * size,
        2,
        0.05 * size as f32,
    );
    let worst = distance(&free, &single);
    assert!(worst < 1e-5, "parameters differ by {worst}");
    assert_eq!(free.conduct.behind.most(), 0);
}

/// The least that a slow rank takes longer for a step.
const PAUSE: Duration = Duration::from_millis(2);

/// Takes steps until `count` are claimed; the last rank pauses in each, for as long as `pause` makes of a step's mean time.
fn steps_with_one_slow(
    comm: &dyn Comm,
    exchange: &mut dyn Exchange,
    (count, share): (u64, f64),
    pause: fn(Duration) -> Duration,
) {
    let begun = Instant::now();
    let mut mover = Mover::new(Box::new(Sgd::default()));
    let slow = comm.rank() + 1 == comm.size();
    for claimed in 0.. {
        let step = exchange.claim(claimed).unwrap();
        if step >= count {
            break;
        }
        if exchange.ready(step).unwrap().is_none() {
            continue;
        }
        exchange.arenas().grads.host().fill(-share as f32);
        if slow {
            sleep(pause(begun.elapsed() / (step as u32).max(1)));
        }
        let mine = Tail {
            share,
            ..Tail::default()
        };
        exchange.step(mine, 1.0, &mut mover).unwrap();
    }
    exchange.leave().unwrap();
}

/// A rank that is slow holds the others back when they are three steps ahead, and not before.
pub fn staleness_is_bounded(comm: &dyn Comm) {
    let bounded = Kind::OneSided(Freedom {
        bound: Some(3),
        ..Freedom::default()
    });
    let free = Kind::OneSided(Freedom::default());
    for (kind, most) in [(bounded, Some(3)), (free, None)] {
        let mut exchange = kind.start(comm, vec![0.0; 100], Start::default()).unwrap();
        let steps = 40 * comm.size() as u64;
        steps_with_one_slow(comm, &mut *exchange, (steps, 1.0), |_| PAUSE);
        let conduct = exchange.conduct();
        exchange.settle().unwrap();
        let mut greatest = [conduct.behind.most()];
        comm.max(&mut greatest);
        if comm.size() > 1 {
            match most {
                Some(most) => assert_eq!(greatest, [most]),
                None => assert!(greatest[0] > 3, "nobody waits: {greatest:?}"),
            }
        }
    }
}

/// Averaging after every step of plain descent is a step with the mean gradient.
pub fn averaging_every_step_is_in_step(comm: &dyn Comm) {
    let (batch, size) = (25, comm.size());
    if !(SAMPLES / batch).is_multiple_of(size) {
        return;
    }
    let every = |every| {
        Kind::Local(Averaging {
            every,
            elastic: None,
        })
    };
    let local = run(comm, every(1), batch, 2, 0.1);
    same_bits_everywhere(comm, &local);
    let alone = comm.split(comm.rank());
    let single = run(&*alone, Kind::AllReduce, batch * size, 2, 0.1);
    let worst = distance(&local, &single);
    assert!(worst < 1e-5, "parameters differ by {worst}");
    // Rarely, and with steps that ranks do not share evenly.
    let rarely = run(comm, every(7), 30, 2, 0.1);
    same_bits_everywhere(comm, &rarely);
    let mut steps = [rarely.times.steps];
    comm.sum(&mut steps);
    assert_eq!(steps, [2 * 34]);
}

/// The formula of elastic averaging, on ranks that pull in different directions.
pub fn elastic_averaging_draws_ranks_together(comm: &dyn Comm) {
    let (rank, size) = (comm.rank() as f64, comm.size() as f64);
    let averaging = Averaging {
        every: 1,
        elastic: Some(0.5),
    };
    let mut exchange = Kind::Local(averaging)
        .start(comm, vec![0.0; 10], Start::default())
        .unwrap();
    let mut mover = Mover::new(Box::new(Sgd::default()));
    let (mut own, mut all, mut centre) = (0.0, vec![0.0; comm.size()], 0.0);
    for _ in 0..5 {
        exchange.arenas().grads.host().fill(-(rank as f32 + 1.0));
        exchange.step(Tail::default(), 1.0, &mut mover).unwrap();
        all.iter_mut()
            .enumerate()
            .for_each(|(i, x): (usize, &mut f64)| *x += i as f64 + 1.0);
        let apart: f64 = all.iter().map(|x| x - centre).sum();
        all.iter_mut()
            .for_each(|x| *x -= 0.5 / size * (*x - centre));
        centre += 0.5 / size * apart;
        own = all[comm.rank()];
        let close = |a: f32, b: f64| (f64::from(a) - b).abs() < 1e-5 * b.abs().max(1.0);
        assert!(
            exchange
                .params()
                .host()
                .iter()
                .all(|&param| close(param, centre))
        );
        assert!(
            exchange
                .arenas()
                .params
                .host()
                .iter()
                .all(|&param| close(param, own))
        );
    }
    assert!(own != centre || comm.size() == 1);
    exchange.settle().unwrap();
}

/// With all gradients it is a step as any other; without the slowest, steps do not wait for it.
pub fn backup_goes_on_without_the_slowest(comm: &dyn Comm) {
    let (of, one_node) = (comm.size(), comm.local_size() == comm.size());
    let all = Kind::Backup { take: of, of };
    if !one_node {
        assert!(all.check(comm, None).is_err());
        return;
    }
    let alone = comm.split(comm.rank());
    for (rule, lr) in [(rules()[0], 0.2), (rules()[1], 0.05), (rules()[3], 0.01)] {
        let run = |comm: &dyn Comm, kind| {
            let steps = Steps::new(SAMPLES, 48, Length::Epochs(2));
            let softmax = zoo::spec("softmax").unwrap();
            let run = (steps, Schedule::constant(lr), None);
            run_steps(comm, kind, run, (rule, None), (&softmax, 1), None)
        };
        let together = run(comm, all);
        same_bits_everywhere(comm, &together);
        let worst = distance(&together, &run(&*alone, Kind::AllReduce));
        // As for the other exchanges: Adam divides by the size of the gradient.
        let tolerance = if lr == 0.01 { 0.05 * lr } else { 1e-5 };
        assert!(worst < tolerance, "{rule:?}: parameters differ by {worst}");
    }
    if of == 1 {
        return;
    }
    let kind = Kind::Backup { take: of - 1, of };
    let mut exchange = kind.start(comm, vec![0.0; 5000], Start::default()).unwrap();
    // Others may have to wait for cores: a rank is slow that takes several times as long as they do.
    let pause = |mean: Duration| (4 * mean).clamp(PAUSE, 100 * PAUSE);
    steps_with_one_slow(comm, &mut *exchange, (100, 1.0 / of as f64), pause);
    let conduct = exchange.conduct();
    let params = exchange.settle().unwrap();
    assert_eq!(conduct.updates + conduct.dropped, 100);
    let mut updates = [conduct.updates];
    comm.sum(&mut updates);
    assert_eq!(
        updates,
        [100 * (of as u64 - 1)],
        "so many gradients in every step"
    );
    if comm.rank() + 1 == of {
        assert!(conduct.dropped > 50, "{conduct:?}");
    }
    let whole = |param: &f32| (param - 100.0).abs() < 1e-3;
    assert!(
        params.iter().all(whole),
        "steps count in full: {}",
        params[0]
    );
}
