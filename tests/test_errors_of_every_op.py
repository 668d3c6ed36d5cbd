"""Bad calls of every op: each is refused with a message that names the op, as PyTorch refuses it.

The calls are made from the op's sample arguments, one of them spoiled at a time: no tensor at
all, too many or too few dimensions, sizes that do not fit, another type, a dim that is not there.
What we take and PyTorch does not, or refuse by another class, stands below with its reason.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from edutorch import errors
from edutorch.core.error_messages import LIBRARY_WORDS
from edutorch.core.op import Op
from tests.op_calls import arguments, call, has_twin, ops, oracle
from tests.op_cases import CASES, INTERNAL, Case
from tests.op_oracles import OURS

Spoiled = tuple[str, Case]


def spoiled(op: Op) -> Iterator[Spoiled]:
    """Return the bad calls of an op: what is wrong, and all arguments."""
    for case in CASES[op.name][:2]:
        for name in op.inputs:
            value = case.get(name)
            if isinstance(value, np.ndarray | list):
                for title, other in {"None": None, "text": "abc"}.items():
                    yield f"{name} is {title}", {**case, name: other}
            if isinstance(value, np.ndarray):
                for title, other in misfits(value):
                    yield f"{name} {title}", {**case, name: other}
        for name in op.settings:
            for title, other in wrong_settings(name):
                yield f"{name} is {title}", {**case, name: other}


def misfits(value: np.ndarray) -> Iterator[tuple[str, np.ndarray]]:
    """Return an array's spoiled forms."""
    yield "has two dimensions more", value[None, None]
    if value.ndim and value.size:
        yield "is 0-d", value.reshape(-1)[:1].reshape(())
        yield "is longer", np.concatenate([value, value, value[..., :1]], -1)
    if value.ndim > 1 and len(value):
        yield "has a dimension less", value[0]
        yield "is taller", np.concatenate([value, value, value[:1]], 0)
    yield "is empty", value.reshape(-1)[:0]
    for dtype in (bool, np.complex64, np.int32, np.float32):
        with np.errstate(invalid="ignore"):  # NaN as an integer
            yield f"is {np.dtype(dtype)}", value.real.astype(dtype)


def wrong_settings(name: str) -> list[tuple[str, Any]]:
    if name in ("dim", "dim0", "dim1"):
        return [("7", 7), ("-9", -9), ("text", "x"), ("1.5", 1.5)]
    return [("text", "x")] if name not in NO_TEXT else []


NO_TEXT = {"dtype", "device", "source", "layout", "keepdim", "accumulate", "settings", "tap"}
"""Settings that take text or anything true or false, or that only ops themselves give."""

CALLED_BY_OPS = set(INTERNAL) | {
    "index_put_forward", "to_device", "convert_dtype", "view_dtype", "getitem", "setitem",
    "vector_norm",
    "bce_with_logits_forward", "bce_with_logits_grad", "bce_forward", "prelu_forward", "minmax_dim",
    "sort_forward",
    "as_strided", "as_strided_scatter", "ldl_factor_forward", "ldl_solve_forward",
    "slogdet_forward", "lu_factor_forward",
    "ctc_loss_forward", "unfold_forward", "fold_forward", "constant_pad", "conv_nd",
    "max_pool", "avg_pool",
    "batched", "unbatched",
}  # fmt: skip
"""Halves of other ops: those have looked at the arguments before (and PyTorch has no such op)."""


def refusal(function: Any, *args: Any) -> Exception | None:
    """Return what a call raises."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            function(*args)
        except Exception as error:  # noqa: BLE001  (whatever it is)
            return error
    return None


def ours(op: Op, case: Case) -> Exception | None:
    return refusal(lambda: call(op, arguments(op, case)))


BUILTIN = TypeError | ValueError | IndexError | RuntimeError | ArithmeticError
NAMED = re.compile(r"(linalg\.|fft\.|special\.)?(\w+)")


def names_op(op: Op, text: str) -> bool:
    """Return True if a message begins with the op's public name."""
    match = NAMED.match(text)
    names = {name.rpartition(".")[2] for name in op.public}
    return match is not None and match.group(2) in names


