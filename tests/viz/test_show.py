"""Tensors in a notebook: what is said of them is true, cheap, and safe."""

import math
import re

import numpy as np
import pytest

import edutorch
from edutorch import viz
from edutorch.viz.tensors.show import (
    NotATensorError,
    cells_of,
    facts_of,
    show_in_notebooks,
    tensor_html,
)


def test_the_facts_are_those_of_the_tensor(device):
    x = edutorch.tensor([[1.0, -2.0], [3.0, 6.0]], requires_grad=True)
    (x * x).sum().backward()
    facts = facts_of(x)
    assert facts.shape == (2, 2) and facts.dtype == "float32" and facts.bytes == 16
    assert facts.device == str(x.device) and facts.state == "leaf, requires_grad"
    assert facts.grad_norm == pytest.approx(2 * math.sqrt(50))
    assert (facts.stats.min, facts.stats.max, facts.stats.mean) == (-2, 6, 2)
    assert facts.stats.std == pytest.approx(x.std(correction=0).item())
    assert sum(facts.stats.bars) == 4
    assert facts_of(x * 2).state == "made by MulBackward0"
    assert facts_of(edutorch.ones(3)).state == "no gradient wanted"


def test_bad_numbers_are_counted_and_marked_by_more_than_colour(device):
    x = edutorch.randn(10, 10)
    x[0, :3], x[1, :2] = math.nan, -math.inf
    facts = facts_of(x)
    assert (facts.nan, facts.inf, facts.stats.size) == (3, 2, 95)
    assert "✗ 3 NaN and 2 Inf" in repr(viz.show(x)) and "✗ 3 NaN and 2 Inf" in viz.show(x).html()


KINDS = [
    edutorch.tensor(3), edutorch.tensor([True, False]), edutorch.zeros(0, 3),
    edutorch.tensor([1 + 2j, 3]), edutorch.randn(40).half(), edutorch.randn(4, 4).bfloat16(),
    edutorch.arange(10), edutorch.tensor(math.nan), edutorch.full((3,), math.inf),
    edutorch.randn(2, 3, 4, 5), edutorch.zeros(7), edutorch.tensor(250, dtype=edutorch.uint8),
]  # fmt: skip


@pytest.mark.parametrize("tensor", KINDS, ids=lambda tensor: f"{tensor.dtype}{tuple(tensor.shape)}")
def test_every_kind_of_tensor_has_a_picture(tensor):
    html = tensor_html(tensor)
    assert html.count("<div") == html.count("</div>")
    assert str(tensor.dtype).removeprefix("torch.").removeprefix("edutorch.") in html
    assert repr(viz.show(tensor)) and viz.deeper(tensor).html() and repr(viz.deeper(tensor))


def test_small_values_are_a_table_and_large_ones_are_not():
    html = viz.show(edutorch.tensor([[0.5, -1.0], [math.nan, 0.0]])).html()
    cells = re.findall(r"<td[^>]*>([^<]*)</td>", html)
    assert cells == ["0.5", "-1", "✗ nan", "0"]
    assert "--low" in html and "--high" in html
    assert "<table" not in viz.show(edutorch.zeros(9, 9)).html()


@pytest.mark.parametrize(("tensor", "rows"), [
    (edutorch.tensor(3.0), [[3.0]]), (edutorch.tensor([1, 2]), [[1, 2]]),
    (edutorch.tensor([[1], [2]]), [[1], [2]]), (edutorch.zeros(0), []),
    (edutorch.zeros(8, 8), [[0.0] * 8] * 8), (edutorch.zeros(65), []),
    (edutorch.zeros(1, 2, 2), []), (edutorch.tensor([[True]]), [[True]]),
])  # fmt: skip
def test_a_small_tensor_is_a_table_of_its_rows(tensor, rows):
    assert cells_of(tensor) == rows


@pytest.mark.parametrize(("axis", "positions"), [
    (12, list(range(12))), (13, [0, 1, 2, 3, 4, 5, 7, 8, 9, 10, 11, 12]),
    (100, [0, 9, 18, 27, 36, 45, 54, 63, 72, 81, 90, 99]), (1, [0]), (0, []),
])  # fmt: skip
def test_of_a_long_axis_twelve_positions_are_described(axis, positions):
    x = edutorch.arange(float(axis)).repeat(2, 1)
    rows = viz.deeper(x).axes[1]
    assert [row.at for row in rows] == positions
    assert [(row.mean, row.min, row.max, row.std) for row in rows] == [
        (at, at, at, 0) for at in positions
    ]  # fmt: skip


def test_positions_are_described_by_their_finite_numbers():
    x = edutorch.tensor([[1.0, 3.0, math.nan, math.inf], [math.nan] * 4, [0.0, 0.0, -2.0, 2.0]])
    first, second, third = viz.deeper(x).axes[0]
    assert (first.mean, first.min, first.max) == (2, 1, 3) and first.std == pytest.approx(1)
    assert (first.zeros, first.bad, second.bad, third.zeros, third.bad) == (0, 2, 4, 2, 0)
    assert math.isnan(second.mean) and math.isnan(second.min)
    assert [row.max for row in viz.deeper(edutorch.tensor([[3 + 4j, 0j]])).axes[1]] == [5, 0]


def test_the_histogram_can_be_read_aloud():
    html = viz.show(edutorch.linspace(0, 1, 160)).html()
    assert 'role="img"' in html and "histogram from 0 to 1: 10, 10" in html


def test_axis_by_axis():
    x = edutorch.zeros(2, 3)
    x[:, 1], x[0, 2] = 4.0, math.nan
    rows = viz.deeper(x).axes[1]
    assert [(row.mean, row.zeros, row.bad) for row in rows] == [(0, 2, 0), (4, 0, 0), (0, 1, 1)]
    text = repr(viz.deeper(edutorch.zeros(100, 2)))
    assert "axis 0, 100 positions, 12 of them" in text and "axis 1, 2 positions" in text


def test_nothing_is_run_backwards_and_no_more_than_a_few_numbers_travel(monkeypatch):
    from edutorch import backends

    x = edutorch.randn(300, 300, requires_grad=True)
    y = x * 2
    carried = []
    known = backends.CPU.to_numpy
    monkeypatch.setattr(
        type(backends.CPU), "to_numpy",
        lambda self, array: carried.append(array.size) or known(array),
    )  # fmt: skip
    viz.show(y).html()
    viz.show(edutorch.ones(8, 8)).html()
    assert sum(carried) <= 64
    assert x.grad is None and y.grad_fn is not None


def test_ipython_shows_html_and_keeps_the_text():
    pytest.importorskip("IPython")
    from IPython.core.interactiveshell import InteractiveShell

    shell = InteractiveShell()
    assert show_in_notebooks(shell)
    x = edutorch.nn.Parameter(edutorch.tensor([1.0, 2.0]))
    data, _ = shell.display_formatter.format(x)
    assert data["text/plain"] == repr(x)
    assert "leaf, requires_grad" in data["text/html"]


def test_without_a_notebook_nothing_happens(monkeypatch):
    import sys

    monkeypatch.delitem(sys.modules, "IPython", raising=False)
    assert not show_in_notebooks()


def test_what_is_no_tensor():
    for function in (viz.show, viz.deeper):
        with pytest.raises(NotATensorError, match=r"expected a tensor, got ndarray\n  hint: write"):
            function(np.ones(3))
