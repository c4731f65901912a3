//! Whole jobs on emulated GPUs: they train as on the CPU, and what goes wrong is told.

mod resumed;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::emulator::emulator;
use crate::job::{LIMIT, csv, good, job, number, toml};
use crate::launch::{Ended, phalanx, run};

/// Jobs by name.
pub const JOBS: [(&str, fn()); 12] = [
    (
        "devices: softmax, LeNet and a small AlexNet lose as on the CPU, on 1, 2 and 4 ranks and 1 to 4 devices",
        curves,
    ),
    ("devices: every optimizer moves as on the CPU", optimizers),
    (
        "devices: every exchange trains with a model on a device",
        exchanges,
    ),
    (
        "devices: gradients are added up where they are by an MPI that can",
        aware_mpi,
    ),
    (
        "devices: copies of batches and gradients run beside kernels, from and to pinned memory",
        streams,
    ),
    ("devices: products by cuBLAS are the same", cublas),
    (
        "devices: eval, matmul and bench compute there and say that it is an emulator",
        commands,
    ),
    (
        "devices: memory and kernels that fail end the job, saying so",
        failures,
    ),
    (
        "devices: a batch that does not fit is refused with the size that does",
        small_memory,
    ),
    ("devices: what is missing is named", missing),
    (
        "devices: a resumed run ends in the bits of the uninterrupted one",
        resumed::resumed,
    ),
    (
        "devices: what a device cannot do is refused, or left to the CPU",
        refusals,
    ),
];

/// The layers of AlexNet, on images of 28×28.
const ALEXNET: &str = r#"name = "small-alexnet"
layer = [
  { kind = "conv2d", outputs = 8, kernel = 5, stride = 2, pad = 1 },
  { kind = "relu" },
  { kind = "local_response" },
  { kind = "max_pool", kernel = 3, stride = 2 },
  { kind = "conv2d", outputs = 12, kernel = 3, pad = 1 },
  { kind = "relu" },
  { kind = "max_pool", kernel = 3, stride = 2 },
  { kind = "flatten" },
  { kind = "dropout", rate = 0.5 },
  { kind = "linear", outputs = 16 },
  { kind = "relu" },
  { kind = "linear" },
]
"#;

/// `mpirun -n SIZE phalanx WORDS` on the emulator with this setting.
fn emulated(size: usize, folder: &Path, setting: &[(&str, &str)], words: &str) -> Option<Ended> {
    let emulator = emulator()?;
    let mut command = phalanx(size, folder);
    command
        .args(words.split_whitespace())
        .env("LD_LIBRARY_PATH", &emulator)
        .env("XDG_CACHE_HOME", emulator.join("kept/jobs"))
        .envs(setting.iter().copied());
    Some(run(command, LIMIT))
}

/// A folder with sets of so few samples that an emulator is not slow.
fn folder() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    for (name, samples, first) in [("train.h5", 96, 0), ("test.h5", 24, 96)] {
        let words = format!("data make digits {name} --samples {samples} --first {first}");
        job(1, folder.path(), &words);
    }
    fs::write(folder.path().join("alexnet.toml"), ALEXNET).unwrap();
    folder
}

/// The losses that a run wrote down, of training and of the test set.
fn losses(run: PathBuf) -> Vec<[f64; 2]> {
    let rows = csv(run.join("metrics.csv"));
    let tested = |row: &std::collections::BTreeMap<String, String>| match row["test_loss"].as_str()
    {
        "" => 0.0,
        _ => number(row, "test_loss"),
    };
    let pair = |row| [number(row, "loss"), tested(row)];
    rows.iter().map(pair).collect()
}

