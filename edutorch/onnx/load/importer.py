"""`onnx.load`: the nodes of a model, one after the other, become nodes of a graph."""

from __future__ import annotations

from pathlib import Path

from ...errors import EdutorchError
from ...fx import Graph, Node
from ..dtypes import from_onnx
from . import subgraphs
from .attributes import attribute_value
from .constants import Constants
from .errors import damaged, unsupported
from .functions import MOST_NESTED, MOST_NODES, call_of, check_growth, find_function, grows
from .inference import facts_of, infer_facts
from .lowering import Lowering
from .module import ImportedModule, ValueSpec
from .protos import GraphProto, ModelProto, NodeProto, ValueInfoProto
from .reader import Source, canonical_domain, opsets_of, plain, read_model, readable_name
from .table import find_entry, nearest
from .values import Facts, Value


def load(source: Source) -> ImportedModule:
    """Bring an ONNX model in: a module whose `code` is a Python program of torch calls.

    Its weights are parameters, with the names of the file: it can be trained further.

    Args:
        source: a path, the bytes of a file, or an onnx.ModelProto.

    Raises: ModelFileError: the file is damaged, or refers to files outside its folder.
        UnsupportedOpError: an op, opset or dtype has no counterpart here.

    >>> from edutorch import onnx
    >>> from onnx import parser
    >>> model = parser.parse_model('''
    ...     <ir_version: 10, opset_import: ["" : 21]>
    ...     net (float[N, 2] x, float[2, 3] w) => (float[N, 3] y) {
    ...         h = MatMul(x, w)
    ...         y = Relu(h)
    ...     }''')
    >>> print(onnx.load(model).code.strip())
    def forward(self, x, w):
        # MatMul
        h = torch.matmul(x, w);  x = w = None
        # Relu
        y = torch.relu(h);  h = None
        return y
    """
    model, folder = read_model(source)
    try:
        return import_model(model, folder)
    except EdutorchError:
        raise
    # Whatever else goes wrong is a contradiction in the file: a list too short, a number too large.
    except (LookupError, ValueError, TypeError, AttributeError, ArithmeticError, MemoryError,
            RecursionError, AssertionError, SyntaxError) as error:  # fmt: skip
        raise damaged(f"the model contradicts itself: {type(error).__name__}: {error}") from error


def import_model(model: ModelProto, folder: Path | None) -> ImportedModule:
    """Return the module of a model that was read.

    Args:
        folder: where it lies, or None.
    """
    program = Program(model, folder)
    importer = GraphImporter(program, infer_facts(model))
    importer.enter_graph(model.graph)
    outputs = importer.finish(model.graph)
    name = plain(model.graph.name) or "ImportedModule"
    specs = (tuple(importer.specs), tuple(outputs))
    members = importer.constants.referenced()
    return ImportedModule(members, importer.graph, name, specs, program.opsets.get("", 0))


class Program:
    """What all graphs of a model share.

    Args:
        model: the model.
        folder: where it lies, or None.
    """

    def __init__(self, model: ModelProto, folder: Path | None) -> None:
        self.folder = folder
        self.opsets = opsets_of(model.opset_import)
        self.functions = {
            (canonical_domain(function.domain), function.name): function
            for function in model.functions
        }
        self.nodes = 0
        check_growth(model.graph, self.functions)

    def count_node(self, depth: int) -> None:
        """Count one node more. Raises: ModelFileError: the model is too large, or too deep."""
        self.nodes += 1
        if self.nodes > MOST_NODES or depth > MOST_NESTED:
            raise grows()


def note_type(node: Node) -> None:
    """Note the dtype and the shape of a node where they are known, for pictures of the graph."""
    known = node.meta.get("onnx")
    if known is None or known.dtype is None or known.shape is None:
        return
    node.meta |= {"shape": known.shape, "dtype": known.dtype.name}


