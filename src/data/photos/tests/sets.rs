//! Folders of photos become sets: the same by any number of ranks, in one go or several, with good photos and bad.

use super::*;
use crate::data::{Caching, Dataset, Frame, describe};

#[test]
fn any_number_of_ranks_and_partitions_makes_the_same_bytes() {
    let place = tempfile::tempdir().unwrap();
    let photos = place.path().join("photos");
    folder(&photos, 40);
    fs::write(photos.join("fig/broken.jpg"), "no photo").unwrap();
    for records in [Records::Pixels, Records::Jpeg] {
        let mut sets = Vec::new();
        for (ranks, partitions) in [(1, None), (4, None), (3, Some(40)), (2, Some(1))] {
            let out = place.path().join(format!("{records:?}-{ranks}"));
            let asked = Pack {
                partitions,
                records,
                bad: Bad::Skip,
                ..asked(&photos, out.clone())
            };
            let report = packed(ranks, &asked).unwrap();
            assert_eq!((report.samples, report.failures.len()), (40, 1));
            assert_eq!(report.by_rank.iter().sum::<u64>(), 41);
            sets.push(contents(&out));
        }
        assert!(sets[0].len() > 5, "{} files", sets[0].len());
        assert!(sets.iter().all(|set| *set == sets[0]), "{records:?}");
    }
    assert_eq!(
        fs::read_dir(place.path()).unwrap().count(),
        9,
        "nothing else is left"
    );
}

#[test]
fn a_packed_set_is_a_data_set_and_encoded_records_become_the_same_pixels() {
    let place = tempfile::tempdir().unwrap();
    let photos = place.path().join("photos");
    // JPEG files only: others are compressed where records are files.
    for i in 0..9 {
        let class = photos.join(["b", "a", "c"][i % 3]);
        fs::create_dir_all(&class).unwrap();
        let bytes = turned(&drawn(30, 20, i as u8 * 20), i as u8 % 8 + 1);
        fs::write(class.join(format!("{i}.jpg")), bytes).unwrap();
    }
    let open = |records| {
        let asked = Pack {
            records,
            ..asked(&photos, place.path().join(format!("{records:?}")))
        };
        packed(2, &asked).unwrap();
        Dataset::open(&asked.out).unwrap()
    };
    let (plain, encoded) = (open(Records::Pixels), open(Records::Jpeg));
    assert_eq!(plain.class_names, ["a", "b", "c"]);
    assert_eq!(plain.labels(), [0, 0, 0, 1, 1, 1, 2, 2, 2]);
    assert_eq!(plain.labels(), encoded.labels());
    assert!(plain.is_mapped() && !plain.is_encoded() && encoded.is_encoded());
    assert_eq!(
        (&plain.mean, &plain.std, plain.shape),
        (&encoded.mean, &encoded.std, encoded.shape)
    );
    let (first, second) = (describe::describe(&plain), describe::describe(&encoded));
    assert_eq!(first.unwrap(), second.unwrap());
    // Sample 0 is photo 1 of class a, and mean and deviation are those of all pixels.
    let wanted = pixels(
        &fs::read(photos.join("a/1.jpg")).unwrap(),
        plain.shape,
        Fit::Crop,
    );
    let sample = |i| plain.with_bytes(i, |bytes| Ok(bytes.to_vec())).unwrap();
    assert_eq!(sample(0), wanted);
    let all: Vec<f64> = (0..9)
        .flat_map(|i| sample(i)[..64].to_vec())
        .map(|byte| f64::from(byte) / 255.0)
        .collect();
    let mean = all.iter().sum::<f64>() / all.len() as f64;
    let variance = all.iter().map(|v| (v - mean).powi(2)).sum::<f64>() / all.len() as f64;
    assert!((f64::from(plain.mean[0]) - mean).abs() < 1e-6);
    assert!((f64::from(plain.std[0]) - variance.sqrt()).abs() < 1e-6);
}

/// The folder of a set that is being packed.
fn work(out: &Path) -> PathBuf {
    let name = out.file_name().unwrap().to_string_lossy();
    out.with_file_name(format!(".{name}.packing"))
}

