"""What a module holds, by name: written to a `state_dict` and read back from one."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

from ...core.autograd.graph import RemovableHandle
from ...core.tensor import Tensor
from ...errors import EdutorchError, warn
from ...modes import no_grad
from ..parameter import Parameter, is_lazy
from .registration import ModuleTree

if TYPE_CHECKING:
    from .module import Module

EXTRA = "_extra_state"


class StateDictError(EdutorchError, RuntimeError):
    """A state_dict does not fit the module that it is loaded into."""


class _IncompatibleKeys(NamedTuple):
    """What `load_state_dict` did not find, and what it did not need."""

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
    """Saving and loading of a `Module`, with hooks around both."""

    _version: ClassVar[int] = 1
    _state_dict_pre_hooks: OrderedDict[int, Callable[..., Any]]
    _state_dict_hooks: OrderedDict[int, tuple[Callable[..., Any], bool]]
    _load_state_dict_pre_hooks: OrderedDict[int, tuple[Callable[..., Any], bool]]
    _load_state_dict_post_hooks: OrderedDict[int, Callable[..., Any]]

    def state_dict(
        self, *args: Any, destination: Any = None, prefix: str = "", keep_vars: bool = False
    ) -> OrderedDict[str, Any]:
        """Return all parameters and persistent buffers by path: what is to be saved.

        Args:
            destination: a dict that gets them; a new one by default.
            prefix: what every path begins with.
            keep_vars: the parameters themselves instead of tensors of the same memory.

        >>> list(nn.Linear(2, 1).state_dict())
        ['weight', 'bias']
        """
        if args:
            warn("state_dict: Positional args are being deprecated, use kwargs", FutureWarning)
            given = dict(zip(("destination", "prefix", "keep_vars"), args, strict=False))
            return self.state_dict(**given)
        if destination is None:
            destination = OrderedDict()
            destination._metadata = OrderedDict()
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
            found = hook(self, destination, prefix, metadata)
            if found is not None and not may_return:
                raise RuntimeError("state_dict post-hook must return None")
            destination = destination if found is None else found
        return destination

    def load_state_dict(
        self, state_dict: Mapping[str, Any], strict: bool = True, assign: bool = False
    ) -> _IncompatibleKeys:
        """Copy the tensors of a `state_dict` into parameters and buffers of the same path.

        Args:
            strict: every key must be there, and no other.
            assign: hold the given tensors instead of copying their numbers. Parameters that were
                one and the same stay so (in PyTorch they come apart).

        Raises: StateDictError (a RuntimeError): something is missing, left over or misshapen.
        """
        return load(self, state_dict, strict, assign)  # type: ignore[arg-type]

    def _save_to_state_dict(self, destination: Any, prefix: str, keep_vars: bool) -> None:
        save_own(self, destination, prefix, keep_vars)  # type: ignore[arg-type]

    def _load_from_state_dict(
        self, state_dict: Mapping[str, Any], prefix: str, local_metadata: dict[str, Any],
        strict: bool, missing_keys: list[str], unexpected_keys: list[str], error_msgs: list[str],
    ) -> None:  # fmt: skip
        """Load what belongs to this module alone; a subclass may translate old names here."""
        report = (strict, missing_keys, unexpected_keys, error_msgs)
        for hook, with_module in tuple(self._load_state_dict_pre_hooks.values()):
            first = (self,) if with_module else ()
            hook(*first, state_dict, prefix, local_metadata, *report)
        assign = local_metadata.get("assign_to_params_buffers", False)
        load_own(self, state_dict, prefix, assign, *report)  # type: ignore[arg-type]

    def get_extra_state(self) -> Any:
        """Return what else is to be saved, if a subclass says so; `set_extra_state` gets it."""
        raise RuntimeError(f"{type(self).__name__} has no extra state: define get_extra_state")

    def set_extra_state(self, state: Any) -> None:
        """Take what `get_extra_state` of a subclass returned."""
        raise RuntimeError(f"{type(self).__name__} has no extra state: define set_extra_state")

    # Hooks ----------------------------------------------------------------------------------

    def register_state_dict_pre_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """Call `hook(module, prefix, keep_vars)` before `state_dict` collects anything."""
        return RemovableHandle(self._state_dict_pre_hooks, hook)

    def register_state_dict_post_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """Call `hook(module, state_dict, prefix, local_metadata)` behind `state_dict`.

        It changes the dict in place and returns None.
        """
        return RemovableHandle(self._state_dict_hooks, (hook, False))

    def _register_state_dict_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """Do as `register_state_dict_post_hook`, with a hook that may return another dict."""
        return RemovableHandle(self._state_dict_hooks, (hook, True))

    def register_load_state_dict_pre_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """Call a hook before this module takes what is its own from a state_dict.

        It is called as `hook(module, state_dict, prefix, local_metadata, strict, missing_keys,
        unexpected_keys, error_msgs)`, and may rename keys of `state_dict` in place.
        """
        return self._register_load_state_dict_pre_hook(hook, with_module=True)

    def _register_load_state_dict_pre_hook(
        self, hook: Callable[..., Any], with_module: bool = False
    ) -> RemovableHandle:
        """Do as `register_load_state_dict_pre_hook`, the module being given only if asked for."""
        return RemovableHandle(self._load_state_dict_pre_hooks, (hook, with_module))

    def register_load_state_dict_post_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """Call `hook(module, incompatible_keys)` when this module and all below have loaded.

        It may take keys out of the two lists: they are then no error, even with `strict`.
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


