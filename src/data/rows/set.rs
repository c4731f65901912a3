//! A set of rows: one HDF5 file, or a folder of shards in the order of their names.

use std::collections::HashMap;
use std::fs;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::thread;

use super::shard::Shard;
use super::stretches::Stretches;
use super::{Block, Row};
use crate::data::shard_paths;
use crate::files::Staged;
use crate::h5::File;
use crate::{Error, Result};

/// What every shard of a set says of it.
#[derive(Clone, Debug, PartialEq)]
pub struct About {
    /// How many features there are; every index is below it.
    pub features: usize,
    /// Where the rows come from, in words.
    pub provenance: String,
    /// How text became features, in a form that can be compared: sets of one encoding fit together. May be empty.
    pub encoding: String,
    /// The mean log loss of the model that made the labels, on the rows of a shard or set, where it is known: nobody can
    /// do better.
    pub best_loss: Option<f64>,
}

/// Rows open for reading.
pub struct RowSet {
    /// The file or folder it was opened from.
    pub path: PathBuf,
    /// What it says of itself.
    pub about: About,
    shards: Vec<Shard>,
    len: usize,
    /// Where rows are not in the order that they are stored in.
    order: Option<Stretches>,
}

impl RowSet {
    /// Opens a file, or all `*.h5` files of a folder.
    pub fn open(path: &Path) -> Result<Self> {
        let mut set: Option<Self> = None;
        for file in shard_paths(path)? {
            let first = set.as_ref().map_or(0, |set| set.len);
            let (about, shard) = Shard::open(&file, first)?;
            let set = set.get_or_insert_with(|| Self {
                path: path.to_path_buf(),
                about: About {
                    best_loss: Some(0.0),
                    ..about.clone()
                },
                shards: Vec::new(),
                len: 0,
                order: None,
            });
            same(
                &format!("features of {}", file.display()),
                (set.about.features, about.features),
            )?;
            same(
                &format!("encoding of {}", file.display()),
                (&set.about.encoding, &about.encoding),
            )?;
            // A sum over rows until all shards are there; known of the set if it is known of every shard.
            let losses = set.about.best_loss.zip(about.best_loss);
            set.about.best_loss = losses.map(|(sum, mean)| sum + mean * shard.len() as f64);
            set.len += shard.len();
            set.shards.push(shard);
        }
        let mut set = set.expect("a set has at least one shard");
        if set.len == 0 {
            return Err(Error::file(
                path,
                "holds no rows",
                "make or import the set again",
            ));
        }
        set.about.best_loss = set.about.best_loss.map(|sum| sum / set.len as f64);
        Ok(set)
    }

    /// Whether the set at `path` holds rows, by its first file; a set that cannot be read holds none.
    pub fn is_at(path: &Path) -> bool {
        let first = shard_paths(path)
            .ok()
            .and_then(|files| files.into_iter().next());
        first.is_some_and(|file| File::open(&file).is_ok_and(|file| file.has("indptr")))
    }

    /// Number of rows.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there is no row.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Features that are not zero, over all rows.
    pub fn nonzeros(&self) -> usize {
        self.shards.iter().map(Shard::nonzeros).sum()
    }

    /// Whether some rows have values other than 1.
    pub fn has_values(&self) -> bool {
        self.shards.iter().any(Shard::has_values)
    }

    /// Whether rows take no memory of their own.
    pub fn is_mapped(&self) -> bool {
        self.shards.iter().all(Shard::is_mapped)
    }

    /// The shard files.
    pub fn files(&self) -> impl Iterator<Item = &Path> {
        self.shards.iter().map(|shard| shard.path.as_path())
    }

    /// Holds about `share` of the rows out, chosen by `seed` in stretches of neighbours: puts them behind all others, and
    /// gives the number of these.
    pub fn hold_out(&mut self, share: f64, seed: u64) -> usize {
        let (order, others) = Stretches::held_out(self.len, share, seed);
        self.order = Some(order);
        others
    }

    /// The number of row `i` as it is stored.
    pub fn stored(&self, i: usize) -> usize {
        self.order.as_ref().map_or(i, |order| order.stored(i))
    }

    /// Row `i`. Its indices and values were checked by nobody yet.
    pub fn row(&self, i: usize) -> Row<'_> {
        self.stored_row(self.stored(i))
    }

    /// Row `i` as it is stored, whatever is held out.
    pub fn stored_row(&self, i: usize) -> Row<'_> {
        let shard = &self.shards[self.shard_of(i)];
        shard.row(i - shard.first)
    }

    /// Rows `range`, in order; faster than one by one.
    pub fn rows(&self, range: Range<usize>) -> Rows<'_> {
        Rows {
            set: self,
            range,
            run: 0..0,
            shard: &self.shards[0],
        }
    }

    fn shard_of(&self, stored: usize) -> usize {
        let after = self.shards.partition_point(|shard| shard.first <= stored);
        after - 1
    }

    /// What features are called, of those that the import gave a name.
    pub fn names(&self) -> Result<HashMap<u32, String>> {
        let mut all = HashMap::new();
        for shard in &self.shards {
            for (index, name) in shard.names()? {
                all.entry(index).or_insert(name);
            }
        }
        Ok(all)
    }

    /// Refuses `other` if a model for this set could not be applied to it.
    pub fn fits(&self, other: &Self) -> Result<()> {
        let of = other.path.display();
        same(
            &format!("features of {of}"),
            (self.about.features, other.about.features),
        )?;
        same(
            &format!("encoding of {of}"),
            (&self.about.encoding, &other.about.encoding),
        )
    }
}

