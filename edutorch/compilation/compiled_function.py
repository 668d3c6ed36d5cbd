"""Compiled functions and modules: captured at the first call, replayed while the guards hold."""

from __future__ import annotations

import copy
import dis
import functools
import inspect
import logging
import threading
from collections.abc import Callable
from contextlib import ExitStack
from types import SimpleNamespace
from typing import Any
from weakref import WeakSet, ref

from .. import events
from ..core.op import ARRAY_ERRORS
from ..core.tensor import PLAIN_TENSORS, Tensor
from ..errors import EdutorchError, user_location, warn
from ..fx.capture import CaptureSession
from ..fx.capture_patches import current_tracer
from ..fx.captured_graph import Captured, argument_names
from ..modes import DEFAULT, NO_GRAD, Modes, current
from ..nn import Module
from ..utils._pytree import LeafSpec, TreeSpec, tree_flatten
from . import trial as trial_module
from .compiled_version import CompiledVersion
from .entry_codegen import MISS, make_entry
from .guards import Guards, describe, is_guarded_array
from .pipeline import Lowered, graph_compiler
from .trial import Trial
from .xla import XlaCheckError, XlaError

__all__ = ["BreakError", "Compiled", "OptimizedModule", "compile", "reset"]

log = logging.getLogger("edutorch.compile")

ALL: WeakSet[Compiled] = WeakSet()
LEAF = LeafSpec()

CHECKED_CALLS, UNCHECKED_CALLS = 8, 63
"""A function of one op runs as it is written, which is always right: after 8 calls with the guards'
checks, only one in 64 has them, to see whether its arguments have become others. One without a
branch, whose op runs so for all arguments, has none any more."""

config = SimpleNamespace(
    recompile_limit=8, cache_size_limit=8, suppress_errors=False, verbose=False
)
"""PyTorch's `torch._dynamo.config`. `recompile_limit` (or its old name `cache_size_limit`, if that
was lowered) says how often a function is captured before it stays as it is written; the others are
accepted."""


def compile(
    model: Callable[..., Any] | None = None, *, fullgraph: bool = False,
    dynamic: bool | None = None, backend: str | Callable[..., Any] = "inductor",
    mode: str | None = None, options: dict[str, Any] | None = None, disable: bool = False,
) -> Any:  # fmt: skip
    """See `edutorch.compile`: this is its body, imported at the first call."""
    settings = {
        "fullgraph": fullgraph, "dynamic": dynamic, "backend": backend, "mode": mode,
        "options": options,
    }  # fmt: skip
    if model is None:
        return functools.partial(compile, **settings, disable=disable)
    if not callable(model):
        raise TypeError(
            f"compile: `model` is a {type(model).__name__}; give a function or a module"
        )
    if disable or isinstance(model, Compiled | OptimizedModule):
        return model
    compiled = Compiled(model, settings)
    return OptimizedModule(model, compiled) if isinstance(model, Module) else compiled


class BreakError(EdutorchError, RuntimeError):
    """With `fullgraph=True`: the function cannot be captured as one graph."""


