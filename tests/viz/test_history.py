"""The steps of a run: what is kept of them, within which memory, and how a page looks back."""

import math
import threading
import time
import tracemalloc

import numpy as np
import pytest

import edutorch
from edutorch import nn, optim
from edutorch.viz import live
from edutorch.viz.graph.model import Graph, Snapshot, Vertex, arrange
from edutorch.viz.history.difference import Comparison, find_changes, pair_nodes, relative_change
from edutorch.viz.history.recording import History, StepError, evenly_spaced, pack, unpack
from edutorch.viz.render.static import FormatError
from edutorch.viz.tensors.summaries import summarize
from tests.viz.golden import example
from tests.viz.test_live import descend, start, watched


def snapshot(scale=1.0, more=(), size=8):
    """A small graph: y = exp(… (w * x)), its numbers times `scale`."""
    array = np.linspace(-1, 2, size, dtype="f4") * scale
    vertices = {
        "x": Vertex("leaf", "x", shape=(size,), differentiable=False, value=summarize(array)),
        "w": Vertex("parameter", "w", "net", (), value=summarize(np.float32(scale)),
                    grad=summarize(np.float32(-scale))),
        "mul": Vertex("op", "mul", "net", (size,), sources=(("input", "x"), ("other", "w")),
                      value=summarize(array), flows={"other": summarize(np.float32(-scale))}),
    }  # fmt: skip
    last = "mul"
    for name in more:
        vertices[name] = Vertex("op", name, "net", (size,), sources=(("input", last),),
                                value=summarize(np.exp(array)))  # fmt: skip
        last = name
    return arrange(vertices, [last], {"net": "Net"})


def filled(steps, limit=10**9, **options):
    history = History(limit=limit)
    for step in steps:
        history.add(step, snapshot(float(step), **options), loss=1.0 / step)
    return history


def test_packing_keeps_what_is_known():
    for whole in (example(), snapshot(3.0), snapshot(more=("exp",))):
        again = unpack(pack(whole), whole.graph)
        for name in ("values", "grads", "flows"):
            for one, other in zip(getattr(whole, name), getattr(again, name), strict=True):
                assert (one is None) == (other is None)
                if one is not None:
                    assert (one.size, one.bad, one.text) == (other.size, other.bad, other.text)
                    for part in ("mean", "min", "max", "norm"):
                        expected = getattr(one, part)
                        assert getattr(other, part) == pytest.approx(
                            expected, rel=1e-6, nan_ok=True
                        )
                    assert other.few == pytest.approx(one.few, rel=1e-6)
        assert again.bad == whole.bad


def test_integers_bools_and_complex_numbers_keep_their_text():
    vertices = {
        "i": Vertex("leaf", "i", shape=(), dtype="int64", value=summarize(np.array(123456789))),
        "b": Vertex("leaf", "b", shape=(2,), dtype="bool", value=summarize(np.eye(1, 2) > 0)),
        "c": Vertex("leaf", "c", shape=(1,), dtype="complex64", value=summarize(np.array([2j]))),
        "e": Vertex("leaf", "e", shape=(0,), value=summarize(np.zeros(0, "f4"))),
        "op": Vertex("op", "f", sources=tuple((item, item) for item in "ibce")),
    }  # fmt: skip
    whole = arrange(vertices, ["op"])
    again = unpack(pack(whole), whole.graph)
    assert [value and value.text for value in again.values] == [
        value and value.text for value in whole.values
    ]


def test_steps_are_kept_with_their_numbers():
    history = filled(range(1, 6))
    assert history.steps == list(history) == [1, 2, 3, 4, 5]
    assert len(history) == 5
    assert 3 in history
    assert 9 not in history
    assert history[2].snapshot.values[0].max == pytest.approx(4.0)
    assert history[-1].snapshot.values[0].max == pytest.approx(10.0)
    assert "w" in history[2].table()
    assert repr(history).startswith("<history of 5 steps, 1 to 5")