/// Rows of a set, in order.
pub struct Rows<'a> {
    set: &'a RowSet,
    /// Those that are to come and not in `run` yet.
    range: Range<usize>,
    /// Those that lie beside each other in `shard`, by their numbers there.
    run: Range<usize>,
    shard: &'a Shard,
}

impl Rows<'_> {
    /// Goes to the next run, if there is one.
    #[cold]
    fn turn(&mut self) -> Option<()> {
        if self.range.is_empty() {
            return None;
        }
        let run = match &self.set.order {
            None => self.range.clone(),
            Some(order) => order.run(&self.range),
        };
        self.shard = &self.set.shards[self.set.shard_of(run.start)];
        let end = run.end.min(self.shard.first + self.shard.len());
        self.range.start += end - run.start;
        self.run = run.start - self.shard.first..end - self.shard.first;
        Some(())
    }
}

impl<'a> Iterator for Rows<'a> {
    type Item = Row<'a>;

    #[inline]
    fn next(&mut self) -> Option<Row<'a>> {
        if self.run.is_empty() {
            self.turn()?;
        }
        let row = self.shard.row(self.run.start);
        self.run.start += 1;
        Some(row)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        let len = self.run.len() + self.range.len();
        (len, Some(len))
    }
}

fn same<T: PartialEq + ToString>(what: &str, (expected, got): (T, T)) -> Result<()> {
    if expected == got {
        return Ok(());
    }
    Err(Error::Mismatch {
        what: what.into(),
        expected: expected.to_string(),
        got: got.to_string(),
        hint: "import training and test data with the same options, and keep sets apart in folders of their own",
    })
}

/// A folder of shards on its way to its place: shards may be written by several ranks, and are visible all at once.
pub struct SetFolder {
    staged: Staged,
}

impl SetFolder {
    /// Starts a set that will be called `out`; on one rank. An older set is replaced only with `force`, anything else never.
    pub fn create(out: &Path, force: bool) -> Result<Self> {
        if force && out.exists() {
            crate::data::only_shards(out)?;
        }
        let staged = Staged::new(out, force)?;
        fs::create_dir(staged.path()).map_err(Error::io("create folder", staged.path()))?;
        Ok(Self { staged })
    }

    /// Where shards are written; any rank may write there with [`write_shard`](Self::write_shard).
    pub fn path(&self) -> &Path {
        self.staged.path()
    }

    /// Writes shard number `i` into the folder at `path`. The order of numbers is that of rows.
    pub fn write_shard(path: &Path, i: usize, about: &About, rows: &Block) -> Result<()> {
        crate::interrupt::check()?;
        let shard = path.join(format!("shard-{i:05}.h5"));
        Shard::write(&shard, about, rows)?;
        // On its way to the disk while the next is made. What goes wrong shows when `finish` asks for the same again.
        let sync = move || fs::File::open(shard).and_then(|file| file.sync_all());
        let _ = thread::Builder::new().spawn(sync);
        Ok(())
    }

    /// Puts the set in its place, once all shards are written.
    pub fn finish(self) -> Result<()> {
        self.staged.commit()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_come_back_from_shards_as_they_were_written() {
        let folder = tempfile::tempdir().unwrap();
        let out = folder.path().join("set");
        let about = About {
            features: 100,
            provenance: "a test".into(),
            encoding: "none".into(),
            best_loss: Some(0.5),
        };
        let mut blocks = [Block::default(), Block::default()];
        for (i, block) in blocks.iter_mut().enumerate() {
            for row in 0..3 {
                for feature in 0..row {
                    block.feature(10 * feature + i as u32, 1.0 + i as f32 * 0.5);
                }
                block.name(i as u32, || format!("feature {i}"));
                block.end_row(row == 1);
            }
        }
        let staged = SetFolder::create(&out, false).unwrap();
        for (i, block) in blocks.iter().enumerate() {
            SetFolder::write_shard(staged.path(), i, &about, block).unwrap();
        }
        staged.finish().unwrap();
        let set = RowSet::open(&out).unwrap();
        assert_eq!((set.len(), set.nonzeros()), (6, 6));
        assert!(set.is_mapped() && set.has_values());
        assert_eq!(set.about, about);
        let expected: Vec<Row> = (0..6).map(|i| blocks[i / 3].row(i % 3)).collect();
        assert_eq!((0..6).map(|i| set.row(i)).collect::<Vec<_>>(), expected);
        assert_eq!(set.rows(2..5).collect::<Vec<_>>(), expected[2..5]);
        assert_eq!(set.rows(0..6).count(), 6);
        let mut held = RowSet::open(&out).unwrap();
        let others = held.hold_out(0.3, 1);
        assert_eq!((others, held.len()), (4, 6));
        for range in [0..6, 1..5, 4..6, 3..3] {
            let stored = range.clone().map(|i| expected[held.stored(i)]);
            assert!(held.rows(range.clone()).eq(stored), "{range:?}");
            assert!(range.clone().map(|i| held.row(i)).eq(held.rows(range)));
        }
        assert_eq!(set.names().unwrap()[&1], "feature 1");
        assert!(SetFolder::create(&out, false).is_err());
        assert!(SetFolder::create(&out, true).is_ok());
    }
}
