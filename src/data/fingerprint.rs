//! Whether two sets hold the same samples, told cheaply.

use xxhash_rust::xxh3::Xxh3;

use super::{Dataset, Scaling};
use crate::comm::{Comm, agree};
use crate::{Error, Result};

/// Samples whose pixels are looked at, evenly spread.
const LOOKED_AT: usize = 64;

impl Dataset {
    /// In words, what it holds: its size, and a digest of all labels and of some samples' pixels.
    pub fn fingerprint(&self) -> String {
        let mut hash = self.hash_of_labels();
        let (unit, mut pixels) = (Scaling::unit(self.shape.c), vec![0.0; self.shape.len()]);
        let count = self.len().min(LOOKED_AT);
        for i in 0..count {
            // What is wrong with a sample is told by the rank that trains on it.
            match self.sample(i * self.len() / count, &unit, &mut pixels) {
                Ok(_) => (pixels.iter()).for_each(|value| hash.update(&value.to_le_bytes())),
                Err(_) => hash.update(b"odd"),
            }
        }
        self.words(&hash)
    }

    /// Refuses ranks that have opened other samples than the first one; *collective*. Looks at no pixel.
    pub fn same_on_all(&self, comm: &dyn Comm) -> Result<()> {
        let mine = self.outline();
        let all = comm.gather(mine.as_bytes());
        let same = match &all[0] {
            first if first == mine.as_bytes() => Ok(()),
            first => Err(Error::Mismatch {
                what: format!("{} as rank {} sees it", self.path.display(), comm.rank()),
                expected: format!("{}, as rank 0 sees it", String::from_utf8_lossy(first)),
                got: mine,
                hint: "all hosts must see the same files: copy them to each, or wait until nobody adds or removes any",
            }),
        };
        agree(comm, same)
    }

    /// As `fingerprint`, of what is known without looking at a sample: labels, names and figures.
    fn outline(&self) -> String {
        let mut hash = self.hash_of_labels();
        for name in self
            .class_names
            .iter()
            .map(String::as_bytes)
            .chain(self.photos())
        {
            hash.update(name);
            hash.update(&[0]);
        }
        for figure in self.mean.iter().chain(&self.std) {
            hash.update(&figure.to_le_bytes());
        }
        self.words(&hash)
    }

    fn hash_of_labels(&self) -> Xxh3 {
        let mut hash = Xxh3::new();
        for label in self.labels() {
            hash.update(&label.to_le_bytes());
        }
        hash
    }

    fn words(&self, hash: &Xxh3) -> String {
        format!(
            "{} samples of {} in {} classes, {:016x}",
            self.len(),
            self.shape,
            self.classes,
            hash.digest()
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::comm::run_ranks;
    use crate::data::synthetic::{Amount, Kind, make};

    /// A rank that saw another set trained on samples of its own, and nobody said a word.
    #[test]
    fn ranks_with_other_samples_than_the_first_are_refused_by_number() {
        let folder = tempfile::tempdir().unwrap();
        let path = |seed: u64| folder.path().join(format!("{seed}.h5"));
        for seed in [1, 2] {
            let amount = Amount {
                samples: 20,
                seed,
                first: 0,
                shards: 1,
                force: false,
            };
            make(Kind::Digits { side: 8 }, amount, &path(seed)).unwrap();
        }
        let seen = |odd: Option<usize>| {
            run_ranks(3, |comm| {
                let seed = if odd == Some(comm.rank()) { 2 } else { 1 };
                let set = Dataset::open(&path(seed)).unwrap();
                set.same_on_all(comm).map_err(|error| error.to_string())
            })
        };
        assert_eq!(seen(None), vec![Ok(()); 3]);
        for told in seen(Some(1)) {
            let told = told.unwrap_err();
            assert!(told.contains("as rank 1 sees it"), "{told}");
            assert!(told.contains("20 samples of 1×8×8"), "{told}");
        }
    }
}
