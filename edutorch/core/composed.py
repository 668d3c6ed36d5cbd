"""Functions composed of ops: what an op has by itself, given to them by decorators.

wrap_functions      the functions of a module: errors name the argument, autocast sees the whole
as_method           the method of Tensor
takes_out           the out= form
composed_in_float32 16-bit tensors are computed with in float32
recorded_as         PyTorch's name of `grad_fn`, where one op there is several here
with_twin           the in-place form
ask_overrides       `__torch_function__` is asked about the method, not about the ops inside

However many of the first five a function has, it gets one public form (`Composition`), whose call
path is written at its first call (`fast/composed_codegen.py`).
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from types import FunctionType, SimpleNamespace
from typing import Any, TypeVar

from numpy import ndarray

from ..errors import ArgumentError, EdutorchError
from ..modes import current, override_modes
from .argument_checks import (
    ALIASES,
    FAILURES,
    TENSOR,
    call_as,
    check_arguments,
    classes_of,
    explain_failure,
    refuse_unusual,
)
from .autograd.multi_output import OutputNode
from .autograd.versions import clock
from .fast import composed_codegen
from .precision import widened
from .subclasses import call_override, find_overrides
from .tensor import LEAF, PLAIN_TENSORS, Tensor
from .tensor_methods import (
    VARARG_METHODS,
    accept_varargs,
    alias_with_history,
    overwrite,
    refuse_leaf,
    write_out,
)

F = TypeVar("F", bound=Callable[..., Any])

# The public form ----------------------------------------------------------------------

REQUIRED: Any = object()
"""The default of a required argument of a public form, which itself says that one is missing."""

STEPS = ("widening", "node_name", "has_out", "aliases", "checks")
"""What a public form does around the function, the innermost first."""


@dataclass(eq=False)
class Composition:
    """A composed function, and what its public form does around it.

    Attributes:
        body: the function itself.
        name: its public name.
        widening: makes of the function one that computes 16-bit tensors in float32.
        finish: what is done with its result, and its first argument, where that has more bits.
        node_name: PyTorch's name of the node that it records, or a function of its arguments.
        has_out: whether there is an `out=` form.
        aliases: whether NumPy's names for `dim` and `keepdim` are accepted.
        checks: whether errors name the argument that it cannot take.
        autocasts: whether autocast sees the call as a whole.
    """

    body: Callable[..., Any]
    name: str
    widening: Callable[..., Any] | None = None
    finish: Callable[..., Any] | None = None
    node_name: str | Callable[..., str] | None = None
    has_out: bool = False
    aliases: bool = False
    checks: bool = False
    autocasts: bool = False
    public: Any = None

    @property
    def is_loose(self) -> bool:
        """Whether the public form itself says which arguments are missing or unknown."""
        return self.checks or self.aliases

    @property
    def is_wrapped(self) -> bool:
        """Whether the body is a wrapper, which takes its arguments as they come."""
        is_plain = {"__wrapped__", "__signature__"}.isdisjoint(self.body.__dict__)
        return not is_plain and composition_of(self.body) is None

    @cached_property
    def body_parameters(self) -> list[inspect.Parameter]:
        """The parameters of the function itself."""
        return list(inspect.signature(self.body).parameters.values())

    @cached_property
    def wide_body(self) -> Callable[..., Any]:
        """The function, for arguments of any dtype."""
        return self.body if self.widening is None else self.widening(self.body)

    @cached_property
    def parameters(self) -> list[inspect.Parameter]:
        """The parameters of the public form."""
        return list(inspect.signature(self.public).parameters.values())

    @cached_property
    def classes(self) -> Any:
        """The ordinary classes of the arguments, by position and by name."""
        return classes_of(self.parameters)

    @cached_property
    def source(self) -> str:
        """The source of the public form, which gets it as its code."""
        self.source, scope = composed_codegen.composed_source(self)
        scope |= {
            "BODY": self.body, "FAILURES": CAUGHT, "LEAF": LEAF, "NODE_NAME": self.node_name,
            "NODE_TYPES": {}, "renamed_type": renamed_type,
            "REQUIRED": REQUIRED, "TENSORS": PLAIN_TENSORS, "Tensor": Tensor, "clock": clock,
            "finish": self.finish, "modes": current, "ndarray": ndarray,
            "name_node": name_node, "name_results": name_results,
        }  # fmt: skip
        exec(compile(self.source, f"<edutorch composed {self.name}>", "exec"), scope)
        public, written = self.public, scope.pop(self.name, None) or scope["composed"]
        public.__globals__.update(scope)
        public.__defaults__, public.__kwdefaults__ = written.__defaults__, written.__kwdefaults__
        public.__code__ = written.__code__  # last: another thread may call it
        return self.source

    # The general path

    def call(self, args: Sequence[Any], named: dict[str, Any]) -> Any:
        """Call the function with any arguments."""
        if named and self.aliases:
            for alias, name in ALIASES.items():
                if alias in named and any(name == known.name for known in self.parameters):
                    named[name] = named.pop(alias)
        if not self.checks:
            return self.run(*args, **named)
        by_position, by_name = self.classes
        for value, classes in zip(args, by_position):  # noqa: B905  (`strict` takes time)
            if classes is not None and value.__class__ not in classes:
                refuse_unusual(self.name, self.parameters, args, named)
        for name, value in named.items():
            classes = by_name.get(name)
            if classes is not None and value.__class__ not in classes:
                refuse_unusual(self.name, self.parameters, args, named)
        try:
            autocast = current().autocast if self.autocasts else None
            if autocast is not None:
                return autocast.call(self.run, self.name, args, named)
            return self.inner(*args, **named)
        except CAUGHT as error:
            self.explain(error, args, named)
            raise

    @cached_property
    def inner(self) -> Callable[..., Any]:
        """What is called inside the checks: the function, where nothing is to be done with it."""
        return self.run if self.has_out or self.node_name is not None else self.wide_body

    def run(self, *args: Any, **named: Any) -> Any:
        """Call the function, name the node that it records, and write its result into `out`."""
        out = named.pop("out", None) if self.has_out else None
        start = clock()
        result = self.wide_body(*args, **named)
        if self.node_name is not None:
            name_results(result, start, self.node_name, args, named)
        return result if out is None else write_into(self.name, out, result)

    def explain(self, error: Exception, args: Sequence[Any], named: dict[str, Any]) -> None:
        """Raise an error that says more than this one, if there is more to say."""
        is_own = isinstance(error, EdutorchError)
        # The wrong argument is named first: what failed inside may only be its consequence.
        check_arguments(self.name, self.parameters, args, named, is_own)
        better = None
        if not is_own:
            better = explain_failure(self.name, error, self.parameters, args, named)
        if better is not None:
            # `from`: the original stays visible below, for whoever debugs this library.
            raise better from error

    def as_passed(
        self, values: Sequence[Any], extra: tuple[Any, ...], unknown: dict[str, Any]
    ) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Return the arguments of a call by position and by name, without those left out.

        Args:
            values: those of all parameters of the body.
            extra, unknown: further ones.
        """
        args: list[Any] = []
        named = dict(unknown)
        pairs = list(zip(self.body_parameters, values, strict=True))
        while pairs and is_left_out(*pairs[-1]) and not extra:
            pairs.pop()
        by_name = False
        for parameter, value in pairs:
            by_name = by_name or value is REQUIRED or parameter.kind is parameter.KEYWORD_ONLY
            if not by_name:
                args.append(value)
            elif not is_left_out(parameter, value):
                named[parameter.name] = value
        return (*args, *extra), named


