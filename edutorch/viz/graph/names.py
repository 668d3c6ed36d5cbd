"""Names: of tensors, of the losses of a step, and of the calls in which an op runs.

A parameter is named by its module, any other tensor by the variable that holds it. A student wrote
`cross_entropy(scores, classes)` and knows that word; the recorder receives the ops inside it. So
the calls between the user's line and an op are read from Python's stack of frames, in the steps
that are sampled in full.
"""

from __future__ import annotations

import functools
import inspect
import itertools
import sys
import weakref
from collections import Counter, deque
from collections.abc import Iterable, Mapping
from types import CodeType, FrameType
from typing import Any

from ...core.storage import strided
from ...core.tensor import Tensor
from ...errors import EdutorchError
from ...nn import Module
from .model import TIED, NodeKind, Scope, qualified_name

Variables = Iterable[tuple[str, Any]]

LIBRARY = "edutorch."


class NotAModelError(EdutorchError, TypeError):
    """Raised if something other than a module is to be watched."""


class Names:
    """Looks up names in `models`, then among the variables of `frame`.

    With several models, each path begins with the variable that holds its model.
    """

    def __init__(self, models: Iterable[Module] = (), frame: FrameType | None = None) -> None:
        self._given: list[Module] = []  # kept alive, because the tables below hold their ids
        self._running: dict[int, weakref.ref[Module]] = {}  # models that ran, not kept alive
        self._prefixes: list[str] = []  # of the known models
        self.frame = frame
        self.own: set[int] = set()  # ids of the models' parameters, while other views are open
        self.modules: dict[int, str] = {}
        self.classes: dict[str, str] = {}
        self._leaves: dict[int, tuple[NodeKind, str, str]] = {}
        self._homes: dict[int, tuple[str, ...]] = {}  # modules of each tied parameter, by id
        models = list(models)
        for model in models:
            self.learn(model, self._unused(self._variable_name(model)) if len(models) > 1 else "")

    def learn(self, model: Module, prefix: str | None = None) -> None:
        """Add the names of `model`. From the second model on, paths begin with its name."""
        if prefix is None:
            prefix = self._unused(self._variable_name(model)) if self._prefixes else ""
        if not hasattr(model, "named_modules"):
            raise NotAModelError(
                "viz.live",
                f"expected a module, got {type(model).__name__}",
                hint="viz.live(model), or viz.live() to watch whatever runs in the block",
            )
        self._given.append(model)
        self._add_names(model, prefix)

    @property
    def models(self) -> list[Module]:
        """The known models that are alive."""
        running = (reference() for reference in self._running.values())
        return [*self._given, *(model for model in running if model is not None)]

    def forget_models(self) -> None:
        """Forget the given models and all prefixes."""
        self._given.clear()
        self._prefixes.clear()

    def path_of(self, module: Module) -> str:
        """Return the path of a module that runs; an unknown module is added as a new model.

        A module made of known parts, such as a slice of a `Sequential`, is no new model: it gets
        the path of the module that holds its parts. A new model is not kept alive.
        """
        path = self.modules.get(id(module))
        if path is not None:
            return path
        parts = [self.modules.get(id(part)) for part in module.children()]
        known_paths = [part for part in parts if part is not None]
        if known_paths and len(known_paths) == len(parts):
            holder = common_path(known_paths)
            return holder if len(known_paths) > 1 else holder.rpartition(".")[0]
        prefix = self._unused(self._variable_name(module)) if self._prefixes else ""
        self._add_running(module, prefix)
        return prefix

    def _add_running(self, model: Module, prefix: str) -> None:
        """Add the names of a running model, and remove them when it dies: its ids are reused."""
        modules, leaves = set(self.modules), set(self._leaves)
        self._add_names(model, prefix)
        modules, leaves = self.modules.keys() - modules, self._leaves.keys() - leaves
        self_reference, key = weakref.ref(self), id(model)

        def forget(_: object) -> None:
            names = self_reference()
            if names is not None:
                names._running.pop(key, None)
                names._prefixes.remove(prefix)
                for identities, table in (
                    (modules, names.modules), (leaves, names._leaves), (leaves, names._homes),
                ):  # fmt: skip
                    for identity in identities:
                        table.pop(identity, None)

        self._running[key] = weakref.ref(model, forget)

    def _add_names(self, model: Module, prefix: str) -> None:
        """Add the names of a model. A shared module or tensor keeps the name that it has."""
        self._prefixes.append(prefix)
        for path, module in model.named_modules():
            path = ".".join(part for part in (prefix, path) if part)
            self.modules.setdefault(id(module), path)
            self.classes[path] = type(module).__name__
        for tensor, paths in parameter_paths(model).values():
            locations = [_split(prefix, path) for path in paths]
            if len(locations) > 1 and id(tensor) not in self._leaves:
                self._homes[id(tensor)] = tuple(dict.fromkeys(module for module, _ in locations))
            self._leaves.setdefault(id(tensor), ("parameter", *tied_name(locations)))
        for path, tensor in model.named_buffers():
            self._leaves.setdefault(id(tensor), ("buffer", *_split(prefix, path)))

    def _unused(self, name: str) -> str:
        """Return an unused name for a model: "Linear", "Linear_2"."""
        names = (name, *(f"{name}_{suffix}" for suffix in range(2, len(self._prefixes) + 3)))
        return next(name for name in names if name not in self._prefixes)

    def restrict_to(self, models: Iterable[Module]) -> None:
        """Restrict the picture to the computations of these models."""
        self.own = {id(tensor) for model in models for tensor in model.parameters()}

    def name(self, tensor: Tensor, name: str) -> None:
        """Set the name of a leaf."""
        node_kind, module, _ = self.of(tensor)
        self._leaves[id(tensor)] = node_kind, module, name

    def _variable_name(self, model: Module) -> str:
        names = (name for name, value in variables(self.frame) if value is model)
        return next(names, type(model).__name__)

    def of(self, tensor: Tensor) -> tuple[NodeKind, str, str]:
        """Return kind, module path and name of a leaf."""
        entry = self._leaves.get(id(tensor))
        if entry is not None:
            return entry
        from ...nn import Parameter

        node_kind: NodeKind = "parameter" if isinstance(tensor, Parameter) else "leaf"
        fallback = "leaf" if tensor.requires_grad else "data"
        name = self.variable_of(tensor) or self._local_name(tensor) or self._sparse_name(tensor)
        return node_kind, "", name or fallback

    def path_of_leaf(self, tensor: Tensor) -> str:
        """Return the qualified name of a leaf."""
        _, module, label = self.of(tensor)
        return qualified_name(module, label)

    def homes_of(self, tensor: Tensor) -> tuple[str, ...]:
        """Return the paths of the modules that own a parameter; several if it is tied."""
        entry = self._leaves.get(id(tensor))
        if entry is None or entry[0] != "parameter":
            return ()
        return self._homes.get(id(tensor), (entry[1],))

    def variable_of(self, tensor: Tensor) -> str:
        """Return the name of the variable in `frame` that holds a tensor, or ""."""
        return next((name for name, value in variables(self.frame) if value is tensor), "")

    def _sparse_name(self, tensor: Tensor) -> str:
        """Return "A (sparse 3×3)" for the values of a sparse tensor, in the variable A, or ""."""
        for name, value in variables(self.frame):
            is_sparse = isinstance(value, Tensor) and value.layout is not strided
            if is_sparse and value.entries is tensor:  # type: ignore[attr-defined]
                return f"{name} (sparse {'×'.join(map(str, value.shape))})"
        return ""

    def _local_name(self, tensor: Tensor) -> str:
        """Return the name of a tensor in the running functions, the innermost first.

        In library code, only the arguments of a layer's `forward` are names that a reader knows.
        """
        layer_name = ""
        frame = None if self.frame is None else sys._getframe(1)
        while frame is not None and frame is not self.frame:
            is_library = frame.f_globals.get("__name__", "").startswith(LIBRARY)
            if not is_library or (frame.f_code.co_name == "forward" and not layer_name):
                names = (name for name, value in frame.f_locals.items() if value is tensor)
                name = next(filter(is_user_name, names), "")
                if name and not is_library:
                    return name
                layer_name = layer_name or name
            frame = frame.f_back
        return layer_name


