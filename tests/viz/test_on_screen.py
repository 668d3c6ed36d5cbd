"""What a page has on screen: an update computes the numbers of nothing else."""

import time
from dataclasses import replace

import numpy as np
import pytest

import edutorch as torch
from edutorch.viz import live
from edutorch.viz.graph.fold import Choice
from edutorch.viz.live.messages import UNKNOWN, Message
from edutorch.viz.live.page import MOST_VIEWS, PageState
from tests.viz.test_glance import (
    LOOPS,
    Loop,
    Page,
    attention,
    changed,
    mlp,
    sample_fast,
    stable_view,
)


def seen(view, positions, name="one", structure=None):
    """Let a page say what it has on screen."""
    graph = view._page_state.plan(view._recorder.trace.snapshot.graph).graph
    told = {"type": "seen", "view": name, "nodes": positions}
    view._command({**told, "structure": structure or graph.structure})


def sample_window(view, loop, positions, strange=False):
    """Return the numbers of everything, and those of a step of which only a part is on screen.

    With `strange`, the first are such as no step can have had: where they stand, none were taken.
    """
    for _ in range(2):  # the first finds out in which order backward runs
        older = sample_fast(view, loop)
    seen(view, positions)
    view._sampler._whole_due = float("inf")
    if strange:
        older = older.packed
        older = replace(older, statistics=older.statistics + 1000, few=older.few + 1000)
        view._sampler.step_values = older
    result = changed(view, loop)
    assert older is not None and result is not None
    return older.packed, result


