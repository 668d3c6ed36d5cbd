"""Calling a module with other parameters: the former home of `func.functional_call`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ...core.tensor import Tensor
from ...errors import warn
from ..modules.module import Module

__all__ = ["functional_call"]


def functional_call(
    module: Module, parameters_and_buffers: Mapping[str, Tensor], args: Any = None,
    kwargs: dict[str, Any] | None = None, *, tie_weights: bool = True, strict: bool = False,
) -> Any:  # fmt: skip
    """Call a module with other tensors as its parameters and buffers.

    Args: as for `func.functional_call`.
    """
    from ...func import functional_call as current  # func builds on nn

    warn(
        "`torch.nn.utils.stateless.functional_call` is deprecated. Please use "
        "`torch.func.functional_call` instead."
    )
    return current(
        module, parameters_and_buffers, args, kwargs, tie_weights=tie_weights, strict=strict
    )
