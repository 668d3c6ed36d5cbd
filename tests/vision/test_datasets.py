"""Data sets in their published formats: small ones are written, and read."""

from __future__ import annotations

import gzip
import hashlib
import pickle
import tarfile
import zipfile

import numpy as np
import pytest

import edutorch
from edutorch.errors import EdutorchError
from edutorch.utils.data import DataLoader
from edutorch.vision import datasets, transforms
from edutorch.vision.datasets import utils
from edutorch.vision.datasets.idx import read_idx, write_idx
from tests.vision import files

PIL = pytest.importorskip("PIL.Image", reason="needs the extra `vision`")


@pytest.fixture(autouse=True)
def no_mirror(monkeypatch):
    monkeypatch.delenv(utils.MIRROR, raising=False)


# MNIST and its family -------------------------------------------------------------------------


@pytest.mark.parametrize("ending", ["", ".gz"])
@pytest.mark.parametrize("name", ["MNIST", "FashionMNIST", "KMNIST"])
def test_mnist(tmp_path, name, ending):
    files.write_mnist(tmp_path, name, ending=ending)
    data = getattr(datasets, name)(str(tmp_path), train=False, transform=transforms.ToTensor())
    picture, label = data[4]
    assert len(data) == 6 and label == 4 and picture.shape == (1, 28, 28)
    assert data.data.shape == (6, 28, 28) and data.data.dtype is edutorch.uint8
    assert data.targets.tolist() == [0, 1, 2, 3, 4, 5] and data.class_to_idx[data.classes[3]] == 3
    assert (picture * 255).round().to(edutorch.uint8)[0].equal(data.data[4])


def test_the_transforms_of_picture_and_target(tmp_path):
    files.write_mnist(tmp_path)
    data = datasets.MNIST(tmp_path, transform=transforms.Resize(14), target_transform=str)
    assert data[3][0].size == (14, 14) and data[3][1] == "3"
    assert repr(data) == (
        f"Dataset MNIST\n    Number of datapoints: 12\n    Root location: {tmp_path}\n"
        "    Split: Train\n    StandardTransform\n"
        "    Transform: Resize(size=14, interpolation=bilinear, max_size=None, antialias=True)\n"
        "    Target transform: <class 'str'>"
    ).replace("<class 'str'>", repr(str))


def test_a_loader_with_workers(tmp_path):
    files.write_mnist(tmp_path)
    data = datasets.MNIST(tmp_path, transform=transforms.ToTensor())
    batches = list(DataLoader(data, batch_size=5, num_workers=2))
    assert [len(labels) for _, labels in batches] == [5, 5, 2]
    assert edutorch.cat([labels for _, labels in batches]).equal(data.targets)


def test_emnist(tmp_path):
    folder = files.write_mnist(tmp_path, "EMNIST")
    for path in list(folder.iterdir()):
        part = "train" if path.name.startswith("train") else "test"
        path.rename(folder / f"emnist-letters-{part}-{path.name.partition('-')[2]}")
    data = datasets.EMNIST(tmp_path, "letters")
    assert len(data) == 12 and data.classes[data[3][1]] == "c"
    with pytest.raises(ValueError, match="use one of byclass, bymerge"):
        datasets.EMNIST(tmp_path, "capitals")
    with pytest.raises(RuntimeError, match="emnist-digits-train-images-idx3-ubyte"):
        datasets.EMNIST(tmp_path, "digits")


def test_emnist_from_its_archive(tmp_path, monkeypatch, capsys):
    folder = files.write_mnist(tmp_path / "made")
    with zipfile.ZipFile(tmp_path / "gzip.zip", "w") as archive:
        for path in folder.iterdir():
            part = "train" if path.name.startswith("train") else "test"
            name = f"gzip/emnist-mnist-{part}-{path.name.partition('-')[2]}.gz"
            archive.writestr(name, gzip.compress(path.read_bytes()))
    monkeypatch.setattr(datasets.EMNIST, "mirrors", [str(tmp_path)])
    with pytest.warns(UserWarning, match=r"gzip\.zip is not the published file: its MD5 differs"):
        data = datasets.EMNIST(tmp_path / "root", "mnist", download=True, train=False)
    assert len(data) == 6 and "copied" in capsys.readouterr().out


