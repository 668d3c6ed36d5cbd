"""Decorators for the ops of `nn.functional`, which are not tensor methods."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import Any

from numpy import ndarray

from ...core.op import Op
from ...core.shapes import Contract
from ...core.tensor import Tensor
from ...core.tensor_methods import in_place
from ...errors import EdutorchError, ShapeError

Hint = Callable[..., str | None]


def layer(
    contract: str | None = None, /, *, hint: Hint | None = None, **options: Any
) -> Callable[[Callable[..., Any]], Any]:
    """Make a function an op of `nn.functional`.

    Args:
        contract: each tensor's axes, as for `core.op.op`.
        hint: a function of the arguments that returns a hint if they do not fit the contract.
    """

    def decorator(forward: Callable[..., Any]) -> Any:
        op = Op(forward, "op", contract=contract, method=False, **options)
        if contract and hint:
            op.contract = HintingContract(op.name, contract, hint)
        return op.function

    return decorator


def activation(
    forward: Callable[..., Any] | None = None,
    /,
    *,
    dtypes: str = "f",
    public: str = "",
    node: str = "",
) -> Any:
    """Make a function an elementwise op; its `in_place` form writes into the input.

    Args:
        dtypes: the dtypes it is defined for, as for `Op`.
        public: the functions it is half of, as for `Op`.
        node: PyTorch's name for its node, as for `Op`.
    """
    if forward is None:
        return lambda forward: activation(forward, dtypes=dtypes, public=public, node=node)
    options: dict[str, Any] = {
        "promotion": "float", "out": True, "method": False, "public": public, "node": node,
    }  # fmt: skip
    op = Op(forward, "elementwise", dtypes=dtypes, **options)
    op.function.in_place = in_place(op)
    return op.function


def can_read(tensor: Tensor) -> bool:
    """Whether a composed function may branch on a tensor's values.

    The values must be in CPU memory and not batched by `vmap`, and the call must not be captured:
    a replay may see other values.
    """
    if tensor._array.__class__ is not ndarray:
        return False
    capture = sys.modules.get("edutorch.fx.capture_patches")  # loaded when a capture runs
    return capture is None or capture.current_tracer() is None


class SettingError(EdutorchError, ValueError, RuntimeError):
    """An argument has an invalid value. (PyTorch raises one or the other of these bases.)"""


class HintingContract(Contract):
    """A contract of a layer with a hint for common mistakes."""

    def __init__(self, op: str, text: str, hint: Hint) -> None:
        super().__init__(op, text)
        self.hint = hint

    def error(self, message: str, names: Sequence[str], arrays: Sequence[Any]) -> ShapeError:
        """Return the error with the layer's own hint, if there is one."""
        plain = super().error(message, names, arrays)
        hint = self.hint(*arrays) or plain.hint
        return ShapeError(plain.op, plain.message, plain.arguments, hint)
