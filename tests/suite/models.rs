//! Models: their sizes, their gradients, and how they are described in files.

use std::path::Path;

use phalanx::data::{Batch, Dataset, Scaling, Shape};
use phalanx::nn::{Draw, Spec, Tally, zoo};

const DIGIT: Shape = Shape { c: 1, h: 28, w: 28 };
const PHOTO: Shape = Shape {
    c: 3,
    h: 224,
    w: 224,
};

#[test]
fn models_have_the_published_numbers_of_parameters() {
    let params = |name, shape, classes| zoo::build(name, shape, classes).unwrap().params();
    assert_eq!(params("softmax", DIGIT, 10), 7_850);
    assert_eq!(params("lenet", DIGIT, 10), 61_706);
    assert_eq!(params("alexnet", PHOTO, 1000), 61_100_840);
}

#[test]
fn a_model_survives_being_written_down() {
    for name in zoo::NAMES {
        let spec = zoo::spec(name).unwrap();
        assert_eq!(Spec::parse(&spec.text()).unwrap(), spec);
    }
}

#[test]
fn what_is_wrong_in_a_description_is_named_with_its_line() {
    let wrong = |text: &str, words: &[&str]| {
        let problem = Spec::parse(text).unwrap_err();
        words
            .iter()
            .for_each(|word| assert!(problem.contains(word), "{word} in\n{problem}"));
    };
    wrong(
        "name = \"a\"\n\n[[layer]]\nkind = \"conv3d\"\n",
        &["line 4", "conv3d", "conv2d"],
    );
    wrong(
        "name = \"a\"\n[[layer]]\nkind = \"linear\"\nsize = 3\n",
        &["line", "size"],
    );
    wrong(
        "name = \"a\"\n[[layer]]\nkind = \"max_pool\"\n",
        &["kernel"],
    );
    wrong("name = \"a/b\"\n[[layer]]\nkind = \"linear\"\n", &["a/b"]);
    wrong("name = \"a\"\nlayer = []\n", &["at least one layer"]);
}

#[test]
fn an_impossible_layer_is_named() {
    let small = Shape { c: 1, h: 8, w: 8 };
    let problem = zoo::build("lenet", small, 10).err().unwrap().to_string();
    assert!(
        problem.contains("layer 3 of lenet (conv2d)") && problem.contains("6×4×4"),
        "{problem}"
    );
}

/// Central differences over a sample of the parameters of every tensor, in training: a rectifier or a maximum that
/// turns within a step of `h` is what `tolerance` has to allow for.
fn gradients_match_central_differences(text: &str, h: f32, tolerance: f64) {
    let fixture = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/contiguous.h5");
    let data = Dataset::open(&fixture).unwrap();
    let mut model = Spec::parse(text)
        .unwrap()
        .build(data.shape, data.classes)
        .unwrap();
    let mut batch = Batch::new(&data, &Scaling::normal(&[0.4], &[0.3]));
    batch.gather(&data, 0..10).unwrap();
    let (params, tensors) = (model.init(5), model.tensors().to_vec());
    let mut gradients = |params: &[f32]| {
        let mut grads = vec![f32::NAN; params.len()];
        let tally: Tally = model.gradients(params, &batch, Draw::default(), 1.0, None, &mut grads);
        (tally.loss, grads)
    };
    let (_, grads) = gradients(&params);
    for tensor in tensors {
        for i in tensor
            .range
            .clone()
            .step_by((tensor.range.len() / 5).max(1))
        {
            let mut loss = |step: f32| {
                let mut moved = params.clone();
                moved[i] += step;
                gradients(&moved).0
            };
            let slope = (loss(h) - loss(-h)) / f64::from(2.0 * h);
            let error = (slope - f64::from(grads[i])).abs();
            assert!(
                error < tolerance * (1.0 + slope.abs()),
                "{} at {i}: {slope}, {}",
                tensor.name,
                grads[i]
            );
        }
    }
}

#[test]
fn gradients_of_stacked_layers_match_central_differences() {
    let text = "name = \"all\"\n\
        [[layer]]\nkind = \"conv2d\"\noutputs = 3\nkernel = 3\npad = 1\n\
        [[layer]]\nkind = \"tanh\"\n\
        [[layer]]\nkind = \"max_pool\"\nkernel = 2\n\
        [[layer]]\nkind = \"conv2d\"\noutputs = 4\nkernel = 2\nstride = 2\n\
        [[layer]]\nkind = \"relu\"\n\
        [[layer]]\nkind = \"average_pool\"\nkernel = 2\nstride = 1\npad = 1\n\
        [[layer]]\nkind = \"linear\"\noutputs = 9\n\
        [[layer]]\nkind = \"tanh\"\n\
        [[layer]]\nkind = \"linear\"\n";
    gradients_match_central_differences(text, 2e-3, 2e-2);
}

#[test]
fn gradients_of_stacked_normalisations_match_central_differences() {
    let text = "name = \"normal\"\n\
        [[layer]]\nkind = \"batch_norm\"\n\
        [[layer]]\nkind = \"conv2d\"\noutputs = 4\nkernel = 3\npad = 1\n\
        [[layer]]\nkind = \"batch_norm\"\n\
        [[layer]]\nkind = \"tanh\"\n\
        [[layer]]\nkind = \"local_response\"\nsize = 3\nalpha = 1.5\nk = 1\n\
        [[layer]]\nkind = \"average_pool\"\nkernel = 2\n\
        [[layer]]\nkind = \"conv2d\"\noutputs = 5\nkernel = 2\n\
        [[layer]]\nkind = \"batch_norm\"\n\
        [[layer]]\nkind = \"tanh\"\n\
        [[layer]]\nkind = \"global_average_pool\"\n\
        [[layer]]\nkind = \"flatten\"\n\
        [[layer]]\nkind = \"dropout\"\nrate = 0.2\n\
        [[layer]]\nkind = \"linear\"\n";
    gradients_match_central_differences(text, 2e-3, 2e-3);
}

#[test]
fn a_batch_cut_in_two_gives_the_same_gradients() {
    let fixture = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/contiguous.h5");
    let data = Dataset::open(&fixture).unwrap();
    let spec = "name = \"a\"\n[[layer]]\nkind = \"conv2d\"\noutputs = 5\nkernel = 3\n[[layer]]\nkind = \"relu\"\n\
        [[layer]]\nkind = \"max_pool\"\nkernel = 3\nstride = 2\n[[layer]]\nkind = \"linear\"\n";
    let mut model = Spec::parse(spec)
        .unwrap()
        .build(data.shape, data.classes)
        .unwrap();
    let params = model.init(1);
    let mut gradients = |range: std::ops::Range<usize>| {
        let mut batch = Batch::new(&data, &Scaling::unit(1));
        batch.gather(&data, range).unwrap();
        let mut grads = vec![0.0; params.len()];
        model.gradients(&params, &batch, Draw::default(), 1.0, None, &mut grads);
        grads
    };
    let (whole, first, second) = (gradients(0..20), gradients(0..7), gradients(7..20));
    for i in 0..params.len() {
        let sum = first[i] + second[i];
        assert!(
            (whole[i] - sum).abs() < 1e-4 * (1.0 + sum.abs()),
            "{i}: {} and {sum}",
            whole[i]
        );
    }
}
