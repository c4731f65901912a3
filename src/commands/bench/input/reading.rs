//! One measurement: the batches of a setting, read as training reads them.

use std::fs;
use std::sync::Arc;
use std::time::Instant;

use super::design::{Kind, Row, Setting};
use super::sets::Sets;
use crate::Result;
use crate::comm::{Comm, agree, block};
use crate::data::{Dataset, Images, Length, Loader, Place, Scaling, Steps};

/// How batches are read, whatever the setting.
#[derive(Clone, Copy, Debug)]
pub struct How {
    /// How often the same batches are read.
    pub repetitions: usize,
    /// Threads of a rank that decode photos.
    pub decoders: usize,
    /// Whether pixels are scaled to floats too, as the first layer of a model does.
    pub floats: bool,
}

/// Reads the batches of `setting` with all ranks of `team`, a row for each repetition; *collective*.
pub(super) fn read(team: &dyn Comm, sets: &Sets, setting: &Setting, how: How) -> Result<Vec<Row>> {
    let data = agree(team, sets.open(setting.kind))?;
    // Behind what was opened, of which the system then has read something.
    let prepared = match team.local_rank() {
        0 if setting.kind != Kind::Copy => sets.prepare(setting.kind, setting.cold),
        _ => Ok(0),
    };
    let bytes = agree(team, prepared)? as f64 / data.len() as f64;
    // From all of it, whatever its order.
    let spread = (0..setting.samples).map(|i| i * data.len() / setting.samples);
    let mut data = data.part(spread.collect());
    data.decode_by(how.decoders);
    data.keep(team, setting.cache, None)?;
    let mut reading = Reading::new(team, Arc::new(data), setting, how);
    let mut rows = Vec::new();
    for repetition in 1..=how.repetitions {
        let before = from_disk();
        team.barrier();
        let start = Instant::now();
        let read = reading.all();
        team.barrier();
        let seconds = start.elapsed().as_secs_f64();
        agree(team, read)?;
        let mut disk = [from_disk() - before];
        team.sum(&mut disk);
        let row = setting.row(repetition, seconds, reading.data.shape.len());
        rows.push(Row {
            files_mb: bytes * row.images.min(row.samples) as f64 / 1e6,
            disk_mb: disk[0] as f64 / 1e6,
            ..row
        });
    }
    Ok(rows)
}

/// One rank at it.
struct Reading<'a> {
    data: Arc<Dataset>,
    setting: &'a Setting,
    how: How,
    steps: Steps,
    place: (usize, usize),
    scaling: Scaling,
    floats: Vec<f32>,
    /// What is copied, and where to.
    copied: [Vec<u8>; 2],
}

impl<'a> Reading<'a> {
    fn new(team: &dyn Comm, data: Arc<Dataset>, setting: &'a Setting, how: How) -> Self {
        let batch = setting.batch * team.size();
        let each = match setting.kind {
            Kind::Copy => data.shape.len(),
            _ => 0,
        };
        // As much as the set has, so that a copy comes from where the set's pixels would.
        let copied = [setting.samples * each, setting.batch * each];
        Self {
            steps: Steps::new(data.len(), batch, Length::Steps(setting.batches as u64)),
            scaling: Scaling::unit(data.shape.c),
            place: (team.size(), team.rank()),
            data,
            setting,
            how,
            floats: Vec::new(),
            copied: copied.map(|bytes| vec![1; bytes]),
        }
    }

    fn all(&mut self) -> Result<()> {
        match self.setting.kind {
            Kind::Copy => self.copy(),
            _ => self.load()?,
        }
        Ok(())
    }

    /// Batches one behind the other, each asked for while the one before it is in use.
    fn load(&mut self) -> Result<()> {
        let mut loader = Loader::new(self.data.clone(), self.scaling.clone(), 1);
        let batches = self.setting.batches as u64;
        loader.request(self.part(0));
        for step in 0..batches {
            if step + 1 < batches {
                loader.request(self.part(step + 1));
            }
            let batch = loader.take()?;
            if let (true, Images::Bytes(pixels)) = (self.how.floats, &batch.images) {
                let plane = self.data.shape.h * self.data.shape.w;
                self.floats.resize(pixels.len(), 0.0);
                self.scaling.bytes(plane, pixels, &mut self.floats);
            }
            std::hint::black_box((&batch.images, &self.floats));
        }
        Ok(())
    }

    /// This rank's part of a step. The last step of an epoch is as long as the others here: it begins earlier.
    fn part(&self, step: u64) -> Place {
        let Place { epoch, positions } = self.steps.place(step);
        let (size, rank) = self.place;
        let all = self.setting.batch * size;
        let start = positions.end.saturating_sub(all);
        let mine = block(positions.end - start, size, rank);
        Place {
            epoch,
            positions: start + mine.start..start + mine.end,
        }
    }

    fn copy(&mut self) {
        let [from, to] = &mut self.copied;
        for batch in 0..self.setting.batches {
            let start = batch * to.len() % (from.len() - to.len() + 1);
            let some = start..start + to.len();
            to.copy_from_slice(&from[some]);
            std::hint::black_box(&to);
        }
    }
}

/// Bytes that this process had the system fetch from disks so far; zero where it does not tell.
fn from_disk() -> u64 {
    let text = fs::read_to_string("/proc/self/io").unwrap_or_default();
    let line = text
        .lines()
        .find_map(|line| line.strip_prefix("read_bytes: "));
    line.and_then(|number| number.parse().ok()).unwrap_or(0)
}
