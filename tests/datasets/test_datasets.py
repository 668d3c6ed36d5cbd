"""Real data: shapes and ranges, nothing from the network, and what is said where it is absent."""

from __future__ import annotations

import re
import socket
import subprocess
import sys
from importlib.util import find_spec

import pytest

import edutorch
from edutorch import datasets
from edutorch.cli.lessons import missing_packages
from edutorch.datasets import packages, tables
from edutorch.errors import MissingExtraError

LOADERS = {
    "load_breast_cancer": "sklearn",
    "load_cars": "vega_datasets",
    "load_co2": "statsmodels",
    "load_dates": "babel",
    "load_diabetes": "sklearn",
    "load_digits": "sklearn",
    "load_faces": "skimage",
    "load_manual": "",  # of the standard library
    "load_nuclei": "stardist",
    "load_penguins": "palmerpenguins",
    "load_photo": "skimage",
    "load_sunspots": "statsmodels",
    "load_weather": "vega_datasets",
    "load_wine": "sklearn",
}
"""The package of each function."""

ARGUMENTS = {"load_dates": (5,), "load_photo": ("coins",)}
WITHOUT_FILES = {"load_breast_cancer", "load_dates", "load_diabetes"}
WITH_FILES = set(LOADERS) - WITHOUT_FILES
"""Those that can be read from copies, without the package."""


def load(name):
    """Call a function of `datasets`; skip the test where its package is absent."""
    package = LOADERS[name]
    if package and find_spec(package) is None:
        pytest.skip(f"needs {package}: the extra `course`")
    return getattr(datasets, name)(*ARGUMENTS.get(name, ()))


def test_every_function_is_tested():
    public = {name for name in datasets.__all__ if name.startswith("load_")}
    assert public == set(LOADERS), "add a row to LOADERS, and a test of what it returns"


@pytest.mark.parametrize("name", LOADERS)
def test_nothing_comes_from_the_network(name, monkeypatch):
    def refuse(*args, **options):
        raise AssertionError("the network is off")

    for function in ("connect", "connect_ex", "bind"):
        monkeypatch.setattr(socket.socket, function, refuse)
    monkeypatch.setattr(socket, "getaddrinfo", refuse)
    load(name)


