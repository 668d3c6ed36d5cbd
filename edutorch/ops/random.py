"""Random tensors. Each device has one source of numbers; `manual_seed` restarts all.

The same seed on the same device gives the same numbers, run after run.
"""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from typing import Any

import numpy as np

from .. import backends, dtypes
from ..backends import Backend
from ..core.methods import as_method, refuse_leaf, write
from ..core.shapes import broadcast_shapes
from ..core.tensor import Tensor, wrap
from ..device import backend_for
from ..errors import ShapeError
from .creation import created, sizes


class Generator:
    """A source of random numbers on one device.

    >>> Generator().manual_seed(3).initial_seed()
    3
    """

    def __init__(self, device: Any = "cpu") -> None:
        self._backend = backend_for(device)
        self.seed()

    @property
    def device(self) -> str:
        """The name of the device its numbers are made on."""
        return self._backend.name

    def manual_seed(self, seed: int) -> Generator:
        """Start again from `seed`: the same numbers follow."""
        self._seed = int(seed)
        self.random = self._backend.generator(self._seed % 2**63)
        return self

    def seed(self) -> int:
        """Start again from a seed nobody knows, and return it."""
        self.manual_seed(int.from_bytes(os.urandom(7), "little"))
        return self._seed

    def initial_seed(self) -> int:
        """Return the seed of the last start."""
        return self._seed

    def get_state(self) -> Tensor:
        """Return where it stands, as a tensor of bytes on the CPU (the text of a JSON object)."""
        known = {"seed": self._seed, "random": self.random.get_state()}
        text = json.dumps(known, default=lambda array: [str(array.dtype), array.tolist()])
        return wrap(np.frombuffer(text.encode(), np.uint8).copy())

    def set_state(self, new_state: Tensor) -> Generator:
        """Go on from a state that `get_state` returned.

        Raises: TypeError: not a tensor of bytes.
        """
        if new_state._array.dtype != np.uint8:
            raise TypeError(f"set_state: expected the bytes of get_state, got {new_state.dtype}")
        known = json.loads(backends.of(new_state._array).to_numpy(new_state._array).tobytes())
        self.manual_seed(known["seed"])
        self.random.set_state(arrays_again(known["random"]))
        return self


def arrays_again(value: Any) -> Any:
    """Make arrays of what `Generator.get_state` wrote as their type and numbers."""
    if isinstance(value, dict):
        return {key: arrays_again(each) for key, each in value.items()}
    return np.asarray(value[1], value[0]) if isinstance(value, list) else value


_GENERATORS: dict[str, Generator] = {}
_seed: int | None = None


def default_generator(backend: Backend) -> Generator:
    """Return the generator that is used when none is named."""
    found = _GENERATORS.get(backend.name)
    if found is None:
        found = _GENERATORS[backend.name] = Generator(backend.name)
        if _seed is not None:
            found.manual_seed(_seed)
    return found


def manual_seed(seed: int) -> Generator:
    """Restart the generators of all devices from one seed; returns the CPU's.

    >>> _ = manual_seed(0); first = rand(2)
    >>> _ = manual_seed(0); equal(first, rand(2))
    True
    """
    global _seed
    _seed = int(seed)
    for generator in _GENERATORS.values():
        generator.manual_seed(_seed)
    return default_generator(backends.CPU)


def initial_seed() -> int:
    """Return the seed that the CPU's generator started from.

    >>> _ = manual_seed(5); initial_seed()
    5
    """
    return default_generator(backends.CPU).initial_seed()


def source(generator: Generator | None, backend: Backend) -> Any:
    chosen = default_generator(backend) if generator is None else generator
    return chosen.random


def floating(dtype: Any) -> Any:
    return dtypes.array_type(dtype or dtypes.get_default_dtype())


def rand(
    *size: Any, dtype: Any = None, device: Any = None, requires_grad: bool = False,
    generator: Generator | None = None,
) -> Tensor:  # fmt: skip
    """Numbers from the uniform distribution on [0, 1).

    >>> rand(2, 3).shape
    torch.Size([2, 3])
    """
    backend = backend_for(device)
    shape = sizes("rand", size)
    return created(source(generator, backend).uniform(shape, floating(dtype)), requires_grad)


def randn(
    *size: Any, dtype: Any = None, device: Any = None, requires_grad: bool = False,
    generator: Generator | None = None,
) -> Tensor:  # fmt: skip
    """Numbers from the normal distribution with mean 0 and variance 1.

    >>> randn(2, 3).shape
    torch.Size([2, 3])
    """
    backend = backend_for(device)
    shape = sizes("randn", size)
    return created(source(generator, backend).normal(shape, floating(dtype)), requires_grad)


def randint(
    low: int, high: Any = None, size: Any = None, *, dtype: Any = None, device: Any = None,
    requires_grad: bool = False, generator: Generator | None = None,
) -> Tensor:  # fmt: skip
    """Integers from low (0 if only one bound is given) up to but without high.

    >>> (randint(3, (10,)) < 3).all()
    tensor(True)
    """
    if size is None:
        low, high, size = 0, low, high
    if low >= high:
        raise ShapeError("randint", f"needs low < high, got {low} and {high}")
    backend = backend_for(device)
    drawn = source(generator, backend).integers(low, high, sizes("randint", (size,)))
    return created(
        drawn if dtype is None else drawn.astype(dtypes.array_type(dtype)), requires_grad
    )


def randperm(
    n: int, *, dtype: Any = None, device: Any = None, generator: Generator | None = None
) -> Tensor:
    """The numbers 0 … n-1 in random order.

    >>> randperm(4).sum()
    tensor(6)
    """
    backend = backend_for(device)
    drawn = source(generator, backend).permutation(n)
    return created(drawn.astype((dtype or dtypes.int64).numpy))