/// A job that a photo near the end stops, when what comes before it is done; the photo is good for the next one.
fn stopped(asked: &Pack) {
    let bad = asked.photos.join("pear/005.webp");
    let (good, time) = (
        fs::read(&bad).unwrap(),
        bad.metadata().unwrap().modified().unwrap(),
    );
    let set = |bytes: &[u8]| {
        fs::write(&bad, bytes).unwrap();
        let file = fs::File::options().write(true).open(&bad).unwrap();
        file.set_modified(time).unwrap();
    };
    set(&vec![0; good.len()]);
    let before = asked.out.exists();
    let error = packed(1, asked).unwrap_err().to_string();
    assert!(error.contains("005.webp: is neither JPEG"), "{error}");
    assert_eq!(asked.out.exists(), before);
    assert_eq!(kept(&asked.out), Some(work(&asked.out)));
    set(&good);
}

#[test]
fn a_job_that_was_stopped_is_taken_up_where_it_was() {
    let place = tempfile::tempdir().unwrap();
    let photos = place.path().join("photos");
    folder(&photos, 30);
    for (records, is_begun) in [
        (Records::Pixels, false),
        (Records::Pixels, true),
        (Records::Jpeg, false),
    ] {
        let whole = Pack {
            records,
            force: true,
            ..asked(&photos, place.path().join("whole"))
        };
        packed(1, &whole).unwrap();
        let out = place.path().join(format!("again-{records:?}-{is_begun}"));
        let again = Pack {
            records,
            partitions: Some(10),
            ..asked(&photos, out.clone())
        };
        stopped(&again);
        if is_begun {
            // As if a job had been stopped when it made shards, and had already said something of the set.
            let shard = "shard-00000.h5";
            let (whole, slots) = (whole.out.join(shard), work(&out).join("slots").join(shard));
            assert!(fs::read(&whole).unwrap() != fs::read(&slots).unwrap());
            fs::copy(whole, slots).unwrap();
        }
        let report = packed(3, &again).unwrap();
        assert!(report.before >= 9, "{} were done", report.before);
        assert_eq!(report.before + report.by_rank.iter().sum::<u64>(), 30);
        assert_eq!(contents(&out), contents(&whole.out), "{records:?}");
    }
}

/// Shards told of different folders when the one who took a job up called the folder by another name.
#[test]
fn however_the_folder_is_called_the_same_job_goes_on() {
    let place = tempfile::tempdir().unwrap();
    let photos = place.path().join("photos");
    folder(&photos, 30);
    let whole = asked(&photos, place.path().join("whole"));
    packed(1, &whole).unwrap();
    let provenance = Dataset::open(&whole.out).unwrap().provenance;
    assert!(provenance.starts_with("photos of photos,"), "{provenance}");
    let link = place.path().join("link");
    std::os::unix::fs::symlink(&photos, &link).unwrap();
    let again = Pack {
        partitions: Some(10),
        ..asked(&photos, place.path().join("again"))
    };
    stopped(&again);
    for name in [photos.join("fig/.."), link] {
        let again = Pack {
            photos: name,
            force: true,
            ..again.clone()
        };
        let report = packed(2, &again).unwrap();
        assert_eq!(contents(&again.out), contents(&whole.out));
        assert_eq!(kept(&again.out), None);
        // The first of them took it up.
        assert_eq!(report.before >= 9, again.photos.ends_with("fig/.."));
    }
}

#[test]
fn what_is_at_the_place_of_a_set_is_looked_at_first() {
    let place = tempfile::tempdir().unwrap();
    let nowhere = place.path().join("nowhere");
    let out = place.path().join("set");
    let asked = asked(&nowhere, out.clone());
    fs::create_dir(&out).unwrap();
    assert!(matches!(packed(2, &asked), Err(Error::Exists(_))));
    // A job goes on, one that ended leaves nothing.
    let (folder, plan) = (work(&out), work(&out).join("plan.json"));
    fs::create_dir_all(folder.join("set")).unwrap();
    fs::create_dir_all(folder.join("notes")).unwrap();
    fs::write(&plan, "{}").unwrap();
    assert!(matches!(packed(2, &asked), Err(Error::Exists(_))));
    assert!(plan.exists());
    fs::remove_dir(folder.join("set")).unwrap();
    assert!(matches!(packed(2, &asked), Err(Error::Exists(_))));
    assert!(!folder.exists());
    // Links: to nothing, and to a set.
    let link = Pack {
        out: place.path().join("link"),
        force: true,
        ..asked
    };
    for to in ["none", "set"] {
        std::os::unix::fs::symlink(to, &link.out).unwrap();
        let error = packed(2, &link).unwrap_err().to_string();
        assert!(error.contains("link: is a link"), "{error}");
        fs::remove_file(&link.out).unwrap();
    }
    assert_eq!(fs::read_dir(place.path()).unwrap().count(), 1);
}

