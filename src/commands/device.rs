//! `--device`: what computes on each rank, agreed on by all.

use crate::backend::cuda::{Device, Facts};
use std::cell::RefCell;

use crate::backend::{Gemm, Wanted};
use crate::comm::{Comm, agree};
use crate::data::Dataset;
use crate::linalg::{Multiplier, Real};
use crate::nn::{self, Backend, Crew, DeviceModel, Model};
use crate::train::{Batches, readable};
use crate::{Error, Result};

/// Share of a device's free memory that a run may plan with: kernels themselves take some too.
const MARGIN: f64 = 0.95;

/// What computes.
pub(super) struct Chosen {
    /// This rank's device; none where CPUs compute.
    pub(super) device: Option<Device>,
    /// What computes on all ranks, for the user.
    pub(super) words: String,
    /// Whose kernels multiply there.
    pub(super) gemm: Gemm,
    /// Ranks that share this rank's device.
    sharers: usize,
}

impl Chosen {
    /// Settles what computes; `unfit` says what is asked for that a device cannot do; *collective*.
    pub(super) fn find(
        comm: &dyn Comm,
        (wanted, gemm): (Wanted, Gemm),
        unfit: Option<&str>,
    ) -> Result<Self> {
        let found = Self::place(comm, wanted, unfit)?;
        match (&found.device, gemm) {
            (_, Gemm::Own) => Ok(found),
            (Some(_), Gemm::Cublas) => Ok(Self {
                words: format!("{}, products by cuBLAS", found.words),
                gemm,
                ..found
            }),
            (None, Gemm::Cublas) => {
                let problem = format!("--gemm cublas is for GPUs, and this is {}", found.words);
                agree(comm, Err(Error::Usage(problem)))
            }
        }
    }

    fn place(comm: &dyn Comm, wanted: Wanted, unfit: Option<&str>) -> Result<Self> {
        let number = match wanted {
            Wanted::Cpu => return Ok(Self::cpu("cpu".into())),
            Wanted::Cuda(number) => number,
            Wanted::Auto => None,
        };
        let opened = open(comm, number);
        let device = match (wanted, unfit) {
            (Wanted::Auto, _) => {
                let mut found = [u64::from(opened.is_ok())];
                comm.sum(&mut found);
                match (opened, unfit) {
                    (Err(error), _) => return Ok(Self::cpu(format!("cpu ({error})"))),
                    (Ok(_), _) if found[0] < comm.size() as u64 => {
                        return Ok(Self::cpu("cpu (not every rank has a GPU)".into()));
                    }
                    (Ok(_), Some(why)) => {
                        return Ok(Self::cpu(format!("cpu (no GPU is used: {why})")));
                    }
                    (Ok(device), None) => device,
                }
            }
            (_, Some(why)) => {
                let problem =
                    format!("--device {wanted}: {why}; leave that out, or use --device cpu");
                return agree(comm, Err(Error::Usage(problem)));
            }
            (_, None) => agree(comm, opened)?,
        };
        let facts = device.facts();
        let mine = describe(facts);
        let all = comm.gather(mine.as_bytes());
        // Where each rank sees devices of its own, equal numbers are not the same device.
        let visible = std::env::var("CUDA_VISIBLE_DEVICES").unwrap_or_default();
        let name = format!("{visible}/{}", facts.index);
        let near = comm.node().gather(name.as_bytes());
        let sharers = near.iter().filter(|other| **other == name.as_bytes());
        Ok(Self {
            sharers: sharers.count(),
            words: together(&all),
            gemm: Gemm::Own,
            device: Some(device),
        })
    }

    fn cpu(words: String) -> Self {
        Self {
            device: None,
            words,
            gemm: Gemm::Own,
            sharers: 1,
        }
    }

    /// Whether devices compute that are none.
    pub(super) fn is_emulated(&self) -> bool {
        let facts = self.device.as_ref().map(Device::facts);
        facts.is_some_and(|facts| facts.emulated)
    }

    /// Bytes that each rank may take of its device, the same number on every rank; *collective*.
    pub(super) fn budget(&self, comm: &dyn Comm) -> Result<Option<u64>> {
        let Some(device) = &self.device else {
            return Ok(None);
        };
        let free = agree(comm, device.free())?;
        let mine = (free as f64 * MARGIN) as u64 / self.sharers as u64;
        // The least of all ranks is the greatest of the complements. Nobody takes memory before all have asked.
        let mut least = [!mine];
        comm.max(&mut least);
        Ok(Some(!least[0]))
    }
}

