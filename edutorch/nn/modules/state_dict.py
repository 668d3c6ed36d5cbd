"""A module's parameters and buffers by name: saving, loading and conversion."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Self

from ... import dtypes
from ...backends.device import Device, accelerator_device
from ...core.autograd.graph import RemovableHandle
from ...core.storage import memory_format as MemoryFormat
from ...core.tensor import Tensor
from ...errors import EdutorchError, MetaTensorError, warn
from ...modes import no_grad
from ...ops import empty_like
from ..common_types import DeviceLike, DTypeLike
from ..parameter import Buffer, Parameter, is_lazy
from .registration import ModuleTree

if TYPE_CHECKING:
    from .module import Module

_EXTRA_STATE_KEY_SUFFIX = "_extra_state"


class StateDictError(EdutorchError, RuntimeError):
    """A state_dict does not fit the module that it is loaded into."""


class _IncompatibleKeys(NamedTuple):
    """The keys that `load_state_dict` missed, and those that it did not expect."""

    missing_keys: list[str]
    unexpected_keys: list[str]

    def __repr__(self) -> str:
        if not self.missing_keys and not self.unexpected_keys:
            return "<All keys matched successfully>"
        return (
            f"_IncompatibleKeys(missing_keys={self.missing_keys}, "
            f"unexpected_keys={self.unexpected_keys})"
        )

    __str__ = __repr__


class ModuleState(ModuleTree):
    """The part of `Module` that saves and loads, with hooks around both."""

    _version: ClassVar[int] = 1
    _state_dict_pre_hooks: OrderedDict[int, Callable[..., Any]]
    _state_dict_hooks: OrderedDict[int, tuple[Callable[..., Any], bool]]
    _load_state_dict_pre_hooks: OrderedDict[int, tuple[Callable[..., Any], bool]]
    _load_state_dict_post_hooks: OrderedDict[int, Callable[..., Any]]

    def state_dict(
        self, *args: Any, destination: Any = None, prefix: str = "", keep_vars: bool = False
    ) -> OrderedDict[str, Any]:
        """Return all parameters and persistent buffers by path.

        Args:
            destination: the dict to fill; a new one by default.
            prefix: the beginning of every path.
            keep_vars: return the parameters themselves instead of detached tensors.

        >>> list(nn.Linear(2, 1).state_dict())
        ['weight', 'bias']
        """
        if args:
            warn("state_dict: Positional args are being deprecated, use kwargs", FutureWarning)
            kwargs = dict(zip(("destination", "prefix", "keep_vars"), args, strict=False))
            return self.state_dict(**kwargs)
        if destination is None:
            destination = OrderedDict()
            destination._metadata = OrderedDict()
        # The layout of a class may change; loading code reads the version it was saved with.
        metadata = {"version": self._version}
        if hasattr(destination, "_metadata"):
            destination._metadata[prefix[:-1]] = metadata
        for hook in tuple(self._state_dict_pre_hooks.values()):
            hook(self, prefix, keep_vars)
        self._save_to_state_dict(destination, prefix, keep_vars)
        for name, child in self._modules.items():
            if child is not None:
                path = f"{prefix}{name}."
                child.state_dict(destination=destination, prefix=path, keep_vars=keep_vars)
        for hook, may_return in tuple(self._state_dict_hooks.values()):
            replacement = hook(self, destination, prefix, metadata)
            if replacement is not None and not may_return:
                raise RuntimeError("state_dict post-hook must return None")
            destination = destination if replacement is None else replacement
        return destination

    def load_state_dict(
        self, state_dict: Mapping[str, Any], strict: bool = True, assign: bool = False
    ) -> _IncompatibleKeys:
        """Copy the tensors of a `state_dict` into parameters and buffers of the same path.

        Args:
            strict: whether the keys must match exactly.
            assign: assign the given tensors instead of copying their values. Tied parameters stay
                tied (in PyTorch they do not).

        Raises: StateDictError (a RuntimeError): a key is missing or unexpected, or a shape differs.
        """
        return load(self, state_dict, strict, assign)  # type: ignore[arg-type]

    def _save_to_state_dict(
        self, destination: dict[str, Any], prefix: str, keep_vars: bool
    ) -> None:
        save_module_state(self, destination, prefix, keep_vars)  # type: ignore[arg-type]

    def _load_from_state_dict(
        self, state_dict: Mapping[str, Any], prefix: str, local_metadata: dict[str, Any],
        strict: bool, missing_keys: list[str], unexpected_keys: list[str], error_msgs: list[str],
    ) -> None:  # fmt: skip
        """Load this module's own entries; a subclass may translate old names here."""
        report = (strict, missing_keys, unexpected_keys, error_msgs)
        for hook, with_module in tuple(self._load_state_dict_pre_hooks.values()):
            module_args = (self,) if with_module else ()
            hook(*module_args, state_dict, prefix, local_metadata, *report)
        assign = local_metadata.get("assign_to_params_buffers", False)
        load_module_state(self, state_dict, prefix, assign, *report)  # type: ignore[arg-type]

    def get_extra_state(self) -> Any:
        """Return further state to save; a subclass that has some overrides it."""
        raise RuntimeError(f"{type(self).__name__} has no extra state: define get_extra_state")

    def set_extra_state(self, state: Any) -> None:
        """Restore what `get_extra_state` of a subclass returned."""
        raise RuntimeError(f"{type(self).__name__} has no extra state: define set_extra_state")

    # Hooks ----------------------------------------------------------------------------------

    def register_state_dict_pre_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """Call `hook(module, prefix, keep_vars)` before `state_dict` collects anything."""
        return RemovableHandle(self._state_dict_pre_hooks, hook)

    def register_state_dict_post_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """Call `hook(module, state_dict, prefix, local_metadata)` after `state_dict`.

        It changes the dict in place and returns None.
        """
        return RemovableHandle(self._state_dict_hooks, (hook, False))

    def _register_state_dict_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """Like `register_state_dict_post_hook`, but the hook may return another dict."""
        return RemovableHandle(self._state_dict_hooks, (hook, True))

    def register_load_state_dict_pre_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """Call a hook before this module loads its own entries of a state_dict.

        It is called as `hook(module, state_dict, prefix, local_metadata, strict, missing_keys,
        unexpected_keys, error_msgs)`, and may rename keys of `state_dict` in place.
        """
        return self._register_load_state_dict_pre_hook(hook, with_module=True)

    def _register_load_state_dict_pre_hook(
        self, hook: Callable[..., Any], with_module: bool = False
    ) -> RemovableHandle:
        """Like `register_load_state_dict_pre_hook`, but the module is passed only on request."""
        return RemovableHandle(self._load_state_dict_pre_hooks, (hook, with_module))

    def register_load_state_dict_post_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """Call `hook(module, incompatible_keys)` after this module and its submodules have loaded.

        Keys that it removes from the two lists are no error, even with `strict`.
        """
        return RemovableHandle(self._load_state_dict_post_hooks, hook)


