//! Whole jobs of the program, as a user starts them.

use std::fs;

use crate::job::{csv, folder, job, number, toml};

/// Jobs by name.
pub const JOBS: [(&str, fn()); 9] = [
    (
        "a synchronous run leaves a whole run folder",
        synchronous_run,
    ),
    (
        "an asynchronous run shows each rank's share",
        asynchronous_run,
    ),
    (
        "ranks and batches of one size give one result",
        ranks_and_batches,
    ),
    (
        "a run repeated from its settings gives the same bits",
        repeated_run,
    ),
    (
        "the run folder shows optimizer and rate of every step",
        optimizers,
    ),
    ("training until a loss says between which steps", until_loss),
    (
        "the run folder keeps the best of a run that stopped early",
        early_stop,
    ),
    ("runs without a name get the next free one", default_names),
    (
        "no rank holds parameters of its own beside gradients",
        memory_of_ranks,
    ),
];

fn synchronous_run() {
    let folder = folder();
    let printed = job(
        3,
        folder.path(),
        "train softmax train.h5 --test test.h5 --epochs 4 --lr 0.3 --out run --eval-every 10",
    );
    assert!(
        printed.starts_with("settings") && printed.contains("\nresult"),
        "{printed}"
    );
    let run = folder.path().join("run");
    let metrics = fs::read_to_string(run.join("metrics.csv")).unwrap();
    assert!(
        metrics.starts_with(
            "step,epoch,samples,seconds,loss,accuracy,lr,batch,noise_scale,samples_per_s,test_loss"
        ),
        "{metrics}"
    );
    let rows = csv(run.join("metrics.csv"));
    let tested: Vec<_> = rows
        .iter()
        .filter(|row| !row["test_loss"].is_empty())
        .collect();
    assert_eq!(
        tested
            .iter()
            .map(|row| number(row, "step"))
            .collect::<Vec<_>>(),
        [10.0, 20.0, 30.0, 40.0]
    );
    let first = rows.first().unwrap();
    assert!(
        number(first, "loss") > 1.5 && number(tested[3], "test_loss") < 1.2,
        "{metrics}"
    );
    assert_eq!(number(rows.last().unwrap(), "samples"), 12_000.0);

    let ranks = csv(run.join("ranks.csv"));
    assert_eq!(ranks.len(), 3);
    for rank in &ranks {
        assert_eq!(number(rank, "steps"), 40.0);
        assert_eq!(
            rank["checksum"], ranks[0]["checksum"],
            "every rank ends with the same bits"
        );
        assert!((number(rank, "share") - 1.0 / 3.0).abs() < 1e-9);
        assert!(number(rank, "test_accuracy") > 0.6);
        let times = ["compute_s", "exchange_s", "wait_s", "load_s"].map(|part| number(rank, part));
        assert!(times.iter().all(|&time| time >= 0.0) && times[0] > 0.0);
    }
    assert_eq!(
        ranks
            .iter()
            .map(|rank| number(rank, "samples"))
            .sum::<f64>(),
        12_000.0
    );

    let settings = toml(run.join("settings.toml"));
    assert_eq!(settings["ranks"].as_integer(), Some(3));
    assert_eq!(settings["resolved"]["step_batch"].as_integer(), Some(300));
    let accuracy = toml(run.join("result.toml"))["test_accuracy"]
        .as_float()
        .unwrap();
    // The stored model gives what the run said, on any number of ranks.
    for size in [1, 2] {
        let line = job(size, folder.path(), "eval run test.h5 --json");
        let result: serde_json::Value = serde_json::from_str(&line).unwrap();
        assert!(
            (result["accuracy"].as_f64().unwrap() - accuracy).abs() < 1e-9,
            "{line}"
        );
    }
}

fn asynchronous_run() {
    let folder = folder();
    for placement in ["sharded", "rank0"] {
        let words = format!(
            "train softmax train.h5 --test test.h5 --epochs 20 --batch 50 --exchange one-sided --placement {placement} --out {placement}"
        );
        job(3, folder.path(), &words);
        let ranks = csv(folder.path().join(placement).join("ranks.csv"));
        let steps: f64 = ranks.iter().map(|rank| number(rank, "steps")).sum();
        assert_eq!(steps, 20.0 * 60.0, "every step is taken once, by one rank");
        let shares: f64 = ranks.iter().map(|rank| number(rank, "share")).sum();
        assert!((shares - 1.0).abs() < 1e-9);
        assert!(
            ranks
                .iter()
                .all(|rank| rank["checksum"] == ranks[0]["checksum"])
        );
    }
    job(
        3,
        folder.path(),
        "train softmax train.h5 --test test.h5 --epochs 20 --global-batch 50 --out sync",
    );
    let accuracy = |name: &str| {
        toml(folder.path().join(name).join("result.toml"))["test_accuracy"]
            .as_float()
            .unwrap()
    };
    for placement in ["sharded", "rank0"] {
        let difference = (accuracy(placement) - accuracy("sync")).abs();
        assert!(
            difference < 0.02,
            "{placement} differs by {difference} from synchronous training"
        );
    }
}

