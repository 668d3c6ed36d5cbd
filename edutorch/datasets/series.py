"""Series: one number after the other, over years."""

from __future__ import annotations

import numpy as np

from ..core.tensor import Tensor
from ..ops.from_data import tensor
from .tables import is_number, read_csv


def load_co2() -> Tensor:
    """Return the carbon dioxide in the air over Mauna Loa: 2,284 weeks, 1958 to 2001, in ppm.

    Weeks without a measurement are filled in on a straight line. From statsmodels (BSD-3).

    >>> load_co2()[[0, -1]]
    tensor([316.1000, 371.5000])
    """
    return numbers_of("statsmodels", "datasets/co2/co2.csv", "co2", "datasets.load_co2")


def load_sunspots() -> Tensor:
    """Return the mean number of sunspots of 309 years, 1700 to 2008.

    From statsmodels (BSD-3).

    >>> load_sunspots()[:3]
    tensor([ 5., 11., 16.])
    """
    path = "datasets/sunspots/sunspots.csv"
    return numbers_of("statsmodels", path, "SUNACTIVITY", "datasets.load_sunspots")


def load_weather() -> dict[str, Tensor]:
    """Return 1,461 days of weather in Seattle, 2012 to 2015.

    `precipitation` (mm), `temp_max` and `temp_min` (°C), `wind` (m/s). From vega-datasets (the
    data: public domain).

    >>> sorted(load_weather())
    ['precipitation', 'temp_max', 'temp_min', 'wind']
    """
    columns = read_csv("vega_datasets", "_data/seattle-weather.csv", "datasets.load_weather")
    names = ("precipitation", "temp_max", "temp_min", "wind")
    return {name: tensor(np.array(columns[name], np.float32)) for name in names}


def numbers_of(package: str, path: str, column: str, purpose: str) -> Tensor:
    """Return a column of a CSV file, where numbers are missing between their neighbours."""
    texts = read_csv(package, path, purpose)[column]
    known = [index for index, text in enumerate(texts) if is_number(text)]
    values = np.interp(range(len(texts)), known, [float(texts[index]) for index in known])
    return tensor(values.astype(np.float32))
