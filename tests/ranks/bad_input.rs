//! Bad input to training and evaluation: each gets a clear error, the right exit code, and no rank hangs.

use std::fs;
use std::time::Duration;

use phalanx::data::sampler::Permutation;
use phalanx::h5::File;

use super::bad_sets::{floats, folder, number};
use super::launch;
use super::refused::{How, broke_off, digits, refused};

/// Jobs by name.
pub const JOBS: [(&str, fn()); 6] = [
    ("bad arguments of training are refused", arguments),
    ("a batch that memory cannot hold is refused at once", memory),
    ("bad run folders are refused", run_folders),
    ("pixels that are no numbers are named", pixels),
    ("a loss that is no number ends the run", divergence),
    ("bad runs and data for evaluation are refused", evaluation),
];

/// For runs that succeed.
const LONG: Duration = Duration::from_secs(60);

const THREE: How = How::Ranks(3);
const TRAIN: &str = "train softmax good.h5 --out run";

fn arguments() {
    let folder = folder();
    let cases: [(&str, &[&str]); 65] = [
        ("--batch 0", &["--batch", "must be at least 1"]),
        ("--batch 18446744073709551615", &["--batch"]),
        (
            "--global-batch 0",
            &["--global-batch", "must be at least 1"],
        ),
        (
            "--global-batch 2",
            &["--global-batch 2 is less than one sample for each of 3 ranks"],
        ),
        ("--batch 5 --global-batch 15", &["cannot be used with"]),
        ("--lr 0", &["--lr", "above 0 and finite"]),
        ("--lr nan", &["--lr", "above 0 and finite"]),
        ("--lr 1e39", &["--lr", "1e39"]),
        ("--lr 1e-60", &["--lr", "1e-60"]),
        ("--lr fast", &["--lr", "expected a number"]),
        ("--steps 0", &["--steps", "must be at least 1"]),
        ("--epochs 1.5", &["--epochs", "expected a whole number"]),
        ("--until-loss 0.5", &["--test"]),
        ("--early-stop 3", &["--test"]),
        ("--keep-best", &["--test", "--validation"]),
        ("--validation 0", &["--validation", "above 0"]),
        ("--validation 1", &["--validation", "below 1"]),
        ("--validation 1e-9", &["puts 0 of", "both parts need one"]),
        ("--placement rank0", &["--exchange one-sided"]),
        ("--overlap", &["--overlap needs --exchange all-reduce"]),
        (
            "--overlap --exchange all-reduce --threads 2",
            &["--overlap and --threads"],
        ),
        ("--racy", &["--racy needs --exchange one-sided"]),
        ("--staleness 3", &["--staleness needs --exchange one-sided"]),
        (
            "--exchange one-sided --staleness some",
            &["--staleness", "or inf"],
        ),
        ("--exchange one-sided --racy --placement rank0", &["--racy"]),
        ("--elastic 0.5", &["--sync-every"]),
        ("--sync-every 5 --elastic 1", &["--elastic", "below 1"]),
        (
            "--sync-every 5 --exchange all-reduce",
            &["leave --exchange out"],
        ),
        ("--aggregate 3", &["N-of-P"]),
        ("--aggregate 4-of-3", &["too many"]),
        ("--aggregate 3-of-4", &["3-of-4: there are 3 ranks"]),
        ("--record", &["--record needs --exchange one-sided"]),
        (
            "--record --exchange one-sided --racy",
            &["leave --racy and --placement out"],
        ),
        (
            "--reproducible --exchange one-sided",
            &["--record", "phalanx replay"],
        ),
        ("--reproducible --virtual-shards 6", &["power of two"]),
        ("--reproducible", &["8 shards", "3 ranks", "1, 2, 4 or 8"]),
        ("--exchange pigeon", &["pigeon", "all-reduce"]),
        ("--optimizer adagrad", &["adagrad", "adamw"]),
        (
            "--momentum 0.5",
            &["--optimizer momentum, nesterov or lars"],
        ),
        (
            "--optimizer momentum --momentum 1",
            &["--momentum", "below 1"],
        ),
        ("--trust 0.01", &["--optimizer lars"]),
        (
            "--optimizer lars --clip-norm 1",
            &["--clip-norm has no use with lars"],
        ),
        ("--beta2 0.9", &["--optimizer adam or adamw"]),
        ("--weight-decay=-1", &["--weight-decay", "at least 0"]),
        ("--clip-norm 0", &["--clip-norm", "above 0"]),
        ("--schedule step", &["--decay-epochs or --decay-every"]),
        ("--decay-every 2", &["--schedule step"]),
        (
            "--schedule step --decay-epochs 2,x",
            &["--decay-epochs", "expected a whole number"],
        ),
        (
            "--schedule step --decay-every 2 --decay-factor 1.5",
            &["--decay-factor", "below 1"],
        ),
        ("--lr-floor 0.01", &["--schedule cosine"]),
        (
            "--schedule cosine --lr-floor 0.5",
            &["--lr-floor 0.5 is above the learning rate 0.1"],
        ),
        (
            "--schedule cosine --test good.h5 --until-loss 0.5",
            &["--epochs or --steps"],
        ),
        ("--lr-per 100 --reduce sum", &["--lr-per", "--reduce sum"]),
        (
            "--lr 1e38 --lr-per 1",
            &["--lr 1e38", "inf for the 300 of a step"],
        ),
        ("--batch-limit 500", &["--grow-batch"]),
        ("--grow-batch schedule", &["needs --schedule step"]),
        (
            "--grow-batch schedule --schedule step --decay-every 1 --decay-factor 0.95",
            &["--decay-factor of at most 0.9"],
        ),
        (
            "--grow-batch noise --batch-limit 299",
            &["--batch-limit 299 is below the 300 samples"],
        ),
        (
            "--grow-batch noise --exchange one-sided",
            &["2 ranks or more", "such as node-shared"],
        ),
        ("--noise-scale --exchange one-sided", &["2 ranks or more"]),
        (
            "--augment blur",
            &["--augment", "there is no `blur`", "crop"],
        ),
        ("--augment flip,flip", &["`flip` is there twice"]),
        ("--augment crop=2", &["`crop=2`", "up to 1"]),
        ("--augment", &["--augment", "LIST"]),
        ("--speed 9", &["unexpected argument '--speed'"]),
    ];
    for (flags, says) in cases {
        let args = format!("{TRAIN} {flags}");
        refused(folder.path(), THREE, &[(&args, 2, says)]);
    }
    refused(
        folder.path(),
        THREE,
        &[
            ("train resnet-9000 good.h5", 2, &["resnet-9000", "softmax"]),
            ("train softmax", 2, &["<DATA>"]),
            (
                "train softmax good.h5 --validation 0.97",
                1,
                &["samples to train on in good.h5", "3 ranks", "got 2"],
            ),
            ("trian softmax good.h5", 2, &["trian", "train"]),
        ],
    );
}

