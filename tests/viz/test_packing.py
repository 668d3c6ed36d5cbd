"""Packed numbers reach a page as those of a snapshot do."""

import math
from dataclasses import replace

import numpy as np
import pytest

from edutorch.viz.graph.fold import Choice, make_plan
from edutorch.viz.graph.model import Vertex, arrange
from edutorch.viz.live.messages import (
    Message,
    numpy_row_statistics,
    pack,
    pack_values,
    row_statistics,
    scaled_norm,
    sign_of,
    texts_of,
)
from edutorch.viz.render.dot import FAINT, flow_text, grad_text, value_text
from edutorch.viz.tensors.summaries import Stats, summarize


def snapshot_with(grad, flow=None):
    """Return a graph of two boxes; the gradient of the first, and at the arrow, is this one."""
    vertices = {
        "x": Vertex("parameter", "x", shape=(9,)),
        "y": Vertex("op", "exp", shape=(9,), sources=(("input", "x"),)),
    }
    made = arrange(vertices, ["y"])
    value = summarize(np.arange(9.0))
    return replace(made, values=(value, value), grads=(grad, grad), flows=(flow or grad,))


def stats(mean, size=9):
    return Stats(size, mean, -1.0, 1.0, 2.0)


@pytest.mark.parametrize(("mean", "sign"), [
    (1.1 * FAINT, 1), (0.9 * FAINT, 0), (0.0, 0), (-0.9 * FAINT, 0), (-1.1 * FAINT, -1), (-3.0, -1),
    (3.0, 1), (math.nan, 0), (math.inf, 1), (-math.inf, -1),
])  # fmt: skip
def test_a_mean_that_is_rounding_noise_has_no_sign(mean, sign):
    assert sign_of(stats(mean)) == sign
    snapshot = snapshot_with(stats(mean))
    graph = snapshot.graph
    sent = Message(make_plan(graph, Choice()), graph).values(pack(snapshot))
    assert sent == pack_values(snapshot)
    assert np.frombuffer(sent[-3:], "i1").tolist() == [sign] * 3


def test_what_is_unknown_has_neither_number_nor_sign():
    assert sign_of(None) == 0
    snapshot = snapshot_with(None)
    graph = snapshot.graph
    wire, packed = Message(make_plan(graph, Choice()), graph), pack(snapshot)
    assert wire.values(packed) == pack_values(snapshot)
    assert wire.texts(packed) == texts_of(snapshot)
    assert np.isnan(np.frombuffer(wire.values(packed)[:-3], "f4")[1::2]).all()


def test_the_size_of_a_packed_step_is_that_of_what_it_holds():
    small, large = (pack(snapshot_with(stats(1.0))) for _ in range(2))
    assert small.nbytes >= small.statistics.nbytes + small.marks.nbytes + small.few.nbytes
    large.texts[0] = "x" * 1000
    assert large.nbytes - small.nbytes >= 1000
    few = replace(small, few=np.zeros(1000))
    assert few.nbytes - small.nbytes == few.few.nbytes - small.few.nbytes
    drawn = replace(small, drawn={0: ((1,) * 16, None)})
    assert 0 < drawn.nbytes - small.nbytes < 2000


@pytest.mark.parametrize("width", [1, 3, 70])
@pytest.mark.parametrize("size", [1.0, 1e-160, 1e200, 1e-320])
def test_rows_of_any_size_have_their_norms(width, size):
    data = np.random.default_rng(0).normal(size=(4, width)) * size
    data[2] = 0
    with np.errstate(all="ignore"):
        rows, good = row_statistics(data)
    assert good
    np.testing.assert_allclose(rows[:, 0], width)
    np.testing.assert_allclose(rows[:, 1], data.mean(1), rtol=1e-9, atol=1e-323)
    np.testing.assert_array_equal(rows[:, 2:4], np.stack([data.min(1), data.max(1)], axis=1))
    for row, norm in zip(data, rows[:, 4], strict=True):
        assert norm == pytest.approx(math.hypot(*row), rel=1e-9, abs=1e-321)
    parts = numpy_row_statistics(data, extremes=False)
    assert np.isnan(parts[:, 2:4]).all()


@pytest.mark.parametrize(("values", "finite"), [
    ([1.0, math.nan], False), ([math.inf, 1.0], False), ([1e300, 1e300], True), ([0.0, 0.0], True),
])  # fmt: skip
def test_rows_that_are_not_finite_have_no_norm(values, finite):
    data = np.array([[1.0, 2.0], values])
    with np.errstate(all="ignore"):
        rows, good = row_statistics(data)
        assert good == finite and math.isnan(rows[1, 4]) == (not finite)
        assert rows[0, 4] == pytest.approx(math.sqrt(5))
    if values[0]:
        assert math.isnan(scaled_norm(np.array(values))) == (not finite)


def test_numbers_are_written_as_the_page_writes_them():
    assert value_text(None) == "value —" and grad_text(None) == "grad  —" and flow_text(None) == ""
    assert value_text(stats(2.0)) == "mean  +2.0000" and grad_text(stats(2.0)) == "grad  2.0000"
    listed = stats(2.0)._replace(text="[1, 3]")
    assert value_text(listed) == "value [1, 3]" and grad_text(listed) == "grad  [1, 3]"
    assert flow_text(stats(-2.5)) == "2.0000" and flow_text(stats(-2.5, size=1)) == "-2.5000"