def test_a_step_that_is_not_kept():
    history = filled([1, 4, 9])
    with pytest.raises(StepError, match="step 5 is not kept") as caught:
        history[5]
    assert "3 steps from 1 to 9 are kept; near 5: 4 and 9" in str(caught.value)
    assert isinstance(caught.value, IndexError)
    with pytest.raises(StepError, match="steps are kept while a loop runs"):
        History()[1]
    with pytest.raises(StepError, match="near 40: 9"):
        history[40]
    with pytest.raises(StepError):
        history[-4]


def test_beyond_the_limit_every_second_step_goes_and_strides_stay_equal():
    one = filled([1]).nbytes
    history = History(limit=one * 40)
    for step in range(1, 2001):
        history.add(step, snapshot(float(step)))
        assert history.nbytes <= history.limit
    steps = history.steps
    assert (steps[0], steps[-1]) == (1, 2000)
    strides = np.diff(steps)
    assert len(steps) >= 20
    assert strides[:-1].max() <= 2 * strides[:-1].min()
    assert history.nbytes == pytest.approx(
        sum(moment.packed.nbytes for moment in history.moments)
        + (one - history.moments[0].packed.nbytes)
    )


def test_the_memory_is_about_what_it_says():
    """The graph changes with every step: structures are counted too."""
    history = History(limit=1_000_000)
    labels = [f"op{number}" for number in range(30)]
    tracemalloc.start()
    before = tracemalloc.get_traced_memory()[0]
    for step in range(1, 200):
        history.add(step, snapshot(1.0, more=[*labels, f"last{step}"]))
    used = tracemalloc.get_traced_memory()[0] - before
    tracemalloc.stop()
    assert history.nbytes <= history.limit
    assert used < 1.6 * history.limit


def test_a_step_that_comes_again_replaces_what_was_after_it():
    history = filled([1, 2, 3])
    history.add(2, snapshot(50.0))
    assert history.steps == [1, 2]
    assert history[2].snapshot.values[1].mean == pytest.approx(50.0)


def test_evenly():
    moments = filled(range(1, 102)).moments
    chosen = [moment.step for moment in evenly_spaced(moments, 11)]
    assert chosen == list(range(1, 102, 10))
    assert [moment.step for moment in evenly_spaced(moments, 1)] == [101]
    assert evenly_spaced(moments, 500) == moments


def recording(*models):
    """A view that looks at every step, however slow the machine is."""
    view = live(*models)
    view.history.every = 1
    return view


# In a loop ----------------------------------------------------------------------------------


def test_a_loop_fills_it_and_no_array_is_kept():
    w = start()
    with recording() as view:
        losses = [descend(w).item() for _ in range(6)]
    assert view.history.steps == [1, 2, 3, 4, 5, 6]
    assert [moment.loss for moment in view.history.moments] == pytest.approx(losses)
    table = view.history[3].table()
    assert f"{losses[2]:.4g}" in table


def test_steps_before_the_first_optimizer_are_forgotten():
    net = nn.Linear(2, 1)
    optimizer = optim.SGD(net.parameters(), lr=0.1)
    x = edutorch.ones(3, 2)
    with recording(net) as view:
        for _ in range(4):
            optimizer.zero_grad()
            for part in (x, 2 * x):  # two backward passes to one step
                net(part).sum().backward()
            optimizer.step()
    assert view.step == 4
    assert view.history.steps == [1, 2, 3, 4]


def test_every_looks_at_each_step_that_is_asked_for():
    w = start()
    view = live()
    view.history.every = 5
    with view:
        view._sampler.throttle.should_sample = lambda: False  # no time is left for any step
        for _ in range(31):
            descend(w)
    assert set(range(5, 31, 5)) <= set(view.history.steps)


