"""Who is compared: edutorch, PyTorch in several ways, and JAX and MyGrad where installed.

edutorch and PyTorch run the very same lines, each in a process of its own. JAX and MyGrad have
other names for things, so theirs are written here, for the workloads that both can do.
"""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import numpy as np

from .apart import CHANNELS_LAST, COMPILED, EAGER, KNOWN, Apart, build
from .timing import Work
from .workloads import Workload, same

US = "edutorch"
NAMES = (US, EAGER, CHANNELS_LAST, COMPILED, "JAX", "MyGrad")


def rivals(key: str, workload: Workload, wanted: tuple[str, ...]) -> dict[str, Work]:
    """Return the function to time for each peer that is wanted, installed, and can do it."""
    import edutorch

    steps = {US: workload.build(edutorch, same)}
    if importlib.util.find_spec("torch") is not None:
        can = {
            EAGER: True,
            CHANNELS_LAST: workload.images,
            COMPILED: key not in ("loader", "scalars"),
        }
        ways = [way for way in can if way in wanted and can[way]]
        if key in KNOWN:
            steps |= {way: Apart(key, way) for way in ways}
        elif EAGER in ways:  # one of a curve's sizes, which has no name
            steps[EAGER] = build(importlib.import_module("torch"), workload, EAGER)
    for name, module, table in (("JAX", "jax", IN_JAX), ("MyGrad", "mygrad", IN_MYGRAD)):
        if name in wanted and key in table and importlib.util.find_spec(module) is not None:
            steps[name] = table[key]()
    return steps


def layers(*sizes: int) -> list[Any]:
    draw = np.random.default_rng(0)
    return [
        (draw.normal(size=(a, b)).astype(np.float32) / np.float32(a) ** 0.5,
         np.zeros(b, np.float32))
        for a, b in pairwise(sizes)
    ]  # fmt: skip


def batch_of(rows: int, columns: int) -> tuple[Any, Any]:
    draw = np.random.default_rng(0)
    return draw.normal(size=(rows, columns)).astype(np.float32), draw.integers(0, 10, rows)


def jax_mlp(rows: int, *sizes: int) -> Callable[[], Work]:
    """A step of Adam, traced once and compiled by XLA."""

    def prepare() -> Work:
        jax: Any = importlib.import_module("jax")
        jnp, tree = jax.numpy, jax.tree_util.tree_map
        x, y = map(jnp.asarray, batch_of(rows, sizes[0]))

        def loss_of(params: Any) -> Any:
            h = x
            for index, (weight, bias) in enumerate(params):
                h = h @ weight + bias
                h = jnp.maximum(h, 0) if index < len(params) - 1 else h
            return -jnp.take_along_axis(jax.nn.log_softmax(h), y[:, None], 1).mean()

        @jax.jit
        def update(params: Any, mean: Any, square: Any, count: Any) -> Any:
            g = jax.grad(loss_of)(params)
            mean = tree(lambda m, g: 0.9 * m + 0.1 * g, mean, g)
            square = tree(lambda v, g: 0.999 * v + 0.001 * g * g, square, g)
            a, b = 1 - 0.9**count, 1 - 0.999**count
            params = tree(
                lambda p, m, v: p - 1e-3 * (m / a) / (jnp.sqrt(v / b) + 1e-8), params, mean, square
            )
            return params, mean, square

        params = tree(jnp.asarray, layers(*sizes))
        state = (params, tree(jnp.zeros_like, params), tree(jnp.zeros_like, params))
        count = 0

        def step() -> None:
            nonlocal state, count
            count += 1
            state = update(*state, float(count))
            jax.block_until_ready(state)

        return step

    return prepare


def jax_scalars() -> Work:
    jax: Any = importlib.import_module("jax")

    def chain(a: Any, b: Any) -> Any:
        x = a
        for _ in range(33):
            x = jax.numpy.tanh(x * b + a)
        return x

    both = jax.jit(jax.grad(chain, (0, 1)))
    return lambda: jax.block_until_ready(both(0.5, 0.3))


def mygrad_mlp(rows: int, *sizes: int) -> Callable[[], Work]:
    """A step of plain descent: MyGrad has no optimizers (Adam would take longer)."""

    def prepare() -> Work:
        mg: Any = importlib.import_module("mygrad")
        losses: Any = importlib.import_module("mygrad.nnet.losses")
        x, y = batch_of(rows, sizes[0])
        params = [tuple(map(mg.tensor, pair)) for pair in layers(*sizes)]

        def step() -> None:
            h = x
            for index, (weight, bias) in enumerate(params):
                h = mg.matmul(h, weight) + bias
                h = mg.maximum(h, 0) if index < len(params) - 1 else h
            losses.softmax_crossentropy(h, y).backward()
            for param in (part for pair in params for part in pair):
                param.data -= 1e-3 * param.grad
                param.null_grad()

        return step

    return prepare


def mygrad_scalars() -> Work:
    mg: Any = importlib.import_module("mygrad")
    a, b = mg.tensor(0.5), mg.tensor(0.3)

    def step() -> None:
        x = a
        for _ in range(33):
            x = mg.tanh(x * b + a)
        x.backward()

    return step


IN_JAX: dict[str, Callable[[], Work]] = {
    "mlp": jax_mlp(64, 784, 128, 10),
    "wide": jax_mlp(256, 784, 1024, 1024, 10),
    "scalars": jax_scalars,
}
IN_MYGRAD: dict[str, Callable[[], Work]] = {
    "mlp": mygrad_mlp(64, 784, 128, 10),
    "wide": mygrad_mlp(256, 784, 1024, 1024, 10),
    "scalars": mygrad_scalars,
}
