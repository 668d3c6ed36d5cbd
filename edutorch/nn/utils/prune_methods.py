"""Pruning methods: how the masks of `prune.py` are computed.

A method computes a mask in `compute_mask`; several are chained, each applied to the elements
that the earlier ones have kept.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, ClassVar

from ...core.tensor import Tensor
from ...errors import EdutorchError
from ...modes import no_grad
from ...ops import ones_like, rand, reshape, topk, zeros_like
from ..modules.module import Module
from .prune_amounts import channel_norms, check_amount, check_matrix, resolve_count

__all__ = [
    "BasePruningMethod", "CustomFromMask", "Identity", "L1Unstructured", "LnStructured",
    "PruningContainer", "RandomStructured", "RandomUnstructured",
]  # fmt: skip


class PruningError(EdutorchError, AssertionError):
    """Scores or masks do not fit the parameter (an AssertionError, as in PyTorch)."""


class BasePruningMethod:
    """The base of pruning methods; a subclass implements `compute_mask`.

    Its `PRUNING_TYPE` says what it considers when the tensor is pruned already:
    "unstructured": only the remaining elements; "structured": only the channels along its
    `dim` with remaining elements; "global": everything.
    """

    PRUNING_TYPE: ClassVar[str]
    _tensor_name: str = ""

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        """Return a mask of zeros and ones for the scores `t`, given the current mask."""
        raise NotImplementedError(f"{type(self).__name__} has no compute_mask")

    def __call__(self, module: Module, inputs: Any) -> None:
        setattr(module, self._tensor_name, self.apply_mask(module))

    def apply_mask(self, module: Module) -> Tensor:
        """Return the parameter with its mask applied."""
        original = getattr(module, f"{self._tensor_name}_orig")
        return getattr(module, f"{self._tensor_name}_mask").to(original.dtype) * original

    @classmethod
    def apply(
        cls, module: Module, name: str, *args: Any, importance_scores: Tensor | None = None,
        **kwargs: Any,
    ) -> BasePruningMethod:  # fmt: skip
        """Prune a parameter of a module, and register a hook that does so before each call.

        Raises: AssertionError: the scores do not have the parameter's shape.
        """
        method = cls(*args, **kwargs)
        method._tensor_name = name
        original = getattr(module, name)
        scores = original if importance_scores is None else importance_scores
        check_same_shape(scores, original, name)
        hook_id = find_hook(module, name)
        if hook_id is None:
            with no_grad():
                mask = method.compute_mask(scores.detach(), ones_like(original.detach()))
            module.register_parameter(f"{name}_orig", original)
            del module._parameters[name]
        else:
            old: Any = module._forward_pre_hooks[hook_id].function
            method = (old if isinstance(old, PruningContainer) else PruningContainer(old)).add(
                method
            )
            old_mask = getattr(module, f"{name}_mask").detach().clone()
            with no_grad():
                mask = method.compute_mask(scores.detach(), old_mask)
            del module._forward_pre_hooks[hook_id]
        module.register_buffer(f"{name}_mask", mask)
        setattr(module, name, method.apply_mask(module))
        module.register_forward_pre_hook(method)
        return method

    def prune(
        self, t: Tensor, default_mask: Tensor | None = None,
        importance_scores: Tensor | None = None,
    ) -> Tensor:  # fmt: skip
        """Return a pruned tensor, without registering anything.

        >>> L1Unstructured(1).prune(tensor([3.0, -1.0]))
        tensor([3., -0.])
        """
        scores = t if importance_scores is None else importance_scores
        check_same_shape(scores, t, "t")
        mask = ones_like(t) if default_mask is None else default_mask
        return t * self.compute_mask(scores, mask)

    def remove(self, module: Module) -> None:
        """Turn the parameter into an ordinary one; pruned elements stay 0."""
        name = self._tensor_name
        weight = self.apply_mask(module).detach()
        delattr(module, name)
        original: Any = module._parameters.pop(f"{name}_orig")
        original.data = weight
        del module._buffers[f"{name}_mask"]
        setattr(module, name, original)


def check_same_shape(scores: Tensor, tensor: Tensor, name: str) -> None:
    """Raise PruningError unless scores have the shape of a tensor."""
    if scores.shape != tensor.shape:
        raise PruningError(
            None, f"importance_scores should have the same shape as parameter {name}, got "
            f"{scores.shape} vs {tensor.shape}",
        )  # fmt: skip


def find_hook(module: Module, name: str | None = None) -> int | None:
    """Return the id of the hook that prunes this parameter (or any), or None."""
    for hook_id, hook in module._forward_pre_hooks.items():
        method = hook.function
        if isinstance(method, BasePruningMethod) and name in (None, method._tensor_name):
            return hook_id
    return None


class PruningContainer(BasePruningMethod):
    """A chain of methods for one parameter: the last one prunes the remaining elements."""

    def __init__(self, *methods: BasePruningMethod) -> None:
        self._pruning_methods: tuple[BasePruningMethod, ...] = ()
        if methods:
            self._tensor_name = methods[0]._tensor_name
        for method in methods:
            self.add_pruning_method(method)

    def add(self, method: BasePruningMethod) -> PruningContainer:
        """Add a method and return the container."""
        self.add_pruning_method(method)
        return self

    def add_pruning_method(self, method: Any) -> None:
        """Add a method. Raises: TypeError: not a method. ValueError: for another parameter."""
        if not isinstance(method, BasePruningMethod):
            raise TypeError(f"{type(method)} is not a BasePruningMethod subclass")
        if self._tensor_name != method._tensor_name:
            raise ValueError(
                "Can only add pruning methods acting on the parameter named "
                f"'{self._tensor_name}' to PruningContainer {self}. Found '{method._tensor_name}'"
            )
        self._pruning_methods += (method,)

    def __len__(self) -> int:
        return len(self._pruning_methods)

    def __iter__(self) -> Iterator[BasePruningMethod]:
        return iter(self._pruning_methods)

    def __getitem__(self, index: int) -> BasePruningMethod:
        return self._pruning_methods[index]

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        """Apply the last method to the remaining elements."""
        method, mask = self._pruning_methods[-1], default_mask
        new = mask.to(t.dtype).clone()
        if method.PRUNING_TYPE == "global":
            part: Any = ...
        elif method.PRUNING_TYPE == "unstructured":
            part = mask == 1
        elif method.PRUNING_TYPE == "structured":
            axis = method.dim % t.ndim  # type: ignore[attr-defined]
            remaining = mask.sum([index for index in range(t.ndim) if index != axis]) != 0
            part = (slice(None),) * axis + (remaining,)
        else:
            raise ValueError(f"Unrecognized PRUNING_TYPE {method.PRUNING_TYPE}")
        new[part] = method.compute_mask(t[part], mask[part]).to(new.dtype)
        return new


class Identity(BasePruningMethod):
    """Prune nothing; the parameter gets a mask of ones."""

    PRUNING_TYPE = "unstructured"

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        """Return the current mask."""
        return default_mask


class Amount(BasePruningMethod):
    """The base of methods that prune a count (int) or a fraction (float)."""

    def __init__(self, amount: float) -> None:
        self.amount = check_amount(amount)


class Unstructured(Amount):
    """Prune the elements with the lowest scores."""

    PRUNING_TYPE = "unstructured"

    def scores(self, t: Tensor) -> Tensor:
        """Return a score for each element."""
        raise NotImplementedError

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        """Prune the elements with the lowest scores."""
        mask, count = default_mask.clone(), resolve_count(self.amount, t.numel())
        if count:
            flat = reshape(mask, (-1,))
            flat[topk(reshape(self.scores(t), (-1,)), count, largest=False)[1]] = 0
            mask = reshape(flat, mask.shape)
        return mask


class L1Unstructured(Unstructured):
    """Prune the elements with the smallest absolute values."""

    def scores(self, t: Tensor) -> Tensor:
        """Return absolute values."""
        return t.abs()


class RandomUnstructured(Unstructured):
    """Prune random elements."""

    def scores(self, t: Tensor) -> Tensor:
        """Return random scores."""
        return rand(t.shape, device=t.device)


class Structured(Amount):
    """Prune the channels along `dim` with the lowest scores."""

    PRUNING_TYPE = "structured"

    def __init__(self, amount: float, dim: int = -1) -> None:
        super().__init__(amount)
        self.dim = dim

    def scores(self, t: Tensor) -> Tensor:
        """Return a score for each channel."""
        raise NotImplementedError

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        """Prune the channels with the lowest scores."""
        check_matrix(t, self.dim)
        channels = t.shape[self.dim]
        count = resolve_count(self.amount, channels)
        if not count:
            return default_mask
        kept = topk(self.scores(t), channels - count)[1]
        mask = zeros_like(t).index_fill(self.dim, kept, 1)
        return mask * default_mask.to(mask.dtype)


class LnStructured(Structured):
    """Prune the channels along `dim` with the smallest Lₙ norms."""

    def __init__(self, amount: float, n: Any, dim: int = -1) -> None:
        super().__init__(amount, dim)
        self.n = n

    def scores(self, t: Tensor) -> Tensor:
        """Return the norms of the channels."""
        return channel_norms(t, self.n, self.dim)


class RandomStructured(Structured):
    """Prune random channels along `dim`."""

    def scores(self, t: Tensor) -> Tensor:
        """Return random scores."""
        return rand(t.shape[self.dim], device=t.device)


class CustomFromMask(BasePruningMethod):
    """Prune the elements where a given mask is 0."""

    PRUNING_TYPE = "global"

    def __init__(self, mask: Tensor) -> None:
        self.mask = mask

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        """Return the product of both masks. Raises: AssertionError: their shapes differ."""
        if default_mask.shape != self.mask.shape:
            raise PruningError(
                None, f"default_mask shape {default_mask.shape} must match self.mask shape "
                f"{self.mask.shape}",
            )  # fmt: skip
        return default_mask * self.mask.to(default_mask.dtype)
