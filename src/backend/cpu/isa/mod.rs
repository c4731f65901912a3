//! Which vector instructions the kernels use: asked once, at run time, so that one program serves every node of a
//! cluster.
//!
//! `PHALANX_ISA` holds the kernels to a narrower set than the machine's, to compare or to get the bits of another
//! machine: sums that go along vectors are rounded in another order where vectors are wider.

#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
mod avx512;
mod vectors;

#[cfg(target_arch = "x86_64")]
pub(super) use avx2::Avx2;
#[cfg(target_arch = "x86_64")]
pub(super) use avx512::Avx512;
pub(super) use vectors::{Vectors, floats, floats_mut};

use std::fmt;
use std::sync::OnceLock;

use crate::{Error, Result};

/// The variable that holds the kernels to a set.
const VARIABLE: &str = "PHALANX_ISA";

/// A set of instructions; each has what those before it have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Isa {
    /// What every machine has.
    Portable,
    /// Vectors of 8 floats, with fused multiply-add.
    Avx2,
    /// Vectors of 16 floats: AVX-512 F, BW, DQ and VL.
    Avx512,
}

impl Isa {
    /// All sets.
    pub const ALL: [Self; 3] = [Self::Portable, Self::Avx2, Self::Avx512];

    /// The largest set of this machine.
    pub fn found() -> Self {
        #[cfg(target_arch = "x86_64")]
        {
            use std::arch::is_x86_feature_detected as has;
            let avx2 = has!("avx2") && has!("fma");
            let wide = has!("avx512f") && has!("avx512bw") && has!("avx512dq") && has!("avx512vl");
            match (avx2, wide) {
                (true, true) => return Self::Avx512,
                (true, false) => return Self::Avx2,
                _ => {}
            }
        }
        Self::Portable
    }

    /// What to type for it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Portable => "portable",
            Self::Avx2 => "avx2",
            Self::Avx512 => "avx512",
        }
    }
}

impl fmt::Display for Isa {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str(match self {
            Self::Portable => "no wide vectors",
            Self::Avx2 => "AVX2",
            Self::Avx512 => "AVX-512",
        })
    }
}

/// The set that the kernels use: the machine's largest, or a smaller one that the user chose.
pub fn isa() -> Isa {
    #[cfg(test)]
    if let Some(forced) = tests::FORCED.get() {
        return forced;
    }
    static CHOICE: OnceLock<Isa> = OnceLock::new();
    *CHOICE.get_or_init(|| choice().unwrap_or_else(|_| Isa::found()))
}

/// What the user chose, as far as this machine has it.
pub fn choice() -> Result<Isa> {
    let found = Isa::found();
    let Some(name) = std::env::var_os(VARIABLE) else {
        return Ok(found);
    };
    let mut all = Isa::ALL.into_iter();
    match all.find(|isa| name == isa.name()) {
        Some(isa) if isa <= found => Ok(isa),
        Some(isa) => Err(Error::Usage(format!(
            "{VARIABLE} asks for {isa}, which this machine does not have: its largest set is {}",
            found.name()
        ))),
        None => Err(Error::Usage(format!(
            "{VARIABLE} is {name:?}: choose portable, avx2 or avx512"
        ))),
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use std::cell::Cell;

    use super::*;

    thread_local! {
        pub(super) static FORCED: Cell<Option<Isa>> = const { Cell::new(None) };
    }

    /// Does `work` with every set that this machine has, on this thread.
    pub(crate) fn with_each_set(mut work: impl FnMut(Isa)) {
        for isa in Isa::ALL.into_iter().filter(|&isa| isa <= Isa::found()) {
            FORCED.set(Some(isa));
            work(isa);
            FORCED.set(None);
        }
    }

    #[test]
    fn sets_are_ordered_and_the_machine_has_those_below_its_largest() {
        assert!(Isa::ALL.is_sorted() && isa() <= Isa::found());
        let mut seen = Vec::new();
        with_each_set(|set| {
            assert_eq!(isa(), set);
            seen.push(set);
        });
        assert_eq!(seen.last(), Some(&Isa::found()));
    }
}
