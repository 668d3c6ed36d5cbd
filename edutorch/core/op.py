"""An op is one block: a forward on arrays, a derivative rule per input, a docstring.

    @elementwise
    def softplus(xp, input: Array, beta: float = 1.0) -> Array:
        "A smooth ramp …"
        return xp.logaddexp(xp.zeros_like(input), beta * input) / beta

    softplus.vjp(input=lambda g, input, beta: g * sigmoid(beta * input))

From it come the function, the Tensor method, the in-place twin (`softplus_`),
the `out=` form, the documentation, the tests and the label in pictures.

A rule names what it needs as its parameters: `g` (the gradient of the output),
`y` (the output), an input, `<input>_shape`, a setting. Exactly these are saved.
(`node`, the node itself, serves rules that check what their `g` depends on.)
"""

from __future__ import annotations

import ast
import functools
import inspect
import re
import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from types import FunctionType
from typing import Any, Protocol

import numpy

from .. import dtypes, modes
from ..backends import CPU, kernel_registry
from ..backends.kernel_registry import Slot, as_ndarray, attach, slot_for
from ..errors import running_function
from . import pickling as pickling  # attaches `__copy__` and others
from .argument_checks import missing, unknown_setting
from .autograd import backward as starting
from .autograd import graph, versions
from .autograd.engine import Engine
from .autograd.forward_mode import push
from .autograd.multi_output import MultiViewNode, wrap_views
from .autograd.reference import ReferenceEngine
from .autograd.reference import backward as reference_backward
from .autograd.saved_tensors import attach_saved_members
from .dispatch import apply, apply_operator, call
from .error_messages import ARRAY_ERRORS, check_flag, explain
from .fast import call_codegen
from .fast.backward_codegen import backward_source
from .fast.device_kernels import rule_on_device
from .fast.inlining import expression_of, free_names
from .numpy_aliasing import UNCHANGING, copy_mutable
from .precision import accumulate_in_float32, widen, widens
from .promotion import choose_backend
from .registry import REGISTRY
from .shapes import Contract, as_int, keepdim_shape, reduced_dims
from .subclasses import call_op_override
from .tensor import (
    LEAF,
    PLAIN_TENSORS,
    Tensor,
    array_of,
    attach_view,
    restore_result,
    wrap,
)
from .tensor_methods import OPERATORS
from .tensor_methods import attach as attach_to_tensor

NODE_NAME = re.compile(r"\b(?:[A-Z]\w*Backwards?\d?|CopySlices)\b")
NODE_CHOICE = re.compile(r"\b(\w+_node)\(")
"""Find in `node=` the names of node types, and of functions that choose one."""


class OpFunction(Protocol):
    """The public function of an op. Its `op` is the definition."""

    op: Op
    vjp: Callable[..., OpFunction]
    __name__: str

    def __call__(self, *args: Any, **kwargs: Any) -> Any: ...


@dataclass(frozen=True, slots=True)
class Rule:
    """The derivative rule of one input: `function(*parameters)`."""

    function: Callable[..., Any]
    parameters: tuple[str, ...]
    latex: str

    def apply(self, values: dict[str, Any]) -> Any:
        """Return the gradient of the input from the values that the rule names."""
        return self.function(*(values[name] for name in self.parameters))

    @property
    def needs(self) -> tuple[str, ...]:
        """The values to save for it."""
        return tuple(name for name in self.parameters if name not in ("g", "node"))


@dataclass(frozen=True)
class Family:
    """What all ops of one family have in common; the decorators at the end belong to them.

    Args:
        broadcasts: elementwise: operands broadcast, and the first may be written in place.
        reduces: takes `dim` and `keepdim`; in rules, reduced dims have size 1.
        makes_view: the result shares the input's memory wherever NumPy returns a view.
        makes_views: several views of one tensor, with one node.
    """

    name: str
    broadcasts: bool = False
    reduces: bool = False
    makes_view: bool = False
    makes_views: bool = False


ELEMENTWISE = Family("elementwise", broadcasts=True)
REDUCTION = Family("reduction", reduces=True)
MOVEMENT = Family("movement", makes_view=True)
MULTI_VIEW = Family("multi_view", makes_views=True)
OTHER = Family("op")


Range = tuple[float, float]
Sample = Range | dict[str, Range] | Callable[..., list[dict[str, Any]]] | None
"""What `Options.sample` may be."""


