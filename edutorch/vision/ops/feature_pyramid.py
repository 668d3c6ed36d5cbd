"""The feature pyramid: feature maps of all sizes, each with what the deepest layers know."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence

from ...core.tensor import Tensor
from ...errors import InvalidValueError
from ...nn import Conv2d, Module, ModuleList, init
from ...nn.functional import interpolate, max_pool2d
from .layers import Conv2dNormActivation

__all__ = ["FeaturePyramidNetwork", "LastLevelMaxPool"]


class FeaturePyramidNetwork(Module):
    """Add to each feature map what the next deeper one knows, from the deepest upwards.

        inner = 1x1 conv(map) + upsampled inner of the next deeper map;  output = 3x3 conv(inner)

    Args:
        in_channels_list: channels of each map, from the largest map to the smallest.
        out_channels: of all outputs.
        extra_blocks: a module that adds further outputs, as `LastLevelMaxPool`.
        norm_layer: a class of modules, behind each convolution.

    Shape: a dictionary of maps (n c h w), the largest first; a dictionary of the same names.

    Paper: Lin et al., Feature pyramid networks, 2017.

    >>> pyramid = edutorch.vision.ops.FeaturePyramidNetwork([4, 8], 2)
    >>> outputs = pyramid({"large": ones(1, 4, 8, 8), "small": ones(1, 8, 4, 4)})
    >>> {name: tuple(output.shape) for name, output in outputs.items()}
    {'large': (1, 2, 8, 8), 'small': (1, 2, 4, 4)}
    """

    def __init__(
        self, in_channels_list: Sequence[int], out_channels: int,
        extra_blocks: Module | None = None, norm_layer: Callable[..., Module] | None = None,
    ) -> None:  # fmt: skip
        super().__init__()
        if 0 in in_channels_list:
            raise InvalidValueError("FeaturePyramidNetwork", "in_channels=0 is not supported")
        settings = {"norm_layer": norm_layer, "activation_layer": None}
        self.inner_blocks = ModuleList(
            Conv2dNormActivation(channels, out_channels, 1, **settings)
            for channels in in_channels_list
        )
        self.layer_blocks = ModuleList(
            Conv2dNormActivation(out_channels, out_channels, 3, **settings)
            for _ in in_channels_list
        )
        for module in self.modules():
            if isinstance(module, Conv2d):
                init.kaiming_uniform_(module.weight, a=1)
                if module.bias is not None:
                    init.zeros_(module.bias)
        self.extra_blocks = extra_blocks

    def forward(self, x: Mapping[str, Tensor]) -> OrderedDict[str, Tensor]:
        """Return the pyramid of the maps `x`."""
        names, maps = list(x), list(x.values())
        laterals = [block(m) for block, m in zip(self.inner_blocks, maps, strict=True)]
        inner = laterals[-1]
        inners = [inner]
        for lateral in reversed(laterals[:-1]):
            inner = lateral + interpolate(inner, size=lateral.shape[-2:], mode="nearest")
            inners.insert(0, inner)
        outputs = [block(m) for block, m in zip(self.layer_blocks, inners, strict=True)]
        if self.extra_blocks is not None:
            outputs, names = self.extra_blocks(outputs, maps, names)
        return OrderedDict(zip(names, outputs, strict=True))


class LastLevelMaxPool(Module):
    """Adds one more output, every second pixel of the smallest.

    >>> outputs, names = edutorch.vision.ops.LastLevelMaxPool()([ones(1, 2, 4, 4)], [], ["small"])
    >>> tuple(outputs[-1].shape), names
    ((1, 2, 2, 2), ['small', 'pool'])
    """

    def forward(
        self, x: Sequence[Tensor], y: Sequence[Tensor], names: Sequence[str]
    ) -> tuple[list[Tensor], list[str]]:
        """Return the outputs `x` and their names, each with one more; `y` is not used."""
        return [*x, max_pool2d(x[-1], 1, 2)], [*names, "pool"]
