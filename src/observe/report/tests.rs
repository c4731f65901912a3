//! Pages of made-up run folders.

use std::fs;
use std::path::Path;

use super::*;

/// A run folder whose model has a name that is markup.
fn folder(path: &Path) {
    let write = |name: &str, text: &str| {
        let file = path.join(name);
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(file, text).unwrap();
    };
    write(
        "settings.toml",
        "command = [\"train\", \"<script>alert(1)</script>\"]\nranks = 2\n[resolved]\nmodel = \"<b>&\\\"x\\\"\"\ndata = \"d.h5\"\nexchange = \"node-shared\"\nlr = 0.1\n",
    );
    write(
        "metrics.csv",
        "step,epoch,seconds,loss,accuracy,lr,batch,samples_per_s,test_loss,test_accuracy\n10,0.5,1.5,2.25,0.1,0.1,8,100,,\n20,1,3,1.125,0.5,0.1,8,120,1.5,0.25\n30,1.5,4.5,1.0,0.",
    );
    write(
        "ranks.csv",
        "rank,compute_s,exchange_s,wait_s,load_s,evaluate_s\n0,2,0.5,0.25,0.1,0\n1,1,0.5,1.25,0.1,0\n",
    );
    write("waits.csv", "rank,waited_for,seconds\n0,1,0.25\n1,0,1.25\n");
    write(
        "result.toml",
        "seconds = 3.25\nsteps = 20\nsamples = 160\nsamples_per_s = 110.0\ntest_accuracy = 0.25\ntest_loss = 1.5\n[time]\ncompute = 0.5\n[[verdict]]\nwhat = \"rank 0 slow in <compute>\"\nrank = 0\ncause = \"compute\"\nfigures = \"f\"\ntry = \"`--x <y>` more\"\n[staleness]\ncounts = [3, 2]\n",
    );
    write(
        "rank-00001/resources.csv",
        "seconds,rank,phase,step,cpu_percent,proportional_mb,gpu_percent\n1,1,compute,5,99.5,120,\n2,1,compute,9,98,130,\n",
    );
}

#[test]
fn a_page_has_all_parts_and_nothing_of_it_is_markup_from_files() {
    let place = tempfile::tempdir().unwrap();
    folder(place.path());
    let run = Run::read(place.path()).unwrap();
    let text = page(&[run]);
    for part in [
        "verdict",
        "summary",
        "curves",
        "ranks",
        "resources",
        "timeline",
        "settings",
        "data",
    ] {
        assert!(text.contains(&format!("<section id=\"{part}\"")), "{part}");
    }
    for plot in [
        "loss",
        "accuracy",
        "speed",
        "learning-rate",
        "ranks",
        "waiting",
        "staleness",
        "cpu",
        "memory",
    ] {
        assert!(text.contains(&format!("data-plot=\"{plot}\"")), "{plot}");
    }
    assert!(!text.contains("data-plot=\"gpu\""), "no GPU was there");
    assert!(
        !text.contains("<b>&") && !text.contains("<script>alert") && !text.contains("in <compute>")
    );
    assert!(
        text.contains("&lt;b&gt;&amp;&quot;x&quot;")
            && text.contains("rank 0 slow in &lt;compute&gt;")
            && text.contains("<code>--x &lt;y&gt;</code> more")
    );
    assert!(
        !text.contains("src=") && !text.contains("href=\"http") && !text.contains("url("),
        "it needs nothing else"
    );
    // The row that a killed run left without its end is not shown.
    assert!(text.contains("<td>1.125</td>") && !text.contains("<td>30</td>"));
}

#[test]
fn a_run_that_has_only_begun_is_shown_as_far_as_it_came() {
    let place = tempfile::tempdir().unwrap();
    fs::write(place.path().join("settings.toml"), "ranks = 1\n").unwrap();
    let text = page(&[Run::read(place.path()).unwrap()]);
    assert!(text.contains("This run has not ended") && text.contains("There is no ranks.csv"));
    assert!(text.contains("No resources were sampled") && text.contains("There is no trace"));
}

#[test]
fn runs_side_by_side_are_compared_and_what_differs_is_marked() {
    let place = tempfile::tempdir().unwrap();
    let [a, b] = ["a", "b"].map(|name| place.path().join(name));
    folder(&a);
    folder(&b);
    let settings = fs::read_to_string(b.join("settings.toml")).unwrap();
    fs::write(
        b.join("settings.toml"),
        settings.replace("lr = 0.1", "lr = 0.3"),
    )
    .unwrap();
    let result = fs::read_to_string(b.join("result.toml")).unwrap();
    fs::write(
        b.join("result.toml"),
        result.replace("seconds = 3.25", "seconds = 2.5"),
    )
    .unwrap();
    let runs = [a, b].map(|path| Run::read(&path).unwrap());
    let text = page(&runs);
    assert!(
        text.contains("<tr class=\"differs\"><th scope=\"row\">lr</th><td>0.1</td><td>0.3</td>")
    );
    assert!(
        text.contains("<td class=\"best\">2.50 <span"),
        "the faster run"
    );
    assert!(text.contains("a training") && text.contains("b test"));
    let names: Vec<String> = plots(&runs).into_iter().map(|plot| plot.name).collect();
    let mut distinct = names.clone();
    distinct.sort();
    distinct.dedup();
    assert_eq!(distinct.len(), names.len(), "{names:?}");
}

#[test]
fn what_is_no_run_folder_is_refused_with_what_to_give() {
    let place = tempfile::tempdir().unwrap();
    let error = Run::read(place.path()).unwrap_err().to_string();
    assert!(error.contains("no settings.toml"), "{error}");
    folder(place.path());
    fs::write(place.path().join("result.toml"), "seconds = = 3").unwrap();
    assert!(Run::read(place.path()).is_err());
}
