"""PyTorch's dtypes under autocast: `python -m tests.golden_autocast` writes them with PyTorch.

`golden/autocast.json` has a line for each expression: for each of `SETTINGS` the dtypes of the
results without autocast, and with it. "-" is a call that fails. For an op there are the dtypes of
each of its cases instead.

    "t.mv(a, v)": "float32 | bfloat16; bfloat16 | bfloat16; …"
"""

from __future__ import annotations

import json
import logging
import re
import warnings
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

from edutorch.core.op import REGISTRY
from tests.amp.calls import EXPRESSIONS, tensors, types_of
from tests.op_calls import oracle
from tests.op_cases import CASES, INTERNAL

FILE = Path(__file__).parent / "golden" / "autocast.json"
HALF_DTYPES = ("bfloat16", "float16")
ARGUMENT_DTYPES = {
    "bfloat16": ("float32", *HALF_DTYPES), "float16": ("float32", "float16")
}  # fmt: skip
"""The types of arguments that are tried, for each type that autocast is set to."""

SETTINGS = [(dtype, lower) for lower, dtypes in ARGUMENT_DTYPES.items() for dtype in dtypes]
"""The type of the arguments, and the one that autocast is set to. A GPU has those of float16."""

INSIDE = {
    "bce_forward": "a part of binary_cross_entropy, which is converted as a whole",
    "bce_with_logits_forward": "a part of binary_cross_entropy_with_logits, converted as a whole",
    "max_pool": "a part of max_pool3d, which is converted as a whole",
    "avg_pool": "a part of avg_pool3d, which is converted as a whole",
    "ctc_loss_forward": "a part of ctc_loss, which is converted as a whole",
    "kl_div_forward": "a part of kl_div, which is converted as a whole",
    "prelu_forward": "a part of prelu, which is converted as a whole",
}
"""Ops that are parts of functions: PyTorch's answer is that of the function."""

Types = list[str] | None
"""The dtypes of a result; None if the call fails."""


def attempt(function: Callable[[], Any]) -> Types:
    """Return the dtypes of a result, or None if the call fails."""
    try:
        return types_of(function())
    except (RuntimeError, TypeError, ValueError, AssertionError, NotImplementedError):
        return None


def compared_ops() -> list[str]:
    """Return the names of the ops that have an answer of PyTorch."""
    return [name for name in REGISTRY if name in CASES and not {name} & {*INTERNAL, *INSIDE}]


# What PyTorch says ---------------------------------------------------------------------------


def cpu_types(torch: Any, expression: str, dtype: str, lower: str) -> tuple[Types, Types]:
    """Return the dtypes without and with autocast on the CPU."""

    def evaluate() -> Types:
        return attempt(lambda: eval(expression, dict(tensors(torch, dtype))))

    plain = evaluate()
    with torch.autocast("cpu", getattr(torch, lower)):
        return plain, evaluate()


def gpu_types(torch: Any, expression: str, dtype: str, lower: str) -> tuple[Types, Types]:
    """Return the same for a GPU: of fake tensors, which have a dtype and shape, but no data."""
    from torch._subclasses import fake_tensor as fakes

    arguments = tensors(torch, dtype)
    names = set(re.findall(r"\b[a-z]\w*\b", expression)) & set(arguments)

    def evaluate(enabled: bool) -> Types:
        with fakes.FakeTensorMode(allow_non_fake_inputs=True):
            moved = {
                name: torch.empty_strided(
                    value.shape, value.stride(), dtype=value.dtype, device="cuda"
                )
                for name, value in ((name, arguments[name]) for name in names)
                if isinstance(value, torch.Tensor)
            }
            torch.set_autocast_dtype("cuda", getattr(torch, lower))
            torch.set_autocast_enabled("cuda", enabled)
            try:
                return types_of(eval(expression, {**arguments, **moved}))
            except Exception:  # noqa: BLE001  (whatever a fake tensor cannot do)
                return None
            finally:
                torch.set_autocast_enabled("cuda", False)

    logger = logging.getLogger(fakes.__name__)
    before, logger.disabled = logger.disabled, True
    try:
        return evaluate(False), evaluate(True)
    finally:
        logger.disabled = before


def op_types(torch: Any, name: str, number: int, dtype: str, lower: str) -> Types:
    """Return the dtypes of an op's case under autocast on the CPU."""
    with torch.autocast("cpu", getattr(torch, lower)):
        types = attempt(lambda: oracle(REGISTRY[name], CASES[name][number], dtype))
    return None if types is None or "complex32" in types else types  # a type that is not here


def settings_of(place: str) -> list[tuple[str, str]]:
    """Return the settings that are tried on a device."""
    return [setting for setting in SETTINGS if place != "gpu" or setting[1] == "float16"]


def all_types(torch: Any) -> dict[str, dict[str, str]]:
    """Return all that the file holds."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        functions = {
            place: {
                expression: "; ".join(
                    " | ".join(map(text_of, compute(torch, expression, *setting)))
                    for setting in settings_of(place)
                )
                for expression in EXPRESSIONS
            }
            for place, compute in (("cpu", cpu_types), ("gpu", gpu_types))
        }
        answers = {
            name: "; ".join(
                " | ".join(
                    text_of(op_types(torch, name, number, *setting))
                    for number in range(len(CASES[name]))
                )
                for setting in SETTINGS
            )
            for name in compared_ops()
        }
    return {**functions, "ops": answers}


# The file ------------------------------------------------------------------------------------


def text_of(types: Types) -> str:
    return "-" if types is None else " ".join(types)


@cache
def written() -> dict[str, dict[str, str]]:
    return json.loads(FILE.read_text())


def golden(place: str, name: str, dtype: str, lower: str) -> list[Types]:
    """Return what is written: for an op its cases, for an expression without and with autocast."""
    text = written()[place][name].split("; ")[settings_of(place).index((dtype, lower))]
    texts = text.split(" | ")
    return [None if text == "-" else text.split() for text in texts]


if __name__ == "__main__":
    import torch as pytorch

    FILE.write_text(json.dumps(all_types(pytorch), indent=0) + "\n")
    print(f"{FILE}: {FILE.stat().st_size:,} bytes")
