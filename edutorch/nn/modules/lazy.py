"""Lazy modules, which infer the number of input features from the first batch.

The parameters of a lazy module are uninitialized until it is called for the first time (or loads
a state_dict); then they are materialized, and the module becomes an ordinary one: `LazyLinear`
turns into `Linear`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from ...core.tensor import Tensor
from ...errors import EdutorchError, ShapeError
from ..parameter import UninitializedTensorMixin, is_lazy
from .module import Module
from .state_dict import own_state

__all__ = [
    "LazyModuleMixin",
]


class FeatureError(EdutorchError, AssertionError):
    """An input does not have the features of a loaded weight (an AssertionError, as in PyTorch)."""


class LazyModuleMixin(Module):
    """Base of lazy modules: the first call materializes the parameters.

    A subclass inherits from this mixin and then from the module that it makes lazy. It assigns
    `UninitializedParameter`s, materializes them in `initialize_parameters`, and names in
    `cls_to_become` the class that it turns into.
    """

    cls_to_become: ClassVar[type[Any] | None] = None

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)  # of the module that the subclass makes lazy
        self.never_called = True

    def initialize_parameters(self, *args: Any, **kwargs: Any) -> None:
        """Materialize the parameters, given the arguments of `forward`."""
        raise NotImplementedError(
            f"initialize_parameters is not implemented for {type(self).__name__}"
        )

    def has_uninitialized_params(self) -> bool:
        """Whether a parameter or buffer is still uninitialized."""
        return any(map(is_lazy, (*self._parameters.values(), *self._buffers.values())))

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Materialize the parameters at the first call, and run the ordinary module."""
        if self.__dict__.get("never_called"):
            self.initialize_parameters(*args, **kwargs)
            if self.has_uninitialized_params():
                raise ShapeError(
                    type(self).__name__,
                    f"module {self._get_name()} has not been fully initialized",
                    hint="initialize_parameters has to materialize all parameters and buffers",
                )
            del self.never_called
            # From now on it is the ordinary class, without this check in every call.
            if self.cls_to_become is not None:
                self.__class__ = self.cls_to_become
                return self(*args, **kwargs)
        return super().__call__(*args, **kwargs)

    def _load_from_state_dict(
        self, state_dict: Mapping[str, Any], prefix: str, *others: Any
    ) -> None:
        for name, tensor in own_state(self):
            saved = state_dict.get(prefix + name)
            # The saved tensor has the size that the first input would have given.
            if isinstance(saved, Tensor) and not is_lazy(saved):
                materialize_lazy(tensor, saved.shape)
        super()._load_from_state_dict(state_dict, prefix, *others)


def materialize_lazy(tensor: object, shape: Sequence[int]) -> None:
    """Materialize a parameter or buffer that is still uninitialized."""
    if isinstance(tensor, UninitializedTensorMixin):
        tensor.materialize(shape)
