"""Second derivatives along one direction, where all elements would take minutes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from edutorch import Tensor
from edutorch.autograd import gradgradcheck


def second_derivatives_agree(
    function: Callable[..., Any], inputs: Tensor | Sequence[Tensor]
) -> bool:
    """Hold second derivatives to differences of the first ones, in a direction of all inputs.

    Each number of a second derivative has a weight of its own in what is compared, and it must
    agree in five digits instead of three: what is wrong with one number among dozens is seen as
    when they are compared one by one. That is done, for each op, in test_every_op_gradients.py.
    """
    return gradgradcheck(function, inputs, fast_mode=True, rtol=1e-5, atol=1e-6)