/// Runs the same training on the CPU and on emulated devices; their losses must be near at every step.
fn compare(folder: &Path, (ranks, devices): (usize, &str), words: &str) {
    let always = format!("train {words} --test test.h5 --log-every 1 --force --no-tune --device");
    let cpu = format!("{always} cpu --out cpu");
    job(ranks, folder, &cpu);
    let setting = [("EMULATOR_DEVICES", devices), ("EMULATOR_LEAKS", "1")];
    let there = format!("{always} cuda --out there");
    let Some(ended) = emulated(ranks, folder, &setting, &there) else {
        return;
    };
    let printed = good(ended);
    assert!(printed.contains("EMULATED"), "{printed}");
    let [cpu, there] = ["cpu", "there"].map(|run| losses(folder.join(run)));
    assert_eq!(cpu.len(), there.len(), "{words}");
    for (step, (cpu, there)) in cpu.iter().zip(&there).enumerate() {
        for (cpu, there) in cpu.iter().zip(there) {
            let case = format!(
                "{words}, {ranks} ranks, {devices} devices, step {}",
                step + 1
            );
            assert!((cpu - there).abs() < 1e-4, "{case}: {there} for {cpu}");
        }
    }
    let result = toml(folder.join("there/result.toml"));
    assert!(result["emulated"].as_bool().unwrap(), "{result}");
    assert!(result["device"].as_str().unwrap().contains("emulator"));
}

fn curves() {
    let folder = folder();
    for (ranks, devices) in [(1, "1"), (2, "2"), (4, "4")] {
        let words = "softmax train.h5 --steps 8 --eval-every 4 --global-batch 24 --lr 0.5";
        compare(folder.path(), (ranks, devices), words);
    }
    for (ranks, devices) in [(1, "2"), (2, "2"), (4, "3")] {
        let words = "lenet train.h5 --steps 8 --eval-every 4 --global-batch 12 --lr 0.1";
        compare(folder.path(), (ranks, devices), words);
    }
    // Smooth, so that rounding alone cannot turn a rectifier the other way: equal over many steps.
    let words =
        "lenet train.h5 --steps 40 --eval-every 20 --global-batch 12 --lr 0.1 --activation tanh";
    compare(folder.path(), (2, "2"), words);
    for (ranks, devices) in [(1, "1"), (2, "1"), (4, "4")] {
        let words = "--model-file alexnet.toml train.h5 --steps 8 --eval-every 4 --global-batch 12 --lr 0.05 \
            --optimizer momentum --normalize";
        compare(folder.path(), (ranks, devices), words);
    }
}

fn optimizers() {
    let folder = folder();
    for optimizer in [
        "--optimizer nesterov --weight-decay 0.01 --clip-norm 0.5",
        "--optimizer adam --weight-decay 0.01 --lr 0.01",
        "--optimizer adamw --weight-decay 0.01 --lr 0.01 --clip-norm 1 --keep-best",
        "--optimizer lars --lr 1 --noise-scale",
    ] {
        let words = format!("mlp train.h5 --steps 5 --eval-every 3 --batch 8 {optimizer}");
        compare(folder.path(), (2, "2"), &words);
    }
}

fn exchanges() {
    let folder = folder();
    for exchange in ["--exchange all-reduce", "--exchange node-shared"] {
        let words = format!("softmax train.h5 --steps 4 --batch 8 {exchange}");
        compare(folder.path(), (2, "1"), &words);
    }
    for exchange in ["--exchange one-sided", "--sync-every 3"] {
        let words = format!(
            "train softmax train.h5 --test test.h5 --epochs 4 --batch 8 --lr 0.2 {exchange} --device cuda --out apart --force"
        );
        let Some(ended) = emulated(2, folder.path(), &[], &words) else {
            return;
        };
        good(ended);
        let result = toml(folder.path().join("apart/result.toml"));
        let loss = result["test_loss"].as_float().unwrap();
        assert!(loss < 2.0, "{exchange}: {loss}");
    }
}

/// A library that says what a CUDA-aware MPI says; devices that are emulated have memory that any MPI reads.
fn aware_mpi() {
    let folder = folder();
    let source = "int MPIX_Query_cuda_support(void) { return 1; }\n";
    fs::write(folder.path().join("aware.c"), source).unwrap();
    let mut compiler = Command::new("cc");
    compiler.args(["-shared", "-fPIC", "-o", "aware.so", "aware.c"]);
    compiler.current_dir(folder.path());
    assert!(compiler.status().unwrap().success());
    let library = folder.path().join("aware.so");
    let words = "train softmax train.h5 --steps 6 --batch 8 --lr 0.3 --device cuda --force --out";
    let preload = ("LD_PRELOAD", library.to_str().unwrap());
    let cases = [
        (&[preload][..], "direct", "CUDA-aware MPI"),
        (&[], "staged", "pinned memory"),
    ];
    for (setting, out, way) in cases {
        let Some(ended) = emulated(2, folder.path(), setting, &format!("{words} {out}")) else {
            return;
        };
        let printed = good(ended);
        assert!(printed.contains(way), "{printed}");
    }
    let checksum =
        |run: &str| toml(folder.path().join(run).join("result.toml"))["checksum"].clone();
    assert_eq!(checksum("direct"), checksum("staged"));
}