def part_of(view, older, share=3):
    count = len(view._page_state.plan(view._recorder.trace.snapshot.graph).nodes)
    return list(range(count // share, 2 * count // share))


@pytest.mark.parametrize("make", LOOPS)
def test_only_the_numbers_on_screen_are_taken(make):
    loop = Loop(make)
    view = stable_view(loop)
    plan = view._page_state.plan(view._recorder.trace.snapshot.graph)
    positions = part_of(view, None)
    right = sample_fast(view, loop).packed
    older, result = sample_window(view, loop, positions, strange=True)
    taken = set(np.flatnonzero(result.statistics[:, 0] == right.statistics[:, 0]).tolist())
    known = set(np.flatnonzero(right.marks != UNKNOWN).tolist())
    count = len(plan.nodes)
    ids = {plan.graph.nodes[place].id for place in positions}
    beside = [2 * count + at for at, edge in enumerate(plan.graph.edges)
              if {edge.source, edge.target} & ids]  # fmt: skip
    wanted = known & {*positions, *(place + count for place in positions), *beside}
    order = view._recorder.trace.snapshot.order
    roots = {at for at, number in enumerate(order) if number in view._recorder.trace.roots}
    assert wanted <= taken <= wanted | roots | {root + count for root in roots}
    assert len(taken) < 0.8 * len(known)
    rows = sorted(taken)
    now, before = result.statistics[rows], right.statistics[rows]
    untold = np.isnan(now) & ~np.isnan(before)
    assert not untold[:, [0, 1, 4]].any()  # only what nobody sees there: the least and the largest
    np.testing.assert_allclose(np.where(untold, before, now), before, rtol=2e-5, atol=1e-6)
    others = sorted(known - taken)
    assert np.array_equal(result.statistics[others], older.statistics[others])
    view.__exit__(None, None, None)


@pytest.mark.parametrize("make", LOOPS)
def test_elsewhere_a_message_has_the_numbers_of_an_older_step(make):
    loop = Loop(make)
    view = stable_view(loop)
    graph = view._recorder.trace.snapshot.graph
    right = sample_fast(view, loop).packed
    strange, result = sample_window(view, loop, part_of(view, None), strange=True)
    view.__exit__(None, None, None)
    wire = Message(view._page_state.plan(graph), graph)
    sent = wire.values(result)
    count = len(sent) - len(graph.nodes) - len(graph.edges)
    now, before, mixed = (
        np.frombuffer(item[:count], "f4")
        for item in (wire.values(right), wire.values(strange), sent)
    )
    taken = np.isclose(mixed, now, rtol=2e-5, atol=1e-5, equal_nan=True)
    kept = np.isclose(mixed, before, rtol=1e-6, equal_nan=True)
    assert np.all(taken | kept)
    assert np.any(taken & ~kept) and np.any(kept & ~taken)
    assert wire.texts(result) == wire.texts(right)
    both = result.packed
    assert np.array_equal(both.marks, right.marks)  # also what is written as a list, and how long
    assert len(both.few) == len(right.few)


def test_what_is_seen_last_is_the_newest_of_each():
    loop = Loop(mlp)
    view = stable_view(loop)
    sample_window(view, loop, [0, 1])
    graph = view._recorder.trace.snapshot.graph
    with torch.no_grad():
        loop.model[0].weight.mul_(2)
    assert changed(view, loop) is not None
    before, now = view._sampler.latest_whole()[0], view._sampler.latest()
    moved = [at for at in range(len(graph.nodes)) if before.values[at] != now.values[at]]
    assert moved and all(at in (0, 1) or graph.nodes[at].kind == "output" for at in moved)
    view.__exit__(None, None, None)


def test_a_part_of_another_graph_is_not_laid_over_the_whole_one():
    """What is known of all of a graph says nothing of one with other ops."""
    loop = Loop(attention)
    view = stable_view(loop, Choice(limit=6))
    assert sample_fast(view, loop) is not None
    policy = view._sampler
    overlaid, step = policy.latest_whole()
    assert overlaid.graph == policy.whole[0].graph and step == policy._whole_step
    snapshot, _ = policy.whole
    other = replace(snapshot, graph=replace(snapshot.graph, nodes=snapshot.graph.nodes[:-1]))
    assert other.graph.structure != snapshot.graph.structure
    policy.whole = other, 7
    assert policy.latest_whole() == (other, 7)
    policy.whole = None
    latest, step = policy.latest_whole()
    assert latest.graph == snapshot.graph and step == view.step
    view.__exit__(None, None, None)


def test_only_whole_steps_are_kept():
    """Whoever looks back may look somewhere else."""
    loop = Loop(mlp)
    view = stable_view(loop)
    sample_window(view, loop, [0, 1])
    kept = view.history.steps
    assert changed(view, loop) is not None
    assert view.history.steps == kept
    view._sampler._whole_due = 0.0
    assert changed(view, loop) is not None
    assert view.history.steps == [*kept, view.step]
    assert view._sampler.latest_whole()[1] == view.step
    view.__exit__(None, None, None)


def test_now_and_then_a_glance_takes_everything():
    loop = Loop(mlp)
    view = stable_view(loop)
    sample_window(view, loop, [0])
    view._sampler._whole_due = time.perf_counter() - 1
    result = changed(view, loop)
    assert view._sampler.step_values is result
    assert view._sampler._whole_due > time.perf_counter()
    view.__exit__(None, None, None)


def test_most_of_it_on_screen_is_all_of_it():
    loop = Loop(mlp)
    view = stable_view(loop)
    count = len(view._recorder.trace.snapshot.graph.nodes)
    _, result = sample_window(view, loop, list(range(count - 1)))
    assert view._sampler.step_values is result
    view.__exit__(None, None, None)


def test_another_choice_of_boxes_is_taken_whole_first():
    loop = Loop(mlp)
    view = stable_view(loop)
    sample_window(view, loop, [0, 1])
    view._page_state.choice = Choice(limit=1)
    seen(view, [0])
    result = changed(view, loop)
    assert result is not None and view._sampler.step_values is result
    view.__exit__(None, None, None)


def test_a_nan_somewhere_else_is_noticed():
    loop = Loop(mlp)
    view = stable_view(loop)
    order = view._recorder.trace.snapshot.order
    names = [node.label for node in view._recorder.trace.snapshot.graph.nodes]
    weight = names.index("weight")
    sample_window(view, loop, [at for at in (0, 1, 2) if at != weight])
    assert order[weight] not in view._sampler._window[1].row_of
    with torch.no_grad():
        loop.model[0].weight[0, 0] = float("nan")
    assert changed(view, loop).broken
    assert view._sampler._full_due == 0.0
    view._sampler._full_due = 1.0
    assert changed(view, loop).broken
    assert view._sampler._full_due > 1.0  # once is enough
    view.__exit__(None, None, None)


def test_a_page_says_what_is_on_screen():
    """Several views of a widget add up; what makes no sense, or is of another picture, is not."""
    loop = Loop(mlp)
    view = stable_view(loop)
    plan = view._page_state.plan(view._recorder.trace.snapshot.graph)
    window = lambda: view._page_state.window(plan)  # noqa: E731
    assert window() is None
    seen(view, [0, 2])
    assert window() == {0, 2}
    seen(view, [1, 2, 10_000, -3], "other")
    assert window() == {0, 1, 2}
    seen(view, [5], "late", structure="another one")
    assert window() == {0, 1, 2}
    seen(view, [], "other")
    assert window() == {0, 2}
    for nonsense in ("0", None, [0.5], [True, [1]], {"0": 1}):
        view._command({"type": "seen", "structure": plan.graph.structure, "nodes": nonsense})
    assert window() == {0, 2}
    assert not view._page_state.needs_update
    view.__exit__(None, None, None)


def test_views_that_are_long_gone_are_forgotten():
    page_state = PageState()
    for number in range(MOST_VIEWS + 3):
        page_state.command(
            {"type": "seen", "view": f"{number}", "structure": "s", "nodes": [number]}
        )
    assert list(page_state._windows) == [f"{number}" for number in range(3, MOST_VIEWS + 3)]


def test_a_page_that_says_nothing_gets_everything():
    view = live()
    view._page_state.page = Page()
    x = torch.randn(8, 8, requires_grad=True)
    optimizer = torch.optim.SGD([x], lr=0.0)
    with view:
        for _ in range(60):
            optimizer.zero_grad()
            x.sin().cos().tanh().sum().backward()
            optimizer.step()
    assert view._sampler._window is None


def test_from_afar_nothing_is_taken_and_the_loop_goes_on():
    loop = Loop(mlp)
    view = stable_view(loop)
    right = sample_fast(view, loop).packed
    older, result = sample_window(view, loop, [], strange=True)
    same = result.statistics[:, 0] == older.statistics[:, 0]
    known = right.marks != UNKNOWN
    roots = len(view._recorder.trace.roots)
    assert int((known & ~same).sum()) <= 2 * roots  # the loss is always known
    view.__exit__(None, None, None)
