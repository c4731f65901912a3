//! Which photos are found in folders and tables, and what they are called.

use std::os::unix::fs::symlink;

use super::*;
use crate::data::Dataset;

/// A place with a folder of nine photos, and what is asked of it.
fn place() -> (tempfile::TempDir, Pack) {
    let place = tempfile::tempdir().unwrap();
    let photos = place.path().join("photos");
    folder(&photos, 9);
    let asked = asked(&photos, place.path().join("set"));
    (place, asked)
}

fn refused(asked: &Pack) -> String {
    packed(2, asked).unwrap_err().to_string()
}

/// A link that leads nowhere ended all, even if its name was none of a photo.
#[test]
fn a_link_that_leads_nowhere_is_a_photo_that_cannot_be_read_or_no_photo() {
    let (_place, mut asked) = place();
    for name in ["fig/gone.jpg", "fig/notes.txt"] {
        symlink("/nowhere", asked.photos.join(name)).unwrap();
    }
    assert!(refused(&asked).contains("gone.jpg: cannot be read"));
    asked.bad = Bad::Skip;
    let report = packed(2, &asked).unwrap();
    assert_eq!((report.samples, report.others), (9, 1));
    assert_eq!(report.failures[0].0, "fig/gone.jpg");
    // Among classes it may be a class.
    asked.force = true;
    symlink("/nowhere", asked.photos.join("grape")).unwrap();
    assert!(refused(&asked).contains("cannot read"));
}

/// Sixteen folders, each with two links to the next, were 131,072 ways to one photo.
#[test]
fn a_folder_is_looked_through_once_however_many_links_lead_there() {
    let (place, mut asked) = place();
    let deep = place.path().join("deep");
    for i in 0..16 {
        let level = deep.join(i.to_string());
        fs::create_dir_all(&level).unwrap();
        for name in ["a", "b"] {
            symlink(format!("../{}", i + 1), level.join(name)).unwrap();
        }
    }
    fs::rename(asked.photos.join("fig"), deep.join("16")).unwrap();
    let class = asked.photos.join("fig");
    symlink("../deep/0", &class).unwrap();
    for labels in [Labels::Folders, Labels::Names("{class}.*".parse().unwrap())] {
        asked.labels = labels;
        let error = refused(&asked);
        let facts = ["fig/a/a", "a/b: is the folder", "once more, through a link"];
        assert!(facts.iter().all(|fact| error.contains(fact)), "{error}");
    }
    // One way to it is good, and so are two classes that are one folder.
    (0..16).for_each(|i| fs::remove_file(deep.join(i.to_string()).join("b")).unwrap());
    symlink("fig", asked.photos.join("figs")).unwrap();
    asked.labels = Labels::Folders;
    let report = packed(2, &asked).unwrap();
    let counts: Vec<u64> = report.classes.iter().map(|(_, samples)| *samples).collect();
    assert_eq!(counts, [3, 3, 3, 3]);
}

#[test]
fn a_table_may_be_written_in_several_ways_and_names_a_photo_once() {
    let (place, mut asked) = place();
    let table = place.path().join("labels.csv");
    asked.labels = Labels::Table(table.clone());
    let good = "Path, LABEL\n ./fig//001.webp , \"a \"\"b\"\"\"\n \"apple/000.png\", \"c\"\n";
    fs::write(&table, good).unwrap();
    packed(2, &asked).unwrap();
    let set = Dataset::open(&asked.out).unwrap();
    assert_eq!(set.class_names, ["a \"b\"", "c"]);
    assert_eq!(set.labels(), [0, 1]);
    let mut bad = asked.clone();
    bad.out = place.path().join("bad");
    for (text, problem) in [
        (
            "fig/001.webp,1\n./fig//001.webp,2\n",
            "line 2: names ./fig//001.webp, as line 1 does",
        ),
        (
            "fig/../fig/001.webp,1\n",
            "line 1: names fig/../fig/001.webp, which is not in PHOTOS",
        ),
        (
            "/etc/passwd,1\n",
            "line 1: names /etc/passwd, which is not in PHOTOS",
        ),
        ("", "labels.csv: names no photos"),
        ("path,label\n", "labels.csv: names no photos"),
    ] {
        fs::write(&table, text).unwrap();
        let error = refused(&bad);
        assert!(error.contains(problem), "{error}");
    }
    bad.labels = Labels::Table(place.path().to_path_buf());
    assert!(
        refused(&bad).starts_with("cannot read"),
        "{}",
        refused(&bad)
    );
}

/// A set among its photos was a class of the next one.
#[test]
fn a_set_is_not_made_among_the_folders_that_are_classes() {
    let (place, mut asked) = place();
    let out = asked.photos.join("packed");
    for out in [out.clone(), asked.photos.join("fig/deep/set")] {
        asked.out = out;
        let error = packed(2, &asked).unwrap_err();
        assert!(matches!(error, Error::Usage(_)), "{error}");
        assert!(error.to_string().contains("give another place"), "{error}");
    }
    // Of those that a table names it takes nothing away.
    let table = place.path().join("labels.csv");
    fs::write(&table, "fig/001.webp,1\n").unwrap();
    (asked.out, asked.labels) = (out, Labels::Table(table));
    assert_eq!(packed(2, &asked).unwrap().samples, 1);
}

/// Folders called 1, 2 and 2000000 were two million classes.
#[test]
fn numbers_with_many_left_out_are_numbered_by_their_order() {
    let (_place, asked) = place();
    let classes = |names: [&str; 3]| {
        let folders = fs::read_dir(&asked.photos)
            .unwrap()
            .map(|entry| entry.unwrap().path());
        for (i, folder) in folders.enumerate() {
            fs::rename(folder, asked.photos.join(format!("{i}.tmp"))).unwrap();
        }
        for (i, name) in names.into_iter().enumerate() {
            let folder = asked.photos.join(format!("{i}.tmp"));
            fs::rename(folder, asked.photos.join(name)).unwrap();
        }
        Listing::new(&asked.photos, None).unwrap().classes
    };
    assert_eq!(classes(["1", "2", "2000000"]), ["1", "2", "2000000"]);
    assert_eq!(classes(["9", "10000", "700"]), ["9", "700", "10000"]);
    assert_eq!(classes(["0", "1000", "5"]).len(), 1001);
    let huge = usize::MAX.to_string();
    assert_eq!(classes(["0", &huge, "1"]), ["0", "1", &huge]);
    assert_eq!(classes(["01", "2", "10"]), ["01", "10", "2"]);
}