/// A network with so many parameters that the last gradients leave before the first are computed.
const WIDE: &str = r#"name = "wide"
layer = [
  { kind = "flatten" },
  { kind = "linear", outputs = 300 },
  { kind = "relu" },
  { kind = "linear", outputs = 200 },
  { kind = "relu" },
  { kind = "linear" },
]
"#;

/// What a rank asks of the driver, and in which order.
fn streams() {
    let folder = folder();
    fs::write(folder.path().join("wide.toml"), WIDE).unwrap();
    let words = "train --model-file wide.toml train.h5 --steps 6 --batch 8 --device cuda --out run";
    let trace = folder.path().join("trace");
    let setting = [("EMULATOR_TRACE", trace.to_str().unwrap())];
    let Some(ended) = emulated(2, folder.path(), &setting, words) else {
        return;
    };
    good(ended);
    let files = fs::read_dir(folder.path()).unwrap();
    let traces = files
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.to_str().unwrap().contains("trace."));
    let traces: Vec<String> = traces
        .map(|path| fs::read_to_string(path).unwrap())
        .collect();
    assert_eq!(traces.len(), 2, "one of each rank");
    for trace in traces {
        let lines: Vec<&str> = trace.lines().collect();
        // From the losses of one step to those of the next: way back, exchange, update, next way forth.
        let losses = |line: &&str| line.contains("softmax_cross_entropy");
        let steps: Vec<&[&str]> = lines.split(losses).collect();
        one_step(steps[3]);
    }
}

/// Fails unless copies of this step were asked for where they run beside kernels.
fn one_step(lines: &[&str]) {
    let all = lines.join("\n");
    let place = |what: &str| {
        let found = lines.iter().position(|line| line.contains(what));
        found.unwrap_or_else(|| panic!("no {what} in\n{all}"))
    };
    let stream = |at: usize| lines[at].rsplit(' ').next().unwrap();
    assert!(!all.contains("pageable"), "{all}");
    // The next batch: asked for behind this one's kernels, before the host waits for those.
    let (kernel, batch) = (place("launch"), place("to device, 6272 bytes"));
    let wait = place(&format!("wait for stream {}", stream(kernel)));
    assert!(!all.contains("wait for all"), "{all}");
    assert!(batch < wait && stream(batch) != stream(kernel), "{all}");
    // The gradients of the last layers: asked for before the first layer's are launched.
    let gradients = place("to host, 142264 bytes");
    let back = lines
        .iter()
        .rposition(|line| line.contains("linear_collect_params"));
    let others = [stream(kernel), stream(batch)];
    assert!(gradients < back.unwrap(), "{all}");
    assert!(!others.contains(&stream(gradients)), "{all}");
}

