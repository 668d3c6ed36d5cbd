"""`func.vmap`: dims and trees, what is refused, randomness, memory, nesting, derivatives, speed."""

from __future__ import annotations

import functools
import time
from typing import Any

import numpy as np
import pytest

import edutorch
from edutorch import func, nn
from edutorch.backends.batching_rules import LOOPED
from edutorch.func import vmap


def tensors_in(tree: Any) -> list[Any]:
    if hasattr(tree, "shape"):
        return [tree]
    values = tree.values() if isinstance(tree, dict) else tree
    return [tensor for value in values for tensor in tensors_in(value)]


def same(torch: Any, program: Any, *inputs: Any) -> None:
    """Run a program with both libraries and compare all that it returns."""
    ours = tensors_in(program(edutorch, *(edutorch.tensor(number) for number in inputs)))
    theirs = tensors_in(program(torch, *(torch.tensor(number) for number in inputs)))
    for a, b in zip(ours, theirs, strict=True):
        assert str(a.dtype) == str(b.dtype)
        np.testing.assert_allclose(a.detach().numpy(), b.detach().numpy(), rtol=1e-7, atol=1e-9)


def random_array(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape)


X, W = random_array(4, 3), random_array(3, 3, seed=1)

# Arguments and results ---------------------------------------------------------------------

TREES = {
    "a dict": lambda t, x: t.vmap(lambda d: {"s": d["a"] + d["b"]}, ({"a": 0, "b": None},))(
        {"a": x, "b": x[0]}
    ),
    "a dict in another order": lambda t, x: t.vmap(
        lambda d: d["a"] + d["b"], ({"b": None, "a": 0},)
    )({"a": x, "b": x[0]})[..., 0],
    "one dim for a whole tree": lambda t, x: t.vmap(lambda p: p[0] * p[1][0])((x, [x])),
    "a tuple of results": lambda t, x: t.vmap(lambda v: (v, (v.sum(), v[0])), out_dims=(1, 0))(x),
    "the only dim of the only result": lambda t, x: t.vmap(lambda v: v, out_dims=(1,))(x),
    "negative dims": lambda t, x: t.vmap(lambda v: v * 2, in_dims=-1, out_dims=-1)(x),
    "a named result": lambda t, x: t.vmap(lambda v: t.max(v, 0))(x),
    "a constant": lambda t, x: t.vmap(lambda v: t.ones(2))(x),
    "something besides": lambda t, x: t.vmap(lambda v: (v, 3), out_dims=(0, None))(x)[0],
    "a keyword": lambda t, x: t.vmap(lambda v, other: v + other.sum())(x, other=x),
    "an argument that is no tensor": lambda t, x: t.vmap(lambda v, n: v * n, (0, None))(x, 3),
    "a partial": lambda t, x: t.vmap(functools.partial(lambda n, v: v * n, 3))(x),
    "chunks": lambda t, x: t.vmap(lambda v: (v.sum(), v), out_dims=(0, 1), chunk_size=3)(x),
    "two levels": lambda t, x: t.vmap(t.vmap(lambda a, b: a * b, (None, 0)), (0, None))(
        x[:, 0], x[0]
    ),
    "a weight from outside in the inner level": lambda t, x: t.vmap(
        lambda v: t.vmap(lambda a: a * v.sum() + x.sum())(v)
    )(x),
    "lengths": lambda t, x: t.vmap(lambda v: v * len(v) + v.numel() + v.dim() + v.size(0))(x),
    "a loop over an example": lambda t, x: t.vmap(lambda v: sum(element * 2 for element in v))(x),
    "strides": lambda t, x: t.vmap(lambda v: t.as_strided(v, (2,), (1,)))(x),
}  # fmt: skip


@pytest.mark.parametrize("name", TREES)
def test_trees_and_dims_as_in_pytorch(torch: Any, name: str) -> None:
    if name == "a dict in another order":
        ours = TREES[name](edutorch, edutorch.tensor(X))
        np.testing.assert_allclose(ours.numpy(), (X + X[0])[..., 0])
    else:
        same(torch, TREES[name], X)


def one(x: Any, *_: Any) -> Any:
    return x


