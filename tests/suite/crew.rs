//! The threads of a rank: the same results for any number of them, to the last bit for the same number.

use phalanx::backend::cpu::linear::{self, Geometry};
use phalanx::backend::cpu::{Input, one_blas_thread};
use phalanx::comm::run_ranks;
use phalanx::data::{Batch, Images, Scaling, Shape};
use phalanx::exchange::Kind;
use phalanx::nn::{Crew, Draw, Init, Spec, zoo};

use crate::contracts::threads::{assert_near, normal, run};

/// LeNet has fewer parameters than are worth adding up on several threads, this more; and layers by BLAS.
const WIDE: &str = "name = \"wide\"\n\
    [[layer]]\nkind = \"linear\"\noutputs = 150\n\
    [[layer]]\nkind = \"relu\"\n\
    [[layer]]\nkind = \"linear\"\n";

#[test]
fn any_number_of_threads_trains_the_same_parameters() {
    // As the program does; another test that did so between two runs would change their last bits.
    one_blas_thread();
    let specs = [
        zoo::spec("lenet").unwrap(),
        Spec::parse(WIDE).unwrap(),
        normal(false),
    ];
    run_ranks(1, |comm| {
        for spec in &specs {
            let train = |threads| run(comm, Kind::NodeShared, (spec, threads));
            let single = train(1);
            for threads in [2, 3] {
                let trainer = train(threads);
                let what = format!("{}, {threads} threads", spec.name);
                assert_near(&trainer, &single, &what);
                assert_eq!(trainer.checksum(), train(threads).checksum(), "{what}");
            }
        }
    });
}

/// Samples of float pixels, the last one's as large as `last`.
fn batch(shape: Shape, n: usize, last: f32) -> Batch {
    let mut pixels: Vec<f32> = (0..n * shape.len())
        .map(|i| (i % 13) as f32 / 13.0)
        .collect();
    pixels[(n - 1) * shape.len()..].fill(last);
    let labels = (0..n as u32).map(|i| i % 10).collect();
    Batch::of(Images::Floats(pixels), Scaling::unit(1), labels)
}

#[test]
fn any_number_of_threads_evaluates_alike_and_names_the_same_fault() {
    let shape = Shape { c: 1, h: 28, w: 28 };
    run_ranks(1, |comm| {
        let seen = [1, 2, 3, 9].map(|threads| {
            let model = normal(false).build(shape, 10).unwrap();
            let params = model.init(Init::default(), 1);
            let mut crew = Crew::new(model, threads).unwrap();
            assert_eq!(crew.threads(), threads);
            let good = batch(shape, 7, 1.0);
            let tally = crew.evaluate(&params, &good);
            // Too large for the first layer, whose sums overflow; batch norm carries that to every sample.
            let bad = batch(shape, 7, 3e38);
            let mut grads = vec![0.0; params.len()];
            let draw = Draw::default();
            let of_bad = crew.gradients(&params, &bad, draw, 1.0, comm, &mut grads);
            let fault = crew.fault(&params, &bad, of_bad, &grads).unwrap();
            let of_good = crew.gradients(&params, &good, draw, 1.0, comm, &mut grads);
            assert_eq!(crew.fault(&params, &good, of_good, &grads), None);
            grads[0] = f32::NAN;
            let in_grads = crew.fault(&params, &good, of_good, &grads).unwrap();
            (tally.correct, tally.count, fault.what, in_grads.what)
        });
        assert_eq!(seen[0].1, 7);
        assert_eq!(seen[0].2, "the output of layer 0 (conv2d)");
        assert_eq!(seen[0].3, "the gradient of 0.conv2d.weight");
        assert!(seen.iter().all(|other| *other == seen[0]), "{seen:?}");
    });
}

#[test]
fn blas_gives_every_thread_its_own_right_product() {
    one_blas_thread();
    let g = Geometry {
        n: 60,
        ci: 400,
        co: 300,
    };
    let product = |thread: usize| {
        let value = |i: usize| ((i * 7 + thread) % 11) as f32 - 5.0;
        let x: Vec<f32> = (0..g.n * g.ci).map(value).collect();
        let w: Vec<f32> = (0..g.co * g.ci).map(value).collect();
        let mut y = vec![0.0; g.n * g.co];
        linear::forward(g, Input::Floats(&x), &w, &vec![0.0; g.co], &mut y);
        // Whole numbers: sums are exact in any order.
        let dot = |s: usize, o: usize| (0..g.ci).map(|i| x[s * g.ci + i] * w[o * g.ci + i]).sum();
        let truth: f32 = dot(g.n - 1, 17);
        assert_eq!(y[(g.n - 1) * g.co + 17], truth);
        y
    };
    let alone: Vec<_> = (0..4).map(product).collect();
    std::thread::scope(|scope| {
        for (thread, alone) in alone.iter().enumerate() {
            scope.spawn(move || (0..50).for_each(|_| assert!(product(thread) == *alone)));
        }
    });
}
