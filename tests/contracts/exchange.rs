//! Contracts of the exchanges, checked by training on a small set.

use phalanx::comm::Comm;
use phalanx::data::{Loader, Scaling, Steps};
use phalanx::exchange::{Kind, Placement};
use phalanx::nn::zoo;
use phalanx::optim::{Rule, Schedule, Sgd};
use phalanx::train::{Goal, Journal, Parts, Reduce, Trainer, Watched, train};

use super::sets;

const SAMPLES: usize = 1000;

/// Every optimizer.
fn rules() -> [Rule; 6] {
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

/// As `run_with`, by plain descent.
fn run(comm: &dyn Comm, kind: Kind, batch: usize, epochs: u64, lr: f32) -> Trainer {
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
    (rule, limit): (Rule, Option<f64>),
) -> Trainer {
    let data = sets::digits(comm, SAMPLES);
    let steps = Steps {
        samples: data.len(),
        batch,
    };
    let scaling = Scaling::unit(1);
    let model = zoo::build("softmax", data.shape, data.classes).unwrap();
    let optimizer = rule.build(model.tensors(), limit);
    let parts = Parts {
        model,
        loader: Loader::new(data, scaling.clone(), 3),
        scaling,
        steps,
        reduce: Reduce::Mean,
        optimizer,
        schedule: Schedule::constant(lr),
        total: epochs * steps.per_epoch(),
        seed: 3,
    };
    let mut trainer = Trainer::new(comm, parts);
    let exchange = kind
        .start(comm, epochs * steps.per_epoch(), &trainer.params)
        .unwrap();
    let goal = Goal {
        watch: None,
        watched: Watched::Test,
        test: None,
        eval_every: u64::MAX,
        until_loss: None,
        early_stop: None,
        keep_best: false,
    };
    train(comm, exchange, &mut trainer, &goal, &mut Journal::none()).unwrap();
    trainer
}

fn same_bits_everywhere(comm: &dyn Comm, trainer: &Trainer) {
    let checksums = comm.gather(&trainer.checksum().to_le_bytes());
    assert!(
        checksums.iter().all(|checksum| *checksum == checksums[0]),
        "ranks hold the same bits"
    );
}

/// The greatest difference between two trainers' parameters.
fn distance(a: &Trainer, b: &Trainer) -> f32 {
    let pairs = a.params.iter().zip(&b.params);
    pairs.map(|(a, b)| (a - b).abs()).fold(0.0, f32::max)
}

/// Batches of 48 leave a short last step of 40, which several rank counts cannot share evenly.
pub fn synchronous_equals_one_rank(comm: &dyn Comm) {
    let alone = comm.split(comm.rank());
    let single = run(&*alone, Kind::AllReduce, 48, 3, 0.2);
    for kind in [Kind::AllReduce, Kind::NodeShared] {
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

pub fn synchronous_repeats(comm: &dyn Comm) {
    for kind in [Kind::AllReduce, Kind::NodeShared] {
        let run = || run(comm, kind, 50, 2, 0.1).checksum();
        assert_eq!(run(), run(), "{kind:?}");
    }
}

pub fn one_sided_loses_no_update(comm: &dyn Comm) {
    use phalanx::exchange::{Exchange, Gradients, OneSided};
    for placement in [Placement::Sharded, Placement::Rank0] {
        let mut params = vec![0.0; 1001];
        let mut exchange: Box<dyn Exchange> =
            Box::new(OneSided::new(comm, 200, placement, &params).unwrap());
        let mut grads = Gradients::new(params.len());
        let mut mine = [0u64];
        while exchange.claim().unwrap().is_some() {
            grads.params().fill(-1.0);
            exchange
                .step(&mut params, &mut grads, 1.0, &mut Sgd::default())
                .unwrap();
            mine[0] += 1;
        }
        exchange.settle(&mut params).unwrap();
        comm.sum(&mut mine);
        assert_eq!(mine, [200], "every step is taken once");
        assert!(
            params.iter().all(|&param| param == 200.0),
            "every update is in every parameter"
        );
    }
}

pub fn one_sided_trains(comm: &dyn Comm) {
    let error = |trainer: &mut Trainer| {
        let data = sets::digits(comm, SAMPLES);
        1.0 - trainer.evaluate(comm, &data).unwrap().accuracy()
    };
    let sync = error(&mut run(comm, Kind::AllReduce, 20, 10, 0.1));
    for placement in [Placement::Sharded, Placement::Rank0] {
        let mut trainer = run(comm, Kind::OneSided(placement), 20, 10, 0.1);
        same_bits_everywhere(comm, &trainer);
        let mut samples = [trainer.times.samples];
        comm.sum(&mut samples);
        assert_eq!(samples, [10 * SAMPLES as u64]);
        let one_sided = error(&mut trainer);
        assert!(
            (one_sided - sync).abs() < 0.05,
            "{placement:?}: errors {one_sided} and {sync}"
        );
    }
}
