"""Captures the graph of a function by running it once.

    captured = fx.capture(step, x, y)
    captured.graph.print_tabular()

The run is a normal one: it returns the function's result and does its in-place writes. At the
same time every op is recorded in a graph: forward, backward and optimizer alike, with concrete
shapes. Where the function reads values (`if loss > 1`, `loss.item()`), no graph can represent
it, and `reasons` lists the lines.
"""

from __future__ import annotations

import gc
from collections.abc import Callable
from typing import Any

from ..core.autograd.graph import LEAF
from ..core.autograd.versions import clock
from ..core.tensor import Tensor
from ..modes import Modes, current
from ..utils._pytree import tree_flatten, tree_unflatten
from . import captured_graph, primitives
from .capture_context import DEFAULT_OPTIONS, CaptureOptions, Tracer
from .capture_patches import GRAD, CapturePatches
from .captured_graph import (
    Captured,
    Input,
    Output,
    add_identity_step,
    argument_names,
    build_backward_nodes,
    flat_tensors,
    has_user_hooks,
    is_plain_value,
    make_default_generators,
    python_random_state,
    split_graph,
    unwrap_saved,
)
from .captured_state import CapturedState
from .graph import array_meta
from .node import Argument, Node
from .traced_array import TracedArray, TracedNumber, address, flatten_arrays

__all__ = ["CaptureSession", "capture"]


def capture(fn: Callable[..., Any], *args: Any, **kwargs: Any) -> Captured:
    """Run `fn` once, and return the graph of what it computed.

    Args:
        fn: a function or a module; it may run backward and step optimizers.
        args, kwargs: what it is called with: tensors, and any other values.

    Raises: what `fn` raises.

    >>> captured = fx.capture(lambda x: (x * 2).relu(), ones(3))
    >>> print(captured.graph.python_code().src.strip())
    def forward(self, x):
        mul = torch.mul(x, 2);  x = None
        relu = torch.relu(mul);  mul = None
        return (relu,)
    """
    return CaptureSession(fn, args, kwargs).run()


