"""Which of equal numbers is returned: where PyTorch leaves that open, any right index is right."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from .calls import Call, Outcome, Result
from .tensors import make, view_of

OPEN_CHOICES = re.compile(r"(Tensor\.)?(topk|kthvalue|mode|median|nanmedian|sort|argsort)")
"""PyTorch says of each that the index, or the order of equal numbers, is not laid down."""

EACH_ONCE = re.compile(r"(Tensor\.)?(topk|sort|argsort)")
"""Those that must not take a number twice."""


HISTOGRAMS = re.compile(r"(Tensor\.)?histogram(dd)?")
"""A number on a bound belongs to either part, as the bound is rounded."""


class Choosing:
    """PyTorch, but for one function, whatever it is called through."""

    def __init__(self, torch: Any, name: str, function: Callable[..., Any]) -> None:
        self._torch, self._name, self._function = torch, name, function

    @property
    def Tensor(self) -> Any:
        return self

    def __getattr__(self, name: str) -> Any:
        return self._function if name == self._name else getattr(self._torch, name)


def with_our_choice(call: Call, ours: Outcome, theirs: Outcome, torch: Any) -> Any:
    """Return a PyTorch that takes the numbers we have taken, or None.

    None: both have taken the same, nothing is left open, or ours are not as right as PyTorch's.
    """
    if HISTOGRAMS.fullmatch(call.path):
        return with_our_bounds(call, ours, theirs, torch)
    if not OPEN_CHOICES.fullmatch(call.path):
        return None
    mine, wanted = (indices_in(outcome) for outcome in (ours, theirs))
    if mine is None or wanted is None or mine.shape != wanted.shape:
        return None
    if np.array_equal(mine.value, wanted.value):
        return None
    spec = next(call.specs())
    input = view_of(make(replace(spec, grad=False), torch), spec)
    dim = call.settings.get("dim", -1)
    if not is_right(
        call, *(take_values(torch, input, dim, r.value) for r in (mine, wanted)), input
    ):
        return None
    if EACH_ONCE.fullmatch(call.path) and taken_twice(mine.value, dim):
        return None
    return Choosing(torch, call.path.rpartition(".")[2], make_chooser(call, torch, mine.value))


def with_our_bounds(call: Call, ours: Outcome, theirs: Outcome, torch: Any) -> Any:
    """Return a PyTorch that counts between our bounds, if those are right but for rounding."""
    mine, wanted = (
        [r for r in outcome.results if r.label.startswith("output[1]") and r.value is not None]
        for outcome in (ours, theirs)
    )
    for bounds, others in zip(mine, wanted, strict=False):
        if bounds.dtype not in ("float32", "float64"):
            return None
        unit = np.finfo(bounds.dtype).eps
        size = np.abs(others.value).max(initial=0)
        if bounds.shape != others.shape or not np.allclose(
            bounds.value, others.value, rtol=0, atol=4 * unit * size
        ):
            return None
    if not mine or len(mine) != len(wanted):
        return None
    name = call.path.rpartition(".")[2]

    def count(input: Any, bins: Any = None, *, range: Any = None, **settings: Any) -> Any:
        del bins, range
        bounds = [torch.from_numpy(np.array(r.value)).to(input.dtype) for r in mine]
        return getattr(torch, name)(input, bounds if name == "histogramdd" else bounds[0],
                                    **settings)  # fmt: skip

    return Choosing(torch, name, count)


def indices_in(outcome: Outcome) -> Result | None:
    """Return the indices among the results of a call."""
    for result in outcome.results:
        is_index = result.dtype == "int64" and isinstance(result.value, np.ndarray)
        if is_index and result.label in ("output", "output[1]", "jvp0[0]", "jvp0[1]"):
            return result
    return None


def take_values(torch: Any, input: Any, dim: int, indices: np.ndarray) -> Any:
    """Return the numbers at indices of an axis, which the indices may lack."""
    index = torch.from_numpy(np.array(indices, order="C"))
    if index.ndim == input.ndim:
        return torch.gather(input, dim, index)
    return torch.gather(input, dim, index.unsqueeze(dim)).squeeze(dim)


def is_right(call: Call, mine: Any, wanted: Any, input: Any) -> bool:
    """Whether the same numbers were taken, in the same order if there is one."""
    dim = call.settings.get("dim", -1)
    if call.settings.get("sorted") is False and mine.ndim:
        mine, wanted = mine.sort(dim).values, wanted.sort(dim).values
    same = (mine == wanted) | ((mine != mine) & (wanted != wanted))
    if call.path.endswith("mode"):  # PyTorch sorts by <, which puts NaN anywhere
        has_nan = (input != input).any(dim, keepdim=same.ndim == input.ndim)
        same = same | has_nan
    return bool(same.all())


def taken_twice(indices: np.ndarray, dim: int) -> bool:
    if not indices.ndim or not indices.size:
        return False
    ordered = np.sort(indices, dim)
    return bool((np.diff(ordered, axis=dim) == 0).any())


def make_chooser(call: Call, torch: Any, indices: np.ndarray) -> Callable[..., Any]:
    """Return a function that takes numbers at indices, in place of the one that looks for them."""
    dim = call.settings.get("dim", -1)

    def choose(input: Any, *args: Any, out: Any = None, **settings: Any) -> Any:
        chosen = torch.from_numpy(np.array(indices, order="C"))
        if call.path.endswith("argsort"):
            return chosen if out is None else out.copy_(chosen)
        values = take_values(torch, input, dim, indices)
        if out is None:
            return values, chosen
        return out[0].copy_(values), out[1].copy_(chosen)

    return choose
