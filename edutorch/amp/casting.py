"""Conversion of the arguments of one op under autocast.

While autocast is on for some device, `modes.autocast` is an `ArgumentCaster`. `core/dispatch.py`
passes it the operands of each op, `core/composed.py` each call of a composed function; the
policies are in `lists.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any
from weakref import ref

from .. import backends, dtypes
from ..backends.numpy import Shared
from ..core.autograd.graph import LEAF
from ..core.tensor import Tensor
from ..errors import DTypeError
from ..modes import current, override_modes
from ..ops.conversion import convert_dtype
from .lists import (
    DEPENDENT_POLICIES,
    FALLTHROUGH,
    FLOAT32_SET_OPT_DTYPE,
    LOWER_PRECISION,
    POLICIES,
    PROMOTE,
    REFUSED,
)

MAX_CACHED = 10_000
"""The largest number of cached weights: a program may create new leaves in a loop."""


class ArgumentCaster:
    """Converts the arguments of ops, for each device for which autocast is on.

    Args:
        lower_dtypes: the 16-bit dtype of each of these devices, by its name.
        cache: the cache of converted weights; None: they are converted each time.
    """

    __slots__ = ("cache", "lower_dtypes")

    def __init__(self, lower_dtypes: dict[str, dtypes.dtype], cache: dict[Any, Any] | None) -> None:
        self.lower_dtypes, self.cache = lower_dtypes, cache

    def with_empty_cache(self) -> ArgumentCaster:
        """Return a copy with an empty cache."""
        return ArgumentCaster(self.lower_dtypes, None if self.cache is None else {})

    def cast_operands(self, name: str, inputs: tuple[Any, ...], settings: dict[str, Any]) -> Any:
        """Return the operands of the op `name`, converted by its policy."""
        device = self.device_of(inputs)
        if device is None:
            return inputs
        policy = policy_of(device, self.lower_dtypes[device], name, inputs, settings)
        if policy is None or policy is FALLTHROUGH:
            return inputs
        return self.cast_arguments(name, policy, device, inputs, settings)[0]

    def call(
        self, function: Callable[..., Any], name: str, args: tuple[Any, ...], named: dict[str, Any]
    ) -> Any:
        """Call a composed function: as one op if it has a policy, otherwise op by op."""
        device = self.device_of((args, tuple(named.values())))
        policy = (
            None
            if device is None
            else policy_of(device, self.lower_dtypes[device], name, args, named)
        )
        if device is None or policy is None:
            return function(*args, **named)
        if named.get("out") is None and policy is not FALLTHROUGH:
            args, named = self.cast_arguments(name, policy, device, args, named)
        with override_modes(autocast=None):
            return function(*args, **named)

    def device_of(self, values: Any) -> str | None:
        """Return the device of the first tensor for which autocast is on."""
        for tensor in tensors_in(values):
            name = backends.of(tensor._array).name
            if name in self.lower_dtypes:
                return name
        return None

    def cast_arguments(
        self, name: str, policy: str, device: str, args: tuple[Any, ...], named: dict[str, Any]
    ) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Return the arguments with their tensors converted.

        Raises: DTypeError: the function is not safe under autocast.
        """
        if policy is REFUSED:
            raise unsafe_error(name)
        if policy is FLOAT32_SET_OPT_DTYPE and named.get("dtype") is not None:
            return args, named
        dtype = self.lower_dtypes[device] if policy is LOWER_PRECISION else dtypes.float32
        if policy is PROMOTE:
            dtype = self.widest_dtype(device, (args, tuple(named.values())))

        def convert(value: Any) -> Any:
            if isinstance(value, Tensor):
                return self.cached_cast(value, dtype) if is_eligible(value, device) else value
            if value.__class__ in (list, tuple):
                return value.__class__(convert(item) for item in value)
            return value

        return convert(args), {key: convert(value) for key, value in named.items()}

    def widest_dtype(self, device: str, values: Any) -> dtypes.dtype:
        """Return float32 if one of the tensors has it, the 16-bit dtype otherwise.

        Raises: DTypeError: a tensor has the other 16-bit dtype.
        """
        lower = self.lower_dtypes[device]
        found_dtypes = {
            tensor.dtype for tensor in tensors_in(values) if is_eligible(tensor, device)
        }
        if found_dtypes - {lower, dtypes.float32}:
            raise DTypeError(
                "autocast", "Unexpected floating ScalarType: a tensor of the other 16-bit type",
                {"autocast computes in": lower, "given": ", ".join(sorted(map(str, found_dtypes)))},
                f"convert it first: x.to({lower})",
            )  # fmt: skip
        return dtypes.float32 if dtypes.float32 in found_dtypes else lower

    def cached_cast(self, tensor: Tensor, dtype: dtypes.dtype) -> Tensor:
        """Return a tensor converted to `dtype`. Weights are converted once per region.

        A weight is a leaf that requires grad. It is converted again after a write, so that an
        optimizer may step inside the region.
        """
        if tensor.dtype is dtype:
            return tensor
        modes, array = current(), tensor._array
        if (
            self.cache is None
            or tensor._node is not LEAF
            or tensor._base is not None
            or modes.levels
            or isinstance(array, Shared)  # NumPy may write to it without a version count
        ):
            return convert_dtype(tensor, dtype)
        key = id(tensor), dtype, modes.grad
        entry = self.cache.get(key)
        if entry is not None:
            weight_ref, version, cached_array, cached = entry
            if weight_ref() is tensor and version == tensor._version and cached_array is array:
                return cached
        converted = convert_dtype(tensor, dtype)
        if len(self.cache) >= MAX_CACHED:
            self.cache.clear()
        self.cache[key] = ref(tensor), tensor._version, array, converted
        return converted


def tensors_in(values: Any) -> Iterator[Tensor]:
    """Yield the tensors among arguments, including those in lists and tuples."""
    for value in values:
        if isinstance(value, Tensor):
            yield value
        elif value.__class__ in (list, tuple):
            yield from tensors_in(value)


def is_eligible(tensor: Tensor, device: str) -> bool:
    """Whether autocast may convert a tensor: not float64, not an integer."""
    dtype = tensor.dtype
    is_castable = dtype.is_floating_point and dtype is not dtypes.float64
    return is_castable and backends.of(tensor._array).name == device


def policy_of(
    device: str, dtype: dtypes.dtype, name: str, args: tuple[Any, ...], named: dict[str, Any]
) -> str | None:
    """Return the policy of a function, which may depend on its arguments."""
    dependent_policy = DEPENDENT_POLICIES.get((device, name))
    if dependent_policy is not None:
        return dependent_policy(dtype, *args, **named)
    return POLICIES[device].get(name)


def unsafe_error(name: str) -> DTypeError:
    return DTypeError(
        name,
        "torch.nn.functional.binary_cross_entropy and torch.nn.BCELoss are unsafe to autocast: "
        "the gradient of log(p) overflows float16",
        hint="use binary_cross_entropy_with_logits (BCEWithLogitsLoss) and leave the sigmoid out; "
        "or compute the loss in float32 inside `with autocast(..., enabled=False):`",
    )