# Saving --------------------------------------------------------------------------------------


def own_state(module: Module) -> Iterator[tuple[str, Tensor]]:
    """Yield the module's own parameters and persistent buffers by name."""
    for name, parameter in module._parameters.items():
        if parameter is not None:
            yield name, parameter
    for name, buffer in module._buffers.items():
        if buffer is not None and name not in module._non_persistent_buffers_set:
            yield name, buffer


def has_extra_state(module: Module, method: str) -> bool:
    """Whether the module's class overrides a method for extra state."""
    return getattr(type(module), method) is not getattr(ModuleState, method)


def save_module_state(
    module: Module, destination: dict[str, Any], prefix: str, keep_vars: bool
) -> None:
    for name, tensor in own_state(module):
        # An uninitialized tensor has nothing to detach.
        is_kept = keep_vars or is_lazy(tensor)
        destination[prefix + name] = tensor if is_kept else tensor.detach()
    if has_extra_state(module, "get_extra_state"):
        destination[prefix + _EXTRA_STATE_KEY_SUFFIX] = module.get_extra_state()


# Loading -------------------------------------------------------------------------------------


def load(module: Module, state: Mapping[str, Any], strict: bool, assign: bool) -> _IncompatibleKeys:
    """Copy `state` into the module and its submodules.

    Raises: StateDictError: a shape differs; with `strict`, a key is missing or unexpected.
    """
    if not isinstance(state, Mapping):
        raise TypeError(f"Expected state_dict to be dict-like, got {type(state)}.")
    keys, problems = _IncompatibleKeys([], []), list[str]()
    metadata = getattr(state, "_metadata", None)
    copied: Any = OrderedDict(state)  # hooks and subclasses may change it
    if metadata is not None:
        copied._metadata = metadata
    # Before loading: afterwards each owner holds a tensor of its own.
    ties = find_ties(module) if assign else []
    load_tree(module, copied, "", metadata or {}, assign, keys, problems)
    for tensor, owners in ties:
        restore_tie(tensor, owners)
    missing, unexpected = keys
    # PyTorch lists the missing keys first, hence both are put in front.
    if strict:
        if unexpected:
            problems.insert(0, f"Unexpected key(s) in state_dict: {quote_keys(unexpected)}. ")
        if missing:
            problems.insert(0, f"Missing key(s) in state_dict: {quote_keys(missing)}. ")
    if problems:
        lines = "".join(f"\n\t{problem}" for problem in problems)
        name = type(module).__name__
        raise StateDictError(
            None,
            f"Error(s) in loading state_dict for {name}:{lines}",
            hint=loading_hint(missing, unexpected) if strict else None,
        )
    return keys