@dataclass(frozen=True)
class Options:
    """What a block says about its op, as keywords of the decorator.

    Args:
        promotion: how the dtypes of the inputs are promoted: "none", "promote" (to a common one),
            "float" (to a floating one), "same" (they must agree) or "compare" (common one in,
            bool out), or a function of the settings that returns one of these.
        contract: the names of the axes of each input and of the result (`shapes.py`).
        linear: whether the op is linear in its inputs.
        outputs: the names of its outputs.
        out: whether there is an `out=` form. It takes a tensor of the result's own dtype or, as in
            PyTorch, where dtypes are promoted, of any that the result can be cast to; "cast" and
            "exact" choose otherwise.
        no_promotion: the inputs that are left out of promotion.
        method: False for a part of another op, which is not a method of Tensor.
        fast: False for an op whose result is not a NumPy array: it has no fast path.
        dtypes: the dtypes it is defined for: b(ool), i(nteger), f(loating), c(omplex).
        allow_unbatched: whether the first input may leave out its first axis, the batch.
        public: the public functions it is a part of, for errors.
        scalars: the inputs that may be Python numbers; by default all of an elementwise op with
            several inputs.
        accumulates: whether it adds up, so that it computes with 16-bit floats in float32
            (`precision.py`).
        node: PyTorch's name of the recorded node, where it is not derived from the op's name:
            "DetBackward0", or an expression of the settings that chooses one: "SumBackward1 if dim
            else SumBackward0". A function in it, called `…_node`, is defined in the module of the
            forward and returns a node type.
        name: the op's name, where its public function has the name of the block.
        sample: what the tests call it with: the range of the elements, (low, high), or one per
            input; or a function of `some` (see tests/op_cases.py) that returns a list of arguments.
            An elementwise op has the range from -2 to 2.
        reference: what the tests compare it with besides PyTorch: a function of the same arguments,
            of Python's numbers for an elementwise op, else of NumPy arrays.
        torch_name: PyTorch's function, below `torch`, if it is not found by the op's name.
    """

    promotion: str | Callable[[dict[str, Any]], str] = "none"
    contract: str | None = None
    linear: bool = False
    outputs: tuple[str, ...] = ("y",)
    out: bool | str = False
    no_promotion: tuple[str, ...] = ()
    method: bool = True
    fast: bool = True
    dtypes: str = "bifc"
    allow_unbatched: bool = False
    public: str = ""
    scalars: str | None = None
    accumulates: bool = False
    node: str = ""
    name: str = ""
    sample: Sample = None
    reference: Callable[..., Any] | None = None
    torch_name: str = ""