fn memory() {
    let folder = tempfile::tempdir().unwrap();
    digits(&folder.path().join("good.h5"), 20_000, 1);
    // 77 MB a sample, 1.5 TB for all of them; 4 MB of parameters.
    let wide = "name = \"wide\"\n[[layer]]\nkind = \"conv2d\"\noutputs = 100000\nkernel = 1\n\
        [[layer]]\nkind = \"max_pool\"\nkernel = 8\n[[layer]]\nkind = \"linear\"\n";
    fs::write(folder.path().join("wide.toml"), wide).unwrap();
    // Ten trillion parameters.
    let deep = "name = \"deep\"\n[[layer]]\nkind = \"linear\"\noutputs = 10000000\n\
        [[layer]]\nkind = \"linear\"\noutputs = 100000\n[[layer]]\nkind = \"linear\"\n";
    fs::write(folder.path().join("deep.toml"), deep).unwrap();
    // 3 GB of parameters, and as many gradients for each thread.
    let broad = "name = \"broad\"\n[[layer]]\nkind = \"linear\"\noutputs = 10000000\n\
        [[layer]]\nkind = \"linear\"\n";
    fs::write(folder.path().join("broad.toml"), broad).unwrap();
    let step = "a step of 20000 samples needs";
    for how in [How::Plain, THREE] {
        let cases: [(&str, i32, &[&str]); 3] = [
            (
                "train --model-file wide.toml good.h5 --batch 10_000_000",
                1,
                &[step, "at most", "samples a step fit", "--batch"],
            ),
            (
                "train --model-file deep.toml good.h5",
                1,
                &["fits with no batch"],
            ),
            (
                "train --model-file broad.toml good.h5 --threads 1024",
                1,
                &["TiB of memory", "fits with no batch"],
            ),
        ];
        refused(folder.path(), how, &cases);
    }
}