def _split(prefix: str, path: str) -> tuple[str, str]:
    """Split a path into module and name: ("", "layers.0.weight") -> layers.0, weight."""
    module, _, name = f"{prefix}.{path}".rpartition(".")
    return module.strip("."), name


def parameter_paths(model: Module) -> dict[int, tuple[Any, list[str]]]:
    """Return the parameters of a model by id, each with all of its paths.

    A module that is registered twice contributes once, as in `named_parameters`.
    """
    parameters: dict[int, tuple[Any, list[str]]] = {}
    for path, module in model.named_modules():
        for name, tensor in module.named_parameters(recurse=False, remove_duplicate=False):
            parameters.setdefault(id(tensor), (tensor, []))[1].append(f"{path}.{name}".strip("."))
    return parameters


def tied_name(locations: list[tuple[str, str]]) -> tuple[str, str]:
    """Return module and name of a parameter that one or several modules own.

    >>> tied_name([("net.embed", "weight"), ("net.head", "weight")])
    ('net', 'embed.weight = head.weight')
    """
    module = common_path([module for module, _ in locations])
    inside = len(module) + 1 if module else 0
    return module, TIED.join(f"{path}.{name}"[inside:].strip(".") for path, name in locations)


def common_path(paths: Iterable[str]) -> str:
    """Return the innermost module that contains, or equals, all of these paths.

    >>> common_path(["net.body.0", "net.body.1"]), common_path(["fc", "fc"])
    ('net.body', 'fc')
    """
    steps = zip(*(path.split(".") for path in paths), strict=False)
    shared = itertools.takewhile(lambda names: len(set(names)) == 1, steps)
    return ".".join(names[0] for names in shared)


