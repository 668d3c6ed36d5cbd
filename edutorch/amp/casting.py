"""What autocast does to the arguments of one op.

One object of `Casting` stands in `modes.autocast` while autocast is on for some device.
`core/dispatch.py` shows it the operands of each op, `core/argument_checks.py` each call of a
composed function; what a function needs is in `lists.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any
from weakref import ref

from .. import backends, dtypes
from ..backends.aliased_array import Shared
from ..core.autograd.graph import LEAF
from ..core.tensor import Tensor
from ..errors import DTypeError
from ..modes import override_modes, current
from ..ops.conversion import convert_dtype
from .lists import FALLTHROUGH, DEPENDENT_POLICIES, FLOAT32_SET_OPT_DTYPE, LOWER_PRECISION, POLICIES, REFUSED, PROMOTE

MAX_CACHED = 10_000
"""Converted weights that are kept at most: somebody may make new leaves all the time."""


class ArgumentCaster:
    """Converts the arguments of ops, for each device for which autocast is on.

    Args:
        kinds: the 16-bit type of each of these devices, by its name.
        kept: where converted weights are kept; None: they are converted each time.
    """

    __slots__ = ("cache", "lower_dtypes")

    def __init__(self, kinds: dict[str, dtypes.dtype], kept: dict[Any, Any] | None) -> None:
        self.lower_dtypes, self.cache = kinds, kept

    def with_empty_cache(self) -> ArgumentCaster:
        """Return the same with nothing kept yet."""
        return ArgumentCaster(self.lower_dtypes, None if self.cache is None else {})

    def cast_operands(self, name: str, inputs: tuple[Any, ...], settings: dict[str, Any]) -> Any:
        """Return the operands of the op `name` in the types in which it computes."""
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
        """Call a composed function: as one op if it is listed, otherwise op by op."""
        device = self.device_of((args, tuple(named.values())))
        policy = (
            None if device is None else policy_of(device, self.lower_dtypes[device], name, args, named)
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
        """Return the arguments with the tensors in them converted.

        Raises: DTypeError: the function is not safe under autocast.
        """
        if policy is REFUSED:
            raise unsafe_error(name)
        if policy is FLOAT32_SET_OPT_DTYPE and named.get("dtype") is not None:
            return args, named
        kind = self.lower_dtypes[device] if policy is LOWER_PRECISION else dtypes.float32
        if policy is PROMOTE:
            kind = self.widest_dtype(device, (args, tuple(named.values())))

        def convert(value: Any) -> Any:
            if isinstance(value, Tensor):
                return self.cached_cast(value, kind) if is_eligible(value, device) else value
            if value.__class__ in (list, tuple):
                return value.__class__(convert(each) for each in value)
            return value

        return convert(args), {key: convert(value) for key, value in named.items()}

    def widest_dtype(self, device: str, values: Any) -> dtypes.dtype:
        """Return float32 if one of the tensors has it, the 16-bit type if none has.

        Raises: DTypeError: a tensor has the other 16-bit type.
        """
        lower = self.lower_dtypes[device]
        found = {each.dtype for each in tensors_in(values) if is_eligible(each, device)}
        if found - {lower, dtypes.float32}:
            raise DTypeError(
                "autocast", "Unexpected floating ScalarType: a tensor of the other 16-bit type",
                {"autocast computes in": lower, "given": ", ".join(sorted(map(str, found)))},
                f"convert it first: x.to({lower})",
            )  # fmt: skip
        return dtypes.float32 if dtypes.float32 in found else lower

    def cached_cast(self, tensor: Tensor, kind: dtypes.dtype) -> Tensor:
        """Return a tensor converted to `kind`. A weight is converted once in a region.

        A weight is a leaf that wants a gradient. Its conversion is thrown away when the
        weight has been written to since, so that an optimizer may step inside the region.
        """
        if tensor.dtype is kind:
            return tensor
        modes, array = current(), tensor._array
        if (
            self.cache is None
            or tensor._node is not LEAF
            or tensor._base is not None
            or modes.levels
            or isinstance(array, Shared)  # written to by NumPy, unseen
        ):
            return convert_dtype(tensor, kind)
        key = id(tensor), kind, modes.grad
        found = self.cache.get(key)
        if found is not None:
            owner, version, its_array, kept = found
            if owner() is tensor and version == tensor._version and its_array is array:
                return kept
        made = convert_dtype(tensor, kind)
        if len(self.cache) >= MAX_CACHED:
            self.cache.clear()
        self.cache[key] = ref(tensor), tensor._version, array, made
        return made


def tensors_in(values: Any) -> Iterator[Tensor]:
    """Yield the tensors among arguments, also those in lists and tuples."""
    for value in values:
        if isinstance(value, Tensor):
            yield value
        elif value.__class__ in (list, tuple):
            yield from tensors_in(value)


def is_eligible(tensor: Tensor, device: str) -> bool:
    """Say whether autocast may convert a tensor: it leaves float64 and integers alone."""
    kind = tensor.dtype
    floating = kind.is_floating_point and kind is not dtypes.float64
    return floating and backends.of(tensor._array).name == device


def policy_of(
    device: str, kind: dtypes.dtype, name: str, args: tuple[Any, ...], named: dict[str, Any]
) -> str | None:
    """Return the policy of a function, which may depend on how it is called."""
    depends = DEPENDENT_POLICIES.get((device, name))
    if depends is not None:
        return depends(kind, *args, **named)
    return POLICIES[device].get(name)


def unsafe_error(name: str) -> DTypeError:
    return DTypeError(
        name,
        "torch.nn.functional.binary_cross_entropy and torch.nn.BCELoss are unsafe to autocast: "
        "the gradient of log(p) overflows float16",
        hint="use binary_cross_entropy_with_logits (BCEWithLogitsLoss) and leave the sigmoid out; "
        "or compute the loss in float32 inside `with autocast(..., enabled=False):`",
    )
