"""`vmap` of a few hundred calls: against PyTorch's, against a loop, differentiated, nested."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

import edutorch
from edutorch import Tensor
from edutorch.backends.batching_rules import LOOPED
from edutorch.func import grad, vmap
from tests.trials import tried
from tests.vmap_calls import CALLS

BATCH = 3
LOOPS: set[str] = {"t.linalg.matrix_exp(x/9)@y", "t.linalg.lstsq(x,y)[0]"}
"""Calls that may run something once per example: what NumPy does not do for many at once."""

THEIRS_FAILS = {
    ("-r(4,3) i(2,3)", "F.cross_entropy(x[:3],y[0]%3,label_smoothing=0.1)"):
        "PyTorch writes mapped numbers in place into others",
}  # fmt: skip
TEXTS: dict[str, list[str]] = {}
for _arguments, _text in CALLS:
    TEXTS.setdefault(_arguments, []).append(_text)


def each_call(test: Any) -> Any:
    """Run a test for each kind of arguments, and in it all calls that have them."""
    return pytest.mark.parametrize("arguments", TEXTS)(
        tried("text", lambda arguments, **_: TEXTS[arguments])(test)
    )


def put(x: Any, index: Any, value: Any) -> Any:
    y = x.clone()
    y[index] = value
    return y


def call(lib: Any, text: str, *values: Any) -> list[Any]:
    """Return the results of an expression as a list of tensors."""
    names = dict(zip("xyz", values, strict=False))
    result = eval(text, {"t": lib, "F": lib.nn.functional, "put": put, **names})
    return [result] if hasattr(result, "shape") else list(result)


def arrays(arguments: str) -> tuple[list[np.ndarray], tuple[int | None, ...]]:
    """Make a batch of the arguments, and say along which axis it lies."""
    random = np.random.default_rng(0)
    arrays_, dims = [], []
    for shared, letter, shape in re.findall(r"(-?)([a-z])\(([\d,]+)\)", arguments):
        sizes = (*(() if shared else (BATCH,)), *(int(part) for part in shape.split(",")))
        x = random.standard_normal(sizes)
        if letter == "p":
            x = random.random(sizes) * 0.8 + 0.1
        elif letter == "i":
            x = random.integers(0, 4, sizes)
        elif letter == "q":
            x = np.argsort(random.random(sizes), -1)
        elif letter == "s":
            x = x @ x.swapaxes(-1, -2) + 3 * np.eye(sizes[-1])
        arrays_.append(x)
        dims.append(None if shared else 0)
    return arrays_, tuple(dims)


def examples(values: list[np.ndarray], dims: tuple[int | None, ...]) -> list[list[Tensor]]:
    return [
        [edutorch.tensor(x if d is None else x[i]) for x, d in zip(values, dims, strict=True)]
        for i in range(BATCH)
    ]


def close(ours: Any, theirs: Any) -> None:
    np.testing.assert_allclose(ours.detach().cpu().numpy(), theirs, rtol=1e-6, atol=1e-8)


@each_call
def test_as_in_pytorch_and_without_a_loop(torch: Any, arguments: str, text: str) -> None:
    values, dims = arrays(arguments)
    LOOPED.clear()
    ours = vmap(lambda *x: tuple(call(edutorch, text, *x)), dims)(*map(edutorch.tensor, values))
    assert not LOOPED or text in LOOPS, LOOPED
    if (arguments, text) in THEIRS_FAILS:
        with pytest.raises((RuntimeError, AssertionError)):
            as_pytorchs(ours, torch, text, values, dims)
    else:
        as_pytorchs(ours, torch, text, values, dims)


def as_pytorchs(ours: Any, torch: Any, text: str, values: Any, dims: Any) -> None:
    mapped = torch.func.vmap(lambda *x: tuple(call(torch, text, *x)), dims)
    for a, b in zip(ours, mapped(*map(torch.tensor, values)), strict=True):
        assert str(a.dtype) == str(b.dtype)
        close(a, b.numpy())


@each_call
def test_with_the_batch_in_other_places(device: str, arguments: str, text: str) -> None:
    values, dims = arrays(arguments)
    expected = zip(
        *(call(edutorch, text, *example) for example in examples(values, dims)), strict=True
    )
    moved = [x if d is None else np.moveaxis(x, 0, -1) for x, d in zip(values, dims, strict=True)]
    last = tuple(None if d is None else -1 for d in dims)
    ours = vmap(lambda *x: tuple(call(edutorch, text, *x)), last, out_dims=-1)(
        *map(edutorch.tensor, moved)
    )
    for a, b in zip(ours, expected, strict=True):
        close(a, np.stack([result.cpu().numpy() for result in b], -1))


def number(text: str, *values: Any) -> Tensor:
    """Return a weighted sum of all elements of the floating-point results."""
    total = edutorch.zeros((), dtype=edutorch.float64)
    for y in call(edutorch, text, *values):
        if y.is_floating_point():
            weights = edutorch.arange(y.numel()).reshape(y.shape).cos()
            total = total + (y * weights).sum()
    return total


@each_call
def test_gradients_inside_and_through(arguments: str, text: str) -> None:
    values, dims = arrays(arguments)
    floating = tuple(i for i, x in enumerate(values) if x.dtype == np.float64)
    slope = grad(lambda *x: number(text, *x) + 0 * x[floating[0]].sum(), floating)
    one_by_one = [slope(*example) for example in examples(values, dims)]
    tensors = [edutorch.tensor(x) for x in values]
    inside = vmap(slope, dims)(*tensors)
    for i in floating:
        tensors[i].requires_grad_()
    total = vmap(lambda *x: number(text, *x) + 0 * x[floating[0]].sum(), dims)(*tensors).sum()
    total.backward()
    for place, i in enumerate(floating):
        expected = np.stack([result[place].numpy() for result in one_by_one])
        close(inside[place], expected)
        through = expected if dims[i] == 0 else expected.sum(0)
        held = tensors[i].grad
        close(edutorch.zeros(through.shape) if held is None else held, through)


@each_call
def test_nested(arguments: str, text: str) -> None:
    values, dims = arrays(arguments)
    inner = vmap(lambda *x: tuple(call(edutorch, text, *x)), dims)
    for only in range(-1, len(values)):
        outer = tuple(0 if only in (-1, place) else None for place in range(len(values)))
        pairs = [
            np.stack([x, x * 0.9 if x.dtype == np.float64 else x]) if d == 0 else x
            for x, d in zip(values, outer, strict=True)
        ]
        both = vmap(inner, outer)(*map(edutorch.tensor, pairs))
        for i in range(2):
            one = [
                edutorch.tensor(x if d is None else x[i]) for x, d in zip(pairs, outer, strict=True)
            ]
            for a, b in zip(both, inner(*one), strict=True):
                close(a[i], b.numpy())