def variables(frame: FrameType | None) -> Variables:
    """Yield the user's variables visible in `frame`, local ones first."""
    if frame is None:
        return
    scopes: tuple[Mapping[str, Any], ...] = (
        (frame.f_locals,)
        if frame.f_locals is frame.f_globals
        else (frame.f_locals, frame.f_globals)
    )
    for scope in scopes:
        for name, value in list(scope.items()):
            if is_user_name(name):
                yield name, value


def is_user_name(name: str) -> bool:
    """Whether a name was written by the user: not "_", "__name__" or "@py_assert1"."""
    return name.isidentifier() and not name.startswith("_") and not name.endswith("_")


def find_models(candidates: Variables) -> list[Module]:
    """Return the models among variables: modules with parameters that no other one contains."""
    from ...nn import Module

    modules = {id(value): value for _, value in candidates if isinstance(value, Module)}
    inner = {
        id(part) for module in modules.values() for part in module.modules() if part is not module
    }
    outer_models = (module for key, module in modules.items() if key not in inner)
    return [module for module in outer_models if any(True for _ in module.parameters())]


INNER = ("edutorch.core", "edutorch.viz", "edutorch.events", "edutorch.autograd", "edutorch.amp",
         "edutorch.modes", "contextlib", "functools")  # fmt: skip


FRAMES = 6
"""The number of frames searched for a variable, outwards from the call of backward."""


MOST = 12
"""The largest number of named losses: an unrolled loop has no more curves."""


@functools.lru_cache(1000)
def is_inner(module: str) -> bool:
    """Whether functions of a module, given by name, may lie between backward and its caller."""
    return module.startswith(INNER)


class LossNames:
    """Names the losses by the code locations where backward runs on them.

    Attributes:
        several: whether backward runs at several locations, so that each loss has a curve.
        values: the last value of each loss, by name.
        passes: name and value of each loss of the running step.
        sequence: the names of the losses of the last recorded step, in order.
    """

    def __init__(self) -> None:
        self.values: dict[str, float] = {}
        self.passes: list[tuple[str, float]] = []
        self.sequence: list[str] = []
        self._recent: deque[list[tuple[str, float]]] = deque(maxlen=MOST)
        self._names: dict[tuple[CodeType, int], str] = {}
        self._ended: dict[str, float] = {}  # `values` when the last step ended

    @property
    def several(self) -> bool:
        """Whether there is more than one loss."""
        return len(self._names) > 1

    def record(self, root: Tensor, value: float, frame: FrameType | None) -> None:
        """Record a loss on which backward ran, called from `frame`."""
        while frame is not None and is_inner(frame.f_globals.get("__name__", "")):
            frame = frame.f_back
        if frame is None:
            return
        location = frame.f_code, frame.f_lasti
        name = self._names.get(location)
        if name is None:
            if len(self._names) == MOST:
                return
            name = self._names[location] = self._unused_name(variable_of(root, frame) or "loss")
        self.values[name] = value
        self.passes.append((name, value))

    def _unused_name(self, name: str) -> str:
        """Return an unused name: backward on `loss` at a second location is `loss 2`."""
        taken = self._names.values()
        numbered = (f"{name} {suffix}" for suffix in itertools.count(2))
        candidates = (name, *itertools.islice(numbered, MOST))
        return next(candidate for candidate in candidates if candidate not in taken)

    def drop_passes(self) -> None:
        """Drop the losses since the last step: they belong to a step of another model."""
        self.values, self.passes = dict(self._ended), []
        names = self._names.items()
        self._names = {location: name for location, name in names if name in self._ended}

    def join(self, steps: int) -> None:
        """Merge the losses of the last `steps` steps into the running step."""
        parts = list(self._recent)[-steps:] if steps > 0 else []
        self.passes[:0] = itertools.chain.from_iterable(parts)

    def end_step(self, silent_values: list[float]) -> dict[str, float]:
        """Return the losses of the step that ends, by name.

        Args:
            silent_values: losses of which only the values were recorded.
        """
        if silent_values and not self.passes:
            self.values |= self.name_values(silent_values)
            self._ended = dict(self.values)
            return self.name_values(silent_values)
        self.sequence = [name for name, _ in self.passes] or self.sequence
        self._recent.append(self.passes)
        losses, self.passes = dict(self.passes), []
        self._ended |= losses
        return losses

    def name_values(self, values: list[float]) -> dict[str, float]:
        """Return losses by name, assuming the order of the last recorded step."""
        if len(values) != len(self.sequence):  # only the name of the last loss is certain
            return dict(zip(self.sequence[-1:], values[-1:], strict=False))
        return dict(zip(self.sequence, values, strict=True))