def has_extra(module: Module, method: str) -> bool:
    return getattr(type(module), method) is not getattr(ModuleState, method)


def save_own(module: Module, destination: dict[str, Any], prefix: str, keep_vars: bool) -> None:
    for name, tensor in own_state(module):
        kept = keep_vars or is_lazy(tensor)
        destination[prefix + name] = tensor if kept else tensor.detach()
    if has_extra(module, "get_extra_state"):
        destination[prefix + EXTRA] = module.get_extra_state()


# Loading -------------------------------------------------------------------------------------


def load(module: Module, state: Mapping[str, Any], strict: bool, assign: bool) -> _IncompatibleKeys:
    """Copy `state` into the module and everything below it.

    Raises: StateDictError: a shape differs; with `strict`, a key is missing or not needed.
    """
    if not isinstance(state, Mapping):
        raise TypeError(f"Expected state_dict to be dict-like, got {type(state)}.")
    keys, problems = _IncompatibleKeys([], []), list[str]()
    metadata = getattr(state, "_metadata", None)
    own: Any = OrderedDict(state)  # hooks and subclasses may change it
    if metadata is not None:
        own._metadata = metadata
    ties = tied(module) if assign else []
    load_tree(module, own, "", metadata or {}, assign, keys, problems)
    for tensor, owners in ties:
        tie_again(tensor, owners)
    missing, unexpected = keys
    if strict:
        if unexpected:
            problems.insert(0, f"Unexpected key(s) in state_dict: {listed(unexpected)}. ")
        if missing:
            problems.insert(0, f"Missing key(s) in state_dict: {listed(missing)}. ")
    if problems:
        lines = "".join(f"\n\t{problem}" for problem in problems)
        name = type(module).__name__
        raise StateDictError(
            None,
            f"Error(s) in loading state_dict for {name}:{lines}",
            hint=hint_for(missing, unexpected) if strict else None,
        )
    return keys


Owner = tuple[dict[str, Any], str]
"""Where a module holds a tensor: its dictionary, and the name there."""


def tied(module: Module) -> list[tuple[Tensor, list[Owner]]]:
    """Return the tensors that are held in several places, with these."""
    owners: dict[int, tuple[Tensor, list[Owner]]] = {}
    for part in module.modules():
        for held in (part._parameters, part._buffers):
            for name, tensor in held.items():
                if tensor is not None:
                    owners.setdefault(id(tensor), (tensor, []))[1].append((held, name))
    return [pair for pair in owners.values() if len(pair[1]) > 1]


def tie_again(tensor: Tensor, owners: list[Owner]) -> None:
    """Let all owners of what was one tensor hold the one that was assigned last."""
    assigned = [held[name] for held, name in owners if held[name] is not tensor]
    for held, name in owners if assigned else ():
        held[name] = assigned[-1]


