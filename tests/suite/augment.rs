//! Changed images on their way into batches: the same for any number of ranks and any storage, and only in training.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use phalanx::data::{Augment, Batch, Dataset, Images, Loader, Place, Scaling};

const ALL: &str = "flip,flip-vertical,rotate,tilt,crop,colour";

fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/fixtures")
        .join(name)
}

fn open(name: &str) -> Arc<Dataset> {
    Arc::new(Dataset::open(&fixture(name)).unwrap())
}

/// An image's values and its label, by the sample's number.
type Sample = (u64, Vec<f32>, u32);

fn samples(batch: &Batch) -> Vec<Sample> {
    let values: Vec<f32> = match &batch.images {
        Images::Floats(values) => values.clone(),
        Images::Bytes(pixels) => pixels.iter().map(|&p| f32::from(p)).collect(),
    };
    let images = values.chunks(64).map(<[f32]>::to_vec);
    let samples = batch.samples().iter().zip(images).zip(&batch.labels);
    samples
        .map(|((&index, image), &label)| (index, image, label))
        .collect()
}

/// All samples of an epoch, sorted, taken in steps of 21 positions of which each of `ranks` loaders takes its part.
fn epoch(data: &Arc<Dataset>, augment: &str, ranks: usize, epoch: u64) -> Vec<Sample> {
    let augment: Augment = augment.parse().unwrap();
    let scaling = Scaling::of_channels(&[2.0], &[-0.5]);
    let mut seen = Vec::new();
    for rank in 0..ranks {
        let mut loader = Loader::augmented(data.clone(), scaling.clone(), 4, &augment);
        for start in (0..data.len()).step_by(21) {
            let step = start..(start + 21).min(data.len());
            let mine = phalanx::comm::block(step.len(), ranks, rank);
            let positions = start + mine.start..start + mine.end;
            loader.request(Place { epoch, positions });
            seen.extend(samples(loader.take().unwrap()));
        }
    }
    seen.sort_by_key(|sample| sample.0);
    assert!(seen.iter().map(|sample| sample.0).eq(0..data.len() as u64));
    seen
}

#[test]
fn an_image_changes_in_the_same_way_on_one_rank_and_on_three() {
    for name in ["contiguous.h5", "chunked.h5", "floats.h5", "big_endian.h5"] {
        let data = open(name);
        let alone = epoch(&data, ALL, 1, 2);
        assert!(alone == epoch(&data, ALL, 3, 2), "{name}");
        assert!(alone != epoch(&data, ALL, 1, 3), "{name}: another epoch");
    }
}

#[test]
fn mapped_images_change_as_those_that_a_thread_reads() {
    for (mapped, read) in [
        ("contiguous.h5", "chunked.h5"),
        ("floats.h5", "big_endian.h5"),
    ] {
        let (mapped, read) = (open(mapped), open(read));
        assert!(mapped.is_mapped() && !read.is_mapped());
        assert!(epoch(&mapped, ALL, 1, 0) == epoch(&read, ALL, 1, 0));
    }
}

#[test]
fn bytes_and_floats_change_alike_and_labels_stay() {
    let (bytes, floats) = (open("contiguous.h5"), open("floats.h5"));
    let (mut most, mut moved) = (0.0f32, 0);
    let changed = epoch(&bytes, ALL, 1, 0);
    let scaled = epoch(&floats, ALL, 1, 0);
    for ((index, a, label), (_, b, other)) in changed.iter().zip(&scaled) {
        assert_eq!((*label, *other), (*index as u32 % 4, *index as u32 % 4));
        for (byte, value) in a.iter().zip(b) {
            // The loader scaled floats by 2 and shifted them by -0.5; bytes are cut at both ends.
            let value = ((value + 0.5) / 2.0 * 255.0).clamp(0.0, 255.0);
            most = most.max((byte - value).abs());
        }
        let plain = (0..64).map(|i| (5 * index + 3 * (i / 8) + 7 * (i % 8)) % 256);
        moved += usize::from(!plain.map(|p| p as f32).eq(a.iter().copied()));
    }
    assert!(most <= 0.501, "rounding alone may differ: {most}");
    assert!(moved >= 45, "only {moved} of 50 images changed");
}

#[test]
fn flips_keep_the_very_values_of_floats() {
    let data = open("floats.h5");
    let changed = epoch(&data, "flip", 1, 0);
    let plain = {
        let mut batch = Batch::new(&data, &Scaling::of_channels(&[2.0], &[-0.5]));
        batch.gather(&data, 0..50).unwrap();
        samples(&batch)
    };
    let mut flipped = 0;
    for ((_, a, _), (_, b, _)) in changed.iter().zip(&plain) {
        let back: Vec<f32> = a
            .chunks(8)
            .flat_map(|row| row.iter().rev().copied())
            .collect();
        assert!(a == b || back == *b);
        flipped += usize::from(a != b);
    }
    assert!((10..40).contains(&flipped), "{flipped} of 50 flipped");
}
