"""Random tensors. Each device has a default generator; `manual_seed` seeds all of them.

The same seed gives the same values in every run, and on every device: see `backends/philox.py`.
"""

from __future__ import annotations

import functools
import json
import math
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any
from weakref import WeakSet

import numpy as np

from .. import backends, dtypes
from ..backends import Backend, legacy_random
from ..backends.batching import batched_generator
from ..backends.device import DeviceLike, backend_for
from ..backends.numpy import Number
from ..backends.philox import STATE_BYTES
from ..core.composed import as_method, recorded_as, takes_out, write_into
from ..core.error_messages import check_memory, is_any_true
from ..core.shapes import broadcast_shapes
from ..core.storage import layout, memory_format
from ..core.tensor import Tensor, wrap
from ..dtypes import DTypeLike
from ..errors import (
    ArgumentError,
    DTypeError,
    InvalidValueError,
    ShapeError,
    ValueRangeError,
    refuse_complex,
)  # fmt: skip
from ..modes import current, no_grad
from .comparison import where
from .conversion import draw_rows_outside
from .creation import (
    empty_like,
    parse_size,
    refuse_storage_dtype,
    require_strided,
    scalar_of,
    wrap_new,
    zeros,
    zeros_like,
)

__all__ = [
    "Generator", "bernoulli", "get_rng_state", "initial_seed", "manual_seed", "multinomial",
    "normal", "rand", "rand_like", "randint", "randint_like", "randn", "randn_like", "randperm",
    "seed", "set_rng_state",
]  # fmt: skip


def normalize_seed(seed: Number) -> int:
    """Return a seed as an unsigned 64-bit integer; negative ones wrap around.

    Raises: ValueError: it needs more bits.
    """
    value = int(seed)
    if not -(2**63) <= value < 2**64:
        raise InvalidValueError("manual_seed", f"a seed has 64 bits, got {value}")
    return value % 2**64


class Generator:
    """A random number generator on one device.

    >>> Generator().manual_seed(3).initial_seed()
    3
    """

    def __init__(self, device: DeviceLike = "cpu") -> None:
        self._backend = backend_for(device)
        self.seed()
        ALL_GENERATORS.add(self)

    @property
    def device(self) -> str:
        """The name of its device."""
        return self._backend.device_name

    def manual_seed(self, seed: int) -> Generator:
        """Restart from `seed`, which determines all following values."""
        self._seed = normalize_seed(seed)
        self.random = self._backend.generator(self._seed)
        return self

    def seed(self) -> int:
        """Restart from a nondeterministic seed, and return it."""
        self.manual_seed(int.from_bytes(os.urandom(7), "little"))
        return self._seed

    def initial_seed(self) -> int:
        """Return the seed it was last started from."""
        return self._seed

    def clone_state(self) -> Generator:
        """Return a new generator with the same state."""
        return Generator(self.device).set_state(self.get_state())

    def get_state(self) -> Tensor:
        """Return seed and offset, as a CPU tensor of 16 bytes that fits every device."""
        state = self.random.get_state()
        if isinstance(state, dict):  # of a generator before Philox4x32
            text = json.dumps(
                {"seed": self._seed, "random": state},
                default=lambda array: [str(array.dtype), array.tolist()],
            )
            state = np.frombuffer(text.encode(), np.uint8).copy()
        return wrap(state)

    def set_state(self, new_state: Tensor) -> Generator:
        """Restore a state that `get_state` returned, also one of an earlier version.

        Raises: TypeError: not a tensor of bytes. ValueError: not a state.
        """
        if new_state._array.dtype != np.uint8:
            raise ArgumentError(
                "set_state", f"expected the bytes of get_state, got {new_state.dtype}"
            )
        state = backends.of(new_state._array).to_numpy(new_state._array)
        if state.tobytes()[:1] == b"{" and state.size > STATE_BYTES:
            saved = json.loads(state.tobytes())
            self._seed = normalize_seed(saved["seed"])
            self.random = legacy_random.restore(self._backend, decode_arrays(saved["random"]))
        else:
            if isinstance(self.random, legacy_random.LEGACY):
                self.random = self._backend.generator(0)
            self.random.set_state(state)
            self._seed = int.from_bytes(state[:8].tobytes(), "little")
        return self

    def __reduce__(self) -> Any:
        """Pickle its device and its state."""
        return restore_generator, (self.device, self.get_state())