def load_tree(
    module: Module, state: Any, prefix: str, metadata: dict[str, Any], assign: bool,
    keys: _IncompatibleKeys, problems: list[str],
) -> None:  # fmt: skip
    """Load a module, then the modules below, each from the part of the state that is its own."""
    local = metadata.get(prefix[:-1], {})
    if assign:
        local["assign_to_params_buffers"] = assign
    module._load_from_state_dict(state, prefix, local, True, *keys, problems)
    for name, child in module._modules.items():
        if child is not None:
            path = f"{prefix}{name}."
            part = {key: value for key, value in state.items() if key.startswith(path)}
            load_tree(child, part, path, metadata, assign, keys, problems)
    for hook in tuple(module._load_state_dict_post_hooks.values()):
        if hook(module, keys) is not None:
            raise PostHookError(
                "load_state_dict",
                "hooks of register_load_state_dict_post_hook are not expected to return new values",
                hint="change incompatible_keys.missing_keys and .unexpected_keys in place",
            )


class PostHookError(EdutorchError, AssertionError):
    """A hook behind `load_state_dict` returned something (an AssertionError, as PyTorch's)."""


def listed(keys: list[str]) -> str:
    return ", ".join(f'"{key}"' for key in keys)


def hint_for(missing: list[str], unexpected: list[str]) -> str | None:
    """Recognise a state_dict of the same model under a prefix, such as `module.`."""
    if not missing or not unexpected:
        return None
    prefix = unexpected[0].removesuffix(missing[0])
    if prefix != unexpected[0] and all(prefix + key in unexpected for key in missing):
        return f"every key begins with {prefix!r}: load {{k.removeprefix({prefix!r}): v …}}"
    return "strict=False loads what fits, and returns the keys that do not"


def load_own(
    module: Module, state: Mapping[str, Any], prefix: str, assign: bool, strict: bool,
    missing: list[str], unexpected: list[str], problems: list[str],
) -> None:  # fmt: skip
    """Copy what belongs to the module itself, noting what does not fit."""
    own = dict(own_state(module))
    for name, tensor in own.items():
        key = prefix + name
        if key in state:
            problem = take(module, name, tensor, key, state[key], assign)
            problems += [problem] if problem else []
        elif strict:
            missing.append(key)
    wanted, extra = has_extra(module, "set_extra_state"), prefix + EXTRA
    if wanted and extra in state:
        module.set_extra_state(state[extra])
    elif strict and wanted != (extra in state):
        (missing if wanted else unexpected).append(extra)
    for key in state if strict else ():
        if key.startswith(prefix) and key != extra:
            first, dot, _ = key[len(prefix) :].partition(".")
            if first not in (module._modules if dot else own):
                unexpected.append(key)


def take(
    module: Module, name: str, tensor: Tensor, key: str, found: Any, assign: bool
) -> str | None:
    """Copy what was found into a tensor, or hold it instead; say why if it does not fit."""
    if not isinstance(found, Tensor):
        return (
            f'While copying the parameter named "{key}", expected torch.Tensor or Tensor-like '
            f"object from checkpoint but received {type(found)}"
        )
    if is_lazy(tensor):
        if is_lazy(found):
            return None
    elif found.shape == (1,) and tensor.ndim == 0:  # as very old files have it
        found = found[0]
    if found.shape != tensor.shape:
        return (
            f"size mismatch for {key}: copying a param with shape {found.shape} from checkpoint, "
            f"the shape in current model is {tensor.shape}."
        )
    try:
        if assign:
            put(module, name, found)
        else:
            with no_grad():
                tensor.copy_(found)
    except (RuntimeError, TypeError, ValueError) as error:
        return (
            f'While copying the parameter named "{key}", whose dimensions in the model are '
            f"{tensor.size()} and whose dimensions in the checkpoint are {found.size()}, an "
            f"exception occurred : {error.args}."
        )
    return None


def put(module: Module, name: str, found: Tensor) -> None:
    """Let the module hold the very tensor that was found."""
    held = module._parameters.get(name)
    if held is not None and not isinstance(found, Parameter):
        found = Parameter(found, held.requires_grad)
    elif held is not None:
        found.requires_grad_(held.requires_grad)
    setattr(module, name, found)
