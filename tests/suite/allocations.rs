//! The step loop allocates nothing: counted, by an allocator that counts.
#![allow(unsafe_code)]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

use phalanx::comm::{Comm, run_ranks};
use phalanx::data::{Augment, Length, Loader, Scaling, Steps};
use phalanx::exchange::Kind;
use phalanx::nn::{Crew, Init, Spec, zoo};
use phalanx::optim::{Rule, Schedule};
use phalanx::train::{OnNan, Parts, Reduce, Trainer};

use super::contracts::sets;

thread_local! {
    /// Allocations of this thread.
    static COUNT: Cell<u64> = const { Cell::new(0) };
}

struct Counting;

#[global_allocator]
static ALLOCATOR: Counting = Counting;

// SAFETY: everything is left to the system's allocator.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // A thread that is ending has no counter any more.
        let _ = COUNT.try_with(|count| count.set(count.get() + 1));
        // SAFETY: the caller keeps the contract.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        // SAFETY: the caller keeps the contract.
        unsafe { System.dealloc(block, layout) }
    }
}

/// Every kind of layer.
const ALL: &str = r#"
name = "all"
[[layer]]
kind = "conv2d"
outputs = 8
kernel = 3
pad = 1
[[layer]]
kind = "relu"
[[layer]]
kind = "max_pool"
kernel = 2
[[layer]]
kind = "conv2d"
outputs = 40
kernel = 5
stride = 2
[[layer]]
kind = "tanh"
[[layer]]
kind = "batch_norm"
[[layer]]
kind = "local_response"
[[layer]]
kind = "conv2d"
outputs = 40
kernel = 3
pad = 1
[[layer]]
kind = "average_pool"
kernel = 2
[[layer]]
kind = "global_average_pool"
[[layer]]
kind = "flatten"
[[layer]]
kind = "dropout"
rate = 0.5
[[layer]]
kind = "linear"
"#;

/// Allocations in ten steps, after as many to warm up and through the ends of two epochs.
fn count(comm: &dyn Comm, spec: Spec, rule: Rule, kind: Kind, augment: &Augment) -> u64 {
    let data = sets::digits(comm, 1000);
    let model = spec.build(data.shape, data.classes).unwrap();
    let scaling = Scaling::unit(1);
    let parts = Parts {
        optimizer: rule.build(model.tensors(), None),
        backend: Box::new(Crew::new(model, 1).unwrap()),
        loader: Loader::augmented(data, scaling.clone(), 3, augment),
        scaling,
        steps: Steps::new(1000, 150, Length::Epochs(10)),
        reduce: Reduce::Mean,
        shards: None,
        schedule: Schedule::constant(0.01),
        noise: None,
        init: Init::default(),
        seed: 3,
        on_nan: OnNan::Stop,
    };
    let mut trainer = Trainer::new(comm, parts);
    let mut exchange = trainer.start(comm, kind, None).unwrap();
    let mut before = 0;
    for step in 0..20 {
        if step == 10 {
            before = COUNT.get();
        }
        assert_eq!(trainer.claim(&mut *exchange).unwrap(), Some(step));
        trainer.step(&mut *exchange, step).unwrap();
    }
    let count = COUNT.get() - before;
    exchange.settle().unwrap();
    count
}

#[test]
fn a_step_allocates_nothing() {
    let (momentum, weight_decay) = (0.9, 0.001);
    let sgd = Rule::Sgd { weight_decay };
    let nesterov = Rule::Nesterov {
        momentum,
        weight_decay,
    };
    let adam = Rule::Adam {
        beta1: 0.9,
        beta2: 0.999,
        weight_decay,
    };
    let named = |name| zoo::spec(name).unwrap();
    let all = || Spec::parse(ALL).unwrap();
    let cases = [
        ("softmax", named("softmax"), sgd),
        ("mlp", named("mlp"), nesterov),
        ("lenet", named("lenet"), adam),
        ("all", all(), nesterov),
    ];
    let still = Augment::default();
    let changed: Augment = "flip,flip-vertical,rotate,tilt,crop,colour"
        .parse()
        .unwrap();
    run_ranks(2, |comm| {
        for (name, spec, rule) in cases.clone() {
            let count = count(comm, spec, rule, Kind::NodeShared, &still);
            assert_eq!(count, 0, "{name} with {rule:?}");
        }
        let count = count(comm, named("softmax"), sgd, Kind::NodeShared, &changed);
        assert_eq!(count, 0, "changed images");
    });
    // The counter counts: ranks that are threads pass messages in boxes.
    let passed = run_ranks(2, |comm| count(comm, all(), sgd, Kind::AllReduce, &still));
    assert!(passed.iter().all(|&count| count >= 10), "{passed:?}");
}
