"""Every op that writes into a tensor, and every kind of view: the picture loses nothing by a write.

All leaves are reached from the result, each number is the tensor's, and the version is shown: in a
live view, its history and its file, and in `draw(f, x)`, forward and both ways.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
import pytest

import edutorch as torch
from edutorch import Tensor, viz
from edutorch.core.op import REGISTRY
from edutorch.nn import functional as F
from edutorch.viz.graph.model import Snapshot
from tests.op_calls import arguments
from tests.op_cases import CASES
from tests.viz.plain_listener import PlainListener, name_of_label, norm_of


class Write(NamedTuple):
    """`apply(h, *others)` writes into `h`, a fresh copy of `x`."""

    x: Tensor
    others: Sequence[Tensor]
    apply: Callable[..., Any]


def numbers(*shape: int, seed: int = 0) -> Tensor:
    values = np.random.default_rng(seed).uniform(0.2, 0.9, shape)
    return torch.tensor(values, dtype=torch.float64, requires_grad=True)


# The writes ---------------------------------------------------------------------------------


def of_an_op(name: str) -> Write:
    """Return the in-place twin of an op, with the arguments of its first case that fits."""
    op = REGISTRY[name]
    for case in CASES[name]:
        inputs = arguments(op, case, grad=True)
        x = inputs.pop(op.inputs[0])
        if not isinstance(x, Tensor) or "only_values" in case:
            continue
        if op.function(**{op.inputs[0]: x}, **inputs).shape != x.shape:
            continue
        others = {key: value for key, value in inputs.items() if isinstance(value, Tensor)}
        settings = {key: value for key, value in inputs.items() if key not in others}

        def apply(h: Tensor, *tensors: Tensor, others=others, settings=settings) -> None:
            named = dict(zip(others, tensors, strict=True))
            op.function.in_place(h, **named, **settings)

        return Write(x, tuple(others.values()), apply)
    raise LookupError(name)


def has_twin(name: str) -> bool:
    if name not in CASES or not hasattr(REGISTRY[name].function, "in_place"):
        return False
    try:
        of_an_op(name)
    except LookupError:
        return False
    return True


TWINS = [name for name in REGISTRY if has_twin(name)]


def plain(apply: Callable[..., Any], *others: Tensor, shape: tuple[int, ...] = (2, 3)) -> Write:
    return Write(numbers(*shape), others, apply)


def ids(*values: int) -> Tensor:
    return torch.tensor(values)


def matrix() -> Tensor:
    return numbers(2, 3, seed=1)


MASK = [[True, False, True], [False, True, False]]

# fmt: off
METHODS: dict[str, Callable[[], Write]] = {
    "absolute_": lambda: plain(lambda h: h.absolute_()),
    "addbmm_": lambda: plain(lambda h, a, b: h.addbmm_(a, b), numbers(2, 2, 4), numbers(2, 4, 3)),
    "addmm_": lambda: plain(lambda h, a, b: h.addmm_(a, b), numbers(2, 4), numbers(4, 3)),
    "addmv_": lambda: plain(lambda h, a, b: h.addmv_(a, b), numbers(3, 4), numbers(4), shape=(3,)),
    "addr_": lambda: plain(lambda h, a, b: h.addr_(a, b), numbers(2), numbers(3)),
    "arccos_": lambda: plain(lambda h: h.arccos_()),
    "arccosh_": lambda: Write(numbers(3) , (), lambda h: h.add_(1).arccosh_()),
    "arcsin_": lambda: plain(lambda h: h.arcsin_()),
    "arcsinh_": lambda: plain(lambda h: h.arcsinh_()),
    "arctan2_": lambda: plain(lambda h, a: h.arctan2_(a), matrix()),
    "arctan_": lambda: plain(lambda h: h.arctan_()),
    "arctanh_": lambda: plain(lambda h: h.arctanh_()),
    "as_strided_": lambda: plain(lambda h: h.as_strided_((2, 2), (3, 1))),
    "squeeze_": lambda: plain(lambda h: h.squeeze_(), shape=(2, 1)),
    "t_": lambda: plain(lambda h: h.t_()),
    "transpose_": lambda: plain(lambda h: h.transpose_(0, 1)),
    "unsqueeze_": lambda: plain(lambda h: h.unsqueeze_(0)),
    "baddbmm_": lambda: plain(
        lambda h, a, b: h.baddbmm_(a, b), numbers(2, 2, 4), numbers(2, 4, 3), shape=(2, 2, 3)
    ),
    "bernoulli_": lambda: plain(lambda h: h.bernoulli_(0.5)),
    "cauchy_": lambda: plain(lambda h: h.cauchy_()),
    "clamp_max_": lambda: plain(lambda h: h.clamp_max_(0.5)),
    "clamp_min_": lambda: plain(lambda h: h.clamp_min_(0.5)),
    "clip_": lambda: plain(lambda h: h.clip_(0.3, 0.6)),
    "copy_": lambda: plain(lambda h, a: h.copy_(a), matrix()),
    "divide_": lambda: plain(lambda h, a: h.divide_(a), matrix()),
    "exponential_": lambda: plain(lambda h: h.exponential_()),
    "fill_": lambda: plain(lambda h: h.fill_(0.5)),
    "fill_diagonal_": lambda: plain(lambda h: h.fill_diagonal_(0.5)),
    "fix_": lambda: plain(lambda h: h.fix_()),
    "float_power_": lambda: plain(lambda h: h.float_power_(2.0)),
    "geometric_": lambda: plain(lambda h: h.geometric_(0.5)),
    "greater_": lambda: plain(lambda h: h.greater_(0.5)),
    "greater_equal_": lambda: plain(lambda h: h.greater_equal_(0.5)),
    "index_reduce_": lambda: plain(
        lambda h, i, a: h.index_reduce_(0, i, a, "mean"), ids(1, 0), matrix()
    ),
    "ldexp_": lambda: plain(lambda h: h.ldexp_(ids(1, 2, 3))),
    "less_": lambda: plain(lambda h: h.less_(0.5)),
    "less_equal_": lambda: plain(lambda h: h.less_equal_(0.5)),
    "log_normal_": lambda: plain(lambda h: h.log_normal_()),
    "masked_scatter_": lambda: plain(
        lambda h, m, a: h.masked_scatter_(m, a), torch.tensor(MASK), matrix()
    ),
    "multiply_": lambda: plain(lambda h, a: h.multiply_(a), matrix()),
    "negative_": lambda: plain(lambda h: h.negative_()),
    "normal_": lambda: plain(lambda h: h.normal_()),
    "not_equal_": lambda: plain(lambda h: h.not_equal_(0.5)),
    "put_": lambda: plain(lambda h, i, a: h.put_(i, a), ids(4, 1), numbers(2)),
    "random_": lambda: plain(lambda h: h.random_(5)),
    "renorm_": lambda: plain(lambda h: h.renorm_(2, 0, 0.5)),
    "subtract_": lambda: plain(lambda h, a: h.subtract_(a), matrix()),
    "swapaxes_": lambda: plain(lambda h: h.swapaxes_(0, 1)),
    "swapdims_": lambda: plain(lambda h: h.swapdims_(0, 1)),
    "true_divide_": lambda: plain(lambda h, a: h.true_divide_(a), matrix()),
    "uniform_": lambda: plain(lambda h: h.uniform_()),
    "zero_": lambda: plain(lambda h: h.zero_()),
}
"""Methods that are no twin of an op of their name."""

NO_WRITE = {
    "apply_", "map_", "map2_",  # call a Python function for each element, and want no gradient
    "detach_", "requires_grad_", "share_memory_",  # leave the elements as they are
    "resize_", "resize_as_", "set_",  # give a tensor other memory, and want no gradient
}

BY_NO_OP = {
    "bernoulli_", "cauchy_", "exponential_", "geometric_", "log_normal_", "normal_", "random_",
    "uniform_",
}
"""No op makes the new elements: the box of what was there shows them, as a new version."""

FUNCTIONS: dict[str, Callable[[], Write]] = {
    name: (lambda name=name: plain(lambda h: getattr(F, name)(h, inplace=True)))
    for name in (
        "celu", "elu", "hardsigmoid", "hardswish", "hardtanh", "leaky_relu", "mish", "relu",
        "relu6", "rrelu", "selu", "silu", "dropout", "alpha_dropout", "feature_alpha_dropout",
    )
} | {
    "threshold": lambda: plain(lambda h: F.threshold(h, 0.5, 0.1, inplace=True)),
    "dropout1d": lambda: plain(lambda h: F.dropout1d(h, 0.5, inplace=True), shape=(2, 2, 3)),
    "dropout2d": lambda: plain(lambda h: F.dropout2d(h, 0.5, inplace=True), shape=(2, 2, 2, 2)),
    "dropout3d": lambda: plain(lambda h: F.dropout3d(h, 0.5, inplace=True), shape=(2, 2, 2, 2, 2)),
}

STATEMENTS: dict[str, Callable[[], Write]] = {
    "iadd": lambda: plain(lambda h, a: h.__iadd__(a), matrix()),
    "isub": lambda: plain(lambda h, a: h.__isub__(a), matrix()),
    "imul": lambda: plain(lambda h, a: h.__imul__(a), matrix()),
    "itruediv": lambda: plain(lambda h, a: h.__itruediv__(a), matrix()),
    "ipow": lambda: plain(lambda h: h.__ipow__(2)),
    "item of a row": lambda: plain(lambda h, a: h.__setitem__(0, a), numbers(3)),
    "item of a number": lambda: plain(lambda h: h.__setitem__((1, 2), 0.5)),
    "item of all": lambda: plain(lambda h, a: h.__setitem__(..., a), matrix()),
    "item of a slice": lambda: plain(
        lambda h, a: h.__setitem__((slice(None), slice(1, None)), a), numbers(2, 2)
    ),
    "item of steps": lambda: plain(
        lambda h, a: h.__setitem__((0, slice(None, None, 2)), a), numbers(2)
    ),
    "item of a mask": lambda: plain(
        lambda h, m: h.__setitem__(m, 0.5), torch.tensor(MASK)
    ),
    "item of indices": lambda: plain(lambda h, i, a: h.__setitem__(i, a), ids(1, 0), matrix()),
    "item added to": lambda: plain(lambda h, a: h.__setitem__(0, h[0] + a), numbers(3)),
    "twice": lambda: plain(lambda h, a: (h.mul_(2), h.add_(a)), matrix()),
    "several rows": lambda: plain(
        lambda h, a, b: (h.__setitem__(0, a), h.__setitem__(1, b)), numbers(3), numbers(3)
    ),
}

VIEWS: dict[str, Callable[[Tensor], Tensor]] = {
    "select": lambda h: h.select(0, 1),
    "index": lambda h: h[0],
    "element": lambda h: h[1, 1],
    "narrow": lambda h: h.narrow(1, 0, 2),
    "slice": lambda h: h[:, ::2],
    "view": lambda h: h.view(6),
    "view_as": lambda h: h.view_as(torch.ones(3, 2)),
    "reshape": lambda h: h.reshape(3, 2),
    "flatten": lambda h: h.flatten(),
    "ravel": lambda h: h.ravel(),
    "transpose": lambda h: h.transpose(0, 1),
    "T": lambda h: h.T,
    "mT": lambda h: h.mT,
    "permute": lambda h: h.permute(1, 0),
    "movedim": lambda h: h.movedim(0, 1),
    "swapaxes": lambda h: h.swapaxes(0, 1),
    "diagonal": lambda h: h.diagonal(),
    "unsqueeze": lambda h: h.unsqueeze(0),
    "squeeze": lambda h: h.unsqueeze(0).squeeze(0),
    "unflatten": lambda h: h.unflatten(1, (1, 3)),
    "unfold": lambda h: h.unfold(1, 2, 2),
    "as_strided": lambda h: h.as_strided((2, 2), (3, 1)),
    "view_as_real": lambda h: torch.view_as_real(torch.view_as_complex(h.view(3, 2))),
    "view_as_complex": lambda h: torch.view_as_complex(h.view(3, 2)),
    "a view of a view": lambda h: h.t()[1:].view(4) if h.t()[1:].is_contiguous() else h.t()[1:][0],
}
PIECES: dict[str, Callable[[Tensor], Sequence[Tensor]]] = {
    "chunk": lambda h: h.chunk(2, 0),
    "split": lambda h: h.split(1, 0),
    "unbind": lambda h: h.unbind(0),
    "tensor_split": lambda h: h.tensor_split(2, 0),
    "hsplit": lambda h: h.hsplit(3),
}
# fmt: on
NO_HISTORY: dict[str, Callable[[Tensor], Any]] = {
    "data": lambda h: h.data.mul_(2),
    "detach": lambda h: h.detach().mul_(2),
    "data of a view": lambda h: h[0].data.mul_(2),
    "pieces": lambda h: without_gradient(lambda: h.chunk(2, 0)[0].mul_(2)),
    "no_grad": lambda h: without_gradient(lambda: h.mul_(2)),
    "a view in no_grad": lambda h: without_gradient(lambda: h[0].mul_(2)),
    "an item in no_grad": lambda h: without_gradient(lambda: h.__setitem__(0, 0.25)),
    "copy_ in no_grad": lambda h: without_gradient(lambda: h.copy_(h * 3)),
    "a view that was there before": lambda h: (v := h[0], without_gradient(lambda: v.mul_(2))),
    "out": lambda h: without_gradient(lambda: torch.mul(h, 2, out=h)),
}


def without_gradient(act: Callable[[], Any]) -> Any:
    with torch.no_grad():
        return act()


def through(view: Callable[[Tensor], Tensor]) -> dict[str, Callable[[], Write]]:
    part = view(numbers(2, 3).detach().clone())
    shape = tuple(torch.view_as_real(part).shape if part.is_complex() else part.shape)
    filled = lambda h, a: view(h).copy_(torch.view_as_complex(a) if part.is_complex() else a)  # noqa: E731
    return {
        "mul_": lambda: plain(lambda h: view(h).mul_(2)),
        "copy_": lambda: plain(filled, numbers(*shape, seed=2)),
    }


WRITES: dict[str, Callable[[], Write]] = {
    **{f"{name}_": lambda name=name: of_an_op(name) for name in TWINS},
    **METHODS,
    **{f"F.{name}": make for name, make in FUNCTIONS.items()},
    **STATEMENTS,
    **{f"{name} {what}": make for name, v in VIEWS.items() for what, make in through(v).items()},
    **{
        f"without a history: {name}": lambda act=act: plain(act)
        for name, act in NO_HISTORY.items()
    },
}  # fmt: skip


def test_every_method_that_writes_is_tried():
    methods = {name for name in dir(Tensor) if name.endswith("_") and not name.startswith("_")}
    assert methods - set(WRITES) - NO_WRITE == set()
    assert set(NO_WRITE) <= methods


# What the picture must hold -----------------------------------------------------------------


class Done(NamedTuple):
    """What is known after a write: the result, and `h` before and after."""

    loss: Tensor
    before: float
    after: float
    versions: int
    leaves: tuple[Tensor, ...]  # those that the loss depends on: some writes replace all of `x`


def compute(write: Write, x: Tensor, *others: Tensor) -> Done:
    """Write into a copy of `x`, and make a loss of it."""
    torch.manual_seed(0)
    h = x * 1 if x.requires_grad else x.clone()
    before, version = norm_of(h), h._version
    write.apply(h, *others)
    after = norm_of(h)
    factor = others[-1]  # a leaf of its own, so that there always is something to differentiate
    real = torch.view_as_real(h) if h.is_complex() else h.to(torch.float64)
    loss = (real * factor).sum()
    gone = x.requires_grad and torch.autograd.grad(loss, x, retain_graph=True, allow_unused=True)
    leaves = others if gone == (None,) else (x, *others)
    return Done(loss, before, after, h._version - version, leaves)


def inputs_of(write: Write) -> tuple[Tensor, ...]:
    factor = torch.tensor(1.5, dtype=torch.float64, requires_grad=True)
    return (write.x, *write.others, factor)


def run(write: Write) -> tuple[Write, Callable[..., Tensor], list[Done]]:
    done: list[Done] = []
    inner = Write(write.x, write.others, lambda h, *others: write.apply(h, *others[:-1]))

    def function(*tensors: Tensor) -> Tensor:
        done.append(compute(inner, *tensors))
        return done[-1].loss

    return write, function, done


def reached(snapshot: Snapshot) -> set[str]:
    """Return the ids of all nodes that the result comes from."""
    into: dict[str, list[str]] = {}
    for edge in snapshot.graph.edges:
        if edge.kind in ("forward", "cut"):
            into.setdefault(edge.target, []).append(edge.source)
    stack = [node.id for node in snapshot.graph.nodes if node.kind == "output"]
    seen: set[str] = set()
    while stack:
        id = stack.pop()
        if id not in seen:
            seen.add(id)
            stack.extend(into.get(id, ()))
    return seen


def check(snapshot: Snapshot, done: Done) -> None:
    """Assert that nothing is cut off, that the numbers are right and that the version is shown."""
    seen = reached(snapshot)
    nodes = [
        (node, value) for node, value in zip(snapshot.graph.nodes, snapshot.values, strict=True)
        if node.id in seen
    ]  # fmt: skip
    assert nodes, "no result is drawn"
    leaves = [(node, value) for node, value in nodes if node.kind == "leaf"]
    for tensor in done.leaves:
        assert any(
            node.shape == tuple(tensor.shape) and is_near(value, norm_of(tensor))
            for node, value in leaves
        ), f"a leaf of shape {tuple(tensor.shape)} is not reached: {labels(nodes)}"
    assert any(is_near(value, done.after) for _, value in nodes), labels(nodes)
    output = next(value for node, value in nodes if node.kind == "output")
    assert is_near(output, norm_of(done.loss))
    if done.versions:
        assert any(node.version for node, _ in nodes), labels(nodes)


def check_numbers(snapshot: Snapshot, listener: PlainListener) -> None:
    """Assert that each op that a plain listener has heard of is drawn, with its result's norm."""
    drawn: dict[Any, list[float]] = {}
    for node, value in zip(snapshot.graph.nodes, snapshot.values, strict=True):
        if node.kind in ("op", "output"):
            drawn.setdefault((name_of_label(node.label), node.shape), []).append(value.norm)
    for box, norms in listener.step()[2].items():
        np.testing.assert_allclose(
            sorted(drawn.get(box, [])), sorted(norms), rtol=1e-4, err_msg=str(box)
        )