@ops(lambda op: op.name not in CALLED_BY_OPS and op.name not in OURS)
def test_messages_name_the_op_and_quote_no_array_library(op):
    for wrong, case in spoiled(op):
        error = ours(op, case)
        if error is None:
            continue
        headline = str(error).split("\n")[0]
        assert isinstance(error, errors.EdutorchError | BUILTIN), f"{wrong}: {error!r}"
        assert names_op(op, headline), f"{wrong}: {error!r}"
        said = headline.replace("cannot be broadcast together", "").replace("operands", "")
        assert not [word for word in LIBRARY_WORDS if word in said], f"{wrong}: {error!r}"


ACCEPTED: dict[str, str] = {
    "relu input is": "a test of the type would be felt in every network; True counts 1",
    "sub input is bool": "True counts 1 beside numbers; two bool tensors are refused",
    "sub other is bool": "True counts 1 beside numbers; two bool tensors are refused",
    "l1_loss input is bool": "True counts 1 beside numbers",
    "l1_loss target is bool": "True counts 1 beside numbers",
    "huber_loss input is": "whole numbers beside floats are floats, as in smooth_l1_loss",
    "kl_div_forward input is": "whole numbers beside floats are floats, as in smooth_l1_loss",
    "kl_div_forward target is": "whole numbers beside floats are floats, as in smooth_l1_loss",
    "softplus threshold is text": "it is compared only where PyTorch's formula needs it",
    "isclose equal_nan": "anything true or false will do",
    "gather sparse_grad": "it changes nothing: every gradient is dense here",
    "argm": "keepdim: anything true or false will do",
    "scatter_reduce include_self": "anything true or false will do",
    "round input is int32": "whole numbers are round",
    "as_strided": "what the view reaches is looked at, not the memory behind it",
    "index_put values has two": "sizes of 1 in front do not matter in an assignment",
    "scatter src is 0-d": "one number for all places",
    "scatter_add src is 0-d": "one number for all places",
    "scatter_reduce src is 0-d": "one number for all places",
    "scatter src has two": "only the part that the index names is looked at",
}
"""By the beginning of a bad call that PyTorch refuses: why it is taken here."""

OTHER_CLASSES: dict[str, str] = {
    "IndexError": "a misfit of shapes is a ShapeError everywhere, a RuntimeError",
    "RuntimeError": "a dim or an index that is not there is an IndexError everywhere",
    "TypeError": "a setting that makes no sense, found by the op and not by a parser of arguments",
    "ValueError": "as for RuntimeError: PyTorch raises it where Python, not C++, looks",
    "NotImplementedError": "types that differ are named before a type that is not taken",
}
"""By the class that PyTorch raises: why ours may differ. Never for a bad tensor argument's type."""


@pytest.mark.oracle
@ops(lambda op: op.name not in CALLED_BY_OPS and op.name not in OURS)
def test_what_pytorch_refuses_is_refused(op):
    taken: list[str] = []
    for wrong, case in spoiled(op) if has_twin(op) else ():
        title = f"{op.name} {wrong}"
        theirs = refusal(lambda case=case: oracle(op, case))
        if isinstance(theirs, AttributeError | KeyError) or theirs is None:
            continue  # the test's own way to PyTorch's function, or fine there
        error = ours(op, case)
        if error is None:
            if not any(title.startswith(known) for known in ACCEPTED):
                taken.append(f"{title}: {theirs!r}"[:200])
            continue
        builtin = next(cls for cls in type(theirs).__mro__ if cls.__module__ == "builtins")
        if not isinstance(error, builtin):
            assert builtin.__name__ in OTHER_CLASSES, f"{title}: {error!r} for {theirs!r}"
            no_tensor = wrong.endswith(("None", "is text")) and wrong.split()[0] in op.inputs
            assert not no_tensor, f"{title}: {error!r} for {theirs!r}"
    assert not taken
