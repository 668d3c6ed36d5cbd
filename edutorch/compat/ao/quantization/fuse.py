"""`fuse_modules`: convolution, batch norm and ReLU as one layer, for inference."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any

from edutorch import nn
from edutorch.ao.nn.intrinsic import ConvReLU2d, LinearReLU
from edutorch.errors import NotHereError
from edutorch.nn import Module
from edutorch.nn.utils.fusion import fuse_conv_bn_eval, fuse_linear_bn_eval

__all__ = ["fuse_modules", "fuse_modules_qat"]

Types = tuple[type, ...]

NORMS = (nn.BatchNorm1d, nn.BatchNorm2d)

FUSIONS: dict[Types, Any] = {
    (nn.Conv2d, nn.BatchNorm2d): fuse_conv_bn_eval,
    (nn.Linear, nn.BatchNorm1d): fuse_linear_bn_eval,
    (nn.Conv2d, nn.ReLU): ConvReLU2d,
    (nn.Linear, nn.ReLU): LinearReLU,
    (nn.Conv2d, nn.BatchNorm2d, nn.ReLU): lambda conv, bn, relu: ConvReLU2d(
        fuse_conv_bn_eval(conv, bn), relu
    ),
}
"""What is made of a sequence of layers."""


def fuse_modules(
    model: Module, modules_to_fuse: Sequence[Any], inplace: bool = False, **settings: Any
) -> Module:
    """Return the model with sequences of layers fused: the first becomes all, the others nothing.

    Args:
        modules_to_fuse: the paths of one sequence, ["conv", "bn", "relu"], or a list of these.

    Raises: NotHereError: there is no fused layer for a sequence. AssertionError: in training mode.

    >>> model = nn.Sequential(nn.Conv2d(1, 2, 3), nn.BatchNorm2d(2), nn.ReLU()).eval()
    >>> fused = edutorch.ao.quantization.fuse_modules(model, ["0", "1", "2"])
    >>> [type(layer).__name__ for layer in fused]
    ['ConvReLU2d', 'Identity', 'Identity']
    """
    model = model if inplace else copy.deepcopy(model)
    is_single = all(isinstance(path, str) for path in modules_to_fuse)
    for paths in [modules_to_fuse] if is_single else modules_to_fuse:
        layers = [model.get_submodule(path) for path in paths]
        fusion = FUSIONS.get(tuple(map(type, layers)))
        if fusion is None:
            names = ", ".join(type(layer).__name__ for layer in layers)
            raise NotHereError(
                "fuse_modules", f"Cannot fuse modules: {names}", {"paths": list(paths)},
                "; ".join("+".join(cls.__name__ for cls in types) for types in FUSIONS),
            )  # fmt: skip
        fused = fusion(*layers)
        for path, layer in zip(paths, [fused, *[nn.Identity() for _ in paths[1:]]], strict=True):
            parent, _, name = path.rpartition(".")
            setattr(model.get_submodule(parent), name, layer)
    return model


def fuse_modules_qat(
    model: Module, modules_to_fuse: Sequence[Any], inplace: bool = False, **settings: Any
) -> Module:
    """Return the model with layers fused for training: without batch norm.

    Raises: NotHereError: a sequence has batch norm, whose averages change in training.
    """
    is_single = all(isinstance(path, str) for path in modules_to_fuse)
    for paths in [modules_to_fuse] if is_single else modules_to_fuse:
        if any(isinstance(model.get_submodule(path), NORMS) for path in paths):
            raise NotHereError(
                "fuse_modules_qat", "batch norm cannot be fused in training",
                {"paths": list(paths)},
                "fuse_modules(model.eval(), …) before it, or leave out batch norm",
            )  # fmt: skip
    return fuse_modules(model, modules_to_fuse, inplace)
