"""Instance normalization layers: each channel of each sample is normalized by itself."""

from __future__ import annotations

from typing import Any

from ...core.tensor import Tensor
from ...errors import warn
from .. import functional as F
from ..common_types import DeviceLike, DTypeLike
from .batchnorm import _LazyNormBase, _NormBase

__all__ = [
    "InstanceNorm1d", "InstanceNorm2d", "InstanceNorm3d", "LazyInstanceNorm1d",
    "LazyInstanceNorm2d", "LazyInstanceNorm3d",
]  # fmt: skip


class _InstanceNorm(_NormBase):
    """Base of the instance norm layers.

    Args: as for batch norm; without weight, bias and running averages by default.

    Paper: Ulyanov, Vedaldi and Lempitsky, Instance normalization, 2016.
    """

    def __init__(
        self, num_features: int, eps: float = 1e-5, momentum: float = 0.1, affine: bool = False,
        track_running_stats: bool = False, device: DeviceLike = None, dtype: DTypeLike = None, *,
        bias: bool = True,
    ) -> None:  # fmt: skip
        super().__init__(
            num_features, eps, momentum, affine, track_running_stats, device, dtype, bias=bias
        )

    def _load_from_state_dict(
        self, state_dict: dict[str, Any], prefix: str, local_metadata: dict[str, Any], strict: bool,
        missing_keys: list[str], unexpected_keys: list[str], error_msgs: list[str],
    ) -> None:  # fmt: skip
        """Report running averages of files that PyTorch wrote before 0.4, which always had them."""
        version, name = local_metadata.get("version"), type(self).__name__
        stat_keys = [f"{prefix}running_{statistic}" for statistic in ("mean", "var")]
        present = [key for key in stat_keys if key in state_dict]
        if version is None and not self.track_running_stats and present:
            keys = " and ".join(f'"{key}"' for key in present)
            error_msgs.append(
                f"Unexpected running stats buffer(s) {keys} for {name} with "
                f"track_running_stats=False. Please remove these keys from state_dict, or make "
                f"the layer with track_running_stats=True."
            )
            for key in present:
                state_dict.pop(key)
        super()._load_from_state_dict(
            state_dict, prefix, local_metadata, strict, missing_keys, unexpected_keys, error_msgs
        )

    def _only_warns(self, channels: int) -> bool:
        if self.affine or self.track_running_stats:
            return False
        warn(
            f"{type(self).__name__}: {channels} channels along axis 1, not num_features="
            f"{self.num_features}: without affine it is not used"
        )
        return True

    def forward(self, input: Tensor) -> Tensor:
        # Instance norm does not look at other samples, so a single one is valid, unlike in batch
        # norm.
        is_unbatched = input.ndim == self.axes[0] - 1
        batch = input.unsqueeze(0) if is_unbatched else input
        self._check(batch)
        y = F.instance_norm(
            batch, self.running_mean, self.running_var, self.weight, self.bias,
            self.training or not self.track_running_stats, self.momentum or 0.0, self.eps,
        )  # fmt: skip
        return y.squeeze(0) if is_unbatched else y


class InstanceNorm1d(_InstanceNorm):
    """Instance norm of sequences (n, c, l).

    >>> nn.InstanceNorm1d(3)(randn(5, 3, 4)).shape
    torch.Size([5, 3, 4])
    """

    axes = (3,)


class InstanceNorm2d(_InstanceNorm):
    """Instance norm of images (n, c, h, w).

    >>> nn.InstanceNorm2d(3)(randn(5, 3, 4, 4)).shape
    torch.Size([5, 3, 4, 4])
    """

    axes = (4,)


class InstanceNorm3d(_InstanceNorm):
    """Instance norm of volumes (n, c, d, h, w).

    >>> nn.InstanceNorm3d(3)(randn(5, 3, 4, 4, 2)).shape
    torch.Size([5, 3, 4, 4, 2])
    """

    axes = (5,)


class LazyInstanceNorm1d(_LazyNormBase, InstanceNorm1d):
    """A `InstanceNorm1d` that infers `num_features` from its first input.

    >>> nn.LazyInstanceNorm1d()(zeros(2, 3, 4)).shape
    torch.Size([2, 3, 4])
    """

    cls_to_become = InstanceNorm1d


class LazyInstanceNorm2d(_LazyNormBase, InstanceNorm2d):
    """A `InstanceNorm2d` that infers `num_features` from its first input.

    >>> nn.LazyInstanceNorm2d()(zeros(2, 3, 4, 4)).shape
    torch.Size([2, 3, 4, 4])
    """

    cls_to_become = InstanceNorm2d


class LazyInstanceNorm3d(_LazyNormBase, InstanceNorm3d):
    """A `InstanceNorm3d` that infers `num_features` from its first input.

    >>> nn.LazyInstanceNorm3d()(zeros(2, 3, 4, 4, 4)).shape
    torch.Size([2, 3, 4, 4, 4])
    """

    cls_to_become = InstanceNorm3d
