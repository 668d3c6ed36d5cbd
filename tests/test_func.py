"""`edutorch.func` against derivatives known by hand, and against PyTorch."""

from __future__ import annotations

from collections import namedtuple
from typing import Any

import numpy as np
import pytest

import edutorch
from edutorch import func, nn
from edutorch.errors import GradientError
from edutorch.utils._pytree import (
    tree_all,
    tree_flatten,
    tree_leaves,
    tree_map,
    tree_map_only,
    tree_structure,
    tree_unflatten,
)  # fmt: skip

pytestmark = pytest.mark.usefixtures("device")


def wave(x: Any) -> Any:
    return (x * x).sin() + x.exp()


def test_grad_of_grad_is_the_second_derivative() -> None:
    x = edutorch.tensor(1.5, dtype=edutorch.float64)
    second = func.grad(func.grad(wave))(x)
    expected = 2 * (x * x).cos() - 4 * x * x * (x * x).sin() + x.exp()
    assert edutorch.allclose(second, expected)


def test_value_and_grad_by_several_arguments() -> None:
    (by_a, by_b), value = func.value_and_grad(lambda a, b: (a * b).sum(), (0, 1))(
        edutorch.tensor([1.0, 2.0]), edutorch.tensor([3.0, 4.0])
    )
    assert (by_a.tolist(), by_b.tolist(), value.item()) == ([3.0, 4.0], [1.0, 2.0], 11.0)
    assert not value.requires_grad


def test_grad_with_something_besides_the_number() -> None:
    gradient, extra = func.grad(lambda x: (x * x, "extra"), has_aux=True)(edutorch.tensor(3.0))
    assert (gradient.item(), extra) == (6.0, "extra")


def test_jvp_and_vjp_agree() -> None:
    x = edutorch.randn(4, dtype=edutorch.float64)
    t, v = edutorch.randn_like(x), edutorch.randn_like(x)
    _, moved = func.jvp(wave, (x,), (t,))
    _, back = func.vjp(wave, x)
    assert edutorch.allclose((v * moved).sum(), (back(v)[0] * t).sum())


def test_jvp_of_a_linear_and_of_a_constant_function() -> None:
    x = edutorch.ones(2)
    assert func.jvp(lambda x: 3 * x, (x,), (x,))[1].tolist() == [3.0, 3.0]
    assert func.jvp(lambda x: edutorch.ones(2), (x,), (x,))[1].tolist() == [0.0, 0.0]


def test_the_inputs_are_left_alone() -> None:
    x = edutorch.ones(2, requires_grad=True)
    func.grad(lambda x: (x * x).sum())(x)
    assert x.grad is None


def test_a_result_that_is_not_one_number_is_refused() -> None:
    with pytest.raises(GradientError, match="single number"):
        func.grad(lambda x: x * 2)(edutorch.ones(2))


# The same calls in PyTorch -------------------------------------------------------------


def make_tensor(lib: Any, *values: Any) -> Any:
    return lib.tensor(values, dtype=lib.float64)


def agree(ours: Any, theirs: Any) -> None:
    assert str(tree_structure(ours)) == str(tree_structure(theirs))
    for x, y in zip(tree_leaves(ours), tree_leaves(theirs), strict=True):
        if not isinstance(x, edutorch.Tensor):
            assert x == y
            continue
        assert (tuple(x.shape), x.requires_grad) == (tuple(y.shape), y.requires_grad)
        np.testing.assert_allclose(x.numpy(force=True), y.detach().numpy(), 1e-9, 1e-12)


def tree(p: Any, x: Any) -> Any:
    return {"y": (p["w"] * x).sin(), "all": [(p["w"] ** 2 * p["b"]).sum()]}


def loss(p: Any, x: Any, scale: float = 1.0) -> Any:
    return ((p["w"] * x).exp() * p["b"] * scale).sum()


def three(a: Any, b: Any, c: Any) -> Any:
    return (a * b).sin() * c.sum()


def parameters(lib: Any) -> Any:
    return {"w": make_tensor(lib, 1.0, 2.0), "b": make_tensor(lib, 0.5)}


def aux(f: Any) -> Any:
    return lambda *args: (f(*args), {"more": args[0]})


