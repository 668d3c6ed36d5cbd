"""Activation checkpointing: backward recomputes a part of the network instead of storing it.

While the part runs, each tensor that it saves for backward is replaced by its index. When
backward unpacks the first index, the part runs once more, and the tensors that it saves now, in
the same order, are what the indices stand for. So only the inputs of the part are kept in memory,
at the cost of a second forward.

Paper: Chen, Xu, Zhang, Guestrin, Training Deep Nets with Sublinear Memory Cost (2016),
arxiv.org/abs/1604.06174
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from typing import Any

from .. import backends
from ..autograd.graph import saved_tensors_hooks
from ..core.autograd.graph import LEAF
from ..core.autograd.saved_tensors import PackedTensor
from ..core.autograd.versions import VersionCounter
from ..core.tensor import Tensor
from ..errors import EdutorchError, StaleValueError, read_line
from ..modes import current, is_grad_enabled, override_modes
from ..ops.random import default_generator, fork_rng
from ._pytree import tree_flatten, tree_unflatten

__all__ = [
    "CheckpointError", "checkpoint", "checkpoint_sequential", "get_device_states",
    "noop_context_fn", "set_checkpoint_early_stop", "set_device_states",
]  # fmt: skip


class CheckpointError(EdutorchError, RuntimeError):
    """The recomputation of a checkpointed function differs from its forward."""


def noop_context_fn() -> tuple[AbstractContextManager[Any], AbstractContextManager[Any]]:
    """Return two contexts that do nothing, for the forward and for the recomputation."""
    return nullcontext(), nullcontext()


def get_device_states(*args: object) -> tuple[list[str], list[Tensor]]:
    """Return the devices of tensors other than the CPU, and the states of their generators.

    >>> from edutorch.utils.checkpoint import get_device_states
    >>> get_device_states(ones(2), "no tensor")
    ([], [])
    """
    tensors = (value for value in args if isinstance(value, Tensor))
    devices = sorted({str(tensor.device) for tensor in tensors} - {"cpu", "meta"})
    return devices, [default_generator(device).get_state() for device in devices]


def set_device_states(devices: Sequence[str], states: Sequence[Tensor], **settings: Any) -> None:
    """Restore the states of generators, as `get_device_states` has returned them."""
    for device, state in zip(devices, states, strict=True):
        default_generator(device).set_state(state)


RECOMPUTATION_CONTEXTS: list[Callable[[], AbstractContextManager[Any]]] = []
"""Make the contexts that a recomputation needs, where the forward runs inside of such: those that
give a module its parameters for the time of its forward."""

_EARLY_STOP = [True]


@contextmanager
def set_checkpoint_early_stop(enable: bool) -> Iterator[None]:
    """Set whether recomputation stops at the last needed value, for a `with` block.

    >>> with utils.checkpoint.set_checkpoint_early_stop(False):
    ...     y = utils.checkpoint.checkpoint(exp, tensor(1.0), use_reentrant=False)
    """
    _EARLY_STOP.append(enable)
    try:
        yield
    finally:
        _EARLY_STOP.pop()


def checkpoint(
    function: Callable[..., Any],
    *args: Any,
    use_reentrant: bool | None = None,
    context_fn: Callable[[], tuple[Any, Any]] = noop_context_fn,
    determinism_check: str = "default",
    debug: bool = False,
    preserve_rng_state: bool = True,
    **kwargs: Any,
) -> Any:
    """Return `function(*args, **kwargs)`, which backward will recompute.

    Args:
        function: a module or a function. Tensors that it saves for backward are not kept.
        use_reentrant: accepted; there is one implementation, without the restrictions of either.
        context_fn: returns a context for the forward and one for the recomputation.
        determinism_check: "none" allows the recomputation to save other shapes and dtypes.
        debug: accepted for compatibility.
        preserve_rng_state: draw the same random numbers in the recomputation.

    Raises: CheckpointError: the recomputation saved other values than the forward.
        StaleValueError: an input was overwritten between the two.

    >>> x = tensor(2.0, requires_grad=True)
    >>> y = utils.checkpoint.checkpoint(lambda x: x.exp().sin(), x, use_reentrant=False)
    >>> y.backward(); x.grad
    tensor(3.3129)
    """
    if determinism_check not in ("default", "none"):
        raise ValueError(
            f"determinism_check should be one of ['default', 'none'], but got {determinism_check}"
        )
    first, second = context_fn()
    if not is_grad_enabled():
        with first:
            return function(*args, **kwargs)
    call = CheckpointedCall(function, args, kwargs, second, determinism_check, preserve_rng_state)
    with saved_tensors_hooks(call.pack, call.unpack), first:
        return function(*args, **kwargs)


class StopRecomputation(Exception):
    """Ends the recomputation early."""


class CheckpointedCall:
    """A checkpointed call: its inputs, and the recomputed values."""

    def __init__(
        self,
        function: Callable[..., Any],
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        context: AbstractContextManager[Any],
        determinism_check: str,
        preserve_rng_state: bool,
    ) -> None:
        self.function, self.context = function, context
        self.checks, self.early_stop = determinism_check == "default", _EARLY_STOP[-1]
        leaves, self.spec = tree_flatten((args, kwargs))
        self.inputs = [SavedInput(leaf) if isinstance(leaf, Tensor) else leaf for leaf in leaves]
        devices = {backends.of(leaf._array) for leaf in leaves if isinstance(leaf, Tensor)}
        devices.add(backends.CPU)
        self.generators = list(map(default_generator, devices)) if preserve_rng_state else []
        self.states = [generator.get_state() for generator in self.generators]
        self.autocast = current().autocast
        self.contexts = list(RECOMPUTATION_CONTEXTS)
        self.descriptions: list[str] = []  # of each saved tensor
        self.versions: list[int] = []  # of each saved tensor, when it was saved
        self.values: dict[int, tuple[Tensor, int]] = {}  # recomputed, until they are used

    def pack(self, tensor: Tensor) -> int:
        """Replace a saved tensor by its index."""
        self.descriptions.append(describe_tensor(tensor))
        self.versions.append(tensor._version)
        return len(self.descriptions) - 1

    def unpack(self, number: int) -> Tensor:
        """Return the tensor with this index; the first call recomputes all of them."""
        if number not in self.values:
            self.run_again()
        tensor, version = self.values.pop(number)
        if tensor._version != version:
            raise overwritten_error(tensor, "a value that the checkpointed function computed")
        return tensor

    def run_again(self) -> None:
        """Recompute the tensors that the function saves."""
        values: list[tuple[Tensor, int]] = []

        def collect(tensor: Tensor) -> None:
            self.check(len(values), tensor)
            values.append((tensor.detach(), tensor._version))
            if self.early_stop and len(values) == len(self.descriptions):
                raise StopRecomputation

        def refuse(packed: None) -> Tensor:
            raise CheckpointError("checkpoint", "backward inside of a checkpointed function")

        leaves = [leaf.get() if isinstance(leaf, SavedInput) else leaf for leaf in self.inputs]
        args, kwargs = tree_unflatten(leaves, self.spec)
        devices = [generator.device for generator in self.generators]
        autocast = self.autocast and self.autocast.with_empty_cache()
        modes = override_modes(grad=True, listeners=(), saving=None, levels=(), autocast=autocast)
        with modes, fork_rng(devices, bool(devices)), ExitStack() as contexts:
            for make_context in self.contexts:
                contexts.enter_context(make_context())
            for generator, state in zip(self.generators, self.states, strict=True):
                generator.set_state(state)
            try:
                with saved_tensors_hooks(collect, refuse), self.context:
                    self.function(*args, **kwargs)
            except StopRecomputation:
                pass
        if len(values) != len(self.descriptions):
            raise CheckpointError(
                "checkpoint",
                "A different number of tensors was saved during the original forward and "
                "recomputation.",
                {"forward": len(self.descriptions), "recomputation": len(values)},
                "the function must do the same each time it is called",
            )
        self.values = dict(enumerate(values))

    def check(self, number: int, tensor: Tensor) -> None:
        """Compare the metadata of a recomputed tensor with the original's.

        Raises: CheckpointError: they differ. StaleValueError: it was overwritten.
        """
        if number >= len(self.descriptions):
            return
        if tensor._version > self.versions[number]:
            raise overwritten_error(tensor, "a tensor that the checkpointed function uses")
        if self.checks and describe_tensor(tensor) != self.descriptions[number]:
            raise CheckpointError(
                "checkpoint",
                "Recomputed values for the following tensors have different metadata than "
                "during the forward pass.",
                {
                    "tensor": number,
                    "forward": self.descriptions[number],
                    "recomputation": describe_tensor(tensor),
                },
                "the function must do the same each time it is called",
            )


class SavedInput:
    """A tensor argument. Inside another checkpoint it is packed by that one's hooks."""

    def __init__(self, tensor: Tensor) -> None:
        saving = current().saving
        self.packed = PackedTensor(tensor, saving) if isinstance(saving, tuple) else None
        self.tensor = tensor if self.packed is None else None
        self.version = tensor._version

    def get(self) -> Tensor:
        """Return the tensor, without its history.

        Raises: StaleValueError: it has been overwritten.
        """
        tensor = self.tensor if self.packed is None else self.packed.restore()
        assert tensor is not None
        if self.packed is None and tensor._version != self.version:
            raise overwritten_error(tensor, "an input of the checkpointed function")
        restored = tensor.detach()
        if self.packed is not None:
            restored._writes = VersionCounter()
            restored._writes.count = self.version
        if tensor._node is not None:
            restored._node = LEAF
        return restored