# Annotations there name it: `typing.get_type_hints` looks it up in their globals.
composed_codegen.__dict__["Composition"] = Composition

CAUGHT = (*FAILURES, EdutorchError)
COMPOSITION: Composition = None  # type: ignore[assignment]  # each public form has its own globals
FUNCTION: Any = None


def _first_call(*args: Any, **named: Any) -> Any:
    """The body of a public form until it is called for the first time."""
    COMPOSITION.source  # noqa: B018  (it is written now)
    return COMPOSITION.public(*args, **named)


def is_left_out(parameter: inspect.Parameter, value: object) -> bool:
    """Return True if an argument is the default: nobody passed it, or it makes no difference."""
    return value is REQUIRED or value is parameter.default


def compose(function: Callable[..., Any], **steps: Any) -> Any:
    """Return the public form of a function with further steps around it."""
    inner = composition_of(function)
    known = [] if inner is None else [step for step in STEPS if getattr(inner, step)]
    further = [step for step in STEPS if steps.get(step)]
    is_again = known[-1:] == further == ["checks"]
    if inner is not None and (
        is_again or known + further == sorted({*known, *further}, key=STEPS.index)
    ):
        composition = replace(inner, name=function.__name__, **steps)
    else:
        composition = Composition(function, function.__name__, **steps)
    scope = {"COMPOSITION": composition, "__name__": function.__module__}
    public = FunctionType(_first_call.__code__, scope, function.__name__)
    composition.public = functools.update_wrapper(public, function)
    return public


