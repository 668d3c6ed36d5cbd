"""What changes the numbers of all parameters and buffers of a module: their type and place."""

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

__all__ = ["ModuleMoves"]


class ModuleMoves(ModuleTree):
    """Conversions of a `Module`. Parameters stay the same objects: an optimizer knows them."""

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> Self:
        """Replace the numbers of every parameter, gradient and buffer by `fn` of them."""
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
            elif buffer is not None:  # a tensor of the user's, perhaps: the weights of a loss
                self._buffers[name] = fn(buffer)
        return self

    def to(
        self, *target: Any, dtype: Any = None, device: Any = None, non_blocking: bool = False,
        tensor: Tensor | None = None, memory_format: MemoryFormat | None = None,
    ) -> Self:  # fmt: skip
        """Move to a device, or convert the floating numbers to another type, in place.

        Args:
            target: a dtype, a device, or a tensor that has both.
            memory_format: how the weights with 4 axes (5 for `channels_last_3d`) lie in memory.

        Raises: TypeError: not a floating type. DeviceError: the device cannot be used here.

        >>> nn.Linear(2, 1).to(float64).weight.dtype
        torch.float64
        """
        for each in (*target, tensor):
            if isinstance(each, Tensor):
                dtype, device = each.dtype, each.device
            elif isinstance(each, dtypes.dtype | type):
                dtype = each
            elif isinstance(each, str | Device):
                device = each
            elif isinstance(each, int) and not isinstance(each, bool):
                device = f"cuda:{each}"
            elif not isinstance(each, bool | None):
                raise TypeError(f"to: expected a dtype, a device or a tensor, got {each!r}")
        dtype = None if dtype is None else dtypes.as_dtype(dtype)
        if dtype is not None and dtype.category < 2:
            raise TypeError(
                "nn.Module.to only accepts floating point or complex dtypes, but got desired "
                f"dtype={dtype}"
            )
        order = None if memory_format is None else memory_format.order

        def converted(each: Tensor) -> Tensor:
            made = each.to(device=device, dtype=dtype if each.dtype.category >= 2 else None)
            if order is not None and each.ndim == len(order):
                return made.contiguous(memory_format=memory_format)
            return made

        return self._apply(converted)

    def type(self, dst_type: Any) -> Self:
        """Convert all parameters and buffers, those of whole numbers too.

        >>> nn.BatchNorm1d(2).type(float64).num_batches_tracked
        tensor(0., dtype=torch.float64)
        """
        return self._apply(lambda each: each.type(dst_type))

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
        """Move to the computer's own memory."""
        return self.to("cpu")

    def cuda(self, device: Any = None) -> Self:
        """Move to the GPU. Raises: DeviceError: there is none."""
        return self.to(f"cuda:{device}" if isinstance(device, int) else device or "cuda")

    def to_empty(self, *, device: Any, recurse: bool = True) -> Self:
        """Move to a device without copying: the numbers are still to be set.

        >>> nn.Linear(2, 1).to_empty(device="cpu").weight.shape
        torch.Size([1, 2])
        """
        return self._apply(lambda each: empty_like(each, device=device), recurse)

    def share_memory(self) -> Self:
        """Call `Tensor.share_memory_` of all parameters and buffers; it says what that does."""
        return self._apply(lambda each: each.share_memory_())