class GraphImporter:
    """Brings one graph of a model into an fx graph.

    Args:
        program: what all graphs of the model share.
        facts: what is known about its values.
        outer: of the graph around this one.
        depth: how many graphs and functions are around it.
    """

    def __init__(
        self, program: Program, facts: dict[str, Facts], outer: GraphImporter | None = None,
        depth: int = 0,
    ) -> None:  # fmt: skip
        self.program, self.facts, self.outer, self.depth = program, facts, outer, depth
        self.graph = Graph()
        self.constants = Constants(self.graph, program.folder)
        self.values: dict[str, Value] = {}
        self.specs: list[ValueSpec] = []
        self.captured: list[str] = []
        self.last_placeholder: Node | None = None
        self.opsets = program.opsets

    # Inputs, weights and outputs ------------------------------------------------------------

    def enter_graph(self, graph: GraphProto) -> None:
        """Bring in the weights, inputs and nodes of a graph."""
        if graph.sparse_initializer:
            raise unsupported("Constant", graph.name, "sparse tensors cannot be brought in")
        for tensor in graph.initializer:
            self.values[tensor.name] = self.constants.add_tensor(tensor, is_weight=True)
        for value in graph.input:
            if value.name not in self.values:  # else a weight that may be replaced
                self.add_input(value)
        for node in graph.node:
            self.enter_node(node)

    def add_input(self, value: ValueInfoProto) -> None:
        """Add a parameter of the function."""
        node = self.add_placeholder(value.name or "input")
        node.meta["onnx"] = facts_of(value.type)
        self.values[value.name] = node
        self.specs.append(spec_of(value, node.name))

    def add_placeholder(self, name: str) -> Node:
        """Add a parameter behind the others."""
        with self.graph.inserting_after(self.last_placeholder):
            node = self.last_placeholder = self.graph.placeholder(readable_name(name))
        node.target = node.name  # an ONNX name need not be a Python name
        return node

    def find_value(self, name: str, user: str) -> Value:
        """Return a value by name; one of the graph around becomes an input of this one.

        Raises: ModelFileError: there is none.
        """
        if name not in self.values:
            if self.outer is None:
                raise damaged(f"{user} uses {name!r}, which nothing before it computes")
            outer_value = self.outer.find_value(name, user)
            node = self.add_placeholder(name)
            node.meta["onnx"] = getattr(outer_value, "meta", {}).get("onnx", Facts())
            self.values[name] = node
            self.captured.append(name)
        value = self.values[name]
        return self.constants.node_of(value)

    def finish(self, graph: GraphProto) -> list[ValueSpec]:
        """Add the output node, and drop what is not used; return the outputs."""
        if not graph.output:
            raise damaged("the graph has no outputs")
        results = tuple(self.find_value(value.name, "the output") for value in graph.output)
        self.graph.output(results[0] if len(results) == 1 else results)
        self.graph.eliminate_dead_code()
        for node in self.graph.nodes:
            note_type(node)
        return [spec_of(value, value.name) for value in graph.output]

    # Nodes ------------------------------------------------------------------------------------

    def enter_node(self, node: NodeProto) -> None:
        """Bring one node in: by its function, by the table, or by its definition.

        Raises: UnsupportedOpError, ModelFileError.
        """
        self.program.count_node(self.depth)
        domain = canonical_domain(node.domain)
        key = (domain, node.op_type)
        if key in self.program.functions:
            call_of(self, node, self.program.functions[key])
            return
        if domain == "" and node.op_type == "Constant":
            self.enter_constant(node)
            return
        if domain == "" and node.op_type in subgraphs.HANDLERS:
            subgraphs.HANDLERS[node.op_type](self, node)
            return
        opset = self.opsets.get(domain, 1 if domain else 0)
        name = node.op_type if domain == "" else f"{domain}.{node.op_type}"
        entry = find_entry(name, opset)
        if entry is not None:
            Lowering(self, node, entry).run()
            return
        function = find_function(node, domain, opset, self)
        if function is None:
            raise unknown_op(node, domain, opset)
        call_of(self, node, function)

    def enter_constant(self, node: NodeProto) -> None:
        """Bring a Constant in. Raises: UnsupportedOpError: a string, or a sparse tensor."""
        if len(node.attribute) != 1 or len(node.output) != 1:
            raise damaged(f"Constant (node {node.name!r}) must have one value and one output")
        name = node.output[0]
        attribute = node.attribute[0]
        if attribute.name not in (
            "value",
            "value_int",
            "value_ints",
            "value_float",
            "value_floats",
        ):
            what = f"its {attribute.name} cannot be brought in"
            raise unsupported("Constant", node.name, what, "only numbers exist here")
        if attribute.name == "value":
            self.values[name] = self.constants.add_tensor(attribute.t, is_weight=False, name=name)
        else:
            value = attribute_value(attribute, node)
            self.values[name] = self.constants.add_numbers(name, value, "int" in attribute.name)


def unknown_op(node: NodeProto, domain: str, opset: int) -> Exception:
    """Make the error for an op that is neither in the table nor defined by others."""
    near = nearest(node.op_type)
    where = f"domain {domain!r}" if domain else f"opset {opset}"
    hint = f"the nearest that can: {', '.join(near)}" if near else None
    if domain:
        hint = "a function of this name in the model would be taken; export it with one"
    what = f"it cannot be brought in ({where})"
    return unsupported(node.op_type, node.name, what, hint)


def spec_of(value: ValueInfoProto, python_name: str) -> ValueSpec:
    """Return an input or output as it is described in the file."""
    which = value.type.WhichOneof("value")
    facts = facts_of(value.type)
    if which in ("tensor_type", None):
        # Of a tensor without a known dtype nothing is checked.
        if which and facts.dtype is None and value.type.tensor_type.elem_type:
            from_file = value.type.tensor_type.elem_type
            if from_onnx(from_file) is None:
                refuse_dtype(value.name, from_file)
        return ValueSpec(value.name, python_name, "tensor", facts.dtype, facts.shape)
    container = "optional" if which == "optional_type" else "sequence"
    return ValueSpec(value.name, python_name, container)


def refuse_dtype(name: str, number: int) -> None:
    """Raise UnsupportedOpError for a dtype without a counterpart."""
    from ..dtypes import dtype_name
    from .errors import UnsupportedOpError

    raise UnsupportedOpError(
        "onnx.load", f"value {name!r} has dtype {dtype_name(number)}",
        hint="strings, and floats and integers of 4 bits or less, do not exist here",
    )  # fmt: skip