def composition_of(function: Any) -> Composition | None:
    """Return the composition of a public form, None for another function."""
    composition = getattr(function, "__globals__", {}).get("COMPOSITION")
    return composition if composition is not None and composition.public is function else None


def with_argument_checks(function: Callable[..., Any], *, autocasts: bool = True) -> Any:
    """Make the errors of a composed function name the argument that it cannot take.

    Args:
        autocasts: let autocast see the call as a whole; a method's is left to its ops.
    """
    return compose(function, checks=True, autocasts=autocasts)


def is_op(function: object) -> bool:
    """Return True if a function is an op's own, not a composed one with the same attribute."""
    return getattr(getattr(function, "op", None), "function", None) is function


def wrap_functions(face: dict[str, Any]) -> None:
    """Wrap the composed functions among the names of a module."""
    for name, value in face.items():
        if name.startswith("_") or value.__class__ is not FunctionType or is_op(value):
            continue
        annotations = inspect.unwrap(value).__annotations__
        takes_tensor = any(str(annotation) in TENSOR for annotation in annotations.values())
        face[name] = with_argument_checks(value, autocasts=takes_tensor)
        if (add_plain_path := getattr(value, "add_plain_path", None)) is not None:
            face[name] = add_plain_path(face[name])
        face[name].__module__ = face["__name__"]  # where pickle finds it again


def as_method(function: Callable[..., Any]) -> Callable[..., Any]:
    """Make a function composed of ops a Tensor method too."""
    name = function.__name__
    function = with_aliases(function)
    method = with_argument_checks(function, autocasts=False)
    setattr(Tensor, name, accept_varargs(method) if name in VARARG_METHODS else method)
    return function


def composed_in_float32(function: F) -> F:
    """Make a composed function compute with 16-bit tensors in float32: see `precision.widened`."""
    return compose(function, widening=widened)


def with_aliases(function: F) -> F:
    """Make a composed function accept NumPy's names for `dim` and `keepdim`, as an op does."""
    code = inspect.unwrap(function).__code__  # faster than a signature, for hundreds of functions
    names = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
    return compose(function, aliases=True) if {*names} & {*ALIASES.values()} else function


def ask_overrides(method: F, direct: Callable[[Tensor], Any] | None = None) -> F:
    """Make a method call `__torch_function__` with itself, as an op does.

    A class that knows only ops calls the method's attribute `composed` there.

    torchvision's images, masks and boxes keep their class in `Tensor.to`, and lose it in other ops.

    Args:
        direct: the method of ordinary tensors without further arguments.
    """

    @functools.wraps(method)
    def asking(self: Tensor, *args: Any, **named: Any) -> Any:
        if direct is not None and self.__class__ in PLAIN_TENSORS and not args and not named:
            return direct(self)
        for operand in (self, *args):
            if isinstance(operand, Tensor) and operand.__class__ not in PLAIN_TENSORS:
                if overrides := find_overrides((self, *args)):
                    return call_override(asking, overrides, (self, *args), named)
                break
        return method(self, *args, **named)

    asking.composed = method  # type: ignore[attr-defined]
    return asking  # type: ignore[return-value]


# The out= and the in-place form -------------------------------------------------------

CASTING = set(
    """arange linspace logspace clamp_max clamp_min max min addr diff ldexp float_power
    column_stack hstack vstack dstack row_stack kron inner nansum nanmean std var normal bernoulli
    hfft hfft2 hfftn irfft irfft2 irfftn polygamma multigammaln
    cholesky cholesky_inverse cholesky_solve geqrf lu normalize cond householder_product lstsq
    matrix_rank pinv tensorinv tensorsolve""".split()
)
"""The composed functions that cast their result to the dtype of `out`, as in PyTorch."""


