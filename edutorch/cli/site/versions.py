"""Which versions of JupyterLite go with which Pyodide."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, NamedTuple

from ...errors import EdutorchError

OP = "edutorch site"


class SiteError(EdutorchError, RuntimeError):
    """A site that cannot be built or served."""


class Pair(NamedTuple):
    """A JupyterLite and the Pyodide that its kernel knows.

    Attributes:
        pyodide: the version that is tried and loaded from the CDN.
        series: what begins the version of each Pyodide with the same interface.
        python: of this Pyodide.
        entry: the file that the kernel loads Pyodide from.
        tools: what is installed in the build environment.
        wheels: the libraries of widgets, which come as wheels of pure Python.
    """

    pyodide: str
    series: str
    python: str
    entry: str
    tools: tuple[str, ...]
    wheels: tuple[str, ...]

    @property
    def cdn(self) -> str:
        """The folder of Pyodide on its content delivery network."""
        return f"https://cdn.jsdelivr.net/pyodide/v{self.pyodide}/full/"


# The tests run the first pair. The second is for new sites: Pyodide 314 has ml_dtypes and
# safetensors, which the first lacks.
PAIRS = (
    Pair(
        "0.27.7", "0.27.", "3.12", "pyodide.js",
        ("jupyterlite-core==0.6.4", "jupyterlite-pyodide-kernel==0.6.1", "jupyter-server==2.17.0",
         "anywidget==0.9.18", "jupyterlab-widgets==3.0.15"),
        ("anywidget==0.9.18", "psygnal==0.16.1", "typing-extensions==4.15.0",
         "ipywidgets==8.1.7", "jupyterlab-widgets==3.0.15", "comm==0.2.3"),
    ),
    Pair(
        "314.0.7", "314.", "3.14", "pyodide.mjs",
        ("jupyterlite-core==0.8.6", "jupyterlite-pyodide-kernel==0.8.7", "jupyter-server==2.17.0",
         "anywidget==0.11.0", "jupyterlab-widgets==3.0.17"),
        ("anywidget==0.11.0", "psygnal==0.16.1", "typing-extensions==4.15.0",
         "ipywidgets==8.1.9", "jupyterlab-widgets==3.0.17", "comm==0.2.3"),
    ),
)  # fmt: skip


def pair_of_version(version: str) -> Pair:
    """Return the pair for a version of Pyodide.

    Raises: SiteError: no JupyterLite is known for it.

    >>> from edutorch.cli.site.versions import pair_of_version
    >>> pair_of_version("0.27.7").python
    '3.12'
    """
    for pair in PAIRS:
        if version.startswith(pair.series):
            return pair
    raise SiteError(
        OP, f"Pyodide {version or 'of an unknown version'} is not among those that are known",
        hint="give a folder with Pyodide " + " or ".join(pair.pyodide for pair in PAIRS),
    )  # fmt: skip


def pair_of_lock(lock: Mapping[str, Any]) -> Pair:
    """Return the pair for a lock of Pyodide.

    Raises: SiteError: it is for another Python than Pyodide of this version has.
    """
    info = lock.get("info")
    info = info if isinstance(info, Mapping) else {}
    pair = pair_of_version(str(info.get("version", "")))
    python = str(info.get("python", ""))
    if not re.match(rf"{re.escape(pair.python)}(\.|$)", python):
        raise SiteError(
            OP, f"the lock of Pyodide {info['version']} is for Python {python}, "
            f"but that Pyodide has Python {pair.python}",
            hint="take pyodide-lock.json and pyodide.asm.wasm from the same release",
        )  # fmt: skip
    return pair
