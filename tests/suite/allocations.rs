//! The step loop allocates nothing, and photos no more than they may: counted, by an allocator that counts.
#![allow(unsafe_code)]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::io::Write;

use flate2::{Compression, Crc, write::ZlibEncoder};
use phalanx::comm::{Comm, run_ranks};
use phalanx::data::photos::{Fit, pixels};
use phalanx::data::{Augment, Length, Loader, Scaling, Shape, Steps};
use phalanx::exchange::Kind;
use phalanx::nn::{Crew, Init, Spec, zoo};
use phalanx::optim::{Rule, Schedule};
use phalanx::train::{OnNan, Parts, Reduce, Trainer};

use super::contracts::sets;

thread_local! {
    /// Allocations of this thread.
    static COUNT: Cell<u64> = const { Cell::new(0) };
    /// Bytes that this thread has allocated and not given back, and the most that these were.
    static HELD: Cell<(i64, i64)> = const { Cell::new((0, 0)) };
}

/// Notes that this thread holds more or less than before.
fn hold(bytes: i64) {
    // A thread that is ending has no counters any more.
    let _ = HELD.try_with(|held| {
        let (now, most) = held.get();
        held.set((now + bytes, most.max(now + bytes)));
    });
}

struct Counting;

#[global_allocator]
static ALLOCATOR: Counting = Counting;

// SAFETY: everything is left to the system's allocator.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // A thread that is ending has no counter any more.
        let _ = COUNT.try_with(|count| count.set(count.get() + 1));
        hold(layout.size() as i64);
        // SAFETY: the caller keeps the contract.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        hold(-(layout.size() as i64));
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

/// A part of a PNG file.
fn part(name: &[u8; 4], content: &[u8]) -> Vec<u8> {
    let mut crc = Crc::new();
    crc.update(name);
    crc.update(content);
    let length = (content.len() as u32).to_be_bytes();
    [&length, &name[..], content, &crc.sum().to_be_bytes()].concat()
}

fn packed(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = ZlibEncoder::new(Vec::new(), Compression::best());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

/// A profile of three megabytes in a photo of 64 pixels became three gigabytes.
#[test]
fn a_packed_profile_costs_a_photo_no_memory() {
    let (shape, plain) = (Shape { c: 3, h: 8, w: 8 }, [7; 8 * (1 + 3 * 8)]);
    // Each row begins with how it is filtered: 0, not at all.
    let rows: Vec<u8> = (plain.chunks(25))
        .flat_map(|row| [&[0], &row[1..]].concat())
        .collect();
    let photo = |profile: usize| {
        let head = [0, 0, 0, 8, 0, 0, 0, 8, 8, 2, 0, 0, 0];
        let profile = [&b"x\0\0"[..], &packed(&vec![0; profile])].concat();
        let parts = [
            part(b"IHDR", &head),
            part(b"iCCP", &profile),
            part(b"zTXt", &profile),
            part(b"IDAT", &packed(&rows)),
            part(b"IEND", &[]),
        ];
        [&b"\x89PNG\r\n\x1a\n"[..], &parts.concat()].concat()
    };
    for profile in [1000, 200 << 20] {
        let file = photo(profile);
        let before = HELD.get().0;
        HELD.set((before, before));
        let made = pixels(&file, shape, Fit::Crop, 1 << 26);
        let most = HELD.get().1 - before;
        assert_eq!(made.unwrap(), [7; 3 * 64]);
        let bound = 12 * 64 + 4 * file.len() as i64 + (2 << 20);
        assert!(most < bound, "{most} of {bound} for {profile}");
    }
}
