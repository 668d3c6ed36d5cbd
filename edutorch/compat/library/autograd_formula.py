"""The gradient of an operator: a `Function` made from its formula.

An argument or a result may be a list of tensors. A `Function` has flat arguments, so lists are
flattened on the way in and rebuilt on the way out.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Any

from edutorch.autograd.function import Function
from edutorch.core.tensor import Tensor
from edutorch.errors import GradientError
from edutorch.utils._pytree import TreeSpec, tree_flatten, tree_unflatten

from .operators import OpOverload

Run = Callable[[OpOverload, list[Any]], Any]


def apply_formula(op: OpOverload, values: list[Any], run: Run) -> Any:
    """Run an operator, and record it with the formula of `register_autograd`.

    Without one, backward raises an error.
    """
    if op.recorder is None:
        op.recorder = make_function(op)
    leaves, spec = tree_flatten(values)
    call = RecordedCall(op, spec, run)
    outputs = op.recorder.apply(call, *leaves)
    flat = list(outputs) if isinstance(outputs, tuple) else [outputs]
    return tree_unflatten(flat, call.result_spec)


def make_function(op: OpOverload) -> type[Function]:
    """Return the `Function` of an operator, which forwards to the `RecordedCall`."""

    def forward(ctx: Any, call: RecordedCall, *leaves: Any) -> Any:
        ctx.call = call
        return call.forward(ctx, leaves)

    def backward(ctx: Any, *gradients: Any) -> Any:
        return None, *ctx.call.backward(ctx, gradients)

    if not any(argument.type.is_list for argument in op._schema.arguments):
        # Pictures and errors name the arguments.
        names = ["ctx", "call", *(argument.name for argument in op._schema.arguments)]
        position = inspect.Parameter.POSITIONAL_OR_KEYWORD
        signature = inspect.Signature([inspect.Parameter(name, position) for name in names])
        vars(forward)["__signature__"] = signature
    name = f"GeneratedBackwardFor_{op.namespace}_{op._opname}_{op._overloadname}"
    members = {
        "__doc__": op.__doc__, "title": op.name(),
        "forward": staticmethod(forward), "backward": staticmethod(backward),
    }  # fmt: skip
    return type(name, (Function,), members)


class RecordedCall:
    """One recorded call: how its lists were flattened, and its forward and backward."""

    result_spec: TreeSpec

    def __init__(self, op: OpOverload, spec: TreeSpec, run: Run) -> None:
        self.op, self.spec, self.run = op, spec, run

    def forward(self, ctx: Any, leaves: Sequence[Any]) -> Any:
        """Run the kernel, and `setup_context` of the formula."""
        values = tree_unflatten(list(leaves), self.spec)
        result = self.run(self.op, values)
        needs = tree_unflatten(list(ctx.needs_input_grad[1:]), self.spec)
        ctx.needs_input_grad = tuple(tuple(x) if isinstance(x, list) else x for x in needs)
        formula = self.op.implementations.formula
        if formula is not None and formula.setup_context is not None:
            formula.setup_context(ctx, **self.context_arguments(values, result))
        flat_result, self.result_spec = tree_flatten(result)
        return tuple(flat_result) if len(flat_result) != 1 else flat_result[0]

    def context_arguments(self, values: Sequence[Any], result: Any) -> dict[str, Any]:
        """Return what `setup_context` is called with."""
        pairs = list(zip(self.op._schema.arguments, values, strict=True))
        inputs = tuple(value for argument, value in pairs if not argument.kwarg_only)
        named = {argument.name: value for argument, value in pairs if argument.kwarg_only}
        arguments = {"inputs": inputs, "output": result}
        return {**arguments, "keyword_only_inputs": named} if named else arguments

    def backward(self, ctx: Any, gradients: Sequence[Any]) -> list[Tensor | None]:
        """Call the formula, and return a gradient for each leaf of the arguments.

        Raises: GradientError: there is no formula, or it returns a wrong number of gradients.
        """
        formula = self.op.implementations.formula
        if formula is None:
            raise GradientError(
                self.op.name(),
                f"Trying to backward through {self.op} but no autograd formula was registered. "
                "Please use register_autograd to add one.",
            )
        nested = tree_unflatten(list(gradients), self.result_spec)
        by_output = nested if isinstance(nested, tuple) else (nested,)
        result = formula.backward(ctx, *by_output)
        returned = list(result) if isinstance(result, tuple) else [result]
        arguments = self.op._schema.arguments
        expected = sum(not argument.kwarg_only for argument in arguments)
        if len(returned) != expected:
            raise GradientError(
                self.op.name(),
                f"backward returned an incorrect number of gradients (expected {expected}, got "
                f"{len(returned)})",
                {"schema": self.op._schema},
                "return one for each positional argument, None for those without a gradient",
            )
        named = [None] * (len(arguments) - expected)
        return flatten_gradients([*returned, *named], self.spec)


def flatten_gradients(gradients: Sequence[Any], spec: TreeSpec) -> list[Tensor | None]:
    """Return a gradient for each leaf, given one, or a list of them, for each argument."""
    flat: list[Tensor | None] = []
    for gradient, argument_spec in zip(gradients, spec.children_specs, strict=True):
        if argument_spec.is_leaf():
            flat.append(gradient)
        elif gradient is None:
            flat.extend([None] * argument_spec.num_leaves)
        else:
            flat.extend(gradient)
    return flat