fn run_folders() {
    let folder = folder();
    let at = |name: &str| folder.path().join(name);
    let mut command = launch::phalanx(2, folder.path());
    command.args("train softmax good.h5 --epochs 1 --out old".split(' '));
    assert_eq!(launch::run(command, LONG).code, Some(0));
    fs::create_dir(at("letters")).unwrap();
    fs::write(at("letters/to-ada.txt"), "Dear Ada").unwrap();
    let train = "train softmax good.h5 --out";
    let cases: [(&str, &[&str]); 8] = [
        ("old", &["old exists already", "--force"]),
        ("letters", &["letters exists already"]),
        (
            "letters --force",
            &["letters: is a folder that is not a run"],
        ),
        ("good.h5", &["good.h5: is a file"]),
        ("good.h5 --force", &["good.h5: is a file"]),
        ("good.h5/run", &["good.h5/run", "Not a directory"]),
        ("/dev/null/run", &["/dev/null/run", "Not a directory"]),
        ("/proc/nowhere/run", &["/proc/nowhere/run", "No such file"]),
    ];
    for (out, says) in cases {
        refused(
            folder.path(),
            THREE,
            &[(&format!("{train} {out}"), 1, says)],
        );
    }
    // An older run is safe until everything that can be checked first has been.
    let case: (&str, i32, &[&str]) = (
        "train softmax missing.h5 --out old --force",
        1,
        &["missing.h5"],
    );
    refused(folder.path(), THREE, &[case]);
}

fn pixels() {
    let folder = folder();
    let at = |name: &str| folder.path().join(name);
    // Of the first step's 30 samples each rank takes 10; this one is the last rank's.
    let theirs = Permutation::new(30, 1, 0).at(25);
    for (name, value) in [("nan.h5", f32::NAN), ("inf.h5", f32::INFINITY)] {
        floats(&at(name), 30, &[(4 * theirs + 2, value)]);
        let pixel = format!("sample {theirs} has a pixel that is {value}");
        let place = "(channel 0, row 1, column 0)";
        let says = [name, &pixel, place, "rank 2"];
        let args = format!("train softmax {name} --batch 10 --out run");
        broke_off(folder.path(), THREE, (&args, 1, &says), true);
        let args = format!("{args} --exchange one-sided");
        broke_off(folder.path(), THREE, (&args, 1, &says[..3]), false);
        floats(&at("fine.h5"), 30, &[]);
        for exchange in ["node-shared", "all-reduce", "one-sided"] {
            let args = format!(
                "train softmax fine.h5 --test {name} --eval-every 1 --steps 90 --out run --exchange {exchange}"
            );
            broke_off(folder.path(), THREE, (&args, 1, &says[..3]), false);
        }
        let args = format!("data describe {name}");
        refused(folder.path(), How::Plain, &[(&args, 1, &says[..3])]);
    }
}

