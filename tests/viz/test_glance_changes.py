"""A step that is not the one expected is noticed by a fast sample, whatever is different."""

import os
import subprocess
import sys
import time

import numpy as np
import pytest

import edutorch as torch
from edutorch import nn
from edutorch.nn import functional as F
from edutorch.viz import live
from edutorch.viz.live.sampler import State
from edutorch.viz.live.step_trace import ShapeGroup
from tests.viz.test_glance import Loop, Page, changed, mlp, stable_view


def other_op(loop):
    inner = loop.loss
    loop.loss = lambda: inner().tanh()


def other_operand(loop):
    first, last = loop.model[0], loop.model[2]
    y, x = torch.tensor([0, 1, 2, 1]), torch.randn(4, 5)
    loop.loss = lambda: F.cross_entropy(
        F.linear(F.relu(F.linear(x, first.weight, last.weight[0])), last.weight, last.bias), y
    )


def fewer_ops(loop):
    y = torch.tensor([0, 1, 2, 1])
    x = torch.randn(4, 5)
    loop.loss = lambda: F.cross_entropy(loop.model[2](F.linear(x, loop.model[0].weight)), y)


def other_shape(loop):
    y, x = torch.tensor([0, 1]), torch.randn(2, 5)
    loop.loss = lambda: F.cross_entropy(loop.model(x), y)


def other_root(loop):
    inner = loop.loss

    def loss():
        made = inner()
        return made.grad_fn and loop.model[0].weight.sum() + 0 * made

    loop.loss = loss


def test_the_same_ops_on_other_operands_are_noticed():
    model = nn.ParameterList([torch.tensor(2.0), torch.tensor(-3.0)])
    a, b = model
    loop = Loop(lambda: (model, lambda: a * b + a))
    view = stable_view(loop)
    loop.loss = lambda: a * a + b
    assert changed(view, loop) is None
    view.__exit__(None, None, None)


@pytest.mark.parametrize("change", [other_op, other_operand, fewer_ops, other_shape, other_root])
def test_another_graph_is_noticed_and_looked_at(change):
    loop = Loop(mlp)
    view = stable_view(loop)
    before = view._recorder.snapshot.graph.structure
    change(loop)
    assert changed(view, loop) is None
    assert view._recorder.trace is None  # so the next one is a full sample
    for _ in range(6):
        view._sampler.throttle._next = view._recorder.idle.until = 0.0
        loop.step()
    view.__exit__(None, None, None)
    assert view._recorder.snapshot.graph.structure != before


def test_a_leaf_of_another_shape_is_noticed():
    """The result has the same shape: only the leaf itself can tell."""
    model = nn.ParameterList([torch.randn(4, 3)])
    (weight,) = model
    bias = torch.randn(4, 3)
    loop = Loop(lambda: (model, lambda: (weight + bias).sum()))
    view = stable_view(loop)
    bias = torch.randn(1, 3)
    assert changed(view, loop) is None
    view.__exit__(None, None, None)


def test_a_tensor_where_an_op_was_is_noticed():
    model = nn.ParameterList([torch.randn(3)])
    (weight,) = model
    loop = Loop(lambda: (model, lambda: (weight.exp() * weight.sin()).sum()))
    view = stable_view(loop)
    made = weight.exp()
    loop.loss = lambda: (made.detach() * weight.sin()).sum() + 0 * weight.exp().sum()
    assert changed(view, loop) is None
    view.__exit__(None, None, None)


def test_backward_may_run_through_fewer_ops_than_before():
    """The same ops from the same root, but gradients for other leaves."""
    model = nn.ParameterList([torch.tensor([1.0, 2.0]), torch.tensor([3.0, 4.0])])
    a, b = model
    loop = Loop(lambda: (model, lambda: (a.sin() * b.cos()).sum()))
    wanted = [[a, b]]

    def step():
        loop.optimizer.zero_grad()
        loop.loss().backward(inputs=wanted[0])
        loop.optimizer.step()

    loop.step = step
    view = stable_view(loop)
    for leaves in ([a, b], [a, b], [b], [a], [a, b]):
        wanted[0] = leaves
        result = changed(view, loop)
        assert result is not None
        nodes = view._recorder.trace.snapshot.graph.nodes
        rows = {node.label: len(nodes) + row for row, node in enumerate(nodes)}
        known = {name: result.packed.marks[rows[name]] >= 0 for name in ("sin", "cos")}
        assert known == {"sin": any(x is a for x in leaves), "cos": any(x is b for x in leaves)}
    view.__exit__(None, None, None)