class Op:
    """The definition of one op and everything made from it.

    Args:
        forward: computes the result from arrays; its annotations distinguish the tensor arguments
            (`inputs`) from the others (`settings`).
        family: what it has in common with others.
        options: see `Options`.
    """

    takes_one_hot = False  # whether its rule takes a gradient as `OneHotGradient`
    needs_node = False  # whether a rule takes the node, to inspect the graph of `g`
    joint_vjp: Callable[..., Any] | None = None  # one rule for all inputs
    joint_rule: Rule | None = None  # the same, or the rule of an op whose input is a list
    generated_backward: Callable[..., Any] | None = None  # `Node.backward` with the names filled in
    composed: Callable[..., Any] | None = None  # a function for operands of another form, or None

    def __init__(self, forward: Callable[..., Any], family: Family, **options: Any) -> None:
        self.options = chosen = Options(**options)
        if chosen.name:  # a graph that is captured finds an op by the name of its forward
            forward.__name__ = forward.__qualname__ = chosen.name
        if chosen.accumulates:
            forward = functools.wraps(forward)(accumulate_in_float32(as_positional(forward)))
        self.forward: Any = forward
        self.family, self.name = family, forward.__name__
        self.doc = inspect.getdoc(forward) or ""
        self.public = tuple(chosen.public.split()) or (self.name,)
        self.promotion, self.linear, self.outputs = chosen.promotion, chosen.linear, chosen.outputs
        self.is_method, self.fast, self.dtypes = chosen.method, chosen.fast, chosen.dtypes
        self.no_promotion, self.allow_unbatched = chosen.no_promotion, chosen.allow_unbatched
        self.contract = Contract(self.name, chosen.contract) if chosen.contract else None
        self._read_signature(chosen)
        self.has_out = bool(chosen.out)
        # PyTorch computes these in the promoted dtype and casts what it writes to `out`.
        self.casts_out = chosen.out == "cast" or (
            chosen.out is True
            and (
                family.reduces
                or chosen.promotion == "promote"
                or (family.broadcasts and chosen.promotion not in ("none", "same"))
            )
        )
        self.rules: dict[str, Rule] = {}
        self.formulas: dict[str, str] = {}  # the LaTeX of each rule that has one, by input
        self.saved: tuple[str, ...] = ()
        self._name_nodes(chosen.node)
        # Each function has globals of its own: the generated code finds its op and rules there, and
        # a global is found faster than an attribute or a closure's cell of another function.
        self.function = self._add_metadata(FunctionType(_first_call.__code__, {}))
        self.operator = self._add_metadata(FunctionType(_first_call.__code__, {}))  # for `x * y`
        self.expression: ast.expr | None = None  # see `call_codegen.py`
        self.slot = slot_for(self)  # of the kernel that may stand in for `forward`
        # There are hundreds of ops, and a program uses a few of them.
        self._defer_build()
        REGISTRY[self.name] = self

    def _read_signature(self, options: Options) -> None:
        """Tell tensors from settings, and numbers from tensors, by the forward's annotations."""
        parameters = list(inspect.signature(self.forward).parameters.values())[1:]
        self.signature = inspect.Signature(parameters)
        # As texts, which is what `from __future__ import annotations` leaves: nothing is evaluated.
        types = {parameter.name: str(parameter.annotation) for parameter in parameters}
        tensors = {name: text for name, text in types.items() if "Array" in text}
        self.inputs = tuple(tensors)
        self.settings = tuple(name for name in types if name not in tensors)
        # By annotation: what is named an Index is checked in backward, or copied.
        indices = [name for name, text in types.items() if "Index" in text]
        self.copied = (*indices, *options.outputs[1:])  # arrays that are saved as they are now
        self.optional = {name for name, text in tensors.items() if "None" in text}
        self.variadic = any("Sequence[" in text for text in tensors.values())
        if options.scalars is None:
            several = self.family.broadcasts and len(tensors) > 1
            self.scalars = frozenset(n for n, text in tensors.items() if several or "float" in text)
        else:
            self.scalars = frozenset(options.scalars.split())

    def vjp(
        self, latex: str | dict[str, str] = "", joint_vjp: Callable[..., Any] | None = None,
        **rules: Callable[..., Any],
    ) -> Any:  # fmt: skip
        """Add the derivative rule of each named input (vector-Jacobian product).

        Args:
            rules: for an input's name, a function of the values that it names (see above).
            joint_vjp: one rule for all inputs, where they share most of the work: it returns a
                tuple with the gradient of each (None for one that has none).
            latex: the formula shown in pictures, for the only rule or by input; with `joint_vjp`
                it says which inputs have a gradient.

        Raises: TypeError: a rule is for an unknown input or names an unknown value.
        """
        formulas = latex if isinstance(latex, dict) else dict.fromkeys(rules, latex)
        self.joint_vjp = joint_vjp
        if joint_vjp is not None:
            self.joint_rule = Rule(joint_vjp, tuple(inspect.signature(joint_vjp).parameters), "")
            rules = {name: rule_of_input(joint_vjp, self.inputs.index(name)) for name in formulas}
        for name, function in rules.items():
            parameters = tuple(inspect.signature(function).parameters)
            known = {"g", "node", *self.outputs, "y", *self.inputs, *self.settings}
            known |= {f"{input_}_shape" for input_ in self.inputs}
            unknown = [parameter for parameter in parameters if parameter not in known]
            if name not in self.inputs or unknown:
                raise TypeError(
                    f"{self.name}.vjp: the rule for `{name}` asks for {unknown or name}; "
                    f"it may name {', '.join(sorted(known))}"
                )
            self.rules[name] = Rule(function, parameters, formulas.get(name, ""))
        if self.variadic:
            self.joint_rule = self.rules[self.inputs[0]]
        self.formulas = {name: rule.latex for name, rule in self.rules.items() if rule.latex}
        self.needs_node = any("node" in rule.parameters for rule in self.rules.values())
        needed = dict.fromkeys(need for rule in self.rules.values() for need in rule.needs)
        if self.family.reduces:  # to bring `g` back to the shape with the reduced dims
            needed |= dict.fromkeys(("input_shape", "dim"))
        self.saved = self.settings if self.family.makes_views else tuple(needed)
        self._defer_build()
        return self.function

    def kernel(self, device: str, rule: str = "", *, min_size: int) -> Callable[..., Any]:
        """Attach a kernel that replaces the forward, or a rule, as a decorator of its maker.

        Args:
            rule: the input whose rule it replaces, or "joint_vjp".
            min_size: for fewer elements in the first array, the definition is as fast.
        """
        return attach(f"{self.name}/{rule}" if rule else self.name, device, min_size)

    @property
    def title(self) -> str:
        """The name of the public function that is running, for errors."""
        return running_function(self.public)

    @property
    def public_name(self) -> str:
        """The public function that it is a part of; the first of several."""
        return self.public[0].rpartition(".")[2]

    @property
    def label(self) -> str:
        """Its name in profiles and pictures: the public function that is running."""
        return self.name if self.public == (self.name,) else self.title.rpartition(": ")[2]

    @property
    def rejects_unknown_keywords(self) -> bool:
        """Whether it raises for an unknown keyword itself; an operator's op leaves that to Python.

        Operators are called too often for a check that costs 20 ns.
        """
        return bool(self.settings) and self.name not in OPERATORS

    def _name_nodes(self, node: str) -> None:
        """Set PyTorch's name of the node; the first of several is that of the base type."""
        self.node_types: dict[str, type[graph.Node]] = {}
        self.node = node or self._node_name()
        self.choose_node = None if self.node.isidentifier() else self._choose_node
        self.node_type = self.node_type_named(NODE_NAME.findall(self.node)[0])

    def _node_name(self) -> str:
        """Return PyTorch's name for the node of an op: LogSoftmaxBackward0."""
        name = self.name
        if len(self.public) == 1 and not name.startswith(("native_", "fused_")):
            (name,) = self.public
        # As PyTorch's code generator does: log_softmax becomes LogSoftmaxBackward0.
        title = "".join(part.capitalize() for part in name.replace(".", "_").split("_"))
        return f"{title}Backward0"

    def _choose_node(self, values: dict[str, Any]) -> type[graph.Node]:
        """Return the type of node that PyTorch has for a call with these arguments, by name."""
        names = {name: self.node_type_named(name) for name in NODE_NAME.findall(self.node)}
        names |= {f"a_{name}": array_of(values[name]) for name in self.inputs}
        return eval(self.node, {**self.forward.__globals__, "Tensor": Tensor}, {**names, **values})

    def node_type_named(self, name: str) -> type[graph.Node]:
        """Return the type of this op's nodes of that name."""
        node_type = self.node_types.get(name)
        if node_type is None:
            plain = MultiViewNode if self.family.makes_views else graph.Node
            # A second name is a subclass of the first: one `backward` serves all of an op's nodes.
            base = next(iter(self.node_types.values()), plain)
            members = {"__slots__": (), "op": self, "__doc__": f"One recorded `{self.name}`."}
            if base is not plain:
                members["origin"] = base
            node_type = self.node_types[name] = type(name, (base,), members)
        return node_type

    def _defer_build(self) -> None:
        """Defer writing and compiling the call path to the first use: there are hundreds of ops."""
        for function in (self.function, self.operator):
            function.__code__ = _first_call.__code__  # not the function: others have imported it
            function.__defaults__ = function.__kwdefaults__ = None
            function.__globals__.update(OP=self, FUNCTION=function)
        self.__dict__.pop("source", None)

    def __getattr__(self, name: str) -> Any:
        if name != "source" or "source" in self.__dict__:
            raise AttributeError(f"an op has no {name!r}")
        self.build()
        return getattr(self, name)

    def build(self) -> None:
        """Write and compile the call path: `source`, and the node's `backward`."""
        scope = {
            "OP": self, "forward": as_positional(self.forward), "apply": apply, "Tensor": Tensor,
            "TENSORS": PLAIN_TENSORS, "LEAF": LEAF, "DEFAULT": modes.DEFAULT,
            "NO_GRAD": modes.NO_GRAD, "TrackedModes": modes.TrackedModes,
            "NUMBER_TYPES": frozenset((int, float)), "SEQUENCE_TYPES": frozenset((list, tuple)),
            "FLOAT32": numpy.dtype("float32"), "INT64": numpy.dtype("int64"), "LONG": 1 << 63,
            "wrap": wrap, "ONLY_ARRAYS": {numpy.ndarray}, "modes": modes.current, "numpy": CPU.xp,
            "ndarray": numpy.ndarray, "asarray": numpy.asarray,
            "new": partial(object.__new__, Tensor), "clock": versions.clock,
            "ARRAY_ERRORS": ARRAY_ERRORS, "explain": explain, "reduced_dims": reduced_dims,
            "keepdim_shape": keepdim_shape, "attach_view": attach_view, "check_flag": check_flag,
            "as_int": as_int, "missing": missing, "capture_rule": capture_rule,
            "unknown_keyword": unknown_setting, "restore_result": restore_result,
            "second_backward": versions.second_backward, "stale_value": versions.stale_value,
            "copy_mutable": copy_mutable, "UNCHANGING": UNCHANGING, "KERNEL": self.slot,
            "rule_on_device": rule_on_device, "refuse_stale_index": versions.refuse_stale_index,
            "wrap_views": wrap_views, "as_ndarray": as_ndarray, "widen": widen, "widens": widens,
            "DIFFERENTIABLE": dtypes.DIFFERENTIABLE, "__name__": self.forward.__module__,
        }  # fmt: skip
        scope |= {name: self.node_type_named(name) for name in NODE_NAME.findall(self.node)}
        scope |= {name: self.forward.__globals__[name] for name in NODE_CHOICE.findall(self.node)}
        scope |= {f"rule_{name}": rule.function for name, rule in self.rules.items()}
        scope["rule_joint_vjp"] = self.joint_vjp
        scope |= {f"KERNEL_{name}": slot for name, slot in self.rule_slots.items()}
        # A forward of one expression is written into the call path: a Python call less.
        self.expression = expression_of(self.forward)
        if self.expression is not None:
            free = free_names(self.expression, self.forward)
            scope |= {f"f_{name}": value for name, value in free.items()}
        self.source = call_codegen.call_source(self)
        # Several views share a node that calls their rule itself (`multi_output.py`).
        recorded = self.rules and not self.family.makes_views
        if recorded:
            self.source += backward_source(self)
        exec(compile(self.source, f"<edutorch op {self.name}>", "exec"), scope)
        if recorded:
            self.generated_backward = scope["backward"]
            attach_saved_members(self)
        self.function.__globals__.update(scope)
        # The same code finds another `apply` among its globals: no wrapper has to be called.
        self.operator.__globals__.update(scope, apply=apply_operator)
        self.call_paths = {False: scope[self.name]}
        self.choose_path(kernel_registry.is_reference_only())

    def choose_path(self, reference: bool) -> None:
        """Give the op's functions their call path: the fast one, or the general one alone."""
        if reference not in self.call_paths:
            scope: dict[str, Any] = {}
            source = call_codegen.call_source(self, fast=False)
            exec(compile(source, f"<edutorch op {self.name}>", "exec"), scope)
            self.call_paths[reference] = scope[self.name]
        if self.generated_backward is not None:
            plain: Any = graph.Node.backward
            self.node_type.backward = plain if reference else self.generated_backward  # type: ignore[method-assign]
        path = self.call_paths[reference]
        if reference:
            self._install_plain(self.function, path)
            self._install_plain(self.operator, as_positional(path))
            return
        self._install(self.function, path)
        self._install(self.operator, as_positional(path))

    @property
    def rule_slots(self) -> dict[str, Slot]:
        """The slots of the kernels that may replace rules, by input (or "joint_vjp")."""
        names = [*self.rules, "joint_vjp"]
        slots_by_rule = {name: slot_for(self, name) for name in names}
        return {name: slot for name, slot in slots_by_rule.items() if slot is not None}

    def _install(self, function: FunctionType, written: FunctionType) -> None:
        """Give a function its body. Its code comes last: another thread may call it."""
        function.__defaults__ = written.__defaults__
        function.__kwdefaults__ = written.__kwdefaults__
        function.__code__ = written.__code__

    def _install_plain(self, function: FunctionType, general: FunctionType) -> None:
        """Give a function the body of `dispatch.call`, for reference mode."""
        scope, defaults = function.__globals__, general.__defaults__
        scope["bind"] = FunctionType(general.__code__, scope, self.name, defaults)
        scope["bind"].__kwdefaults__ = general.__kwdefaults__
        self._install(function, call)

    def _add_metadata(self, function: FunctionType) -> Any:
        function.__name__ = function.__qualname__ = self.name
        function.op, function.vjp, function.kernel = self, self.vjp, self.kernel
        function.__doc__ = self.doc
        function.__module__ = self.forward.__module__
        function.__wrapped__ = self.forward  # so that `??op` shows the block
        function.__signature__ = self.signature
        return function

    def jvp(self, inputs: tuple[Any, ...], tangents: tuple[Any, ...], **settings: Any) -> Any:
        """Return the Jacobian-vector product: the tangent of the output from those of the inputs.

        Args:
            tangents: one per input, None for a constant one.
        """
        named = dict(zip(self.inputs, inputs, strict=False))
        bound = self.signature.bind(**named, **settings)
        bound.apply_defaults()
        values = bound.arguments
        primals = [values[name] for name in self.inputs]
        moving = [*tangents, *[None] * (len(primals) - len(tangents))]
        if self.variadic:
            primals, moving = primals[0], moving[0]
        output = self.function(**values) if self.family.broadcasts else None
        return push(self, primals, moving, {name: values[name] for name in self.settings}, output)

    def __repr__(self) -> str:
        return f"<op {self.name}{self.signature}>"


