"""What changed from one step to another: how much, in which direction, and of which node."""

import math
from dataclasses import replace

import numpy as np
import pytest

from edutorch.viz.graph.model import Vertex, arrange
from edutorch.viz.history import difference
from edutorch.viz.history.difference import (
    SAME,
    Change,
    Comparison,
    find_changes,
    pair_by_count,
    pair_nodes,
    percent_text,
    printable_path,
    relative_change,
    short_text,
    value_change,
)
from edutorch.viz.tensors.summaries import Stats, summarize


def graph_of(*labels):
    """Return a chain of ops, each with the numbers of its place."""
    vertices = {"x": Vertex("leaf", "x", shape=(9,))}
    for place, label in enumerate(labels):
        source = place - 1 if place else "x"
        vertices[place] = Vertex("op", label, shape=(9,), sources=(("input", source),))
    made = arrange(vertices, [len(labels) - 1] if labels else ["x"])
    values = tuple(summarize(np.arange(9.0) + place) for place in range(len(made.graph.nodes)))
    return replace(made, values=values, grads=values)


NODE = graph_of("exp").graph.nodes[1]


def stats(*values):
    return summarize(np.array(values))


FEW_CASES = [
    ((1.0, 2.0), (1.0, 2.0), None), ((0.0, 0.0), (0.0, 0.0), None),
    ((3.0, 4.0), (6.0, 8.0), (0.5, 1)), ((6.0, 8.0), (3.0, 4.0), (0.5, -1)),
    ((0.0, 0.0), (3.0, 4.0), (1.0, 1)), ((2.0,), (-2.0,), (2.0, 0)),
    ((1.0, 0.0), (0.0, 1.0), (math.sqrt(2), 0)),  # turned, but no longer than before
    ((1.0,), (1 + 0.5 * SAME,), None), ((1.0,), (1 + 3 * SAME,), (3 * SAME, 1)),
    ((1.0,), (math.nan,), (math.inf, 0)), ((math.inf,), (1.0,), (math.inf, 0)),
    ((math.nan,), (math.inf,), None), ((1.0, 2.0), (3.0,), (1.0, 1)),
    ((), (1.0,), None), ((1.0,), (), None),
]  # fmt: skip


@pytest.mark.parametrize(("before", "after", "wanted"), FEW_CASES)
def test_how_much_few_numbers_changed(before, after, wanted):
    change = value_change("value", NODE, stats(*before), stats(*after))
    if wanted is None:
        assert change is None
    elif len(before) == len(after):
        assert change.relative == pytest.approx(wanted[0], rel=1e-3)
        assert change.sign == wanted[1]
    else:
        assert change is not None
    assert value_change("value", NODE, None, stats(1.0)) is None
    assert value_change("value", NODE, stats(1.0), None) is None


def many(mean=0.0, low=-1.0, high=1.0, norm=10.0):
    return Stats(100, mean, low, high, norm)


@pytest.mark.parametrize(("before", "after", "relative", "measure", "grown"), [
    (many(), many(norm=20.0), 0.5, "norm", 10), (many(norm=20.0), many(), 0.5, "norm", -10),
    (many(), many(high=4.0), 0.75, "max", 3), (many(), many(low=-4.0), 0.75, "min", 3),
    (many(), many(mean=-0.5), 0.5, "mean", 0.5), (many(mean=0.5), many(), 0.5, "mean", -0.5),
    (many(), many(norm=15.0, high=2.0), 0.5, "norm", 5),  # which says most
    (many(), many(norm=11.0, high=2.0), 0.5, "max", 1),  # unless something says much more
    (many(norm=0.0, low=0.0, high=0.0), many(norm=0.0, low=0.0, high=0.0), 0.0, "norm", 0),
])  # fmt: skip
def test_the_measure_that_tells_most(before, after, relative, measure, grown):
    assert relative_change(before, after) == (
        pytest.approx(relative),
        measure,
        pytest.approx(grown),
    )


