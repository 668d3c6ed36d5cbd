"""The exported program: a graph with named inputs, weights, and sizes that may change."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from .. import dtypes
from ..autograd import no_grad
from ..core.tensor import Tensor
from ..errors import ArgumentError
from ..fx.graph import Graph
from ..fx.graph_module import GraphModule, set_at_path
from ..fx.node import Node
from ..nn import Buffer, Parameter
from ..utils._pytree import TreeSpec, tree_flatten, tree_unflatten
from .dims import UNBOUNDED, AxisMap
from .errors import ProgramInputError
from .formulas import Formula, Size, evaluate, invert, symbols_of, text_of
from .samples import Arguments
from .signature import ConstantArgument, ExportGraphSignature, InputKind, OutputKind, TensorArgument

__all__ = ["CallSpec", "ExportedProgram", "ProgramModule", "ValueRange"]


@dataclass(frozen=True)
class ValueRange:
    """The sizes from `lower` to `upper`, both included."""

    lower: int
    upper: int

    def __repr__(self) -> str:
        return f"VR[{self.lower}, {'int_oo' if self.upper >= UNBOUNDED else self.upper}]"


@dataclass(frozen=True)
class CallSpec:
    """How a program is called: the structure of arguments and result, and the arguments' names."""

    in_spec: TreeSpec
    out_spec: TreeSpec
    names: list[str]


class ExportedProgram:
    """A module as a graph: see `torch.export.export`, which makes it.

    Args:
        graph_module: runs the graph on all its inputs; parameters and buffers are inputs.
        graph_signature: what the inputs and outputs are.
        state_dict: the parameters and buffers by their paths.
        constants: further tensors by the names of their inputs.
        range_constraints: the range of each symbol.
        call_spec: how the program is called.
        example_inputs: the arguments and keyword arguments that it was exported with.
    """

    def __init__(
        self, graph_module: GraphModule, graph_signature: ExportGraphSignature,
        state_dict: dict[str, Tensor], constants: dict[str, Tensor],
        range_constraints: dict[str, ValueRange], call_spec: CallSpec,
        example_inputs: tuple[tuple[Any, ...], dict[str, Any]] | None = None,
    ) -> None:  # fmt: skip
        self.graph_module, self.graph_signature = graph_module, graph_signature
        self.state_dict, self.constants = state_dict, constants
        self.range_constraints, self.call_spec = range_constraints, call_spec
        self.example_inputs = example_inputs

    @property
    def graph(self) -> Graph:
        """The graph, with parameters and buffers as inputs."""
        return self.graph_module.graph

    @property
    def tensor_constants(self) -> dict[str, Tensor]:
        """The tensors that are neither parameters nor buffers nor inputs of the user."""
        return self.constants

    @property
    def dialect(self) -> str:
        """The name of the set of functions that the graph calls."""
        return "EDUTORCH"

    def named_parameters(self) -> Iterator[tuple[str, Parameter]]:
        """Yield each parameter with its path."""
        for path in self.graph_signature.parameters:
            yield path, self.state_dict[path]  # type: ignore[misc]

    def parameters(self) -> Iterator[Parameter]:
        """Yield each parameter."""
        return (parameter for _, parameter in self.named_parameters())

    def named_buffers(self) -> Iterator[tuple[str, Tensor]]:
        """Yield each buffer with its path."""
        for path in self.graph_signature.buffers:
            yield path, self.state_dict[path] if path in self.state_dict else self.constants[path]

    def buffers(self) -> Iterator[Tensor]:
        """Yield each buffer."""
        return (buffer for _, buffer in self.named_buffers())

    def module(self, check_guards: bool = True) -> ProgramModule:
        """Return a module that runs the program, with its parameters and buffers.

        It has the names of the exported module in its state dict, and can be trained.
        """
        return ProgramModule(self, check_guards)

    def run_decompositions(
        self, decomp_table: Mapping[Any, Any] | Callable[[Any], bool] | None = None
    ) -> ExportedProgram:
        """Return the program with ops recorded by what their definitions call.

        Args:
            decomp_table: the ops to take apart, or a function that says so of an op; None for none.
        """
        from .exporting import decompose

        if decomp_table is None:
            return self
        if callable(decomp_table):
            return decompose(self, decomp_table)
        names = {getattr(getattr(op, "op", op), "name", op) for op in decomp_table}
        return decompose(self, lambda op: op.name in names)

    def input_nodes(self) -> list[Node]:
        """Return the inputs of the graph that the user passes."""
        placeholders = {n.name: n for n in self.graph.nodes if n.op == "placeholder"}
        return [
            placeholders[spec.arg.name] for spec in self.graph_signature.input_specs
            if spec.kind is InputKind.USER_INPUT and isinstance(spec.arg, TensorArgument)
        ]  # fmt: skip

    def axes(self) -> AxisMap:
        """Return the dynamic axes of the inputs."""
        from .dims import Symbol

        axes = AxisMap({}, {})
        leaf = 0
        nodes = iter(self.input_nodes())
        for spec in self.graph_signature.input_specs:
            if spec.kind is not InputKind.USER_INPUT:
                continue
            if isinstance(spec.arg, TensorArgument):
                for axis, formula in enumerate(next(nodes).meta["shape"]):
                    if not isinstance(formula, int):
                        axes.formulas[leaf, axis] = formula
            leaf += 1
        for name, limits in self.range_constraints.items():
            middle = max(limits.lower, min(limits.upper, 4))
            axes.symbols[name] = Symbol(Size(name), limits.lower, limits.upper, middle)
        return axes

    def arguments(self) -> Arguments:
        """Return the example arguments, or zeros where the program has none."""
        args, kwargs = self.example_inputs or ((), {})
        leaves = tree_flatten((args, kwargs))[0]
        return Arguments(leaves, self.call_spec.in_spec, self.call_spec.names)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        raise RuntimeError("Unable to call ExportedProgram directly. You should use .module().")

    def __str__(self) -> str:
        ranges = ", ".join(f"{name}: {limits!r}" for name, limits in self.range_constraints.items())
        code = "\n".join(f"    {line}" for line in annotated_code(self.graph_module))
        signature = "\n".join(f"    {line}" for line in str(self.graph_signature).splitlines())
        return (
            f"ExportedProgram:\n{code}\nGraph signature:\n{signature}\n"
            f"Range constraints: {{{ranges}}}\n"
        )

    __repr__ = __str__


