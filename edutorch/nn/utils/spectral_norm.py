"""Spectral norm by a forward pre-hook, which computes the weight before each call.

`parametrizations.spectral_norm` is the newer form.
"""

from __future__ import annotations

from typing import Any

from ...core.tensor import Tensor
from ...modes import no_grad
from ...ops import dot, mv, randn
from .. import functional as F
from ..modules.conv import _ConvTransposeNd
from ..modules.module import Module
from ..parameter import Parameter
from .weight_norm import refuse_duplicate, refuse_lazy, remove_hook

__all__ = ["remove_spectral_norm", "spectral_norm"]


def as_matrix(weight: Tensor, dim: int) -> Tensor:
    """Return a weight as a matrix with `dim` as the axis of rows."""
    return weight.movedim(dim, 0).reshape(weight.shape[dim], -1)


def output_dim(module: Module, dim: int | None) -> int:
    """Return `dim`, by default the axis of the outputs in the module's weight."""
    if dim is not None:
        return dim
    return 1 if isinstance(module, _ConvTransposeNd) else 0


def check_iterations(n_power_iterations: int) -> None:
    if n_power_iterations <= 0:
        raise ValueError(
            "Expected n_power_iterations to be positive, but got "
            f"n_power_iterations={n_power_iterations}"
        )


def random_direction(like: Tensor, size: int, eps: float) -> Tensor:
    """Return a random unit vector."""
    return F.normalize(randn(size, dtype=like.dtype, device=like.device), dim=0, eps=eps)


class SpectralNorm:
    """Hook that sets weight = w / σ(w), with w's largest singular value σ, before each call.

    Power iteration approximates σ: v ← wᵀu, u ← wv, σ = u·wv. One step per training call is
    enough, since w changes slowly.
    """

    def __init__(self, name: str, n_power_iterations: int, dim: int, eps: float) -> None:
        check_iterations(n_power_iterations)
        self.name, self.n_power_iterations, self.dim, self.eps = name, n_power_iterations, dim, eps

    def compute_weight(self, module: Module, do_power_iteration: bool) -> Tensor:
        """Return the current weight, divided by its largest singular value."""
        weight, u, v = (getattr(module, f"{self.name}_{part}") for part in ("orig", "u", "v"))
        matrix = as_matrix(weight, self.dim)
        if do_power_iteration:
            with no_grad():
                for _ in range(self.n_power_iterations):
                    v.copy_(F.normalize(mv(matrix.t(), u), dim=0, eps=self.eps))
                    u.copy_(F.normalize(mv(matrix, v), dim=0, eps=self.eps))
        u, v = u.clone(), v.clone()  # the buffers may change before backward
        return weight / dot(u, mv(matrix, v))

    def __call__(self, module: Module, inputs: tuple[Any, ...]) -> None:
        setattr(module, self.name, self.compute_weight(module, module.training))

    def remove(self, module: Module) -> None:
        """Turn the weight into an ordinary parameter."""
        with no_grad():
            weight = self.compute_weight(module, False)
        for name in (self.name, *(f"{self.name}_{part}" for part in ("u", "v", "orig"))):
            delattr(module, name)
        module.register_parameter(self.name, Parameter(weight.detach()))


def spectral_norm(
    module: Module, name: str = "weight", n_power_iterations: int = 1, eps: float = 1e-12,
    dim: int | None = None,
) -> Any:  # fmt: skip
    """Divide a weight by its largest singular value, so that the layer has Lipschitz constant 1.

    Args:
        n_power_iterations: steps of power iteration in each training call.
        eps: the minimum of the norms to divide by.
        dim: the axis of the outputs.

    Raises: RuntimeError: it is registered already. ValueError: no such parameter.

    Paper: Miyato et al., Spectral normalization for generative adversarial networks, 2018.

    >>> list(nn.utils.spectral_norm(nn.Linear(3, 2)).state_dict())
    ['bias', 'weight_orig', 'weight_u', 'weight_v']
    """
    refuse_duplicate(module, SpectralNorm, "spectral_norm", name)
    hook = SpectralNorm(name, n_power_iterations, output_dim(module, dim), eps)
    weight = module._parameters[name]
    if weight is None:
        raise ValueError(f"`SpectralNorm` cannot be applied as parameter `{name}` is None")
    refuse_lazy(weight, "SpectralNorm")
    rows, columns = as_matrix(weight.detach(), hook.dim).shape
    delattr(module, name)
    module.register_parameter(f"{name}_orig", weight)
    # A plain attribute, which the hook replaces before each call.
    setattr(module, name, weight.detach())
    module.register_buffer(f"{name}_u", random_direction(weight, rows, eps))
    module.register_buffer(f"{name}_v", random_direction(weight, columns, eps))
    module.register_forward_pre_hook(hook)
    return module


def remove_spectral_norm(module: Module, name: str = "weight") -> Any:
    """Turn the weight into an ordinary parameter.

    Raises: ValueError: it has no spectral norm.

    >>> layer = nn.utils.spectral_norm(nn.Linear(3, 2))
    >>> list(nn.utils.remove_spectral_norm(layer).state_dict())
    ['bias', 'weight']
    """
    return remove_hook(module, SpectralNorm, "spectral_norm", name)
