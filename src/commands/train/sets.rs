//! The sets of a run: opened, measured, and kept in memory as the settings say.

use super::Settings;
use crate::comm::{Comm, agree, cores};
use crate::data::photos::Fit;
use crate::data::{Caching, Dataset, Origin, Shape, Shuffle};
use crate::{Error, Result};

/// The most threads of a rank that decode photos, where nothing else is asked for.
const MOST_DECODERS: f64 = 4.0;

/// How samples become batches.
#[derive(Clone, Copy, Debug, Default)]
pub struct Input {
    /// What photos become, where sets are folders of them.
    pub shape: Option<Shape>,
    /// How they become that, where something is asked for.
    pub fit: Option<Fit>,
    /// Where samples are kept.
    pub caching: Caching,
    /// Threads of a rank that decode photos.
    pub decoders: Option<usize>,
    /// Which samples are drawn from.
    pub shuffle: Shuffle,
}

impl Input {
    /// How many threads of a rank decode photos: as many as it has cores, where nothing is asked for; *collective*.
    pub(in crate::commands) fn decoders(&self, comm: &dyn Comm) -> usize {
        let cores = cores(comm).round().clamp(1.0, MOST_DECODERS);
        self.decoders.unwrap_or(cores as usize)
    }

    /// What the user reads of it, for a set like this.
    pub(in crate::commands) fn describe(&self, data: &Dataset) -> String {
        let read = match (data.is_folder(), data.is_encoded(), data.is_mapped()) {
            (true, ..) => "photos, a file at a time",
            (false, true, _) => "JPEG files in shards",
            (false, false, true) => "pixels, mapped",
            (false, false, false) => "pixels, through HDF5",
        };
        let decoded = match (data.is_encoded(), data.decoders()) {
            (false, _) => String::new(),
            (true, 1) => ", decoded by 1 thread a rank".into(),
            (true, threads) => format!(", decoded by {threads} threads a rank"),
        };
        let kept = match (data.is_cached(), self.caching) {
            (true, Caching::Memory) => ", kept in each rank's memory",
            (true, _) => ", kept once for a node",
            (false, Caching::None) => "",
            (false, _) => ", which need no --cache",
        };
        let drawn = match self.shuffle {
            Shuffle::Samples => String::new(),
            Shuffle::Shards(buffer) => format!(", shard by shard through {buffer} samples"),
        };
        format!("{read}{decoded}{kept}{drawn}")
    }
}

/// What a run trains on and is tested on.
pub(in crate::commands) struct Sets {
    pub(in crate::commands) data: Dataset,
    pub(in crate::commands) test: Option<Dataset>,
    /// Bytes of each rank for samples that are kept.
    pub(in crate::commands) kept: u64,
}

impl Sets {
    /// Opens the sets of `settings`, where a rank may take so much memory; *collective*.
    pub(in crate::commands) fn open(
        comm: &dyn Comm,
        settings: &Settings,
        memory: Option<u64>,
    ) -> Result<Self> {
        let input = &settings.input;
        let mut sets = agree(comm, Self::find(settings))?;
        sets.data.same_on_all(comm)?;
        if let Some(test) = &sets.test {
            test.same_on_all(comm)?;
            sets.data.origin().warn_of_fit(comm, test);
        }
        let decoders = input.decoders(comm);
        for set in [Some(&mut sets.data), sets.test.as_mut()]
            .into_iter()
            .flatten()
        {
            set.decode_by(decoders);
            let left = memory.map(|memory| memory.saturating_sub(sets.kept));
            sets.kept += set.keep(comm, input.caching, left)?;
        }
        if settings.normalize {
            sets.data.measure(comm)?;
        }
        if comm.rank() == 0 && input.shuffle != Shuffle::Samples && sets.data.labels().is_sorted() {
            log::warn!(
                "{} is stored by class: shard by shard, few classes come at a time; `phalanx data pack --shuffle` mixes them",
                sets.data.path.display()
            );
        }
        Ok(sets)
    }

    fn find(settings: &Settings) -> Result<Self> {
        let Input { shape, fit, .. } = settings.input;
        let frame = |like: Origin| shape.map(|shape| like.frame(shape, fit));
        let mut data = Dataset::open_framed(&settings.data, frame(Origin::default()), None)?;
        if let Some(shape) = shape.filter(|&shape| shape != data.shape) {
            return Err(Error::Mismatch {
                what: format!("samples of {}", settings.data.display()),
                expected: format!("{shape}, as --shape says"),
                got: data.shape.to_string(),
                hint: "--shape is for folders of photos: other sets have theirs",
            });
        }
        if data.is_folder() && settings.input.shuffle != Shuffle::Samples {
            let problem = "--shuffle shards is for sets in shards, and the photos of a folder are read one by one";
            return Err(Error::Usage(format!("{problem}: pack them")));
        }
        let test = settings.test.as_deref();
        let frame = frame(data.origin());
        let test = test.map(|path| Dataset::open_framed(path, frame, Some(&data.class_names)));
        let test = test.transpose()?;
        // Beside pixels of which nothing is told, it may be meant for the photos of the test set.
        if data.fit.is_some() || !test.as_ref().is_some_and(Dataset::is_folder) {
            data.check_fit(fit)?;
        }
        data.fit = data.fit.or(fit);
        Ok(Self {
            data,
            test,
            kept: 0,
        })
    }
}