def capture_rule(op: Op, name: str, values: tuple[Any, ...]) -> Any:
    """Run a rule as one step of a graph that is being captured; None: run its ops one by one."""
    enter = getattr(getattr(values[0], "backend", None), "gradients", None)
    return rule_on_device(op, name, values) if enter is None else enter(op, name, values)


def rule_of_input(joint_vjp: Callable[..., Any], position: int) -> Callable[..., Any]:
    """Return the rule of one input from the joint rule."""

    @functools.wraps(joint_vjp)
    def rule(*values: Any) -> Any:
        return joint_vjp(*values)[position]

    return rule


OP: Any = None  # every op's function has globals of its own, in which these are set
FUNCTION: Any = None


def _first_call(*args: Any, **kwargs: Any) -> Any:
    """The body of an op's function until it is called for the first time."""
    OP.build()
    return FUNCTION(*args, **kwargs)


def as_positional(function: Callable[..., Any]) -> FunctionType:
    """Return a function with keyword-only parameters made positional: Python calls it faster."""
    code = function.__code__
    names = code.co_varnames[code.co_argcount : code.co_argcount + code.co_kwonlyargcount]
    defaults = function.__kwdefaults__ or {}
    return FunctionType(
        code.replace(co_argcount=code.co_argcount + len(names), co_kwonlyargcount=0),
        function.__globals__,
        function.__name__,
        (*(function.__defaults__ or ()), *(defaults[name] for name in names if name in defaults)),
        function.__closure__,
    )


