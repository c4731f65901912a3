//! Contracts of the exchanges, checked by training on a small set.

use phalanx::comm::Comm;
use phalanx::data::{Length, Loader, Scaling, Steps};
use phalanx::exchange::{Freedom, Kind, Placement, Start, Tail};
use phalanx::nn::{Crew, Init, Spec, zoo};
use phalanx::optim::{Decay, Epochs, Mover, Rule, Schedule, Sgd};
use phalanx::train::{
    Every, Goal, Journal, Noise, OnNan, Parts, Reduce, Saver, Trainer, Watched, train,
};

use super::sets;

pub(super) const SAMPLES: usize = 1000;

/// Every optimizer.
pub(super) fn rules() -> [Rule; 6] {
    let (momentum, beta1, beta2, weight_decay) = (0.9, 0.9, 0.999, 0.001);
    [
        Rule::Sgd { weight_decay },
        Rule::Momentum {
            momentum,
            weight_decay,
        },
        Rule::Nesterov {
            momentum,
            weight_decay,
        },
        Rule::Adam {
            beta1,
            beta2,
            weight_decay,
        },
        Rule::AdamW {
            beta1,
            beta2,
            weight_decay,
        },
        Rule::Lars {
            trust: 0.1,
            momentum,
            weight_decay,
        },
    ]
}

/// One-sided exchanges that lose nothing.
fn one_sided() -> Vec<Kind> {
    let bounded = |bound| Freedom {
        bound: Some(bound),
        ..Freedom::default()
    };
    let mut kinds = vec![
        Kind::one_sided(Placement::Sharded),
        Kind::one_sided(Placement::Rank0),
    ];
    kinds.extend([bounded(0), bounded(3)].map(Kind::OneSided));
    kinds
}

/// As `run_with`, by plain descent.
pub(super) fn run(comm: &dyn Comm, kind: Kind, batch: usize, epochs: u64, lr: f32) -> Trainer {
    let plain = Rule::Sgd { weight_decay: 0.0 };
    run_with(comm, kind, batch, epochs, lr, (plain, None))
}

/// Trains softmax for `epochs` with `batch` samples a step and gives the trainer back.
fn run_with(
    comm: &dyn Comm,
    kind: Kind,
    batch: usize,
    epochs: u64,
    lr: f32,
    optimizer: (Rule, Option<f64>),
) -> Trainer {
    run_model(comm, kind, (batch, epochs), lr, optimizer, (&softmax(), 1))
}

fn softmax() -> Spec {
    zoo::spec("softmax").unwrap()
}

/// As `run_with`, with any model and any number of threads.
pub(super) fn run_model(
    comm: &dyn Comm,
    kind: Kind,
    (batch, epochs): (usize, u64),
    lr: f32,
    (rule, limit): (Rule, Option<f64>),
    model: (&Spec, usize),
) -> Trainer {
    let steps = Steps::new(SAMPLES, batch, Length::Epochs(epochs));
    let run = (steps, Schedule::constant(lr), None);
    run_steps(comm, kind, run, (rule, limit), model, None)
}

/// Trains a model by given steps and rates, and gives the trainer back.
pub(super) fn run_steps(
    comm: &dyn Comm,
    kind: Kind,
    (steps, schedule, noise): (Steps, Schedule, Option<Noise>),
    (rule, limit): (Rule, Option<f64>),
    (spec, threads): (&Spec, usize),
    shards: Option<usize>,
) -> Trainer {
    let data = sets::digits(comm, SAMPLES);
    let scaling = Scaling::unit(1);
    let model = spec.build(data.shape, data.classes).unwrap();
    let optimizer = rule.build(model.tensors(), limit);
    let parts = Parts {
        backend: Box::new(Crew::new(model, threads).unwrap()),
        loader: Loader::new(data, scaling.clone(), 3),
        scaling,
        steps,
        reduce: Reduce::Mean,
        shards,
        optimizer,
        schedule,
        noise,
        init: Init::default(),
        seed: 3,
        on_nan: OnNan::Stop,
    };
    let mut trainer = Trainer::new(comm, parts);
    let exchange = trainer.start(comm, kind, None).unwrap();
    let goal = Goal {
        watch: None,
        watched: Watched::Test,
        test: None,
        eval_every: Every::Steps(u64::MAX),
        until_loss: None,
        early_stop: None,
        keep_best: false,
    };
    let (mut journal, mut saver) = (Journal::none(), Saver::none());
    let saving = (&mut saver, None);
    train(comm, exchange, &mut trainer, &goal, &mut journal, saving).unwrap();
    trainer
}

pub(super) fn same_bits_everywhere(comm: &dyn Comm, trainer: &Trainer) {
    let checksums = comm.gather(&trainer.checksum().to_le_bytes());
    assert!(
        checksums.iter().all(|checksum| *checksum == checksums[0]),
        "ranks hold the same bits"
    );
}

