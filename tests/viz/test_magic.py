"""`%%live`: what it takes, what it runs, and what it gives back."""

import sys

import pytest

import edutorch
from edutorch import nn
from edutorch.viz import magic
from edutorch.viz.graph.names import NotAModelError
from edutorch.viz.live.view import View

IPython = pytest.importorskip("IPython")


@pytest.fixture
def shell(monkeypatch):
    """An IPython shell of our own, which remembers the views that were opened."""
    from IPython.core.interactiveshell import InteractiveShell

    made = InteractiveShell()
    monkeypatch.setattr(sys.modules["IPython"], "get_ipython", lambda: made)
    made.user_ns.update(torch=edutorch, model=nn.Linear(3, 1), other=nn.Linear(2, 2), number=3)
    made.views = []
    enter = View.__enter__
    monkeypatch.setattr(View, "__enter__", lambda view: (made.views.append(view), enter(view))[1])
    return made


LOOP = """\
for _ in range(3):
    loss = model(torch.ones(4, 3)).pow(2).mean()
    loss.backward()
loss.item()
"""


def test_the_cell_runs_in_the_notebooks_namespace_and_returns_its_value(shell):
    value = magic.live_magic("", LOOP)
    assert value == shell.user_ns["loss"].item()
    (view,) = shell.views
    assert view.step == 3
    labels = {node.label for node in view.drawing().snapshot.graph.nodes}
    assert {"weight", "bias", "linear"} <= labels
    assert any(node.variable == "loss" for node in view.drawing().snapshot.graph.nodes)


def test_options(shell):
    assert magic.live_magic("model --speed 5 --keep --top-to-bottom", LOOP + ";") is None
    (view,) = shell.views
    assert view.steps_per_second == 5
    assert view._keep
    assert view.drawing().rankdir == "TB"


def test_it_is_registered_and_knows_ipythons_own_syntax(shell):
    magic.load_ipython_extension(shell)
    ran = shell.run_cell("%%live --keep\nhere = !echo hello\n" + LOOP)
    ran.raise_error()
    assert shell.user_ns["here"] == ["hello"]
    assert ran.result == shell.user_ns["loss"].item()


def test_the_extension_is_found_by_its_name(shell):
    assert shell.extension_manager.load_extension("edutorch") is None
    assert "live" in shell.magics_manager.magics["cell"]


def test_an_error_of_the_cell_is_an_error(shell):
    with pytest.raises(ZeroDivisionError):
        magic.live_magic("", LOOP + "1 / 0\n")
    assert shell.views[0]._state == "failed"


@pytest.mark.parametrize(
    ("line", "error", "says"),
    [
        ("--fast", magic.MagicError, "unrecognized arguments: --fast"),
        ("--speed much", magic.MagicError, "invalid float value: 'much'"),
        ("missing", magic.MagicError, "no variable called 'missing'"),
        ("number", NotAModelError, "number is not a module but of type int"),
        ("--speed 0", ValueError, "steps_per_second must be positive"),
    ],
)
def test_mistakes(shell, line, error, says):
    with pytest.raises(error, match=says):
        magic.live_magic(line, LOOP)
