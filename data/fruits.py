"""Makes train.h5 and test.h5 from photos: python fruits.py PHOTOS SIDE OUT, with pillow, h5py and numpy installed.

PHOTOS holds folders `train` and `test` with a folder of images for each class, as Fruits-360 comes. Every image is
scaled to SIDE x SIDE pixels with red, green and blue; both files go into the folder OUT. The format is specified in
README.md."""
import sys
from pathlib import Path

import h5py
import numpy as np
from PIL import Image

ENDINGS = {".jpg", ".jpeg", ".png"}


def pixels(path, side):
    image = Image.open(path).convert("RGB")
    if image.size != (side, side):
        image = image.resize((side, side), Image.Resampling.BILINEAR)
    return np.asarray(image).transpose(2, 0, 1)


def write(out, folder, classes, side):
    files = [(path, label) for label, name in enumerate(classes) for path in sorted((folder / name).iterdir())
             if path.suffix.lower() in ENDINGS]
    if not files:
        sys.exit(f"{folder}: no images in folders named after classes")
    images = np.stack([pixels(path, side) for path, _ in files])
    with h5py.File(out, "w") as f:
        f["images"] = images
        f["labels"] = np.array([label for _, label in files], np.uint32)
        f.attrs["format"] = "phalanx images"
        f.attrs["version"] = 1
        f.attrs["classes"] = len(classes)
        f.attrs["class_names"] = "\n".join(classes)
        f.attrs["mean"] = (images.mean((0, 2, 3)) / 255).astype(np.float32)
        f.attrs["std"] = (images.std((0, 2, 3)) / 255).astype(np.float32)
        f.attrs["provenance"] = f"photos of {folder}, scaled to {side}x{side}"
    print(f"{out}: {len(files)} samples of 3x{side}x{side}, {len(classes)} classes")


def main():
    if len(sys.argv) != 4:
        sys.exit(__doc__)
    photos, side, out = Path(sys.argv[1]), int(sys.argv[2]), Path(sys.argv[3])
    classes = sorted(path.name for path in (photos / "train").iterdir() if path.is_dir())
    out.mkdir(parents=True, exist_ok=True)
    for part in ("train", "test"):
        write(out / f"{part}.h5", photos / part, classes, side)


if __name__ == "__main__":
    main()