/// The greatest difference between two trainers' parameters.
pub(super) fn distance(a: &Trainer, b: &Trainer) -> f32 {
    let pairs = a.params.iter().zip(&b.params);
    pairs.map(|(a, b)| (a - b).abs()).fold(0.0, f32::max)
}

/// Batches of 48 leave a short last step of 40, which several rank counts cannot share evenly.
pub fn synchronous_equals_one_rank(comm: &dyn Comm) {
    let alone = comm.split(comm.rank());
    let single = run(&*alone, Kind::AllReduce, 48, 3, 0.2);
    for kind in [Kind::AllReduce, Kind::NodeShared, Kind::Overlapped] {
        let together = run(comm, kind, 48, 3, 0.2);
        same_bits_everywhere(comm, &together);
        assert_eq!(together.times.steps, 3 * 21);
        let worst = distance(&together, &single);
        assert!(worst < 1e-5, "{kind:?}: parameters differ by {worst}");
    }
}

/// Optimizers whose state is spread over ranks, with and without a limit on the norm of a gradient that no rank has whole.
pub fn every_optimizer_equals_one_rank(comm: &dyn Comm) {
    let alone = comm.split(comm.rank());
    for (rule, limit) in rules()
        .into_iter()
        .flat_map(|rule| [(rule, None), (rule, Some(0.5))])
        .filter(|(rule, limit)| limit.is_none() || !matches!(rule, Rule::Lars { .. }))
    {
        // Adam divides by the size of the gradient, and so makes rounding errors of the smallest ones part of a step:
        // a twentieth of one step of its rate, after 42 steps.
        let (lr, tolerance) = match rule {
            Rule::Adam { .. } | Rule::AdamW { .. } => (0.01, 0.05 * 0.01),
            _ => (0.05, 1e-5),
        };
        let single = run_with(&*alone, Kind::AllReduce, 48, 2, lr, (rule, limit));
        for kind in [Kind::AllReduce, Kind::NodeShared] {
            let together = run_with(comm, kind, 48, 2, lr, (rule, limit));
            same_bits_everywhere(comm, &together);
            let worst = distance(&together, &single);
            assert!(
                worst < tolerance,
                "{rule:?}, limit {limit:?}, {kind:?}: parameters differ by {worst}"
            );
        }
    }
}

/// Batches of 40, 80 and 160 where the rate would have been halved, then a rate halved twice.
pub fn growing_batches_equal_one_rank(comm: &dyn Comm) {
    let alone = comm.split(comm.rank());
    let plain = Rule::Sgd { weight_decay: 0.0 };
    let grown = || {
        let mut steps = Steps::new(SAMPLES, 40, Length::Epochs(6));
        let mut schedule = Schedule::constant(0.2);
        schedule.decay = Decay::Step {
            factor: 0.5,
            epochs: Epochs::Every(1),
        };
        schedule.grow(&mut steps, 200);
        (steps, schedule, None)
    };
    let single = run_steps(
        &*alone,
        Kind::AllReduce,
        grown(),
        (plain, None),
        (&softmax(), 1),
        None,
    );
    for kind in [Kind::AllReduce, Kind::NodeShared] {
        let together = run_steps(comm, kind, grown(), (plain, None), (&softmax(), 1), None);
        same_bits_everywhere(comm, &together);
        assert_eq!(together.times.steps, 25 + 13 + 4 * 7);
        let worst = distance(&together, &single);
        assert!(worst < 1e-5, "{kind:?}: parameters differ by {worst}");
    }
    let kind = Kind::one_sided(Placement::Sharded);
    let mut samples = [
        run_steps(comm, kind, grown(), (plain, None), (&softmax(), 1), None)
            .times
            .samples,
    ];
    comm.sum(&mut samples);
    assert_eq!(samples, [6 * SAMPLES as u64], "every sample once an epoch");
}

