"""Ops that return several views: one node for all of them, as in PyTorch."""

from __future__ import annotations

import pytest

import edutorch
from edutorch.errors import GradientError
from edutorch.func import hessian, jvp, vmap

CUTS = {
    "split": lambda x: x.split(2),
    "split, uneven": lambda x: x.split(3),
    "split by a list": lambda x: x.split([1, 3]),
    "split_with_sizes": lambda x: x.split_with_sizes([1, 0, 3]),
    "chunk": lambda x: x.chunk(2, 1),
    "chunk, last axis": lambda x: x.chunk(3, -1),
    "unbind": lambda x: x.unbind(),
    "unbind, axis 1": lambda x: x.unbind(1),
    "a loop": lambda x: tuple(x),
    "tensor_split": lambda x: x.tensor_split(3),
    "tensor_split at places": lambda x: x.tensor_split((1, 3), 1),
    "hsplit": lambda x: x.hsplit(3),
    "vsplit": lambda x: x.vsplit(2),
    "unsafe_split": lambda x: edutorch_or_torch(x).unsafe_split(x, 2),
}
ONE_NODE = [name for name in CUTS if name.startswith(("split", "chunk", "unbind", "a loop"))]
BY_ITSELF = ["tensor_split", "hsplit", "vsplit", "unsafe_split"]


def edutorch_or_torch(x):
    if isinstance(x, edutorch.Tensor):
        return edutorch
    import torch

    return torch


def start(library):
    values = [[float(6 * row + column) for column in range(6)] for row in range(4)]
    return library.tensor(values, dtype=library.float64, requires_grad=True)


def describe(library, cut):
    """Return the public properties of the views of a tensor that has a history."""
    x = start(library)
    y = x * 1
    pieces = cut(y)
    node = pieces[0].grad_fn
    return (
        [piece.tolist() for piece in pieces],
        [(piece.grad_fn is node, piece.output_nr, piece._base is y) for piece in pieces],
        node.name().replace("Slice", "Narrow"),  # our name of what PyTorch calls a slice
        [(function.name(), number) for function, number in node.next_functions],
    )


@pytest.mark.oracle
@pytest.mark.parametrize("name", [cut for cut in CUTS if cut != "unsafe_split"])
def test_nodes_as_in_pytorch(torch, name):
    assert describe(edutorch, CUTS[name]) == describe(torch, CUTS[name])


@pytest.mark.oracle
@pytest.mark.parametrize("name", CUTS)
@pytest.mark.parametrize("used", ["all", "one", "twice"])
def test_gradients_as_in_pytorch(torch, name, used):
    def gradients(library):
        x = start(library)
        pieces = CUTS[name](x * x)
        if used == "one":
            pieces = pieces[-1:]
        total = sum((i + 1) * (piece**2).sum() for i, piece in enumerate(pieces))
        if used == "twice":
            total = total + pieces[0].sum()
        total.backward()
        return x.grad.tolist()

    assert gradients(edutorch) == gradients(torch)


@pytest.mark.parametrize("name", CUTS)
def test_derivatives(name):
    """Backward, second derivatives, forward mode, and all of them batched."""

    def function(x):
        pieces = CUTS[name](x * x)
        return pieces[0].sum() ** 2 + (pieces[-1] ** 3).sum()

    x = start(edutorch) / 10
    x = x.detach().requires_grad_()
    check = edutorch.autograd.gradcheck
    assert check(function, x, check_forward_ad=True, check_batched_grad=True)
    assert edutorch.autograd.gradgradcheck(function, x)


def test_functions_of_func():
    x = start(edutorch).detach() / 10
    tangent = edutorch.ones_like(x)

    def product(x):
        a, b = x.split(2)
        return (a * b).sum()

    moved = jvp(product, (x,), (tangent,))[1]
    assert moved.item() == pytest.approx((x * tangent).sum().item())
    assert hessian(product)(x)[0, 0, 2, 0].item() == 1
    assert vmap(lambda row: row.chunk(2)[1])(x).tolist() == x[:, 3:].tolist()
    assert vmap(lambda row: edutorch.stack(row.unbind()))(x).tolist() == x.tolist()


def test_missing_gradients_are_zeros():
    x = start(edutorch)
    _, b, _ = x.chunk(3, 1)
    seen = []
    b.grad_fn.register_hook(lambda inputs, outputs: seen.append((inputs, outputs)))
    b.sum().backward()
    assert x.grad.tolist() == [[0, 0, 1, 1, 0, 0]] * 4
    ((inputs,), outputs) = seen[0]
    assert inputs.tolist() == x.grad.tolist()
    assert [output is None for output in outputs] == [True, False, True]


