//! What this process and its host have used so far, as the system counts it.

use std::fs;
use std::path::Path;

use procfs::process::Process;
use procfs::{Current, CurrentSI, Meminfo};

/// Bytes of a sector in the system's counts of disks, whatever the disk's own are.
const SECTOR: u64 = 512;

/// Counts at one moment; what the system does not tell is zero.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Usage {
    /// Of this process.
    pub own: Own,
    /// Of all processes of its host.
    pub host: Host,
}

#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Own {
    /// Seconds of processor, in this process and in the system on its behalf.
    pub cpu: f64,
    pub resident: u64,
    pub minor_faults: u64,
    pub major_faults: u64,
    /// Times that it gave its core up, and that it was taken away.
    pub yielded: u64,
    pub preempted: u64,
    /// Bytes from and to storage.
    pub read: u64,
    pub written: u64,
}

#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Host {
    /// Seconds of all cores, by what they did.
    pub user: f64,
    pub system: f64,
    pub interrupts: f64,
    pub idle: f64,
    pub waiting: f64,
    pub stolen: f64,
    /// Bytes that nobody else could have.
    pub memory: u64,
    /// Bytes through network interfaces other than loopback.
    pub received: u64,
    pub sent: u64,
    /// Bytes from and to whole disks.
    pub read: u64,
    pub written: u64,
    /// What only dstat shows: bytes of memory by their use, bytes paged in and out, interruptions and changes of process.
    pub taken: u64,
    pub unused: u64,
    pub buffers: u64,
    pub cached: u64,
    pub paged_in: u64,
    pub paged_out: u64,
    pub interruptions: u64,
    pub switches: u64,
}

impl Usage {
    /// All of it; what only dstat shows only if that is `asked`.
    pub(super) fn now(asked: bool) -> Self {
        let mut host = Host::now();
        if asked {
            host.count_more();
        }
        Self {
            own: Own::now(),
            host,
        }
    }
}

impl Own {
    fn now() -> Self {
        let Ok(process) = Process::myself() else {
            return Self::default();
        };
        let mut own = Self::default();
        if let Ok(stat) = process.stat() {
            let ticks = procfs::ticks_per_second() as f64;
            own.cpu = (stat.utime + stat.stime) as f64 / ticks;
            own.resident = stat.rss * procfs::page_size();
            own.minor_faults = stat.minflt;
            own.major_faults = stat.majflt;
        }
        if let Ok(status) = process.status() {
            own.yielded = status.voluntary_ctxt_switches.unwrap_or(0);
            own.preempted = status.nonvoluntary_ctxt_switches.unwrap_or(0);
        }
        if let Ok(io) = process.io() {
            (own.read, own.written) = (io.read_bytes, io.write_bytes);
        }
        own
    }
}

impl Host {
    /// Seconds in which cores had work.
    pub(super) fn busy(&self) -> f64 {
        self.user + self.system + self.interrupts + self.stolen
    }

    /// Seconds in which they had none.
    pub(super) fn free(&self) -> f64 {
        self.idle + self.waiting
    }

    fn now() -> Self {
        let mut host = Self::default();
        if let Ok(kernel) = procfs::KernelStats::current() {
            let (all, ticks) = (kernel.total, procfs::ticks_per_second() as f64);
            let seconds = |count: u64| count as f64 / ticks;
            host.user = seconds(all.user + all.nice);
            host.interrupts = seconds(all.irq.unwrap_or(0) + all.softirq.unwrap_or(0));
            host.system = seconds(all.system);
            host.switches = kernel.ctxt;
            host.idle = seconds(all.idle);
            host.waiting = seconds(all.iowait.unwrap_or(0));
            host.stolen = seconds(all.steal.unwrap_or(0));
        }
        if let Ok(memory) = Meminfo::current() {
            let free = memory.mem_available.unwrap_or(memory.mem_free);
            host.memory = memory.mem_total.saturating_sub(free);
            (host.unused, host.buffers, host.cached) =
                (memory.mem_free, memory.buffers, memory.cached);
            let reclaimable = memory.s_reclaimable.unwrap_or(0);
            let others = host.unused + host.buffers + host.cached + reclaimable;
            host.taken = (memory.mem_total + memory.shmem.unwrap_or(0)).saturating_sub(others);
        }
        if let Ok(interfaces) = procfs::net::dev_status() {
            for (_, counts) in interfaces.iter().filter(|(name, _)| *name != "lo") {
                host.received += counts.recv_bytes;
                host.sent += counts.sent_bytes;
            }
        }
        if let Ok(disks) = procfs::diskstats() {
            // Partitions count in their disk; devices made of others count in those.
            let whole = |name: &str| {
                let device = Path::new("/sys/block").join(name);
                device.join("device").exists()
            };
            for disk in disks.iter().filter(|disk| whole(&disk.name)) {
                host.read += SECTOR * disk.sectors_read;
                host.written += SECTOR * disk.sectors_written;
            }
        }
        host
    }

    fn count_more(&mut self) {
        if let Ok(counts) = procfs::vmstat() {
            let bytes = |name: &str| {
                let pages = counts
                    .get(name)
                    .and_then(|&pages| u64::try_from(pages).ok());
                pages.unwrap_or(0) * procfs::page_size()
            };
            (self.paged_in, self.paged_out) = (bytes("pswpin"), bytes("pswpout"));
        }
        let text = fs::read_to_string("/proc/stat").unwrap_or_default();
        let line = text.lines().find_map(|line| line.strip_prefix("intr "));
        let total = line.and_then(|counts| counts.split(' ').next()?.parse().ok());
        self.interruptions = total.unwrap_or(0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_and_memory_of_this_process_show() {
        let before = Usage::now(true);
        let bytes = vec![1u8; 64 << 20];
        let mut sum = 0u64;
        // Other tests of this process work too: at least once.
        loop {
            sum += bytes.iter().map(|&b| u64::from(b)).sum::<u64>();
            if Usage::now(false).own.cpu - before.own.cpu >= 0.05 {
                break;
            }
        }
        assert!(sum > 0);
        let after = Usage::now(true);
        assert!(after.own.resident > 64 << 20);
        assert!(after.own.minor_faults > before.own.minor_faults);
        assert!(after.host.user + after.host.system > before.host.user + before.host.system);
        assert!(after.host.memory > 64 << 20 && after.host.taken > 64 << 20);
        assert!(after.host.switches > before.host.switches);
        assert!(after.host.interruptions > before.host.interruptions);
    }
}
