"""The fast call paths and engine compute what `dispatch.py` and `reference.py` say, to the bit."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest

import edutorch
from edutorch.backends import reference_only
from edutorch.backends.kernel_registry import is_reference_only
from edutorch.core.autograd.reference import ReferenceEngine
from edutorch.core.op import Op
from edutorch.core.tensor import Tensor
from edutorch.utils._pytree import tree_leaves
from tests.house import PACKAGE, files_of_a_step, lines_of_code
from tests.op_calls import arguments, call, ops
from tests.op_cases import CASES

DTYPES = ("float32", "bfloat16")


def leaves_of(values: Any) -> list[Tensor]:
    """Return the tensors among arguments that want a gradient."""
    if isinstance(values, Tensor):
        return [values] if values.requires_grad else []
    if isinstance(values, dict):
        values = values.values()
    return [t for value in values for t in leaves_of(value)] if iterable(values) else []


def iterable(value: Any) -> bool:
    return isinstance(value, (list, tuple)) or type(value).__name__ == "dict_values"


def everything(op: Op, case: dict[str, Any], dtype: str) -> list[Any]:
    """Return the results of a call, the gradients of its inputs, and those of these."""
    edutorch.manual_seed(0)
    named = arguments(op, case, "cpu", dtype, grad=True)
    results = call(op, named)
    results = list(results) if isinstance(results, (tuple, list)) else [results]
    leaves, values = leaves_of(named), [r.detach() for r in results]
    roots = [r for r in results if r.requires_grad]
    if not roots or not leaves:
        return values
    weights = [edutorch.ones_like(r) for r in roots]
    grads = edutorch.autograd.grad(roots, leaves, weights, create_graph=True, allow_unused=True)
    values += [g if g is None else g.detach() for g in grads]
    again = [(g * g).sum() for g in grads if g is not None and g.requires_grad]
    if again:
        values += edutorch.autograd.grad(sum(again), leaves, allow_unused=True)
    return values


def attempt(compute: Callable[[], list[Any]]) -> list[Any]:
    """Return what is computed, or the error in its place: both forms must refuse alike."""
    try:
        return compute()
    except (RuntimeError, TypeError, ValueError, IndexError) as error:
        return [type(error), str(error)]


BY_LAPACK = {"det", "inv", "lu_factor_forward", "qr_forward", "slogdet_forward", "solve_forward",
             "solve_triangular_forward"}  # fmt: skip
"""Ops whose kernels call LAPACK in float32; NumPy computes in float64 and rounds."""

TOLERANCE = dict.fromkeys(BY_LAPACK, 1e-4) | {"lstm_cell_forward": 3e-6}
"""The cell's kernel adds its two products in one sum, and has its own tanh and sigmoid."""


def assert_same(fast: list[Any], plain: list[Any], what: str, rtol: float = 0.0) -> None:
    assert len(fast) == len(plain), what
    for mine, other in zip(fast, plain, strict=True):
        if not isinstance(mine, Tensor):
            assert mine == other, what
            continue
        assert mine.dtype == other.dtype and mine.shape == other.shape, what
        a, b = (np.asarray(t.resolve_conj().double().numpy() if not t.is_complex() else
                           t.detach().numpy()) for t in (mine, other))  # fmt: skip
        limit = rtol * float(np.abs(b).max(initial=0.0, where=np.isfinite(b)))
        np.testing.assert_allclose(a, b, rtol=rtol, atol=limit, err_msg=what)


def all_cases(op: Op) -> dict[str, list[Any]]:
    return {
        f"{op.name}, case {number}, {dtype}": attempt(partial(everything, op, case, dtype))
        for number, case in enumerate(CASES[op.name][:3])
        for dtype in DTYPES
    }


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@ops()
def test_each_op_in_both_forms(op: Op):
    fast = all_cases(op)
    with reference_only():
        plain = all_cases(op)
    for what, values in fast.items():
        assert_same(values, plain[what], what, TOLERANCE.get(op.name, 0.0))


def results(op: Op, case: dict[str, Any], is_held: bool) -> list[Any]:
    """Return the tensors that an op gives; NumPy holds the memory of its operands, or does not."""
    bound = arguments(op, case, "cpu", "float32")
    held = [leaf.numpy() for leaf in tree_leaves(bound) if is_held and isinstance(leaf, Tensor)]
    result = call(op, bound)
    del held
    return [leaf.clone() for leaf in tree_leaves(result) if isinstance(leaf, Tensor)]


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@ops()
def test_each_op_of_tensors_that_numpy_holds(op: Op):
    for number, case in enumerate(CASES[op.name][:3]):
        shared, plain = (attempt(partial(results, op, case, held)) for held in (True, False))
        assert_same(shared, plain, f"{op.name}, case {number}")


