"""What Python does beside computing is never lost: such functions run as they are written."""

from __future__ import annotations

import random
import sys
import warnings

import numpy as np
import pytest

import edutorch as torch
from edutorch import nn
from tests.compilation.comparison import compiled, same_as

# What Python does beside computing -------------------------------------------------------------


class Counting(nn.Module):
    def __init__(self):
        super().__init__()
        self.calls = 0

    def forward(self, x):
        self.calls += 1
        return x * self.calls


def test_side_effects_are_kept():
    log = []

    def function(x):
        log.append(1)
        return x + 1

    other = compiled(function)
    with pytest.warns(UserWarning, match="changes something: log had 0 entries before, now 1"):
        other(torch.ones(1))
    for _ in range(3):
        other(torch.ones(1))
    assert len(log) == 4
    model = Counting()
    counting = compiled(model)
    with pytest.warns(UserWarning, match="calls: 0 before, now 1"):
        counting(torch.ones(1))
    assert [counting(torch.ones(1)).item() for _ in range(3)] == [2.0, 3.0, 4.0]


def test_printing_is_kept(capsys):
    def function(x):
        print("hello")
        return x

    other = compiled(function)
    with pytest.warns(UserWarning, match="it prints"):
        other(torch.ones(1))
    other(torch.ones(1))
    assert capsys.readouterr().out == "hello\nhello\n"


def test_tensors_that_are_kept_inside_objects():
    class Box:
        pass

    box = Box()
    box.last = None

    def function(x):
        box.last = x * 2
        return x

    other = compiled(function)
    with pytest.warns(UserWarning, match="changes something"):
        other(torch.ones(1))
    other(torch.ones(1) * 5)
    assert box.last.tolist() == [10.0]
    assert type(box.last._array) is np.ndarray


def test_random_numbers_of_python_and_numpy():
    own = np.random.default_rng(0)
    for draw in (random.random, np.random.rand, own.random):
        function = compiled(lambda x, draw=draw: x * float(draw()))
        with pytest.warns(UserWarning, match="random numbers"):
            function(torch.ones(1))
        assert function(torch.ones(1)).item() != function(torch.ones(1)).item()


def test_control_flow_falls_back_with_a_word():
    def function(x):
        if x.sum() > 0:
            return x * 2
        return -x

    other = compiled(function)
    words = r"not compiled: the way depends .*\(test_side_effects.py:\d+\)"
    with pytest.warns(UserWarning, match=words):
        assert other(torch.ones(1)).item() == 2
    assert other(-torch.ones(1)).item() == 1
    with pytest.raises(RuntimeError, match="cannot be captured whole: the way depends on"):
        compiled(function, fullgraph=True)(torch.ones(1))


@pytest.mark.parametrize(
    "function",
    [
        lambda x: x.sum().item() * x,
        lambda x: x[x > 1],
        lambda x: x.nonzero(),
        lambda x: [x * i for i in range(int(x[0]))],
        lambda x: f"{x}",
        lambda x: torch.from_numpy(x.numpy() * 2),
        lambda x: x * len(x.tolist()),
        lambda x: torch.where(x > 1)[0],
        lambda x: torch.repeat_interleave(x, x.long()),
        lambda x: x.masked_select(x > 1),
        lambda x: torch.multinomial(x, 1).shape,
        lambda x: "big" if (x > 1).any() else "small",
        lambda x: max(x[0], x[1]),
    ],
)
def test_numbers_that_python_sees(function):
    same_as(function, lambda: (torch.tensor([1.0, 2.0]),), lambda: (torch.tensor([3.0, 2.0]),),
            lambda: (torch.tensor([1.0, 1.0]),))  # fmt: skip


# What else a function may look at, or do ---------------------------------------------------------