/// Ranks grow the batch together by what they measure, and the noise is about the same however the gradients are summed.
pub fn noise_is_measured_together(comm: &dyn Comm) {
    if comm.size() == 1 {
        return;
    }
    let plain = Rule::Sgd { weight_decay: 0.0 };
    let scales = [Kind::AllReduce, Kind::NodeShared].map(|kind| {
        let run = |noise, limit| {
            let steps = Steps::new(SAMPLES, 40, Length::Epochs(8));
            let run = (steps, Schedule::constant(0.1), noise);
            run_steps(comm, kind, run, (plain, limit), (&softmax(), 1), None)
        };
        let trainer = run(Some(Noise::new(Some(150))), None);
        same_bits_everywhere(comm, &trainer);
        let steps = trainer.steps();
        let batches: Vec<usize> = (0..8).map(|e| steps.batch(steps.first(e))).collect();
        assert!(batches.is_sorted() && batches[7] > 40 && batches[7] <= 150);
        assert!(batches.iter().all(|batch| batch % 40 == 0), "{batches:?}");
        assert_eq!(trainer.times.steps, steps.total());
        let mut samples = [trainer.times.samples];
        comm.sum(&mut samples);
        assert_eq!(samples, [8 * SAMPLES as u64], "every sample once an epoch");
        // Measuring alone changes no bit, and sees gradients as they were before clipping.
        for limit in [None, Some(0.1)] {
            let measured = run(Some(Noise::new(None)), limit);
            assert_eq!(measured.checksum(), run(None, limit).checksum());
            assert!(measured.noise_scale().is_some_and(|scale| scale > 1.0));
        }
        trainer.noise_scale().unwrap()
    });
    let ratio = scales[0] / scales[1];
    assert!((0.98..1.02).contains(&ratio), "noise scales {scales:?}");
}

pub fn synchronous_repeats(comm: &dyn Comm) {
    for kind in [Kind::AllReduce, Kind::NodeShared, Kind::Overlapped] {
        let run = || run(comm, kind, 50, 2, 0.1).checksum();
        assert_eq!(run(), run(), "{kind:?}");
    }
}

pub fn one_sided_loses_no_update(comm: &dyn Comm) {
    for kind in one_sided() {
        let mut exchange = kind
            .start(comm, vec![0.0; 10_001], Start::default())
            .unwrap();
        let mut mover = Mover::new(Box::new(Sgd::default()));
        let mut mine = [0u64];
        loop {
            let step = exchange.claim(mine[0]).unwrap();
            if step >= 200 {
                break;
            }
            assert!(exchange.ready(step).unwrap().is_some());
            exchange.arenas().grads.host().fill(-1.0);
            exchange.step(Tail::default(), 1.0, &mut mover).unwrap();
            mine[0] += 1;
        }
        exchange.leave().unwrap();
        let conduct = exchange.conduct();
        assert_eq!(
            (conduct.updates, conduct.behind.total()),
            (mine[0], mine[0])
        );
        let params = exchange.settle().unwrap();
        comm.sum(&mut mine);
        assert_eq!(mine, [200], "every step is taken once");
        assert!(
            params.iter().all(|&param| param == 200.0),
            "{kind:?}: every update is in every parameter"
        );
    }
}

/// A fault of the last rank keeps every rank's parameters where they are, and is no fault of the next step.
pub fn a_fault_moves_nothing(comm: &dyn Comm) {
    for kind in [Kind::AllReduce, Kind::NodeShared] {
        let mut exchange = kind.start(comm, vec![0.5; 101], Start::default()).unwrap();
        let mut mover = Mover::new(Box::new(Sgd::default()));
        for (step, moved) in [(0, 1.0), (1, 1.0), (2, 2.0)] {
            assert_eq!(exchange.claim(step).unwrap(), step);
            let bad = step == 1 && comm.rank() + 1 == comm.size();
            exchange
                .arenas()
                .grads
                .host()
                .fill(if bad { f32::NAN } else { -1.0 });
            let mine = Tail {
                faults: u64::from(bad),
                ..Tail::default()
            };
            let (team, _) = exchange.step(mine, 1.0, &mut mover).unwrap();
            assert_eq!(team.faults, u64::from(step == 1), "{kind:?}");
            let expected = 0.5 + moved * comm.size() as f32;
            let fine = exchange
                .params()
                .host()
                .iter()
                .all(|&param| param == expected);
            assert!(
                fine,
                "{kind:?}, step {step}: {:?}",
                exchange.params().host()
            );
        }
        exchange.settle().unwrap();
    }
}

pub fn one_sided_trains(comm: &dyn Comm) {
    let error = |trainer: &mut Trainer| {
        let data = sets::digits(comm, SAMPLES);
        1.0 - trainer.evaluate_settled(comm, &data).unwrap().accuracy()
    };
    let sync = error(&mut run(comm, Kind::AllReduce, 20, 10, 0.1));
    let racy = Freedom {
        racy: true,
        ..Freedom::default()
    };
    let one_node = comm.local_size() == comm.size();
    let racy = one_node.then_some(Kind::OneSided(racy));
    for kind in one_sided().into_iter().chain(racy) {
        let mut trainer = run(comm, kind, 20, 10, 0.1);
        same_bits_everywhere(comm, &trainer);
        let mut samples = [trainer.times.samples];
        comm.sum(&mut samples);
        assert_eq!(samples, [10 * SAMPLES as u64]);
        let one_sided = error(&mut trainer);
        assert!(
            (one_sided - sync).abs() < 0.05,
            "{kind:?}: errors {one_sided} and {sync}"
        );
    }
}