def run_of_the_network() -> list[Tensor]:
    """A network with a bias, a view, an in-place write, hooks, a retained gradient, two uses."""
    edutorch.manual_seed(0)
    x = edutorch.randn(4, 3)
    w = edutorch.randn(5, 3, requires_grad=True)
    b = edutorch.zeros(5, requires_grad=True)
    seen = []
    h = edutorch.nn.functional.linear(x, w, b)
    h.retain_grad()
    h.register_hook(seen.append)
    y = h.clone()
    y[:, 1:3].mul_(2.0)
    first, second = y.split([2, 3], 1)
    w.register_hook(lambda g: g * 0.5)
    ((first.tanh().sum() + (second * second).mean()) * h.std()).backward()
    return [w.grad, b.grad, h.grad, *seen]


def test_hooks_views_and_writes():
    fast = run_of_the_network()
    with reference_only():
        assert_same(fast, run_of_the_network(), "the network")


def test_what_runs_is_the_definition():
    called = []

    def note(frame: Any, event: str, _: Any) -> None:
        called.append((frame.f_code.co_name, frame.f_code.co_filename.rpartition("/")[2]))

    x = edutorch.ones(2, requires_grad=True)
    with reference_only():
        assert is_reference_only()
        (x * x).sum().backward()  # the call paths are there now
        sys.setprofile(note)
        try:
            (x * x).sum().backward()
        finally:
            sys.setprofile(None)
    assert not is_reference_only()
    assert ("mul", "arithmetic.py") in called
    assert ("apply", "dispatch.py") in called and ("run", "reference.py") in called
    assert ("run", "engine.py") not in called


def test_the_fast_form_comes_back():
    x = edutorch.ones(2, requires_grad=True)
    with pytest.raises(ZeroDivisionError), reference_only():
        raise ZeroDivisionError
    called = []
    sys.setprofile(lambda frame, *_: called.append(frame.f_code.co_filename))
    try:
        y = x * x
    finally:
        sys.setprofile(None)
    assert not any(name.endswith("dispatch.py") for name in called)
    y.sum().backward()
    assert x.grad.tolist() == [2.0, 2.0]


def test_a_stale_value_is_refused():
    x = edutorch.ones(2, requires_grad=True)
    with reference_only():
        h = x * 1
        y = h * h
        h += 1
        with pytest.raises(RuntimeError, match="modified by an inplace operation"):
            y.sum().backward()
        z = (x * x).sum()
        z.backward()
        with pytest.raises(RuntimeError, match="backward through a second time"):
            z.backward()


def test_the_engine_is_a_small_one():
    """Every method of the engine that is not its loop is shared."""
    assert {"run", "send"} == {name for name in vars(ReferenceEngine) if not name.startswith("__")}


def test_a_student_enters_four_files():
    """`(x * w).backward()`: the op's block, the call, the graph, and the walk back through it."""
    step = files_of_a_step()
    names = sorted(path.relative_to(PACKAGE).as_posix() for path in step)
    assert names == [
        "core/autograd/graph.py", "core/autograd/reference.py", "core/dispatch.py",
        "ops/arithmetic.py",
    ]  # fmt: skip
    assert sum(step.values()) <= 800, step
    assert len(lines_of_code(PACKAGE / "core/autograd/reference.py")) <= 60


def test_an_op_shows_its_block():
    """What `??torch.mul` prints in IPython; a breakpoint there is hit inside `reference_only()`."""
    source = inspect.getsource(edutorch.mul)
    assert source.startswith("@elementwise") and "return input * other" in source
    file = edutorch.mul.op.forward.__code__.co_filename
    first = inspect.getsourcelines(edutorch.mul)[1]
    last, lines = first + len(source.splitlines()), []

    def trace(frame: Any, event: str, _: Any) -> Any:
        if event == "line" and first < frame.f_lineno < last:
            lines.append(frame.f_lineno)
        return trace if frame.f_code.co_filename == file else None

    x, before = edutorch.ones(2), sys.gettrace()
    with reference_only():
        sys.settrace(trace)
        try:
            x * x
        finally:
            sys.settrace(before)  # that of a tool that measures coverage
    assert lines == [last - 1]
