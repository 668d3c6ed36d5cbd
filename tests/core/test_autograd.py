"""The engine: paths, accumulation, freed values, hooks and errors of backward."""

from __future__ import annotations

import gc
import weakref

import pytest

import edutorch
from edutorch import autograd, tensor
from edutorch.core.autograd.engine import unbroadcast
from edutorch.errors import GradientError
from tests.devices import device  # noqa: F401

pytestmark = pytest.mark.usefixtures("device")


def leaf(*values: float):
    return tensor(values[0] if len(values) == 1 else list(values), requires_grad=True)


def values(*gradients):
    return [gradient if gradient is None else gradient.tolist() for gradient in gradients]


# Paths through the graph -----------------------------------------------------------------------


def test_the_four_lines():
    x = tensor(3.0, requires_grad=True)
    y = x**2 + 2 * x + 1
    y.backward()
    assert repr(x.grad.cpu()) == "tensor(8.)"


def test_paths_that_meet_are_added():
    x = leaf(2.0, 3.0)
    a = x * 2
    b = a * a + a
    (b * x).sum().backward()
    assert x.grad.tolist() == [12 * 4 + 4 * 2, 12 * 9 + 4 * 3]


def test_one_tensor_as_both_operands():
    x = leaf(3.0)
    (x * x + x / x + x ** x.detach()).backward()
    assert x.grad.item() == pytest.approx(6 + 27)


def test_a_diamond_runs_each_node_once():
    x = leaf(1.0)
    y = x * 2
    runs = []
    y.register_hook(lambda g: runs.append(g.item()))
    (y * 3 + y * 4 + y).backward()
    assert runs == [8.0]


def test_gradients_add_up_over_calls():
    x = leaf(1.0, 2.0)
    (x * 3).sum().backward()
    (x * 4).sum().backward()
    assert x.grad.tolist() == [7, 7]


def test_the_gradient_belongs_to_the_leaf_alone():
    """Writing into one gradient must not change another, though both began as one array."""
    x, y = leaf(1.0, 1.0), leaf(1.0, 1.0)
    (x + y).sum().backward()
    x.grad[0] = 100
    assert y.grad.tolist() == [1, 1]
    start = tensor([1.0, 1.0])
    (y * 1).backward(start)
    y.grad += 5
    assert start.tolist() == [1, 1]


def test_constants_and_unused_inputs_get_nothing():
    x, unused, constant = leaf(2.0), leaf(2.0), tensor(5.0)
    (x * constant).backward()
    assert (unused.grad, constant.grad, x.grad.item()) == (None, None, 5)
    assert not constant.requires_grad


def test_a_gradient_for_several_numbers():
    x = leaf(1.0, 2.0)
    (x * x).backward(tensor([1.0, 10.0]))
    assert x.grad.tolist() == [2, 40]


def test_several_roots():
    x = leaf(2.0)
    autograd.backward([x * 3, x * x], [tensor(1.0), tensor(10.0)])
    assert x.grad.item() == 43


def test_a_leaf_is_its_own_root():
    x = leaf(2.0)
    x.backward()
    assert x.grad.item() == 1


def test_backward_to_some_inputs_only():
    x, w = leaf(2.0), leaf(3.0)
    (x * w).backward(inputs=[w])
    assert values(x.grad, w.grad) == [None, 2]


def test_broadcast_gradients_have_the_shape_of_their_tensor():
    row, column, number = leaf(1.0, 2.0, 3.0), tensor([[1.0], [2.0]], requires_grad=True), leaf(2.0)
    (row * column * number).sum().backward()
    assert row.grad.tolist() == [6, 6, 6]
    assert column.grad.tolist() == [[12], [12]]
    assert number.grad.tolist() == 18


def test_gradients_have_the_type_of_their_tensor():
    half, whole = tensor([1.0, 2.0], dtype=edutorch.float16, requires_grad=True), leaf(3.0, 4.0)
    (half * whole).sum().backward()
    assert half.grad.dtype is edutorch.float16
    assert whole.grad.dtype is edutorch.float32
    x = tensor([1.0], dtype=edutorch.float64, requires_grad=True)
    (x.float() * 2).sum().backward()
    assert x.grad.dtype is edutorch.float64


# Saved values: kept and freed ------------------------------------------------------------------


def test_a_second_backward_is_refused():
    x = leaf(3.0)
    y = x * x
    y.backward()
    with pytest.raises(GradientError, match="backward through a second time"):
        y.backward()


def test_retain_graph():
    x = leaf(3.0)
    y = x * x
    y.backward(retain_graph=True)
    y.backward()
    assert x.grad.item() == 12


def test_what_was_not_saved_may_run_twice():
    x = leaf(3.0)
    y = x + 1  # its rules need no saved value
    y.backward()
    y.backward()
    assert x.grad.item() == 2


