"""A program as C++: the header, from the library down to the step of each node."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np

from ... import dtypes
from ...errors import NotHereError
from ...fx.capture_context import source_text
from ...fx.node import Node, map_aggregate
from ..dims import UNBOUNDED
from ..formulas import SIGNS, Call, Formula, Size, symbols_of, text_of
from ..program import ExportedProgram
from ..signature import InputKind, OutputKind, TensorArgument
from ..translation import function_name, take_apart, take_name
from . import elementwise, movement, networks, reductions
from .library import needed_blocks
from .table import TABLE, Unsupported
from .values import TYPES, Scalar, Value, cpp_type, shape_text, sizes

__all__ = ["CppExportError", "Input", "Step", "Translation", "translate"]

FAMILIES = (elementwise, movement, networks, reductions)
"""The modules whose import fills the table."""

INCLUDES = (
    "algorithm", "array", "cmath", "cstdint", "cstring", "fstream", "initializer_list", "iterator",
    "limits", "memory", "stdexcept", "string", "tuple", "type_traits", "utility", "vector",
)  # fmt: skip

KEYWORDS = frozenset(
    "alignas alignof and and_eq asm auto bitand bitor bool break case catch char class compl "
    "const constexpr const_cast continue decltype default delete do double dynamic_cast else enum "
    "explicit export extern false float for friend goto if inline int long mutable namespace new "
    "noexcept not not_eq nullptr operator or or_eq private protected public register "
    "reinterpret_cast return short signed sizeof static static_assert static_cast struct switch "
    "template this thread_local throw true try typedef typeid typename union unsigned using "
    "virtual void volatile wchar_t while xor xor_eq std edu Index Shape Tensor Program weights "
    "save".split()
)
"""Names that no variable may have."""


class CppExportError(NotHereError):
    """A program that cannot become C++: the op and its line are named."""

    op: str | None = None  # the op whose entry does not know these settings


class Input(NamedTuple):
    """An input of the program: the user's, or a weight with its path."""

    name: str
    node: Node
    path: str | None

    @property
    def type(self) -> str:
        return f"Tensor<{cpp_type(self.node.meta['dtype'])}>"


class Step(NamedTuple):
    """A line of the program: a variable and what it is."""

    name: str
    text: str
    origin: str
    is_number: bool


def translate(program: ExportedProgram, name: str) -> Translation:
    """Return the translation of a program.

    Ops without an entry are taken apart, and those whose entries do not know their settings.

    Raises: CppExportError: what they are made of cannot be translated either.
    """
    apart: set[str] = set()
    first_error: CppExportError | None = None
    while True:
        try:
            return Translation(program, take_apart(program, TABLE, apart), name)
        except CppExportError as error:
            first_error = first_error or error
            if error.op is None or error.op in apart:
                raise first_error from None
            apart.add(error.op)


