"""Tensors of integers that stand for floats: `torch.quantize_per_tensor` and what it returns."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from edutorch.core.formatting import tensor_text, visible_part
from edutorch.core.shapes import as_int
from edutorch.core.tensor import Tensor
from edutorch.errors import (
    DimError,
    EdutorchError,
    InvalidValueError,
    NotHereError,
    ShapeError,
)  # fmt: skip
from edutorch.modes import no_grad
from edutorch.ops import tensor

from . import affine
from .affine import (
    QParams,
    QuantizedDtype,
    check_quantizable,
    choose_dynamic_qparams,
    qint8,
    qint32,
    quint8,
)

__all__ = [
    "QuantizedTensor", "dequantize", "quantize_per_channel", "quantize_per_tensor",
    "quantize_per_tensor_dynamic",
]  # fmt: skip

KEEPING = frozenset(
    "view reshape permute transpose unsqueeze squeeze clone contiguous getitem expand select "
    "narrow flip pad relu hardtanh clamp max_pool avg_pool mean adaptive_avg_pool2d".split()
)
"""Ops whose result keeps the scale and zero point of a quantized argument."""

COMPARING = frozenset("eq ne lt le gt ge".split())
"""Ops that compare the floats for which the integers stand."""

LINE_WIDTH = 80


class QSchemeError(EdutorchError, RuntimeError):
    """A tensor is not quantized in the way that is asked about."""


class QuantizedTensor(Tensor):
    """A tensor of 8-bit (or 32-bit) integers, each of which stands for scale · (q - zero_point).

    It is made by `quantize_per_tensor` and read by `dequantize`. Ops that move elements, and some
    that cannot leave the range (`relu`, pooling), keep scale and zero point. Others are refused.
    """

    __slots__ = ()

    def __new__(cls, integers: Tensor, qparams: QParams, dtype: QuantizedDtype) -> QuantizedTensor:
        """Make it from an int tensor of the same memory."""
        self = integers.detach().as_subclass(cls)
        self.__dict__.update(_qparams=qparams, _quantized_dtype=dtype)
        return self

    def __init__(self, *args: Any) -> None:
        pass

    is_quantized = True

    @property
    def dtype(self) -> Any:
        """The quantized dtype."""
        return self.__dict__["_quantized_dtype"]

    def int_repr(self) -> Tensor:
        """Return the integers."""
        return self.as_subclass(Tensor).clone()

    def dequantize(self) -> Tensor:
        """Return the floats: scale · (q - zero_point)."""
        return affine.dequantize(self.int_repr(), self.__dict__["_qparams"])

    def qscheme(self) -> affine.qscheme:
        """Return `per_tensor_affine` or `per_channel_affine`."""
        is_whole = self.__dict__["_qparams"].axis is None
        return affine.per_tensor_affine if is_whole else affine.per_channel_affine

    def q_scale(self) -> float:
        """Return the scale.

        Raises: RuntimeError: each channel has its own.
        """
        return float(self._of_scheme("q_scale", is_per_channel=False).scale)

    def q_zero_point(self) -> int:
        """Return the zero point.

        Raises: RuntimeError: each channel has its own.
        """
        return int(self._of_scheme("q_zero_point", is_per_channel=False).zero_point)

    def q_per_channel_scales(self) -> Tensor:
        """Return the scale of each channel.

        Raises: RuntimeError: there is one for all.
        """
        return self._of_scheme("q_per_channel_scales", is_per_channel=True).scale.double()

    def q_per_channel_zero_points(self) -> Tensor:
        """Return the zero point of each channel.

        Raises: RuntimeError: there is one for all.
        """
        return self._of_scheme("q_per_channel_zero_points", is_per_channel=True).zero_point.long()

    def q_per_channel_axis(self) -> int:
        """Return the axis of the channels.

        Raises: RuntimeError: there is one scale for all.
        """
        return int(self._of_scheme("q_per_channel_axis", is_per_channel=True).axis or 0)

    def _of_scheme(self, op: str, *, is_per_channel: bool) -> QParams:
        qparams: QParams = self.__dict__["_qparams"]
        if (qparams.axis is not None) != is_per_channel:
            raise QSchemeError(
                op, f"the tensor is quantized as {self.qscheme()}",
                hint="q_per_channel_scales is for per channel, q_scale for per tensor",
            )  # fmt: skip
        return qparams

    def __deepcopy__(self, memo: dict[int, Any]) -> QuantizedTensor:
        return QuantizedTensor(self.int_repr(), self.__dict__["_qparams"], self.dtype)

    def __repr__(self) -> str:
        floats = self.dequantize()
        shape = tuple(floats.shape)
        text = tensor_text(visible_part(floats._array), "float32", shape=shape).removesuffix(")")
        qparams = self.__dict__["_qparams"]
        suffixes = [f"size={shape}", f"dtype={self.dtype}", f"quantization_scheme={self.qscheme()}"]
        if qparams.axis is None:
            suffixes += [f"scale={self.q_scale()}", f"zero_point={self.q_zero_point()}"]
        else:
            suffixes += [
                f"scale={self.q_per_channel_scales()}",
                f"zero_point={self.q_per_channel_zero_points()}", f"axis={qparams.axis}",
            ]  # fmt: skip
        return add_suffixes(text, suffixes)

    @classmethod
    def __torch_function__(
        cls, func: Callable[..., Any], types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        """Apply an op that keeps scale and zero point; refuse any other."""
        first, *others = args
        name = getattr(func, "__name__", str(func))
        if name in ("detach", "as_subclass", "alias"):
            return super().__torch_function__(func, types, args, kwargs or {})
        if name in COMPARING:
            return func(*(a.dequantize() if isinstance(a, cls) else a for a in args))
        if name not in KEEPING or not isinstance(first, QuantizedTensor):
            raise NotHereError(
                name, "is not defined for quantized tensors",
                {"input": f"{tuple(first.shape)} {getattr(first, 'dtype', '')}"},
                "use x.dequantize() before it, or a layer of torch.ao.nn.quantized",
            )  # fmt: skip
        result = func(first.dequantize(), *others, **(kwargs or {}))
        qparams = first._of_scheme(name, is_per_channel=False)
        if isinstance(result, tuple):
            return (requantize(result[0], qparams, first.dtype), *result[1:])
        return requantize(result, qparams, first.dtype)


def add_suffixes(text: str, suffixes: list[str]) -> str:
    """Add parts to the text of a tensor, in lines of PyTorch's width."""
    length = len(text) - text.rfind("\n")
    for suffix in suffixes:
        if length + len(suffix) + 2 > LINE_WIDTH:
            text += ",\n       " + suffix
            length = 7 + len(suffix)
        else:
            text += ", " + suffix
            length += len(suffix) + 2
    return text + ")"