CALLS = {
    "grad of a dict": lambda F, p, x, y: F.grad(loss)(p, x),
    "grad by the last": lambda F, p, x, y: F.grad(loss, argnums=-1)(p, x, scale=2.0),
    "grad by several": lambda F, p, x, y: F.grad(loss, argnums=(1, 0))(p, x),
    "grad with aux": lambda F, p, x, y: F.grad(aux(loss), argnums=0, has_aux=True)(p, x),
    "grad and value": lambda F, p, x, y: F.grad_and_value(loss, argnums=(0,))(p, x),
    "grad and value and aux": lambda F, p, x, y: F.grad_and_value(aux(loss), has_aux=True)(p, x),
    "vjp": lambda F, p, x, y: F.vjp(three, x, y, x)[1](y),
    "vjp of a dict": lambda F, p, x, y: F.vjp(tree, p, x)[1]({"y": y, "all": [y.sum()]}),
    "vjp's output": lambda F, p, x, y: F.vjp(tree, p, x)[0],
    "vjp with aux": lambda F, p, x, y: F.vjp(aux(tree), p, x, has_aux=True)[2],
    "jvp": lambda F, p, x, y: F.jvp(three, (x, y, x), (y, x, y)),
    "jvp of a dict": lambda F, p, x, y: F.jvp(tree, (p, x), (p, y)),
    "jvp with aux": lambda F, p, x, y: F.jvp(aux(tree), (p, x), (p, y), has_aux=True),
    "jvp of a constant": lambda F, p, x, y: F.jvp(lambda x: y * 2, (x,), (y,)),
    "jacrev": lambda F, p, x, y: F.jacrev(three)(x, y, x),
    "jacrev by two": lambda F, p, x, y: F.jacrev(three, argnums=(0, 2))(x, y, x),
    "jacrev of a tree": lambda F, p, x, y: F.jacrev(tree, argnums=0)(p, x),
    "jacrev with aux": lambda F, p, x, y: F.jacrev(aux(three), has_aux=True)(x, y, x),
    "jacrev in chunks": lambda F, p, x, y: F.jacrev(three, chunk_size=1)(x, y, x),
    "jacfwd": lambda F, p, x, y: F.jacfwd(three)(x, y, x),
    "jacfwd by two": lambda F, p, x, y: F.jacfwd(three, argnums=(0, 2))(x, y, x),
    "jacfwd of a tree": lambda F, p, x, y: F.jacfwd(tree, argnums=0)(p, x),
    "jacfwd with aux": lambda F, p, x, y: F.jacfwd(aux(three), has_aux=True)(x, y, x),
    "jacfwd of one number with aux": lambda F, p, x, y: F.jacfwd(aux(wave), has_aux=True)(x[0]),
    "hessian": lambda F, p, x, y: F.hessian(lambda x: wave(x).sum())(x),
    "hessian by two": lambda F, p, x, y: F.hessian(
        lambda a, b: (three(a, b, a)).sum(), argnums=(0, 1)
    )(x, y),
    "hessian of softmax": lambda F, p, x, y: F.hessian(lambda x: (x.softmax(0) * y).sum())(x),
    "forward over forward": lambda F, p, x, y: F.jacfwd(F.jacfwd(lambda x: x.softmax(0) * y))(x),
    "forward over forward over std": lambda F, p, x, y: F.jacfwd(
        F.jacfwd(lambda x: x.std() * x.prod())
    )(x),
    "reverse over forward": lambda F, p, x, y: F.jacrev(F.jacfwd(lambda x: x.softmax(0) * y))(x),
    "reverse over reverse": lambda F, p, x, y: F.jacrev(F.jacrev(lambda x: x.softmax(0) * y))(x),
    "third derivative": lambda F, p, x, y: F.grad(F.grad(F.grad(lambda x: x.sin() * x)))(x[0]),
    "hessian product": lambda F, p, x, y: F.jvp(F.grad(lambda x: wave(x).prod()), (x,), (y,)),
    "by the direction of a hessian product": lambda F, p, x, y: F.jacrev(
        lambda t: F.jvp(F.grad(lambda x: wave(x).prod()), (x,), (t,))[1]
    )(y),
    "linearize": lambda F, p, x, y: F.linearize(three, x, y, x)[1](y, x, y),
    "grad in jvp with value": lambda F, p, x, y: F.jvp(
        lambda x: F.grad_and_value(lambda x: wave(x).sum())(x), (x,), (y,)
    ),
}


@pytest.mark.oracle
@pytest.mark.parametrize("name", CALLS)
def test_results_are_pytorchs(torch: Any, device: str, name: str) -> None:
    results = []
    for lib in (edutorch, torch):
        x, y = make_tensor(lib, 0.3, -1.2), make_tensor(lib, 2.0, 0.7)
        results.append(CALLS[name](lib.func, parameters(lib), x, y))
    agree(*results)


