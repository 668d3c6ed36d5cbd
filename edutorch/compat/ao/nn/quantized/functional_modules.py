"""Functions of several tensors as modules, so that they have an observer, and a scale of their own.

self.add = FloatFunctional()
y = self.add.add(x, shortcut)      # instead of x + shortcut
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from edutorch.ao.affine import QParams, quint8
from edutorch.ao.quantized_tensor import dequantize, requantize
from edutorch.core.tensor import Tensor
from edutorch.errors import GradientError
from edutorch.modes import no_grad
from edutorch.nn import Identity, Module
from edutorch.ops import cat, matmul, tensor

__all__ = ["FloatFunctional", "QFunctional"]


class Functions(Module):
    """The functions of both classes; `finish` is what is done to a result."""

    def finish(self, function: Callable[[], Tensor]) -> Any:
        """Compute a result."""
        raise NotImplementedError

    def forward(self, x: Any) -> Any:
        """Raise an error: its functions are called instead.

        Raises: GradientError: always.
        """
        raise GradientError(
            type(self).__name__, "is not intended to be called", hint="call .add(x, y) of it"
        )

    def add(self, x: Any, y: Any) -> Any:
        """Return x + y."""
        return self.finish(lambda: dequantize(x) + dequantize(y))

    def mul(self, x: Any, y: Any) -> Any:
        """Return x · y."""
        return self.finish(lambda: dequantize(x) * dequantize(y))

    def matmul(self, x: Any, y: Any) -> Any:
        """Return the matrix product."""
        return self.finish(lambda: matmul(dequantize(x), dequantize(y)))

    def cat(self, x: Sequence[Any], dim: int = 0) -> Any:
        """Return the tensors joined along a dimension."""
        return self.finish(lambda: cat(dequantize(list(x)), dim))

    def add_relu(self, x: Any, y: Any) -> Any:
        """Return relu(x + y)."""
        return self.finish(lambda: (dequantize(x) + dequantize(y)).relu())

    def add_scalar(self, x: Any, y: float) -> Any:
        """Return x + y for a number y."""
        return self.finish(lambda: dequantize(x) + y)

    def mul_scalar(self, x: Any, y: float) -> Any:
        """Return x · y for a number y."""
        return self.finish(lambda: dequantize(x) * y)


class FloatFunctional(Functions):
    """Functions of floats, with an observer of their results once the model is prepared.

    >>> edutorch.ao.nn.quantized.FloatFunctional().add(ones(2), ones(2))
    tensor([2., 2.])
    """

    def __init__(self) -> None:
        super().__init__()
        self.activation_post_process = Identity()

    def finish(self, function: Callable[[], Tensor]) -> Tensor:
        """Compute a result, and let the observer see it."""
        return self.activation_post_process(function())


class QFunctional(Functions):
    """Functions of quantized tensors: what `convert` makes of a `FloatFunctional`."""

    def __init__(self, scale: Any = 1.0, zero_point: Any = 0) -> None:
        super().__init__()
        self.register_buffer("_scale", tensor(float(scale)))
        self.register_buffer("_zero_point", tensor(int(zero_point)))

    def finish(self, function: Callable[[], Tensor]) -> Any:
        """Compute a result in floats, and quantize it."""
        qparams = QParams(float(self._buffers["_scale"]), int(self._buffers["_zero_point"]))
        with no_grad():
            return requantize(function(), qparams, quint8)

    @classmethod
    def from_float(cls, mod: Module, **kwargs: Any) -> QFunctional:
        """Make it from a `FloatFunctional` whose observer has seen values."""
        return cls(*mod.activation_post_process.calculate_qparams())

    def extra_repr(self) -> str:
        scale, zero_point = self._buffers["_scale"], self._buffers["_zero_point"]
        return f"scale={float(scale)}, zero_point={int(zero_point)}"