def requantize(x: Tensor, qparams: QParams, dtype: QuantizedDtype) -> QuantizedTensor:
    """Return floats as a quantized tensor with this scale and zero point."""
    with no_grad():
        integers = affine.quantize(x, qparams, dtype.bounds)
    array = integers._array.astype(dtype.numpy)
    return QuantizedTensor(tensor(array), qparams, dtype)


def quantize_per_tensor(input: Tensor, scale: Any, zero_point: Any, dtype: Any) -> QuantizedTensor:
    """Return a tensor of integers with one scale and one zero point.

    Args:
        scale: the distance of neighbouring values.
        zero_point: the integer that stands for 0.
        dtype: `qint8`, `quint8` or `qint32`.

    Raises: RuntimeError: another dtype; the zero point is none of its integers.

    >>> q = edutorch.quantize_per_tensor(tensor([-1.0, 0.26]), 0.1, 10, edutorch.quint8)
    >>> q.int_repr(), q.dequantize()
    (tensor([ 0, 13], dtype=torch.uint8), tensor([-1.0000,  0.3000]))
    """
    check_quantizable("quantize_per_tensor", input, dtype)
    scale, zero_point = float(scale), int(zero_point)
    low, high = dtype.bounds
    if not low <= zero_point <= high:
        side = "above upper" if zero_point > high else "below lower"
        raise InvalidValueError(
            "quantize_per_tensor", f"zero_point {zero_point} is {side} bound",
            {"dtype": dtype, "bounds": (low, high)},
        )  # fmt: skip
    return requantize(input, QParams(scale, zero_point), dtype)


def _make_per_tensor_quantized_tensor(
    input: Tensor, scale: float, zero_point: int
) -> QuantizedTensor:
    """Return integers (int8, uint8 or int32) as a quantized tensor.

    Raises: RuntimeError: another dtype.
    """
    dtype = next((d for d in (qint8, quint8, qint32) if d.numpy == input.dtype.numpy), None)
    if dtype is None:
        raise InvalidValueError(
            "_make_per_tensor_quantized_tensor", "expected int8, uint8 or int32",
            {"input": input.dtype},
        )  # fmt: skip
    return QuantizedTensor(input.clone(), QParams(float(scale), int(zero_point)), dtype)


def quantize_per_tensor_dynamic(
    input: Tensor, dtype: Any, reduce_range: bool
) -> QuantizedTensor:  # fmt: skip
    """Return a quantized tensor with the scale and zero point of its own range.

    Args:
        reduce_range: whether to use half of the integers, so that sums of products are smaller.
    """
    check_quantizable("quantize_per_tensor_dynamic", input, dtype)
    low, high = dtype.bounds
    bounds = (low // 2, high // 2) if reduce_range else (low, high)
    return requantize(input, choose_dynamic_qparams(input, bounds), dtype)


def quantize_per_channel(
    input: Tensor, scales: Tensor, zero_points: Tensor, axis: int, dtype: Any
) -> QuantizedTensor:
    """Return a tensor of integers with a scale and a zero point for each slice along `axis`.

    Raises: RuntimeError: the numbers of scales, zero points and slices differ.

    >>> q = edutorch.quantize_per_channel(
    ...     ones(2, 2), tensor([0.1, 0.5]), tensor([0, 1]), 0, edutorch.qint8)
    >>> q.int_repr()
    tensor([[10, 10],
            [ 3,  3]], dtype=torch.int8)
    """
    check_quantizable("quantize_per_channel", input, dtype)
    axis = as_int("quantize_per_channel", axis, "axis")
    if not 0 <= axis < input.ndim:
        raise DimError(
            "quantize_per_channel",
            "Channel axis out of range in per channel affine quantization",
            {"axis": axis, "input": tuple(input.shape)},
        )
    if not len(scales) == len(zero_points) == input.shape[axis]:
        raise ShapeError(
            "quantize_per_channel", "length of scales must equal to channel",
            {"scales": len(scales), "zero_points": len(zero_points), "input": tuple(input.shape)},
        )  # fmt: skip
    return requantize(input, QParams(scales, zero_points, axis), dtype)


def dequantize(tensor: Any) -> Any:
    """Return the floats of a quantized tensor (or of each in a list); others as float32."""
    if isinstance(tensor, list | tuple):
        return [dequantize(part) for part in tensor]
    return tensor.dequantize() if isinstance(tensor, QuantizedTensor) else tensor.float()