def annotated_code(module: GraphModule) -> list[str]:
    """Return the code of a graph, with the dtype and shape of each value; then of its branches."""
    lines = []
    shapes = {node.name: value_text(node) for node in module.graph.nodes}
    for line in module.code.splitlines():
        name = line.strip().partition(" = ")[0]
        text = shapes.get(name) if " = " in line else None
        lines.append(line.replace(f"{name} = ", f'{name}: "{text}" = ', 1) if text else line)
    for name, branch in module.named_children():
        if isinstance(branch, GraphModule):
            lines += ["", f"# {name}", *annotated_code(branch)]
    return lines


def value_text(node: Node) -> str | None:
    """Return dtype and shape of a value as text: float32[batch, 10]."""
    if "shape" not in node.meta:
        return None
    sizes = ", ".join("?" if size is None else text_of(size) for size in node.meta["shape"])
    return f"{dtypes.of(node.meta['dtype']).name}[{sizes}]"


# Running a program --------------------------------------------------------------------------------


class ProgramModule(GraphModule):
    """A module that runs a program: its weights are parameters again, its inputs are checked.

    Args:
        program: the program.
        check_guards: whether shapes and dtypes of the inputs are checked.
    """

    def __init__(self, program: ExportedProgram, check_guards: bool = True) -> None:
        graph, root = unlifted(program)
        super().__init__(root, graph)
        for path, tensor in program.state_dict.items():
            set_at_path(self, path, as_state(tensor))
        self.__dict__["_call_spec"] = program.call_spec
        self.__dict__["_signature"] = program.graph_signature
        self.__dict__["_guards"] = Guards(program) if check_guards else None

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Run the program.

        Raises: ProgramInputError: the inputs are not what it was exported for.
        """
        spec: CallSpec = self.__dict__["_call_spec"]
        leaves = flatten_call(spec, args, kwargs)
        guards = self.__dict__["_guards"]
        if guards is not None:
            guards.check(leaves)
        tensors = [leaf for leaf in leaves if isinstance(leaf, Tensor)]
        values = list(super().forward(*tensors))
        named = dict(zip((node.target for node in self.input_placeholders()), tensors, strict=True))
        returned = []
        for output, value in zip(self.__dict__["_signature"].output_specs, values, strict=True):
            if output.kind is OutputKind.USER_OUTPUT:
                returned.append(value)
                continue
            is_buffer = output.kind is OutputKind.BUFFER_MUTATION
            target = self.get_buffer(output.target) if is_buffer else named[output.target]
            with no_grad():
                target.copy_(value)
        return tree_unflatten(returned, spec.out_spec)

    def input_placeholders(self) -> list[Node]:
        """Return the inputs of the graph."""
        return [node for node in self.graph.nodes if node.op == "placeholder"]

    def train(self, mode: bool = True) -> ProgramModule:
        """Raise an error: the mode was fixed when the module was exported.

        Raises: NotImplementedError: always.
        """
        raise NotImplementedError("Calling train() is not supported yet.")

    def eval(self) -> ProgramModule:
        """Raise an error: the mode was fixed when the module was exported.

        Raises: NotImplementedError: always.
        """
        raise NotImplementedError("Calling eval() is not supported yet.")

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        raise NotImplementedError("copy the program, and call its module() again")


def as_state(tensor: Tensor) -> Tensor:
    """Return a parameter as it is, and another tensor as a buffer."""
    return tensor if isinstance(tensor, Parameter | Buffer) else Buffer(tensor)


def unlifted(program: ExportedProgram) -> tuple[Graph, dict[str, Any]]:
    """Return the graph with weights as attributes, and these by their paths."""
    graph = Graph()
    copies: dict[Node, Node] = {}
    root: dict[str, Any] = dict(program.graph_module.named_children())
    paths = {s.arg.name: s for s in program.graph_signature.input_specs}
    for node in program.graph.nodes:
        spec = paths.get(node.name) if node.op == "placeholder" else None
        if spec is None or spec.kind is InputKind.USER_INPUT:
            copies[node] = graph.node_copy(node, copies.__getitem__)
            continue
        path = str(spec.target)
        if path in program.state_dict:
            root[path] = as_state(program.state_dict[path])
        else:
            root[path] = Buffer(program.constants[path], persistent=False)
        if node.users:
            copies[node] = graph.get_attr(path)
            copies[node].meta = dict(node.meta)
    inputs = [n for n in graph.nodes if n.op == "placeholder"]
    for node in reversed(inputs):  # the parameters of a function come first
        if graph._root.next is not node:
            graph._root.next.prepend(node)
    return graph, root


def flatten_call(spec: CallSpec, args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[Any]:
    """Return the leaves of a call in the program's order.

    Arguments may be passed by position or by name, whichever way the example's were.

    Raises: ProgramInputError: there are others than the program has.
    """
    leaves, spec_of_call = tree_flatten((args, kwargs))
    if spec_of_call == spec.in_spec:
        return leaves
    count = len(spec.in_spec.children_specs[0].children_specs)
    values = dict(zip(spec.names, args, strict=False))
    clash = [name for name in kwargs if name in values]
    unknown = [name for name in kwargs if name not in spec.names]
    missing = [name for name in spec.names if name not in values and name not in kwargs]
    if clash or unknown or missing or len(args) > len(spec.names):
        raise ProgramInputError(
            "module", f"the program takes {len(spec.names)} arguments, and gets "
            f"{len(args) + len(kwargs)}", {"takes": ", ".join(spec.names)},
        )  # fmt: skip
    values |= kwargs
    ordered = [values[name] for name in spec.names]
    named = dict(zip(spec.names[count:], ordered[count:], strict=True))
    leaves, spec_of_call = tree_flatten((tuple(ordered[:count]), named))
    if spec_of_call != spec.in_spec:
        raise ProgramInputError(
            "module", "the arguments have another structure than the program's",
            {"program": spec.in_spec, "call": spec_of_call},
        )  # fmt: skip
    return leaves


class Guards:
    """Checks the inputs of a program: shapes, ranges of sizes, dtypes, values of constants."""

    def __init__(self, program: ExportedProgram) -> None:
        self.ranges = program.range_constraints
        nodes = {node.name: node for node in program.input_nodes()}
        self.inputs: list[tuple[str, Any]] = [
            (spec.arg.name, spec.arg if isinstance(spec.arg, ConstantArgument) else
             (nodes[spec.arg.name].meta["shape"], nodes[spec.arg.name].meta["dtype"]))
            for spec in program.graph_signature.input_specs if spec.kind is InputKind.USER_INPUT
        ]  # fmt: skip

    def check(self, leaves: Sequence[Any]) -> None:
        """Check the flattened arguments of a call.

        Raises: ProgramInputError: one does not fit; the message names both sides.
        """
        sizes: dict[Size, tuple[int, str]] = {}
        derived: list[tuple[str, int, Formula, int]] = []
        for (name, wanted), value in zip(self.inputs, leaves, strict=True):
            if isinstance(wanted, ConstantArgument):
                if isinstance(value, Tensor) or value != wanted.value:
                    raise self.wrong(name, f"is {value!r}, and was {wanted.value!r} in the export")
                continue
            if not isinstance(value, Tensor):
                raise self.wrong(name, f"is a {type(value).__name__}, and was a tensor")
            self.check_tensor(name, value, wanted, sizes, derived)
        for name, axis, formula, size in derived:
            self.check_derived(name, axis, formula, size, sizes)

    def check_tensor(
        self, name: str, value: Tensor, wanted: tuple[Any, Any],
        sizes: dict[Size, tuple[int, str]], derived: list[tuple[str, int, Formula, int]],
    ) -> None:  # fmt: skip
        """Check one tensor, and note what its sizes say about symbols."""
        shape, dtype = wanted
        if value._array.dtype != dtype:
            names = dtypes.of(value._array.dtype).name, dtypes.of(np.dtype(dtype)).name
            raise self.wrong(name, f"is of {names[0]}, and was of {names[1]} in the export")
        if value.ndim != len(shape):
            raise self.wrong(name, f"has {value.ndim} axes, and had {len(shape)} in the export")
        for axis, (formula, size) in enumerate(zip(shape, value.shape, strict=True)):
            if isinstance(formula, Size):
                self.bind(name, axis, formula, size, sizes)
            elif not isinstance(formula, int):
                derived.append((name, axis, formula, size))
            elif formula != size:
                raise self.wrong(name, f"has size {size} on axis {axis}, and had {formula}")

    def bind(
        self, name: str, axis: int, symbol: Size, size: int, sizes: dict[Size, tuple[int, str]]
    ) -> None:
        """Check a size against the range of its symbol, and against other axes with it."""
        limits = self.ranges[symbol.name]
        if not limits.lower <= size <= limits.upper:
            high = "any size" if limits.upper >= UNBOUNDED else limits.upper
            raise self.wrong(
                name, f"has size {size} on axis {axis}, and `{symbol.name}` goes from "
                f"{limits.lower} to {high}",
            )  # fmt: skip
        before, owner = sizes.setdefault(symbol, (size, name))
        if before != size:
            raise self.wrong(
                name,
                f"has size {size} on axis {axis}, and `{symbol.name}` is {before} in `{owner}`",
            )

    def check_derived(
        self, name: str, axis: int, formula: Formula, size: int,
        sizes: dict[Size, tuple[int, str]],
    ) -> None:  # fmt: skip
        """Check a size that is a formula of a symbol."""
        (symbol,) = symbols_of(formula)
        if symbol not in sizes:
            root = invert(formula, size)
            if root is None:
                raise self.wrong(name, f"has size {size} on axis {axis}, no {text_of(formula)}")
            self.bind(name, axis, symbol, root, sizes)
        expected = evaluate(formula, {symbol: sizes[symbol][0]})
        if expected != size:
            raise self.wrong(
                name, f"has size {size} on axis {axis}, and {text_of(formula)} is {expected}"
            )

    def wrong(self, name: str, message: str) -> ProgramInputError:
        return ProgramInputError("module", f"`{name}` {message}")


def require_program(function: str, value: object) -> None:
    """Refuse what is not an exported program.

    Raises: ArgumentError: it is something else.
    """
    if not isinstance(value, ExportedProgram):
        raise ArgumentError(
            function, f"a {type(value).__name__} is not an ExportedProgram",
            hint="torch.export.export(module, args) makes one of a module",
        )  # fmt: skip