def test_hooks_and_kept_gradients_of_a_piece():
    x = start(edutorch)
    a, b = x.split(2)
    a.retain_grad()
    b.register_hook(lambda g: g * 10)
    (a.sum() + 2 * b.sum()).backward()
    assert a.grad.tolist() == [[1.0] * 6] * 2
    assert x.grad.tolist() == [[1.0] * 6] * 2 + [[20.0] * 6] * 2


def test_gradients_by_a_piece():
    x = start(edutorch)
    a, b = (x * 2).split(2)
    (gradient,) = edutorch.autograd.grad((a * b).sum(), a)
    assert gradient.tolist() == b.tolist()


def test_the_graph_runs_again_without_being_retained():
    x = start(edutorch)
    a, b = x.split(2)
    for _ in range(2):
        (a.sum() + b.sum()).backward()
    assert x.grad.tolist() == [[2.0] * 6] * 4


def test_many_pieces():
    x = edutorch.ones(3000, requires_grad=True)
    edutorch.stack([2 * row for row in x]).sum().backward()
    assert x.grad.tolist() == [2.0] * 3000


# Writes ----------------------------------------------------------------------------------------


def write_error(library, cut, write):
    """Return the error of a write into a view, or None."""
    y = start(library) * 1
    piece = cut(y)[0]
    try:
        write(piece)
    except RuntimeError:
        return "refused"
    return y.tolist()


def _set(piece):
    piece[0] = 1.0


WRITES = {
    "mul_": lambda piece: piece.mul_(2),
    "a part": lambda piece: piece[:1].add_(1),
    "setitem": _set,
    "zero_": lambda piece: piece.zero_(),
    "copy_": lambda piece: piece.copy_(piece * 2),
}


@pytest.mark.oracle
@pytest.mark.parametrize("name", CUTS)
@pytest.mark.parametrize("write", WRITES)
def test_recorded_writes_as_in_pytorch(torch, name, write):
    ours = write_error(edutorch, CUTS[name], WRITES[write])
    assert ours == write_error(torch, CUTS[name], WRITES[write])
    assert (ours == "refused") == (name in ONE_NODE)


def test_the_error_says_what_to_do():
    y = start(edutorch) * 1
    with pytest.raises(GradientError) as caught:
        y.chunk(2, 1)[1].mul_(2)
    assert str(caught.value) == (
        "mul_: output 1 of split is one of several views that one function has returned: "
        "it cannot be modified by an in-place operation that is recorded\n"
        "  input  = (4, 3)\n"
        "  hint: write x = x.mul(2) instead of x.mul_(2), take the part by itself with "
        "x.narrow(dim, start, length), or write inside `with no_grad():`"
    )


@pytest.mark.parametrize("name", ONE_NODE)
def test_memory_and_versions_are_shared(name):
    x = start(edutorch).detach()
    pieces = CUTS[name](x)
    pieces[-1].fill_(-1.0)
    assert x._version == pieces[0]._version == 1
    assert (x == -1).sum().item() == pieces[-1].numel()
    y = start(edutorch) * 1
    pieces = CUTS[name](y)
    with edutorch.no_grad():
        pieces[-1].fill_(-1.0)
    assert (y == -1).any().item() and y._version == 1


def test_a_write_into_the_base_is_followed():
    """PyTorch refuses further use of a view after that; here it is a view of the new base."""
    x = start(edutorch)
    y = x * 1
    a, _ = y.split(2)
    y.mul_(3)
    a.sum().backward()
    assert x.grad.tolist() == [[3.0] * 6] * 2 + [[0.0] * 6] * 2


def test_a_copy_of_a_piece_may_be_written():
    y = start(edutorch) * 1
    piece = y.chunk(2, 1)[0].t().reshape(12)  # which has to copy
    piece.view(3, 4)[0].mul_(2)
    assert piece.grad_fn is not None


# Errors ----------------------------------------------------------------------------------------


@pytest.mark.oracle
@pytest.mark.parametrize(
    "call",
    [
        lambda x: x.split(0), lambda x: x.split(-1), lambda x: x.split([1, 2]),
        lambda x: x.split([-1, 5]), lambda x: x.split(2, 7), lambda x: x.unbind(2),
        lambda x: x.split_with_sizes([1, 3], -3), lambda x: x[0, 0].unbind(),
        lambda x: x[:0].split(2), lambda x: x[:0].split(0), lambda x: x[:0].unbind(),
        lambda x: x[:0].chunk(3), lambda x: x.chunk(9), lambda x: x.split(9),
    ],
)  # fmt: skip
def test_odd_sizes_as_in_pytorch(torch, call):
    def answer(library):
        try:
            return [tuple(view.shape) for view in call(start(library))]
        except (RuntimeError, IndexError, ValueError) as error:
            return isinstance(error, IndexError)

    assert answer(edutorch) == answer(torch)
