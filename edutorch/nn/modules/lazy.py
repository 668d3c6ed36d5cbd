"""Layers that learn the size of their input from the first batch.

A lazy layer is made without the number of input features. Its parameters have no shape
until it is called for the first time (or loads a state_dict); then they are made, and the
layer becomes an ordinary one: `LazyLinear` turns into `Linear`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from ...core.tensor import Tensor
from ...errors import EdutorchError, ShapeError
from ..parameter import is_lazy
from .module import Module
from .state_dict import own_state

__all__ = [
    "LazyModuleMixin",
]


class FeatureError(EdutorchError, AssertionError):
    """An input has not the features of a loaded weight (an AssertionError, as PyTorch's)."""


class LazyModuleMixin(Module):
    """What lazy modules share: the first call makes the parameters.

    A subclass stands before the module that it makes lazy, gives it parameters that are
    `UninitializedParameter`, says in `initialize_parameters` which shape they get, and in
    `cls_to_become` what it turns into.
    """

    cls_to_become: ClassVar[type[Any] | None] = None

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)  # of the module that is made lazy
        self.never_called = True

    def initialize_parameters(self, *args: Any, **kwargs: Any) -> None:
        """Make the parameters, given what `forward` is called with."""
        raise NotImplementedError(
            f"initialize_parameters is not implemented for {type(self).__name__}"
        )

    def has_uninitialized_params(self) -> bool:
        """Say whether a parameter or buffer has no shape yet."""
        return any(map(is_lazy, (*self._parameters.values(), *self._buffers.values())))

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Make the parameters if this is the first call, become the ordinary module, run it."""
        if self.__dict__.get("never_called"):
            self.initialize_parameters(*args, **kwargs)
            if self.has_uninitialized_params():
                raise ShapeError(
                    type(self).__name__,
                    f"module {self._get_name()} has not been fully initialized",
                    hint="initialize_parameters has to materialize all parameters and buffers",
                )
            del self.never_called
            if self.cls_to_become is not None:
                self.__class__ = self.cls_to_become
                return self(*args, **kwargs)
        return super().__call__(*args, **kwargs)

    def _load_from_state_dict(
        self, state_dict: Mapping[str, Any], prefix: str, *others: Any
    ) -> None:
        for name, held in own_state(self):
            found = state_dict.get(prefix + name)
            if isinstance(found, Tensor) and not is_lazy(found):
                grow(held, found.shape)
        super()._load_from_state_dict(state_dict, prefix, *others)


def grow(tensor: Any, shape: Sequence[int]) -> None:
    """Give a parameter or buffer its shape, if it has none yet."""
    if is_lazy(tensor):
        tensor.materialize(shape)
