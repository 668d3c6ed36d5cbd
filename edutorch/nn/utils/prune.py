"""Pruning: setting elements or channels of parameters to zero by a mask.

A pruned parameter `weight` is stored as `weight_orig`, with a buffer `weight_mask` of zeros and
ones; before each call weight = weight_mask · weight_orig. A method computes a mask in
`compute_mask`; several are chained, each applied to the elements that the earlier ones kept.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, ClassVar

from ...core.tensor import Tensor
from ...errors import DimError, EdutorchError
from ...modes import no_grad
from ...ops import norm, ones_like, rand, reshape, topk, zeros_like
from ..modules.module import Module
from .convert_parameters import parameters_to_vector


class PruningError(EdutorchError, AssertionError):
    """Scores or masks do not fit the parameter (an AssertionError, as in PyTorch)."""


# Methods --------------------------------------------------------------------------------------


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

    def __call__(self, module: Module, inputs: tuple[Any, ...]) -> None:
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
            # The same tensor under another name, so that an optimizer made before still trains it.
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
        self, t: Tensor, default_mask: Tensor | None = None, importance_scores: Tensor | None = None
    ) -> Tensor:
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

    def add_pruning_method(self, method: object) -> None:
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
        # What earlier methods pruned takes no part: an amount counts what remains.
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
            # `largest=False`: these are pruned, not kept.
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

    def __init__(self, amount: float, n: float | str, dim: int = -1) -> None:
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


# Amounts --------------------------------------------------------------------------------------


def check_amount(amount: float) -> Any:
    """Return an amount: a count (int) or a fraction (float). Raise if it is neither."""
    if not isinstance(amount, int | float):
        raise TypeError(f"Invalid type for amount: {amount}. Must be int or float.")
    if amount < 0 or (isinstance(amount, float) and amount > 1):
        raise ValueError(
            f"amount={amount} should either be a float in the range [0, 1] or a non-negative "
            "integer"
        )
    return amount


def resolve_count(amount: float, size: int) -> int:
    """Return how many of `size` elements to prune. Raise if there are not as many."""
    if isinstance(amount, float):
        return round(amount * size)
    if amount > size:
        raise ValueError(
            f"amount={amount} should be smaller than the number of parameters to prune={size}"
        )
    return amount


def check_matrix(t: Tensor, dim: int) -> None:
    """Raise unless a tensor has channels along `dim`."""
    if t.ndim <= 1:
        raise ValueError(
            "Structured pruning can only be applied to multidimensional tensors. Found tensor of "
            f"shape {t.shape} with {t.ndim} dims"
        )
    if dim >= t.ndim:
        raise DimError("prune", f"Invalid index {dim} for tensor of size {t.shape}")


def channel_norms(t: Tensor, n: float | str, dim: int) -> Tensor:
    """Return the Lₙ norm of each channel along `dim`."""
    return norm(t, n, [index for index in range(t.ndim) if index != dim % t.ndim])


__all__ = [
    "BasePruningMethod", "CustomFromMask", "Identity", "L1Unstructured", "LnStructured",
    "PruningContainer", "RandomStructured", "RandomUnstructured", "custom_from_mask",
    "global_unstructured", "identity", "is_pruned", "l1_unstructured", "ln_structured",
    "random_structured", "random_unstructured", "remove",
]  # fmt: skip


# The public functions -------------------------------------------------------------------------


def identity(module: Module, name: str) -> Any:
    """Register a mask of ones: nothing is pruned."""
    Identity.apply(module, name)
    return module


def random_unstructured(module: Module, name: str, amount: float) -> Any:
    """Prune random elements of a parameter: a count (int) or a fraction (float).

    >>> layer = random_unstructured(nn.Linear(4, 2), "weight", amount=0.25)
    >>> layer.weight_mask.sum().item()
    6.0
    """
    RandomUnstructured.apply(module, name, amount=amount)
    return module


def l1_unstructured(
    module: Module, name: str, amount: float, importance_scores: Tensor | None = None
) -> Any:
    """Prune the elements with the smallest absolute values (or the lowest scores).

    >>> layer = l1_unstructured(nn.Linear(4, 2), "weight", amount=3)
    >>> list(layer.state_dict())
    ['bias', 'weight_orig', 'weight_mask']
    """
    L1Unstructured.apply(module, name, amount=amount, importance_scores=importance_scores)
    return module


def random_structured(module: Module, name: str, amount: float, dim: int) -> Any:
    """Prune random channels along `dim`."""
    RandomStructured.apply(module, name, amount=amount, dim=dim)
    return module


def ln_structured(
    module: Module, name: str, amount: float, n: float | str, dim: int,
    importance_scores: Tensor | None = None,
) -> Any:  # fmt: skip
    """Prune the channels along `dim` with the smallest Lₙ norms."""
    LnStructured.apply(
        module, name, amount=amount, n=n, dim=dim, importance_scores=importance_scores
    )
    return module


def custom_from_mask(module: Module, name: str, mask: Tensor) -> Any:
    """Prune the elements where a mask is 0."""
    CustomFromMask.apply(module, name, mask=mask)
    return module


def global_unstructured(
    parameters: Iterable[tuple[Module, str]], pruning_method: type[BasePruningMethod],
    importance_scores: dict[tuple[Module, str], Tensor] | None = None, **kwargs: Any,
) -> None:  # fmt: skip
    """Prune several parameters together, as if concatenated into one.

    Args:
        parameters: pairs of a module and the name of a parameter.
        pruning_method: an unstructured method; `kwargs` are its arguments.
        importance_scores: scores by module and name.

    Raises: TypeError: an argument has the wrong type, or the method is structured.

    >>> layer = nn.Linear(4, 2)
    >>> global_unstructured([(layer, "weight"), (layer, "bias")], L1Unstructured, amount=5)
    >>> (layer.weight_mask.sum() + layer.bias_mask.sum()).item()
    5.0
    """
    if not isinstance(parameters, Iterable):
        raise TypeError("global_unstructured(): parameters is not an Iterable")
    if not isinstance(importance_scores, dict | None):
        raise TypeError("global_unstructured(): importance_scores must be of type dict")
    method = pruning_method(**kwargs)
    if method.PRUNING_TYPE != "unstructured":
        raise TypeError(
            'Only "unstructured" PRUNING_TYPE supported for the `pruning_method`. Found method '
            f"{pruning_method} of type {method.PRUNING_TYPE}"
        )
    targets, scores_by_target = list(parameters), importance_scores or {}
    tensors = [getattr(module, name) for module, name in targets]
    scores: Any = [
        scores_by_target.get(target, tensor)
        for target, tensor in zip(targets, tensors, strict=True)
    ]
    masks: Any = [
        getattr(module, f"{name}_mask", ones_like(tensor))
        for (module, name), tensor in zip(targets, tensors, strict=True)
    ]
    with no_grad():
        mask = PruningContainer(method).compute_mask(
            parameters_to_vector(scores), parameters_to_vector(masks)
        )
    start = 0
    for (module, name), tensor in zip(targets, tensors, strict=True):
        part = mask[start : start + tensor.numel()]
        custom_from_mask(module, name, reshape(part, tensor.shape))
        start += tensor.numel()


def remove(module: Module, name: str) -> Any:
    """Turn a pruned parameter into an ordinary one; pruned elements stay 0.

    Raises: ValueError: it is not pruned.
    """
    hook_id = find_hook(module, name)
    if hook_id is None:
        raise ValueError(
            f"Parameter '{name}' of module {module} has to be pruned before pruning can be removed"
        )
    module._forward_pre_hooks.pop(hook_id).function.remove(module)
    return module


def is_pruned(module: Module) -> bool:
    """Return True if a parameter of the module or of a submodule is pruned.

    >>> is_pruned(nn.Sequential(nn.Linear(2, 2)))
    False
    """
    return any(find_hook(child) is not None for child in module.modules())


# PyTorch's private names, which classes of others that derive from these call -------------------

_validate_pruning_amount_init = check_amount
_validate_pruning_amount = _compute_nparams_toprune = resolve_count
_compute_norm = channel_norms


def _validate_structured_pruning(t: Tensor) -> None:
    """Raise unless a tensor has channels."""
    check_matrix(t, 0)


def _validate_pruning_dim(t: Tensor, dim: int) -> None:
    """Raise unless a tensor has channels along `dim`."""
    check_matrix(t, dim)