Owner = tuple[dict[str, Any], str]
"""A reference to a tensor of a module: its registry, and the name there."""


def find_ties(module: Module) -> list[tuple[Tensor, list[Owner]]]:
    """Return the tensors that are registered several times, each with its owners."""
    owners: dict[int, tuple[Tensor, list[Owner]]] = {}
    for submodule in module.modules():
        for registry in (submodule._parameters, submodule._buffers):
            for name, tensor in registry.items():
                if tensor is not None:
                    owners.setdefault(id(tensor), (tensor, []))[1].append((registry, name))
    return [pair for pair in owners.values() if len(pair[1]) > 1]


def restore_tie(tensor: Tensor, owners: list[Owner]) -> None:
    """Register the tensor that was assigned last with all owners of what was one tensor."""
    assigned = [registry[name] for registry, name in owners if registry[name] is not tensor]
    for registry, name in owners if assigned else ():
        registry[name] = assigned[-1]


def load_tree(
    module: Module, state: dict[str, Any], prefix: str, metadata: dict[str, Any],
    assign: bool, keys: _IncompatibleKeys, problems: list[str],
) -> None:  # fmt: skip
    """Load a module and then its children, each from its own part of the state."""
    local_metadata = metadata.get(prefix[:-1], {})
    if assign:
        local_metadata["assign_to_params_buffers"] = assign
    module._load_from_state_dict(state, prefix, local_metadata, True, *keys, problems)
    for name, child in module._modules.items():
        if child is not None:
            path = f"{prefix}{name}."
            # Each child sees only its own keys, so that unexpected ones are reported once.
            child_state = {key: value for key, value in state.items() if key.startswith(path)}
            load_tree(child, child_state, path, metadata, assign, keys, problems)
    for hook in tuple(module._load_state_dict_post_hooks.values()):
        if hook(module, keys) is not None:
            raise PostHookError(
                "load_state_dict",
                "hooks of register_load_state_dict_post_hook are not expected to return new values",
                hint="change incompatible_keys.missing_keys and .unexpected_keys in place",
            )


class PostHookError(EdutorchError, AssertionError):
    """A `load_state_dict` post-hook returned a value (an AssertionError, as in PyTorch)."""


def quote_keys(keys: list[str]) -> str:
    return ", ".join(f'"{key}"' for key in keys)


def loading_hint(missing: list[str], unexpected: list[str]) -> str | None:
    """Return a hint for mismatched keys: a common prefix such as `module.`, or the nearest key."""
    if not missing or not unexpected:
        return None
    prefix = unexpected[0].removesuffix(missing[0])
    if prefix != unexpected[0] and all(prefix + key in unexpected for key in missing):
        return f"every key begins with {prefix!r}: load {{k.removeprefix({prefix!r}): v …}}"
    from difflib import SequenceMatcher  # where it is needed: an error may take its time

    nearest = max(unexpected, key=lambda key: SequenceMatcher(None, missing[0], key).ratio())
    return (
        f'nearest to the missing "{missing[0]}" is "{nearest}"; strict=False loads what fits, and '
        "returns the keys that do not"
    )