def overwritten_error(tensor: Tensor, what: str) -> StaleValueError:
    place = None if tensor._writes is None else tensor._writes.location
    return StaleValueError(
        "checkpoint",
        "one of the variables needed for gradient computation has been modified by an "
        f"inplace operation: {what} was overwritten",
        {"tensor": describe_tensor(tensor), "overwritten": place and read_line(place)},
        "write x = x + 1 instead of x += 1, or write into a copy, x.clone()",
    )


def describe_tensor(tensor: Tensor) -> str:
    return f"{tuple(tensor.shape)} {tensor.dtype} on {tensor.device}"


def checkpoint_sequential(
    functions: Any,
    segments: int,
    input: Any,
    use_reentrant: bool | None = None,
    **kwargs: Any,
) -> Any:
    """Run modules one after the other, in segments; all but the last are checkpointed.

    Args:
        functions: an nn.Sequential, or a list of modules or functions.
        segments: the number of segments.
        input: the input of the first module.

    >>> x = tensor(0.5, requires_grad=True)
    >>> utils.checkpoint.checkpoint_sequential([sin, cos, exp], 2, x).backward()
    >>> x.grad
    tensor(-0.9830)
    """
    preserve = kwargs.pop("preserve_rng_state", True)
    if kwargs:
        raise ValueError("Unexpected keyword arguments: " + ",".join(kwargs))
    modules = list(functions.children()) if hasattr(functions, "children") else list(functions)
    size = len(modules) // segments
    for start in range(0, size * (segments - 1), size):
        input = checkpoint(
            compose(modules[start : start + size]), input,
            use_reentrant=use_reentrant, preserve_rng_state=preserve,
        )  # fmt: skip
    return compose(modules[size * (segments - 1) :])(input)


def compose(functions: Sequence[Callable[..., Any]]) -> Callable[[Any], Any]:
    """Return the composition of functions, applied from first to last."""

    def run(input: Any) -> Any:
        for function in functions:
            input = function(input)
        return input

    return run