def shown_step(page):
    """What the page was told last: while a loop runs, not each message tells it."""
    told = [patch["parts"]["history"] for patch in page.patches if "history" in patch["parts"]]
    return told[-1]["at"]


def test_the_page_looks_back_while_the_loop_goes_on():
    w = start()
    view, page = watched(recording())
    with view:
        for _ in range(8):
            descend(w)
        while not page.pictures:  # it is laid out beside the loop
            view._send()
            time.sleep(0.01)
        old = view.history[3].snapshot
        asking = threading.Thread(target=view._command, args=({"type": "goto", "step": 3},))
        asking.start()
        asking.join()
        assert shown_step(page) == 3
        count = len(page.pictures[0]["nodes"])
        means = page.numbers[-1][: 2 * count].reshape(-1, 2)[:, 0]
        assert means == pytest.approx([value.mean for value in old.values], nan_ok=True)
        for _ in range(3):
            descend(w)
        view._send()
        assert (shown_step(page), page.patches[-1]["step"]) == (
            3,
            10,
        )  # the 11th ends with the block
        still = page.numbers[-1][: 2 * count].reshape(-1, 2)[:, 0]
        assert still == pytest.approx(means, nan_ok=True)
        view._command({"type": "goto", "step": 3, "by": 2})
        assert shown_step(page) == 5
        view._command({"type": "goto"})
        assert shown_step(page) is None
    assert page.patches[-1]["parts"]["history"]["count"] == 11


def test_the_page_looks_back_after_the_end():
    w = start()
    view, page = watched(recording())
    with view:
        for _ in range(6):
            descend(w)
    for step, shown in ((2, 2), (2.7, 2), (-5, 1), (99, 6)):
        view._command({"type": "goto", "step": step})
        assert shown_step(page) == shown
    assert page.patches[-1]["state"] == "finished"
    for step in ("x", math.nan, math.inf, None, [1]):
        view._command({"type": "goto", "step": step})
        assert shown_step(page) is None


def test_looking_back_at_another_structure_brings_its_picture():
    w = start()
    view, page = watched(recording())
    with view:
        for step in range(6):
            w.grad = None
            (w.exp() if step >= 3 else w).sum().backward()
    view._command({"type": "goto", "step": 1})
    first = page.patches[-1]["structure"]
    assert page.pictures[-1]["structure"] == first
    view._command({"type": "goto", "step": 6})
    assert page.pictures[-1]["structure"] == page.patches[-1]["structure"] != first
    assert view.layouts == 2


def test_the_page_compares():
    w = start()
    view, page = watched(recording())
    with view:
        for _ in range(5):
            descend(w)
    view._command({"type": "compare", "step": 1})
    view._command({"type": "goto", "step": 4})
    compare = page.patches[-1]["parts"]["history"]["compare"]
    assert compare["step"] == 1
    assert compare["rows"]
    assert {row["what"] for row in compare["rows"]} <= {"value", "gradient"}
    view._command({"type": "compare"})
    assert page.patches[-1]["parts"]["history"]["compare"] is None


@pytest.mark.parametrize("every", [4, 7])
def test_every_with_an_optimizer(every):
    w = start()
    optimizer = optim.SGD([w], lr=0.1)
    view = live()
    view.history.every = every
    with view:
        view._sampler.throttle.should_sample = lambda: False
        for _ in range(30):
            optimizer.zero_grad()
            (w * w).sum().backward()
            optimizer.step()
    kept = set(view.history.steps)
    assert set(range(every, 31, every)) <= kept
    assert kept <= {1, *range(every, 31, every), 30}  # the last step is always kept


def test_nothing_is_sent_before_there_is_a_step():
    history = History()
    assert history.patch() is None
    assert not history.command({"type": "goto", "step": 1})


# What changed -------------------------------------------------------------------------------


