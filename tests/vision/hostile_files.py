"""Opens files that somebody has damaged or made to do harm, with little memory.

    python -m tests.vision.hostile_files FOLDER

prints what came of each, as JSON. The process may take 256 MiB more than when it starts.
"""

from __future__ import annotations

import gzip
import io
import json
import os
import pickle
import struct
import sys
import tarfile
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from edutorch.vision import datasets
from edutorch.vision import io as images
from edutorch.vision.datasets.idx import write_idx
from edutorch.vision.datasets.utils import extract_archive
from tests.vision import files

MEMORY = 256 * 2**20
HOSTILE: dict[str, Callable[[Path], Any]] = {}
"""Writes a file into a folder, and opens it."""


def hostile(function: Callable[[Path], Any]) -> Callable[[Path], Any]:
    HOSTILE[function.__name__] = function
    return function


# Pictures -----------------------------------------------------------------------------------


def png(width: int, height: int, data: bytes, *others: tuple[bytes, bytes]) -> bytes:
    """Return a grey PNG with a header of any size."""
    header = struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)
    chunks = [(b"IHDR", header), *others, (b"IDAT", data), (b"IEND", b"")]
    return b"\x89PNG\r\n\x1a\n" + b"".join(
        struct.pack(">I", len(body)) + name + body + struct.pack(">I", zlib.crc32(name + body))
        for name, body in chunks
    )


def bitmap_header(width: int, height: int) -> bytes:
    info = struct.pack("<IiiHHIIiiII", 40, width, height, 1, 24, 0, 0, 0, 0, 0, 0)
    return b"BM" + struct.pack("<IHHI", 54, 0, 0, 54) + info


LONG_TEXT = (b"zTXt", b"a\0\0" + zlib.compress(bytes(2**28), 9))
PICTURES = {
    "text": b"this is no picture",
    "empty": b"",
    "png_cut": files.picture_bytes()[:900],
    "png_header": files.picture_bytes()[:20],
    "png_crc": files.picture_bytes().replace(b"IDAT", b"IDAU", 1),
    "png_bytes_changed": files.picture_bytes()[:200] + b"\0" * 400 + files.picture_bytes()[600:],
    "png_bomb": png(60_000, 60_000, zlib.compress(bytes(10**7), 9)),
    "png_no_pixels": png(0, 5, b""),
    "png_text_bomb": png(2, 2, zlib.compress(bytes(6)), LONG_TEXT),
    "jpeg_cut": files.picture_bytes("JPEG")[:700],
    "jpeg_start": b"\xff\xd8\xff\xe0\0\x10JFIF",
    "gif_cut": files.picture_bytes("GIF")[:400],
    "bmp_bomb": bitmap_header(100_000, 100_000),
    "bmp_cut": bitmap_header(90, 90) + b"abc",
    "tiff_loop": b"II*\0\x08\0\0\0\x01\0\0\x01\x04\0\x01\0\0\0\x08\0\0\0\x08\0\0\0",
    "ppm_bomb": b"P6 99999 99999 255\n",
    "ppm_cut": b"P6 100 100 255\nabc",
    "webp_cut": files.picture_bytes("WEBP")[:300],
}  # fmt: skip


def open_picture(content: bytes) -> Callable[[Path], Any]:
    def open_it(folder: Path) -> Any:
        path = folder / "cat.png"
        path.write_bytes(content)
        return images.read_image(str(path))

    return open_it


HOSTILE |= {f"picture_{name}": open_picture(content) for name, content in PICTURES.items()}


@hostile
def image_folder_with_a_cut_picture(folder: Path) -> Any:
    root = files.write_folders(folder)
    (root / "cat" / "1.png").write_bytes(PICTURES["png_cut"])
    return datasets.ImageFolder(root)[0]


@hostile
def image_folder_without_pictures(folder: Path) -> Any:
    (folder / "pets" / "cat").mkdir(parents=True)
    return datasets.ImageFolder(folder / "pets")


# IDX ----------------------------------------------------------------------------------------


def mnist_with(name: str, content: bytes, ending: str = "") -> Callable[[Path], Any]:
    def open_it(folder: Path) -> Any:
        raw = files.write_mnist(folder, ending=ending)
        (raw / f"{name}{ending}").write_bytes(content)
        return datasets.MNIST(folder)

    return open_it


