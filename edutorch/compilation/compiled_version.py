"""One compiled version of a function: its guards, and how it is run."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from .. import backends
from ..autograd.function_node import output_node
from ..backends.numpy import Array, as_plain_array
from ..core.autograd.graph import LEAF, Node, edge_of
from ..core.autograd.multi_output import Description
from ..core.autograd.versions import (
    InferenceVersionCounter,
    clock,
    second_backward,
)  # fmt: skip
from ..core.fast.lazy_gradients import OutputGradients
from ..core.tensor import Tensor, attach_view, share_version, wrap, writes_of
from ..errors import CodeLocation, GradientError
from ..fx.captured_graph import Captured
from ..fx.graph import Graph
from ..fx.traced_array import may_share_memory
from ..utils._pytree import tree_unflatten
from ..utils.process import hold_interrupts, release_interrupts
from . import entry_codegen
from .entry_codegen import Entry
from .fusion import MIN_THREADED_SIZE
from .guards import Guards
from .lowering import HOST_DECOMPOSITIONS

__all__ = ["CompiledNode", "CompiledVersion"]

Run = Callable[[list[Any]], list[Any]]


class CompiledVersion:
    """A captured graph that was compiled, with its guards.

    `run(leaves)` does what the function does for these arguments. If `reasons` is not empty, the
    function cannot be represented by a graph, and runs uncompiled. `runs_function`: it does so, or
    it is one op, whose own kernels do the same: a call of the function needs none of the checks.
    `runs_function_always`: for arguments of other shapes, too.
    """

    runs_function = runs_function_always = False
    entry: Entry | None = None  # the usual call, where there is one
    verdict = ""  # what was measured, if therefore the function runs as it is written

    def __init__(
        self, title: str, captured: Captured, guards: Guards, make: Callable[[Graph], Run]
    ) -> None:
        self.title, self.captured, self.guards = title, captured, guards
        self.reasons = captured.reasons
        # No graph represents the function: only its guards are kept, to know that the next time.
        if self.reasons:
            self.runs_function = self.runs_function_always = True
            self.release_first_call()
            return
        self.inputs = captured.inputs
        self.forward: Run = make(captured.graph)
        backward = captured.backward
        self.backward: Run | None = None if backward is None else make(backward.graph)
        # (output, input) in the order of the outputs.
        self.writes = sorted(captured.graph.writes.items())
        self.results = [
            (position, output) for position, output in enumerate(captured.outputs)
            if output.kind == "result"
        ]  # fmt: skip
        self.grads = [
            (position, output.tensor) for position, output in enumerate(captured.outputs)
            if output.kind == "grad"
        ]  # fmt: skip
        self.non_gradient_outputs = [
            position for position, output in enumerate(captured.outputs) if output.kind != "grad"
        ]
        self.leaf_results = {
            output_.index for _, output_ in self.results
            if output_.tensor is not None and output_.tensor._node is LEAF
        }  # fmt: skip
        self.simple = (
            len(captured.leaves) == 1
            and captured.leaves[0][0] == "tensor"
            and captured.spec.is_leaf()
        )
        self.gradient_plan: GradientPlan | None = None
        self.plan_gradients()
        self.plan_inputs()
        self.plan_replaced_gradients()
        self.runs_function, self.runs_function_always = is_one_op(self)
        self.release_first_call()

    def plan_replaced_gradients(self) -> None:
        """Tell the program which gradients it replaces: their memory is free before."""
        # A gradient that accumulates is an input as well.
        kept_grads = {id(input_.tensor) for input_ in self.inputs if input_.kind == "grad"}
        replaced = [pair for pair in self.grads if id(pair[1]) not in kept_grads]
        self.replaced_grads = [tensor for _, tensor in replaced]
        program: Any = self.forward
        if hasattr(program, "hand_out_uncopied"):  # a program of a device
            program.hand_out_uncopied([position for position, _ in replaced])
        if replaced and hasattr(program, "call_before_gradients"):
            program.call_before_gradients(self.drop_gradients)

    def release_first_call(self) -> None:
        """Release the tensors of the first call."""
        captured = self.captured
        captured.result = None  # else the first batch would stay in memory as long as the version
        for output in captured.outputs:
            if output.kind == "result":
                output.tensor = None
        for input_ in captured.inputs:
            if input_.kind == "argument":
                input_.tensor = None

    def plan_gradients(self) -> None:
        """Determine once which inputs get which gradients, and what is saved."""
        back = self.captured.backward
        self.wanting: list[int] = []
        self.positions: list[int | None] = []
        if back is None:
            return
        for number, input_ in enumerate(self.inputs):
            if number in back.targets:  # an input that requires a gradient, and gets one
                self.wanting.append(number)
                self.positions.append(back.targets.index(number))
            # One that requires a gradient, and does not influence the results.
            elif input_.kind in ("argument", "tensor") and self.guards.needs_gradient(number):
                self.wanting.append(number)
                self.positions.append(None)
        self.saved_inputs = [number for saved_kind, number in back.saved if saved_kind == "input"]

    def explanations(self) -> list[tuple[str, Any]]:
        """Return the backend's explanations of the forward graph and of the gradients' graph."""
        if self.reasons:
            return []
        runs_ = [("function", self.forward), ("gradients", self.backward)]
        return [(name, run_.explain()) for name, run_ in runs_ if hasattr(run_, "explain")]  # type: ignore[union-attr]

    def runs(self) -> list[tuple[str, Any]]:
        """Return the runs of the forward graph and of the gradients' graph that can be timed."""
        runs_ = [] if self.reasons else [("function", self.forward), ("gradients", self.backward)]
        return [(name, run_) for name, run_ in runs_ if hasattr(run_, "timed")]

    # Running --------------------------------------------------------------------------------

    def plan_inputs(self) -> None:
        """Determine once where the input tensors come from: most are always the same."""
        self.constant_tensors = [
            input_.tensor if input_.kind == "tensor" else None for input_ in self.inputs
        ]
        if hasattr(self.forward, "bind"):  # what is the same tensor in every call may stay there
            self.forward.bind(self.constant_tensors)
        self.argument_positions = [
            (position, input_.index) for position, input_ in enumerate(self.inputs)
            if input_.kind == "argument"
        ]  # fmt: skip
        self.other_inputs = [
            (position, input_) for position, input_ in enumerate(self.inputs)
            if input_.kind in ("grad", "number")
        ]  # fmt: skip

    def gather(self, leaves: list[Any]) -> tuple[list[Any], list[Any]]:
        """Return the tensors of the inputs (None for numbers), and their arrays."""
        tensors = self.constant_tensors.copy()  # parameters: most inputs of a training step
        for position, index in self.argument_positions:
            tensors[position] = leaves[index]
        arrays: list[Any] = [None if tensor is None else tensor._array for tensor in tensors]
        for position, input_ in self.other_inputs:
            if input_.kind == "number":
                arrays[position] = input_.holder[input_.key]
            else:
                grad: Any = input_.tensor._grad
                tensors[position], arrays[position] = grad, grad._array
        for position, array in enumerate(arrays):
            # Kernels know no subclass of ndarray.
            if array.__class__ is not np.ndarray and isinstance(array, np.ndarray):
                arrays[position] = as_plain_array(array)
        return tensors, arrays

    def run(self, leaves: list[Any], place: CodeLocation) -> Any:
        """Compute, write back in-place results, and return what the function returns."""
        tensors, arrays = self.gather(leaves)
        # Ctrl-C between two writes would leave half a step.
        token = hold_interrupts() if self.writes or self.grads else None
        try:
            outputs = self.forward(arrays)
            for position, number in self.writes:
                # The program writes most of them in place (`memory_planning.py`).
                if outputs[position] is not arrays[number]:
                    arrays[number][...] = outputs[position]
                written = tensors[number]  # its `_bump`, without the calls
                (written._writes or writes_of(written)).bump(place)
            if self.grads:
                self.set_gradients(outputs, arrays)
            for tensor in self.captured.dropped:
                tensor._grad = None  # here the function set it to None, as `zero_grad` does
        finally:
            if token is not None:
                release_interrupts(token)
        if self.simple and self.backward is None:
            ((_, output),) = self.results  # the usual case: one tensor, without the lists
            # The result is a view of an input, as it was in the captured call.
            if output.shares >= 0:
                result = view_of_input(tensors[output.shares], output.view)
            else:
                result = self.wrap_result(outputs[0])
            if self.leaf_results:
                result._node = LEAF
            if self.captured.spent:
                result._node = SpentNode.node()
            return result
        return self.build_result(outputs, tensors, arrays)

    def drop_gradients(self) -> None:
        """Release the gradients that will be replaced: the new ones reuse their memory."""
        for tensor in self.replaced_grads:
            tensor._grad = None

    def set_gradients(self, outputs: list[Any], arrays: list[Any]) -> None:
        """Set the tensors' new gradients, each in its own memory."""
        seen = set(map(id, arrays))  # an array that something else has already
        seen.update([id(outputs[position]) for position in self.non_gradient_outputs])
        for position, tensor in self.grads:
            array = outputs[position]
            is_view = array.base is not None and isinstance(array, np.ndarray)
            if id(array) in seen or is_view:
                # A gradient owns its memory: users change it in place, as clipping does.
                array = array.copy()
            seen.add(id(array))
            tensor._grad = wrap(array)

    def wrap_result(self, array: Array) -> Tensor:
        """Wrap a result in a tensor; in inference mode, it is an inference tensor."""
        tensor = wrap(array)
        if self.guards.mode.inference:
            tensor._writes = InferenceVersionCounter()
        return tensor

    def build_result(self, outputs: list[Any], tensors: list[Any], arrays: list[Any]) -> Any:
        """Build the function's return value from the arrays."""
        captured = self.captured
        results: list[Tensor] = []
        for position, output in self.results:
            if output.shares >= 0:
                tensor = view_of_input(tensors[output.shares], output.view)
            else:
                tensor = self.wrap_result(outputs[position])
                if output.shares <= -2:
                    earlier = results[-2 - output.shares]
                    # The version of a memory counts the writes through all of its views.
                    if may_share_memory(earlier._array, tensor._array):
                        share_version(tensor, earlier)
            if output.index in self.leaf_results:  # `detach().requires_grad_()` inside the function
                tensor._node = LEAF
            results.append(tensor)
        if captured.backward is not None:
            self.record(outputs, tensors, arrays, results)
        for position in captured.spent:
            results[position]._node = SpentNode.node()
        leaves: list[Any] = []
        for leaf_kind, leaf in captured.leaves:
            if leaf_kind == "tensor":
                leaves.append(results[leaf])
            elif leaf_kind == "input":
                leaves.append(tensors[leaf])
            else:
                leaves.append(leaves[leaf] if leaf_kind == "same" else leaf)
        return tree_unflatten(leaves, captured.spec)

    def record(
        self, outputs: list[Any], tensors: list[Any], arrays: list[Any], results: list[Tensor]
    ) -> None:
        """Record one node for backward."""
        back = self.captured.backward
        assert back is not None
        assert self.backward is not None
        saved = [
            arrays[number] if saved_kind == "input" else outputs[number]
            for saved_kind, number in back.saved
        ]
        roots = [results[number] for number in back.roots]
        node = CompiledNode()
        node._order = order = clock()
        node.plan = plan = self.gradient_plan or self.plan_node(roots)
        node.edges = tuple([edge_of(tensors[number]) for number in self.wanting])
        node.saved = saved  # type: ignore[assignment]
        node.tensors = inputs = [tensors[number] for number in self.saved_inputs]
        for tensor in inputs:
            if tensor is not None:
                tensor._saved_at = order
        node.gathers, node.op = len(roots) > 1, plan.op  # type: ignore[assignment]
        node.shape, node.dtype = plan.output_types[0]
        node.hooks = node.writes = None
        for index, output in enumerate(roots):
            output._node = output_node(node, index, output._array)  # type: ignore[arg-type]
            if output._writes is not None:
                output._node.writes = output._writes

    def plan_node(self, roots: list[Tensor]) -> GradientPlan:
        """Note what is the same in the nodes of all calls."""
        op = Description(
            f"compiled {self.title}", tuple(f"input{i}" for i in range(len(self.wanting)))
        )
        types = [(output._array.shape, output._array.dtype) for output in roots]
        assert self.backward is not None
        self.gradient_plan = GradientPlan(self.backward, self.positions, types, op)
        return self.gradient_plan