def test_the_largest_relative_change_comes_first():
    before, after = snapshot(1.0), snapshot(4.0)
    result = find_changes(before, after)
    assert [item.relative for item in result] == sorted(
        (item.relative for item in result), reverse=True
    )
    weight = next(item for item in result if (item.name, item.what) == ("net.w", "value"))
    assert (weight.before, weight.after, weight.sign) == ("1", "4", 1)
    assert weight.relative == pytest.approx(0.75)
    assert weight.percent == "▲ 75 %"
    shrunk = find_changes(after, before)
    assert {item.sign for item in shrunk} == {-1}
    assert find_changes(before, snapshot(1.0)) == []


def test_the_relative_change_is_that_of_the_vector():
    rng = np.random.default_rng(0)
    for _ in range(50):
        one, other = rng.normal(size=(2, int(rng.integers(1, 5))))
        expected = np.linalg.norm(one - other) / max(np.linalg.norm(one), np.linalg.norm(other))
        result, _, grown = relative_change(summarize(one), summarize(other))
        assert result == pytest.approx(expected)
        assert grown == pytest.approx(np.linalg.norm(other) - np.linalg.norm(one))


def test_what_turns_into_nan_comes_first():
    before = snapshot(1.0)
    after = snapshot(1.5)
    values = list(after.values)
    values[2] = summarize(np.array([math.nan] * 8, "f4"))
    after = Snapshot(after.graph, tuple(values), after.grads, after.flows)
    first = find_changes(before, after)[0]
    assert (first.name, first.percent, first.sign) == ("net.mul", "not finite", 0)


def test_nodes_that_come_and_go_are_told():
    before, after = snapshot(more=("exp", "sin")), snapshot(more=("log", "exp", "sin"))
    pairs, removed = pair_nodes(before.graph, after.graph)
    labels = {
        (before.graph.nodes[old].label, after.graph.nodes[new].label) for new, old in pairs.items()
    }
    assert labels == {(name, name) for name in ("x", "w", "mul", "exp", "sin")}
    assert removed == []
    added = [change for change in find_changes(before, after) if change.what == "added"]
    assert [item.name for item in added] == ["net.log"]
    gone = [change for change in find_changes(after, before) if change.what == "removed"]
    assert [item.name for item in gone] == ["net.log"]


def test_large_graphs_are_paired_too():
    before = snapshot(more=[f"a{number}" for number in range(2100)])
    after = snapshot(more=("exp", "sin"))
    pairs, removed = pair_nodes(before.graph, after.graph)
    assert len(pairs) == 3
    assert len(removed) == 2100


def test_a_comparison_as_table_and_picture(tmp_path):
    comparison = Comparison(
        snapshot(more=("exp", "sin")), snapshot(3.0, more=("sin", "log")), (1, 7)
    )
    table = comparison.table()
    assert table.splitlines()[0].split() == ["change", "what", "node", "step", "1", "step", "7"]
    assert "added" in table
    assert "removed" in table
    assert comparison.table(1).endswith(f"… and {len(comparison.changes) - 1} more")
    assert comparison.svg.count("<title>") >= 6
    for text in ("+ added", "- removed", "→"):
        assert text in comparison.svg
    assert set(comparison._repr_mimebundle_()) == {"text/plain", "image/svg+xml", "image/png"}
    assert comparison.save(tmp_path / "c.svg").read_text() == comparison.svg
    with pytest.raises(FormatError, match=r"ends in \.svg, \.png or \.pdf"):
        comparison.save(tmp_path / "c.gif")
    same = Comparison(snapshot(), snapshot(), (1, 2))
    assert "nothing changed" in same.table()
    assert "the same" in same.svg


def test_the_view_compares_its_steps():
    w = start()
    with recording() as view:
        for _ in range(4):
            descend(w)
    assert view.compare(1, -1).steps == (1, 4)
    with pytest.raises(StepError):
        view.compare(1, 77)


def test_an_empty_graph_packs():
    empty = Snapshot(Graph((), ()), (), (), ())
    assert unpack(pack(empty), empty.graph) == empty