/// Of a job that was killed when it replaced a set, the next one removed both the old set and the new.
#[test]
fn a_set_that_was_to_be_replaced_is_back_whatever_comes_next() {
    let place = tempfile::tempdir().unwrap();
    let photos = place.path().join("photos");
    folder(&photos, 30);
    let old = asked(&photos, place.path().join("set"));
    packed(1, &old).unwrap();
    let set = contents(&old.out);
    let other = Pack {
        shape: shape(3, 9, 9),
        partitions: Some(10),
        force: true,
        ..old
    };
    stopped(&other);
    assert_eq!(contents(&other.out), set);
    // Where it takes two steps, after the first.
    fs::rename(&other.out, work(&other.out).join("set.replaced")).unwrap();
    let third = Pack {
        shape: shape(1, 9, 9),
        ..other
    };
    fs::write(photos.join("fig/bad.jpg"), "no photo").unwrap();
    assert!(packed(2, &third).is_err());
    assert_eq!(contents(&third.out), set);
    fs::remove_file(photos.join("fig/bad.jpg")).unwrap();
    packed(2, &third).unwrap();
    assert!(contents(&third.out) != set && !work(&third.out).exists());
}

#[test]
fn other_photos_or_settings_begin_anew() {
    let place = tempfile::tempdir().unwrap();
    let photos = place.path().join("photos");
    folder(&photos, 12);
    fs::write(photos.join("pear/x.jpg"), "no photo").unwrap();
    let asked = asked(&photos, place.path().join("set"));
    assert!(packed(1, &asked).is_err());
    let other = Pack {
        shape: shape(3, 9, 9),
        ..asked.clone()
    };
    assert!(packed(1, &other).is_err());
    fs::remove_file(photos.join("pear/x.jpg")).unwrap();
    let report = packed(2, &other).unwrap();
    assert_eq!((report.before, report.samples), (0, 12));
    assert!(matches!(packed(1, &other), Err(Error::Exists(_))));
    let forced = Pack {
        force: true,
        ..asked
    };
    assert_eq!(packed(1, &forced).unwrap().samples, 12);
    fs::write(forced.out.join("mine.txt"), "not yours").unwrap();
    assert!(
        packed(1, &forced)
            .unwrap_err()
            .to_string()
            .contains("mine.txt")
    );
}