# The families ---------------------------------------------------------------------------


def _family(family: Family, **fixed: Any) -> Any:
    """Make a decorator, usable with and without parentheses."""

    def decorator(forward: Callable[..., Any] | None = None, /, **options: Any) -> Any:
        if forward is not None:
            return register(Op(forward, family, **fixed))
        return lambda forward: register(Op(forward, family, **{**fixed, **options}))

    return decorator


def choose_paths(reference: bool) -> None:
    """Switch all ops that have been called, and backward, to their plain form, or back."""
    starting.ENGINE = ReferenceEngine if reference else Engine
    Tensor.backward = reference_backward if reference else starting.backward_method
    for op in REGISTRY.values():
        if "call_paths" in op.__dict__:
            op.choose_path(reference)


kernel_registry.on_switch.append(choose_paths)


def register(op: Op) -> Any:
    """Add an op's Tensor method (and in-place twin), and return its function."""
    attach_to_tensor(op)
    return op.function


elementwise = _family(ELEMENTWISE, promotion="float", out=True)
"""Element by element. Operands broadcast; integers become floating (`promotion`)."""

comparison = _family(ELEMENTWISE, promotion="compare", out=True)
"""Elementwise with a bool result, hence without a gradient."""

reduction = _family(REDUCTION, out=True)
"""Elements reduced along `dim`. In rules, `g` and `y` keep reduced dims as size 1."""

movement = _family(MOVEMENT, linear=True)
"""Elements rearranged, not changed; a view of the input's memory where NumPy returns one."""

multi_view = _family(MULTI_VIEW, linear=True, method=False)
"""Several views of one tensor. In rules, `g` is the list of their gradients."""


def op(contract: str | None = None, /, **options: Any) -> Any:
    """Any other op. `contract` gives each tensor's axes: "n k, k m -> n m".

    The contract is checked at each call, shown in errors and used by the tests.
    """
    return lambda forward: register(Op(forward, OTHER, contract=contract, **options))


# Annotations below this file name `Op`: `typing.get_type_hints` looks it up in their globals.
for _user in (
    apply, attach_to_tensor, call_codegen.call_source, backward_source, explain, graph.record,
    missing, push, reduced_dims, rule_on_device, widen, widens, wrap_views, choose_backend,
    call_op_override, attach_saved_members,
):  # fmt: skip
    sys.modules[_user.__module__].__dict__["Op"] = Op