fn ranks_and_batches() {
    let folder = folder();
    let runs = [
        (1, "--batch 120", "one"),
        (3, "--batch 40", "three"),
        (4, "--global-batch 120", "four"),
    ];
    let params = runs.map(|(size, batch, out)| {
        job(
            size,
            folder.path(),
            &format!("train softmax train.h5 --epochs 3 --lr 0.2 {batch} --out {out}"),
        );
        phalanx::nn::load(&folder.path().join(out).join("model.h5"))
            .unwrap()
            .1
    });
    for other in &params[1..] {
        let worst = params[0]
            .iter()
            .zip(other)
            .map(|(a, b)| (a - b).abs())
            .fold(0.0, f32::max);
        assert!(worst < 1e-5, "parameters differ by {worst}");
    }
}

fn repeated_run() {
    let folder = folder();
    job(
        2,
        folder.path(),
        "train softmax train.h5 --epochs 2 --seed 7 --out first",
    );
    let settings = toml(folder.path().join("first/settings.toml"));
    let words: Vec<&str> = settings["command"]
        .as_array()
        .unwrap()
        .iter()
        .map(|word| word.as_str().unwrap())
        .collect();
    let words = words[1..].join(" ").replace("--out first", "--out second");
    job(
        settings["ranks"].as_integer().unwrap() as usize,
        folder.path(),
        &words,
    );
    let bits = |run: &str| {
        toml(folder.path().join(run).join("result.toml"))["checksum"]
            .as_str()
            .unwrap()
            .to_owned()
    };
    assert_eq!(bits("first"), bits("second"));
    job(
        2,
        folder.path(),
        "train softmax train.h5 --epochs 2 --seed 8 --out third",
    );
    assert_ne!(bits("first"), bits("third"), "another seed is another run");
}

fn optimizers() {
    let folder = folder();
    let words = "train softmax train.h5 --test test.h5 --epochs 4 --global-batch 300 --log-every 1 --lr 0.1 --lr-per 100";
    let nesterov = "--optimizer nesterov --weight-decay 1e-4 --clip-norm 1 --warmup-epochs 1 --schedule cosine";
    let printed = job(
        2,
        folder.path(),
        &format!("{words} {nesterov} --out cosine"),
    );
    assert!(
        printed.contains("nesterov, momentum 0.9, weight decay 0.0001, gradients clipped to 1")
            && printed.contains("0.3 after 1 epochs of warm-up, by a cosine to 0"),
        "{printed}"
    );
    let settings = toml(folder.path().join("cosine/settings.toml"));
    let (optimizer, schedule) = (
        &settings["resolved"]["optimizer"],
        &settings["resolved"]["schedule"],
    );
    assert_eq!(optimizer["name"].as_str(), Some("nesterov"));
    assert_eq!(optimizer["momentum"].as_float(), Some(0.9));
    assert_eq!(schedule["decay"]["name"].as_str(), Some("cosine"));
    let rates: Vec<f64> = csv(folder.path().join("cosine/metrics.csv"))
        .iter()
        .map(|row| number(row, "lr"))
        .collect();
    assert_eq!(rates.len(), 40);
    // Ten steps up to 0.3, thirty down: half of it in the middle, almost nothing at the end.
    for (step, rate) in [(1, 0.03), (10, 0.3), (11, 0.3), (26, 0.15), (40, 0.00082)] {
        assert!((rates[step - 1] - rate).abs() < 1e-5, "{step}: {rates:?}");
    }
    for optimizer in ["sgd", "momentum", "adam", "adamw", "lars"] {
        for exchange in ["node-shared", "all-reduce", "one-sided"] {
            let out = format!("{optimizer}-{exchange}");
            let lr = if optimizer == "lars" { 1.0 } else { 0.01 };
            let words = format!(
                "train softmax train.h5 --test test.h5 --epochs 4 --batch 50 --optimizer {optimizer} --exchange {exchange} --lr {lr} --schedule step --decay-every 2 --out {out}"
            );
            job(2, folder.path(), &words);
            let result = toml(folder.path().join(&out).join("result.toml"));
            let loss = result["test_loss"].as_float().unwrap();
            assert!(loss < 2.2, "{out}: test loss {loss}");
        }
    }
}