def is_pick(node: Any) -> bool:
    """Whether a loss takes one element of each row of a large result, whose rule knows of it.

    Eager's gradient has these elements alone; in a program it is a whole matrix.
    """
    whole = node.args[0] if node.target.op.name in HOST_DECOMPOSITIONS else None
    op = getattr(getattr(whole, "target", None), "op", None)
    is_large = op is not None and math.prod(whole.meta["shape"]) >= MIN_THREADED_SIZE
    return is_large and op.takes_one_hot


def takes_table(node: Any) -> bool:
    """Whether a node computes with an array that the function makes: a program keeps it."""
    operands = [operand for operand in node.args if getattr(operand, "op", "") == "get_attr"]
    return hasattr(node.target, "op") and any(
        math.prod(operand.meta.get("shape", ())) > 1 for operand in operands
    )


def is_one_op(version: CompiledVersion) -> tuple[bool, bool]:
    """Whether calling the function computes the same at least as fast: it is one op, or views.

    Returns: whether it is so for these arguments, and whether for those of all shapes.
    """
    forward: Any = version.forward
    backward: Any = version.backward
    if not hasattr(forward, "fused") or version.grads:  # an XLA program, or one of a user's backend
        return False, False
    nodes = [node for node in version.captured.graph.nodes if node.op == "call_function"]
    ops = [node.target.op for node in nodes if hasattr(node.target, "op") and not is_pick(node)]
    computing = [op for op in ops if not (op.family.makes_view or op.family.makes_views)]
    if len(computing) > 1 or any(takes_table(node) for node in nodes):
        return False, False
    if len(ops) < sum(hasattr(node.target, "op") for node in nodes):
        return True, False
    if any(op.name in HOST_DECOMPOSITIONS for op in computing):  # it reads one element a row
        return True, True
    now, always = forward.is_small or forward.has_own_kernels(), forward.has_own_kernels(True)
    if backward is None or not backward.fused:
        return now, always
    rule_nodes = [node for node in backward.graph.nodes if node.op == "call_function"]
    has_rules = len(rule_nodes) == 1 or all(
        op.joint_vjp is not None or op.rule_slots.keys() >= op.rules.keys() for op in computing
    )
    return now and (has_rules or backward.is_small), always and has_rules