def test_qmnist(tmp_path):
    folder = tmp_path / "QMNIST" / "raw"
    folder.mkdir(parents=True)
    labels = np.arange(48, dtype=np.int32).reshape(6, 8) % 10
    write_idx(folder / "qmnist-test-images-idx3-ubyte.gz", files.noise(6, 28, 28))
    write_idx(folder / "qmnist-test-labels-idx2-int.gz", labels)
    data = datasets.QMNIST(tmp_path, train=False)
    assert len(data) == 6 and data[2][1] == labels[2, 0]
    everything = datasets.QMNIST(tmp_path, "test10k", compat=False)
    assert everything[2][1].tolist() == labels[2].tolist()


@pytest.mark.parametrize("dtype", ["uint8", "int8", "int16", "int32", "float32", "float64"])
def test_idx_there_and_back(tmp_path, dtype):
    array = np.arange(-6, 6).reshape(2, 3, 2).astype(dtype)
    write_idx(tmp_path / "a.gz", array)
    again = read_idx(tmp_path / "a.gz")
    assert again.dtype == array.dtype and (again == array).all()
    with pytest.raises(ValueError, match="there is no IDX type for int64"):
        write_idx(tmp_path / "b", np.arange(3))


# Digits ---------------------------------------------------------------------------------------


def test_digits():
    pytest.importorskip("sklearn", reason="needs the extra `lab`")
    small, large = datasets.Digits(image_size=8), datasets.Digits(train=False)
    assert len(small) + len(large) == 1797 and small[5][1] == 6
    assert large.data.shape == (359, 28, 28) and large.data.max() > 200
    assert large.data[:, :4].sum() == 0  # a border, as in MNIST
    assert "Split: Test" in repr(large)


def test_digits_as_mnist(tmp_path):
    pytest.importorskip("sklearn", reason="needs the extra `lab`")
    datasets.write_digits(tmp_path, copies=2)
    train, test = datasets.MNIST(tmp_path), datasets.MNIST(tmp_path, train=False)
    assert len(train) == 2876 and test.data.equal(datasets.Digits(train=False).data)
    assert train.targets.bincount().min() > 250
    with pytest.raises(FileExistsError, match="is there already"):
        datasets.write_digits(tmp_path)


# CIFAR, SVHN, STL-10 --------------------------------------------------------------------------


def test_pickles_of_python_2_are_as_python_reads_them(tmp_path):
    path = files.write_cifar10(tmp_path) / "data_batch_2"
    theirs = pickle.loads(path.read_bytes(), encoding="latin1")
    from edutorch.vision.datasets.cifar import read_pickle

    ours = read_pickle(path, "CIFAR10")
    assert ours.keys() == theirs.keys() and ours["labels"] == theirs["labels"]
    assert (ours["data"] == theirs["data"]).all()


def test_cifar(tmp_path):
    files.write_cifar10(tmp_path)
    train, test = datasets.CIFAR10(tmp_path), datasets.CIFAR10(str(tmp_path), train=False)
    assert len(train) == 30 and len(test) == 6 and train.data.shape == (30, 32, 32, 3)
    assert train.targets[:8] == [0, 1, 2, 3, 4, 5, 1, 2] and train.class_to_idx["cat"] == 3
    picture, label = train[0]
    assert picture.size == (32, 32) and label == 0
    assert (np.asarray(picture)[..., 2].ravel() == files.noise(6, 3072)[0, 2048:]).all()


def test_cifar100(tmp_path):
    files.write_cifar100(tmp_path)
    data = datasets.CIFAR100(tmp_path, train=False)
    assert len(data) == 6 and data.classes[data[0][1]] == "thing 99"


def test_cifar_from_its_archive(tmp_path, monkeypatch, capsys):
    made = files.write_cifar10(tmp_path / "made")
    with tarfile.open(tmp_path / "cifar-10-python.tar.gz", "w:gz") as archive:
        archive.add(made, made.name)
    monkeypatch.setenv(utils.MIRROR, f"file://{tmp_path}")
    monkeypatch.setattr(datasets.CIFAR10, "archive", published(tmp_path / "cifar-10-python.tar.gz"))
    root = tmp_path / "root"
    assert len(datasets.CIFAR10(root, download=True)) == 30
    monkeypatch.delenv(utils.MIRROR)
    assert len(datasets.CIFAR10(root, train=False, download=True)) == 6  # it is there now


def published(path) -> utils.DataFile:
    return utils.DataFile(path.name, hashlib.md5(path.read_bytes()).hexdigest())


def test_svhn(tmp_path):
    pytest.importorskip("scipy", reason="needs the extra `vision`")
    files.write_svhn(tmp_path)
    data = datasets.SVHN(tmp_path, "test")
    assert len(data) == 5 and data.labels.tolist() == [0, 1, 2, 9, 0]
    assert (np.asarray(data[2][0]) == files.noise(32, 32, 3, 5)[..., 2]).all()


