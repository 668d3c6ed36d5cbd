"""Arguments that a function would take in silence: anything for a flag, a float for an int.

Each public function is called as the fuzzer calls it, with one flag or integer replaced. What
PyTorch's own Python only asks for its truth takes any value here, too.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest

import edutorch
from edutorch.core.error_messages import TRUTHS
from edutorch.errors import EdutorchError
from tests.fuzz.calls import Call, run_call
from tests.fuzz.targets import Parameter, Target, all_targets
from tests.fuzz.test_wrong_settings import valid_call, with_argument

pytestmark = pytest.mark.oracle

WRONG: dict[str, dict[str, Any]] = {
    "bool": {"None": None, "text": "abc", "a number": 2, "a list": [], "an object": object()},
    "int": {"a float": 1.5, "True": True, "text": "abc", "a list": [1], "an object": object()},
}
"""Values that are none, by annotation."""

TAKEN = re.compile(
    r"(Tensor\.)?(diag_embed|diagonal|narrow|swapdims|swapaxes|transpose|stack)_?\(\w+=True\)"
    r"|Tensor\.to_dense\(masked_grad.*"
)
"""True is 1 in a view: these cost so little that a look at it would show. (`to_dense` does nothing
of its own.)"""


def spoil(call: Call, target: Target) -> Iterator[tuple[Parameter, str, Call]]:
    """Yield the call with each flag and integer replaced by what is none."""
    for parameter in target.parameters:
        name = parameter.name
        if name in TRUTHS:
            continue
        for title, value in WRONG.get(parameter.annotation, {}).items():
            if value is parameter.default:
                continue
            wrong = with_argument(call, target, parameter, value)
            if wrong is not None:
                yield parameter, title, wrong


def test_flags_and_integers_are_looked_at(torch):
    taken, unclear, tried = [], [], 0
    for target in all_targets(torch):
        wanted = any(parameter.annotation in WRONG for parameter in target.parameters)
        call = None if target.is_class or not wanted else valid_call(target)
        for parameter, title, wrong in spoil(call, target) if call else ():
            error = run_call(wrong, edutorch).error
            shown = f"{target.path}({parameter.name}={title})"
            tried += 1
            if error is None:
                taken += [shown] * (not TAKEN.fullmatch(shown))
            elif not isinstance(error, EdutorchError) or not re.search(
                rf"\b({parameter.name}|dim\d?)\b", str(error)
            ):
                unclear.append(f"{shown}: {error!r}"[:200])
    assert tried > 1000
    assert not taken
    assert not unclear