IMAGES, LABELS = "train-images-idx3-ubyte", "train-labels-idx1-ubyte"
START = b"\0\0\x08\x03"
SMALL = START + struct.pack(">III", 2, 28, 28) + files.noise(2 * 784).tobytes()
HUGE = START + struct.pack(">III", 2**31, 28, 28)
HOSTILE |= {
    "idx_magic": mnist_with(IMAGES, b"\x89PNG" + bytes(99)),
    "idx_type": mnist_with(IMAGES, b"\0\0\x07\x03" + bytes(99)),
    "idx_empty": mnist_with(IMAGES, b""),
    "idx_header_cut": mnist_with(IMAGES, START + b"\0\0"),
    "idx_cut": mnist_with(IMAGES, START + struct.pack(">III", 12, 28, 28) + bytes(500)),
    "idx_too_long": mnist_with(IMAGES, START + struct.pack(">III", 1, 2, 2) + bytes(500)),
    "idx_huge_header": mnist_with(IMAGES, HUGE + bytes(500)),
    "idx_swapped": mnist_with(IMAGES, b"\0\0\x08\x01" + struct.pack(">I", 4) + bytes(4)),
    "idx_fewer_labels": mnist_with(LABELS, b"\0\0\x08\x01" + struct.pack(">I", 4) + bytes(4)),
    "idx_label_range": mnist_with(LABELS, b"\0\0\x08\x01" + struct.pack(">I", 12) + b"\x0c" * 12),
    "idx_gz_text": mnist_with(IMAGES, b"no gzip", ".gz"),
    "idx_gz_cut": mnist_with(IMAGES, gzip.compress(SMALL)[:900], ".gz"),
    "idx_gz_bomb": mnist_with(IMAGES, gzip.compress(HUGE + bytes(2**26)), ".gz"),
    "idx_many_axes": mnist_with(IMAGES, b"\0\0\x08\xff" + b"\xff" * 2000),
}


# CIFAR, SVHN, STL-10 --------------------------------------------------------------------------


class Attack:
    """Unpickled by Python, it would write a file."""

    def __reduce__(self) -> Any:
        return os.system, ("touch attacked",)


def cifar_with(content: bytes, name: str = "test_batch") -> Callable[[Path], Any]:
    def open_it(folder: Path) -> Any:
        (files.write_cifar10(folder) / name).write_bytes(content)
        return datasets.CIFAR10(folder, train=False)

    return open_it


def batch(**changes: Any) -> bytes:
    return files.python2_pickle({"data": files.noise(3, 3072), "labels": [1, 2, 3], **changes})


WIDTH = struct.pack("<i", 3072)
HOSTILE |= {
    "cifar_attack": cifar_with(pickle.dumps({"data": Attack()})),
    "cifar_attack_in_meta": cifar_with(pickle.dumps(Attack()), "batches.meta"),
    "cifar_cut": cifar_with(batch()[:3000]),
    "cifar_text": cifar_with(b"no pickle"),
    "cifar_list": cifar_with(files.python2_pickle([1, 2])),
    "cifar_shape": cifar_with(batch(data=files.noise(3, 1024))),
    "cifar_no_labels": cifar_with(batch(labels="abc")),
    "cifar_fewer_labels": cifar_with(batch(labels=[1])),
    "cifar_label_range": cifar_with(batch(labels=[1, 2, 10])),
    "cifar_array_size": cifar_with(batch().replace(WIDTH, struct.pack("<i", 2**30), 1)),
    "cifar_no_names": cifar_with(files.python2_pickle({"names": []}), "batches.meta"),
}  # fmt: skip


@hostile
def svhn_text(folder: Path) -> Any:
    (folder / "test_32x32.mat").write_text("no Matlab file" * 50)
    return datasets.SVHN(folder, "test")


@hostile
def svhn_cut(folder: Path) -> Any:
    path = files.write_svhn(folder)
    path.write_bytes(path.read_bytes()[:4000])
    return datasets.SVHN(folder, "test")


@hostile
def svhn_shape(folder: Path) -> Any:
    files.write_svhn(folder, X=files.noise(5, 32, 32, 3))
    return datasets.SVHN(folder, "test")


@hostile
def svhn_label_range(folder: Path) -> Any:
    files.write_svhn(folder, y=np.array([[0], [1], [2], [3], [4]]))
    return datasets.SVHN(folder, "test")


@hostile
def stl10_cut(folder: Path) -> Any:
    files.noise(5000).tofile(files.write_stl10(folder) / "train_X.bin")
    return datasets.STL10(folder)


@hostile
def stl10_label_range(folder: Path) -> Any:
    (files.write_stl10(folder) / "train_y.bin").write_bytes(b"\x01\x02\x0b\x01")
    return datasets.STL10(folder)


@hostile
def stl10_fewer_labels(folder: Path) -> Any:
    (files.write_stl10(folder) / "train_y.bin").write_bytes(b"\x01")
    return datasets.STL10(folder)


@hostile
def stl10_fold_range(folder: Path) -> Any:
    (files.write_stl10(folder) / "fold_indices.txt").write_text("0 99\n")
    return datasets.STL10(folder, folds=0)


# VOC and COCO ---------------------------------------------------------------------------------


@hostile
def voc_leaves_its_folder(folder: Path) -> Any:
    voc = files.write_voc(folder)
    (voc / "ImageSets" / "Main" / "train.txt").write_text("../../../../secret\n")
    return datasets.VOCDetection(folder)


def voc_with(text: str) -> Callable[[Path], Any]:
    def open_it(folder: Path) -> Any:
        voc = files.write_voc(folder)
        (voc / "Annotations" / "2007_000032.xml").write_text(text)
        return datasets.VOCDetection(folder)[0]

    return open_it


