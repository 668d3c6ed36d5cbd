"""`opcheck`: whether an operator and what is registered for it fit together."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from edutorch.compiler import compile
from edutorch.core.tensor import Tensor
from edutorch.errors import EdutorchError, NotHereError
from edutorch.ops import ones_like
from edutorch.testing import assert_close
from edutorch.utils._pytree import tree_leaves, tree_map

from .calling import find_kernel, invoke, refuse_aliases, run_checked, tensors_of
from .operators import OpOverload, find_operator

__all__ = ["OpCheckError", "get_ctx", "opcheck"]

TESTS = (
    "test_schema", "test_autograd_registration", "test_faketensor", "test_aot_dispatch_dynamic",
)  # fmt: skip


class OpCheckError(EdutorchError, Exception):
    """`opcheck` has met a mistake."""


def opcheck(
    op: Any, args: Sequence[Any], kwargs: Mapping[str, Any] | None = None, *,
    test_utils: str | Sequence[str] = TESTS, raise_exception: bool = True,
    atol: float | None = None, rtol: float | None = None,
) -> dict[str, str]:  # fmt: skip
    """Check that an operator's schema, fake, gradient and compiled form agree with its kernel.

    test_schema: only what the schema marks is written to, and no result is a view of an argument.
    test_autograd_registration: where an argument requires grad, the result does, by a formula.
    test_faketensor: the fake returns the shapes and dtypes that the kernel returns.
    test_aot_dispatch_dynamic: compiled, the results and gradients are the same.

    Raises: OpCheckError: one of them fails (with raise_exception=False it is in the result).

    >>> @edutorch.library.custom_op("doc_opcheck::square", mutates_args=())
    ... def square(x: Tensor) -> Tensor:
    ...     return x * x
    >>> _ = square.register_fake(lambda x: empty_like(x))
    >>> edutorch.library.opcheck(square, (ones(2),))["test_faketensor"]
    'SUCCESS'
    """
    names = [test_utils] if isinstance(test_utils, str) else list(test_utils)
    unknown = [name for name in names if name not in CHECKS]
    if unknown:
        raise OpCheckError(
            "opcheck", f"unknown test: {', '.join(unknown)}", hint=f"one of {', '.join(TESTS)}"
        )
    operator = find_operator(op)
    results = {}
    for name in names:
        try:
            CHECKS[name](operator, args, kwargs or {}, {"atol": atol, "rtol": rtol})
            results[name] = "SUCCESS"
        except Exception as error:
            results[name] = error  # type: ignore[assignment]
            if raise_exception:
                raise OpCheckError(
                    "opcheck", f"{name} failed with {type(error).__name__}: {error}",
                    {"op": operator.name()},
                ) from error  # fmt: skip
    return results


def copy_arguments(value: Any) -> Any:
    """Return a copy of the arguments whose tensors are leaves."""
    return tree_map(
        lambda leaf: leaf.detach().clone().requires_grad_(leaf.requires_grad)
        if isinstance(leaf, Tensor) else leaf,
        value,
    )  # fmt: skip


def check_schema(op: OpOverload, args: Any, kwargs: Any, tolerance: Any) -> None:
    """Check what is written to, and that results are no views of arguments."""
    values = op._schema.bind(*copy_arguments((tuple(args), dict(kwargs))))
    before = copy_arguments(values)
    result = op(*values) if not any(a.kwarg_only for a in op._schema.arguments) else invoke(
        op, op, values
    )  # fmt: skip
    for argument, value, old in zip(op._schema.arguments, values, before, strict=True):
        for tensor, earlier in zip(tensors_of([value]), tensors_of([old]), strict=True):
            if not argument.is_write and not equal(tensor, earlier):
                raise OpCheckError(
                    op.name(), f"argument {argument.name} was written to, and the schema does not "
                    "say so", {"schema": op._schema}, "name it in mutates_args",
                )  # fmt: skip
    refuse_aliases(op, values, result)


def equal(first: Tensor, second: Tensor) -> bool:
    """Return True if all elements are equal, or both NaN."""
    return bool(((first == second) | ((first != first) & (second != second))).all())


def check_autograd(op: OpOverload, args: Any, kwargs: Any, tolerance: Any) -> None:
    """Check that the result requires grad where an argument does."""
    args, kwargs = copy_arguments((tuple(args), dict(kwargs)))
    wanting = [tensor for tensor in tensors_of([args, list(kwargs.values())])
               if tensor.requires_grad]  # fmt: skip
    if not wanting or op._schema.is_mutable:
        return
    outputs = [leaf for leaf in tree_leaves(op(*args, **kwargs)) if isinstance(leaf, Tensor)]
    floating = [output for output in outputs if output.is_floating_point() or output.is_complex()]
    registered = op.implementations
    has_gradient = registered.formula is not None or registered.kernels.keys() & {
        "Autograd", "CompositeImplicitAutograd",
    }  # fmt: skip
    if floating and has_gradient and not any(output.requires_grad for output in floating):
        raise OpCheckError(
            op.name(), "an argument requires grad, and no result does",
            hint="the autograd kernel has to record the call, by an autograd.Function",
        )  # fmt: skip


def check_fake(op: OpOverload, args: Any, kwargs: Any, tolerance: Any) -> None:
    """Check that the fake returns the shapes and dtypes that the kernel returns."""
    values = op._schema.bind(tuple(args), kwargs)
    values = tree_map(lambda x: x.detach().clone() if isinstance(x, Tensor) else x, values)
    result = run_checked(op, copy_arguments(values))
    fake = run_fake(op, values)
    real_tensors = [leaf for leaf in tree_leaves(result) if isinstance(leaf, Tensor)]
    fake_tensors = [leaf for leaf in tree_leaves(fake) if isinstance(leaf, Tensor)]
    shapes = [(tuple(tensor.shape), tensor.dtype) for tensor in real_tensors]
    fake_shapes = [(tuple(tensor.shape), tensor.dtype) for tensor in fake_tensors]
    if shapes != fake_shapes:
        raise OpCheckError(
            op.name(), "the fake returns other shapes or dtypes than the kernel",
            {"kernel": shapes, "fake": fake_shapes},
        )  # fmt: skip


def run_fake(op: OpOverload, values: list[Any]) -> Any:
    """Run the fake on the device "meta"."""
    values = tree_map(lambda x: x.to("meta") if isinstance(x, Tensor) else x, values)
    return invoke(find_kernel(op, "Meta"), op, values)


def check_compiled(op: OpOverload, args: Any, kwargs: Any, tolerance: Any) -> None:
    """Check that results and gradients are the same when the call is compiled."""

    def run(arguments: Any, named: Any) -> tuple[list[Tensor], list[Any]]:
        results = [x for x in tree_leaves(op(*arguments, **named)) if isinstance(x, Tensor)]
        return results, arguments

    compiled = compile(lambda arguments, named: run(arguments, named)[0])
    outcomes = []
    for function in (lambda arguments, named: run(arguments, named)[0], compiled, compiled):
        arguments, named = copy_arguments((tuple(args), dict(kwargs)))
        results = function(arguments, named)
        loss = sum((x * ones_like(x)).sum() for x in results if x.requires_grad)
        wanting = [x for x in tensors_of([arguments, list(named.values())]) if x.requires_grad]
        if isinstance(loss, Tensor) and op.implementations.formula is not None:
            loss.backward()
        outcomes.append([*results, *(x.grad for x in wanting if x.grad is not None)])
    for other in outcomes[1:]:
        assert_close(other, outcomes[0], **tolerance)


CHECKS: dict[str, Callable[..., None]] = dict(
    zip(TESTS, (check_schema, check_autograd, check_fake, check_compiled), strict=True)
)
CHECKS["test_aot_dispatch_static"] = check_compiled


def get_ctx() -> Any:
    """Return the context of a fake that is running: there are no unknown sizes here.

    Raises: NotHereError: its `new_dynamic_size` is called.
    """
    return FakeContext()


class FakeContext:
    """What `get_ctx` returns in a fake."""

    def new_dynamic_size(self, *, min: int = 0, max: int | None = None) -> int:
        """Raise an error: shapes are numbers here.

        Raises: NotHereError: always.
        """
        raise NotHereError(
            "get_ctx().new_dynamic_size", "sizes that depend on values are unknown to a fake",
            hint="leave the operator out of compile(), where it then runs eagerly",
        )  # fmt: skip
