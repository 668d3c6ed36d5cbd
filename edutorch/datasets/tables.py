"""Tables: a row for each penguin, wine, patient or car; a column for each measurement."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import NamedTuple

import numpy as np

from ..core.tensor import Tensor
from ..ops.from_data import tensor
from .packages import file_of, require_package


class Table(NamedTuple):
    """Measurements, and what is to be predicted from them.

    Attributes:
        inputs: a row for each example, a column for each measurement, float32.
        targets: the number of each example's class (int64), or a value (float32).
        input_names: the names of the columns.
        target_names: the names of the classes; empty where the target is a value.
    """

    inputs: Tensor
    targets: Tensor
    input_names: tuple[str, ...]
    target_names: tuple[str, ...] = ()


WINE = (
    "alcohol", "malic_acid", "ash", "alcalinity_of_ash", "magnesium", "total_phenols",
    "flavanoids", "nonflavanoid_phenols", "proanthocyanins", "color_intensity", "hue",
    "od280/od315_of_diluted_wines", "proline",
)  # fmt: skip


def load_wine() -> Table:
    """Return 178 wines of three growers, with 13 measurements each.

    From scikit-learn (BSD-3).

    >>> table = load_wine()
    >>> table.inputs.shape, table.target_names
    (torch.Size([178, 13]), ('class_0', 'class_1', 'class_2'))
    """
    path = "datasets/data/wine_data.csv"
    with file_of("sklearn", path, "datasets.load_wine", extra="lab").open(encoding="utf-8") as file:
        _, _, *classes = file.readline().strip().split(",")
        rows = np.loadtxt(file, np.float32, delimiter=",")
    inputs, targets = np.ascontiguousarray(rows[:, :-1]), rows[:, -1].astype(np.int64)
    return Table(tensor(inputs), tensor(targets), WINE, tuple(classes))


def load_breast_cancer() -> Table:
    """Return 569 tumours, malignant or benign, with 30 measurements each.

    From scikit-learn (BSD-3).

    >>> load_breast_cancer().target_names
    ('malignant', 'benign')
    """
    return _from_sklearn("load_breast_cancer")


def load_diabetes() -> Table:
    """Return 442 patients, with 10 measurements each and how far the illness is a year later.

    From scikit-learn (BSD-3).

    >>> load_diabetes().targets[:3]
    tensor([151.,  75., 141.])
    """
    return _from_sklearn("load_diabetes")


def _from_sklearn(name: str) -> Table:
    require_package("sklearn", f"datasets.{name}", extra="lab")
    from sklearn import datasets

    data = getattr(datasets, name)()
    classes = tuple(str(label) for label in getattr(data, "target_names", ()))
    targets = data.target.astype(np.int64 if classes else np.float32)
    inputs = tensor(data.data.astype(np.float32))
    return Table(inputs, tensor(targets), tuple(map(str, data.feature_names)), classes)


def load_penguins() -> Table:
    """Return the 342 penguins of three species that were measured.

    The columns are the length and depth of the bill (mm), the length of a flipper (mm) and the
    mass (g). From palmerpenguins (MIT); `read_csv("palmerpenguins", "data/penguins.csv")` has
    the island, the sex and the year as well, and the two penguins that nobody measured.

    >>> table = load_penguins()
    >>> table.inputs.shape, table.target_names
    (torch.Size([342, 4]), ('Adelie', 'Chinstrap', 'Gentoo'))
    """
    columns = read_csv("palmerpenguins", "data/penguins.csv", "datasets.load_penguins")
    names = ("bill_length_mm", "bill_depth_mm", "flipper_length_mm", "body_mass_g")
    rows = np.array([columns[name] for name in names]).T
    measured = np.array([is_number(row[0]) for row in rows])
    species = np.array(columns["species"])[measured]
    classes, targets = np.unique(species, return_inverse=True)
    inputs = tensor(rows[measured].astype(np.float32))
    return Table(inputs, tensor(targets.astype(np.int64)), names, tuple(map(str, classes)))


def load_cars() -> Table:
    """Return 392 cars of 1970 to 1982, and how many miles they run on a gallon.

    From vega-datasets (the data: public domain).

    >>> load_cars().input_names
    ('Cylinders', 'Displacement', 'Horsepower', 'Weight_in_lbs', 'Acceleration', 'Year')
    """
    file = file_of("vega_datasets", "_data/cars.json", "datasets.load_cars")
    names = ("Cylinders", "Displacement", "Horsepower", "Weight_in_lbs", "Acceleration", "Year")
    rows = [
        [*(car[name] for name in names[:-1]), int(car["Year"][:4]), car["Miles_per_Gallon"]]
        for car in json.loads(file.read_text("utf-8"))
    ]
    known = tensor(np.array([row for row in rows if None not in row], np.float32))
    return Table(known[:, :-1].contiguous(), known[:, -1].contiguous(), names)


def read_csv(package: str, path: str, purpose: str = "datasets.read_csv") -> dict[str, list[str]]:
    """Return the columns of a CSV file of an installed package, as text.

    Args:
        package: the package to read it from, as it is imported.
        path: the file inside the package's folder.
        purpose: what the error names where the package is absent.

    Raises: MissingExtraError: the package is not installed.

    >>> sorted(set(read_csv("palmerpenguins", "data/penguins.csv")["island"]))
    ['Biscoe', 'Dream', 'Torgersen']
    """
    return columns_of(file_of(package, path, purpose))


def columns_of(file: Path) -> dict[str, list[str]]:
    with file.open(encoding="utf-8", newline="") as lines:
        heads, *rows = csv.reader(lines)
    return {head: [row[index] for row in rows] for index, head in enumerate(heads)}


def is_number(text: str) -> bool:
    try:
        return not np.isnan(float(text))
    except ValueError:
        return False
