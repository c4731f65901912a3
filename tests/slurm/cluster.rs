//! A real Slurm: munged, slurmctld and a slurmd on each of three nodes, which are namespaces of this machine.
//!
//! Nothing outside a temporary folder is written, and no other Slurm or munge is touched. All of it ends, with every job, when the
//! cluster is dropped or this process dies.

use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::hosts::{Hosts, is_root};
use crate::launch::{Ended, exists, run};

/// Hosts: the one of the controller, where users log in, and the nodes.
const HOSTS: [&str; 4] = ["ctl", "n1", "n2", "n3"];
/// The user whose jobs these are, by number: `nobody`, who is everywhere.
const USER: u32 = 65534;
/// Longest that a command of Slurm may take.
const LIMIT: Duration = Duration::from_secs(30);
/// Longest that the cluster may take to come up, and a node to come back.
const COMING_UP: Duration = Duration::from_secs(30);
/// What jobs have in their environment. The ranks of all nodes share this machine's cores: they may neither spin nor be bound to the
/// first ones.
const ENVIRONMENT: [(&str, &str); 6] = [
    ("PATH", "/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin"),
    ("LC_ALL", "C.UTF-8"),
    ("USER", "nobody"),
    ("LOGNAME", "nobody"),
    ("OMPI_MCA_hwloc_base_binding_policy", "none"),
    ("OMPI_MCA_mpi_yield_when_idle", "1"),
];

