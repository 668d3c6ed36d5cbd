"""Conversion of a module's parameters and buffers to other dtypes and devices."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Self

from ... import dtypes
from ...backends.device import Device
from ...core.memory_format import memory_format as MemoryFormat
from ...core.tensor import Tensor
from ...ops import empty_like
from ..parameter import Buffer
from .registration import ModuleTree

__all__ = ["ModuleConversions"]


class ModuleConversions(ModuleTree):
    """The part of `Module` that converts. Parameters stay the same objects, for optimizers."""

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> Self:
        """Replace the data of every parameter, gradient and buffer by `fn` of it."""
        if recurse:
            for child in self.children():
                child._apply(fn)
        for tensor in self._parameters.values():
            if tensor is not None:
                tensor.data = fn(tensor.detach())
                if tensor.grad is not None:
                    tensor.grad.data = fn(tensor.grad.detach())
        for name, buffer in self._buffers.items():
            if isinstance(buffer, Buffer):
                buffer.data = fn(buffer.detach())
            elif buffer is not None:  # perhaps the user's own tensor: replaced, not written
                self._buffers[name] = fn(buffer)
        return self

    def to(
        self, *target: Any, dtype: Any = None, device: Any = None, non_blocking: bool = False,
        tensor: Tensor | None = None, memory_format: MemoryFormat | None = None,
    ) -> Self:  # fmt: skip
        """Move to a device, or convert floating parameters to another dtype, in place.

        Args:
            target: a dtype, a device, or a tensor that has both.
            memory_format: the layout of the weights with 4 axes (5 for `channels_last_3d`).

        Raises: TypeError: not a floating dtype. DeviceError: the device cannot be used here.

        >>> nn.Linear(2, 1).to(float64).weight.dtype
        torch.float64
        """
        for argument in (*target, tensor):
            if isinstance(argument, Tensor):
                dtype, device = argument.dtype, argument.device
            elif isinstance(argument, dtypes.dtype | type):
                dtype = argument
            elif isinstance(argument, str | Device):
                device = argument
            elif isinstance(argument, int) and not isinstance(argument, bool):
                device = f"cuda:{argument}"
            elif not isinstance(argument, bool | None):
                raise TypeError(f"to: expected a dtype, a device or a tensor, got {argument!r}")
        dtype = None if dtype is None else dtypes.as_dtype(dtype)
        if dtype is not None and dtype.category < 2:
            raise TypeError(
                "nn.Module.to only accepts floating point or complex dtypes, but got desired "
                f"dtype={dtype}"
            )
        order = None if memory_format is None else memory_format.order

        def convert(parameter: Tensor) -> Tensor:
            result = parameter.to(
                device=device, dtype=dtype if parameter.dtype.category >= 2 else None
            )
            if order is not None and parameter.ndim == len(order):
                return result.contiguous(memory_format=memory_format)
            return result

        return self._apply(convert)

    def type(self, dst_type: Any) -> Self:
        """Convert all parameters and buffers, including those of integers.

        >>> nn.BatchNorm1d(2).type(float64).num_batches_tracked
        tensor(0., dtype=torch.float64)
        """
        return self._apply(lambda tensor: tensor.type(dst_type))

    def float(self) -> Self:
        """Convert floating parameters and buffers to float32."""
        return self.to(dtypes.float32)

    def double(self) -> Self:
        """Convert floating parameters and buffers to float64."""
        return self.to(dtypes.float64)

    def half(self) -> Self:
        """Convert floating parameters and buffers to float16."""
        return self.to(dtypes.float16)

    def bfloat16(self) -> Self:
        """Convert floating parameters and buffers to bfloat16."""
        return self.to(dtypes.bfloat16)

    def cpu(self) -> Self:
        """Move to the CPU."""
        return self.to("cpu")

    def cuda(self, device: Any = None) -> Self:
        """Move to the GPU. Raises: DeviceError: there is none."""
        return self.to(f"cuda:{device}" if isinstance(device, int) else device or "cuda")

    def to_empty(self, *, device: Any, recurse: bool = True) -> Self:
        """Move to a device without copying: the values are uninitialized.

        >>> nn.Linear(2, 1).to_empty(device="cpu").weight.shape
        torch.Size([1, 2])
        """
        return self._apply(lambda tensor: empty_like(tensor, device=device), recurse)

    def share_memory(self) -> Self:
        """Call `Tensor.share_memory_` of all parameters and buffers."""
        return self._apply(lambda tensor: tensor.share_memory_())