def test_stl10(tmp_path):
    files.write_stl10(tmp_path)
    assert datasets.STL10(tmp_path).labels.tolist() == [0, 1, 2, 3]
    assert datasets.STL10(tmp_path, folds=1).labels.tolist() == [1, 3]
    both = datasets.STL10(tmp_path, "train+unlabeled")
    assert len(both) == 8 and both[7][1] == -1 and both.classes == ["airplane", "bird", "car"]
    pixels = files.noise(4, 3, 96, 96)
    assert (np.asarray(both[5][0]) == pixels[1].transpose(2, 1, 0)).all()
    with pytest.raises(ValueError, match="`folds` lies between 0 and 9"):
        datasets.STL10(tmp_path, folds=10)


# Folders, VOC, COCO, noise --------------------------------------------------------------------


def test_image_folder(tmp_path):
    root = files.write_folders(tmp_path)
    data = datasets.ImageFolder(root, transforms.ToTensor())
    assert data.classes == ["cat", "dog"] and data.targets == [0, 0, 1, 1]
    names = [path.removeprefix(str(root)) for path, _ in data.imgs]
    assert names == ["/cat/1.png", "/cat/2.PNG", "/dog/a.png", "/dog/deep/1.jpg"]
    assert data[3][0].shape == (3, 30, 40) and data[3][1] == 1
    texts = datasets.DatasetFolder(root, len, is_valid_file=lambda path: path.endswith("txt"),
                                   allow_empty=True)  # fmt: skip
    assert texts.targets == [0] and texts[0][0] == len(f"{root}/cat/notes.txt")
    with pytest.raises(FileNotFoundError, match=r"did you mean 'pets'\?"):
        datasets.ImageFolder(tmp_path / "pest")
    with pytest.raises(FileNotFoundError, match="Couldn't find any class folder"):
        datasets.ImageFolder(root / "cat")
    with pytest.raises(TypeError, match="either `extensions` or `is_valid_file`"):
        datasets.DatasetFolder(root, len)


def test_voc(tmp_path):
    files.write_voc(tmp_path)
    picture, mask = datasets.VOCSegmentation(tmp_path)[0]
    assert picture.size == mask.size == (40, 30)
    picture, target = datasets.VOCDetection(
        tmp_path, transforms=lambda picture, target: (picture.size, target["annotation"])
    )[0]
    assert picture == (40, 30) and target["size"]["width"] == "40"
    assert target["object"][0]["bndbox"]["xmax"] == "9"
    assert [part["name"] for part in target["object"][0]["part"]] == ["head", "foot"]
    with pytest.raises(RuntimeError, match=r"published\s+= VOCtrainval_11-May-2012\.tar"):
        datasets.VOCSegmentation(tmp_path, image_set="val")
    with pytest.raises(ValueError, match="year"):
        datasets.VOCSegmentation(tmp_path, "1999")


def test_coco(tmp_path):
    path = files.write_coco(tmp_path)
    data = datasets.CocoDetection(tmp_path / "val", path)
    assert data.ids == [3, 7] and data.categories == {2: "dog"}
    picture, target = data[1]
    assert picture.size == (40, 30) and target[0]["bbox"] == [1, 2, 3, 4] and data[0][1] == []
    captions = datasets.CocoCaptions(tmp_path / "val", path, target_transform=len)
    assert captions[1][1] == 2
    with pytest.raises(FileNotFoundError, match=r"did you mean 'instances.json'\?"):
        datasets.CocoDetection(tmp_path, tmp_path / "instance.json")
    (tmp_path / "val" / "3.png").unlink()
    with pytest.raises(FileNotFoundError, match=r"3\.png"):
        data[0]


def test_fake_data():
    data = datasets.FakeData(5, (3, 4, 6), transform=transforms.ToTensor())
    before = edutorch.get_rng_state()
    assert data[3][0].equal(data[3][0]) and not data[3][0].equal(data[2][0])
    assert edutorch.get_rng_state().equal(before)
    with pytest.raises(IndexError, match="index 5 out of range"):
        data[5]


# What is missing ------------------------------------------------------------------------------


def test_a_missing_file_is_named(tmp_path):
    folder = files.write_mnist(tmp_path)
    (folder / "train-labels-idx1-ubyte").unlink()
    for download in (False, True):
        with pytest.raises(RuntimeError) as caught:
            datasets.MNIST(tmp_path, download=download)
        text = str(caught.value)
        assert str(folder / "train-labels-idx1-ubyte") in text
        assert "train-labels-idx1-ubyte.gz, MD5 d53e105ee54ea40749a09fcbcd1e9432" in text
        assert "fetches nothing unasked" in text and "EDUTORCH_MIRROR" in text
    assert isinstance(caught.value, FileNotFoundError)
    assert isinstance(pickle.loads(pickle.dumps(caught.value)), EdutorchError)