def rand_like(input: Tensor, *, dtype: Any = None, device: Any = None) -> Tensor:
    """Uniform numbers on [0, 1) in the shape of another tensor.

    >>> rand_like(zeros(2)).shape
    torch.Size([2])
    """
    return rand(*input.shape, dtype=dtype or input.dtype, device=device or input.device)


def randn_like(input: Tensor, *, dtype: Any = None, device: Any = None) -> Tensor:
    """Standard normal numbers in the shape of another tensor.

    >>> randn_like(zeros(2)).shape
    torch.Size([2])
    """
    return randn(*input.shape, dtype=dtype or input.dtype, device=device or input.device)


def normal(
    mean: Any = 0.0, std: Any = 1.0, size: Sequence[int] | None = None, *,
    generator: Generator | None = None, device: Any = None,
) -> Tensor:  # fmt: skip
    """Normal numbers with the given mean and standard deviation (numbers or tensors).

    >>> normal(0.0, 1.0, (3,)).shape
    torch.Size([3])
    """
    if size is not None:
        return randn(*size, generator=generator, device=device) * std + mean
    like = mean if isinstance(mean, Tensor) else std
    if not isinstance(like, Tensor):
        raise ShapeError("normal", "needs `size` when mean and std are both numbers")
    shape = broadcast_shapes(*(each.shape for each in (mean, std) if isinstance(each, Tensor)))
    return randn(*shape, generator=generator, device=like.device) * std + mean


@as_method
def bernoulli(input: Tensor, *, generator: Generator | None = None) -> Tensor:
    """1 with the probability that the input says, else 0.

    >>> bernoulli(tensor([0.0, 1.0]))
    tensor([0., 1.])
    """
    drawn = rand(*input.shape, generator=generator, device=input.device, dtype=input.dtype)
    return (drawn < input.detach()).to(input.dtype)


@as_method
def multinomial(
    input: Tensor, num_samples: int, replacement: bool = False, *,
    generator: Generator | None = None,
) -> Tensor:  # fmt: skip
    """Indices drawn with the given weights (each row by itself).

    Without replacement by the Gumbel trick: the largest of log(weight) + noise.

    Raises: ShapeError: more samples than positive weights, without replacement.

    >>> multinomial(tensor([0.0, 1.0]), 1)
    tensor([1])
    """
    weights = np.atleast_2d(backends.of(input._array).to_numpy(input._array)).astype(np.float64)
    if (weights < 0).any() or not np.isfinite(weights).all() or (weights.sum(1) <= 0).any():
        raise ShapeError("multinomial", "weights must be finite, not negative, and not all 0")
    if not replacement and num_samples > (weights > 0).sum(1).min():
        raise ShapeError(
            "multinomial", f"cannot draw {num_samples} samples without replacement",
            {"input": tuple(input.shape)},
        )  # fmt: skip
    random = source(generator, backends.CPU)
    if replacement:
        edges = np.cumsum(weights / weights.sum(1, keepdims=True), 1)
        edges[:, -1] = 1.0
        drawn = random.uniform((len(weights), num_samples), np.dtype(np.float64))
        found = np.stack(
            [np.searchsorted(e, d, "right") for e, d in zip(edges, drawn, strict=True)]
        )
    else:
        noise = random.uniform(weights.shape, np.dtype(np.float64))
        with np.errstate(divide="ignore"):
            keys = np.log(weights) - np.log(-np.log1p(-noise))
        found = np.argsort(-keys, 1, kind="stable")[:, :num_samples]
    found = found if input.ndim > 1 else found[0]
    return wrap(backends.of(input._array).from_numpy(np.ascontiguousarray(found)))


# Filled in place: what initialisation is made of ------------------------------------------


def _fill(input: Tensor, name: str, values: Tensor) -> Tensor:
    refuse_leaf(input, name)
    write(input, name, values._array)
    return input


@as_method
def uniform_(
    input: Tensor, from_: float = 0.0, to: float = 1.0, *, generator: Generator | None = None
) -> Tensor:
    """Overwrite with uniform numbers on [from, to).

    >>> (uniform_(zeros(4), 2, 3) >= 2).all()
    tensor(True)
    """
    drawn = rand(*input.shape, dtype=input.dtype, device=input.device, generator=generator)
    return _fill(input, "uniform_", drawn * (to - from_) + from_)


@as_method
def normal_(
    input: Tensor, mean: float = 0.0, std: float = 1.0, *, generator: Generator | None = None
) -> Tensor:
    """Overwrite with normal numbers.

    >>> math.isfinite(normal_(zeros(4)).sum())
    True
    """
    drawn = randn(*input.shape, dtype=input.dtype, device=input.device, generator=generator)
    return _fill(input, "normal_", drawn * std + mean)


@as_method
def bernoulli_(input: Tensor, p: float = 0.5, *, generator: Generator | None = None) -> Tensor:
    """Overwrite with 1 (probability p) or 0.

    >>> bernoulli_(zeros(2), 1.0)
    tensor([1., 1.])
    """
    drawn = rand(*input.shape, device=input.device, generator=generator)
    return _fill(input, "bernoulli_", (drawn < p).to(input.dtype))


@as_method
def random_(input: Tensor, low: int = 0, high: int | None = None) -> Tensor:
    """Overwrite with integers from [low, high).

    >>> (random_(zeros(4), 2, 3) == 2).all()
    tensor(True)
    """
    low, high = (0, low) if high is None and low else (low, high or 2**24)
    drawn = randint(low, high, tuple(input.shape), device=input.device)
    return _fill(input, "random_", drawn.to(input.dtype))