fn early_stop() {
    let folder = folder();
    for exchange in ["node-shared", "one-sided"] {
        // A rate so high that the loss jumps about.
        let words = format!(
            "train softmax train.h5 --test test.h5 --lr 20 --batch 20 --eval-every 10 --early-stop 4 --keep-best --exchange {exchange} --out {exchange}"
        );
        let printed = job(2, folder.path(), &words);
        let run = folder.path().join(exchange);
        let losses: Vec<(f64, f64)> = csv(run.join("metrics.csv"))
            .iter()
            .filter(|row| !row["test_loss"].is_empty())
            .map(|row| (number(row, "step"), number(row, "test_loss")))
            .collect();
        let lowest = losses.iter().map(|(_, loss)| *loss).fold(9e9, f64::min);
        let best = losses.iter().position(|(_, loss)| *loss == lowest).unwrap();
        assert_eq!(
            best + 5,
            losses.len(),
            "four more after the best: {losses:?}"
        );
        let result = toml(run.join("result.toml"));
        let step = losses[best].0 as i64;
        assert_eq!(result["stale_since"].as_integer(), Some(step));
        let loss = result["test_loss"].as_float().unwrap();
        assert!(loss < lowest + 1e-5, "{loss} and {losses:?}");
        // What other ranks did after the last evaluation may have been better still.
        if exchange == "node-shared" {
            assert_eq!(result["best_step"].as_integer(), Some(step), "{printed}");
        }
        let line = job(1, folder.path(), &format!("eval {exchange} test.h5 --json"));
        let stored: serde_json::Value = serde_json::from_str(&line).unwrap();
        assert!(
            (stored["loss"].as_f64().unwrap() - loss).abs() < 1e-5,
            "{line}"
        );
    }
}

fn until_loss() {
    let folder = folder();
    let printed = job(
        2,
        folder.path(),
        "train softmax train.h5 --test test.h5 --lr 0.3 --until-loss 1.0 --eval-every 7 --out run",
    );
    let result = toml(folder.path().join("run/result.toml"));
    let step = result["target_step"].as_integer().unwrap();
    assert_eq!(step % 7, 0);
    assert!(printed.contains(&format!(
        "crossed between step {} and step {step} (evaluated every 7 steps)",
        step - 7
    )));
    let losses: Vec<f64> = csv(folder.path().join("run/metrics.csv"))
        .iter()
        .filter(|row| !row["test_loss"].is_empty())
        .map(|row| number(row, "test_loss"))
        .collect();
    let (last, before) = losses.split_last().unwrap();
    assert!(
        *last <= 1.0 && before.iter().all(|&loss| loss > 1.0),
        "{losses:?}"
    );
    let printed = job(
        2,
        folder.path(),
        "train softmax train.h5 --test test.h5 --until-loss 0.001 --steps 20 --out never",
    );
    assert!(
        printed.contains("test loss 0.001 was not reached"),
        "{printed}"
    );
    job(
        3,
        folder.path(),
        "train softmax train.h5 --test test.h5 --exchange one-sided --until-loss 1.0 --out async",
    );
    assert!(
        toml(folder.path().join("async/result.toml"))["test_loss"]
            .as_float()
            .unwrap()
            < 1.05
    );
}

fn default_names() {
    let folder = folder();
    for number in 1..=2 {
        let printed = job(2, folder.path(), "train softmax train.h5 --steps 3");
        assert!(
            printed.contains(&format!("runs/softmax-{number:03}")),
            "{printed}"
        );
    }
    let first = fs::read(folder.path().join("runs/softmax-001/metrics.csv")).unwrap();
    job(
        2,
        folder.path(),
        "train softmax train.h5 --steps 5 --out runs/softmax-001 --force",
    );
    assert_ne!(
        fs::read(folder.path().join("runs/softmax-001/metrics.csv")).unwrap(),
        first
    );
}

/// Once, eight ranks of AlexNet took 2.7 GB while they trained, and 4.6 GB before and after: parameters in shared memory
/// and gradients, and every rank's copy of the parameters beside them.
fn memory_of_ranks() {
    let folder = folder();
    let peaks = [100, 20_000].map(|hidden| {
        let layers = format!(
            "name = \"wide\"\n[[layer]]\nkind = \"linear\"\noutputs = {hidden}\n[[layer]]\nkind = \"linear\"\n"
        );
        fs::write(folder.path().join("wide.toml"), layers).unwrap();
        let words = format!(
            "train --model-file wide.toml train.h5 --batch 2 --steps 3 --exchange node-shared --no-tune --out {hidden}"
        );
        job(2, folder.path(), &words);
        let ranks = csv(folder.path().join(hidden.to_string()).join("ranks.csv"));
        let peaks = ranks.iter().map(|rank| number(rank, "memory_mb"));
        peaks.fold(0.0, f64::max)
    });
    let params = |hidden: f64| 4.0 * (784.0 + 1.0 + 10.0) * hidden / (1 << 20) as f64;
    let times = (peaks[1] - peaks[0]) / (params(20_000.0) - params(100.0));
    // The parameters, its gradients, and half of the other rank's.
    assert!(times < 2.8, "{times:.2} times the parameters: {peaks:?}");
}