class CaptureSession:
    """One capture in progress."""

    def __init__(
        self, function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any],
        options: CaptureOptions = DEFAULT_OPTIONS,
    ) -> None:  # fmt: skip
        self.function, self.args, self.kwargs = function, args, kwargs
        others = [leaf for leaf in tree_flatten((args, kwargs))[0] if not isinstance(leaf, Tensor)]
        self.reach = CapturedState(function, others)
        self.tracer = Tracer(options)
        self.tracer.module_names = self.reach.modules
        self.patches = CapturePatches(
            self.tracer, self.input_name, list(self.reach.scopes.values())
        )
        self.captured = Captured(self.tracer.graph, reach=self.reach)
        self.sources: dict[Any, Input] = {}  # by placeholder
        self.lifted_numbers: list[tuple[dict[str, Any], str, Any]] = []
        self.start = clock()
        self.started = False
        self.history_steps: dict[int, Tensor] = {}  # replacements for arguments that have a history

    def input_name(self, tensor: Tensor) -> str | None:
        """Return the name of a tensor that is read for the first time, or None if unreachable."""
        for owner, before, _ in self.patches.grads.values():
            if before is tensor:
                known = self.reach.tensors.get(id(owner))
                name = f"{known[0]}.grad" if known else "grad"
                return name if known or self.is_argument(owner) else None
        known = self.reach.tensors.get(id(tensor))
        return None if known is None else known[0]

    def is_argument(self, tensor: Tensor) -> bool:
        """Return True if a tensor is one of the arguments."""
        return any(flat_tensor is tensor for flat_tensor in flat_tensors((self.args, self.kwargs)))

    # The run --------------------------------------------------------------------------------

    def run(self) -> Captured:
        """Run the function and finish the graph."""
        captured, tracer = self.captured, self.tracer
        captured.reasons = tracer.reasons
        self.check_state()
        make_default_generators()
        mode = current()  # compared at the end: a function may leave `no_grad` in force
        states, randomness = (
            [len(optimizer.state) for optimizer in self.reach.optimizers],
            python_random_state(),
        )
        for optimizer in self.reach.optimizers:
            optimizer.fused_kernel = None  # kernels do not take traced arrays
        for index, value in enumerate(tree_flatten((self.args, self.kwargs))[0]):
            # An argument with a history: backward inside has to stop at it.
            past = isinstance(value, Tensor) and value._node is not None
            if past and value._node is not LEAF and current().grad:
                self.history_steps[index] = add_identity_step(value)
        with self.patches:
            try:
                args, kwargs = self.lift_arguments()
                self.lift_learning_rates()
                self.started = True
                # The real run: what it returns goes to the caller.
                captured.result = capture_run(self.function, args, kwargs)
            except BaseException:
                tracer.done = True  # from here on, arrays compute without recording
                tracer.restore()
                self.restore()
                raise
            finally:
                self.restore_learning_rates()
                for optimizer in self.reach.optimizers:
                    vars(optimizer).pop("fused_kernel", None)
            leaves, captured.spec = tree_flatten(captured.result)
            self.finish(leaves)
        unwrap_saved(flat_tensors(captured.result), self.start)
        captured.again = states != [len(optimizer.state) for optimizer in self.reach.optimizers]
        self.record_side_effects(mode, randomness)
        self.find_escaped_tensors()
        return captured

    def record_side_effects(self, mode: Modes, randomness: tuple[Any, ...]) -> None:
        """Record what the run has changed that the next call would find."""
        captured = self.captured
        if current() is not mode and current() != mode:
            captured.reasons.append(("the function leaves other modes in force", "?"))
        changed = self.reach.changed()
        if changed:
            captured.reasons.append((f"the function changes something: {changed}", "?"))
            captured.changes = True
        if python_random_state() != randomness:
            text = "random numbers are drawn from Python's or NumPy's own generator"
            captured.reasons.append((text, "?"))
            captured.changes = True

    def check_state(self) -> None:
        """Record which reachable objects no graph can represent, and the tensors' nodes."""
        self.known_nodes = [(tensor, tensor._node) for _, tensor in self.reach.tensors.values()]
        reach = self.reach
        for wrong, text in (
            (reach.is_too_large, "it can reach too many things"),
            (reach.iterators, f"it can go on with an iterator: {', '.join(reach.iterators)}"),
            (
                any(has_user_hooks(optimizer) for optimizer in reach.optimizers),
                "an optimizer has hooks",
            ),
        ):
            if wrong:
                self.captured.reasons.append((text, "?"))

    def lift_arguments(self) -> tuple[Any, Any]:
        """Lift every tensor among the arguments; those with a history get an identity step."""
        names = argument_names(self.function, self.args, self.kwargs)
        leaves, spec = tree_flatten((self.args, self.kwargs))
        for index, value in enumerate(leaves):
            if not isinstance(value, Tensor):
                continue
            name = names[index]
            if index in self.history_steps:
                value = leaves[index] = self.history_steps[index]
            traced = self.lift(value, name, index)
            traced.node.meta["argument"] = index
        if self.history_steps:
            return tree_unflatten(leaves, spec)
        return self.args, self.kwargs

    def lift(self, tensor: Tensor, name: str, index: int) -> TracedArray:
        """Make a tensor an input of the graph."""
        before = self.patches.input_name
        self.patches.input_name = lambda _: name
        try:
            traced: Any = tensor._array  # this read makes it an input (`CapturePatches.read_array`)
        finally:
            self.patches.input_name = before
        if not isinstance(traced, TracedArray):
            self.tracer.poison("an argument is not an ordinary tensor")
            return self.tracer.placeholder(name, getattr(traced, "_values", traced))
        self.sources.setdefault(traced.node, Input("argument", name, index, tensor))
        return traced

    def lift_learning_rates(self) -> None:
        """Make the learning rates of optimizers inputs, because schedulers change them."""
        for number, optimizer in enumerate(self.reach.optimizers):
            for index, group in enumerate(optimizer.param_groups):
                if isinstance(group.get("lr"), float | int) and type(group["lr"]) is not bool:
                    name = f"lr_{number}_{index}" if number or index else "lr"
                    traced = self.tracer.number(name, group["lr"])
                    self.lifted_numbers.append((group, "lr", (group["lr"], traced)))
                    self.sources[traced.node] = Input("number", name, holder=group, key="lr")
                    # Schedulers change it, and no graph should be made anew for that.
                    group["lr"] = traced

    def restore_learning_rates(self) -> None:
        """Set the learning rates of the optimizers back to Python numbers."""
        for group, key, (value, traced) in self.lifted_numbers:
            now = group[key]
            group[key] = value
            if now is not traced:
                group[key] = now.value if isinstance(now, TracedNumber) else now
                self.tracer.reasons.append((f"the function changes the {key} of an optimizer", "?"))

    def restore(self) -> None:
        """Restore gradients and generators after an error."""
        for generator, state in self.patches.generators.values():
            # So that the function, run again, draws the same numbers.
            generator.__dict__["random"].set_state(state)
        for tensor, before, _ in self.patches.grads.values():
            GRAD.__set__(tensor, before)

    @staticmethod
    def output(role: str) -> Output:
        """Return a new output with this role."""
        return Output(role)

    # The end ---------------------------------------------------------------------------------

    def finish(self, leaves: list[Any]) -> None:
        """Make the outputs of the graph: returned values, writes and accumulated gradients."""
        captured, tracer = self.captured, self.tracer
        nodes: list[Node] = []
        tensors: list[Tensor] = []
        seen: dict[int, int] = {}
        inputs = {id(t): traced for t, traced in self.patches.lifted}
        for index, value in enumerate(leaves):
            if isinstance(value, TracedNumber):
                tracer.poison("it returns a number that changes from call to call")
                captured.leaves.append(("value", value.value))
            elif type(value) is not Tensor and id(value) not in inputs:
                if not is_plain_value(value):
                    tracer.poison(f"it returns a {type(value).__name__}")
                captured.leaves.append(("value", value))
            elif id(value) in seen:  # the same tensor twice is the same tensor twice in every call
                captured.leaves.append(("same", seen[id(value)]))
            elif id(value) in inputs:
                captured.leaves.append(("input", inputs[id(value)]))
            else:
                seen[id(value)] = index
                traced: Any = value._array
                if not isinstance(traced, TracedArray):
                    tracer.poison("it returns a tensor that is not an ordinary one")
                    captured.leaves.append(("value", value))
                    continue
                captured.leaves.append(("tensor", len(nodes)))
                captured.outputs.append(Output("result", index, value))
                nodes.append(self.result_node(traced))
                tensors.append(value)
        self.record_aliasing(tensors)
        lifted = [tensor for tensor, _ in self.patches.lifted]
        for tensor, node in [*self.known_nodes, *zip(lifted, self.patches.nodes, strict=True)]:
            if tensor._node is not node:
                tracer.poison("a tensor from outside gets a past, or begins to want a gradient")
        boundary = tracer.graph._root.prev
        back = None
        wanting = [
            tensor for tensor in tensors if tensor._node is not None and tensor._node is not LEAF
        ]
        if wanting and not tracer.reasons:
            back = build_backward_nodes(self, tensors)
        self.add_writes_and_gradients(nodes)
        self.number_inputs()
        captured.original = tracer.graph
        if back is None:
            tracer.graph.output(tuple(nodes))
            tracer.graph.lint()
        else:
            captured.graph, captured.backward = split_graph(self, nodes, boundary, back)
            captured_gradients = [
                gradient for _, gradient in back.gradients if gradient is not None
            ]
            tracer.graph.output((*nodes, *captured_gradients))
        captured.leaves = [
            (leaf_type, self.input_index(what) if leaf_type == "input" else what)
            for leaf_type, what in captured.leaves
        ]

    def result_node(self, traced: TracedArray) -> Node:
        """Return the node of a result; a constant is copied, because users may modify results."""
        node, root = traced.node, traced.memory.root
        if root.node.op != "get_attr":
            return node
        # Users may write into a result, and the constant must stay.
        copied = self.tracer.record(primitives.copy, (traced,), {})
        copied.meta.update(array_meta(traced.held))
        return copied

    def record_aliasing(self, tensors: list[Tensor]) -> None:
        """Record which results share memory with an input or with an earlier result."""
        arrays: list[Any] = [tensor._array for tensor in tensors]
        for position, array in enumerate(arrays):
            if not isinstance(array, TracedArray):
                continue
            output = [output for output in self.captured.outputs if output.kind == "result"][
                position
            ]
            for number, (_, traced) in enumerate(self.tracer.inputs):
                if traced is not None and traced.memory is array.memory:
                    # A view of an input is rebuilt with the strides and offset of this call.
                    # An exported program returns values, and rebuilds no views.
                    moves = array.memory.has_moving_views and is_chosen_by_tensor(array.node)
                    if moves and not self.tracer.options.keeps_branches:
                        self.tracer.poison("it returns a part like x[i], where i is a tensor")
                    held = array.held
                    offset = address(held) - address(traced.held)
                    output.shares = number
                    output.view = (held.shape, held.strides, offset, held.dtype)
                    break
            else:
                for earlier in range(position):
                    if arrays[earlier].memory is array.memory:
                        # -1 means none, so earlier outputs count from -2 downwards.
                        output.shares = -2 - earlier
                        break

    def add_writes_and_gradients(self, nodes: list[Node]) -> None:
        """Add the new values of written inputs, and new gradients, to the outputs."""
        captured, tracer = self.captured, self.tracer
        for number, (placeholder, traced) in enumerate(list(tracer.inputs)):
            if traced is not None and traced.node is not placeholder:
                # In place in the function, an output in the graph.
                tracer.graph.writes[len(nodes)] = number
                captured.outputs.append(Output("write", number))
                nodes.append(traced.node)
        for tensor, before, read in self.patches.grads.values():
            now = GRAD.__get__(tensor)
            known = id(tensor) in self.reach.tensors or self.is_argument(tensor)
            if (read or now is not before) and not known:
                tracer.poison("the gradient of a tensor changes that nobody will find again")
            if read:
                captured.grads.append(
                    (tensor, None if before is None else tuple(before._array.shape))
                )
            if now is before:
                continue
            if now is None:
                captured.dropped.append(tensor)
            else:
                array: Any = now._array
                captured.outputs.append(Output("grad", tensor=tensor))
                nodes.append(array.node)

    def number_inputs(self) -> None:
        """Describe every placeholder, in the order of the graph."""
        tracer, captured = self.tracer, self.captured
        lifted = {id(traced): tensor for tensor, traced in reversed(self.patches.lifted)}
        known = dict(tracer.inputs)
        order = [n for n in tracer.graph.nodes if n.op == "placeholder" and n in known]
        # A learning rate that nothing reads.
        for node in [n for n in order if n.meta.get("number") and not n.users]:
            order.remove(node)
            tracer.graph.erase_node(node)
        traced_of = dict(tracer.inputs)
        input_indices = {node: i for i, (node, _) in enumerate(tracer.inputs)}
        new_index = {input_indices[node]: i for i, node in enumerate(order)}
        tracer.inputs = [(node, traced_of[node]) for node in order]
        for node in order:
            source = self.sources.get(node)
            if source is None:
                tensor = lifted.get(id(traced_of[node]))
                source = self.find_source(tensor, node)
            captured.inputs.append(source)
        tracer.graph.writes = {pos: new_index[n] for pos, n in tracer.graph.writes.items()}
        for output in captured.outputs:
            if output.kind == "write":
                output.index = new_index[output.index]
            elif output.shares >= 0:
                output.shares = new_index[output.shares]

    def find_source(self, tensor: Tensor | None, node: Node) -> Input:
        """Return how to find a tensor that is not an argument in each call."""
        for owner, before, _ in self.patches.grads.values():
            if before is tensor and before is not None:
                return Input("grad", str(node.target), tensor=owner)
        return Input("tensor", str(node.target), tensor=tensor)

    def input_index(self, traced: TracedArray) -> int:
        """Return the index of the input that a traced array belongs to."""
        return next(i for i, (_, source) in enumerate(self.tracer.inputs) if source is traced)

    def find_escaped_tensors(self) -> None:
        """Find tensors created during the capture that something outside still refers to."""
        captured = self.captured
        if captured.reasons or captured.backward is not None or captured.spent:
            return
        results = flat_tensors(captured.result)
        # What may be alive: results, their bases, inputs, gradients.
        outside = {id(result) for result in results} | {id(result._base) for result in results}
        outside |= {id(tensor) for tensor, _ in self.patches.lifted}
        outside |= {id(GRAD.__get__(t)) for t, _, _ in self.patches.grads.values()}
        # Collecting takes milliseconds, so only if something is left.
        for attempt in ("first", "after collecting what only refers to itself"):
            alive = [reference() for reference in self.patches.tensors]
            escaped = [array for array in alive if array is not None and id(array) not in outside]
            if not escaped or captured.again:
                return
            if attempt == "first":
                del alive, escaped
                gc.collect()
        text = f"a tensor of shape {tuple(escaped[0].shape)} made inside is kept somewhere"
        captured.reasons.append((text, "?"))


def is_chosen_by_tensor(node: Argument) -> bool:
    """Whether a view, or its base, is an element like x[i] with a tensor as index."""
    while isinstance(node, Node) and node.op == "call_function" and node.args:
        if any(isinstance(part, Node) for part in flatten_arrays(node.kwargs)):
            return True
        node = node.args[0]
    return False


def capture_run(function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Call the function. (`find_provenance` stops at this frame.)"""
    return function(*args, **kwargs)


# Its annotations name it: `typing.get_type_hints` looks it up in their globals.
captured_graph.CaptureSession = CaptureSession  # type: ignore[attr-defined]
