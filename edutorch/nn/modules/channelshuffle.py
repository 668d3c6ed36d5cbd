"""Channel shuffle."""

from __future__ import annotations

from ...core.tensor import Tensor
from .. import functional as F
from .module import Module

__all__ = [
    "ChannelShuffle",
]


class ChannelShuffle(Module):
    """Interleave the channels of `groups` groups; see `nn.functional.channel_shuffle`.

    >>> nn.ChannelShuffle(2)(arange(4.0).reshape(1, 4, 1)).flatten()
    tensor([0., 2., 1., 3.])
    """

    def __init__(self, groups: int) -> None:
        super().__init__()
        self.groups = groups

    def forward(self, input: Tensor) -> Tensor:
        return F.channel_shuffle(input, self.groups)

    def extra_repr(self) -> str:
        return f"groups={self.groups}"
