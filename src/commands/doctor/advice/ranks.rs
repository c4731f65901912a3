//! Rules about MPI, and about where the ranks are.

use super::{Facts, Section};

/// MPI, its launcher and its settings.
pub(super) fn library(facts: &Facts, out: &mut Section) {
    let library = &facts.library;
    let (major, minor) = library.standard;
    let name = format!("{} {}", library.name, library.version);
    let name = format!("{}, standard {major}.{minor}", name.trim());
    if library.name == "MPICH" && library.version.starts_with("3.") {
        out.note(
            "library",
            name,
            "phalanx is tested with MPICH 4.0: use that or newer",
        );
    } else {
        out.good("library", name);
    }
    if library.threads == "single" {
        out.note(
            "threads",
            "single: MPI does not expect threads beside it",
            "build or load an MPI with thread support before you use --threads",
        );
    } else {
        out.good("threads", library.threads);
    }
    launcher(facts, out);
    windows(facts, out);
    settings(facts, out);
}

fn launcher(facts: &Facts, out: &mut Section) {
    let start = &facts.start;
    let how = start.how();
    let size = facts.size();
    match start.size {
        Some(told) if told > size => {
            let value = format!("{how} started {told} processes, but MPI's world has {size}");
            out.problem("launcher", value, apart(facts));
        }
        Some(1) => out.good("launcher", format!("{how}, 1 rank")),
        Some(told) => out.good("launcher", format!("{how}, {told} ranks")),
        None => out.good("launcher", how),
    }
}

/// What to do where ranks are started together and do not find each other.
fn apart(facts: &Facts) -> String {
    let what = facts.start.advice(&facts.library.name);
    format!("every process trains alone, and all write to the same places: {what}")
}

fn windows(facts: &Facts, out: &mut Section) {
    let value = match (&facts.setup.windows, facts.library.name.as_str()) {
        (Some(part), "Open MPI") => format!("served by osc/{part}"),
        (Some(part), _) => format!("served by {part}"),
        (None, _) if facts.size() == 1 => "of one rank: nothing serves them".into(),
        (None, _) => "MPI does not tell what serves them: see the tests".into(),
    };
    out.good("windows", value);
}

fn settings(facts: &Facts, out: &mut Section) {
    if facts.library.name != "Open MPI" {
        return;
    }
    let setup = &facts.setup;
    let values = [
        ("osc", "OMPI_MCA_osc", &setup.osc),
        ("pml", "OMPI_MCA_pml", &setup.pml),
        ("btl", "OMPI_MCA_btl", &setup.btl),
        (
            "btl_vader_eager_limit",
            "OMPI_MCA_btl_vader_eager_limit",
            &setup.eager,
        ),
    ];
    let has = |list: &[(String, String)], name: &str| list.iter().any(|(other, _)| other == name);
    let told = values.iter().filter_map(|(short, name, value)| {
        let value = value.as_ref().filter(|value| !value.is_empty())?;
        let by = match () {
            () if has(&facts.start.set, name) => " (by phalanx)",
            () if has(&facts.start.chosen, name) => " (by you)",
            () => "",
        };
        Some(format!("{short}={value}{by}"))
    });
    out.good("settings", told.collect::<Vec<_>>().join(", "));
}

/// Ranks, hosts, cores and whether they are shared.
pub(super) fn places(facts: &Facts, out: &mut Section) {
    let (size, hosts) = (facts.size(), facts.hosts.len());
    let on_host = |name: &str| facts.ranks.iter().filter(|rank| rank.host == name).count();
    let counts = facts.hosts.iter().map(|host| on_host(&host.name));
    let (fewest, most) = counts.fold((usize::MAX, 0), |(a, b), n| (a.min(n), b.max(n)));
    let hosts = match hosts {
        1 => format!("1 host: {}", facts.hosts[0].name),
        n if fewest == most => format!("{n} hosts, {most} on each"),
        n => format!("{n} hosts, {fewest} to {most} on each"),
    };
    let ranks = if size == 1 { "rank" } else { "ranks" };
    out.good("ranks", format!("{size} {ranks} on {hosts}"));
    cores(facts, most, out);
    idle(facts, out);
}

fn cores(facts: &Facts, most: usize, out: &mut Section) {
    let all = facts.ranks.iter();
    let Some(tight) = all.min_by(|a, b| a.cores.total_cmp(&b.cores)) else {
        return;
    };
    let same = |host: &&super::Host| host.name == tight.host;
    let there = facts.hosts.iter().find(same).map_or(1, |host| host.cores);
    let bound = match tight.cpus.as_str() {
        "" => String::new(),
        cpus => format!(" (may use CPUs {cpus} of {there})"),
    };
    let value = format!(
        "{} for the rank with the fewest{bound}",
        number(tight.cores)
    );
    if tight.cores >= 1.0 {
        out.good("cores", value);
    } else if most <= there {
        let advice = format!(
            "several ranks are bound to the same cores although there are {there}: give each its own (Open MPI: --bind-to core --map-by core; srun: --cpus-per-task and --cpu-bind=cores)"
        );
        out.note("cores", value, advice);
    } else {
        let advice = format!(
            "{most} ranks share {there} cores of a host: start at most {there} on each; more only cost time"
        );
        out.note("cores", value, advice);
    }
}

fn idle(facts: &Facts, out: &mut Section) {
    let open = facts.library.name == "Open MPI";
    match facts.setup.yields {
        Some(true) => out.good("idle ranks", "let others have their core"),
        Some(false) if facts.crowded() && facts.size() > 1 => {
            let advice = if open {
                "ranks that wait keep cores that others need: set OMPI_MCA_mpi_yield_when_idle=1, which mpirun does by itself only where it saw that ranks are more than cores"
            } else {
                "ranks that wait keep cores that others need: let MPI yield (MPICH: MPIR_CVAR_POLLS_BEFORE_YIELD=1000)"
            };
            out.note(
                "idle ranks",
                "keep their core, and ranks share cores",
                advice,
            );
        }
        Some(false) => out.good("idle ranks", "keep their core, which no other rank needs"),
        None => out.good(
            "idle ranks",
            "MPI does not tell whether they keep their core",
        ),
    }
}

/// A number of cores.
fn number(cores: f64) -> String {
    match cores {
        n if n.fract() == 0.0 => format!("{n:.0}"),
        n => format!("{n:.2}"),
    }
}
