"""Wrappers around a module: its activations are computed again in backward, or kept elsewhere.

The keys of state dicts are those without the wrapper.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from enum import Enum, auto
from functools import partial
from typing import Any

from ....autograd.graph import save_on_cpu
from ....nn.modules.module import Module
from ....nn.parameter import Parameter
from ....utils.checkpoint import checkpoint
from ...fsdp.wrap import select_modules

__all__ = [
    "ActivationWrapper", "CheckpointImpl", "CheckpointWrapper", "OffloadWrapper",
    "apply_activation_checkpointing", "checkpoint_wrapper", "offload_wrapper",
]  # fmt: skip

PREFIX = "_checkpoint_wrapped_module."


class CheckpointImpl(Enum):
    """Accepted: there is one implementation, without the restrictions of either."""

    REENTRANT = auto()
    NO_REENTRANT = auto()


class ActivationWrapper(Module):
    """The base of the wrappers.

    Args: mod: the module.
    """

    def __init__(self, mod: Module) -> None:
        super().__init__()
        self._checkpoint_wrapped_module = mod
        self._register_state_dict_hook(without_prefix)
        self.register_load_state_dict_pre_hook(with_prefix)

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        raise ValueError("Subclasses should implement forward().")

    def __getattr__(self, name: str) -> Any:
        try:
            return super().__getattr__(name)
        except AttributeError:
            if name == PREFIX[:-1]:
                raise
            return getattr(self._checkpoint_wrapped_module, name)

    def __getitem__(self, key: Any) -> Any:
        return self._checkpoint_wrapped_module[key]  # type: ignore[index]

    def named_parameters(self, *args: Any, **kwargs: Any) -> Iterator[tuple[str, Parameter]]:
        for name, parameter in super().named_parameters(*args, **kwargs):
            yield name.replace(PREFIX, ""), parameter


def without_prefix(module: Module, state_dict: Any, prefix: str, *others: Any) -> Any:
    """Take the wrapper out of the keys of a state dict."""
    rename(state_dict, prefix + PREFIX, prefix)
    return state_dict


def with_prefix(module: Module, state_dict: Any, prefix: str, *others: Any) -> None:
    """Put the wrapper into the keys, as its module expects them."""
    rename(state_dict, prefix, prefix + PREFIX)


def rename(state_dict: Any, old: str, new: str) -> None:
    """Replace the beginning of keys, in place."""
    for key in [key for key in state_dict if key.startswith(old)]:
        state_dict[new + key[len(old) :]] = state_dict.pop(key)


class CheckpointWrapper(ActivationWrapper):
    """A module whose activations are not kept: backward computes them again.

    Args:
        mod: the module.
        checkpoint_impl: accepted.
        checkpoint_fn: in place of `utils.checkpoint.checkpoint`.
        checkpoint_fn_kwargs: its further arguments.
    """

    def __init__(
        self, mod: Module, checkpoint_impl: CheckpointImpl = CheckpointImpl.NO_REENTRANT,
        checkpoint_fn: Callable[..., Any] | None = None, **checkpoint_fn_kwargs: Any,
    ) -> None:  # fmt: skip
        super().__init__(mod)
        self.checkpoint_impl = checkpoint_impl
        usual = partial(checkpoint, use_reentrant=checkpoint_impl is CheckpointImpl.REENTRANT)
        self.checkpoint_fn = partial(checkpoint_fn or usual, **checkpoint_fn_kwargs)

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        return self.checkpoint_fn(self._checkpoint_wrapped_module, *args, **kwargs)


class OffloadWrapper(ActivationWrapper):
    """A module whose activations are in the memory of the host until backward."""

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        with save_on_cpu(pin_memory=True):
            return self._checkpoint_wrapped_module(*args, **kwargs)


def checkpoint_wrapper(
    module: Module, checkpoint_impl: CheckpointImpl = CheckpointImpl.NO_REENTRANT,
    checkpoint_fn: Callable[..., Any] | None = None, **checkpoint_fn_kwargs: Any,
) -> Module:  # fmt: skip
    """Wrap a module, so that backward computes its activations again: see `CheckpointWrapper`.

    >>> from edutorch.distributed.algorithms._checkpoint.checkpoint_wrapper import *
    >>> model = checkpoint_wrapper(nn.Sequential(nn.Linear(2, 2), nn.Tanh()))
    >>> model(ones(1, 2)).sum().backward()
    >>> list(model.state_dict()), model[0].weight.grad.shape
    (['0.weight', '0.bias'], torch.Size([2, 2]))
    """
    return CheckpointWrapper(module, checkpoint_impl, checkpoint_fn, **checkpoint_fn_kwargs)


def offload_wrapper(module: Module) -> Module:
    """Wrap a module, so that its activations wait in the memory of the host."""
    return OffloadWrapper(module)


def apply_activation_checkpointing(
    model: Module, checkpoint_wrapper_fn: Callable[[Module], Module] = checkpoint_wrapper,
    check_fn: Callable[[Module], bool] = lambda _: True,
    auto_wrap_policy: Callable[..., bool] | None = None,
) -> None:  # fmt: skip
    """Wrap modules inside of a model, in place; not the model itself.

    Args:
        model: the model.
        checkpoint_wrapper_fn: wraps a module.
        check_fn: whether a module is to be wrapped.
        auto_wrap_policy: in its place, a policy of `fsdp.wrap`.

    >>> from edutorch.distributed.algorithms._checkpoint.checkpoint_wrapper import *
    >>> model = nn.Sequential(nn.Linear(2, 2), nn.Tanh())
    >>> apply_activation_checkpointing(model, check_fn=lambda part: isinstance(part, nn.Linear))
    >>> type(model[0]).__name__, type(model[1]).__name__, list(model.state_dict())
    ('CheckpointWrapper', 'Tanh', ['0.weight', '0.bias'])
    """
    if auto_wrap_policy is not None:
        chosen = set(map(id, select_modules(model, auto_wrap_policy)))
    else:
        chosen = {id(part) for part in model.modules() if check_fn(part)}
    for parent in list(model.modules()):
        for name, child in list(parent.named_children()):
            if id(child) in chosen and not isinstance(parent, ActivationWrapper):
                setattr(parent, name, checkpoint_wrapper_fn(child))
