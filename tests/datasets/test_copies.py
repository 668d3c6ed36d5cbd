"""Data without the packages: from copies of their files."""

from __future__ import annotations

import re
from importlib.machinery import PathFinder

import pytest

import edutorch
from edutorch import datasets
from edutorch.datasets import packages
from edutorch.errors import MissingExtraError
from tests.datasets.test_datasets import ARGUMENTS, WITH_FILES, load

NAMES = {name: " ".join([name[5:], *ARGUMENTS.get(name, ())]) for name in sorted(WITH_FILES)}
"""Each function, and what `write_data` calls its data."""


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """The folder of copies, which is empty."""
    monkeypatch.setenv("EDUTORCH_DATA", str(tmp_path / "data"))
    return tmp_path / "data"


@pytest.fixture
def no_packages(monkeypatch):
    """Call it, and there is no package any more, but for Pillow."""
    find = packages.find_spec
    return lambda: monkeypatch.setattr(
        packages, "find_spec", lambda name: find(name) if name == "PIL" else None
    )


def parts(value):
    if isinstance(value, edutorch.Tensor):
        return (value,)
    return tuple(value.values()) if isinstance(value, dict) else tuple(value)


@pytest.mark.parametrize("name", NAMES)
def test_copies_are_as_good_as_the_packages(name, folder, no_packages):
    expected = load(name)
    copies = datasets.write_data(folder, [NAMES[name]])
    assert all(copy.is_relative_to(folder) for copy in copies)
    no_packages()
    actual = load_copy(name)
    assert type(actual) is type(expected)
    for one, other in zip(parts(actual), parts(expected), strict=True):
        assert edutorch.equal(one, other) if isinstance(one, edutorch.Tensor) else one == other


def load_copy(name):
    return getattr(datasets, name)(*ARGUMENTS.get(name, ()))


def test_a_folder_beside_the_notebook_is_found(tmp_path, monkeypatch, no_packages):
    load("load_wine")
    monkeypatch.delenv("EDUTORCH_DATA", raising=False)
    monkeypatch.chdir(tmp_path)
    datasets.write_data("edutorch_data", ["wine"])
    no_packages()
    assert len(datasets.load_wine().inputs) == 178


def test_copies_may_be_a_package(tmp_path, monkeypatch, no_packages):
    load("load_wine")
    package = tmp_path / "site" / "edutorch_data"
    datasets.write_data(package, ["wine"])
    (package / "__init__.py").touch()
    no_packages()
    monkeypatch.setattr(
        packages, "find_spec",
        lambda name: PathFinder.find_spec(name, [str(package.parent)]),
    )  # fmt: skip
    monkeypatch.delenv("EDUTORCH_DATA", raising=False)
    monkeypatch.chdir(tmp_path)
    assert len(datasets.load_wine().inputs) == 178


def test_copies_bring_their_licence(folder):
    load("load_wine")
    datasets.write_data(folder, ["wine", "photo flower"])
    files = {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()}
    assert {"SHA256SUMS", "sklearn/COPYING", "sklearn/datasets/images/README.txt"} <= files
    assert "BSD 3-Clause" in (folder / "sklearn" / "COPYING").read_text("utf-8")


def test_copies_are_added_to_each_other(folder, no_packages):
    load("load_wine")
    datasets.write_data(folder, ["wine"])
    datasets.write_data(folder, ["digits"])
    no_packages()
    assert len(datasets.load_wine().inputs) == 178 and len(datasets.load_digits().images) == 1797


# Bad days ------------------------------------------------------------------------------------


def test_without_package_and_copy_both_ways_are_named(folder, no_packages):
    no_packages()
    with pytest.raises(MissingExtraError) as caught:
        datasets.load_digits()
    head, hint = str(caught.value).split("\n")
    assert head == "datasets.load_digits: scikit-learn is not installed"
    assert hint.startswith('  hint: pip install "edutorch[lab]", or copy its files')
    assert hint.endswith(f"see datasets.write_data (there is no {folder / 'sklearn'})")


def test_what_python_brings_cannot_be_installed(folder, no_packages):
    no_packages()
    with pytest.raises(MissingExtraError, match="\n  hint: copy its files where it is installed"):
        datasets.load_manual()


def test_a_copy_of_something_else_is_not_enough(folder, no_packages):
    load("load_wine")
    datasets.write_data(folder, ["wine"])
    no_packages()
    with pytest.raises(FileNotFoundError) as caught:
        datasets.load_digits()
    head, hint = str(caught.value).split("\n")
    assert head.endswith("sklearn has no file 'datasets/data/digits.csv.gz'")
    assert "datasets.write_data" in hint


@pytest.mark.parametrize("damage", [b"", b"1,2,3\n", None])
def test_a_copy_that_was_changed_is_refused(damage, folder, no_packages):
    load("load_wine")
    copy = next(copy for copy in datasets.write_data(folder, ["wine"]) if copy.suffix == ".csv")
    copy.write_bytes(copy.read_bytes()[:-20] if damage is None else damage)
    no_packages()
    with pytest.raises(ValueError, match=re.escape(f"{copy} is not the file that was copied\n")):
        datasets.load_wine()


def test_copies_without_checksums_are_refused(folder, no_packages):
    load("load_wine")
    datasets.write_data(folder, ["wine"])
    (folder / "SHA256SUMS").unlink()
    no_packages()
    with pytest.raises(ValueError, match="is not the file that was copied"):
        datasets.load_wine()


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("whales", "there are no files of 'whales'\n  hint: there are cars, co2, digits"),
        ("", "there are no files of ''"),
        ("photo", "there are no files of 'photo'"),
        ("dates", "there are no files of 'dates'"),
        ("photo nobody", "there is no photo 'nobody'"),
        ("photo ../../setup", "there is no photo '../../setup'"),
    ],
)
def test_what_has_no_files_cannot_be_copied(name, said, folder):
    load("load_wine")
    with pytest.raises(ValueError, match=said):
        datasets.write_data(folder, ["wine", name])
    assert not folder.exists(), "nothing is written"
