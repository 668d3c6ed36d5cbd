"""More pooling layers: back to the larger image, by powers, at random, across channels."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

from ...core.tensor import Tensor
from .. import functional as F
from ..functional.op_decorators import SettingError
from ..functional.sliding_window import settings_of
from .module import Module

__all__ = [
    "FractionalMaxPool2d", "FractionalMaxPool3d", "LPPool1d", "LPPool2d", "LPPool3d",
    "LocalResponseNorm", "MaxUnpool1d", "MaxUnpool2d", "MaxUnpool3d",
]  # fmt: skip

Size = int | Sequence[int]


class MaxUnpool(Module):
    """What the layers share that put numbers back where a pooling found them."""

    rank: ClassVar[int]
    function: ClassVar[Any]

    def __init__(self, kernel_size: Size, stride: Size | None = None, padding: Size = 0) -> None:
        super().__init__()
        self.kernel_size = settings_of(kernel_size, self.rank, "MaxUnpool")
        self.stride = self.kernel_size if stride is None else settings_of(stride, self.rank)
        self.padding = settings_of(padding, self.rank, "MaxUnpool")

    def forward(
        self, input: Tensor, indices: Tensor, output_size: Sequence[int] | None = None
    ) -> Tensor:
        """Put the numbers back."""
        settings = (self.kernel_size, self.stride, self.padding, output_size)
        return self.function(input, indices, *settings)

    def extra_repr(self) -> str:
        """Return the settings."""
        return f"kernel_size={self.kernel_size}, stride={self.stride}, padding={self.padding}"


class MaxUnpool2d(MaxUnpool):
    """Put the numbers of `MaxPool2d` back where they were found, among zeros.

    Args: as for that `MaxPool2d`, which returned the indices.

    >>> pool, unpool = nn.MaxPool2d(2, return_indices=True), nn.MaxUnpool2d(2)
    >>> unpool(*pool(arange(4.0).reshape(1, 2, 2)))
    tensor([[[0., 0.],
             [0., 3.]]])
    """

    rank = 2
    function = staticmethod(F.max_unpool2d)


class MaxUnpool1d(MaxUnpool):
    """Put the numbers of `MaxPool1d` back where they were found; see `MaxUnpool2d`.

    >>> nn.MaxUnpool1d(2)(tensor([[3.0, 2.0]]), tensor([[1, 2]]))
    tensor([[0., 3., 2., 0.]])
    """

    rank = 1
    function = staticmethod(F.max_unpool1d)


class MaxUnpool3d(MaxUnpool):
    """Put the numbers of `MaxPool3d` back where they were found; see `MaxUnpool2d`.

    >>> nn.MaxUnpool3d(2)(tensor([[[[9.0]]]]), tensor([[[[2]]]])).shape
    torch.Size([1, 2, 2, 2])
    """

    rank = 3
    function = staticmethod(F.max_unpool3d)


class LPPool(Module):
    """What the layers share that take the p-norm of each window."""

    function: ClassVar[Any]

    def __init__(
        self, norm_type: float, kernel_size: Size, stride: Size | None = None,
        ceil_mode: bool = False,
    ) -> None:  # fmt: skip
        super().__init__()
        self.norm_type, self.kernel_size = norm_type, kernel_size
        self.stride, self.ceil_mode = stride, ceil_mode

    def forward(self, input: Tensor) -> Tensor:
        """Compute the norms."""
        settings = (self.kernel_size, self.stride, self.ceil_mode)
        return self.function(input, float(self.norm_type), *settings)

    def extra_repr(self) -> str:
        """Return the settings."""
        return (
            f"norm_type={self.norm_type}, kernel_size={self.kernel_size}, "
            f"stride={self.stride}, ceil_mode={self.ceil_mode}"
        )


class LPPool2d(LPPool):
    """The p-norm of each window: y = (Σ xᵖ)^(1/p).

    Args:
        norm_type: p. 1 is the sum, infinity the largest.
        kernel_size, stride, ceil_mode: as for `MaxPool2d`.

    >>> nn.LPPool2d(2, (1, 2))(tensor([[[3.0, 4.0]]]))
    tensor([[[5.]]])
    """

    function = staticmethod(F.lp_pool2d)


class LPPool1d(LPPool):
    """The p-norm of each window of a sequence; see `LPPool2d`.

    >>> nn.LPPool1d(2, 2)(tensor([[3.0, 4.0]]))
    tensor([[5.]])
    """

    function = staticmethod(F.lp_pool1d)


class LPPool3d(LPPool):
    """The p-norm of each window of a volume; see `LPPool2d`.

    >>> nn.LPPool3d(1, 2)(ones(1, 2, 2, 2))
    tensor([[[[8.]]]])
    """

    function = staticmethod(F.lp_pool3d)


class FractionalMaxPool(Module):
    """What the layers share whose windows are placed a little at random."""

    rank: ClassVar[int]
    function: ClassVar[Any]

    def __init__(
        self, kernel_size: Size, output_size: Size | None = None, output_ratio: Any = None,
        return_indices: bool = False, _random_samples: Tensor | None = None,
    ) -> None:  # fmt: skip
        super().__init__()
        name, rank = type(self).__name__, self.rank
        self.kernel_size = settings_of(kernel_size, rank, name)
        self.output_size = None if output_size is None else settings_of(output_size, rank, name)
        if (output_size is None) == (output_ratio is None):
            raise SettingError(name, "needs either output_size or output_ratio, and not both")
        one = isinstance(output_ratio, int | float)
        self.output_ratio = (output_ratio,) * rank if one else output_ratio
        if output_ratio is not None and not all(0 < each < 1 for each in self.output_ratio):
            raise SettingError(name, f"output_ratio must be between 0 and 1 (got {output_ratio})")
        self.return_indices = return_indices
        self.register_buffer("_random_samples", _random_samples)

    def forward(self, input: Tensor) -> Any:
        """Find the largest numbers."""
        return self.function(
            input, self.kernel_size, self.output_size, self.output_ratio, self.return_indices,
            _random_samples=self._random_samples,
        )  # fmt: skip


class FractionalMaxPool2d(FractionalMaxPool):
    """The largest number of each window, where windows are placed a little at random.

    Args:
        output_size: the size of the result, or
        output_ratio: its part of the size of the input, between 0 and 1.
        return_indices: also return where in the image each was found.

    Raises: SettingError (a ValueError): not one of size and ratio; a ratio outside 0 … 1.

    Paper: Graham, Fractional max-pooling, 2014.

    >>> nn.FractionalMaxPool2d(2, output_ratio=0.6)(ones(1, 1, 5, 5)).shape
    torch.Size([1, 1, 3, 3])
    """

    rank = 2
    function = staticmethod(F.fractional_max_pool2d)


class FractionalMaxPool3d(FractionalMaxPool):
    """The largest number of each window of a volume; see `FractionalMaxPool2d`.

    >>> nn.FractionalMaxPool3d(2, output_size=3)(ones(1, 1, 5, 5, 5)).shape
    torch.Size([1, 1, 3, 3, 3])
    """

    rank = 3
    function = staticmethod(F.fractional_max_pool3d)


class LocalResponseNorm(Module):
    """Divide by what neighbouring channels say: y = x / (k + α · mean(x²))^β.

    Paper: Krizhevsky, Sutskever and Hinton, ImageNet classification, 2012.

    >>> nn.LocalResponseNorm(2, alpha=6.0)(ones(1, 2, 1)).flatten()
    tensor([0.3536, 0.2324])
    """

    def __init__(self, size: int, alpha: float = 1e-4, beta: float = 0.75, k: float = 1.0) -> None:
        super().__init__()
        self.size, self.alpha, self.beta, self.k = size, alpha, beta, k

    def forward(self, input: Tensor) -> Tensor:
        """Divide."""
        return F.local_response_norm(input, self.size, self.alpha, self.beta, self.k)

    def extra_repr(self) -> str:
        """Return the settings."""
        return f"{self.size}, alpha={self.alpha}, beta={self.beta}, k={self.k}"
