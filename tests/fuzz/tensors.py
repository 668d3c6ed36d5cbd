"""A tensor as data, from which both libraries make the same tensor, and a script can be written."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import ml_dtypes
import numpy as np

FLOATS = ("float64", "float32", "float16", "bfloat16")
COMPLEX = ("complex128", "complex64")
INTEGERS = ("int64", "int32", "int16", "int8", "uint8")
DTYPES = (*FLOATS, *COMPLEX, *INTEGERS, "bool")

WIDE = {
    "float32": "float64", "float16": "float64", "bfloat16": "float64", "complex64": "complex128",
}  # fmt: skip
"""The dtype in which a call is judged."""

LAYOUTS = ("contiguous", "transposed", "sliced", "offset", "expanded", "channels_last")
FILLS = (
    "normal", "unit", "positive", "ties", "zeros", "ones", "edges", "infinite", "nan", "tiny",
    "huge", "ordered",
)  # fmt: skip
"""Kinds of values for any tensor; `index`, `mask`, `spd`, `simplex` are for arguments that want
them."""


@dataclass(frozen=True)
class TensorSpec:
    """A tensor as data.

    Args:
        fill: the kind of values (see `FILLS`), drawn by `seed`; `values` takes their place.
        bound: what indices stay below.
        through: a dtype that values are rounded to first: float64 then judges the same ones.
        nudge: a seed for relative changes by half a unit of `through`: how sensitive a result is.
    """

    shape: tuple[int, ...]
    dtype: str
    fill: str = "normal"
    seed: int = 0
    layout: str = "contiguous"
    grad: bool = False
    values: tuple[Any, ...] | None = None
    bound: int = 1
    through: str = ""
    nudge: int = 0

    def wide(self, nudge: int = 0) -> TensorSpec:
        """Return the same numbers in the dtype of the judge."""
        if self.dtype not in (*WIDE, "float64", "complex128"):
            return self
        return replace(
            self, dtype=WIDE.get(self.dtype, self.dtype), through=self.dtype, nudge=nudge
        )

    @property
    def size(self) -> int:
        return int(np.prod(self.shape))

    @property
    def is_float(self) -> bool:
        return self.dtype in FLOATS or self.dtype in COMPLEX


def numpy_dtype(name: str) -> Any:
    return np.dtype(ml_dtypes.bfloat16) if name == "bfloat16" else np.dtype(name)


def largest(name: str) -> float:
    """Return the largest number of a dtype."""
    if name == "bool":
        return 1.0
    if name in INTEGERS:
        return float(np.iinfo(name).max)
    return float(ml_dtypes.finfo(numpy_dtype(name.replace("complex128", "float64"))).max)


def smallest(name: str) -> float:
    """Return the smallest normal number above 0 of a dtype."""
    if name in INTEGERS or name == "bool":
        return 1.0
    return float(ml_dtypes.finfo(numpy_dtype(name.replace("complex128", "float64"))).tiny)


def storage_shape(shape: tuple[int, ...], layout: str) -> tuple[int, ...]:
    """Return the shape of the contiguous tensor that a layout is a view of."""
    if not shape or layout == "contiguous":
        return shape
    if layout == "transposed":
        return shape[::-1]
    if layout == "sliced":
        return (*shape[:-1], 2 * shape[-1])
    if layout == "offset":
        return (shape[0] + 1, *shape[1:])
    if layout == "expanded":
        return (min(shape[0], 1), *shape[1:])
    return (shape[0], *shape[2:], *shape[1:2])


def view_text(spec: TensorSpec) -> str:
    """Return the expression that leads from the contiguous tensor to the view of a layout."""
    rank = len(spec.shape)
    if not rank or spec.layout == "contiguous":
        return ""
    return {
        "transposed": f".permute({', '.join(map(str, reversed(range(rank))))})",
        "sliced": "[..., ::2]",
        "offset": "[1:]",
        "expanded": f".expand({spec.shape})",
        "channels_last": ".movedim(-1, 1)" if rank > 1 else "",
    }[spec.layout]


def view_of(tensor: Any, spec: TensorSpec) -> Any:
    """Return the view of a contiguous tensor that a layout describes."""
    rank = len(spec.shape)
    if not rank or spec.layout == "contiguous":
        return tensor
    if spec.layout == "transposed":
        return tensor.permute(*reversed(range(rank)))
    if spec.layout == "sliced":
        return tensor[..., ::2]
    if spec.layout == "offset":
        return tensor[1:]
    if spec.layout == "expanded":
        return tensor.expand(spec.shape)
    return tensor.movedim(-1, 1) if rank > 1 else tensor


def real_values(spec: TensorSpec, shape: tuple[int, ...], rng: np.random.Generator) -> Any:
    """Draw real numbers of a kind."""
    fill, top, tiny = spec.fill, largest(base_of(spec)), smallest(base_of(spec))
    if fill == "index":
        return rng.integers(0, max(spec.bound, 1), shape)
    if fill == "mask":
        return rng.random(shape) < 0.5
    if fill in ("unit", "positive"):
        return (0.02 + 0.96 * rng.random(shape)) * (1 if fill == "unit" else 3)
    if fill == "ties":
        return rng.integers(-2, 3, shape).astype(float)
    if fill in ("zeros", "ones"):
        return np.full(shape, float(fill == "ones"))
    if fill == "edges":
        choice = [0, -0.0, 1, -1, np.inf, -np.inf, np.nan, top, -top, tiny, -tiny, tiny / 4, 0.5]
        return rng.choice(choice, shape)
    if fill in ("tiny", "huge"):
        return rng.standard_normal(shape) * (tiny if fill == "tiny" else top / 4)
    if fill == "ordered":
        return np.arange(int(np.prod(shape))).reshape(shape) / 8.0
    if fill == "spd" and len(shape) > 1 and shape[-1] == shape[-2]:
        factor = rng.standard_normal(shape)
        return factor @ factor.swapaxes(-1, -2) + np.eye(shape[-1])
    if fill == "simplex" and shape:
        weights = rng.random(shape) + 0.05
        return weights / weights.sum(-1, keepdims=True)
    drawn = np.array(rng.standard_normal(shape))
    if fill in ("infinite", "nan") and drawn.size:
        special = np.nan if fill == "nan" else float(rng.choice([np.inf, -np.inf]))
        drawn.reshape(-1)[rng.integers(drawn.size)] = special
    return drawn


def base_of(spec: TensorSpec) -> str:
    """Return the dtype whose limits the values know."""
    name = spec.through or spec.dtype
    return {"complex64": "float32", "complex128": "float64"}.get(name, name)


def values_of(spec: TensorSpec) -> np.ndarray:
    """Return the values of the contiguous tensor behind a spec, rounded to its dtype."""
    shape = storage_shape(spec.shape, spec.layout)
    name = spec.through or spec.dtype
    rng = np.random.default_rng(spec.seed)
    if spec.values is not None:
        drawn = np.array(spec.values, dtype=complex if name in COMPLEX else None).reshape(shape)
    else:
        drawn = np.asarray(real_values(spec, shape, rng))
        if name in COMPLEX:
            drawn = drawn + 1j * np.asarray(rng.standard_normal(shape))
    rounded = round_to(drawn, name)
    return perturb(rounded, name, spec.nudge) if spec.nudge else rounded


def round_to(drawn: np.ndarray, name: str) -> np.ndarray:
    """Round numbers to a dtype; integers take whole numbers within their range."""
    with np.errstate(all="ignore"):
        if name == "bool":
            return np.asarray(drawn != 0) if drawn.dtype != bool else drawn
        if name in INTEGERS:
            if drawn.dtype.kind == "f":
                limits = np.iinfo(name)
                whole = np.nan_to_num(
                    np.round(drawn * (1 if np.all(drawn == np.round(drawn)) else 3))
                )
                whole = np.abs(whole) if name == "uint8" else whole
                low, high = float(limits.min), np.nextafter(float(limits.max), 0)
                drawn = np.clip(whole, low, high if name == "int64" else limits.max)
            return drawn.astype(name)
        if name == "bfloat16":
            return drawn.astype(np.float32).astype(ml_dtypes.bfloat16)
        return drawn.astype(name)


def perturb(rounded: np.ndarray, name: str, seed: int) -> np.ndarray:
    """Move each number by at most half a unit in the last place of its dtype."""
    unit = float(ml_dtypes.finfo(numpy_dtype({"complex64": "float32"}.get(name, name).replace(
        "complex128", "float64"))).eps)  # fmt: skip
    wide = rounded.astype(np.complex128 if name in COMPLEX else np.float64)
    rng = np.random.default_rng(seed)  # by amounts that differ, or ±x would still cancel
    shares = rng.choice([-1, 1], rounded.shape) * rng.uniform(0.3, 0.5, rounded.shape)
    return wide * (1 + unit * shares)


def make(spec: TensorSpec, torch: Any, device: str = "cpu") -> Any:
    """Return the contiguous tensor behind a spec, a leaf; `view_of` leads on to the argument."""
    values = values_of(spec)
    if spec.nudge or spec.dtype != (spec.through or spec.dtype):
        values = values.astype(spec.dtype)
    if values.dtype == ml_dtypes.bfloat16:
        tensor = torch.from_numpy(values.astype(np.float32)).to(torch.bfloat16)
    else:
        tensor = torch.from_numpy(np.array(values, order="C"))
    if device != "cpu":
        tensor = tensor.to(device)
    return tensor.requires_grad_() if spec.grad else tensor
