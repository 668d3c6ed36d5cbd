"""Small graphs for the tests of generated code, written by hand or at random."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

import edutorch
from edutorch import fx
from edutorch.ops.conversion import convert_dtype
from edutorch.ops.indexing import getitem
from edutorch.ops.views import expand, unsqueeze

Specs = Sequence[tuple[tuple[int, ...], str]]


def graph_of(build: Callable[..., Sequence[Any]], inputs: Specs) -> Any:
    """Return the graph of the nodes that `build(call, *inputs)` makes with `call(op, …)`."""
    graph = fx.Graph()
    nodes = []
    for i, (shape, dtype) in enumerate(inputs):
        node = graph.placeholder(f"x{i}")
        node.meta.update(shape=shape, dtype=np.dtype(dtype))
        nodes.append(node)

    def call(function: Any, *args: Any, **settings: Any) -> Any:
        defaults = {
            name: parameter.default for name, parameter in function.op.signature.parameters.items()
            if name in function.op.settings and parameter.default is not parameter.empty
        }  # fmt: skip
        settings = defaults | settings
        node = graph.call_function(function, args, settings)
        with np.errstate(all="ignore"):
            arguments = {name: example(setting) for name, setting in settings.items()}
            y = function.op.forward(np, *map(example, args), **arguments)
        if isinstance(y, tuple):
            node.meta["tuple"] = True
        else:
            node.meta.update(shape=np.shape(y), dtype=np.asarray(y).dtype)
        return node

    graph.output(tuple(build(call, *nodes)))
    return graph


def example(x: Any) -> Any:
    if isinstance(x, fx.Node):
        return np.ones(x.meta["shape"], x.meta["dtype"])
    if isinstance(x, tuple):
        return tuple(map(example, x))
    return [example(item) for item in x] if isinstance(x, list) else x


ONE = "relu sigmoid tanh exp neg square abs sqrt log reciprocal sign".split()
TWO = "add mul sub maximum minimum div".split()


class Random:
    """Grows a graph at random: element functions, reductions, moves, types."""

    def __init__(self, seed: int) -> None:
        self.choose = random.Random(seed)

    def build(self, call: Callable[..., Any], *inputs: Any) -> list[Any]:
        pool = list(inputs)
        for _ in range(self.choose.randint(2, 12)):
            pool.append(self.step(call, pool))
            pool[-1].meta["phase"] = self.choose.choice(["forward", "backward"])
        made = pool[len(inputs) :]
        return self.choose.sample(made, min(len(made), self.choose.randint(1, 3)))

    def step(self, call: Callable[..., Any], pool: list[Any]) -> Any:
        x = self.choose.choice(pool[-6:])
        shape, dtype = x.meta["shape"], np.dtype(x.meta["dtype"])
        if dtype.kind == "b":
            return call(convert_dtype, x, dtype=edutorch.float32)
        choice = self.choose.random()
        if choice < 0.35:
            return call(getattr(edutorch, self.choose.choice(ONE)), x)
        if choice < 0.65:
            others = [
                value for value in pool
                if np.dtype(value.meta["dtype"]) == dtype and fit(value.meta["shape"], shape)
            ]  # fmt: skip
            other = self.choose.choice([*others, 1.5])
            return call(getattr(edutorch, self.choose.choice(TWO)), x, other)
        if choice < 0.7:
            return call(edutorch.gt, x, 0.1)
        if not shape:
            return call(unsqueeze, x, dim=0)
        return self.along(call, x, shape, choice)

    def along(self, call: Callable[..., Any], x: Any, shape: tuple[int, ...], choice: float) -> Any:
        rank = len(shape)
        if choice < 0.85:
            axes = self.choose.choice([(rank - 1,), tuple(range(rank)), (0,), (rank // 2,)])
            function = getattr(edutorch, self.choose.choice(["sum", "mean", "amax", "amin"]))
            return call(function, x, dim=axes, keepdim=self.choose.random() < 0.6)
        if choice < 0.89:
            return call(edutorch.softmax, x, dim=rank - 1)
        if choice < 0.93 and rank > 1:
            return call(edutorch.transpose, x, dim0=0, dim1=rank - 1)
        if choice < 0.97:
            return call(getitem, x, index=(slice(0, max(1, shape[0] // 2)),))
        return call(expand, call(unsqueeze, x, dim=0), size=(2, *shape))


def fit(one: tuple[int, ...], other: tuple[int, ...]) -> bool:
    try:
        return len(np.broadcast_shapes(one, other)) <= 3
    except ValueError:
        return False