def is_near(value: Any, norm: float) -> bool:
    return value is not None and np.isclose(value.norm, norm, rtol=1e-4, equal_nan=True)


def labels(nodes: Sequence[Any]) -> list[str]:
    return [f"{node.id} {node.label} v{node.version} {node.shape}" for node, _ in nodes]


@pytest.mark.parametrize("name", WRITES)
def test_a_write_in_a_live_view_its_history_and_its_file(name, tmp_path):
    write, function, done = run(WRITES[name]())
    inputs = inputs_of(write)
    with viz.live() as view:
        view.history.every = 1
        for _ in range(2):
            function(*inputs).backward()
    check(view.drawing().whole, done[-1])
    steps = view.history.steps
    assert steps == [1, 2]
    for step, item in zip(steps, done, strict=True):
        check(view.history[step].whole, item)
    snapshot = view.drawing().whole
    for tensor in inputs:
        if tensor.grad is not None:
            assert any(
                node.kind == "leaf" and is_near(grad, norm_of(tensor.grad))
                for node, grad in zip(snapshot.graph.nodes, snapshot.grads, strict=True)
            ), f"no gradient of a leaf of shape {tuple(tensor.shape)}"
    page = view.export(tmp_path / "run.html").read_text()
    if any(node.version for node in view.drawing().snapshot.graph.nodes):
        assert re.search(r'"version": ?[1-9]', page), "the file has no version"


@pytest.mark.parametrize("name", WRITES)
@pytest.mark.parametrize("graph", ["forward", "both"])
def test_a_write_in_a_drawing_of_a_function(name, graph):
    write, function, done = run(WRITES[name]())
    with PlainListener() as listener:
        drawing = viz.draw(function, *inputs_of(write), graph=graph)
    check(drawing.whole, done[-1])
    if name not in BY_NO_OP and not name.startswith("without a history"):
        check_numbers(drawing.whole, listener)
    if graph == "both":
        assert any(node.kind == "gradient" for node in drawing.whole.graph.nodes)


@pytest.mark.parametrize("name", PIECES)
def test_writes_into_pieces_are_refused_or_drawn(name):
    """PyTorch refuses a write into one of several pieces, where gradients are wanted."""
    write, function, done = run(plain(lambda h: PIECES[name](h)[0].mul_(2)))
    if name in ("chunk", "split", "unbind"):
        with pytest.raises(RuntimeError, match="is one of several views that one function"):
            viz.draw(function, *inputs_of(write))
    else:
        check(viz.draw(function, *inputs_of(write)).whole, done[-1])