def load_module_state(
    module: Module, state: Mapping[str, Any], prefix: str, assign: bool, strict: bool,
    missing: list[str], unexpected: list[str], problems: list[str],
) -> None:  # fmt: skip
    """Load the module's own tensors, and collect missing and unexpected keys and problems."""
    own = dict(own_state(module))
    for name, tensor in own.items():
        key = prefix + name
        if key in state:
            problem = load_tensor(module, name, tensor, key, state[key], assign)
            problems += [problem] if problem else []
        elif strict:
            missing.append(key)
    has_extra = has_extra_state(module, "set_extra_state")
    extra_key = prefix + _EXTRA_STATE_KEY_SUFFIX
    if has_extra and extra_key in state:
        module.set_extra_state(state[extra_key])
    elif strict and has_extra != (extra_key in state):
        (missing if has_extra else unexpected).append(extra_key)
    for key in state if strict else ():
        # The first part after the prefix tells whether a child or this module should know the key.
        if key.startswith(prefix) and key != extra_key:
            first, dot, _ = key[len(prefix) :].partition(".")
            if first not in (module._modules if dot else own):
                unexpected.append(key)


def load_tensor(
    module: Module, name: str, tensor: Tensor, key: str, saved: object, assign: bool
) -> str | None:
    """Copy a saved tensor into the module's, or assign it; return what is wrong, or None."""
    if not isinstance(saved, Tensor):
        return (
            f'While copying the parameter named "{key}", expected torch.Tensor or Tensor-like '
            f"object from checkpoint but received {type(saved)}"
        )
    if is_lazy(tensor):
        if is_lazy(saved):
            return None
    elif saved.shape == (1,) and tensor.ndim == 0:  # PyTorch saved scalars so before 0.4
        saved = saved[0]
    if saved.shape != tensor.shape:
        return (
            f"size mismatch for {key}: copying a param with shape {saved.shape} from checkpoint, "
            f"the shape in current model is {tensor.shape}."
        )
    try:
        if assign:
            assign_tensor(module, name, saved)
        else:
            if tensor.is_meta and not saved.is_meta:
                warn(
                    f"for {key}: copying from a non-meta parameter in the checkpoint to a meta "
                    "parameter in the current model, which is a no-op. (Did you mean to pass "
                    "`assign=True` to assign items in the state dictionary to their corresponding "
                    "key in the module instead of copying them in place?)"
                )
            with no_grad():
                tensor.copy_(saved)
    except (RuntimeError, TypeError, ValueError) as error:
        return (
            f'While copying the parameter named "{key}", whose dimensions in the model are '
            f"{tensor.size()} and whose dimensions in the checkpoint are {saved.size()}, an "
            f"exception occurred : {error.args}."
        )
    return None


def assign_tensor(module: Module, name: str, saved: Tensor) -> None:
    """Assign the saved tensor itself to the module."""
    parameter = module._parameters.get(name)
    if parameter is not None and not isinstance(saved, Parameter):
        saved = Parameter(saved, parameter.requires_grad)
    elif parameter is not None:
        saved.requires_grad_(parameter.requires_grad)
    setattr(module, name, saved)


# Conversion -----------------------------------------------------------------------------------


def parse_to(
    *target: Any, dtype: DTypeLike = None, device: DeviceLike = None, non_blocking: bool = False,
    memory_format: MemoryFormat | None = None,
) -> tuple[Any, Any, bool, MemoryFormat | None]:  # fmt: skip
    """Return the device, the dtype, `non_blocking` and the layout that `Module.to` is asked for.

    Args:
        target: dtypes, devices and tensors, which have both; None and bools say nothing.

    Raises: TypeError: something else, or a dtype that is not floating.
    """
    for argument in target:
        if isinstance(argument, Tensor):
            dtype, device = argument.dtype, argument.device
        elif isinstance(argument, dtypes.dtype | type):
            dtype = argument
        elif isinstance(argument, str | Device):
            device = argument
        # PyTorch takes a bare number for the index of a GPU.
        elif isinstance(argument, int) and not isinstance(argument, bool):
            device = Device(argument)
        elif not isinstance(argument, bool | None):
            raise TypeError(f"to: expected a dtype, a device or a tensor, got {argument!r}")
    dtype = None if dtype is None else dtypes.as_dtype(dtype)
    # Weights of integers could not be trained; `type` converts even so.
    if dtype is not None and dtype.category < 2:
        raise TypeError(
            "nn.Module.to only accepts floating point or complex dtypes, but got desired "
            f"dtype={dtype}"
        )
    return device, dtype, non_blocking, memory_format


