//! The thread of a rank that brings photos and notes to the disk while others are read.

use std::collections::VecDeque;
use std::fs::File;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::{Builder, JoinHandle};

use super::work::{Note, Work};
use crate::{Error, Result};

/// Notes that are written once the files are on the disk.
type Task = (Vec<Note>, Vec<File>);

/// Files that so many ranks on a node, which may be one process, have open together until they are on the disk; as many more
/// wait to be given to their writers. Systems allow a process about a thousand.
const OPEN: usize = 256;
/// The most of one rank.
const MOST: usize = 32;

/// One who writes, from the first time that there is something to write. Dropped, it is waited for.
pub(super) struct Writer {
    thread: Option<Started>,
    /// Files that may be open.
    most: usize,
    /// The files of each task whose end is not known.
    waiting: VecDeque<usize>,
    /// Why the first one failed that did.
    fault: Option<Error>,
}

struct Started {
    /// None only while it ends.
    tasks: Option<Sender<Task>>,
    done: Receiver<Result<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Writer {
    /// One of a rank that has so many ranks on its node.
    pub(super) fn of(ranks: usize) -> Self {
        Self {
            thread: None,
            most: (OPEN / ranks.max(1)).clamp(2, MOST),
            waiting: VecDeque::new(),
            fault: None,
        }
    }

    /// Files that may be open at once.
    pub(super) fn most(&self) -> usize {
        self.most
    }

    /// Has notes written behind all before, once `files` are on the disk; waits where too many would be open till then.
    pub(super) fn write(&mut self, work: &Work, notes: Vec<Note>, files: Vec<File>) -> Result<()> {
        while !self.waiting.is_empty() && self.open() + files.len() > self.most {
            self.wait_for_one();
        }
        let open = files.len();
        let started = match &mut self.thread {
            Some(started) => started,
            none => none.insert(Started::new(work.clone())?),
        };
        let tasks = started.tasks.as_ref().expect("it has not ended");
        tasks
            .send((notes, files))
            .expect("the thread listens until it is told to end");
        self.waiting.push_back(open);
        Ok(())
    }

    /// Files that may be open still.
    fn open(&self) -> usize {
        self.waiting.iter().sum()
    }

    /// Whether it has something to do.
    pub(super) fn is_busy(&mut self) -> bool {
        while let Some(done) = self.thread.as_ref().and_then(Started::poll) {
            self.note(done);
        }
        !self.waiting.is_empty()
    }

    /// Waits until all is written.
    pub(super) fn wait(&mut self) -> Result<()> {
        while !self.waiting.is_empty() {
            self.wait_for_one();
        }
        self.fault.take().map_or(Ok(()), Err)
    }

    /// Waits until the first task is done of those that are not.
    fn wait_for_one(&mut self) {
        let started = self.thread.as_ref().expect("it has been given a task");
        let done = started.done.recv();
        self.note(done.expect("a writer of notes does not panic"));
    }

    fn note(&mut self, done: Result<()>) {
        self.waiting.pop_front();
        self.fault = self.fault.take().or(done.err());
    }

    /// The same, when nothing more is to be written.
    pub(super) fn end(mut self) -> Result<()> {
        self.wait()
    }
}

impl Started {
    fn new(work: Work) -> Result<Self> {
        let (tasks, todo) = channel::<Task>();
        let (tell, done) = channel();
        let write = move || {
            let mut good = true;
            while let Ok((notes, files)) = todo.recv() {
                // Behind what failed nothing is noted: who knows what has come to the disk.
                let written = match good {
                    true => bring(&work, &notes, files),
                    false => Ok(()),
                };
                good &= written.is_ok();
                // Who does not listen any more has ended.
                let _ = tell.send(written);
            }
        };
        let thread = Builder::new()
            .name("phalanx notes".into())
            .spawn(write)
            .map_err(Error::io("start a thread for", "notes"))?;
        Ok(Self {
            tasks: Some(tasks),
            done,
            thread: Some(thread),
        })
    }

    fn poll(&self) -> Option<Result<()>> {
        self.done.try_recv().ok()
    }
}

impl Drop for Started {
    fn drop(&mut self) {
        self.tasks = None;
        if let Some(thread) = self.thread.take() {
            // A panic in it has been told by itself.
            let _ = thread.join();
        }
    }
}

fn bring(work: &Work, notes: &[Note], files: Vec<File>) -> Result<()> {
    for file in files {
        file.sync_all().map_err(Error::io("write", work.path()))?;
    }
    match notes.is_empty() {
        true => Ok(()),
        false => work.write(notes),
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn behind_a_note_that_fails_none_is_written() {
        let folder = tempfile::tempdir().unwrap();
        let work = Work::of(&folder.path().join("set")).unwrap();
        let notes = work.path().join("notes");
        let note = |start: usize| Note {
            start,
            end: start + 1,
            failures: Vec::new(),
            sums: Vec::new(),
            lengths: Vec::new(),
        };
        let mut writer = Writer::of(1);
        assert!(!writer.is_busy());
        // A file is where the folder should be.
        fs::create_dir(work.path()).unwrap();
        fs::write(&notes, "").unwrap();
        writer.write(&work, vec![note(0)], Vec::new()).unwrap();
        while writer.is_busy() {
            std::thread::yield_now();
        }
        fs::remove_file(&notes).unwrap();
        fs::create_dir(&notes).unwrap();
        writer.write(&work, vec![note(1)], Vec::new()).unwrap();
        assert!(writer.end().is_err());
        assert_eq!(fs::read_dir(&notes).unwrap().count(), 0);

        let mut writer = Writer::of(1);
        for start in 0..3 {
            writer.write(&work, vec![note(start)], Vec::new()).unwrap();
        }
        // Dropped, it is waited for.
        drop(writer);
        assert_eq!(fs::read_dir(&notes).unwrap().count(), 3);
    }

    /// Of many small shards, more files were open than systems allow.
    #[test]
    fn who_has_many_files_written_waits_for_some() {
        let folder = tempfile::tempdir().unwrap();
        let work = Work::of(&folder.path().join("set")).unwrap();
        let files = |count: usize| -> Vec<File> {
            let file = |_| File::open(folder.path()).unwrap();
            (0..count).map(file).collect()
        };
        let mut writer = Writer::of(1);
        assert_eq!((writer.most(), Writer::of(64).most()), (MOST, 4));
        for count in [1, 20, 1, 1, MOST - 1, 2].into_iter().chain([1; 100]) {
            writer.write(&work, Vec::new(), files(count)).unwrap();
            assert!(writer.open() <= MOST);
        }
        // Those of one task are written together.
        writer.write(&work, Vec::new(), files(MOST + 5)).unwrap();
        assert_eq!(writer.waiting, [MOST + 5]);
        writer.end().unwrap();
    }
}