def test_names_of_other_files_and_classes(monkeypatch):
    from types import ModuleType

    settings = ModuleType("settings_of_a_user")
    settings.K = 2.0
    monkeypatch.setitem(sys.modules, "settings_of_a_user", settings)
    monkeypatch.setitem(globals(), "settings", settings)

    class Model(nn.Module):
        scale = 3.0

        def forward(self, x):
            return x * globals_settings() * self.scale

    def globals_settings():
        return settings_again.K  # noqa: F821

    monkeypatch.setitem(globals(), "settings_again", settings)
    model = Model()
    function = compiled(model)
    x = torch.ones(1)
    assert [function(x).item(), function(x).item()] == [6.0, 6.0]
    settings.K = 5.0
    assert function(x).item() == 15.0
    Model.scale = 1.0
    assert function(x).item() == 5.0
    Model.forward = lambda self, x: x * 100
    assert function(x).item() == 100.0


def test_iterators_are_not_compiled():
    tenths = iter(range(10))

    def function(x):
        return x * next(tenths)

    other = compiled(function)
    with pytest.warns(UserWarning, match="go on with an iterator: tenths"):
        assert other(torch.ones(1)).item() == 0
    assert [other(torch.ones(1)).item() for _ in range(3)] == [1, 2, 3]


def test_forward_hooks_with_side_effects():
    seen = []
    model = nn.Linear(2, 2)
    model.register_forward_hook(lambda module, args, output: seen.append(output))
    function = compiled(model)
    with pytest.warns(UserWarning, match="changes something"):
        function(torch.ones(2))
    function(torch.ones(2))
    assert len(seen) == 2


def test_hooks_on_tensors_and_optimizers():
    w = torch.ones(1, requires_grad=True)
    optimizer = torch.optim.SGD([w], lr=0.1)
    seen = []
    optimizer.register_step_post_hook(lambda *_: seen.append(1))

    def step():
        optimizer.zero_grad()
        w.sum().backward()
        optimizer.step()

    function = compiled(step)
    with pytest.warns(UserWarning, match="an optimizer has hooks"):
        function()
    function()
    assert len(seen) == 2
    v = torch.ones(1, requires_grad=True)
    v.register_hook(lambda g: seen.append(g))
    backward = compiled(lambda: v.sum().backward())
    with pytest.warns(UserWarning, match="a hook is hung on a tensor"):
        backward()
    backward()
    assert len(seen) == 4


def test_a_tensor_from_outside_that_gets_a_past():
    w = torch.ones(1, requires_grad=True)
    for _ in range(2):
        x = torch.ones(1)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            compiled(lambda x: x.mul_(w) * 2)(x)
        assert x.requires_grad
    frozen = torch.ones(1, requires_grad=True)
    function = compiled(lambda: frozen.requires_grad_(False) * 2)
    with pytest.warns(UserWarning, match="begins to want a gradient"):
        function()


def test_modes_that_are_left_in_force():
    def function(x):
        torch.set_grad_enabled(False)
        return x * 2

    other = compiled(function)
    try:
        with pytest.warns(UserWarning, match="leaves other modes in force"):
            other(torch.ones(1))
    finally:
        torch.set_grad_enabled(True)


def test_ctrl_c_is_heard_between_two_compiled_steps():
    """Inside of one it waits, for parameters belong together."""
    import signal

    w = torch.ones(2, requires_grad=True)
    optimizer = torch.optim.SGD([w], lr=0.1)

    def step():
        optimizer.zero_grad()
        w.sum().backward()
        optimizer.step()

    function = torch.compile(step, backend="aot_eager")
    for _ in range(3):
        function()
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
    assert w.tolist() == pytest.approx([0.7, 0.7])


def looks_for_a_library(x):
    return x * 2 if "a_stream" in sys.modules else x


def writes_to_a_stream(x):
    sys.stdout.write("seen")
    return x * 2


def test_modules_that_are_imported_are_not_state_of_the_function(monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "a_stream", sys.stdin)  # an iterator would not be compiled
    faster = torch.compile(looks_for_a_library, fullgraph=True)
    assert faster(torch.ones(1)).item() == faster(torch.ones(1)).item() == 2.0
    written = torch.compile(writes_to_a_stream)
    with pytest.warns(UserWarning, match=r"an iterator: sys\.stdout"):
        assert written(torch.ones(1)).item() == written(torch.ones(1)).item() == 2.0
    assert capsys.readouterr().out == "seenseen"