class Translation:
    """The translation of one program.

    Args:
        original: the program.
        program: the same, of ops that have an entry.
        name: the namespace, and the name of the files.

    Raises: CppExportError: it calls what C++ programs have not.
    """

    def __init__(self, original: ExportedProgram, program: ExportedProgram, name: str) -> None:
        self.original, self.program, self.name = original, program, name
        self.values: dict[Node, Any] = {}
        self.names: set[str] = set(KEYWORDS)
        self.inputs: list[Input] = []
        self.weights: list[Input] = []
        self.steps: list[Step] = []
        self.add_inputs()
        for node in self.program.graph.nodes:
            if node.op == "call_function":
                self.add_step(node)
        self.results, self.writes = self.read_outputs()
        self.drop_unused()

    # The graph ----------------------------------------------------------------------------------

    def add_inputs(self) -> None:
        """Add the user's inputs, and the weights that are used."""
        nodes = {n.name: n for n in self.program.graph.nodes if n.op == "placeholder"}
        for spec in self.program.graph_signature.input_specs:
            if not isinstance(spec.arg, TensorArgument):
                continue
            node = nodes[spec.arg.name]
            is_users = spec.kind is InputKind.USER_INPUT
            if not is_users and not node.users:
                continue
            added = Input(
                take_name(node.name, self.names), node, None if is_users else str(spec.target)
            )
            (self.inputs if is_users else self.weights).append(added)
            self.values[node] = self.value_of(node, added.name)

    def value_of(self, node: Node, text: str) -> Value:
        """Return the value of a node with a tensor.

        Raises: CppExportError: its dtype has no type in C++.
        """
        try:
            cpp_type(node.meta["dtype"])
        except Unsupported as error:
            raise self.refused(node, str(error)) from None
        return Value(text, np.dtype(node.meta["dtype"]), node.meta["shape"])

    def add_step(self, node: Node) -> None:
        """Translate one node."""

        def lookup(leaf: Any) -> Any:
            return self.values[leaf] if isinstance(leaf, Node) else leaf

        name = function_name(node.target)
        short = name.partition(":")[2]
        translate = TABLE.get(name)
        if translate is None:
            raise self.refused(node, f"{short} has no translation")
        args, kwargs = map_aggregate(node.args, lookup), map_aggregate(dict(node.kwargs), lookup)
        try:
            result = translate(node, *args, **kwargs)
        except Unsupported as error:
            refused = self.refused(node, f"{short}: {error}")
            refused.op = short if name.startswith("op:") else None
            raise refused from None
        variable = take_name(self.size_name(node) or node.name, self.names)
        is_number = isinstance(result, Scalar)
        self.steps.append(Step(variable, str(result), origin_of(node), is_number))
        if is_number:
            self.values[node] = Scalar(variable)
        elif "shape" in node.meta:
            self.values[node] = self.value_of(node, variable)
        else:  # several results, of which `getitem` picks one
            self.values[node] = variable

    def size_name(self, node: Node) -> str | None:
        """Return the name of the Dim that a size is, or None."""
        if function_name(node.target) != "program:sym_size":
            return None
        source, axis = node.args
        size = source.meta["shape"][axis]
        return re.sub(r"\W", "_", size.name) if isinstance(size, Size) else None

    def read_outputs(self) -> tuple[list[Value], list[tuple[str, str]]]:
        """Return the results, and the weights that are written with their new values.

        Raises: CppExportError: an input is written, or a result is no tensor.
        """
        results, writes = [], []
        by_path = {weight.path: weight.name for weight in self.weights}
        nodes = self.program.graph.output_node().args[0]
        for spec, node in zip(self.program.graph_signature.output_specs, nodes, strict=True):
            if spec.kind is OutputKind.USER_INPUT_MUTATION:
                raise CppExportError(
                    "export.cpp", f"the program writes into its input {spec.target}"
                )
            if not isinstance(node, Node) or not isinstance(self.values[node], Value):
                raise CppExportError(
                    "export.cpp", f"the program returns {node}, which is no tensor"
                )
            if spec.kind is OutputKind.USER_OUTPUT:
                results.append(self.values[node])
            elif spec.target in by_path:
                writes.append((by_path[spec.target], self.values[node].text))
        return results, writes

    def drop_unused(self) -> None:
        """Leave out variables that nothing reads."""
        used = set(re.findall(r"\w+", " ".join([v.text for v in self.results])))
        used |= {text for _, text in self.writes}
        kept: list[Step] = []
        for step in reversed(self.steps):
            if step.name in used:
                kept.append(step)
                used |= set(re.findall(r"\w+", step.text))
        self.steps = kept[::-1]

    def refused(self, node: Node, message: str) -> CppExportError:
        """Return the error for a node that cannot be translated."""
        line = node.meta.get("line") or "?"
        return CppExportError(
            "export.cpp", f"{line}: {message} to C++",
            hint="edutorch.onnx.export may have one, or write it with other functions of torch",
        )  # fmt: skip

    # The header ---------------------------------------------------------------------------------

    def header(self) -> str:
        """Return the text of the header."""
        body = "\n".join(self.class_lines())
        blocks = "\n".join(needed_blocks(body))
        includes = "\n".join(f"#include <{name}>" for name in INCLUDES)
        return (
            f"// {self.name}.hpp: a program of edutorch as C++17, to be read from its end: the\n"
            "// class Program has a line for each step, and the line of Python that it is of.\n"
            f"#pragma once\n\n{includes}\n\n"
            "#ifdef EDU_USE_CBLAS\n#include <cblas.h>\n#endif\n\n"
            f"namespace {self.name} {{\n\nnamespace edu {{\n\n{blocks}\n}}  // namespace edu\n\n"
            f"using edu::Index;\nusing edu::Shape;\nusing edu::Tensor;\n\n{body}\n\n"
            f"}}  // namespace {self.name}\n"
        )

    def result_type(self) -> str:
        """Return what the program returns: a tensor, or a tuple of them."""
        types = [f"Tensor<{cpp_type(value.dtype)}>" for value in self.results]
        return types[0] if len(types) == 1 else f"std::tuple<{', '.join(types)}>"

    def class_lines(self) -> Iterator[str]:
        """Yield the lines of the class."""
        yield "// Program: the weights, and what is computed with them."
        yield "class Program {"
        yield " public:"
        yield from self.constructor()
        yield ""
        yield from self.call_operator()
        if self.writes:
            yield ""
            yield from self.save_method()
        yield ""
        for weight in self.weights:
            yield f"  {weight.type} {weight.name};"
        yield "};"

    def constructor(self) -> Iterator[str]:
        """Yield the constructors: from a path, and from a file that is open."""
        yield "  // Reads the weights from a file of safetensors."
        yield "  explicit Program(const std::string& path) : Program(edu::Weights(path)) {}"
        name = "weights" if self.weights else ""
        yield f"  explicit Program(const edu::Weights& {name})".rstrip() + (
            " {}" if not self.weights else ""
        )
        for number, weight in enumerate(self.weights):
            cpp, code = TYPES[dtypes.of(weight.node.meta["dtype"]).name]
            shape = sizes(weight.node.meta["shape"])
            sign, end = "," if number else ":", " {}" if number == len(self.weights) - 1 else ""
            taken = f'weights.take<{cpp}>("{weight.path}", "{code}", {shape})'
            yield f"      {sign} {weight.name}({taken}){end}"

    def call_operator(self) -> Iterator[str]:
        """Yield the method that runs the program."""
        parameters = ", ".join(f"const {i.type}& {i.name}" for i in self.inputs)
        constant = "" if self.writes else " const"
        for added in self.inputs:
            yield f"  // {added.name}: {described(added.node.meta)}"
        returned = ", ".join(described({"dtype": v.dtype, "shape": v.shape}) for v in self.results)
        yield f"  // Returns {returned}. A wrong size throws std::invalid_argument."
        yield f"  {self.result_type()} operator()({parameters}){constant} {{"
        yield from self.checks()
        origin = ""
        for step in self.steps:
            if step.origin and step.origin != origin:
                yield f"    // {step.origin}{quoted_source(step.origin)}"
            origin = step.origin or origin
            comment = f"  // {step.origin}" if step.origin else ""
            yield f"    const auto {step.name} = {step.text};{comment}"
        for name, text in self.writes:
            yield f"    {name} = {text};"
        values = ", ".join(value.text for value in self.results)
        yield f"    return {values};" if len(self.results) == 1 else f"    return {{{values}}};"
        yield "  }"

    def save_method(self) -> Iterator[str]:
        """Yield the method that writes the weights to a file."""
        yield "  // Writes the weights, as they are now, to a file of safetensors."
        yield "  void save(const std::string& path) const {"
        yield "    edu::WeightsWriter writer;"
        for weight in self.weights:
            code = TYPES[dtypes.of(weight.node.meta["dtype"]).name][1]
            yield f'    writer.add("{weight.path}", "{code}", {weight.name});'
        yield "    writer.write(path);"
        yield "  }"

    # Checks of the inputs -----------------------------------------------------------------------

    def checks(self) -> Iterator[str]:
        """Yield the lines that compare the inputs' sizes with what the program was made for."""
        seen: dict[Size, str] = {}
        derived: list[tuple[str, int, Formula]] = []
        for added in self.inputs:
            shape = added.node.meta["shape"]
            fixed = sizes([size if isinstance(size, int) else -1 for size in shape])
            yield (
                f'    edu::check_shape("{added.name}", {added.name}.shape, {fixed}, '
                f'"{shape_text(shape)}");'
            )
            for axis, size in enumerate(shape):
                if isinstance(size, Size):
                    yield from self.check_symbol(added.name, axis, size, seen)
                elif isinstance(size, Call):
                    derived.append((added.name, axis, size))
        for name, axis, formula in derived:
            if symbols_of(formula) <= set(seen):
                wanted = formula_code(formula, seen)
                yield (
                    f'    edu::check_same("{name}", {axis}, {name}.size({axis}), '
                    f'"{text_of(formula)}", {wanted});'
                )

    def check_symbol(
        self, name: str, axis: int, size: Size, seen: dict[Size, str]
    ) -> Iterator[str]:
        """Yield the check of a size against the range of its symbol, or another input's."""
        own = f"{name}.size({axis})"
        if size in seen:
            yield f'    edu::check_same("{name}", {axis}, {own}, "{size.name}", {seen[size]});'
            return
        seen[size] = own
        limits = self.original.range_constraints[size.name]
        high = limits.upper
        top = "std::numeric_limits<Index>::max()" if high >= UNBOUNDED else str(high)
        yield (
            f'    edu::check_range("{name}", {axis}, {own}, "{size.name}", {limits.lower}, {top});'
        )


def described(meta: Mapping[str, Any]) -> str:
    """Return dtype and shape as text: float32 (batch, 10)."""
    return f"{dtypes.of(np.dtype(meta['dtype'])).name} {shape_text(meta['shape'])}"


def formula_code(formula: Formula, seen: Mapping[Size, str]) -> str:
    """Return a formula of sizes as C++."""
    if isinstance(formula, Size):
        return seen[formula]
    if isinstance(formula, Call):
        left, right = formula_code(formula.left, seen), formula_code(formula.right, seen)
        if formula.op == "floordiv":
            return f"edu::quotient({left}, {right})"
        return f"({left} {SIGNS[formula.op]} {right})"
    return str(formula)


def origin_of(node: Node) -> str:
    """Return where a node comes from: the line of Python, or the module where no line is known."""
    line, module = node.meta.get("line"), node.meta.get("module")
    return line or (f"module {module}" if module else "")


def quoted_source(origin: str) -> str:
    """Return the text of a line of Python as the end of a comment, where it can be found."""
    text = source_text(origin) if ":" in origin else ""
    return f": {text}" if text else ""