def test_numbers_are_written_shortly():
    assert [short_text(many(mean=0.5), measure) for measure in ("norm", "mean", "max")] == [
        "norm 10.000", "mean +0.5000", "max +1.0000",
    ]  # fmt: skip
    assert short_text(stats(1.0, 2.0), "few") == "[1, 2]" and short_text(None, "norm") == "—"


@pytest.mark.parametrize(("relative", "text"), [
    (0.0009, "<0.1 %"), (0.001, "0.1 %"), (0.0099, "1.0 %"), (0.01, "1 %"), (0.354, "35 %"),
    (2.0, "200 %"),
])  # fmt: skip
def test_a_part_as_percent(relative, text):
    assert percent_text(relative) == text
    for sign, arrow in ((1, "▲ "), (-1, "▼ "), (0, "")):
        assert Change("value", "w", "1", "2", relative, sign).percent == arrow + text
    assert Change("value", "w", "1", "2", math.inf, 0).percent == "not finite"
    assert Change("added", "w", "", "2", math.inf, 0).percent == "added"


def test_a_long_path_keeps_its_end():
    assert printable_path("a" * 48) == "a" * 48
    assert printable_path("a" * 40 + "b" * 47) == "…" + "b" * 47
    assert printable_path("a\nb") == "a�b"


# The same node in two graphs ----------------------------------------------------------------


@pytest.mark.parametrize("careful", [2000, 0], ids=["longest common part", "counted"])
@pytest.mark.parametrize(("old", "new", "pairs", "removed"), [
    (["exp", "sin"], ["exp", "sin"], {0: 0, 1: 1, 2: 2}, []),
    (["exp", "sin"], ["exp", "cos", "sin"], {0: 0, 1: 1, 3: 2}, []),
    (["exp", "cos", "sin"], ["exp", "sin"], {0: 0, 1: 1, 2: 3}, [2]),
    (["exp", "exp"], ["exp"], {0: 0, 1: 1}, [2]),
    (["exp"], ["sin"], {0: 0}, [1]),
])  # fmt: skip
def test_nodes_are_found_again(careful, old, new, pairs, removed, monkeypatch):
    monkeypatch.setattr(difference, "CAREFUL", careful)
    assert pair_nodes(graph_of(*old).graph, graph_of(*new).graph) == (pairs, removed)


def test_the_first_of_a_kind_is_paired_with_the_first():
    assert pair_by_count("aab", "abab") == {0: 0, 1: 2, 2: 1}
    assert pair_by_count("", "ab") == {} == pair_by_count("ab", "")


def test_what_appeared_comes_first_and_then_what_changed_most():
    before, after = graph_of("exp", "sin"), graph_of("exp", "cos")
    values = list(after.values)
    values[0], values[1] = summarize(np.arange(9.0) * 3), summarize(np.arange(9.0) + 1.5)
    result = find_changes(before, replace(after, values=tuple(values)))
    assert [(item.what, item.name) for item in result] == [
        ("added", "cos"), ("removed", "sin"), ("value", "x"), ("value", "exp"),
    ]  # fmt: skip
    added, removed, first, _ = result
    assert (added.before, removed.after) == ("", "") and added.after and removed.before
    assert (first.label, first.module, first.sign) == ("x", "", 1)
    assert find_changes(before, before) == []


def test_the_table_has_a_line_for_each_change():
    before = graph_of("exp", "sin")
    after = replace(before, values=tuple(summarize(np.arange(9.0) * 9) for _ in before.values))
    comparison = Comparison(before, after, (3, 14))
    head, *lines = comparison.table().splitlines()
    assert head.split() == ["change", "what", "node", "step", "3", "step", "14"]
    assert len(lines) == len(comparison.changes) == 3
    assert len({line.index("value") for line in lines}) == 1  # in columns
    assert comparison.table(limit=2).splitlines()[1:] == [*lines[:2], "… and 1 more"]
    assert "more" not in comparison.table(limit=3)
    assert repr(comparison) == comparison.table()
    same = Comparison(before, before, (3, 14)).table().splitlines()
    assert same[1:] == ["nothing changed"]
