"""The real torchvision's data sets beside ours: both read the same files."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

torchvision = pytest.importorskip("torchvision", reason="needs the second environment")

from torchvision.datasets import cifar, stl10, svhn  # noqa: E402

import edutorch  # noqa: E402
from edutorch.vision import datasets  # noqa: E402
from tests.vision import files  # noqa: E402

if torchvision.torch is not edutorch:
    pytest.skip(
        "torchvision runs on PyTorch here: pytest -p edutorch.alias", allow_module_level=True
    )

theirs = torchvision.datasets


@pytest.fixture(autouse=True)
def accept_every_checksum(monkeypatch):
    """The files are written here: their checksums are not the published ones."""
    for module in (cifar, stl10, svhn):
        monkeypatch.setattr(module, "check_integrity", lambda *args, **named: True)


def assert_same(mine: Any, other: Any) -> None:
    assert len(mine) == len(other) > 0 and repr(mine) == repr(other)
    for index in range(len(mine)):
        (picture, target), (their_picture, their_target) = mine[index], other[index]
        assert picture.mode == their_picture.mode
        assert (np.asarray(picture) == np.asarray(their_picture)).all()
        assert np.array_equal(np.asarray(target), np.asarray(their_target))


@pytest.mark.parametrize("train", [True, False])
def test_mnist_and_cifar(tmp_path, train):
    files.write_mnist(tmp_path)
    files.write_cifar10(tmp_path)
    files.write_cifar100(tmp_path)
    for name in ("MNIST", "CIFAR10", "CIFAR100"):
        mine, other = (getattr(library, name)(tmp_path, train) for library in (datasets, theirs))
        assert_same(mine, other)
        assert list(mine.classes) == list(other.classes)


def test_svhn_and_stl10(tmp_path):
    files.write_svhn(tmp_path)
    files.write_stl10(tmp_path)
    assert_same(datasets.SVHN(tmp_path, "test"), theirs.SVHN(tmp_path, "test"))
    for split in datasets.STL10.splits:
        mine, other = datasets.STL10(tmp_path, split), theirs.STL10(tmp_path, split)
        assert [label for _, label in mine] == [label for _, label in other]
        assert (mine.data == other.data).all()
    mine, other = datasets.STL10(tmp_path, folds=1), theirs.STL10(tmp_path, folds=1)
    assert (mine.data == other.data).all()


def test_folders_and_annotations(tmp_path):
    root = files.write_folders(tmp_path)
    mine, other = datasets.ImageFolder(root), theirs.ImageFolder(root)
    assert_same(mine, other)
    assert mine.imgs == other.imgs
    files.write_voc(tmp_path)
    assert_same(datasets.VOCSegmentation(tmp_path), theirs.VOCSegmentation(tmp_path))
    assert datasets.VOCDetection(tmp_path)[0][1] == theirs.VOCDetection(tmp_path)[0][1]


def test_noise():
    assert_same(datasets.FakeData(3, (3, 5, 6)), theirs.FakeData(3, (3, 5, 6)))


def test_the_classes_and_checksums_are_the_published_ones():
    for name in ("MNIST", "FashionMNIST", "KMNIST"):
        mine, other = getattr(datasets, name), getattr(theirs, name)
        assert mine.classes == other.classes
        assert [tuple(file) for file in mine.resources] == other.resources
    assert datasets.EMNIST.classes_split_dict == theirs.EMNIST.classes_split_dict
    assert datasets.EMNIST.archive.md5 == theirs.EMNIST.md5
    for name in ("CIFAR10", "CIFAR100"):
        mine, other = getattr(datasets, name), getattr(theirs, name)
        assert mine.archive == (other.filename, other.tgz_md5)
        assert [list(file) for file in mine.train_list] == other.train_list
        assert mine.meta.md5 == other.meta["md5"]
    for split, file in datasets.SVHN.split_list.items():
        assert list(file) == theirs.SVHN.split_list[split][1:]
    assert datasets.STL10.archive.md5 == theirs.STL10.tgz_md5