ENTITIES = "".join(f'<!ENTITY a{n + 1} "{f"&a{n};" * 10}">' for n in range(9))
LAUGHS = f'<!DOCTYPE x [<!ENTITY a0 "ha">{ENTITIES}]><annotation>&a9;</annotation>'
HOSTILE |= {
    "voc_text": voc_with("no XML"),
    "voc_cut": voc_with(files.XML[:200]),
    "voc_laughs": voc_with(LAUGHS),
}  # fmt: skip


def coco_with(**changes: Any) -> Callable[[Path], Any]:
    def open_it(folder: Path) -> Any:
        return datasets.CocoDetection(folder / "val", files.write_coco(folder, **changes))

    return open_it


def coco_of(text: str) -> Callable[[Path], Any]:
    def open_it(folder: Path) -> Any:
        (folder / "a.json").write_text(text)
        return datasets.CocoDetection(folder, folder / "a.json")

    return open_it


HOSTILE |= {
    "coco_leaves_its_folder": coco_with(images=[{"id": 7, "file_name": "../../secret.png"}]),
    "coco_absolute": coco_with(images=[{"id": 7, "file_name": "/etc/passwd"}]),
    "coco_no_names": coco_with(images=[{"id": 7}]),
    "coco_unknown_image": coco_with(annotations=[{"image_id": 99}]),
    "coco_numbers": coco_with(images=3),
    "coco_text": coco_of("no JSON"),
    "coco_cut": coco_of('{"images": ['),
    "coco_list": coco_of("[]"),
    "coco_deep": coco_of("[" * 10**6),
}


# Archives -------------------------------------------------------------------------------------


def zip_with(name: str, content: bytes = b"x", mode: int = 0) -> Callable[[Path], Any]:
    def open_it(folder: Path) -> Any:
        with zipfile.ZipFile(folder / "a.zip", "w", zipfile.ZIP_DEFLATED) as archive:
            member = zipfile.ZipInfo(name)
            member.external_attr = mode << 16
            archive.writestr("good.txt", b"good")
            archive.writestr(member, content, zipfile.ZIP_DEFLATED, 9)
        return extract_archive(folder / "a.zip", folder / "out")

    return open_it


def tar_with(name: str, **settings: Any) -> Callable[[Path], Any]:
    def open_it(folder: Path) -> Any:
        with tarfile.open(folder / "a.tar.gz", "w:gz") as archive:
            for member_name in ("good.txt", name):
                member = tarfile.TarInfo(member_name)
                if member_name == name:
                    for key, value in settings.items():
                        setattr(member, key, value)
                archive.addfile(member, io.BytesIO(bytes(member.size)))
        return extract_archive(folder / "a.tar.gz", folder / "out")

    return open_it


def archive_of(content: bytes, name: str) -> Callable[[Path], Any]:
    def open_it(folder: Path) -> Any:
        (folder / name).write_bytes(content)
        return extract_archive(folder / name, folder / "out")

    return open_it


HOSTILE |= {
    "zip_leaves_its_folder": zip_with("../escaped.txt"),
    "zip_absolute": zip_with("/tmp/escaped.txt"),
    "zip_backslashes": zip_with("..\\escaped.txt"),
    "zip_drive": zip_with("C:/escaped.txt"),
    "zip_link": zip_with("link", b"/etc", 0o120777),
    "zip_bomb": zip_with("bomb", bytes(2**26)),
    "zip_text": archive_of(b"no archive", "a.zip"),
    "zip_cut": archive_of(b"PK\x03\x04" + bytes(60), "a.zip"),
    "tar_leaves_its_folder": tar_with("../escaped.txt"),
    "tar_absolute": tar_with("/tmp/escaped.txt"),
    "tar_link": tar_with("link", type=tarfile.SYMTYPE, linkname="/etc"),
    "tar_hard_link": tar_with("link", type=tarfile.LNKTYPE, linkname="../../secret"),
    "tar_device": tar_with("device", type=tarfile.CHRTYPE),
    "tar_bomb": tar_with("bomb", size=2**26),
    "tar_cut": archive_of(gzip.compress(bytes(9999))[:20], "a.tar.gz"),
}


# One after the other ------------------------------------------------------------------------


def limit_memory() -> None:
    """Let this process take `MEMORY` more than it has."""
    import resource

    pages = int(Path("/proc/self/statm").read_text().split()[0])
    most = pages * resource.getpagesize() + MEMORY
    resource.setrlimit(resource.RLIMIT_AS, (most, most))


def main() -> None:
    root = Path(sys.argv[1])
    import PIL.Image
    import scipy.io  # noqa: F401  (what is imported does not count)

    PIL.Image.init()
    write_idx(root / "warm.gz", np.zeros(3, np.uint8))
    limit_memory()
    results = {}
    for name, open_it in HOSTILE.items():
        folder = root / name
        folder.mkdir()
        try:
            results[name] = ["nothing", repr(open_it(folder))[:200]]
        except Exception as error:  # noqa: BLE001  (whatever it is, it is reported)
            results[name] = [type(error).__name__, str(error)]
    print(json.dumps(results))


if __name__ == "__main__":
    main()