def test_download_copies_from_where_the_user_says(tmp_path, monkeypatch, capsys):
    source = files.write_mnist(tmp_path / "mirror", "FashionMNIST", ending=".gz")
    source.rename(tmp_path / "mirror" / "files")
    pytest.importorskip("fsspec", reason="needs the extra `remote`")
    for number, address in enumerate(
        (tmp_path / "mirror" / "files", f"file://{tmp_path}/mirror/files")
    ):
        monkeypatch.setenv(utils.MIRROR, str(address))
        with pytest.warns(UserWarning, match="its MD5 differs"):
            data = datasets.FashionMNIST(tmp_path / f"root{number}", download=True)
        assert len(data) == 12 and "copied" in capsys.readouterr().out
        assert len(list((tmp_path / f"root{number}").rglob("*.gz"))) == 2  # nothing unneeded


def test_a_mirror_in_memory(tmp_path, monkeypatch):
    fsspec = pytest.importorskip("fsspec", reason="needs the extra `remote`")
    folder = files.write_mnist(tmp_path, ending=".gz")
    memory = fsspec.filesystem("memory")
    for path in folder.iterdir():
        memory.pipe_file(f"/bucket/MNIST/{path.name}", path.read_bytes())
    monkeypatch.setenv(utils.MIRROR, "memory://bucket")
    monkeypatch.setattr(
        datasets.MNIST, "resources", [published(folder / f.name) for f in datasets.MNIST.resources]
    )
    assert len(datasets.MNIST(tmp_path / "root", download=True)) == 12


def test_a_copy_that_fails_leaves_nothing(tmp_path, monkeypatch):
    source = files.write_mnist(tmp_path / "mirror", ending=".gz")

    def fail(*paths):
        raise OSError("the disk is full")

    monkeypatch.setattr("os.replace", fail)
    monkeypatch.setenv(utils.MIRROR, str(source))
    with pytest.raises(OSError, match="the disk is full"):
        datasets.MNIST(tmp_path / "root", download=True)
    assert [path.name for path in (tmp_path / "root" / "MNIST" / "raw").iterdir()] == []


def test_the_web_is_not_asked(tmp_path):
    with pytest.raises(NotImplementedError, match="nothing is fetched from the web"):
        utils.download_and_extract_archive("https://127.0.0.1/a.zip", tmp_path)
    assert not list(tmp_path.iterdir())


# Archives and checksums -----------------------------------------------------------------------


@pytest.mark.parametrize("ending", ["zip", "tar", "tar.gz", "tar.xz", "tar.bz2"])
def test_archives(tmp_path, ending):
    path = tmp_path / f"a.{ending}"
    inner = tmp_path / "b.txt"
    inner.write_text("text")
    if ending == "zip":
        with zipfile.ZipFile(path, "w") as archive:
            archive.write(inner, "folder/b.txt")
    else:
        with tarfile.open(path, f"w:{ending.rpartition('.')[2].replace('tar', '')}") as archive:
            archive.add(inner, "folder/b.txt")
    utils.download_and_extract_archive(
        f"file://{path}", tmp_path / "root", md5=utils.calculate_md5(path), remove_finished=True
    )
    assert (tmp_path / "root" / "folder" / "b.txt").read_text() == "text"
    assert [entry.name for entry in (tmp_path / "root").iterdir()] == ["folder"]
    with pytest.raises(ValueError, match="not the one that was published"):
        utils.download_url(str(path), tmp_path / "other", md5="0" * 32)


def test_lists_and_checksums(tmp_path):
    root = files.write_folders(tmp_path)
    assert utils.list_dir(root) == ["cat", "dog"]
    assert utils.list_files(root / "cat", ".png", prefix=True) == [f"{root}/cat/1.png"]
    assert utils.check_integrity(root / "cat" / "1.png", published(root / "cat" / "1.png").md5)
    assert not utils.check_integrity(root / "cat" / "9.png")


def test_both_kinds_of_transforms_are_refused():
    with pytest.raises(TypeError, match="give `transforms`, or"):
        datasets.VisionDataset("x", transforms=len, transform=len)
    with pytest.raises(TypeError, match="an object such as ToTensor"):
        datasets.FakeData(transform=transforms.ToTensor)