class ModuleConversions(ModuleTree):
    """The part of `Module` that converts. Parameters stay the same objects, for optimizers."""

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> Self:
        """Replace the data of every parameter, gradient and buffer by `fn` of it."""
        # Children first, as in PyTorch.
        if recurse:
            for child in self.children():
                child._apply(fn)
        for tensor in self._parameters.values():
            if tensor is not None:
                # The parameter stays the same object: an optimizer holds it.
                tensor.data = fn(tensor.detach())
                if tensor.grad is not None:
                    tensor.grad.data = fn(tensor.grad.detach())
        for name, buffer in self._buffers.items():
            if isinstance(buffer, Buffer):
                buffer.data = fn(buffer.detach())
            elif buffer is not None:  # perhaps the user's own tensor: replaced, not written
                self._buffers[name] = fn(buffer)
        return self

    def to(
        self, *target: Any, dtype: DTypeLike = None, device: DeviceLike = None,
        non_blocking: bool = False, tensor: Tensor | None = None,
        memory_format: MemoryFormat | None = None,
    ) -> Self:  # fmt: skip
        """Move to a device, or convert floating parameters to another dtype, in place.

        Args:
            target: a dtype, a device, or a tensor that has both.
            memory_format: the layout of the weights with 4 axes (5 for `channels_last_3d`).

        Raises: TypeError: not a floating dtype. DeviceError: the device cannot be used here.

        >>> nn.Linear(2, 1).to(float64).weight.dtype
        torch.float64
        """
        device, dtype, _, memory_format = parse_to(
            *target, tensor, dtype=dtype, device=device, memory_format=memory_format
        )
        order = None if memory_format is None else memory_format.order

        def convert(parameter: Tensor) -> Tensor:
            if parameter.is_meta and device is not None and Device(device).type != "meta":
                raise MetaTensorError(
                    "to", "Cannot copy out of meta tensor; no data! Please use "
                    "torch.nn.Module.to_empty() instead of torch.nn.Module.to() when moving module "
                    "from meta to a different device.",
                )  # fmt: skip
            result = parameter.to(
                device=device, dtype=dtype if parameter.dtype.category >= 2 else None
            )
            if order is not None and parameter.ndim == len(order):
                return result.contiguous(memory_format=memory_format)
            return result

        return self._apply(convert)

    def type(self, dst_type: DTypeLike | str) -> Self:
        """Convert all parameters and buffers, including those of integers.

        >>> nn.BatchNorm1d(2).type(float64).num_batches_tracked
        tensor(0., dtype=torch.float64)
        """
        return self._apply(lambda tensor: tensor.type(dst_type))

    def float(self) -> Self:
        """Convert floating parameters and buffers to float32."""
        return self.to(dtypes.float32)

    def double(self) -> Self:
        """Convert floating parameters and buffers to float64."""
        return self.to(dtypes.float64)

    def half(self) -> Self:
        """Convert floating parameters and buffers to float16."""
        return self.to(dtypes.float16)

    def bfloat16(self) -> Self:
        """Convert floating parameters and buffers to bfloat16."""
        return self.to(dtypes.bfloat16)

    def cpu(self) -> Self:
        """Move to the CPU."""
        return self.to("cpu")

    def cuda(self, device: DeviceLike = None) -> Self:
        """Move to the GPU. Raises: DeviceError: there is none."""
        return self.to(accelerator_device(device))

    def to_empty(self, *, device: DeviceLike, recurse: bool = True) -> Self:
        """Move to a device without copying: the values are uninitialized.

        >>> nn.Linear(2, 1).to_empty(device="cpu").weight.shape
        torch.Size([1, 2])
        """
        return self._apply(lambda tensor: empty_like(tensor, device=device), recurse)

    def share_memory(self) -> Self:
        """Call `Tensor.share_memory_` of all parameters and buffers."""
        return self._apply(lambda tensor: tensor.share_memory_())