#[test]
fn bad_photos_are_named_with_their_reasons_and_left_out() {
    let place = tempfile::tempdir().unwrap();
    let photos = place.path().join("photos");
    folder(&photos, 10);
    let jpeg = turned(&drawn(50, 50, 5), 1);
    for (name, bytes, _) in spoiled(&jpeg) {
        fs::write(photos.join("fig").join(name), bytes).unwrap();
    }
    let names: Vec<&str> = spoiled(&jpeg).iter().map(|(name, ..)| *name).collect();
    let mut asked = asked(&photos, place.path().join("set"));
    let error = packed(2, &asked).unwrap_err().to_string();
    assert!(names.iter().any(|name| error.contains(name)), "{error}");
    asked.bad = Bad::Skip;
    let report = packed(3, &asked).unwrap();
    assert_eq!(report.samples, 10);
    let expected: Vec<(String, &str)> = spoiled(&jpeg)
        .into_iter()
        .map(|(name, _, reason)| (format!("fig/{name}"), reason))
        .collect();
    for ((photo, why), (name, reason)) in report.failures.iter().zip(&expected) {
        assert!(photo == name && why.contains(reason), "{photo}: {why}");
    }
    assert_eq!(report.failures.len(), expected.len());
    let text = fs::read_to_string(asked.out.join("manifest.json")).unwrap();
    let manifest: serde_json::Value = serde_json::from_str(&text).unwrap();
    assert_eq!(manifest["samples"], 10);
    assert_eq!(manifest["failures"][0]["photo"], "fig/bomb.jpg");
    let counts: Vec<u64> = (manifest["classes"].as_array().unwrap().iter())
        .map(|class| class["samples"].as_u64().unwrap())
        .collect();
    assert_eq!(counts, [4, 3, 3]);
    for shard in manifest["shards"].as_array().unwrap() {
        let path = asked.out.join(shard["file"].as_str().unwrap());
        let (bytes, xxh3) = crate::files::checksum(&path, &|| ()).unwrap();
        assert_eq!(
            (shard["bytes"].as_u64(), shard["xxh3"].as_str()),
            (Some(bytes), Some(&*xxh3))
        );
    }
    assert_eq!(Dataset::open(&asked.out).unwrap().len(), 10);
}

#[test]
fn a_folder_without_a_photo_that_can_be_read_is_no_set() {
    let place = tempfile::tempdir().unwrap();
    let photos = place.path().join("photos");
    fs::create_dir_all(photos.join("a")).unwrap();
    let mut asked = asked(&photos, place.path().join("set"));
    let error = packed(2, &asked).unwrap_err().to_string();
    assert!(error.contains("holds no photos"), "{error}");
    fs::write(photos.join("a/x.jpg"), "text").unwrap();
    asked.bad = Bad::Skip;
    let error = packed(2, &asked).unwrap_err().to_string();
    assert!(
        error.contains("no photo in it can be read") && error.contains("a/x.jpg"),
        "{error}"
    );
    // A folder that nobody can read: a link that leads to itself, as root may read all others.
    std::os::unix::fs::symlink("loop", photos.join("loop")).unwrap();
    let error = packed(2, &asked).unwrap_err().to_string();
    assert!(
        error.contains("cannot read") && error.contains("loop"),
        "{error}"
    );
    // Two links back to where they lie were 2^40 ways through the folders.
    fs::remove_file(photos.join("loop")).unwrap();
    for name in ["back", "again"] {
        std::os::unix::fs::symlink("..", photos.join("a").join(name)).unwrap();
    }
    let pattern = Labels::Names("{class}.jpg".parse().unwrap());
    for labels in [Labels::Folders, pattern] {
        asked.labels = labels;
        let error = packed(2, &asked).unwrap_err().to_string();
        assert!(
            error.contains("again") && error.contains("has no end"),
            "{error}"
        );
    }
    asked.photos = place.path().join("nowhere");
    let error = packed(1, &asked).unwrap_err().to_string();
    assert!(
        error.contains("cannot read folder") && error.contains("nowhere"),
        "{error}"
    );
}

