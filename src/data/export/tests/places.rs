//! What an export replaces, and what never.

use std::fs;

use super::*;

/// `export png PHOTOS --force` removed folders of photos, and of anything else that was in folders.
#[test]
fn a_folder_is_replaced_only_if_an_export_of_the_kind_wrote_all_of_it() {
    let folder = tempfile::tempdir().unwrap();
    let data = set(folder.path(), Shape { c: 1, h: 3, w: 4 });
    let foreign = [
        (Format::Png, &["kiwi/1.jpg"][..]),
        (Format::Png, &["kiwi/152.png"]),
        (Format::Png, &["kiwi/00000001.PNG"]),
        (Format::Png, &["kiwi/00000001.png", "corn/00000001.png"]),
        (Format::Png, &["kiwi/deeper/00000001.png"]),
        (Format::Png, &["kiwi/00000001.png/x"]),
        (Format::Png, &["src/main.c", ".git/HEAD"]),
        (Format::Png, &[".git/00000001.png"]),
        (Format::Png, &["00000001.png"]),
        (Format::Npy, &["images.npy", "weights.npy"]),
        (Format::Npy, &["images.npy/x"]),
        (Format::Idx, &["train-ubyte"]),
        (Format::Idx, &["labels-idx1-ubyte/x"]),
        (Format::Tfrecord(2), &["mine.tfrecord"]),
        (Format::Tfrecord(2), &["part-00002-of-00002.tfrecord"]),
        (Format::Tfrecord(2), &["part-00000-of-00002.tfrecord/x"]),
    ];
    for (number, (format, files)) in foreign.into_iter().enumerate() {
        let out = folder.path().join(format!("out-{number}"));
        for file in files {
            fs::create_dir_all(out.join(file).parent().unwrap()).unwrap();
            fs::write(out.join(file), "mine").unwrap();
        }
        let error = refused(&data, format, &out, &out);
        assert!(
            error.contains("which no export wrote"),
            "{files:?}: {error}"
        );
    }
    for (format, file) in [
        (Format::Png, "kiwi/00000001.png"),
        (Format::Png, "kiwi"),
        (Format::Npy, "images.npy"),
    ] {
        let out = folder
            .path()
            .join(format!("linked-{file}").replace('/', "-"));
        fs::create_dir_all(out.join(file).parent().unwrap()).unwrap();
        std::os::unix::fs::symlink(&data.path, out.join(file)).unwrap();
        let error = refused(&data, format, &out, &out);
        assert!(error.contains("which no export wrote"), "{file}: {error}");
    }
    for format in [Format::Png, Format::Npy, Format::Idx, Format::Tfrecord(2)] {
        let out = folder.path().join(format!("again {format:?}"));
        export(&data, format, &out, false).unwrap();
        let first = below(&out);
        export(&data, format, &out, true).unwrap();
        assert_eq!(below(&out), first);
    }
}

/// `export tfrecord SET SET --force` destroyed the set, and `export png SET SET/sub` became part of it.
#[test]
fn an_export_keeps_apart_from_its_set() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path();
    let data = set(path, Shape { c: 1, h: 3, w: 4 });
    let name = data.path.file_name().unwrap();
    let link = path.join("link");
    std::os::unix::fs::symlink(&data.path, &link).unwrap();
    let shard = data.files().next().unwrap().to_path_buf();
    let one = Dataset::open(&shard).unwrap();
    for format in [Format::Tfrecord(1), Format::Tfrecord(2), Format::Png] {
        for (data, out, says) in [
            (&data, data.path.clone(), "is the set"),
            (&data, data.path.join("sub"), "lies in the set"),
            (&data, link.join("deep/er"), "lies in the set"),
            (&data, path.join("none/../none/..").join(name), "is the set"),
            (&data, shard.clone(), "lies in the set"),
            (&data, path.to_path_buf(), "holds the set"),
            (&one, shard.clone(), "is the set"),
            (&one, data.path.clone(), "holds the set"),
        ] {
            let error = refused(data, format, &out, path);
            assert!(error.contains(says), "{}: {error}", out.display());
        }
    }
    export(&one, Format::Npy, &path.join("beside"), false).unwrap();
}

/// A kind that does not fit came out at the end, when all was written: "cannot rename".
#[test]
fn what_cannot_be_replaced_is_told_before_anything_is_written() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path();
    let data = set(path, Shape { c: 1, h: 3, w: 4 });
    let at = |name: &str| path.join(name);
    fs::write(at("text"), "no record at all").unwrap();
    fs::create_dir(at("folder")).unwrap();
    std::os::unix::fs::symlink("folder", at("link")).unwrap();
    std::os::unix::fs::symlink("nothing", at("loose")).unwrap();
    for (format, name, says) in [
        (Format::Npy, "text", "is a file, and the export is a folder"),
        (Format::Tfrecord(1), "folder", "is a folder, and the export"),
        (Format::Png, "link", "is a link, and the export is a folder"),
        (
            Format::Png,
            "link/",
            "is a link, and the export is a folder",
        ),
        (Format::Tfrecord(1), "loose", "is a link, and the export"),
        (
            Format::Tfrecord(1),
            "new/",
            "names a folder, and the export",
        ),
        (
            Format::Tfrecord(1),
            "new/.",
            "names a folder, and the export",
        ),
        (Format::Tfrecord(1), "..", "names no file"),
        (Format::Npy, "text/new", "cannot"),
        (Format::Tfrecord(1), "text", "does not begin as a record"),
    ] {
        let error = refused(&data, format, &at(name), path);
        assert!(error.contains(says), "{name}: {error}");
    }
    for format in [Format::Tfrecord(1), Format::Npy] {
        let out = at("new").join(format!("{format:?}"));
        export(&data, format, &out, false).unwrap();
        let again = export(&data, format, &out, false).unwrap_err();
        assert!(matches!(again, crate::Error::Exists(_)), "{again}");
        export(&data, format, &out, true).unwrap();
    }
    export(&data, Format::Npy, &at("slash/"), false).unwrap();
    export(&data, Format::Npy, &at("slash/"), true).unwrap();
}
