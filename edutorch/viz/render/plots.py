"""The one door to matplotlib, and what a plot is once it is drawn: a PNG with words to it."""

from __future__ import annotations

import io
import os
from base64 import b64encode
from pathlib import Path
from typing import Any

import numpy as np

from ... import backends
from ...core.tensor import Tensor
from ...errors import EdutorchError, missing_extra
from ..diagnostics.report import clean
from .static import write_whole

LARGEST = 512
"""Of a larger picture only each second, third, … pixel is taken, before it leaves its device."""

DIVERGING, RISING = "PuOr_r", "cividis"
"""Maps that every kind of colour vision can read: around 0, and from low to high."""


class NotAPictureError(EdutorchError, ValueError):
    """A tensor or module cannot be drawn in this way."""


class NotAPictureTypeError(NotAPictureError, TypeError):
    """Something of another type was to be drawn."""


def new_figure(function: str, **options: Any) -> Any:
    """Return an empty figure of matplotlib that no other part of a program knows of.

    Raises: MissingExtraError: matplotlib is not installed.
    """
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
    except ImportError as error:
        raise missing_extra("lab", function, f"{error.name} is not installed") from error
    figure = Figure(**options)
    FigureCanvasAgg(figure)
    return figure


class Plot:
    """A finished plot: a notebook shows it, `save` writes it.

    `.figure` is matplotlib's, to be changed before it is shown; `.alt` says in words what is to
    be seen, for who cannot see it.
    """

    def __init__(self, figure: Any, alt: str) -> None:
        self.figure, self.alt = figure, alt

    def png(self) -> bytes:
        """Return the picture as PNG."""
        file = io.BytesIO()
        self.figure.savefig(file, format="png", dpi=110, metadata={"Description": self.alt[:1000]})
        return file.getvalue()

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Write the picture, whole or not at all; its ending says the format (.png, .svg, .pdf)."""
        path, file = Path(path), io.BytesIO()
        self.figure.savefig(file, format=path.suffix.removeprefix(".") or "png", dpi=110)
        write_whole(path, file.getvalue())
        return path

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, Any]:
        """Give a notebook each form it may know."""
        image = self.png()
        source = f"data:image/png;base64,{b64encode(image).decode()}"
        html = f'<img style="max-width:100%" alt="{clean(self.alt)}" src="{source}">'
        return {"text/html": html, "image/png": image, "text/plain": repr(self)}

    def __repr__(self) -> str:
        return f"<{self.alt}>"


def on_host(tensor: Any, most: int = LARGEST, axes: int = 2) -> np.ndarray:
    """Return a tensor as a NumPy array of floats, thinned on its device along its last axes."""
    array = tensor._array if isinstance(tensor, Tensor) else tensor
    if array.dtype.kind == "c":
        array = abs(array)
    steps = tuple(slice(None, None, -(-size // most)) for size in array.shape[array.ndim - axes :])
    array = array[(..., *steps)] if array.ndim >= axes else array
    found = backends.of(array).to_numpy(array) if backends.is_array(array) else np.asarray(array)
    return found.astype("float64")


def need_tensor(function: str, given: Any) -> Tensor:
    """Return a tensor as it is.

    Raises: NotAPictureTypeError: it is something else.
    """
    if isinstance(given, Tensor):
        return given
    hint = "torch.from_numpy(…) makes a tensor of an array" if hasattr(given, "shape") else None
    raise NotAPictureTypeError(
        function, f"expected a tensor, got {type(given).__name__}", hint=hint
    )


def grid_of(count: int, columns: int | None) -> tuple[int, int]:
    """Return rows and columns for so many pictures.

    >>> grid_of(10, None), grid_of(10, 2)
    ((3, 4), (5, 2))
    """
    columns = min(count, columns or int(np.ceil(np.sqrt(count))))
    return -(-count // columns), columns
