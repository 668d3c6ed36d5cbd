"""Calls copies of a module, each on its device."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from typing import Any

from ... import backends
from ...backends.device import Device
from ..modules.module import Module
from .scatter_gather import place

__all__ = ["parallel_apply"]


def parallel_apply(
    modules: Sequence[Module], inputs: Sequence[Any],
    kwargs_tup: Sequence[Mapping[str, Any]] | None = None, devices: Sequence[Any] | None = None,
) -> list[Any]:  # fmt: skip
    """Call each module with its inputs, on its device.

    One after the other: a GPU gets its work in a moment and computes while the next one gets its
    own, so threads would gain nothing.

    Args:
        modules: one for each device.
        inputs: a tuple of arguments for each; what is no tuple is the only argument.
        kwargs_tup: named arguments for each.
        devices: which is the current one in each call.

    Raises: what a module raises, with a note that names it.

    >>> nn.parallel.parallel_apply([nn.Identity(), nn.ReLU()], [tensor(1.0), tensor(-1.0)])
    [tensor(1.), tensor(0.)]
    """
    named = kwargs_tup or [{}] * len(modules)
    where = devices or [None] * len(modules)
    outputs = []
    calls = zip(modules, inputs, named, where, strict=True)
    for number, (module, arguments, options, device) in enumerate(calls):
        if not isinstance(arguments, tuple | list):
            arguments = (arguments,)
        try:
            with on_device(device):
                outputs.append(module(*arguments, **options))
        except Exception as error:
            error.add_note(f"Caught {type(error).__name__} in replica {number} on device {device}.")
            raise
    return outputs


def on_device(device: Any) -> Any:
    """Make a card the current one, inside of a block."""
    from ... import cuda

    where = place(device)
    is_card = where is not None and backends.DEVICES[Device(where).type].is_accelerator
    return cuda.device(where) if is_card else nullcontext()