def view_of_input(tensor: Tensor, view: tuple[Any, ...]) -> Tensor:
    """Return a view of an input, with the layout of the captured call."""
    shape, strides, offset, dtype = view
    array = as_plain_array(tensor._array)
    first = array.view(dtype) if dtype != array.dtype else array
    result = wrap(backends.of(first).as_strided(first, shape, strides, offset))
    attach_view(result, tensor)
    return result


class SpentNode(Node):
    """The `grad_fn` of a result whose graph was run backward inside the compiled function."""

    __slots__ = ("op",)
    holds = True  # backward may run once: then its saved arrays are released

    @classmethod
    def node(cls) -> SpentNode:
        """Return a new node."""
        from ..core.autograd.multi_output import Description
        from ..core.autograd.versions import clock

        spent = cls()
        spent.op = Description("compiled", ())  # type: ignore[assignment]
        spent.edges, spent.saved, spent.shape, spent.dtype = (), None, (), np.dtype("float32")
        spent.hooks = spent.writes = None
        spent._order = clock()
        return spent

    def name(self) -> str:
        """Return the node's name."""
        return "CompiledFunctionBackward"

    def backward(self, g: Array | OutputGradients, edges: tuple[Any, ...], recording: bool) -> Any:
        """Raise the error of a second backward pass.

        Raises: GradientError: always.
        """
        from ..core.autograd.versions import second_backward

        raise second_backward(self)


