"""The diagnostics in a real kernel, at full speed, where a view takes fast samples and rests."""

import sys

import pytest

from tests.viz.notebook_kernel import running_kernel

pytest.importorskip("jupyter_client", reason="needs the extra `lab`")
pytest.importorskip("ipykernel", reason="needs the extra `lab`")
pytest.importorskip("anywidget", reason="needs the extra `lab`")

LIMIT = 120

CODE = """
import warnings
warnings.simplefilter("ignore")
from edutorch import viz
from tests.viz import correct_networks, trouble_cases_of_loops
from tests.viz.correct_loops import LOOPS
from tests.viz.trouble_cases import CASES

def run(code, kind):
    views = []
    def watch(*models):
        views.append(viz.View(models, __import__("sys")._getframe(1), None, False, None))
        return views[-1]
    told = code(watch)
    found = told.findings if isinstance(told, viz.Report) else told.trouble.findings.values()
    assert views[0]._page_state.page is not None, "this is no kernel"
    return [(each.line, str(each)) for each in found if kind in ("", each.kind)]
"""

FOUND = (
    "an_infinity_that_begins_late", "a_logarithm_of_zero", "a_root_at_zero", "layers_in_a_list",
    "gradients_that_add_up", "half_of_the_parameters", "a_list_of_losses", "a_sum_of_losses",
    "dead_units", "a_chain_that_is_cut", "an_error_of_ones_own",
)  # fmt: skip
GOOD = ("the_usual_gan", "accumulation", "mixed_precision", "attention_with_a_mask")


@pytest.fixture(scope="module")
def kernel():
    with running_kernel() as client:
        ask(client, CODE)
        yield client


@pytest.fixture(scope="module")
def quiet_kernel():
    """A kernel in which nothing has run: no loop of another test has left a graph in it."""
    with running_kernel() as client:
        ask(client, "from edutorch import viz")
        yield client


def ask(client, code):
    """Run code in the kernel, and return what it prints."""
    said = []

    def hear(message):
        content = message["content"]
        if content.get("name") == "stdout":
            said.append(content["text"])
        assert "traceback" not in content, "\n".join(content["traceback"])

    client.execute_interactive(code, timeout=LIMIT, output_hook=hear)
    return "".join(said)


@pytest.mark.parametrize("name", FOUND)
def test_it_is_found_in_a_kernel(kernel, name):
    code = (
        f"case = next(each for each in CASES if each.code.__name__ == {name!r})\n"
        "found = run(case.code, case.kind)\n"
        "print(bool(found) and case.line in found[0][0] and case.word in found[0][1], found)"
    )
    assert ask(kernel, code).startswith("True"), ask(kernel, "print(found)")


@pytest.mark.parametrize("name", GOOD)
def test_nothing_is_said_of_a_good_loop_in_a_kernel(kernel, name):
    assert (
        ask(
            kernel, f"print(run(next(each for each in LOOPS if each.__name__ == {name!r}), ''))"
        ).strip()
        == "[]"
    )


SHOWN = {
    "a loss": "f()", "a tuple": "f(), 3", "a tuple in a tuple": "(1, (f(), 2))", "a list": "[f()]",
    "a dict": "{'loss': f()}", "a named tuple": "Pair(f(), 3)", "an object": "Holder(f())",
    "a set": "{f()}", "a method": "f().sum",
}  # fmt: skip
HOLD = """
import collections, dataclasses
import edutorch
Pair = collections.namedtuple("Pair", "a b")
Holder = dataclasses.make_dataclass("Holder", ["loss"])
weights = edutorch.ones(3, requires_grad=True)
def f():
    return (weights * 2).sum()
"""
AS_NEW = """
shell = get_ipython()
for name in ("_", "__", "___"):
    shell.user_ns_hidden.pop(name, None)
    shell.user_ns[name] = getattr(shell.displayhook, name)
"""  # before any reset


@pytest.mark.parametrize("way", SHOWN)
def test_what_a_cell_has_shown_is_named_and_its_advice_releases_it(quiet_kernel, way):
    ask(quiet_kernel, HOLD)
    number = int(ask(quiet_kernel, "print(get_ipython().execution_count)"))
    ask(quiet_kernel, SHOWN[way])
    said = ask(quiet_kernel, "print(viz.trouble())")
    assert f"kept alive by `Out[{number}]`" in said and said.count("kept alive by") == 1, said
    for code in ("1", "2", "3", "%reset -f out"):
        ask(quiet_kernel, code)
    said = ask(quiet_kernel, "print(viz.trouble())")
    assert "kept alive by" not in said, said


def test_what_ipython_keeps_after_a_reset_is_named_and_its_advice_releases_it(quiet_kernel):
    ask(quiet_kernel, HOLD + AS_NEW)
    ask(quiet_kernel, "f(), 3")
    ask(quiet_kernel, "%reset -f out")
    said = ask(quiet_kernel, "print(viz.trouble())")
    assert "kept alive by `_`" in said and said.count("kept alive by") == 1, said
    ask(quiet_kernel, "get_ipython().user_ns_hidden.pop('_');")
    assert "kept alive by" not in ask(quiet_kernel, "print(viz.trouble())")


TRAINED = """
import os
import edutorch
from edutorch import nn, optim
network = nn.Sequential(nn.Linear(16, 512), nn.ReLU(), nn.Linear(512, 64), nn.ReLU())
optimizer = optim.SGD(network.parameters(), lr=0.01)
inputs = edutorch.randn(4096, 16)

def train():
    optimizer.zero_grad()
    loss = network(inputs).square().mean()
    loss.backward()
    optimizer.step()
    return loss

def resident():
    fields = open("/proc/self/statm").read().split()
    return int(fields[1]) * 4096 / 2**20

os.environ["EDUTORCH_KERNELS"] = "off"  # they are loaded once, whatever a cell shows
for _ in range(3):
    train()
start = resident()
"""


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_a_cell_that_ends_in_its_loss_may_be_run_again_and_again(kernel):
    """IPython keeps each loss, and each graph held 9 MiB until backward had run."""
    ask(kernel, TRAINED)
    for _ in range(20):
        ask(kernel, "train()")
    kept, grown = map(
        float,
        ask(
            kernel,
            "nodes = [each._node for each in Out.values() if isinstance(each, edutorch.Tensor)]\n"
            "print(sum(each is not None for each in nodes), resident() - start)\n"
            "del nodes, os.environ['EDUTORCH_KERNELS']",
        ).split(),
    )
    assert kept >= 20
    assert grown <= 64