/// What is checked on a cluster, by name.
pub type Check = (&'static str, fn(&Cluster));

/// The cluster, with a user's home.
pub struct Cluster {
    hosts: Hosts,
}

impl Cluster {
    /// Starts it; tells why where it cannot be.
    pub fn start() -> Result<Self, String> {
        if !is_root() {
            return Err("Slurm's daemons need root, to run jobs as other users".into());
        }
        for program in ["munged", "slurmctld", "slurmd", "sbatch", "srun", "setpriv"] {
            let mut which = Command::new("sh");
            which.args(["-c", &format!("command -v {program}")]);
            if !which.output().unwrap().status.success() {
                return Err(format!(
                    "there is no {program} here: `make test-slurm` installs it"
                ));
            }
        }
        // Not below /tmp, which each host has for itself.
        let folder = tempfile::tempdir_in("/var/tmp").unwrap();
        open(folder.path());
        let names = HOSTS.map(String::from).to_vec();
        let hosts = Hosts::named(folder, names, &[0, 4, 4, 4])
            .map_err(|why| format!("no namespaces here ({why})"))?;
        let cluster = Self { hosts };
        cluster.furnish();
        cluster.munged();
        cluster.configure("");
        cluster.daemon(0, &["slurmctld", "-c", "-i"]);
        for node in 1..HOSTS.len() {
            cluster.boot(node);
        }
        cluster.until_idle(HOSTS.len() - 1);
        Ok(cluster)
    }

    /// The user's home, with the program and the job scripts as in a checkout.
    fn furnish(&self) {
        let home = self.home();
        for part in ["slurm", "target/release"] {
            fs::create_dir_all(home.join(part)).unwrap();
        }
        let program = env!("CARGO_BIN_EXE_phalanx");
        fs::copy(program, home.join("target/release/phalanx")).unwrap();
        let scripts = concat!(env!("CARGO_MANIFEST_DIR"), "/slurm");
        for entry in fs::read_dir(scripts).unwrap() {
            let script = entry.unwrap();
            let copy = home.join("slurm").join(script.file_name());
            fs::copy(script.path(), copy).unwrap();
        }
        chown(&home, Some(USER), Some(USER)).unwrap();
        for (set, first, samples) in [("train.h5", 0, 3000), ("test.h5", 3000, 500)] {
            let digits = format!("data make digits {set} --first {first} --samples {samples}");
            self.as_user(&[], &format!("target/release/phalanx {digits}"));
        }
    }

    fn munged(&self) {
        let folder = self.hosts.folder().join("munge");
        fs::create_dir(&folder).unwrap();
        fs::set_permissions(&folder, Permissions::from_mode(0o711)).unwrap();
        let place = |name: &str| folder.join(name).display().to_string();
        let mut key = fs::read("/proc/sys/kernel/random/uuid").unwrap();
        key.resize(64, b'.');
        fs::write(place("key"), key).unwrap();
        fs::set_permissions(place("key"), Permissions::from_mode(0o400)).unwrap();
        let options = ["key-file", "socket", "pid-file", "log-file", "seed-file"];
        let option = |name: &str| format!("--{name}={}", place(name.trim_end_matches("-file")));
        let mut words = vec!["munged".to_owned()];
        words.extend(options.map(option));
        self.daemon(0, &words);
    }

    /// Writes the configuration with `more` behind it, and has those who run read it again.
    pub fn configure(&self, more: &str) {
        let folder = self.hosts.folder().display().to_string();
        let text = include_str!("slurm.conf").replace("FOLDER", &folder);
        fs::write(self.conf(), text + more).unwrap();
        // Devices that are everywhere stand for GPUs, which are only counted.
        let gpus = "Name=gpu File=/dev/null\nName=gpu File=/dev/zero\n";
        fs::write(self.hosts.folder().join("gres.conf"), gpus).unwrap();
        if self.hosts.folder().join("slurmctld.pid").exists() {
            self.as_root("scontrol reconfigure");
        }
    }

    /// Starts a daemon on a host, which comes back when it runs.
    fn daemon(&self, host: usize, words: &[impl AsRef<str>]) {
        let mut command = self.command(host);
        command.args(words.iter().map(AsRef::as_ref));
        // What a daemon inherits it keeps open.
        command.stdin(Stdio::null()).stdout(Stdio::null());
        command.stderr(Stdio::null());
        let status = command.status().unwrap();
        assert!(status.success(), "{}: {status}", words[0].as_ref());
    }

    /// Starts a node, or starts it again: what a crash left in its temporary places is gone, as after a boot.
    pub fn boot(&self, node: usize) {
        let name = HOSTS[node];
        let spool = self.hosts.folder().join("spool").join(name);
        let temporary = self.hosts.folder().join(format!("{name}.tmp"));
        let _ = fs::remove_dir_all(&spool);
        fs::create_dir_all(spool).unwrap();
        for entry in fs::read_dir(temporary).unwrap() {
            let path = entry.unwrap().path();
            let _ = fs::remove_dir_all(&path).or_else(|_| fs::remove_file(&path));
        }
        self.daemon(node, &["slurmd", "-N", name]);
    }

    /// Kills everything that runs on a node, Slurm's daemon first.
    pub fn crash(&self, node: usize) {
        for process in self.hosts.processes_on(node) {
            kill(process);
        }
    }

    /// Ends all jobs, and has all nodes up again.
    pub fn clear(&self) {
        self.as_root("scancel --user=nobody");
        for node in 1..HOSTS.len() {
            if self.hosts.processes_on(node).is_empty() {
                self.boot(node);
            }
        }
        self.until_idle(HOSTS.len() - 1);
    }

    /// Waits until so many nodes have nothing to do.
    pub fn until_idle(&self, nodes: usize) {
        let idle = || self.as_root("sinfo -h -p normal -t idle -o %D");
        let what = || format!("{nodes} nodes are idle");
        self.until(COMING_UP, what, || idle().trim() == nodes.to_string());
    }

    /// Waits until something is so, or fails with what Slurm says.
    pub fn until(&self, limit: Duration, what: impl Fn() -> String, so: impl Fn() -> bool) {
        let begun = Instant::now();
        while !so() {
            assert!(
                begun.elapsed() < limit,
                "after {} s it is not so that {}\n{}",
                limit.as_secs(),
                what(),
                self.as_root("squeue --states=all")
            );
            std::thread::sleep(Duration::from_millis(100));
        }
    }

    /// The user's home.
    pub fn home(&self) -> PathBuf {
        self.hosts.folder().join("home")
    }

    fn conf(&self) -> PathBuf {
        self.hosts.folder().join("slurm.conf")
    }

    /// A command on a host, by root, without anything of this process's environment.
    fn command(&self, host: usize) -> Command {
        let mut command = self.hosts.on(host, self.hosts.folder());
        command.env_clear().envs(ENVIRONMENT);
        command.env("SLURM_CONF", self.conf());
        command
    }

    /// What a command of root's prints, which must end well.
    pub fn as_root(&self, words: &str) -> String {
        let mut command = self.command(0);
        command.args(words.split(' '));
        good(run(command, LIMIT), words)
    }

    /// What a command of the user's prints, with these variables, in his home on the host where users log in; it must end well.
    pub fn as_user(&self, variables: &[(&str, &str)], words: &str) -> String {
        let mut command = self.hosts.on(0, &self.home());
        command.env_clear().envs(ENVIRONMENT);
        command
            .env("SLURM_CONF", self.conf())
            .env("HOME", self.home());
        command.envs(variables.iter().copied());
        // What the host has as a place for temporary files is the host's own.
        let user = format!("setpriv --reuid={USER} --regid={USER} --clear-groups env -u TMPDIR");
        command.args(user.split(' ')).args(words.split(' '));
        good(run(command, LIMIT), words)
    }

    /// The last that the controller and the nodes wrote down.
    pub fn logs(&self) -> String {
        let last = |name: &str| {
            let path = self.hosts.folder().join(name);
            let text = fs::read_to_string(&path).unwrap_or_default();
            let lines: Vec<&str> = text.lines().rev().take(40).collect();
            let lines: Vec<&str> = lines.into_iter().rev().collect();
            format!("--- {name}\n{}\n", lines.join("\n"))
        };
        let nodes = HOSTS[1..].iter().map(|name| format!("slurmd.{name}.log"));
        let names = std::iter::once("slurmctld.log".to_owned()).chain(nodes);
        names.map(|name| last(&name)).collect()
    }
}

/// Lets everyone enter a folder, or run a program.
pub fn open(path: &Path) {
    fs::set_permissions(path, Permissions::from_mode(0o755)).unwrap();
}

fn good(ended: Ended, words: &str) -> String {
    assert_eq!(ended.code, Some(0), "{words}\n{}", ended.output);
    ended.output
}

/// Kills a process, unless it has gone with another one.
fn kill(process: u32) {
    let kill = format!("kill -s KILL {process}");
    let mut command = Command::new("sh");
    command.args(["-c", &kill]).stderr(Stdio::null());
    let killed = command.status().unwrap().success();
    assert!(killed || !exists(process), "{kill}");
}