@pytest.mark.oracle
def test_what_is_outside_stays_connected(torch: Any) -> None:
    """A derivative can itself be differentiated with respect to captured tensors."""
    results = []
    for lib in (edutorch, torch):
        w, x = make_tensor(lib, 2.0, 3.0).requires_grad_(), make_tensor(lib, 0.5, 1.0)

        def square(x: Any, w: Any = w) -> Any:
            return w * x * x

        g = lib.func.grad(lambda x, w=w: (w * x).exp().sum())(x)
        y, back = lib.func.vjp(square, x)
        rows = lib.func.jacrev(square)(x)
        _, moved = lib.func.jvp(square, (x,), (x,))
        total = (g * g).sum() + back(y)[0].sum() + rows.prod(0).sum() + rows.sum() + moved.sum()
        results.append((lib.autograd.grad(total, w), g, y))
    agree(*results)


REFUSED = {
    "no such argument": lambda F, x: F.grad(lambda x: x.sum(), argnums=1)(x),
    "not one number": lambda F, x: F.grad(lambda x: x)(x),
    "not a tensor": lambda F, x: F.grad(lambda x: 3.0)(x),
    "no aux": lambda F, x: F.grad(lambda x: x.sum(), has_aux=True)(x),
    "twice the same": lambda F, x: F.grad(lambda x: x.sum(), argnums=(0, 0))(x),
    "vjp of another shape": lambda F, x: F.vjp(lambda x: x * 2, x)[1](x[:1]),
    "vjp arranged otherwise": lambda F, x: F.vjp(lambda x: (x, x), x)[1](x),
    "jvp of another shape": lambda F, x: F.jvp(lambda x: x * 2, (x,), (x[:1],)),
    "jvp arranged otherwise": lambda F, x: F.jvp(lambda x: x * 2, (x,), (x, x)),
    "jvp without a tuple": lambda F, x: F.jvp(lambda x: x * 2, x, x),
    "jvp of nothing": lambda F, x: F.jvp(lambda: 2, (), ()),
    "jvp, strict": lambda F, x: F.jvp(lambda y: x * 2, (x,), (x,), strict=True),
    "chunks": lambda F, x: F.jacrev(lambda x: x, chunk_size=0)(x),
}


@pytest.mark.oracle
@pytest.mark.parametrize("name", REFUSED)
def test_refusals_are_pytorchs(torch: Any, name: str) -> None:
    for lib in (edutorch, torch):
        with pytest.raises((RuntimeError, ValueError, TypeError)):
            REFUSED[name](lib.func, make_tensor(lib, 1.0, 2.0))


# Modules -----------------------------------------------------------------------------------


