"""Small data sets in their published formats, written for the tests."""

from __future__ import annotations

import io
import json
import struct
from pathlib import Path
from typing import Any

import numpy as np

from edutorch.vision.datasets.idx import write_idx


def noise(*shape: int) -> np.ndarray[Any, Any]:
    return np.random.RandomState(0).randint(0, 256, shape).astype(np.uint8)


def write_mnist(root: Path, name: str = "MNIST", count: int = 12, ending: str = "") -> Path:
    """Write both parts of an MNIST, and return the folder of the files."""
    folder = root / name / "raw"
    folder.mkdir(parents=True)
    for part, size in (("train", count), ("t10k", count // 2)):
        write_idx(folder / f"{part}-images-idx3-ubyte{ending}", noise(size, 28, 28))
        labels = (np.arange(size) % 10).astype(np.uint8)
        write_idx(folder / f"{part}-labels-idx1-ubyte{ending}", labels)
    return folder


# Pickles as Python 2 wrote them -------------------------------------------------------------


def python2_pickle(value: Any) -> bytes:
    """Return the pickle that Python 2 would have written (protocol 2): its texts are bytes."""
    return b"\x80\x02" + opcodes_of(value) + b"."


def opcodes_of(value: Any) -> bytes:
    if isinstance(value, str):
        return b"T" + struct.pack("<i", len(value)) + value.encode("latin1")
    if isinstance(value, int):
        return b"J" + struct.pack("<i", value)
    if isinstance(value, list):
        return b"](" + b"".join(map(opcodes_of, value)) + b"e"
    if isinstance(value, tuple):
        return b"(" + b"".join(map(opcodes_of, value)) + b"t"
    if isinstance(value, dict):
        return b"}(" + b"".join(opcodes_of(x) for pair in value.items() for x in pair) + b"u"
    empty = b"cnumpy.core.multiarray\n_reconstruct\ncnumpy\nndarray\n(K\x00tU\x01b\x87R"
    dtype = b"cnumpy\ndtype\n" + opcodes_of((value.dtype.str[1:], 0, 1)) + b"R"
    dtype += b"(K\x03U\x01|NNNJ\xff\xff\xff\xffJ\xff\xff\xff\xffK\x00tb"
    data = opcodes_of(value.tobytes().decode("latin1"))
    return empty + b"(K\x01" + opcodes_of(tuple(value.shape)) + dtype + b"\x89" + data + b"tb"


def write_cifar10(root: Path, count: int = 6) -> Path:
    """Write CIFAR-10 with few pictures, and return the folder of the files."""
    folder = root / "cifar-10-batches-py"
    folder.mkdir(parents=True)
    for index, name in enumerate([*(f"data_batch_{n}" for n in range(1, 6)), "test_batch"]):
        entries = {
            "batch_label": name, "labels": [(index + n) % 10 for n in range(count)],
            "data": noise(count, 3072) // (index + 1), "filenames": ["a.png"] * count,
        }  # fmt: skip
        (folder / name).write_bytes(python2_pickle(entries))
    names = "airplane automobile bird cat deer dog frog horse ship truck".split()
    entries = {"num_cases_per_batch": count, "label_names": names, "num_vis": 3072}
    (folder / "batches.meta").write_bytes(python2_pickle(entries))
    return folder


def write_cifar100(root: Path, count: int = 6) -> Path:
    folder = root / "cifar-100-python"
    folder.mkdir(parents=True)
    for name in ("train", "test"):
        entries = {
            "data": noise(count, 3072),
            "fine_labels": [99] * count,
            "coarse_labels": [1] * count,
        }
        (folder / name).write_bytes(python2_pickle(entries))
    names = {"fine_label_names": [f"thing {n}" for n in range(100)]}
    (folder / "meta").write_bytes(python2_pickle(names))
    return folder


def write_svhn(root: Path, **arrays: Any) -> Path:
    from scipy.io import savemat

    content = {"X": noise(32, 32, 3, 5), "y": np.array([[10], [1], [2], [9], [10]], np.uint8)}
    path = root / "test_32x32.mat"
    savemat(path, {**content, **arrays})
    return path


def write_stl10(root: Path, count: int = 4) -> Path:
    folder = root / "stl10_binary"
    folder.mkdir(parents=True)
    for name in ("train", "test", "unlabeled"):
        noise(count, 3, 96, 96).tofile(folder / f"{name}_X.bin")
    for name in ("train", "test"):
        np.arange(1, count + 1, dtype=np.uint8).tofile(folder / f"{name}_y.bin")
    (folder / "class_names.txt").write_text("airplane\nbird\ncar\n")
    (folder / "fold_indices.txt").write_text("0 2 \n1 3 \n" * 5)
    return folder


# Pictures -----------------------------------------------------------------------------------


def picture_bytes(form: str = "PNG", width: int = 40, height: int = 30) -> bytes:
    from PIL import Image

    file = io.BytesIO()
    Image.fromarray(noise(height, width, 3)).save(file, form)
    return file.getvalue()


def write_folders(root: Path) -> Path:
    for name in ("cat/1.png", "cat/2.PNG", "cat/notes.txt", "dog/deep/1.jpg", "dog/a.png"):
        path = root / "pets" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(picture_bytes("JPEG" if name.endswith("jpg") else "PNG"))
    return root / "pets"


XML = """<annotation><folder>VOC2012</folder><filename>2007_000032.jpg</filename>
<size><width>40</width><height>30</height><depth>3</depth></size>
<object><name>dog</name><bndbox><xmin>1</xmin><ymin>2</ymin><xmax>9</xmax><ymax>8</ymax></bndbox>
<part><name>head</name></part><part><name>foot</name></part></object></annotation>"""


def write_voc(root: Path) -> Path:
    folder = root / "VOCdevkit" / "VOC2012"
    for name in ("ImageSets/Segmentation", "ImageSets/Main", "JPEGImages", "SegmentationClass",
                 "Annotations"):  # fmt: skip
        (folder / name).mkdir(parents=True)
    for name in ("Segmentation", "Main"):
        (folder / "ImageSets" / name / "train.txt").write_text("2007_000032\n")
    (folder / "JPEGImages" / "2007_000032.jpg").write_bytes(picture_bytes("JPEG"))
    (folder / "SegmentationClass" / "2007_000032.png").write_bytes(picture_bytes())
    (folder / "Annotations" / "2007_000032.xml").write_text(XML)
    return folder


def write_coco(root: Path, **changes: Any) -> Path:
    (root / "val").mkdir(exist_ok=True)
    (root / "val" / "7.jpg").write_bytes(picture_bytes("JPEG"))
    (root / "val" / "3.png").write_bytes(picture_bytes())
    content = {
        "images": [{"id": 7, "file_name": "7.jpg"}, {"id": 3, "file_name": "3.png"}],
        "annotations": [
            {"id": 1, "image_id": 7, "category_id": 2, "bbox": [1, 2, 3, 4], "caption": "A dog."},
            {"id": 2, "image_id": 7, "category_id": 2, "bbox": [0, 0, 1, 1], "caption": "Two."},
        ],
        "categories": [{"id": 2, "name": "dog"}],
        **changes,
    }
    path = root / "instances.json"
    path.write_text(json.dumps(content))
    return path
