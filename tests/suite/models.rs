//! Models: their sizes, their gradients, and how they are described in files.

use std::path::Path;

use phalanx::data::{Batch, Dataset, Scaling, Shape};
use phalanx::nn::zoo::{self, Activation, Choice, Options};
use phalanx::nn::{Draw, Init, Peers, Spec, Tally};

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
    let relu = "name = \"a\"\n[[layer]]\nkind = \"relu\"\n\n";
    let wrong = |text: &str, message: &str| {
        let problem = Spec::parse(text).unwrap_err();
        assert!(problem.starts_with(message), "{message} is not\n{problem}");
    };
    let layer = |text: &str, message: &str| wrong(&format!("{relu}[[layer]]\n{text}"), message);
    layer(
        "kind = \"conv3d\"\n",
        "line 6: layer 1 (conv3d): unknown variant `conv3d`, expected one of `conv2d`, `linear`",
    );
    layer(
        "kind = \"linear\"\nsize = 3\n",
        "line 7: layer 1 (linear): unknown field `size`",
    );
    // Kinds without fields of their own took any.
    layer(
        "kind = \"tanh\"\nslope = 3\n",
        "line 7: layer 1 (tanh): unknown field `slope`",
    );
    layer(
        "kind = \"max_pool\"\n",
        "line 5: layer 1 (max_pool): missing field `kernel`",
    );
    layer(
        "kind = \"conv2d\"\noutputs = 3\nkernel = \"3\"\n",
        "line 8: layer 1 (conv2d): invalid type: string \"3\"",
    );
    layer("outputs = 3\n", "line 5: layer 1: missing field `kind`");
    wrong(
        "name = \"a/b\"\n[[layer]]\nkind = \"linear\"\n",
        "line 1: name `a/b`",
    );
    wrong(
        "name = \"a\"\nlayer = []\n",
        "line 1: a model needs at least one layer",
    );
    wrong("name = \"a\"\nsize = 3\n", "line 2: unknown field `size`");
    wrong("\nname = \"a\n", "line 2: ");
}

#[test]
fn what_is_wrong_in_a_model_file_is_named_with_file_and_line() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("net.toml");
    let refused = |text: &str| {
        std::fs::write(&path, text).unwrap();
        let built = Choice::File(path.clone()).build(DIGIT, 10);
        let message = built.err().unwrap().to_string();
        let place = format!("{}, ", path.display());
        message.strip_prefix(&place).unwrap().to_owned()
    };
    let conv = "name = \"a\"\n\n[[layer]]\nkind = \"conv2d\"\noutputs = 3\n";
    assert_eq!(
        refused(conv),
        "line 3: layer 0 (conv2d): missing field `kernel`"
    );
    let pool = "[[layer]]\nkind = \"max_pool\"\nkernel = 30\n";
    assert_eq!(
        refused(&format!("{conv}kernel = 3\n{pool}")),
        "line 7: layer 1 (max_pool): expected room for a 30×30 window with padding 0, got an input of 3×26×26"
    );
    assert_eq!(
        refused(&format!("{conv}kernel = 3\n")),
        "line 3: layer 0 (conv2d): expected 10 outputs, one for each class, got 2028"
    );
    let norm = "[[layer]]\nkind = \"batch_norm\"\neps = 0\n";
    let message = refused(&format!("{conv}kernel = 3\n{norm}"));
    assert!(
        message.starts_with("line 7: layer 1 (batch_norm): expected a momentum"),
        "{message}"
    );
}

#[test]
fn options_change_the_models_that_have_them() {
    let kinds = |name: &str, options| {
        let spec = Choice::Named(name.into(), options).spec()?;
        let text = spec.text();
        let count = |kind: &str| text.matches(&format!("kind = \"{kind}\"")).count();
        Ok::<_, phalanx::Error>((
            spec.name,
            count("relu"),
            count("tanh"),
            count("local_response"),
        ))
    };
    let tanh = Options {
        activation: Some(Activation::Tanh),
        response_norm: false,
    };
    let norm = Options {
        activation: None,
        response_norm: true,
    };
    assert_eq!(
        kinds("lenet", tanh).unwrap(),
        ("lenet-tanh".into(), 0, 4, 0)
    );
    assert_eq!(kinds("mlp", tanh).unwrap(), ("mlp-tanh".into(), 0, 2, 0));
    assert_eq!(
        kinds("alexnet", norm).unwrap(),
        ("alexnet-response-norm".into(), 7, 0, 2)
    );
    let why = |name: &str, options| kinds(name, options).unwrap_err().to_string();
    assert!(why("softmax", tanh).contains("--activation is for mlp and lenet"));
    assert!(why("alexnet", tanh).contains("--activation is for mlp and lenet"));
    assert!(why("lenet", norm).contains("--response-norm is for alexnet"));
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

#[test]
fn flowers_takes_photos_of_any_size_from_sixteen() {
    let photo = |h, w| zoo::build("flowers", Shape { c: 3, h, w }, 17);
    for (h, w) in [(16, 16), (37, 100)] {
        assert_eq!(photo(h, w).unwrap().params(), 391_946 + 7 * 257);
    }
    let problem = photo(15, 100).err().unwrap().to_string();
    assert_eq!(
        problem,
        "images for flowers: expected at least 16×16 pixels, got 3×15×100"
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
    let (params, tensors) = (model.init(Init::default(), 5), model.tensors().to_vec());
    let mut gradients = |params: &[f32]| {
        let mut grads = vec![f32::NAN; params.len()];
        let tally: Tally = model.gradients(
            params,
            batch.all(),
            Draw::default(),
            1.0,
            Peers::default(),
            &mut grads,
        );
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
    let params = model.init(Init::default(), 1);
    let mut gradients = |range: std::ops::Range<usize>| {
        let mut batch = Batch::new(&data, &Scaling::unit(1));
        batch.gather(&data, range).unwrap();
        let mut grads = vec![0.0; params.len()];
        model.gradients(
            &params,
            batch.all(),
            Draw::default(),
            1.0,
            Peers::default(),
            &mut grads,
        );
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
