"""`DataParallel`: a module that divides its batch among several devices."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import chain
from typing import Any

from ...backends.device import Device
from ...errors import DeviceError
from ...modes import is_grad_enabled
from ..modules.module import Module
from .parallel_apply import parallel_apply
from .replicate import replicate
from .scatter_gather import gather, place, scatter_kwargs

__all__ = ["DataParallel", "data_parallel"]


class DataParallel(Module):
    """Divides each batch among several GPUs, and puts the outputs together.

    In each forward the module is copied to all of them; in backward the gradients are added up in
    the one module. Without a GPU the module is called as it is, and PyTorch's does the same. The
    keys of the `state_dict` begin with "module.".

    Args:
        module: its parameters and buffers are on the first device.
        device_ids: the GPUs; by default all. On simulated cards it can be tried without any.
        output_device: where the output is; by default the first one.
        dim: the axis along which inputs are divided, and outputs are put together.

    >>> nn.DataParallel(nn.Identity())(tensor([1.0]))
    tensor([1.])
    """

    def __init__(
        self, module: Module, device_ids: Sequence[Any] | None = None, output_device: Any = None,
        dim: int = 0,
    ) -> None:  # fmt: skip
        super().__init__()
        self.module, self.device_ids = module, cards(device_ids)
        if not self.device_ids:
            return
        first = self.device_ids[0]
        self.dim = dim
        self.output_device = card_number(first if output_device is None else output_device)
        if len(self.device_ids) == 1:
            self.module.to(place(self.device_ids[0]))

    def forward(self, *inputs: Any, **kwargs: Any) -> Any:
        """Call the module on all devices."""
        if not self.device_ids:
            return self.module(*inputs, **kwargs)
        check_place(self.module, self.device_ids[0])
        parts, named = self.scatter(inputs, kwargs, self.device_ids)
        if not parts:
            parts, named = ((),), ({},)
        if len(self.device_ids) == 1:
            return self.module(*parts[0], **named[0])
        replicas = self.replicate(self.module, self.device_ids[: len(parts)])
        return self.gather(self.parallel_apply(replicas, parts, named), self.output_device)

    def replicate(self, module: Module, device_ids: Sequence[Any]) -> list[Module]:
        """Return a copy of the module for each device."""
        return replicate(module, device_ids, not is_grad_enabled())

    def scatter(
        self, inputs: tuple[Any, ...], kwargs: Mapping[str, Any] | None, device_ids: Sequence[Any]
    ) -> tuple[tuple[Any, ...], tuple[dict[str, Any], ...]]:
        """Divide the arguments of a call among the devices."""
        return scatter_kwargs(inputs, kwargs, device_ids, self.dim)

    def parallel_apply(
        self, replicas: Sequence[Module], inputs: Sequence[Any], kwargs: Sequence[Mapping[str, Any]]
    ) -> list[Any]:
        """Call each copy with its part."""
        return parallel_apply(replicas, inputs, kwargs, self.device_ids[: len(replicas)])

    def gather(self, outputs: Sequence[Any], output_device: Any) -> Any:
        """Put the outputs of all devices together."""
        return gather(outputs, output_device, self.dim)


def data_parallel(
    module: Module, inputs: Any, device_ids: Sequence[Any] | None = None,
    output_device: Any = None, dim: int = 0, module_kwargs: Mapping[str, Any] | None = None,
) -> Any:  # fmt: skip
    """Call a module once as `DataParallel` would.

    >>> nn.parallel.data_parallel(nn.ReLU(), tensor([-1.0, 1.0]))
    tensor([0., 1.])
    """
    arguments = inputs if isinstance(inputs, tuple) else (() if inputs is None else (inputs,))
    parallel = DataParallel(module, device_ids, output_device, dim).train(module.training)
    return parallel(*arguments, **(module_kwargs or {}))


def cards(device_ids: Sequence[Any] | None) -> list[int]:
    """Return the numbers of the given cards, or of all; without a GPU there are none."""
    from ... import cuda

    if not cuda.is_available():
        return []
    wanted = range(cuda.device_count()) if device_ids is None else device_ids
    return [number for number in map(card_number, wanted) if number is not None]


def card_number(device: Any) -> int | None:
    """Return the number of a card, -1 for the CPU; None stays None."""
    if device is None or isinstance(device, int):
        return device
    made = Device(device)
    return -1 if made.type == "cpu" else made.index or 0


def check_place(module: Module, device: int) -> None:
    """Raise RuntimeError unless a module is on a card."""
    for tensor in chain(module.parameters(), module.buffers()):
        if str(tensor.device) != place(device):
            raise DeviceError(
                "DataParallel",
                f"module must have its parameters and buffers on device {place(device)} "
                f"(device_ids[0]) but found one of them on device: {tensor.device}",
                hint=f"model.to({place(device)!r}) first",
            )