class Compiled:
    """A function compiled by `edutorch.compile`.

    `entries` are its compiled versions, the most recently used first. `retraces` says why each of
    them except the first was made. `broken` says why it runs uncompiled, if it does.

    What a call runs is in the slot `__call__`, which costs as little as a call of a function:
    `call_version`, until `skip_checks` puts the function itself there.
    """

    __slots__ = ("__call__", "__dict__", "__weakref__")
    __call__: Callable[..., Any]

    def __init__(self, function: Callable[..., Any], settings: dict[str, Any]) -> None:
        functools.update_wrapper(self, function)
        self.function, self.settings = function, settings
        self.title = getattr(function, "__name__", type(function).__name__)
        self.fullgraph, self.make = settings.get("fullgraph", False), graph_compiler(settings)
        self.entries: list[CompiledVersion] = []
        self.retraces: list[str] = []
        self.broken: list[str] = []
        self.count = 0
        self.given_up = False
        self.prepared = 0  # calls that only made the state of an optimizer
        self._lock = threading.RLock()
        self._bound: dict[int, Compiled] = {}
        self._torchdynamo_orig_callable = function
        self.check_calls()
        ALL.add(self)

    def check_calls(self) -> None:
        """Look at the arguments of the next calls: see `skip_checks`."""
        self.unchecked = self.same_calls = 0
        # Not a bound method: it would be a reference cycle, with the memory of all versions.
        self.__call__ = functools.partial(call_in_trial, ref(self), Trial())

    def end_trial(self) -> None:
        """Let the next calls be what was found to be faster: see `trial.py`."""
        self.__call__ = make_call(ref(self), self.function)

    def fits(self, version: CompiledVersion, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
        """Whether a version is for arguments like these."""
        return version.guards.mismatch(*flatten_arguments(args, kwargs)) is None

    def call_version(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Call a compiled version, or the function itself."""
        if self.entries and (entry := self.entries[0].entry) is not None:
            result = entry.call(args, kwargs)
            if result is not MISS:
                return result
        mode = current()
        # A listener wants to see every op, and so do other modes: then the function itself runs.
        is_plain = mode is DEFAULT or mode is NO_GRAD or is_plain_mode(mode)
        if not is_plain or self.given_up or current_tracer() or events._STEP_LISTENERS.get():
            return self.function(*args, **kwargs)
        leaves, spec = flatten_arguments(args, kwargs)
        for number, entry in enumerate(self.entries):
            if entry.guards.mismatch(leaves, spec) is None:
                if number:  # calls alternate rarely: the version that fitted comes first
                    self.entries.insert(0, self.entries.pop(number))
                if entry.runs_function:
                    self.skip_checks(entry.runs_function_always)
                    return self.function(*args, **kwargs)
                return self.replay(entry, leaves, args, kwargs)
        return self.capture(leaves, spec, args, kwargs)

    def skip_checks(self, always: bool) -> None:
        """Let the next calls go to the function without checks, after some that all did.

        Args:
            always: with other shapes, too, the function should run as it is written.
        """
        self.same_calls += 1
        if self.same_calls < CHECKED_CALLS:
            return
        if always and not has_branches(self.function):
            self.__call__ = self.function
        else:
            self.unchecked = UNCHECKED_CALLS

    def replay(
        self, entry: CompiledVersion, leaves: list[Any], args: tuple[Any, ...],
        kwargs: dict[str, Any],
    ) -> Any:  # fmt: skip
        """Run a compiled version; if it raises, run the function, for its own error."""
        place = user_location() if entry.writes else None
        try:
            return entry.run(leaves, place)  # type: ignore[arg-type]
        except XlaCheckError:  # nothing is written: the function itself says what is wrong
            return self.function(*args, **kwargs)
        except (*ARRAY_ERRORS, XlaError) as error:
            if entry.writes:  # they may be half done: running it again would do them twice
                raise
            result = self.function(*args, **kwargs)  # raises, if the mistake is the caller's
            self.warn_once(f"its compiled version failed: {str(error).splitlines()[0]}")
            if isinstance(error, XlaError):  # as it would the next time
                entry.reasons, entry.runs_function = [(str(error), "?")], True
            return result

    def capture(
        self, leaves: list[Any], spec: TreeSpec, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:
        """Run the function, and compile its captured graph for the next call."""
        unsupported = [leaf for leaf in leaves if not can_be_guarded(leaf)]
        if unsupported:
            self.warn_once(unsupported_reason(unsupported[0]))
            self.skip_checks(always=False)
            return self.function(*args, **kwargs)
        self.check_calls()
        with self._lock:
            if self.entries:
                why = self.entries[0].guards.mismatch(leaves, spec) or "its guards hold again"
                self.retraces.append(why)
                log.info("%s is captured again: %s", self.title, why)
            if self.count >= max_versions():
                self.give_up()
                return self.function(*args, **kwargs)
            capturing_now = CaptureSession(self.function, args, kwargs)
            guards_before = [describe(leaf) for leaf in leaves]  # the function may change them
            try:
                captured = capturing_now.run()
            except Exception:
                if not capturing_now.started:
                    raise
                result = self.function(*args, **kwargs)  # the error, as it reads without us
                self.count += 1
                self.retraces.append("an error inside, which only the capture had")
                return result
            if captured.again and self.prepared < 3:  # an optimizer has just made its state
                self.prepared += 1
                return captured.result
            self.count += 1
            result = captured.result
            names = argument_names(self.function, args, kwargs)
            guards = Guards(captured, leaves, spec, names, guards_before)
            self.entries.insert(0, self.version(captured, guards))
            if captured.reasons:
                self.report(captured.reasons)
                self.given_up = captured.changes
            return result

    def version(self, captured: Captured, guards: Guards) -> CompiledVersion:
        """Compile a captured graph; if XLA cannot, the version only knows the reason."""
        try:
            version = CompiledVersion(self.title, captured, guards, self.make)
            is_usual = guards.spec == flat_spec(len(guards.leaves)) and not version.runs_function
            if is_usual and isinstance(version.forward, Lowered):
                version.entry = make_entry(version)
            return version
        except XlaError as error:
            hint = f" ({error.hint})" if error.hint else ""
            captured.reasons.append((f"{error.message}{hint}", error.arguments.get("line", "?")))
            return CompiledVersion(self.title, captured, guards, self.make)

    def report(self, reasons: list[tuple[str, str]]) -> None:
        """Warn once why a version is not compiled.

        Raises: BreakError: with `fullgraph=True`.
        """
        what, line = reasons[0]
        where = "" if line == "?" else f" ({line})"
        text = f"{what}{where}"
        if self.fullgraph:
            raise BreakError(
                "compile", f"{self.title} cannot be captured whole: {text}",
                hint="leave out fullgraph=True, or move this out of the function",
            )  # fmt: skip
        self.warn_once(text)

    def warn_once(self, text: str) -> None:
        """Warn once why the function runs uncompiled."""
        if text not in self.broken:
            self.broken.append(text)
            warn(f"compile: {self.title} runs as it is written, not compiled: {text}")

    def give_up(self) -> None:
        """Run the function uncompiled from now on, and warn."""
        self.given_up, self.__call__ = True, self.function
        warn(
            f"compile: {self.title} was captured {self.count} times and runs as it is written "
            f"from now on; the last time because of {self.retraces[-1]}"
        )

    def explain(self) -> str:
        """Return what was compiled, fused, and not, and why, as text."""
        lines = [f"{self.title}: {len(self.entries)} version(s)"]
        lines += [f"captured again because of {retrace}" for retrace in self.retraces]
        lines += [f"not compiled: {reason}" for reason in self.broken]
        for number, entry in enumerate(self.entries):
            lines += [f"version {number} {entry.verdict}"] if entry.verdict else []
            for part in entry.explanations():
                lines += ["", f"version {number}, {part[0]}:", str(part[1])]
        return "\n".join(lines)

    def timed(self, *args: Any, calls: int = 20, **kwargs: Any) -> str:
        """Call the function some times, and return how long each step of its code takes.

        The calls are real ones: a training step trains. The steps are the lines of `code`.
        """
        # Past `__call__`, which may run the function as it is written, to see which is faster.
        for _ in range(4):  # the first calls capture, and may only make an optimizer's state
            self.call_version(args, kwargs)
        parts = [part for entry in self.entries[:1] for part in entry.runs()]
        with ExitStack() as stack:
            timings = [stack.enter_context(run.wait().timed(name)) for name, run in parts]
            for _ in range(calls):
                self.call_version(args, kwargs)
        texts = [str(timing) for timing in timings if timing.medians]
        verdicts = [entry.verdict for entry in self.entries[:1] if entry.verdict]
        return "\n\n".join([f"{self.title}: what each step takes", *verdicts, *texts])

    @property
    def code(self) -> str:
        """The Python code that replaces the function, and the kernels that it calls."""
        texts = []
        for number, entry in enumerate(self.entries):
            for name, run in (("function", entry.forward), ("gradients", entry.backward)):
                if hasattr(run, "code"):
                    texts.append(f"# version {number}, {name}\n\n{run.code}")  # type: ignore[union-attr]
        return "\n\n".join(texts)

    def reset(self) -> None:
        """Discard every compiled version."""
        self.entries, self.retraces, self.broken = [], [], []
        self.count, self.prepared, self.given_up = 0, 0, False
        self.check_calls()
        for compiled_ in self._bound.values():
            compiled_.reset()

    # As a method, and copied ------------------------------------------------------------------

    def __get__(self, instance: object, owner: type | None = None) -> Any:
        """Bind as a method: each object has compiled versions of its own."""
        if instance is None:
            return self
        bound = self._bound.get(id(instance))
        # An id is given to another object when the first one is gone.
        if bound is None or bound.function.__self__ is not instance:  # type: ignore[attr-defined]
            bound = Compiled(self.function.__get__(instance, owner), self.settings)  # type: ignore[attr-defined]
            self._bound[id(instance)] = bound
        return bound

    def copy_for(self, function: Callable[..., Any]) -> Compiled:
        """Return another function compiled with the same settings."""
        return Compiled(function, self.settings)

    def __deepcopy__(self, memo: dict[int, Any]) -> Compiled:
        return self.copy_for(copy.deepcopy(self.function, memo))

    def __reduce__(self) -> Any:
        return Compiled, (self.function, self.settings)

    @property
    def __signature__(self) -> inspect.Signature:
        return inspect.signature(self.function)

    def __repr__(self) -> str:
        return f"<compiled {self.title}, {len(self.entries)} version(s)>"


class OptimizedModule(Module):
    """Runs a module compiled. Everything else is delegated to the module itself, `_orig_mod`."""

    def __init__(self, mod: Module, compiled: Compiled) -> None:
        super().__init__()
        self._orig_mod = mod
        # Past `__setattr__`, which hands everything on to the module.
        self.__dict__["_compiled"] = compiled
        self.__dict__["training"] = mod.training

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Run the compiled module."""
        return self.__dict__["_compiled"](*args, **kwargs)

    def __getattr__(self, name: str) -> Any:
        module = self.__dict__.get("_modules", {}).get("_orig_mod")
        if module is None:  # while it is unpickled
            raise AttributeError(name)
        return module if name == "_orig_mod" else getattr(module, name)

    def __setattr__(self, name: str, value: object) -> None:
        if "_modules" not in self.__dict__ or name == "_orig_mod":
            super().__setattr__(name, value)
        elif name == "training":
            self.__dict__["training"] = value
        else:
            setattr(self._orig_mod, name, value)

    def __delattr__(self, name: str) -> None:
        delattr(self._orig_mod, name)

    def __len__(self) -> int:
        return len(self._orig_mod)  # type: ignore[arg-type]

    def __getitem__(self, index: int | slice | str) -> Any:
        return self._orig_mod[index]  # type: ignore[index]

    def __deepcopy__(self, memo: dict[int, Any]) -> OptimizedModule:
        module = copy.deepcopy(self._orig_mod, memo)
        return OptimizedModule(module, self.__dict__["_compiled"].copy_for(module))

    def __reduce__(self) -> Any:
        return OptimizedModule.rebuilt, (self._orig_mod, self.__dict__["_compiled"].settings)

    @staticmethod
    def rebuilt(module: Module, settings: dict[str, Any]) -> OptimizedModule:
        """Compile a module again after unpickling or copying."""
        return compile(module, **settings)

    def __repr__(self) -> str:
        body = repr(self._orig_mod).replace("\n", "\n  ")
        return f"OptimizedModule(\n  (_orig_mod): {body}\n)"


def make_call(reference: ref[Compiled], function: Callable[..., Any]) -> Callable[..., Any]:
    """Return what calls a compiled function, which its own slot `__call__` refers to weakly."""
    unchecked = 0  # a variable of its own: an attribute takes several times as long

    def call(*args: Any, **kwargs: Any) -> Any:
        nonlocal unchecked
        if unchecked:
            unchecked -= 1
            return function(*args, **kwargs)
        compiled: Any = reference()
        compiled.unchecked = 0
        result = compiled.call_version(args, kwargs)
        unchecked = compiled.unchecked
        return result

    return call


def call_in_trial(reference: ref[Compiled], trial: Trial, /, *args: Any, **kwargs: Any) -> Any:
    """Call a compiled function while it is measured which way is faster."""
    compiled: Any = reference()
    if compiled.unchecked:
        compiled.unchecked -= 1
        return compiled.function(*args, **kwargs)
    return trial.call(compiled, args, kwargs)


def has_branches(function: Callable[..., Any]) -> bool:
    """Whether a function may take another path in another call, or has no Python code at all."""
    code = getattr(function, "__code__", None)
    jumps = {*dis.hasjrel, *dis.hasjabs}
    return code is None or any(line.opcode in jumps for line in dis.get_instructions(code))


# Arguments and modes ------------------------------------------------------------------------


def max_versions() -> int:
    """Return how often a function is captured before it is left uncompiled."""
    return min(config.recompile_limit, config.cache_size_limit)


def flatten_arguments(args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[list[Any], TreeSpec]:
    """Return the leaves of the arguments and their tree, with a fast path without containers."""
    if not kwargs:
        for argument in args:  # `any` with a generator takes three times as long
            if isinstance(argument, list | tuple | dict):
                break
        else:
            return list(args), flat_spec(len(args))
    return tree_flatten((args, kwargs))


@functools.cache
def flat_spec(count: int) -> TreeSpec:
    return tree_flatten((tuple(range(count)), {}))[1]


def can_be_guarded(value: object) -> bool:
    """Whether an argument can be guarded: NumPy arrays and tensor subclasses cannot."""
    if isinstance(value, Tensor):
        return value.__class__ in PLAIN_TENSORS and is_guarded_array(value._array)
    return not hasattr(value, "__array__")


def unsupported_reason(value: object) -> str:
    """Return why an argument for which `can_be_guarded` is False prevents compilation."""
    if isinstance(value, Tensor) and value.device.type == "meta":
        return "a tensor is on the device meta, which has no elements"
    class_name = type(value).__name__
    return f"an argument is of the class {class_name}; only plain tensors are compiled for"


def is_plain_mode(mode: Modes) -> bool:
    """Whether only gradients and inference mode are switched: other modes observe every op."""
    return (
        not mode.listeners
        and not mode.levels
        and not mode.batches
        and mode.saving is None
        and mode.autocast is None
    )


def reset() -> None:
    """Discard everything that was compiled."""
    for compiled_ in list(ALL):
        compiled_.reset()


# Its annotations name these.
vars(trial_module).update(Compiled=Compiled, CompiledVersion=CompiledVersion)