class Tied(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.a = nn.Linear(2, 2, bias=False)
        self.b = nn.Linear(2, 2, bias=False)
        self.b.weight = self.a.weight
        self.register_buffer("shift", edutorch.ones(2))

    def forward(self, x: Any, times: float = 1.0) -> Any:
        return self.b(self.a(x)) * times + self.shift


def angle(lib: Any, x: Any) -> Any:
    """atan2 jumps from -π at -0.0 to π at 0.0."""
    return lib.atan2(x, lib.tensor(-1.0)).sum()


AT_MINUS_ZERO = {
    "grad_and_value": lambda lib, f, x: lib.func.grad_and_value(f)(x)[1],
    "grad_and_value of it": lambda lib, f, x: lib.func.grad_and_value(
        lambda x: lib.func.grad_and_value(f)(x)[1]
    )(x)[1],
    "vjp": lambda lib, f, x: lib.func.vjp(f, x)[0],
    "jvp": lambda lib, f, x: lib.func.jvp(f, (x,), (x + 1,))[0],
    "grad_and_value of jvp": lambda lib, f, x: lib.func.grad_and_value(
        lambda x: lib.func.jvp(f, (x,), (x + 1,))[0]
    )(x)[1],
    "linearize": lambda lib, f, x: lib.func.linearize(f, x)[0],
    "jacrev": lambda lib, f, x: lib.func.jacrev(lambda x: x * f(x))(x),
    "jacfwd": lambda lib, f, x: lib.func.jacfwd(lambda x: x * f(x))(x),
    "hessian": lambda lib, f, x: lib.func.hessian(lambda x: x * x * f(x))(x),
    "vmap of grad_and_value": lambda lib, f, x: lib.func.vmap(lib.func.grad_and_value(f))(
        lib.stack([x, x])
    )[1],
    "grad_and_value of vmap": lambda lib, f, x: lib.func.grad_and_value(
        lambda x: lib.func.vmap(f)(x).sum()
    )(lib.stack([x, x]))[1],
}


@pytest.mark.oracle
@pytest.mark.parametrize("recorded", [False, True])
@pytest.mark.parametrize("name", AT_MINUS_ZERO)
def test_the_sign_of_zero_stays(torch: Any, name: str, recorded: bool) -> None:
    ours, theirs = (
        AT_MINUS_ZERO[name](
            lib, lambda x, lib=lib: angle(lib, x), lib.tensor(-0.0, requires_grad=recorded)
        )
        for lib in (edutorch, torch)
    )
    assert ours.detach().cpu().tolist() == pytest.approx(theirs.detach().tolist())


def test_a_module_as_a_function_of_its_parameters() -> None:
    model, x = Tied(), edutorch.ones(1, 2)
    before = model(x)
    other = {"a.weight": 2 * edutorch.eye(2), "shift": edutorch.zeros(2)}
    assert func.functional_call(model, other, (x,)).tolist() == [[4, 4]]
    assert func.functional_call(model, [other, {}], x, {"times": 2.0}).tolist() == [[8, 8]]
    untied = func.functional_call(model, other, x, tie_weights=False)
    assert edutorch.allclose(untied, 2 * (x @ model.b.weight.T))
    assert model(x).tolist() == before.tolist()
    parameters = {name: parameter.detach() for name, parameter in model.named_parameters()}
    gradients = func.grad(lambda p: func.functional_call(model, p, x).sum())(parameters)
    model(x).sum().backward()
    assert edutorch.allclose(gradients["a.weight"], model.a.weight.grad)
    with pytest.raises(RuntimeError, match="names of tensors"):
        func.functional_call(model, {"c": x}, x)
    with pytest.raises(RuntimeError, match="missing"):
        func.functional_call(model, {"shift": x}, x, strict=True)
    with pytest.raises(ValueError, match="multiple dictionaries"):
        func.functional_call(model, [other, other], x)


def test_the_states_of_models_are_stacked() -> None:
    models = [nn.BatchNorm1d(3) for _ in range(4)]
    parameters, buffers = func.stack_module_state(models)
    assert parameters["weight"].shape == (4, 3)
    assert parameters["weight"].requires_grad
    assert not buffers["running_mean"].requires_grad
    with pytest.raises(RuntimeError, match="at least one model"):
        func.stack_module_state([])
    with pytest.raises(RuntimeError, match="same class"):
        func.stack_module_state([nn.ReLU(), nn.Tanh()])


def test_functionalize_changes_nothing() -> None:
    x = edutorch.ones(2)
    assert func.functionalize(lambda x: x.clone().add_(1))(x).tolist() == [2, 2]
    assert func.debug_unwrap(x) is x
    with pytest.raises(RuntimeError, match="valid options"):
        func.functionalize(abs, remove="all")


# Trees ---------------------------------------------------------------------------------------


def test_trees_are_taken_apart_and_put_together() -> None:
    Pair = namedtuple("Pair", "first second")
    nested = {"a": Pair(1, [2, None]), "b": (), "c": {"d": (3,)}}
    leaves, spec = tree_flatten(nested)
    assert leaves == [1, 2, None, 3]
    assert tree_unflatten(leaves, spec) == nested
    assert isinstance(tree_unflatten(leaves, spec)["a"], Pair)
    assert spec.num_leaves == 4
    assert tree_map(lambda x, y: (x, y), [1, (2,)], [3, (4,)]) == [(1, 3), ((2, 4),)]
    assert tree_map_only(int, lambda n: -n, nested)["c"] == {"d": (-3,)}
    assert tree_all(lambda n: n != 7, nested)
    assert tree_flatten((1, [2]), is_leaf=lambda x: isinstance(x, list))[0] == [1, [2]]
    with pytest.raises(ValueError, match="leaves"):
        tree_unflatten([1], spec)
    with pytest.raises(ValueError, match="differ"):
        tree_map(lambda x, y: x, [1], (1,))


def test_one_model_alone_can_be_stacked():
    model = nn.Sequential(nn.Linear(2, 3), nn.BatchNorm1d(3))
    model[0].bias.requires_grad_(False)
    parameters, buffers = func.stack_module_state([model])
    assert {name: tensor.shape[0] for name, tensor in (parameters | buffers).items()} == (
        dict.fromkeys(parameters | buffers, 1)
    )
    assert {name for name, tensor in parameters.items() if not tensor.requires_grad} == {"0.bias"}