def takes_out(function: F) -> F:
    """Add an `out=` argument to a function: a tensor, or a tuple of them for several results.

    Raises: GradientError, DTypeError, ShapeError: the result cannot be written there.
    """
    public = compose(function, has_out=True)
    signature = inspect.signature(function)
    parameters = list(signature.parameters.values())
    # `**named` has to stay behind `out`.
    last = parameters[-1].kind is inspect.Parameter.VAR_KEYWORD
    new = inspect.Parameter("out", inspect.Parameter.KEYWORD_ONLY, default=None)
    parameters.insert(len(parameters) - last, new)
    public.__signature__ = signature.replace(parameters=parameters)
    return public


def write_into(name: str, out: Any, result: Any) -> Any:
    """Write one result, or each of several, into the tensors of `out`."""
    # `write_out` reads three attributes of an op, which a composed function lacks.
    op: Any = SimpleNamespace(name=name, title=name, casts_out=name in CASTING)
    if not isinstance(result, tuple):
        return write_out(op, out, result)
    if not isinstance(out, tuple | list) or len(out) != len(result):
        raise ArgumentError(name, f"out must be a tuple of {len(result)} tensors")
    parts: list[Any] = [write_out(op, *pair) for pair in zip(out, result, strict=True)]
    cls: Any = type(result)
    return cls(*parts) if hasattr(cls, "_fields") else tuple(parts)


def with_twin(function: F) -> F:
    """Add the in-place form of a composed function to Tensor, as `x.ldexp_(other)`."""
    name = f"{function.__name__}_"

    def twin(self: Tensor, *args: Any, **named: Any) -> Tensor:
        if current().autocast is not None:  # the tensor that is written into has its dtype already
            with override_modes(autocast=None):
                return twin(self, *args, **named)
        refuse_leaf(self, name)
        # The function computes with the former value, while `self` is going to be the result.
        before = alias_with_history(self)
        if current().grad:  # the ops inside may have saved the elements as they were
            before._array, before._writes = self._array.copy(), None
        args = tuple(before if argument is self else argument for argument in args)
        overwrite(self, call_as(name, function, (before, *args), named), before, name)
        return self

    twin.__name__ = twin.__qualname__ = name
    twin.__doc__ = f"The in-place form of `{function.__name__}`."
    setattr(Tensor, name, twin)
    function.in_place = twin  # type: ignore[attr-defined]
    return function


# The name of the node -----------------------------------------------------------------


def recorded_as(name: str | Callable[..., str]) -> Callable[[F], F]:
    """Give PyTorch's name to the last node that a composed function records.

    Args:
        name: PyTorch's name for it, or a function of the call's arguments that returns it ("": keep
            its own).
    """
    return functools.partial(compose, node_name=name)


def name_results(
    result: object, start: int, name: Any, args: Sequence[Any], named: dict[str, Any]
) -> None:
    """Name the nodes of a call's results.

    Args:
        start: when the call began.
        name: a name, or a function of the call's arguments that returns it.
    """
    for tensor in results_of(result):
        node = tensor._node
        # A node that is younger was recorded by this call; an older one belongs to an argument.
        if node is not None and node is not LEAF and node._order > start:
            name_node(node, name if name.__class__ is str else name(*args, **named))


def results_of(result: object) -> tuple[Tensor, ...]:
    """Return the tensors that a function has returned."""
    parts = result if isinstance(result, tuple) else (result,)
    return tuple(part for part in parts if isinstance(part, Tensor))


def renamed_type(node: Any, name: str, types: dict[type, type]) -> None:
    """Name a node, and keep the type that it gets by the one that it had."""
    before = node.__class__
    name_node(node, name)
    types[before] = node.__class__


def name_node(node: Any, name: Any) -> None:
    """Name a node; an `OutputNode` keeps the name of its op."""
    # Of several outputs, the name is that of the node behind them.
    if name and node.__class__ is not OutputNode:
        node.__class__ = node.op.node_types.get(name) or node.op.node_type_named(name)
