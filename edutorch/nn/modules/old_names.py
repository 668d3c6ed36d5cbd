"""Modules of older code: what they did, others do now."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

from ...core.tensor import Tensor
from ...ops import arange, narrow, where
from .. import functional as F
from ..functional.op_decorators import SettingError
from .loss import NLLLoss
from .module import Module

__all__ = ["Container", "CrossMapLRN2d", "DataParallel", "NLLLoss2d"]


class Container(Module):
    """A module that holds others by name. Write a subclass of `Module` instead.

    >>> import warnings
    >>> warnings.simplefilter("ignore")
    >>> nn.Container(a=nn.Identity()).a
    Identity()
    """

    def __init__(self, **kwargs: Any) -> None:
        warnings.warn(
            "`nn.Container` is deprecated. All of its functionality is now implemented in "
            "`nn.Module`. Subclass that instead.", FutureWarning, stacklevel=2,
        )  # fmt: skip
        super().__init__()
        for name, module in kwargs.items():
            self.add_module(name, module)


class NLLLoss2d(NLLLoss):
    """`NLLLoss` under the name that it had for images; that one takes them too.

    >>> nn.NLLLoss2d()(zeros(1, 2, 1, 1), zeros(1, 1, 1).long()).item()
    0.0
    """

    def __init__(
        self, weight: Tensor | None = None, size_average: bool | None = None,
        ignore_index: int = -100, reduce: bool | None = None, reduction: str = "mean",
    ) -> None:  # fmt: skip
        warnings.warn(
            "`NLLLoss2d` has been deprecated. Please use `NLLLoss` instead as a drop-in "
            "replacement.", FutureWarning, stacklevel=2,
        )  # fmt: skip
        super().__init__(weight, size_average, ignore_index, reduce, reduction)


class CrossMapLRN2d(Module):
    """Local response norm as Lua Torch had it: divide by the length of the neighbours.

        y = x / (k + α / size · Σ x²)^β

    The sum is over the (size - 1) // 2 channels on each side, and over channel 0, which
    PyTorch's running sum takes in and never lets go. `LocalResponseNorm` is without that.

    >>> nn.CrossMapLRN2d(3)(zeros(1, 4, 2, 2)).shape
    torch.Size([1, 4, 2, 2])
    """

    def __init__(self, size: int, alpha: float = 1e-4, beta: float = 0.75, k: float = 1) -> None:
        super().__init__()
        self.size, self.alpha, self.beta, self.k = size, alpha, beta, k

    def forward(self, input: Tensor) -> Tensor:
        """Divide by the length of the neighbours. Raises: ValueError: not (n, c, h, w)."""
        if input.ndim != 4:
            raise SettingError(
                "CrossMapLRN2d", f"Expected input to be 4D, got {input.ndim}D instead.",
                {"input": tuple(input.shape)},
            )  # fmt: skip
        half, channels = (self.size - 1) // 2, input.shape[1]
        squares = input * input
        padded = F.pad(squares, (0, 0, 0, 0, half, half))
        total = narrow(padded, 1, 0, channels)
        for shift in range(1, 2 * half + 1):
            total = total + narrow(padded, 1, shift, channels)
        late = arange(channels, device=input.device).reshape(-1, 1, 1) > half
        total = total + where(late, squares[:, :1], 0)
        return input * (self.k + self.alpha / self.size * total) ** -self.beta

    def extra_repr(self) -> str:
        """Return the settings."""
        return f"{self.size}, alpha={self.alpha}, beta={self.beta}, k={self.k}"


class DataParallel(Module):
    """Calls a module: on one device there is nothing to share out.

    PyTorch cuts the batch over several GPUs of one process here, and so it advises against
    it; without a GPU its `DataParallel` does what this one does. The keys of the
    `state_dict` begin with "module.", as there.

    >>> nn.DataParallel(nn.Identity())(tensor([1.0]))
    tensor([1.])
    """

    def __init__(
        self, module: Module, device_ids: Sequence[Any] | None = None, output_device: Any = None,
        dim: int = 0,
    ) -> None:  # fmt: skip
        super().__init__()
        self.module, self.dim = module, dim
        self.device_ids = list(device_ids or [])
        self.output_device = output_device

    def forward(self, *inputs: Any, **kwargs: Any) -> Any:
        """Call the module."""
        return self.module(*inputs, **kwargs)
