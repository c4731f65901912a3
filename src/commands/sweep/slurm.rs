//! The runs of a study as one job array.

use std::fs;
use std::path::Path;
use std::process::Command;

use super::Settings;
use crate::observe::{say, table};
use crate::sweep::{Launcher, Plan};
use crate::{Error, Result, files};

/// Writes the job script, submits it, and a job behind it that makes the tables.
pub(super) fn submit(
    settings: &Settings,
    plan: &Plan,
    open: &[usize],
    (out, launcher): (&Path, &Launcher),
    (sbatch, at_once): (&[String], usize),
) -> Result<()> {
    if open.is_empty() {
        say("all runs have been made: `--collect` makes the tables again");
        return Ok(());
    }
    let logs = launcher.folder.join("logs");
    fs::create_dir_all(&logs).map_err(Error::io("create folder", &logs))?;
    // Jobs that wait run what was submitted, whatever becomes of the file.
    let study = launcher.folder.join("submitted.toml");
    fs::copy(&settings.study, &study).map_err(Error::io("write", &study))?;
    let again = again(settings, launcher, &study)?;
    let mut numbers = open.to_vec();
    numbers.sort_unstable();
    let text = script(plan, &numbers, &again, (launcher, at_once));
    let path = launcher.folder.join("array.sbatch");
    files::write_text(&path, &text)?;
    let array = sbatch_says(&[sbatch, &[path.display().to_string()]].concat())?;
    say(&format!("job array {array}, {} runs", open.len()));
    let wrap = format!("--wrap=exec {again} --collect");
    let output = format!("--output={}/logs/collect.txt", launcher.folder.display());
    let after = format!("--dependency=afterany:{array}");
    let one = [
        "--job-name=phalanx-collect".into(),
        "--ntasks=1".into(),
        output,
        after,
        wrap,
    ];
    let tables = sbatch_says(&[sbatch, &one].concat())?;
    let rows = [
        ("runs", format!("in job array {array}, {at_once} at a time")),
        ("tables", format!("by job {tables}, when all have ended")),
        ("watch", format!("squeue -j {array},{tables}")),
        ("written to", out.display().to_string()),
    ];
    say(&table("submitted", &rows));
    Ok(())
}

/// The words that start this study again, quoted.
fn again(settings: &Settings, launcher: &Launcher, study: &Path) -> Result<String> {
    let absolute = |path: &Path| std::path::absolute(path).map_err(Error::io("find", path));
    let mut words = vec![
        launcher.program.display().to_string(),
        "sweep".into(),
        study.display().to_string(),
        "--out".into(),
        launcher.folder.display().to_string(),
        "--data".into(),
        absolute(&settings.data)?.display().to_string(),
        "--mpirun".into(),
        settings.mpirun.join(" "),
    ];
    words.extend(settings.full.then(|| "--full".into()));
    words.extend(settings.oversubscribe.then(|| "--oversubscribe".into()));
    let quoted = words.iter().map(|word: &String| quoted(word));
    Ok(quoted.collect::<Vec<_>>().join(" "))
}

/// A word for a shell.
fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "/._-+:,=@".contains(c);
    match !word.is_empty() && word.chars().all(plain) {
        true => word.to_owned(),
        false => format!("'{}'", word.replace('\'', "'\\''")),
    }
}

fn script(
    plan: &Plan,
    numbers: &[usize],
    again: &str,
    (launcher, at_once): (&Launcher, usize),
) -> String {
    let runs = || numbers.iter().map(|&number| &plan.runs[number]);
    let ranks = runs().map(|run| run.ranks).max().unwrap_or(1);
    let nodes = runs().map(|run| run.nodes).max().unwrap_or(1);
    let list: Vec<String> = numbers.iter().map(usize::to_string).collect();
    format!(
        "#!/bin/sh\n\
         # Runs of a study, one a job; each goes on from its checkpoint, if it has one, when it is started again.\n\
         #SBATCH --job-name=phalanx-sweep\n\
         #SBATCH --array={}%{at_once}\n\
         #SBATCH --nodes={nodes}\n\
         #SBATCH --ntasks={ranks}\n\
         #SBATCH --output={}/logs/job-%a.txt\n\
         #SBATCH --requeue\n\
         exec {again} --only \"$SLURM_ARRAY_TASK_ID\"\n",
        list.join(","),
        launcher.folder.display()
    )
}

/// Submits a job; gives its number.
fn sbatch_says(words: &[String]) -> Result<String> {
    let output = Command::new("sbatch")
        .arg("--parsable")
        .args(words)
        .output();
    let output = output.map_err(|error| {
        let hint = "--slurm is for machines from which jobs are submitted to Slurm";
        Error::file("sbatch", error, hint)
    })?;
    if !output.status.success() {
        let problem = String::from_utf8_lossy(&output.stderr).trim().to_owned();
        let hint = "--sbatch \"…\" gives sbatch the options that this cluster wants";
        return Err(Error::file("sbatch", problem, hint));
    }
    let text = String::from_utf8_lossy(&output.stdout);
    // With several clusters, the cluster's name follows.
    let number = text.trim().split(';').next().unwrap_or_default();
    Ok(number.to_owned())
}