def test_saved_values_are_freed_after_backward():
    x = leaf(3.0)
    middle = x * 2
    memory = weakref.ref(middle)
    loss = middle * middle
    del middle
    assert memory() is not None, "saved for backward"
    loss.backward()
    assert memory() is None, "and freed by it, although `loss` lives"


def test_a_graph_dies_with_its_result():
    """Reference counting alone is enough: there is no cycle for the garbage collector."""
    gc.collect()
    gc.disable()
    try:
        x = leaf(1.0, 2.0)
        y = x.exp().softmax(0).sqrt()  # these save their own results
        nodes = weakref.ref(y.grad_fn)
        del y
        assert nodes() is None
    finally:
        gc.enable()


# Leaves ----------------------------------------------------------------------------------------


def test_leaves_and_their_nodes():
    x, y = leaf(1.0), tensor(1.0)
    z = x * y
    assert (x.is_leaf, y.is_leaf, z.is_leaf) == (True, True, False)
    assert (x.grad_fn, y.grad_fn, z.grad_fn.name()) == (None, None, "MulBackward0")
    assert z.grad_fn.next_functions[0][0].variable is x
    assert z.grad_fn.next_functions[1][0] is None


def test_detach_shares_memory_and_leaves_the_graph():
    x = leaf(1.0, 2.0)
    y = x.detach()
    assert y.is_leaf
    assert not y.requires_grad
    y[0] = 9
    assert x.tolist() == [9, 2]
    (x * x.detach()).sum().backward()
    assert x.grad.tolist() == [9, 2]


def test_retain_grad():
    x = leaf(2.0)
    y = x * 3
    y.retain_grad()
    (y * y).backward()
    assert values(y.grad, x.grad) == [12, 36]


def test_only_floating_leaves():
    with pytest.raises(GradientError, match="only Tensors of floating point and complex dtype"):
        tensor([1, 2], requires_grad=True)
    assert not (leaf(1.0, 2.0) > 1).requires_grad
    assert not leaf(1.0, 2.0).argmax().requires_grad
    assert not leaf(1.0, 2.0).long().requires_grad


def test_requires_grad_of_results_cannot_be_changed():
    y = leaf(1.0) * 2
    with pytest.raises(GradientError, match="only change requires_grad flags of leaf variables"):
        y.requires_grad = False


# Hooks -----------------------------------------------------------------------------------------


def test_hooks_see_and_replace():
    x = leaf(1.0)
    y = x * 2
    seen = []
    y.register_hook(lambda g: seen.append(g.item()))
    y.register_hook(lambda g: g * 10)
    x.register_hook(lambda g: g + 1)
    (y * 3).backward()
    assert seen == [3]
    assert x.grad.item() == 3 * 10 * 2 + 1


def test_a_leaf_hook_sees_the_whole_sum():
    x = leaf(1.0)
    seen = []
    x.register_hook(lambda g: seen.append(g.item()))
    (x * 2 + x * 3).backward()
    assert seen == [5]


def test_hooks_are_removed():
    x = leaf(1.0)
    handle = x.register_hook(lambda g: g * 100)
    with x.register_hook(lambda g: g * 10):
        handle.remove()
        handle.remove()
        (x * 2).backward()
    (x * 2).backward()
    assert x.grad.item() == 22


def test_hooks_with_create_graph():
    x = leaf(3.0)
    y = x * x
    y.register_hook(lambda g: g * x)
    (first,) = autograd.grad(y, x, create_graph=True)
    assert first.item() == 2 * 9
    assert values(*autograd.grad(first, x)) == [4 * 3]


def test_a_hook_with_a_wrong_answer():
    x = leaf(1.0, 2.0)
    y = x * 2
    y.register_hook(lambda g: g.sum())
    with pytest.raises(GradientError, match="must return None or a tensor of the gradient's shape"):
        y.sum().backward()


def test_hooks_need_a_gradient():
    with pytest.raises(GradientError, match="cannot register a hook"):
        tensor(1.0).register_hook(print)


@pytest.mark.parametrize(
    ("shape", "wanted", "expected"),
    [((2, 3), (3,), 2), ((2, 3), (1, 3), 2), ((4, 2, 3), (3,), 8), ((), (2, 3), 1),
     ((3,), (2, 3), 1), ((1, 3), (2, 3), 1), ((2, 3), (), 6)],
)  # fmt: skip
def test_a_gradient_takes_the_shape_of_its_tensor(shape, wanted, expected):
    gradient = unbroadcast(edutorch.ones(shape), wanted)
    assert tuple(gradient.shape) == wanted
    assert (gradient == expected).all()


def test_a_leaf_may_be_detached_in_place():
    x = edutorch.ones(2, requires_grad=True)
    y = x * x
    assert x.detach_() is x and not x.requires_grad
    assert y.detach_().is_leaf and y.tolist() == [1, 1]