fn divergence() {
    let folder = folder();
    let at = |name: &str| folder.path().join(name);
    let hint = "try a smaller --lr (a tenth of this one)";
    for exchange in ["node-shared", "all-reduce", "one-sided"] {
        let args = format!("{TRAIN} --batch 10 --lr 3e38 --exchange {exchange}");
        let says = [
            "the output of layer 0 (linear) became ",
            " at step ",
            "(learning rate 3e38)",
            hint,
        ];
        let once = exchange != "one-sided";
        broke_off(folder.path(), THREE, (&args, 1, &says), once);
    }
    // A pixel of 1e30 makes the first step's gradient so large that its sample overflows in the second step, on the
    // rank that has it then: the others see good losses of their own, and must not be the ones that are named.
    let big = 7;
    floats(&at("big.h5"), 30, &[(4 * big, 1e30)]);
    let second = Permutation::new(30, 1, 1);
    let rank = (0..30).position(|k| second.at(k) == big).unwrap() / 10;
    let what = "the output of layer 0 (linear) became ";
    let says = [
        &format!("error: rank {rank}: {what}"),
        &format!(" at step 2 on rank {rank}"),
        hint,
    ];
    let args = "train softmax big.h5 --batch 10 --out run";
    broke_off(folder.path(), THREE, (args, 1, &says), true);
    // Told to, the run goes on without that step, and each later one with that sample.
    let mut command = launch::phalanx(3, folder.path());
    command.args(format!("{args} --epochs 4 --on-nan skip").split(' '));
    let ended = launch::run(command, LONG);
    let skipped = format!("step skipped: {what}");
    assert!(
        ended.code == Some(0) && ended.output.contains(&skipped),
        "{}",
        ended.output
    );
    let result = fs::read_to_string(at("run/result.toml")).unwrap();
    assert!(result.contains("skipped = 3\n"), "{result}");
    fs::remove_dir_all(at("run")).unwrap();
    // The last update is not followed by a loss that would show what it did.
    let args = format!("{TRAIN} --steps 1 --lr 3e38 --test good.h5");
    let says = ["the test loss became NaN at step 1 (", hint];
    broke_off(folder.path(), THREE, (&args, 1, &says), true);
    let args = "train softmax big.h5 --steps 1 --lr 3e38 --out run";
    let says = [
        "a parameter in 0.linear.weight became ",
        " at step 1 (",
        hint,
    ];
    broke_off(folder.path(), THREE, (args, 1, &says), true);
}

fn evaluation() {
    let folder = folder();
    let at = |name: &str| folder.path().join(name);
    let mut command = launch::phalanx(1, folder.path());
    command.args("train softmax good.h5 --epochs 1 --out old".split(' '));
    assert_eq!(launch::run(command, LONG).code, Some(0));
    let model = |name: &str| {
        fs::create_dir(at(name)).unwrap();
        at(name).join("model.h5")
    };
    fs::create_dir(at("hollow")).unwrap();
    fs::copy(at("good.h5"), model("other")).unwrap();
    let whole = fs::read(at("old/model.h5")).unwrap();
    fs::write(model("cut"), &whole[..whole.len() / 2]).unwrap();
    let file = File::create(&model("future")).unwrap();
    file.set_text("format", "phalanx model").unwrap();
    number(&file, "version", 1);
    file.set_text("model", "oracle").unwrap();
    file.set_numbers("input", &[1u64, 8, 8]).unwrap();
    number(&file, "classes", 10);
    file.close().unwrap();
    floats(&at("small.h5"), 8, &[]);
    refused(
        folder.path(),
        THREE,
        &[
            ("eval gone good.h5", 1, &["cannot open run folder gone"]),
            ("eval good.h5 good.h5", 1, &["run folder good.h5"]),
            ("eval hollow good.h5", 1, &["hollow/model.h5"]),
            (
                "eval other good.h5",
                1,
                &["other/model.h5", "is not a model that phalanx wrote"],
            ),
            (
                "eval cut good.h5",
                1,
                &["cut/model.h5", "damaged or cut short"],
            ),
            (
                "eval future good.h5",
                1,
                &["future/model.h5", "its model cannot be read"],
            ),
            ("eval old missing.h5", 1, &["missing.h5", "No such file"]),
            (
                "eval old small.h5",
                1,
                &["samples of small.h5", "1×8×8", "got 1×2×2"],
            ),
            ("eval old", 2, &["<DATA>"]),
        ],
    );
}