/// A cuBLAS of two functions, which multiplies in the memory of emulated devices.
fn cublas() {
    let folder = folder();
    let train = "train mlp train.h5 --test test.h5 --steps 4 --batch 7 --lr 0.1 --log-every 1 --force --device cuda";
    let matmul = "matmul --a random:normal --b random:normal --m 30 --n 20 --k 50 --check dense --device cuda";
    let with = format!("{train} --gemm cublas --out theirs");
    let Some(refused) = emulated(1, folder.path(), &[], &with) else {
        return;
    };
    assert_eq!(refused.code, Some(1), "{}", refused.output);
    let said = "libcublas.so was not found";
    assert!(refused.output.contains(said), "{}", refused.output);
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/cublas.c");
    let mut compiler = Command::new("cc");
    compiler.args(["-O2", "-shared", "-fPIC", "-o", "libcublas.so", source]);
    compiler.current_dir(folder.path());
    assert!(compiler.status().unwrap().success());
    let emulator = emulator().unwrap();
    let both = format!("{}:{}", folder.path().display(), emulator.display());
    let setting = [("LD_LIBRARY_PATH", both.as_str())];
    let there = |words: &str| good(emulated(2, folder.path(), &setting, words).unwrap());
    there(&format!("{train} --out ours"));
    let printed = there(&with);
    assert!(printed.contains("products by cuBLAS"), "{printed}");
    let [ours, theirs] = ["ours", "theirs"].map(|run| losses(folder.path().join(run)));
    for (ours, theirs) in ours.iter().flatten().zip(theirs.iter().flatten()) {
        assert!((ours - theirs).abs() < 1e-5, "{theirs} for {ours}");
    }
    for kind in ["f32", "f64"] {
        there(&format!("{matmul} --gemm cublas --type {kind}"));
    }
    let refused = emulated(
        1,
        folder.path(),
        &setting,
        "matmul --a identity --b identity --n 4 --device cpu --gemm cublas",
    );
    let refused = refused.unwrap();
    assert_eq!(refused.code, Some(2), "{}", refused.output);
    assert!(refused.output.contains("--gemm cublas is for GPUs"));
}

fn commands() {
    let folder = folder();
    let train = "train lenet train.h5 --steps 2 --batch 8 --out run --device cpu";
    job(1, folder.path(), train);
    let cpu = job(1, folder.path(), "eval run test.h5 --device cpu --json");
    let there = |ranks: usize, words: &str| {
        let setting = [("EMULATOR_DEVICES", "2")];
        emulated(ranks, folder.path(), &setting, words).map(good)
    };
    let Some(device) = there(2, "eval run test.h5 --device cuda --json") else {
        return;
    };
    let loss = |text: &str| {
        let line: serde_json::Value = serde_json::from_str(text.trim()).unwrap();
        assert!(line["device"].is_string(), "{line}");
        line["loss"].as_f64().unwrap()
    };
    assert!((loss(&cpu) - loss(&device)).abs() < 1e-5, "{cpu} {device}");
    assert!(device.contains("EMULATED"), "{device}");
    for kind in ["f32", "f64"] {
        let words = format!(
            "matmul --a random:normal --b random:normal --m 70 --n 50 --k 90 --type {kind} --check dense --alpha 0.5 --device"
        );
        let printed = there(2, &format!("{words} cuda")).unwrap();
        assert!(printed.contains("EMULATED"), "{printed}");
    }
    let bench = "bench train --model softmax --batch 8 --seconds 0.05 --by-layer --device cuda";
    let printed = there(1, bench).unwrap();
    assert!(
        printed.contains("EMULATED") && printed.contains("linear"),
        "{printed}"
    );
    let products = there(2, "bench matmul --sizes 40 --rounds 1 --device cuda").unwrap();
    assert!(products.contains("EMULATED"), "{products}");
    let printed = there(1, &format!("{bench} --json")).unwrap();
    assert!(printed.contains("\"emulated\":true"), "{printed}");
}

fn failures() {
    let folder = folder();
    let train = "train lenet train.h5 --steps 20 --batch 4 --out run --force --device cuda";
    for (setting, said) in [
        (("EMULATOR_FAIL_ALLOC", "12"), "of memory left"),
        (("EMULATOR_FAIL_LAUNCH", "150"), "CUDA_ERROR"),
    ] {
        for ranks in [1, 2] {
            let Some(ended) = emulated(ranks, folder.path(), &[setting], train) else {
                return;
            };
            assert_eq!(ended.code, Some(1), "{setting:?}: {}", ended.output);
            assert!(ended.output.contains("error: "), "{}", ended.output);
            assert!(ended.output.contains(said), "{setting:?}: {}", ended.output);
        }
    }
}

