"""Ops at the limits of their dtypes: zeros of both signs, the smallest and largest values,
infinities and NaN. Values and gradients are PyTorch's there too.

Where they are not, `EXTREME_DIFFERENCES` in the files of cases says why.
"""

from __future__ import annotations

import itertools
import warnings
from collections.abc import Iterator
from functools import cache
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import edutorch
from edutorch.core.op import Op
from tests.op_calls import arguments, array, call, convert, differentiable, every, ops
from tests.op_cases import CASES, INTERNAL, Case
from tests.op_cases_extremes import EXTREME_DIFFERENCES
from tests.op_oracles import theirs
from tests.oracle import require_torch

KINDS = ("float64", "float32", "float16", "bfloat16")
# So many digits of a type are right in both libraries, 16-bit ones being rounded at each step.
TOLERANCE = {"float64": 1e-9, "float32": 2e-4, "float16": 1e-2, "bfloat16": 6e-2}


@pytest.fixture(autouse=True)
def _warnings_are_errors() -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.filterwarnings("ignore", category=RuntimeWarning)
        warnings.filterwarnings("ignore", "var.*degrees of freedom")
        yield


def limits(dtype: str) -> Any:
    return ml_dtypes.finfo(dtype) if dtype == "bfloat16" else np.finfo(dtype)


@cache
def extremes(dtype: str, count: int) -> np.ndarray:
    """Critical values; the first `count` of them matter most."""
    least, most = float(limits(dtype).smallest_normal), float(limits(dtype).max)
    subnormal = float(limits(dtype).smallest_subnormal)
    large = {"float16": 3e4}.get(dtype, 1e30)
    small = {"float16": 1e-5}.get(dtype, 1e-30)
    elements = [
        0.0, np.nan, np.inf, -np.inf, 1.5, -0.0, most, -most, least, subnormal, -subnormal, -1.25,
        large, -large, small, -small, 100.0, -100.0, 20.5, -20.5, 1.0, -1.0, 800.0, -800.0, 0.5,
    ]  # fmt: skip
    return np.array(elements[:count])


def rows(dtype: str, width: int, count: int) -> np.ndarray:
    """All tuples of `width` of `count` extreme values, one per row."""
    chosen = list(itertools.product(extremes(dtype, count), repeat=width))
    return np.array(chosen).reshape(-1, width)


def numbers_of(case: Case) -> list[str]:
    return [key for key, value in case.items()
            if isinstance(value, np.ndarray) and value.dtype == np.float64]  # fmt: skip


def extreme_elementwise(op_name: str, case: Case, dtype: str) -> Case | None:
    """Replace the arrays of a case by all pairs (triples, …) of extreme values."""
    names = numbers_of(case)
    if "polynomial" in op_name and "n" in names:
        return None  # as many steps as `n` says
    if not names or any(isinstance(v, np.ndarray) for k, v in case.items() if k not in names):
        return None
    columns = rows(dtype, len(names), (25, 14, 8)[len(names) - 1])
    return case | {name: columns[:, number].copy() for number, name in enumerate(names)}


def extreme_rows(case: Case, dtype: str) -> Case | None:
    """Replace the input of a case by rows of three extreme values, reduced along each row."""
    if numbers_of(case) != ["input"] or case["input"].ndim == 0:
        return None
    dims = {} if case.get("dim") is None else {"dim": -1}
    return case | {"input": rows(dtype, 3, 7)} | dims


ALONG_ROWS = (
    "mean amax amin logsumexp var vector_norm sum prod softmax log_softmax cumsum cumprod "
    "logcumsumexp argmax argmin all any count_nonzero sort_forward minmax_dim "
    "cum_minmax mode_dim"
).split()
PAIRS = "mse_loss l1_loss bce_forward bce_with_logits_forward".split()


def extreme_cases(op: Op, dtype: str) -> list[Case]:
    """Return a case per setting of an op, with extreme values."""
    cases: dict[str, Case] = {}
    for case in CASES[op.name]:
        if op.family.broadcasts or op.name in PAIRS:
            made = extreme_elementwise(op.name, case, dtype)
        else:
            made = extreme_rows(case, dtype)
            if made and (op.family.reduces or op.name == "softmax") and "dim" not in made:
                continue  # all rows in one number would only be NaN
        if made is not None:
            settings = {k: v for k, v in made.items() if not isinstance(v, np.ndarray)}
            settings.pop("only_values", None)
            cases.setdefault(repr((settings, numbers_of(made))), made)
    return list(cases.values())


def is_tested(op: Op) -> bool:
    """Return True if the values of an op's cases can be replaced by any others."""
    within = op.family.broadcasts or op.name in (*ALONG_ROWS, *PAIRS)
    return within and op.name not in INTERNAL


def agree(ours: Any, wanted: Any, dtype: str, steps: int) -> bool:
    """Return True if values agree: NaN where NaN, ±inf where ±inf, else relatively.

    Args:
        steps: so many times the distance from 1 to the next number may be between small ones.
    """
    for result, expected in zip(every(ours), every(wanted), strict=True):
        assert str(result.dtype) == str(expected.dtype)
        assert tuple(result.shape) == tuple(expected.shape)
        close = max(4 * float(limits(dtype).smallest_normal), steps * float(limits(dtype).eps))
        with np.errstate(all="ignore"):
            equal = np.isclose(
                array(result), array(expected), TOLERANCE[dtype], close, equal_nan=True
            )
        if not equal.all():
            return False
    return True