REFUSED = {
    "sizes differ": lambda t, x: t.vmap(one)(x, t.ones(3)),
    "nothing mapped": lambda t, x: t.vmap(one, in_dims=(None,))(x),
    "no arguments": lambda t, x: t.vmap(one)(),
    "too many dims": lambda t, x: t.vmap(one, in_dims=(0, 0))(x),
    "dims of another tree": lambda t, x: t.vmap(one, in_dims=({"a": 0},))(x),
    "a list": lambda t, x: t.vmap(one, in_dims=[0])(x),
    "half a dim": lambda t, x: t.vmap(one, in_dims=(0.5,))(x),
    "out of range": lambda t, x: t.vmap(one, in_dims=2)(x),
    "out of range behind": lambda t, x: t.vmap(one, in_dims=-3)(x),
    "a single number": lambda t, x: t.vmap(one)(t.tensor(1.0)),
    "no tensor": lambda t, x: t.vmap(one)(x, 3),
    "no tensor out": lambda t, x: t.vmap(lambda v: 3)(x),
    "a mapped tensor for None": lambda t, x: t.vmap(one, out_dims=None)(x),
    "too many dims out": lambda t, x: t.vmap(lambda v: (v, v), out_dims=(0, 0, 0))(x),
    "a dim that is a word": lambda t, x: t.vmap(one, out_dims="a")(x),
    "out of range out": lambda t, x: t.vmap(one, out_dims=3)(x),
    "randomness": lambda t, x: t.vmap(one, randomness="x")(x),
    "no chunk": lambda t, x: t.vmap(one, chunk_size=0)(x),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refuses_in_pytorchs_words(torch: Any, name: str) -> None:
    with pytest.raises(Exception) as theirs:  # noqa: PT011
        REFUSED[name](torch, torch.tensor(X))
    with pytest.raises(type(theirs.value)) as ours:
        REFUSED[name](edutorch, edutorch.tensor(X))
    words = str(theirs.value).replace("torch.Tensor", "Tensor")
    assert str(ours.value)[:60] == words[:60]


def set_first(x: Any) -> Any:
    y = edutorch.zeros(3, dtype=x.dtype)
    y[0] = x[0]
    return y


INSIDE = {
    "item": (lambda x: x.sum().item(), "calling .item() on a Tensor", "where(condition, a, b)"),
    "if": (lambda x: x if x.sum() > 0 else -x, "data-dependent control flow", "where(condition"),
    "if of several": (lambda x: x if x else -x, "data-dependent control flow", "where(condition"),
    "float": (lambda x: float(x[0]), "calling .item() on a Tensor", "where(condition, a, b)"),
    "numpy": (lambda x: x.numpy(), "calling .numpy() on a Tensor", "where(condition, a, b)"),
    "tolist": (lambda x: x.tolist(), "calling .numpy() on a Tensor", "where(condition, a, b)"),
    "a write from the batch": (
        lambda x: edutorch.zeros(3, dtype=x.dtype).add_(x), "inplace arithmetic", "new_zeros",
    ),
    "an index from the batch": (set_first, "inplace arithmetic", "x = x + y instead of x += y"),
    "a mask": (lambda x: x[x > 0], "indexing with a boolean mask", "masked_fill"),
    "nonzero": (lambda x: edutorch.nonzero(x), "batch over nonzero", "masked_fill"),
    "random": (lambda x: edutorch.rand(2) + x[0], "called random operation", "randomness="),
}  # fmt: skip


@pytest.mark.parametrize("name", INSIDE)
def test_refuses_inside_with_a_hint(device: str, name: str) -> None:
    function, words, hint = INSIDE[name]
    with pytest.raises(RuntimeError, match="vmap: ") as caught:
        vmap(function)(edutorch.tensor(X))
    assert words in str(caught.value)
    assert hint in str(caught.value).partition("hint:")[2]


def test_errors_speak_of_one_example() -> None:
    with pytest.raises(RuntimeError, match=r"shape \[5\] is invalid for input of size 3"):
        vmap(lambda x: x.reshape(5))(edutorch.tensor(X))


def test_printing_says_what_it_is(capsys: pytest.CaptureFixture[str]) -> None:
    vmap(lambda x: (print(x), x)[1])(edutorch.ones(2, 3))
    expected = (
        "BatchedTensor(lvl=1, bdim=0, shape=[3], value=\n"
        "    tensor([[1., 1., 1.],\n            [1., 1., 1.]])\n)\n"
    )
    assert capsys.readouterr().out == expected


# Random numbers and memory ---------------------------------------------------------------------


def test_randomness(device: str) -> None:
    x = edutorch.zeros(5, 2)
    samples = vmap(lambda v: v + edutorch.rand(2), randomness="different")(x)
    assert len({tuple(row) for row in samples.tolist()}) == 5
    once = vmap(lambda v: v + edutorch.rand(2), randomness="same")(x)
    assert len({tuple(row) for row in once.tolist()}) == 1
    orders = vmap(lambda v: edutorch.randperm(20), randomness="different")(x)
    assert len({tuple(row) for row in orders.tolist()}) == 5
    assert (orders.sort(1).values == edutorch.arange(20)).all()
    outer = vmap(vmap(lambda v: edutorch.rand(()) + v, randomness="same"), randomness="different")
    assert [len(set(row)) for row in outer(x).tolist()] == [1] * 5


@pytest.mark.parametrize(
    "function",
    [
        lambda x: nn.functional.dropout(x, 0.5),
        lambda x: edutorch.bernoulli(x.abs().clamp(0, 1)),
        lambda x: edutorch.randn_like(x),
        lambda x: edutorch.normal(x, 1.0),
        lambda x: nn.functional.gumbel_softmax(x),
        lambda x: edutorch.randint(0, 1000, (3,)),
        lambda x: edutorch.multinomial(x.abs(), 3),
        lambda x: edutorch.multinomial(edutorch.stack([x, x]).abs(), 3, True).reshape(-1),
    ],
)  # fmt: skip
def test_random_functions_draw_for_each_example(function: Any) -> None:
    x = edutorch.tensor(np.repeat(X[:1] + 0.5, 50, 0))
    rows = vmap(function, randomness="different")(x).tolist()
    assert len({tuple(row) for row in rows}) > 2


def test_writes_reach_the_argument_and_are_noticed(torch: Any) -> None:
    def program(t: Any, x: Any) -> Any:
        t.vmap(lambda v: v.add_(1))(x)
        return x

    same(torch, program, X)
    x = edutorch.tensor(X)
    version = x._version
    vmap(lambda v: v.mul_(2))(x)
    assert x._version > version


def test_views_and_writes_inside(torch: Any) -> None:
    def rewritten(a: Any) -> Any:
        y = a.clone()
        y[0] = a[1] * 2
        y[1:].mul_(3)
        v = y[2:]
        v.add_(a[0])
        return (y * y).sum()

    same(torch, lambda t, x: t.vmap(t.func.grad(rewritten))(x), X)

    def through(t: Any, x: Any) -> Any:
        leaf = x.clone().requires_grad_()
        t.vmap(rewritten)(leaf).sum().backward()
        return leaf.grad

    same(torch, through, X)


def test_a_mask_may_be_written_by_one_number(device: str) -> None:
    def positive(x: Any) -> Any:
        y = x.clone()
        y[x < 0] = 0.0
        return y

    result = vmap(positive)(edutorch.tensor(X))
    np.testing.assert_allclose(result.cpu().numpy(), np.maximum(X, 0))


# Derivatives -------------------------------------------------------------------------------


def wave(t: Any) -> Any:
    return lambda x: (t.exp(x) * t.sin(x * x)).sum() ** 2


def layer(t: Any, w: Any) -> Any:
    return lambda x: t.tanh(x @ w)


DERIVATIVES = {
    "jacrev": lambda t, x, w: t.func.jacrev(lambda a, b: layer(t, b)(a), (0, 1))(x, w),
    "jacfwd": lambda t, x, w: t.func.jacfwd(lambda a, b: layer(t, b)(a), (0, 1))(x, w),
    "jacrev in chunks": lambda t, x, w: t.func.jacrev(layer(t, w), chunk_size=5)(x),
    "hessian": lambda t, x, w: t.func.hessian(wave(t))(x[0]),
    "jacrev of jacrev": lambda t, x, w: t.func.jacrev(t.func.jacrev(wave(t)))(x[0]),
    "jacfwd of jacfwd": lambda t, x, w: t.func.jacfwd(t.func.jacfwd(wave(t)))(x[0]),
    "jacrev of jacfwd": lambda t, x, w: t.func.jacrev(t.func.jacfwd(wave(t)))(x[0]),
    "vmap of hessian": lambda t, x, w: t.vmap(t.func.hessian(wave(t)))(x),
    "vmap of jacrev": lambda t, x, w: t.vmap(t.func.jacrev(layer(t, w)))(x),
    "vmap of jacfwd": lambda t, x, w: t.vmap(t.func.jacfwd(layer(t, w)))(x),
    "jacrev of vmap": lambda t, x, w: t.func.jacrev(t.vmap(layer(t, w)))(x),
    "jacfwd of vmap": lambda t, x, w: t.func.jacfwd(t.vmap(layer(t, w)))(x),
    "grad of grad inside": lambda t, x, w: t.vmap(t.func.grad(t.func.grad(lambda v: v**3)))(x[0]),
    "grad of vmap of grad": lambda t, x, w: t.func.grad(
        lambda a: t.vmap(t.func.grad(lambda b: (b**3).sum()))(a).sum()
    )(x),
    "grad by a weight from outside": lambda t, x, w: t.func.grad(
        lambda q: t.vmap(lambda b: layer(t, q)(b).sum())(x).sum()
    )(w),
    "grad by a weight, through grad": lambda t, x, w: t.func.grad(
        lambda q: (t.vmap(t.func.grad(lambda b: layer(t, q)(b).sum()))(x) ** 2).sum()
    )(w),
    "vmap of jvp": lambda t, x, w: t.vmap(
        lambda a, s: t.func.jvp(layer(t, w), (a,), (s,)), (None, 0)
    )(x[0], x),
    "vmap of vjp": lambda t, x, w: t.vmap(t.func.vjp(layer(t, w), x[0])[1])(x),
    "jvp of vmap": lambda t, x, w: t.func.jvp(t.vmap(layer(t, w)), (x,), (x * 2,)),
    "jvp by a weight": lambda t, x, w: t.func.jvp(
        lambda q: t.vmap(layer(t, q))(x), (w,), (w * 2,)
    ),
    "jacobian": lambda t, x, w: t.autograd.functional.jacobian(
        lambda a, b: (layer(t, b)(a), a.sum()), (x, w), vectorize=True
    ),
    "functional.hessian": lambda t, x, w: t.autograd.functional.hessian(
        wave(t), x[0], vectorize=True
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", DERIVATIVES)
def test_derivatives_as_in_pytorch(torch: Any, name: str) -> None:
    same(torch, DERIVATIVES[name], X, W)


def test_many_gradients_in_one_pass(torch: Any) -> None:
    def program(t: Any, x: Any, w: Any) -> Any:
        x.requires_grad_()
        y = layer(t, w)(x)
        starts = t.stack([t.ones_like(y), y.detach()])
        return t.autograd.grad(y, x, starts, is_grads_batched=True)

    same(torch, program, X, W)


def test_second_derivatives_by_differences(device: str) -> None:
    x = edutorch.tensor(X, requires_grad=True)
    w = edutorch.tensor(W, requires_grad=True)
    mapped = vmap(lambda v, q: edutorch.tanh(v @ q).prod(), (0, None))
    assert edutorch.autograd.gradcheck(mapped, (x, w))
    assert edutorch.autograd.gradgradcheck(mapped, (x, w))


# Modules -----------------------------------------------------------------------------------


def small_net(t: Any) -> Any:
    net = t.nn.Sequential(
        t.nn.Conv2d(1, 2, 3), t.nn.ReLU(), t.nn.MaxPool2d(2), t.nn.Flatten(), t.nn.Linear(2, 3)
    ).double()
    for place, parameter in enumerate(net.parameters()):
        parameter.data.fill_(0.3 - 0.1 * place)
    return net


def gradients_per_sample(t: Any, net: Any) -> tuple[Any, Any]:
    held = {name: parameter.detach() for name, parameter in net.named_parameters()}

    def loss(parameters: Any, x: Any, y: Any) -> Any:
        scores = t.func.functional_call(net, parameters, (x[None],))
        return t.nn.functional.cross_entropy(scores, y[None])

    return t.func.grad(loss), held


def test_gradients_of_a_network_per_sample(torch: Any) -> None:
    def program(t: Any, x: Any, y: Any) -> Any:
        slope, held = gradients_per_sample(t, small_net(t))
        return t.vmap(slope, (None, 0, 0))(held, x, y)

    LOOPED.clear()
    same(torch, program, random_array(5, 1, 4, 4), np.array([0, 2, 1, 1, 0]))
    assert not LOOPED


def test_an_ensemble_of_networks(torch: Any) -> None:
    def program(t: Any, x: Any) -> Any:
        nets = [small_net(t) for _ in range(3)]
        nets[1].get_parameter("4.bias").data.add_(1)
        held = t.func.stack_module_state(nets)
        return t.vmap(lambda p, b, v: t.func.functional_call(nets[0], (p, b), (v,)), (0, 0, None))(
            *held, x
        )

    same(torch, program, random_array(2, 1, 4, 4))


def test_it_is_much_faster_than_a_loop() -> None:
    net = nn.Sequential(nn.Linear(20, 32), nn.ReLU(), nn.Linear(32, 10))
    slope, held = gradients_per_sample(edutorch, net)
    x, y = edutorch.randn(64, 20), edutorch.randint(0, 10, (64,))
    mapped = vmap(slope, (None, 0, 0))

    def seconds(run: Any) -> float:
        best = float("inf")
        for _ in range(4):
            start = time.perf_counter()
            run()
            best = min(best, time.perf_counter() - start)
        return best

    at_once = seconds(lambda: mapped(held, x, y))
    looped = seconds(lambda: [slope(held, x[i], y[i]) for i in range(64)])
    assert looped / at_once > 3


def test_custom_functions_and_their_gradients() -> None:
    class Square(edutorch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, a: Any) -> Any:
            ctx.save_for_backward(a)
            return a * a

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            return 2 * g * ctx.saved_tensors[0]

    x = edutorch.tensor(X)
    slopes = vmap(func.grad(lambda a: Square.apply(a).sum()))(x)
    assert edutorch.equal(slopes, 2 * x)