def test_packages_are_not_imported_for_their_files():
    names = sorted({package for package in LOADERS.values() if package} - {"sklearn", "babel"})
    if any(find_spec(name) is None for name in names):
        pytest.skip("needs the extra `course`")
    loaders = [name for name, package in LOADERS.items() if package in names]
    code = (
        "import sys\nfrom edutorch import datasets\n"
        f"for name in {loaders}: getattr(datasets, name)(*{ARGUMENTS}.get(name, ()))\n"
        f"print([name for name in {[*names, 'pandas', 'scipy']} if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert (done.stdout, done.stderr) == ("[]\n", "")


def test_importing_edutorch_reads_no_data():
    code = "import sys, edutorch; print('edutorch.datasets' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stdout == "False\n", done.stderr


# What they return ----------------------------------------------------------------------------


def is_finite(tensor):
    return bool(edutorch.isfinite(tensor).all())


@pytest.mark.parametrize(
    ("name", "shape", "classes"),
    [
        ("load_wine", (178, 13), 3),
        ("load_breast_cancer", (569, 30), 2),
        ("load_diabetes", (442, 10), 0),
        ("load_penguins", (342, 4), 3),
        ("load_cars", (392, 6), 0),
    ],
)
def test_tables(name, shape, classes):
    table = load(name)
    assert isinstance(table, datasets.Table)
    assert table.inputs.shape == shape and table.inputs.dtype == edutorch.float32
    assert table.targets.shape == shape[:1]
    assert is_finite(table.inputs) and is_finite(table.targets)
    assert table.inputs.is_contiguous() and not table.inputs.requires_grad
    assert len(table.input_names) == shape[1] and len(table.target_names) == classes
    if classes:
        assert table.targets.dtype == edutorch.int64
        assert table.targets.unique().tolist() == list(range(classes))
    else:
        assert table.targets.dtype == edutorch.float32 and len(table.targets.unique()) > 50


@pytest.mark.parametrize(
    ("name", "shape", "counts"),
    [("load_digits", (1797, 1, 8, 8), 10), ("load_faces", (200, 1, 25, 25), 2)],
)
def test_images(name, shape, counts):
    images, labels = load(name)
    assert images.shape == shape and images.dtype == edutorch.float32
    assert 0 <= images.min() < 0.1 and 0.9 < images.max() <= 1
    assert labels.dtype == edutorch.int64 and labels.unique().tolist() == list(range(counts))


def test_every_photo_can_be_loaded():
    load("load_photo")
    with pytest.raises(ValueError, match="there is no photo 'nobody'\n  hint: there are") as caught:
        datasets.load_photo("nobody")
    names = re.findall(r"\w+", str(caught.value).partition("there are ")[2])
    assert {"astronaut", "camera", "chelsea", "coffee", "coins", "retina", "rocket"} <= set(names)
    for name in names:
        photo = datasets.load_photo(name)
        assert photo.dtype == edutorch.float32 and photo.ndim == 3 and photo.shape[0] in (1, 3)
        assert 0 <= photo.min() < photo.max() <= 1, name


def test_nuclei():
    image, masks = load("load_nuclei")
    assert image.shape == masks.shape == (512, 512)
    assert image.dtype == edutorch.float32 and masks.dtype == edutorch.int64
    assert image.min() == 0 and image.max() == 1
    sizes = edutorch.bincount(masks.flatten())
    nuclei = sizes[1:][sizes[1:] > 0]
    assert len(nuclei) == 125 and 0.05 < (masks > 0).float().mean() < 0.5
    assert image[masks > 0].mean() > 2 * image[masks == 0].mean(), "they lie on each other"


@pytest.mark.parametrize(
    ("name", "length", "low", "high"),
    [("load_co2", 2284, 300, 400), ("load_sunspots", 309, 0, 250)],
)
def test_series(name, length, low, high):
    values = load(name)
    assert values.shape == (length,) and values.dtype == edutorch.float32
    assert is_finite(values) and low <= values.min() < values.max() <= high


def test_weather():
    weather = load("load_weather")
    assert {column.shape for column in weather.values()} == {(1461,)}
    assert all(is_finite(column) for column in weather.values())
    assert (weather["temp_max"] >= weather["temp_min"]).all()
    assert weather["precipitation"].min() == 0


def test_the_manual():
    topics = datasets.load_manual()
    assert len(topics) > 70 and sum(map(len, topics.values())) > 400_000
    assert list(topics) == sorted(topics)


def test_dates():
    load("load_dates")
    pairs = datasets.load_dates(300)
    assert len({text for text, _ in pairs}) == len(pairs) == 300
    for text, iso in pairs:
        year, month, day = map(int, iso.split("-"))
        assert 1900 <= year <= 2099 and 1 <= month <= 12 and 1 <= day <= 31
        assert re.search(rf"\b{year}\b", text), "all digits of the year"
        assert re.search(rf"\b0?{day}(?!\d)", text), text
    assert datasets.load_dates(300) == pairs
    assert datasets.load_dates(300, seed=1) != pairs
    assert datasets.load_dates(2, languages=("de",)) != pairs[:2]
    assert datasets.load_dates(0) == []


@pytest.mark.parametrize("name", LOADERS)
def test_twice_is_the_same_and_nothing_is_shared(name):
    first, second = load(name), load(name)
    if not isinstance(first, tuple):
        first, second = (first,), (second,)
    for one, two in zip(first, second, strict=True):
        if isinstance(one, edutorch.Tensor):
            assert edutorch.equal(one, two)
            one.zero_()
            assert not edutorch.equal(one, two), "a lesson that writes into it spoils the next"


# Bad input -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda: datasets.load_photo(""), "there is no photo ''"),
        (lambda: datasets.load_photo(3), "there is no photo 3"),
        (lambda: datasets.load_dates(-1), "got -1 dates of 8 languages\n  hint: count is 0"),
        (lambda: datasets.load_dates(3, languages=()), "got 3 dates of 0 languages"),
        (lambda: datasets.load_dates(3, languages=("xx",)), "Babel has no locale 'xx'"),
        (lambda: datasets.load_dates(3, languages=("../de",)), "Babel has no locale '../de'"),
    ],
)
def test_bad_arguments(call, said):
    load("load_photo")
    load("load_dates")
    with pytest.raises(ValueError, match=r"^datasets\.load_") as caught:
        call()
    assert said in str(caught.value)


