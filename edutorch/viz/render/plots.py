"""The interface to matplotlib, and finished plots: a PNG with an alternative text."""

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
from ..diagnostics.messages import escape_text
from .static import write_file

LARGEST = 512
"""A larger picture is subsampled before it is copied from its device."""

DIVERGING, RISING = "PuOr_r", "cividis"
"""Colour maps that are safe for colour-blind readers: around 0, and from low to high."""


class NotAPictureError(EdutorchError, ValueError):
    """Raised if a tensor or module cannot be drawn as requested."""


class NotAPictureTypeError(NotAPictureError, TypeError):
    """Raised if an object of another type is to be drawn."""


def new_figure(function: str, **options: Any) -> Any:
    """Return an empty matplotlib figure, independent of pyplot's state.

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
    """A finished plot: a notebook displays it, `save` writes it.

    `.figure` is matplotlib's figure, which can be changed before it is shown; `.alt` is the
    alternative text.
    """

    def __init__(self, figure: Any, alt: str) -> None:
        self.figure, self.alt = figure, alt

    def png(self) -> bytes:
        """Return the picture as PNG."""
        file = io.BytesIO()
        self.figure.savefig(file, format="png", dpi=110, metadata={"Description": self.alt[:1000]})
        return file.getvalue()

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Write the picture atomically, in the format of its suffix (.png, .svg, .pdf)."""
        path, file = Path(path), io.BytesIO()
        self.figure.savefig(file, format=path.suffix.removeprefix(".") or "png", dpi=110)
        write_file(path, file.getvalue())
        return path

    def _repr_mimebundle_(self, include: object = None, exclude: object = None) -> dict[str, Any]:
        """Return the plot in every format that a notebook may support."""
        image = self.png()
        source = f"data:image/png;base64,{b64encode(image).decode()}"
        html = f'<img style="max-width:100%" alt="{escape_text(self.alt)}" src="{source}">'
        return {"text/html": html, "image/png": image, "text/plain": repr(self)}

    def __repr__(self) -> str:
        return f"<{self.alt}>"


def to_host(tensor: Any, most: int = LARGEST, axes: int = 2) -> np.ndarray:
    """Return a tensor as a float64 NumPy array, subsampled on its device along its last axes."""
    array = tensor._array if isinstance(tensor, Tensor) else tensor
    if array.dtype.kind == "c":
        array = abs(array)
    steps = tuple(slice(None, None, -(-size // most)) for size in array.shape[array.ndim - axes :])
    array = array[(..., *steps)] if array.ndim >= axes else array
    if backends.is_array(array):
        return backends.of(array).to_numpy(array).astype("float64")
    return np.asarray(array).astype("float64")


def check_tensor(function: str, tensor: object) -> Tensor:
    """Return the argument if it is a tensor.

    Raises: NotAPictureTypeError: it is something else.
    """
    if isinstance(tensor, Tensor):
        return tensor
    hint = "torch.from_numpy(…) makes a tensor of an array" if hasattr(tensor, "shape") else None
    raise NotAPictureTypeError(
        function, f"expected a tensor, got {type(tensor).__name__}", hint=hint
    )


def grid_shape(count: int, columns: int | None) -> tuple[int, int]:
    """Return the rows and columns of a grid of `count` pictures.

    >>> grid_shape(10, None), grid_shape(10, 2)
    ((3, 4), (5, 2))
    """
    columns = min(count, columns or int(np.ceil(np.sqrt(count))))
    return -(-count // columns), columns