def restore_generator(device: str, state: Tensor) -> Generator:
    """Make a generator of a pickled one."""
    return Generator(device).set_state(state)


def decode_arrays(value: Any) -> Any:
    """Decode the arrays that `Generator.get_state` wrote as dtype and values, before 16 bytes."""
    if isinstance(value, dict):
        return {key: decode_arrays(item) for key, item in value.items()}
    return np.asarray(value[1], value[0]) if isinstance(value, list) else value


_GENERATORS: dict[str, Generator] = {}
ALL_GENERATORS: WeakSet[Generator] = WeakSet()
_seed: int | None = None


def forget_generators(device: str) -> None:
    """Drop the default generators of cards that were replaced."""
    for name in [name for name in _GENERATORS if name.partition(":")[0] == device]:
        del _GENERATORS[name]


backends.forget_cards.append(forget_generators)


def default_generator(backend: Backend) -> Generator:
    """Return the default generator of a device."""
    name = backend.device_name
    generator = _GENERATORS.get(name)
    if generator is None:
        generator = _GENERATORS[name] = Generator(name)
        if _seed is not None:
            generator.manual_seed(_seed)
    return generator


def manual_seed(seed: int) -> Generator:
    """Seed the generators of all devices, and return the CPU's.

    >>> _ = manual_seed(0); first = rand(2)
    >>> _ = manual_seed(0); equal(first, rand(2))
    True
    """
    global _seed
    _seed = normalize_seed(seed)
    for generator in _GENERATORS.values():
        generator.manual_seed(_seed)
    return default_generator(backends.CPU)


def initial_seed() -> int:
    """Return the seed that the CPU's generator started from.

    >>> _ = manual_seed(5); initial_seed()
    5
    """
    return default_generator(backends.CPU).initial_seed()


def seed() -> int:
    """Seed the generators of all devices nondeterministically, and return the seed.

    >>> before = seed()
    >>> initial_seed() == before
    True
    """
    new_seed = int.from_bytes(os.urandom(7), "little")
    manual_seed(new_seed)
    return new_seed


def random_source(generator: Generator | None, backend: Backend) -> Any:
    source = default_generator(backend) if generator is None else generator
    if not isinstance(source, Generator):
        type_name = type(source).__name__
        raise ArgumentError("random", f"argument `generator` must be a Generator, not {type_name}")
    levels = current().batches
    return batched_generator(source.random, levels) if levels else source.random


def host_source(
    distribution: str, generator: Generator | None, backend: Backend
) -> Callable[[tuple[int, ...]], np.ndarray]:
    """Return a function that draws samples in double precision for the host.

    What is computed on the host for a tensor of a device is drawn from the device's stream: so a
    sample that needs draws of both is the same on every device.

    Args:
        distribution: "uniform" or "normal".
        generator: of any device; None is that of `backend`.
    """
    random = random_source(generator, backend)

    def draw_on_host(shape: tuple[int, ...]) -> np.ndarray:
        samples = getattr(random, distribution)(shape, np.dtype(np.float64))
        return np.asarray(backends.of(samples).to_numpy(samples))

    return draw_on_host


def floating_dtype(name: str, dtype: DTypeLike) -> Any:
    """Return the dtype to draw.

    Raises: DTypeError: not floating-point: integers from [0, 1) would all be 0.
    """
    array_dtype = dtypes.array_type(dtype or dtypes.get_default_dtype())
    refuse_storage_dtype(name, array_dtype)
    if array_dtype not in dtypes.DIFFERENTIABLE:
        raise DTypeError(
            name, "draws floating numbers", {"dtype": dtype}, "for integers there is randint"
        )
    return array_dtype