def test_more_dates_than_there_are(monkeypatch):
    """Two days in one language and format have two texts."""
    load("load_dates")
    from edutorch.datasets import texts

    monkeypatch.setattr(texts, "FORMATS", ("long",))
    monkeypatch.setattr(texts.random.Random, "randint", lambda self, low, high: 730_000)
    with pytest.raises(ValueError, match="there are no 2 different dates"):
        datasets.load_dates(2, languages=("en",))


@pytest.mark.parametrize("name", [name for name, package in LOADERS.items() if package])
def test_an_absent_package_is_named(name, monkeypatch):
    monkeypatch.setattr(packages, "find_spec", lambda package: None)
    extra = "lab" if LOADERS[name] == "sklearn" else "course"
    distribution = packages.DISTRIBUTIONS.get(LOADERS[name], LOADERS[name])
    with pytest.raises(MissingExtraError) as caught:
        getattr(datasets, name)(*ARGUMENTS.get(name, ()))
    head, hint = str(caught.value).split("\n")
    assert head.startswith(f"datasets.{name}: {distribution} is not installed")
    assert hint.startswith(f'  hint: pip install "edutorch[{extra}]"')
    assert ("datasets.write_data" in hint) == (name in WITH_FILES)


def test_a_package_without_a_wheel_says_so(monkeypatch):
    monkeypatch.setattr(packages, "find_spec", lambda package: None)
    monkeypatch.setattr(packages, "NO_WHEELS", {"stardist": (3, 0)})
    version = "{}.{}".format(*sys.version_info)
    with pytest.raises(MissingExtraError, match=f"and has no wheel for Python {version}\n"):
        datasets.load_nuclei()
    monkeypatch.setattr("edutorch.cli.lessons.is_installed", lambda package: False)
    assert missing_packages(["stardist", "skimage", "babel", "sklearn"]) == [
        "stardist, which has no wheel for this Python",
        'pip install "edutorch[course]"',
        'pip install "edutorch[lab]"',
    ]


@pytest.mark.parametrize(
    ("name", "path"),
    [
        ("load_faces", "data/lfw_subset.npy"),
        ("load_nuclei", "data/images/img2d.tif"),
        ("load_penguins", "data/penguins.csv"),
        ("load_co2", "datasets/co2/co2.csv"),
        ("load_cars", "_data/cars.json"),
        ("load_weather", "_data/seattle-weather.csv"),
    ],
)
def test_a_file_that_a_version_lacks_is_named(name, path, monkeypatch, tmp_path):
    class Spec:
        origin = str(tmp_path / "__init__.py")

    monkeypatch.setattr(packages, "find_spec", lambda package: Spec)
    with pytest.raises(FileNotFoundError) as caught:
        getattr(datasets, name)()
    head, hint = str(caught.value).split("\n")
    assert re.fullmatch(rf"datasets\.{name}: the installed [\w-]+ has no file '{path}'", head)
    assert hint.startswith('  hint: pip install --upgrade "edutorch[course]"')


def test_a_module_put_together_by_hand_is_no_package(monkeypatch):
    monkeypatch.setitem(sys.modules, "palmerpenguins", type(sys)("palmerpenguins"))
    with pytest.raises(MissingExtraError, match="palmerpenguins is not installed"):
        datasets.load_penguins()


def test_read_csv_reads_any_table(tmp_path):
    file = tmp_path / "table.csv"
    file.write_text('a,b\n1,"x, y"\n2,é\n', encoding="utf-8")
    assert tables.columns_of(file) == {"a": ["1", "2"], "b": ["x, y", "é"]}
    with pytest.raises(MissingExtraError, match=r"^datasets\.read_csv: no_such_package is not"):
        datasets.read_csv("no_such_package", "table.csv")
