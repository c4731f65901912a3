//! What samples are, beside their shape: what their classes are called, and how photos became pixels.

use std::io::BufReader;
use std::path::Path;

use serde::Deserialize;

use super::photos::Fit;
use super::{Dataset, Frame, MANIFEST, Shape};
use crate::comm::Comm;
use crate::files::open_at_once;
use crate::{Error, Result};

/// What is known of the samples that a model was trained on.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Origin {
    /// What the classes are called; empty where the set does not say.
    pub class_names: Vec<String>,
    /// How photos of other proportions became pixels, where that is known.
    pub fit: Option<Fit>,
}

impl Origin {
    /// What photos become that are to be like these: in another way only where that is asked for.
    pub fn frame(&self, shape: Shape, asked: Option<Fit>) -> Frame {
        let fit = asked.or(self.fit).unwrap_or(Fit::Crop);
        Frame { shape, fit }
    }

    /// The first class that is called otherwise there, and how.
    pub fn renamed<'a>(&'a self, other: &'a [String]) -> Option<(&'a str, &'a str)> {
        let mut pairs = self.class_names.iter().zip(other);
        let (mine, other) = pairs.find(|(mine, other)| mine != other)?;
        Some((mine, other))
    }

    /// Tells where photos of a set became pixels in another way; all ranks may call it, one tells.
    pub fn warn_of_fit(&self, comm: &dyn Comm, other: &Dataset) {
        let (Some(mine), Some(others)) = (self.fit, other.fit) else {
            return;
        };
        if comm.rank() == 0 && mine != others {
            log::warn!(
                "the photos of {} become pixels by --fit {others}, those that were trained on by --fit {mine}",
                other.path.display()
            );
        }
    }
}

impl Dataset {
    /// What a model that is trained on it is to know.
    pub fn origin(&self) -> Origin {
        Origin {
            class_names: self.class_names.clone(),
            fit: self.fit,
        }
    }

    /// Refuses `other` if a model for this set could not be applied to it.
    pub fn fits(&self, other: &Self) -> Result<()> {
        let mismatch = |what: &str, expected: String, got: String| {
            Err(Error::Mismatch {
                what: format!("{what} of {}", other.path.display()),
                expected: format!("{expected} as in {}", self.path.display()),
                got,
                hint: "use a test set that was made like the training set",
            })
        };
        if other.shape != self.shape {
            return mismatch(
                "image shape",
                self.shape.to_string(),
                other.shape.to_string(),
            );
        }
        if other.classes > self.classes {
            return mismatch(
                "classes",
                self.classes.to_string(),
                other.classes.to_string(),
            );
        }
        if let Some((mine, other)) = self.origin().renamed(&other.class_names) {
            return mismatch("names of classes", mine.into(), other.into());
        }
        Ok(())
    }

    /// Refuses a fit that is asked for and cannot be had: that of photos which are pixels already is settled.
    pub fn check_fit(&self, asked: Option<Fit>) -> Result<()> {
        let settled = |asked: &Fit| !self.is_folder() && self.fit != Some(*asked);
        let Some(asked) = asked.filter(settled) else {
            return Ok(());
        };
        let known = self.fit.map(|fit| fit.to_string());
        Err(Error::Mismatch {
            what: format!("fit of the photos of {}", self.path.display()),
            expected: format!("{asked}, as --fit says"),
            got: known.unwrap_or_else(|| "one that is settled, and not told".into()),
            hint: "--fit is for folders of photos: for other sets leave it out, or pack the photos again",
        })
    }
}

/// How photos became the pixels of a packed set, where its manifest says so.
pub(super) fn packed_by(path: &Path) -> Option<Fit> {
    #[derive(Deserialize)]
    struct Manifest {
        fit: String,
    }
    let file = open_at_once(&path.join(MANIFEST)).ok()?;
    let manifest: Manifest = serde_json::from_reader(BufReader::new(file)).ok()?;
    manifest.fit.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn photos_become_what_others_did_unless_something_is_asked_for() {
        let shape = Shape { c: 3, h: 4, w: 4 };
        let of = |fit| Origin {
            fit,
            ..Origin::default()
        };
        for (origin, asked, fit) in [
            (None, None, Fit::Crop),
            (Some(Fit::Pad), None, Fit::Pad),
            (Some(Fit::Pad), Some(Fit::Stretch), Fit::Stretch),
            (None, Some(Fit::Pad), Fit::Pad),
        ] {
            assert_eq!(of(origin).frame(shape, asked), Frame { shape, fit });
        }
    }

    #[test]
    fn classes_that_are_called_otherwise_are_found_where_both_have_names() {
        let names = |names: &[&str]| names.iter().map(|&name| name.into()).collect::<Vec<_>>();
        let origin = Origin {
            class_names: names(&["fig", "kiwi", "plum"]),
            fit: None,
        };
        assert_eq!(
            origin.renamed(&names(&["fig", "plum"])),
            Some(("kiwi", "plum"))
        );
        for same in [&["fig", "kiwi"][..], &[]] {
            assert_eq!(origin.renamed(&names(same)), None);
        }
        assert_eq!(Origin::default().renamed(&names(&["fig"])), None);
    }
}