MANY_ARRAYS = """
import sys
import time
import edutorch as torch
import edutorch.kernels  # as the first large array does
from edutorch.viz import live
from edutorch.viz.graph.fold import Choice

class Page:
    pictures = 0
    def show(self, picture, patch, numbers, curves):
        self.pictures += bool(picture)

start = torch.randn(8, 8, requires_grad=True)
optimizer = torch.optim.SGD([start], lr=0.0)
random = torch.Generator().manual_seed(0)
names = [("tanh", "sin", "abs")[i] for i in torch.randint(3, (160,), generator=random)]
view = live()
view._page_state.page = Page()
view._page_state.choice = Choice(limit=5000)
glances = []
with view:
    deadline = time.monotonic() + 60
    while len(glances) < 5 and time.monotonic() < deadline:
        view._sampler._full_due = time.perf_counter() + 1000 * bool(view._page_state.page.pictures)
        view._sampler.throttle._next = view._recorder.idle.until = 0.0
        optimizer.zero_grad()
        x = start
        for name in names:
            x = getattr(x, name)()
        x.sum().backward()
        optimizer.step()
        step_values = view._recorder.step_values
        if step_values is not None and all(step_values is not each for each in glances):
            glances.append(step_values)
assert len(glances) == 5
assert "numba" not in sys.modules
"""


def test_a_glance_loads_no_compiler():
    env = {**os.environ, "EDUTORCH_KERNELS": "beside"}
    run = subprocess.run(
        [sys.executable, "-c", MANY_ARRAYS], env=env, capture_output=True, text=True
    )
    assert run.returncode == 0, run.stderr


def test_arrays_that_are_no_single_stretch_of_memory_are_joined_too():
    alike = ShapeGroup((2, 3), list, np.arange(3), [], alone=False)
    usual = np.arange(6.0).reshape(2, 3)
    turned, spread = np.arange(6.0).reshape(3, 2).T, np.broadcast_to(7.0, (2, 3))
    for arrays in ([usual, turned, spread], [usual, usual, turned], [spread, usual, usual]):
        joined = np.frombuffer(alike.join_bytes(arrays)).reshape(3, 2, 3)
        assert np.array_equal(joined, np.stack(arrays))
    assert alike.scattered == [0]


def watched_mlp():
    """Return a view, and a step to be watched; another factor than 1 is another graph."""
    model, loss = mlp()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    view = live(model)
    view._page_state.page = Page()

    def step(factor=1):
        optimizer.zero_grad()
        (loss() if factor == 1 else loss() * factor).backward()
        optimizer.step()

    return view, step


def test_a_glance_right_after_the_first_look():
    """A graph that has never changed needs no second full sample before it is only sampled fast."""
    view, step = watched_mlp()
    looks = []
    with view:
        view._sampler.throttle._early = -1.0  # as if the first look had taken long
        view._sampler.throttle.share = 1.0
        end = time.monotonic() + 20
        while view._recorder.step_values is None and time.monotonic() < end:
            view._sampler.throttle._delay = 0
            step()
            if all(view._recorder.snapshot is not look for look in looks):
                looks.append(view._recorder.snapshot)
        assert view._recorder.step_values is not None
        assert len(looks) == 1


def test_what_the_first_look_cost_holds_nothing_up():
    """Else a large graph stands still for seconds after it has appeared; a changed one does."""
    view, step = watched_mlp()
    charged = []
    with view:
        for factor in (1, 1, 2, 2):
            view._sampler.enter(State.FULL)
            step(factor)
            assert view._sampler.cost > 0
            charged.append(view._sampler.charged / view._sampler.cost)
    assert charged == [0, 0, 1, 0]


def test_a_glance_that_has_to_let_a_step_pass_does_not_begin():
    loop = Loop(mlp)
    view = stable_view(loop)
    throttle, recorder = view._sampler.throttle, view._recorder
    view._sampler._full_due = time.perf_counter() + 1000
    recorder.light = None
    throttle._early, throttle._next, throttle._apart, throttle._delay = 0.0, 0.0, True, 1
    assert not view._sampler._on_due()
    assert recorder.light is None
    assert view._sampler._on_due()
    assert recorder.light is not None
    view.__exit__(None, None, None)
