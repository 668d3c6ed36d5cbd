"""What `compile` takes and what it returns: modules, methods, backends, settings."""

from __future__ import annotations

import copy

import pytest

import edutorch as torch
from edutorch import nn

BACKENDS = ("aot_eager", "edutorch")


@pytest.fixture(params=BACKENDS)
def backend(request):
    return request.param


def test_modules_keep_their_face():
    model = nn.Sequential(nn.Linear(2, 2))
    compiled = torch.compile(model, backend="aot_eager")
    assert isinstance(compiled, nn.Module)
    assert list(compiled.state_dict()) == ["_orig_mod.0.weight", "_orig_mod.0.bias"]
    assert compiled[0] is model[0]
    assert len(compiled) == 1
    compiled.eval()
    assert not model.training
    x = torch.ones(2)
    assert torch.equal(compiled(x), model(x))
    other = copy.deepcopy(compiled)
    other[0].weight.data.zero_()
    assert not torch.equal(other(x), compiled(x))
    model.load_state_dict({"0.weight": torch.zeros(2, 2), "0.bias": torch.ones(2)})
    assert compiled(x).tolist() == [1.0, 1.0]


def test_decorated_methods_belong_to_their_objects():
    class Scale:
        def __init__(self, k):
            self.k = k

        @torch.compile(backend="aot_eager")
        def __call__(self, x):
            return x * self.k

    two, three = Scale(2), Scale(3)
    x = torch.ones(1)
    assert [two(x).item(), three(x).item(), two(x).item(), three(x).item()] == [2, 3, 2, 3]
    two.k = 10
    assert two(x).item() == 10


def test_module_compile_in_place():
    model = nn.Linear(2, 2)
    x = torch.ones(2)
    before = model(x)
    model.compile(backend="aot_eager")
    assert torch.equal(model(x), before)
    assert torch.equal(model(x), before)
    assert len(model.forward.entries) == 1


def test_a_backend_of_ones_own():
    seen = []

    def backend(module, examples):
        seen.append((module.code, [tuple(example.shape) for example in examples]))
        return module.forward

    compiled = torch.compile(lambda x, y: x @ y, backend=backend)
    x, y = torch.randn(2, 3), torch.randn(3, 4)
    assert torch.equal(compiled(x, y), x @ y)
    assert torch.equal(compiled(x, y), x @ y)
    code, shapes = seen[0]
    assert "torch.matmul(x, y)" in code
    assert shapes == [(2, 3), (3, 4)]


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"backend": "nope"}, "Invalid backend: 'nope'"),
        ({"mode": "fast"}, "Unrecognized mode=fast"),
        ({"mode": "default", "options": {}}, "Either mode or options can be specified"),
        ({"backend": 3}, "`backend` must be a name or a function, got int"),
    ],
)
def test_settings_that_make_no_sense(settings, words):
    with pytest.raises(RuntimeError, match=words):
        torch.compile(lambda x: x, **settings)


def test_disable():
    def function(x):
        return x

    assert torch.compile(function, disable=True) is function

    @torch.compiler.disable
    def kept_out(x):
        return x + 1

    compiled = torch.compile(lambda x: kept_out(x) * 2, backend="aot_eager")
    with pytest.warns(UserWarning, match="kept_out is disabled"):
        assert compiled(torch.ones(1)).item() == 4
    assert compiled(torch.ones(1)).item() == 4


def test_is_compiling_says_so():
    seen = []

    def function(x):
        seen.append(torch.compiler.is_compiling())
        return x

    with pytest.warns(UserWarning, match="the function changes something"):
        torch.compile(function, backend="aot_eager")(torch.ones(1))
    assert seen == [True]
    assert not torch.compiler.is_compiling()


def test_reset_forgets():
    compiled = torch.compile(lambda x: x + 1, backend="aot_eager")
    compiled(torch.ones(1))
    assert len(compiled.entries) == 1
    torch.compiler.reset()
    assert compiled.entries == []
    assert compiled(torch.ones(1)).item() == 2


def test_a_step_is_explained(backend):
    step = torch.compile(lambda x: (x * 2).relu(), backend=backend)
    step(torch.ones(4))
    step(torch.ones(5))
    text = step.explain()
    assert "2 version(s)" in text
    assert "argument x: shape (4,) before, now (5,)" in text


def test_memory_and_graphs_are_let_go():
    import gc
    import weakref

    step = torch.compile(lambda x: x * 2, backend="aot_eager")
    x = torch.ones(3)
    y = step(x)
    references = [weakref.ref(x), weakref.ref(y)]
    del x, y
    gc.collect()
    assert [reference() for reference in references] == [None, None]


def test_a_replayed_call_lets_its_arguments_go(backend):
    import gc
    import weakref

    weight = torch.ones(3, requires_grad=True)
    step = torch.compile(lambda x: (x * weight).sum(), backend=backend)
    step(torch.ones(3))
    x = torch.ones(3)
    loss = step(x)
    loss.backward()
    references = [weakref.ref(x), weakref.ref(loss)]
    del x, loss
    gc.collect()
    assert [reference() for reference in references] == [None, None]