#[test]
fn classes_come_from_folders_tables_names_and_other_sets() {
    let place = tempfile::tempdir().unwrap();
    let photos = place.path().join("photos");
    folder(&photos, 9);
    // A class without photos keeps its number; the same name in two classes is two photos.
    fs::create_dir(photos.join("banana")).unwrap();
    fs::copy(photos.join("fig/001.webp"), photos.join("pear/001.webp")).unwrap();
    let first = asked(&photos, place.path().join("first"));
    let report = packed(2, &first).unwrap();
    let classes: Vec<(&str, u64)> = report
        .classes
        .iter()
        .map(|(name, n)| (name.as_str(), *n))
        .collect();
    assert_eq!(
        classes,
        [("apple", 3), ("banana", 0), ("fig", 3), ("pear", 4)]
    );
    assert_eq!(Dataset::open(&first.out).unwrap().classes, 4);

    let mut some = asked(&photos.join("none"), place.path().join("second"));
    some.photos = place.path().join("more");
    fs::create_dir_all(some.photos.join("pear")).unwrap();
    fs::copy(photos.join("fig/001.webp"), some.photos.join("pear/1.webp")).unwrap();
    some.like = Some(first.out.clone());
    packed(1, &some).unwrap();
    let like = Dataset::open(&some.out).unwrap();
    assert_eq!((like.labels(), like.classes), (&[3][..], 4));
    fs::create_dir_all(some.photos.join("zebra")).unwrap();
    fs::copy(
        photos.join("fig/001.webp"),
        some.photos.join("zebra/1.webp"),
    )
    .unwrap();
    some.out = place.path().join("third");
    let error = packed(1, &some).unwrap_err().to_string();
    assert!(error.contains("class zebra"), "{error}");

    let labels = |labels: Labels, out: &str| {
        let asked = Pack {
            labels,
            ..asked(&photos, place.path().join(out))
        };
        packed(2, &asked).map(|_| Dataset::open(&asked.out).unwrap())
    };
    let table = place.path().join("labels.csv");
    fs::write(
        &table,
        "path,label\nfig/001.webp,10\n\"apple/000.png\", 2\n",
    )
    .unwrap();
    let numbered = labels(Labels::Table(table.clone()), "numbered").unwrap();
    assert_eq!((numbered.labels(), numbered.classes), (&[10, 2][..], 11));
    for (text, problem) in [
        (
            "fig/001.webp,1\nfig/001.webp,2\n",
            "line 2: names fig/001.webp, as line 1 does",
        ),
        ("fig/001.webp\n", "line 1: has 1 fields"),
        (
            "fig/001.webp,1\nfig/none.webp,2\n",
            "line 2: names fig/none.webp, which is not there",
        ),
    ] {
        fs::write(&table, text).unwrap();
        let error = labels(Labels::Table(table.clone()), "refused")
            .err()
            .unwrap();
        assert!(error.to_string().contains(problem), "{error}");
    }
    let pattern = "00{class}.*".parse().unwrap();
    let named = labels(Labels::Names(pattern), "named").unwrap();
    assert_eq!(named.classes, 9);
    let pattern = "{class}.jpg".parse().unwrap();
    let error = labels(Labels::Names(pattern), "unnamed")
        .err()
        .unwrap()
        .to_string();
    assert!(
        error.contains("does not fit the pattern {class}.jpg"),
        "{error}"
    );
}

#[test]
fn a_folder_is_the_set_that_would_be_packed_of_it_however_it_is_kept() {
    let place = tempfile::tempdir().unwrap();
    let photos = place.path().join("photos");
    folder(&photos, 21);
    let asked = asked(&photos, place.path().join("set"));
    packed(2, &asked).unwrap();
    let content = |set: &Dataset| {
        let bytes = |i| set.with_bytes(i, |bytes| Ok(bytes.to_vec())).unwrap();
        let figures = (set.mean.clone(), set.std.clone());
        let samples: Vec<Vec<u8>> = (0..set.len()).map(bytes).collect();
        (
            figures,
            set.class_names.clone(),
            set.labels().to_vec(),
            samples,
        )
    };
    let wanted = content(&Dataset::open(&asked.out).unwrap());
    let frame = Frame {
        shape: asked.shape,
        fit: asked.fit,
    };
    run_ranks(3, |comm| {
        for caching in [Caching::None, Caching::Memory, Caching::Node] {
            let mut set = Dataset::open_framed(&photos, Some(frame), None).unwrap();
            assert!(set.is_folder() && set.is_encoded());
            set.decode_by(2);
            let kept = set.keep(comm, caching, None).unwrap();
            assert_eq!(kept > 0, caching != Caching::None);
            set.measure(comm).unwrap();
            (0..2).for_each(|_| assert_eq!(content(&set), wanted, "{caching:?}"));
            let part = set.part(vec![20, 3]);
            let twentieth = part.with_bytes(0, |bytes| Ok(bytes.to_vec())).unwrap();
            assert_eq!(twentieth, wanted.3[20]);
        }
        let mut set = Dataset::open_framed(&photos, Some(frame), None).unwrap();
        let refused = set.keep(comm, Caching::Node, Some(100)).unwrap_err();
        assert!(
            refused.to_string().contains("for --cache node of"),
            "{refused}"
        );
    });
}