class GradientPlan(NamedTuple):
    """What the nodes of all calls of a version have in common."""

    run: Run
    positions: list[int | None]  # for each edge the index of its gradient
    output_types: list[tuple[Any, Any]]  # shape and dtype of each output
    op: Any  # its description for pictures


class CompiledNode(Node):
    """A call of a compiled function, whose gradients are a compiled graph, too."""

    __slots__ = ("gathers", "op", "plan", "tensors")

    holds = True
    plan: GradientPlan
    tensors: list[Tensor | None]  # saved inputs

    def name(self) -> str:
        """Return the node's name."""
        return "CompiledFunctionBackward"

    def backward(
        self, g: Array | OutputGradients, edges: tuple[Any, ...], recording: bool
    ) -> Sequence[Any]:
        """Run the compiled gradients.

        Raises: GradientError: with `create_graph=True`, or in a second backward pass.
        """
        if recording:
            raise GradientError(
                "backward",
                "torch.compile with aot_autograd does not currently support double backward: "
                "the gradients of a compiled function cannot be recorded",
                hint="leave out create_graph=True, or call the function that is not compiled",
            )
        if self.saved is None:
            raise second_backward(self)
        for tensor in self.tensors:
            if tensor is not None and tensor._writes is not None:
                self.refuse_stale("a tensor", tensor._writes, tensor._array)
        starts = [g] if g.__class__ is not OutputGradients else self.start_gradients(g.by_output)
        gradients = self.plan.run([*self.saved, *starts])
        seen_ids = {id(start) for start in starts}
        for index, gradient in enumerate(gradients):
            if id(gradient) in seen_ids:  # gradients accumulate in place
                gradients[index] = gradient.copy()
            seen_ids.add(id(gradient))
        return [
            None if index is None or edge is None else gradients[index]
            for index, edge in zip(self.plan.positions, edges, strict=True)
        ]

    def start_gradients(self, by_output: dict[int, Array]) -> list[Array]:
        """Return a gradient for each output: zeros for those that the loss does not depend on."""
        types = self.plan.output_types
        if len(by_output) < len(types):
            first = next(iter(by_output.values()))
            xp = np if isinstance(first, np.generic) else backends.of(first).xp
            by_output = {
                index: by_output[index] if index in by_output else xp.zeros(*types[index])
                for index in range(len(types))
            }
        return [by_output[index] for index in range(len(types))]

    def maker(self, index: int, array: Array) -> Node:
        """Return a new node for an output whose own was freed with its tensor."""
        return output_node(self, index, array)  # type: ignore[arg-type]


vars(entry_codegen)["CompiledVersion"] = CompiledVersion  # its annotations name it
