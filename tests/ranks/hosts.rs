//! Several hosts on one machine: namespaces with a network between them, and jobs that run there.

use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use tempfile::TempDir;

use crate::launch::{children, skip};
use crate::mpis::Mpi;

/// What a frame takes longer from host to host, each way, where the kernel can delay it.
const DELAY: &str = "200us";

/// Hosts that only this process knows. They end, with all that runs on them, when this is dropped or the process dies:
/// the script that keeps them up then finds its input closed.
pub struct Hosts {
    keeper: Child,
    /// The script itself, first process of the hosts' PID namespace.
    first: u32,
    /// A process that lives as long as its host, for each host.
    anchors: Vec<u32>,
    names: Vec<String>,
    ranks: Vec<usize>,
    folder: TempDir,
}

/// Hosts for `ranks[i]` ranks on the i-th; none, and the job marked as skipped, where namespaces are not permitted.
pub fn hosts(ranks: &[usize]) -> Option<Hosts> {
    match Hosts::start(ranks) {
        Ok(hosts) => Some(hosts),
        Err(why) => {
            skip(format!("no namespaces here ({why})"));
            None
        }
    }
}

impl Hosts {
    fn start(ranks: &[usize]) -> Result<Self, String> {
        // Open MPI names files after the host.
        let name = |i| format!("host{i}-{}", std::process::id());
        let names = (1..=ranks.len()).map(name).collect();
        Self::named(tempfile::tempdir().unwrap(), names, ranks)
    }

    /// Hosts with these names, and what belongs to them in `folder`. Where that is not below /tmp, each has a /tmp of its own.
    pub fn named(folder: TempDir, names: Vec<String>, ranks: &[usize]) -> Result<Self, String> {
        let script = folder.path().join("hosts.sh");
        fs::write(&script, include_str!("hosts.sh")).unwrap();
        let mut command = Command::new("unshare");
        // An ordinary user is root among his own namespaces.
        if !is_root() {
            command.args(["--user", "--map-root-user"]);
        }
        command.args("--net --mount --pid --fork --kill-child --mount-proc sh -eu".split(' '));
        command.arg(&script).arg(folder.path()).arg(DELAY);
        command.args(&names);
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        command.stderr(Stdio::piped());
        let mut keeper = command
            .spawn()
            .map_err(|error| format!("unshare: {error}"))?;
        let mut lines = BufReader::new(keeper.stdout.take().expect("piped")).lines();
        let mut line = || lines.next().and_then(Result::ok).unwrap_or_default();
        let (note, last) = (line(), line());
        if last != "up" {
            drop(keeper.stdin.take());
            let _ = keeper.wait();
            let mut why = String::new();
            let errors = keeper.stderr.as_mut().expect("piped");
            errors.read_to_string(&mut why).unwrap();
            return Err(why.trim().replace('\n', "; "));
        }
        println!("  {note}");
        let first = children(keeper.id())[0];
        let mut anchors = children(first);
        anchors.retain(|process| network(*process) != network(first));
        assert_eq!(anchors.len(), ranks.len(), "one process keeps each host");
        Ok(Self {
            keeper,
            first,
            anchors,
            names,
            ranks: ranks.to_vec(),
            folder,
        })
    }

    /// How many ranks there are on all hosts.
    pub fn size(&self) -> usize {
        self.ranks.iter().sum()
    }

    /// How many hosts there are.
    pub fn count(&self) -> usize {
        self.names.len()
    }

    /// The name of each rank's host.
    pub fn names_by_rank(&self) -> Vec<&str> {
        let hosts = self.names.iter().zip(&self.ranks);
        hosts
            .flat_map(|(name, &ranks)| std::iter::repeat_n(name.as_str(), ranks))
            .collect()
    }

    /// A job of `mpi`'s phalanx on all hosts, started on the first of them in `folder`, ready for arguments.
    pub fn phalanx(&self, mpi: &Mpi, folder: &Path) -> Command {
        let mut command = self.on(0, folder);
        let slots = self.names.iter().zip(&self.ranks);
        let slots: Vec<String> = slots.map(|(name, n)| format!("{name}:{n}")).collect();
        command.args(mpi.between_hosts(&slots.join(","), &self.agent()));
        command.args(["-n", &self.size().to_string()]);
        command.arg(mpi.program()).envs(mpi.environment());
        command
    }

    /// A command on the i-th host in `folder`, ready for its name and arguments.
    pub fn on(&self, i: usize, folder: &Path) -> Command {
        let mut command = Command::new("nsenter");
        command.args(["-t", &self.first.to_string(), "-m", "-p"]);
        if !is_root() {
            command.args(["-U", "--preserve-credentials"]);
        }
        command.arg(format!("--wd={}", folder.display()));
        command.arg("--").arg(self.agent());
        command.args([&self.names[i], "exec"]);
        command
    }

    /// Where the hosts' files are; the i-th has its temporary ones in `NAME.tmp`.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// What runs a command on a host, as ssh would.
    fn agent(&self) -> PathBuf {
        self.folder().join("agent")
    }

    /// The processes of phalanx on the i-th host.
    pub fn ranks_on(&self, i: usize) -> Vec<u32> {
        let mut ranks = self.processes_on(i);
        ranks.retain(|process| name_of(*process) == "phalanx");
        ranks
    }

    /// All processes on the i-th host, but the one that keeps it.
    pub fn processes_on(&self, i: usize) -> Vec<u32> {
        let here = network(self.anchors[i]);
        let processes = fs::read_dir("/proc").unwrap();
        let processes =
            processes.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
        processes
            .filter(|&process| process != self.anchors[i] && network(process) == here)
            .collect()
    }

    /// Bytes that each host has received from the others.
    pub fn received(&self) -> Vec<u64> {
        let received = |anchor: &u32| {
            let table = fs::read_to_string(format!("/proc/{anchor}/net/dev")).unwrap();
            let mut lines = table.lines();
            let line = lines.find_map(|line| line.trim().strip_prefix("eth0:"));
            let first = line.expect("every host has eth0").split_whitespace().next();
            first.unwrap().parse().unwrap()
        };
        self.anchors.iter().map(received).collect()
    }
}

impl Drop for Hosts {
    fn drop(&mut self) {
        drop(self.keeper.stdin.take());
        let _ = self.keeper.wait();
    }
}

/// The network that a process is in, if it runs.
fn network(process: u32) -> Option<PathBuf> {
    fs::read_link(format!("/proc/{process}/ns/net")).ok()
}

/// The name of a process's program, as far as the system keeps it.
fn name_of(process: u32) -> String {
    let name = fs::read_to_string(format!("/proc/{process}/comm")).unwrap_or_default();
    name.trim_end().into()
}

/// Whether this process may make namespaces without one for users.
pub fn is_root() -> bool {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mut lines = status.lines();
    let users = lines.find_map(|line| line.strip_prefix("Uid:"));
    users.and_then(|ids| ids.split_whitespace().nth(1)) == Some("0")
}