fn small_memory() {
    let folder = folder();
    let train = |batch: usize| {
        let words = format!(
            "train lenet train.h5 --steps 1 --global-batch {batch} --out run --force --device cuda"
        );
        let setting = [("EMULATOR_MEMORY_MB", "4")];
        emulated(2, folder.path(), &setting, &words)
    };
    let Some(refused) = train(96) else {
        return;
    };
    assert_eq!(refused.code, Some(1), "{}", refused.output);
    let said = "of memory on the device of a rank";
    assert!(refused.output.contains(said), "{}", refused.output);
    let (before, _) = refused.output.split_once(" samples a step fit").unwrap();
    let largest: usize = before.rsplit(' ').next().unwrap().parse().unwrap();
    assert!((1..96).contains(&largest), "{}", refused.output);
    good(train(largest).unwrap());
}

fn missing() {
    let folder = folder();
    let train = "train softmax train.h5 --steps 1 --out run --force --device";
    let here = |device: &str| {
        let mut command = phalanx(2, folder.path());
        command.args(train.split_whitespace()).arg(device);
        command.env("LD_LIBRARY_PATH", "");
        run(command, LIMIT)
    };
    let printed = good(here("auto"));
    assert!(printed.contains("cpu (no GPU can be used: "), "{printed}");
    let mut loader = Command::new("ldd");
    let needed = loader.arg(env!("CARGO_BIN_EXE_phalanx")).output().unwrap();
    let needed = String::from_utf8_lossy(&needed.stdout).into_owned();
    assert!(needed.contains("libmpi"), "{needed}");
    for library in ["cuda", "nvrtc", "cublas", "nvidia"] {
        assert!(!needed.contains(library), "{library}: {needed}");
    }
    let refused = here("cuda");
    let said = "no GPU can be used: there is no NVIDIA driver";
    assert_eq!(refused.code, Some(1), "{}", refused.output);
    assert!(refused.output.contains(said), "{}", refused.output);
    let Some(emulator) = emulator() else {
        return;
    };
    let there = |setting: &[(&str, &str)], device: &str| {
        emulated(2, folder.path(), setting, &format!("{train} {device}")).unwrap()
    };
    let driver = folder.path().join("driver");
    fs::create_dir(&driver).unwrap();
    fs::copy(emulator.join("libcuda.so.1"), driver.join("libcuda.so.1")).unwrap();
    let alone = driver.to_str().unwrap();
    for (setting, device, said) in [
        (("EMULATOR_DEVICES", "0"), "cuda", "there is no CUDA device"),
        (
            ("EMULATOR_DEVICES", "2"),
            "cuda:2",
            "device 2 was asked for",
        ),
        (("EMULATOR_SM", "60"), "cuda", "compute capability 6.0"),
        (
            ("EMULATOR_NVRTC_FROM", "80"),
            "cuda",
            "compiles for compute capability 8.0 and above, and the GPU has 7.0",
        ),
        (
            ("LD_LIBRARY_PATH", alone),
            "cuda",
            "libnvrtc.so was not found",
        ),
    ] {
        let refused = there(&[setting], device);
        assert_eq!(refused.code, Some(1), "{setting:?}: {}", refused.output);
        assert!(refused.output.contains(said), "{}", refused.output);
        if device == "cuda" {
            let printed = good(there(&[setting], "auto"));
            assert!(printed.contains("cpu (no GPU can be used: "), "{printed}");
        }
    }
    let printed = good(there(&[("EMULATOR_DEVICES", "1")], "auto"));
    assert!(printed.contains("2 ranks on cuda:0"), "{printed}");
}

fn refusals() {
    let folder = folder();
    for option in [
        "--threads 2",
        "--reproducible",
        "--exchange all-reduce --overlap",
        "--exchange one-sided --record",
    ] {
        let train = format!("train softmax train.h5 --steps 1 --out run --force {option} --device");
        let Some(refused) = emulated(2, folder.path(), &[], &format!("{train} cuda")) else {
            return;
        };
        assert_eq!(refused.code, Some(2), "{option}: {}", refused.output);
        let name = option.rsplit("--").next().unwrap();
        let name = name.split(' ').next().unwrap();
        let said = format!("--device cuda: --{name}");
        assert!(refused.output.contains(&said), "{}", refused.output);
        let printed = good(emulated(2, folder.path(), &[], &format!("{train} auto")).unwrap());
        let said = format!("cpu (no GPU is used: --{name}");
        assert!(printed.contains(&said), "{printed}");
    }
}
