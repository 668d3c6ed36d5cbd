"""What a module holds, by name: written to a `state_dict` and read back from one."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from ...core.tensor import Tensor
from ...errors import EdutorchError
from ...modes import no_grad
from ..parameter import Parameter
from ..uninitialized import is_lazy

if TYPE_CHECKING:
    from .module import Module


class StateDictError(EdutorchError, RuntimeError):
    """A state_dict does not fit the module that it is loaded into."""


class IncompatibleKeys(NamedTuple):
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


def own_state(module: Module) -> Iterator[tuple[str, Tensor]]:
    """Yield the module's own parameters and persistent buffers by name."""
    for name, parameter in module._parameters.items():
        if parameter is not None:
            yield name, parameter
    for name, buffer in module._buffers.items():
        if buffer is not None and name not in module._non_persistent_buffers_set:
            yield name, buffer


def save_own(module: Module, destination: dict[str, Any], prefix: str, keep_vars: bool) -> None:
    for name, tensor in own_state(module):
        destination[prefix + name] = tensor if keep_vars else tensor.detach()


def load(module: Module, state: Mapping[str, Any], strict: bool, assign: bool) -> IncompatibleKeys:
    """Copy `state` into the module and everything below it.

    Raises: StateDictError: a shape differs; with `strict`, a key is missing or not needed.
    """
    if not isinstance(state, Mapping):
        raise TypeError(f"Expected state_dict to be dict-like, got {type(state)}.")
    missing: list[str] = []
    unexpected: list[str] = []
    problems: list[str] = []
    for prefix, each in places(module, ""):
        metadata = {"assign_to_params_buffers": assign}
        each._load_from_state_dict(
            OrderedDict(state), prefix, metadata, True, missing, unexpected, problems
        )
    if strict:
        if unexpected:
            problems.insert(0, f"Unexpected key(s) in state_dict: {listed(unexpected)}. ")
        if missing:
            problems.insert(0, f"Missing key(s) in state_dict: {listed(missing)}. ")
    if problems:
        lines = "".join(f"\n\t{each}" for each in problems)
        name = type(module).__name__
        raise StateDictError(
            None,
            f"Error(s) in loading state_dict for {name}:{lines}",
            hint=hint_for(missing, unexpected) if strict else None,
        )
    return IncompatibleKeys(missing, unexpected)


def places(module: Module, prefix: str) -> Iterator[tuple[str, Module]]:
    """Yield each place of each module: a shared one occurs at every place it has."""
    yield prefix, module
    for name, child in module._modules.items():
        if child is not None:
            yield from places(child, f"{prefix}{name}.")


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
    module: Module,
    state: Mapping[str, Any],
    prefix: str,
    assign: bool,
    missing: list[str],
    unexpected: list[str],
    problems: list[str],
) -> None:
    """Copy what belongs to the module itself, noting what does not fit."""
    own = dict(own_state(module))
    for name, tensor in own.items():
        key = prefix + name
        if key not in state:
            missing.append(key)
            continue
        if is_lazy(tensor) and is_lazy(state[key]):
            continue
        problem = misfit(key, tensor, state[key])
        if problem:
            problems.append(problem)
        elif assign:
            put(module, name, state[key])
        else:
            with no_grad():
                tensor.copy_(state[key])
    for key in state:
        if key.startswith(prefix):
            first, dot, _ = key[len(prefix) :].partition(".")
            if first not in (module._modules if dot else own):
                unexpected.append(key)


def misfit(key: str, tensor: Tensor, found: Any) -> str | None:
    """Say why what was found cannot be copied into a tensor, None if it can."""
    if not isinstance(found, Tensor):
        return (
            f'While copying the parameter named "{key}", expected torch.Tensor or Tensor-like '
            f"object from checkpoint but received {type(found)}"
        )
    if found.shape != tensor.shape:
        return (
            f"size mismatch for {key}: copying a param with shape {found.shape} from checkpoint, "
            f"the shape in current model is {tensor.shape}."
        )
    return None


def put(module: Module, name: str, found: Tensor) -> None:
    """Let the module hold the very tensor that was found."""
    held = module._parameters.get(name)
    if held is not None and not isinstance(found, Parameter):
        found = Parameter(found, held.requires_grad)
    setattr(module, name, found)
