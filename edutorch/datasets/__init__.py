"""Real data for the course, read from installed packages: nothing is downloaded, nothing copied.

    inputs, targets, *names = datasets.load_wine()

Each function names the package it reads and its licence. Where the package is absent, the error
says how to install it, and how to copy its files instead, for a browser tab: `write_data`.
"""

from .copies import write_data
from .images import Images, load_digits, load_faces, load_nuclei, load_photo
from .series import load_co2, load_sunspots, load_weather
from .tables import (
    Table,
    load_breast_cancer,
    load_cars,
    load_diabetes,
    load_penguins,
    load_wine,
    read_csv,
)
from .texts import load_dates, load_manual

__all__ = [
    "Images", "Table", "load_breast_cancer", "load_cars", "load_co2", "load_dates", "load_diabetes",
    "load_digits", "load_faces", "load_manual", "load_nuclei", "load_penguins", "load_photo",
    "load_sunspots", "load_weather", "load_wine", "read_csv", "write_data",
]  # fmt: skip