def variable_of(root: Tensor, frame: FrameType | None) -> str:
    """Return the name of the variable that holds a tensor, or ""."""
    for _ in range(FRAMES):
        if frame is None:
            return ""
        for name, value in frame.f_locals.items():
            if value is root and not name.startswith("_") and name != "self":
                return name
        frame = frame.f_back
    return ""


@functools.cache
def public_functions() -> dict[CodeType, str]:
    """Return the names of the public functions that are not ops themselves, by code object."""
    edutorch = sys.modules[__name__.partition(".")[0]]
    functional = edutorch.nn.functional

    table: dict[CodeType, str] = {}
    shared: set[CodeType] = set()  # code of several functions, such as wrappers: no name fits
    for namespace in (edutorch.Tensor, edutorch, edutorch.special, edutorch.linalg, functional):
        for name, value in list(vars(namespace).items()):
            if name.startswith("_") or inspect.isclass(value) or hasattr(value, "op"):
                continue
            code = getattr(inspect.unwrap(value) if callable(value) else None, "__code__", None)
            if code is not None and table.setdefault(code, name) != name:
                shared.add(code)
    return {code: name for code, name in table.items() if code not in shared}


class CallScopes:
    """The stack of running calls, and the number of calls of each name in this step."""

    def __init__(self) -> None:
        self.stack: list[Scope] = []
        self._in_library: list[bool] = []  # for each module on the stack: is it one of ours?
        self._calls: Counter[str] = Counter()
        # The frame of the function that ran last; kept alive, so that no other frame gets its id.
        self._frame: FrameType | None = None
        self._function: Scope | None = None

    def clear(self) -> None:
        """Forget the running calls: the end of some may not have been recorded."""
        self.stack.clear()
        self._in_library.clear()

    def begin_step(self) -> None:
        """Restart the counting of calls from 1."""
        self._calls.clear()
        self._frame = self._function = None

    def enter_module(self, module: Module, path: str) -> None:
        """Push the call of a module whose forward begins."""
        self.stack.append(self._count_call("module", path))
        self._in_library.append(type(module).__module__.startswith(LIBRARY))

    def leave_module(self) -> None:
        """Pop the innermost module call."""
        if self.stack:
            self.stack.pop()
            self._in_library.pop()

    @property
    def module(self) -> str:
        """The path of the innermost module; "" outside any module."""
        return self.stack[-1].name if self.stack else ""

    def current(self) -> tuple[Scope, ...]:
        """Return the calls around the op that has just run, the outermost first."""
        scopes = tuple(self.stack)
        if self._in_library and self._in_library[-1]:
            return scopes  # the name of a layer says more than the functions inside it
        frame = outermost_function(sys._getframe(2))
        if frame is None:
            return scopes
        if frame is not self._frame or self._function is None:
            name = public_functions()[frame.f_code]
            self._frame, self._function = frame, self._count_call("function", name)
        return (*scopes, self._function)

    def _count_call(self, scope_kind: Any, name: str) -> Scope:
        self._calls[name] += 1
        return Scope(scope_kind, name, self._calls[name])


def outermost_function(frame: FrameType | None) -> FrameType | None:
    """Return the frame of the public function called by the user's code or a module."""
    names, outermost = public_functions(), None
    while frame is not None and frame.f_globals.get("__name__", "").startswith(LIBRARY):
        if frame.f_code in names:
            outermost = frame
        frame = frame.f_back
    return outermost