def draw(random: Any, distribution: str, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Any:
    """Draw values of a distribution; both parts of complex ones, of total variance 1."""
    if dtype.kind != "c":
        return getattr(random, distribution)(shape, dtype)
    parts = getattr(random, distribution)((*shape, 2), dtypes.of(dtype).to_real().numpy)
    return (parts if distribution == "uniform" else parts * 0.5**0.5).view(dtype)[..., 0]


def draw_tensor(
    name: str, distribution: str, size: Any, dtype: DTypeLike, device: DeviceLike,
    generator: Generator | None, out: Tensor | None, requires_grad: bool,
) -> Tensor:  # fmt: skip
    """The common implementation of `rand` and `randn`."""
    if out is not None:
        dtype, device = dtype or out.dtype, out.device
    backend = backend_for(device)
    shape, array_dtype = parse_size(name, size), floating_dtype(name, dtype)
    check_memory(name, shape, array_dtype, backend.xp)
    samples = draw(random_source(generator, backend), distribution, shape, array_dtype)
    return wrap_new(samples, requires_grad) if out is None else write_into(name, out, wrap(samples))


def rand(
    *args: Any, size: Any = None, generator: Generator | None = None, out: Tensor | None = None,
    dtype: DTypeLike = None, layout: layout | None = None, device: DeviceLike = None,
    requires_grad: bool = False, pin_memory: bool = False,
) -> Tensor:  # fmt: skip
    """Samples from the uniform distribution on [0, 1).

    >>> rand(2, 3).shape
    torch.Size([2, 3])
    """
    size = args if size is None else (size,)
    require_strided("rand", layout)
    return draw_tensor("rand", "uniform", size, dtype, device, generator, out, requires_grad)


def randn(
    *args: Any, size: Any = None, generator: Generator | None = None, out: Tensor | None = None,
    dtype: DTypeLike = None, layout: layout | None = None, device: DeviceLike = None,
    requires_grad: bool = False, pin_memory: bool = False,
) -> Tensor:  # fmt: skip
    """Samples from the normal distribution with mean 0 and variance 1.

    >>> randn(2, 3).shape
    torch.Size([2, 3])
    """
    size = args if size is None else (size,)
    require_strided("randn", layout)
    return draw_tensor("randn", "normal", size, dtype, device, generator, out, requires_grad)


def randint(
    low: int = 0, high: Any = None, size: Any = None, *, generator: Generator | None = None,
    out: Tensor | None = None, dtype: DTypeLike = None, layout: layout | None = None,
    device: DeviceLike = None, requires_grad: bool = False, pin_memory: bool = False,
) -> Tensor:  # fmt: skip
    """Random integers from low (0 if only one bound is given) up to but excluding high.

    >>> (randint(3, (10,)) < 3).all()
    tensor(True)
    """
    require_strided("randint", layout)
    if size is None:
        low, high, size = 0, low, high
    elif high is None:
        low, high = 0, low
    low, high = scalar_of("randint", low), scalar_of("randint", high)
    if low >= high:
        raise ShapeError("randint", f"needs low < high, got {low} and {high}")
    refuse_complex("randint", dtype=dtype)
    if dtype is not None:
        if dtypes.as_dtype(dtype).is_floating_point:
            refuse_storage_dtype("randint", dtypes.array_type(dtype))
        check_bounds("randint", low, high, dtypes.of(dtypes.array_type(dtype)))
    if out is not None:
        dtype, device = dtype or out.dtype, out.device
    backend = backend_for(device)
    shape = parse_size("randint", (size,))
    check_memory("randint", shape, np.dtype(np.int64), backend.xp)
    samples = random_source(generator, backend).integers(low, high, shape)
    samples = samples if dtype is None else samples.astype(dtypes.array_type(dtype))
    return (
        wrap_new(samples, requires_grad)
        if out is None
        else write_into("randint", out, wrap(samples))
    )


def check_bounds(name: str, low: int, high: int, dtype: dtypes.dtype) -> None:
    """Raise ValueRangeError if a dtype cannot represent the range [low, high)."""
    if dtype.is_floating_point or dtype.name == "bool":
        least, most = (0, 1) if dtype.name == "bool" else (-math.inf, math.inf)
    else:
        limits = dtypes.iinfo(dtype)
        least, most = limits.min, limits.max
    for what, value in (("from", low), ("to - 1", high - 1)):
        if not least <= value <= most:
            raise ValueRangeError(name, f"{what} is out of bounds for {dtype}: {value}")


def randperm(
    n: int, *, generator: Generator | None = None, out: Tensor | None = None,
    dtype: DTypeLike = None, layout: layout | None = None, device: DeviceLike = None,
    requires_grad: bool = False, pin_memory: bool = False,
) -> Tensor:  # fmt: skip
    """A random permutation of 0 … n-1.

    >>> randperm(4).sum()
    tensor(6)
    """
    require_strided("randperm", layout)
    refuse_complex("randperm", dtype=dtype)
    if n < 0:
        raise ShapeError("randperm", f"n cannot be negative, got {n}")
    if out is not None:
        dtype, device = dtype or out.dtype, out.device
    backend = backend_for(device)
    check_memory("randperm", (n,), np.dtype(np.int64), backend.xp)
    order = random_source(generator, backend).permutation(n)
    samples = backend.on_card(order.astype, dtypes.array_type(dtype or dtypes.int64))
    return (
        wrap_new(samples, requires_grad)
        if out is None
        else write_into("randperm", out, wrap(samples))
    )


# Distributions -----------------------------------------------------------------------------------


def normal(
    mean: Tensor | Number = 0.0, std: Tensor | Number = 1.0, size: Sequence[int] | None = None, *,
    generator: Generator | None = None, out: Tensor | None = None, dtype: DTypeLike = None,
    layout: layout | None = None, device: DeviceLike = None, pin_memory: bool = False,
    requires_grad: bool = False,
) -> Tensor:  # fmt: skip
    """Normal samples with the given mean and standard deviation (scalars or tensors).

    Their gradient is 0: use mean + std * randn_like(std) for the reparametrized one.

    Raises: ShapeError: scalars without a size. ValueRangeError: std is negative.

    >>> normal(0.0, 1.0, (3,)).shape
    torch.Size([3])
    """
    moments = [moment for moment in (mean, std) if isinstance(moment, Tensor)]
    if is_any_true(std < 0) if isinstance(std, Tensor) else std < 0:
        raise ValueRangeError("normal", "expects all elements of std >= 0")
    if size is not None and moments:
        raise ArgumentError(
            "normal", "`size` goes with numbers; tensors have a shape of their own",
            {"size": size},
        )  # fmt: skip
    if size is not None and not moments:
        noise = randn(
            size=tuple(size), generator=generator, dtype=dtype, layout=layout, device=device
        )
    elif moments:
        shape = broadcast_shapes(*(moment.shape for moment in moments))
        noise_dtype = functools.reduce(dtypes.promote_types, (moment.dtype for moment in moments))
        noise = randn(size=shape, generator=generator, dtype=noise_dtype, device=moments[0].device)
    elif out is not None:
        noise = randn(size=tuple(out.shape), generator=generator, dtype=out.dtype)
    else:
        raise ShapeError("normal", "needs `size` when mean and std are both numbers")
    with no_grad():
        samples = noise * std + mean
    if out is not None:
        return write_into("normal", out, samples)
    for moment in moments:
        if moment.requires_grad:  # as in PyTorch, its gradient is 0
            samples = samples + where(zeros_like(moment, dtype=dtypes.bool), moment, 0.0)
    return samples.requires_grad_() if requires_grad else samples


@as_method
@takes_out
@recorded_as("BernoulliBackward0")
def bernoulli(
    input: Tensor, p: float | None = None, *, generator: Generator | None = None
) -> Tensor:
    """1 with the probability given by the input (or p), else 0. Its gradient is 0.

    Raises: ValueRangeError: a probability is not in [0, 1].

    >>> bernoulli(tensor([0.0, 1.0]))
    tensor([0., 1.])
    """
    probability: Any = input.detach() if p is None else p
    is_probability = (probability >= 0) & (probability <= 1)
    if is_any_true(~is_probability) if p is None else not is_probability:
        raise ValueRangeError("bernoulli", "expects probabilities from 0 to 1")
    if p is None and not input.is_floating_point():
        rows = {"input": str(input.dtype)}
        raise DTypeError("bernoulli", "expects floating probabilities", rows, "x.float()")
    noise_dtype = input.dtype if input.is_floating_point() else None
    uniform = rand(
        size=tuple(input.shape), generator=generator, device=input.device, dtype=noise_dtype
    )
    y = (uniform < probability).to(input.dtype)
    return y + input * 0 if p is None and input.requires_grad else y


@as_method
@takes_out
def multinomial(
    input: Tensor, num_samples: int, replacement: bool = False, *,
    generator: Generator | None = None,
) -> Tensor:  # fmt: skip
    """Indices sampled with the given weights, per row.

    Without replacement by the Gumbel top-k trick: the largest of log(weight) + noise.

    Raises: ShapeError: more samples than positive weights, without replacement.

    >>> multinomial(tensor([0.0, 1.0]), 1)
    tensor([1])
    """
    if not input.is_floating_point():
        rows = {"input": str(input.dtype)}
        raise DTypeError("multinomial", "only supports floating-point weights", rows, "x.float()")
    if num_samples <= 0:
        raise ValueRangeError("multinomial", f"cannot sample {num_samples} samples")
    if input.ndim not in (1, 2):
        rows = {"input": tuple(input.shape)}
        raise ShapeError("multinomial", "expects weights in a vector or rows of them", rows)
    if backends.of(input._array).level:
        return draw_rows_outside(
            lambda rows: multinomial(rows, num_samples, replacement, generator=generator), input
        )
    backend = backends.of(input._array)
    if not backends.has_elements(input._array):
        return zeros(*input.shape[:-1], num_samples, dtype=dtypes.int64, device=input.device)
    weights = np.atleast_2d(backend.to_numpy(input._array)).astype(np.float64)
    if (weights < 0).any() or not np.isfinite(weights).all() or (weights.sum(1) <= 0).any():
        raise ShapeError("multinomial", "weights must be finite, not negative, and not all 0")
    if not replacement and num_samples > (weights > 0).sum(1).min(initial=weights.shape[1]):
        raise ShapeError(
            "multinomial", f"cannot draw {num_samples} samples without replacement",
            {"input": tuple(input.shape)},
        )  # fmt: skip
    uniform = host_source("uniform", generator, backend)
    if replacement:
        edges = np.cumsum(weights / weights.sum(1, keepdims=True), 1)
        edges[:, -1] = 1.0
        points = uniform((len(weights), num_samples))
        pairs = zip(edges, points, strict=True)
        indices = np.stack([np.searchsorted(edge, point, "right") for edge, point in pairs])
    else:
        with np.errstate(divide="ignore"):
            keys = np.log(weights) - np.log(-np.log1p(-uniform(weights.shape)))
        indices = np.argsort(-keys, 1, kind="stable")[:, :num_samples]
    indices = indices if input.ndim > 1 else indices[0]
    return wrap(backend.from_numpy(np.ascontiguousarray(indices, np.int64)))


# The state of the generators -----------------------------------------------------------------


def get_rng_state() -> Tensor:
    """Return the state of the CPU's generator as a tensor of bytes.

    >>> state = get_rng_state(); first = rand(2)
    >>> set_rng_state(state); equal(first, rand(2))
    True
    """
    return default_generator(backends.CPU).get_state()


def set_rng_state(new_state: Tensor) -> None:
    """Restore the CPU's generator to a state that `get_rng_state` returned.

    Raises: TypeError: not a tensor of bytes.

    >>> set_rng_state(get_rng_state())
    """
    default_generator(backends.CPU).set_state(new_state)


@contextmanager
def fork_rng(
    devices: Sequence[Any] | None = None, enabled: bool = True, _caller: str = "fork_rng",
    _devices_kw: str = "devices", device_type: str = "cuda",
) -> Iterator[None]:  # fmt: skip
    """Restore the state of the generators after the `with` block.

    Args:
        devices: those to restore besides the CPU.
        enabled: False to do nothing.

    >>> state = get_rng_state()
    >>> with edutorch.random.fork_rng():
    ...     _ = rand(2)
    >>> equal(state, get_rng_state())
    True
    """
    saved_backends = [backends.CPU, *map(backend_for, devices or ())] if enabled else []
    generators = [default_generator(backend) for backend in saved_backends]
    states = [generator.get_state() for generator in generators]
    try:
        yield
    finally:
        for generator, state in zip(generators, states, strict=True):
            generator.set_state(state)


# As another tensor ---------------------------------------------------------------------------


def rand_like(
    input: Tensor, *, generator: Generator | None = None, dtype: DTypeLike = None,
    layout: layout | None = None, device: DeviceLike = None, requires_grad: bool = False,
    memory_format: memory_format | None = None,
) -> Tensor:  # fmt: skip
    """Uniform samples on [0, 1) in the shape of another tensor.

    >>> rand_like(zeros(2)).shape
    torch.Size([2])
    """
    samples = rand(
        size=tuple(input.shape), dtype=dtype or input.dtype, device=device or input.device,
        generator=generator, layout=layout,
    )  # fmt: skip
    return lay_out_like(input, samples, requires_grad, memory_format)


def randn_like(
    input: Tensor, *, generator: Generator | None = None, dtype: DTypeLike = None,
    layout: layout | None = None, device: DeviceLike = None, requires_grad: bool = False,
    memory_format: memory_format | None = None,
) -> Tensor:  # fmt: skip
    """Standard normal samples in the shape of another tensor.

    >>> randn_like(zeros(2)).shape
    torch.Size([2])
    """
    samples = randn(
        size=tuple(input.shape), dtype=dtype or input.dtype, device=device or input.device,
        generator=generator, layout=layout,
    )  # fmt: skip
    return lay_out_like(input, samples, requires_grad, memory_format)


def randint_like(
    input: Tensor, low: Any = 0, high: Any = None, *, generator: Generator | None = None,
    dtype: DTypeLike = None, layout: layout | None = None, device: DeviceLike = None,
    requires_grad: bool = False, memory_format: memory_format | None = None,
) -> Tensor:  # fmt: skip
    """Random integers from [low, high), or [0, low), in the shape and dtype of another tensor.

    >>> (randint_like(zeros(4), 2, 3) == 2).all()
    tensor(True)
    """
    low, high = (0, low) if high is None else (low, high)
    samples = randint(
        low, high, tuple(input.shape), dtype=dtype or input.dtype,
        device=device or input.device, generator=generator, layout=layout,
    )  # fmt: skip
    return lay_out_like(input, samples, requires_grad, memory_format)


def lay_out_like(
    input: Tensor, samples: Tensor, requires_grad: bool, memory_format: memory_format | None
) -> Tensor:
    """Return the samples in the memory order of `empty_like`."""
    if backends.of(samples._array).level:
        return samples.requires_grad_(requires_grad)  # inside vmap the memory order is irrelevant
    y = empty_like(
        input, dtype=samples.dtype, device=samples.device, requires_grad=False,
        memory_format=memory_format,
    )  # fmt: skip
    y._array[...] = samples._array
    return y.requires_grad_() if requires_grad else y