def theirs_with_gradients(
    op: Op, case: Case, dtype: str, names: list[str]
) -> tuple[Any, list[Any]]:
    torch = require_torch()

    def make(values: np.ndarray) -> Any:
        made = torch.from_numpy(np.array(values))
        return made.to(getattr(torch, dtype)) if values.dtype == np.float64 else made

    bound = {k: convert(v, make) for k, v in case.items() if k != "only_values"}
    for name in names:
        bound[name].requires_grad_()
    result = theirs(torch, op.name)(**bound)
    y = every(result)[0]
    if not names or not y.requires_grad:
        return result, []
    return result, list(torch.autograd.grad(y, [bound[name] for name in names], torch.ones_like(y)))


def ours_with_gradients(op: Op, case: Case, dtype: str, names: list[str]) -> tuple[Any, list[Any]]:
    bound = arguments(op, case, dtype=dtype)
    for name in names:
        bound[name].requires_grad_()
    result = call(op, bound)
    y = every(result)[0]
    if not names or not y.requires_grad:
        return result, []
    ones = edutorch.ones_like(y)
    return result, list(edutorch.autograd.grad(y, [bound[name] for name in names], ones))


def parts_that_differ(op: Op, case: Case, dtype: str) -> set[str]:
    names = differentiable(op, {k: v for k, v in case.items() if k != "only_values"})
    try:
        expected, wanted = theirs_with_gradients(op, case, dtype, names)
    except (RuntimeError, NotImplementedError, TypeError):
        return set()  # PyTorch has no such op, or not for this type
    values, gradients = ours_with_gradients(op, case, dtype, names)
    parts = set() if agree(values, expected, dtype, 0) else {"values"}
    if not wanted or not gradients:  # PyTorch has no derivatives of Bessel functions
        return parts
    return parts if agree(gradients, wanted, dtype, 2) else parts | {"gradients"}


@pytest.mark.oracle
@ops(is_tested)
def test_extremes(op):
    """They agree, but for what EXTREME_DIFFERENCES explains.

    PyTorch's own answers to NaN differ between its vectorised loops and the rest of a row, so
    what is explained need not show on each machine.
    """
    differences = set()
    for dtype in KINDS:
        for case in extreme_cases(op, dtype):
            differences |= parts_that_differ(op, case, dtype)
    assert differences <= set(EXTREME_DIFFERENCES.get(op.name, {}))


# Losses, norms and activations that are made of ops ------------------------------------------

FUNCTIONS: dict[str, Any] = {
    "layer_norm": lambda F, x: F.layer_norm(x, (3,)),
    "rms_norm": lambda F, x: F.rms_norm(x, (3,), eps=1e-3),
    "normalize": lambda F, x: F.normalize(x, dim=-1),
    "cosine_similarity": lambda F, x: F.cosine_similarity(x, x.flip(0), dim=-1),
    "softmin": lambda F, x: F.softmin(x, dim=-1),
    "std": lambda F, x: x.std(-1),
    "nanmean": lambda F, x: x.nanmean(-1),
    "nansum": lambda F, x: x.nansum(-1),
    "aminmax": lambda F, x: x.amax(-1) - x.amin(-1),
    "norm": lambda F, x: x.norm(dim=-1),
    "nuclear": lambda F, x: x.norm(1, dim=-1),
    "cross_entropy": lambda F, x: F.cross_entropy(x, (x[:, 0] > 0).long(), reduction="none"),
} | {
    name: lambda F, x, name=name: getattr(F, name)(x[:, 0], x[:, 1], reduction="none")
    for name in (
        "smooth_l1_loss huber_loss kl_div poisson_nll_loss "
        "binary_cross_entropy_with_logits"
    ).split()
} | {
    name: lambda F, x, name=name: getattr(F, name)(x)
    for name in (
        "logsigmoid hardsigmoid hardswish mish selu elu celu silu relu6 leaky_relu softsign "
        "tanhshrink hardshrink softshrink"
    ).split()
}  # fmt: skip


@pytest.mark.oracle
@pytest.mark.parametrize("name", FUNCTIONS)
def test_extremes_of_functions(name):
    """As of ops: values and gradients agree, but for what is explained."""
    torch, differences = require_torch(), set()
    for dtype in KINDS:
        values = rows(dtype, 3, 7)
        theirs = torch.from_numpy(values).to(getattr(torch, dtype)).requires_grad_()
        ours = edutorch.tensor(values, dtype=getattr(edutorch, dtype), requires_grad=True)
        try:
            expected = FUNCTIONS[name](torch.nn.functional, theirs)
            expected.sum().backward()
        except (RuntimeError, NotImplementedError):
            continue  # PyTorch has no such function for this type
        result = FUNCTIONS[name](edutorch.nn.functional, ours)
        result.sum().backward()
        differences |= set() if agree(result, expected, dtype, 0) else {"values"}
        differences |= set() if agree(ours.grad, theirs.grad, dtype, 2) else {"gradients"}
    assert differences <= set(EXTREME_DIFFERENCES.get(f"nn.{name}", {}))