impl Chosen {
    /// What takes batches of at most `most` samples of `data` through a model: on the device, or by so many threads. As many at
    /// once as fit into the device's memory, beside `fixed` bytes; at least `least`. *Collective*.
    pub(super) fn backend(
        &self,
        comm: &dyn Comm,
        mut model: Model,
        data: &Dataset,
        (threads, fixed): (usize, u64),
        (least, most): (usize, usize),
    ) -> Result<Box<dyn Backend>> {
        let Some(device) = &self.device else {
            return Ok(Box::new(Crew::new(model, threads)?));
        };
        let memory = self.budget(comm)?;
        let batches = Batches {
            batch: least,
            limit: most,
            team: 1,
            samples: data.len(),
        };
        let batches = batches.counted(nn::device::most(&mut model))?;
        let pixels = data.element() == "u8";
        let bytes = |n: usize| fixed + nn::device::bytes(&mut model, n, pixels);
        let most = batches.limit("the device of a rank", memory, bytes)?;
        let made = DeviceModel::new(model, device, batches.share(most), self.gemm);
        Ok(Box::new(agree(comm, made)?))
    }

    /// What multiplies matrices of at most `longest` rows or columns, if a device does; *collective*.
    pub(super) fn multiplier<T: Real>(
        &self,
        comm: &dyn Comm,
        longest: usize,
    ) -> Result<Option<RefCell<Multiplier<T>>>> {
        let memory = self.budget(comm)?.unwrap_or(0);
        let made = |device| Multiplier::new(device, self.gemm, memory, longest);
        let made = self.device.as_ref().map(made).transpose();
        Ok(agree(comm, made)?.map(RefCell::new))
    }

    /// FLOP/s that a device has on paper; not known of an emulator.
    pub(super) fn peak(&self) -> Option<f64> {
        let facts = self.device.as_ref()?.facts();
        let lanes = match facts.capability {
            (8, 6..) | (9.., _) => 128,
            _ => 64,
        };
        let hertz = 1e3 * f64::from(facts.clock);
        let flops = 2.0 * f64::from(lanes * facts.multiprocessors) * hertz;
        (!facts.emulated).then_some(flops)
    }
}

/// Opens the device of this rank: of the given number, or of its place on the node.
fn open(comm: &dyn Comm, number: Option<usize>) -> Result<Device> {
    let index = match number {
        Some(number) => number,
        None => comm.local_rank() % Device::count()?.max(1),
    };
    Device::open(index)
}

/// A device, as the user reads it.
pub(super) fn describe(facts: &Facts) -> String {
    let (major, minor) = facts.capability;
    let emulated = match facts.emulated {
        true => ", EMULATED on the CPU: its times are no GPU's",
        false => "",
    };
    format!(
        "cuda:{} {} (compute capability {major}.{minor}, {}{emulated})",
        facts.index,
        facts.name,
        readable(facts.memory),
    )
}

/// All ranks' devices, each kind once.
fn together(all: &[Vec<u8>]) -> String {
    let mut kinds: Vec<(&[u8], usize)> = Vec::new();
    for device in all {
        match kinds.iter_mut().find(|(known, _)| known == device) {
            Some((_, count)) => *count += 1,
            None => kinds.push((device, 1)),
        }
    }
    let words = kinds.iter().map(|(device, count)| {
        let device = String::from_utf8_lossy(device);
        match (all.len(), count) {
            (1, _) => device.into_owned(),
            (_, 1) => format!("1 rank on {device}"),
            _ => format!("{count} ranks on {device}"),
        }
    });
    words.collect::<Vec<_>>().join("; ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::comm::run_ranks;

    #[test]
    fn devices_of_ranks_are_told_once_a_kind() {
        let of = |names: &[&str]| {
            let all: Vec<Vec<u8>> = names.iter().map(|name| name.as_bytes().to_vec()).collect();
            together(&all)
        };
        assert_eq!(of(&["a"]), "a");
        assert_eq!(of(&["a", "b", "a"]), "2 ranks on a; 1 rank on b");
    }

    #[test]
    fn the_cpu_computes_where_it_is_asked_for() {
        run_ranks(2, |comm| {
            let chosen = Chosen::find(comm, (Wanted::Cpu, Gemm::Own), Some("anything")).unwrap();
            assert_eq!(
                (chosen.words.as_str(), chosen.is_emulated()),
                ("cpu", false)
            );
            assert_eq!(chosen.budget(comm).unwrap(), None);
        });
    }
}
