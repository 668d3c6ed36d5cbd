"""`torch.cuda.CUDAGraph` over CuPy's driver, on the recording stream: replays draw and check."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

import edutorch as torch
from edutorch import backends, nn
from edutorch.backends.host_counts import HostCounts
from edutorch.cuda.graphs import CUDAGraph
from edutorch.nn import functional as F
from edutorch.ops.random import default_generator
from tests.gpu.libraries import use_libraries, use_user_graphs
from tests.gpu.recording import recording

DEVICE = "strict"


@pytest.fixture
def card() -> Iterator[None]:
    with recording(), use_libraries(), use_user_graphs():
        yield


def captured(function: Callable[[], Any]) -> tuple[CUDAGraph, Any]:
    """Capture a function; return the graph, and the tensors of its results."""
    graph = CUDAGraph()
    graph.capture_begin()
    try:
        result = function()
    finally:
        graph.capture_end()
    return graph, result


@pytest.fixture
def x(card: None) -> torch.Tensor:
    return torch.ones(6, 5).to(DEVICE)


def replayed(graph: CUDAGraph, y: torch.Tensor, count: int) -> list[Any]:
    """Return the results of some replays."""
    values = []
    for _ in range(count):
        graph.replay()
        values.append(y.tolist())
    return values


def test_dropout_of_replays_is_that_of_eager_calls(x: torch.Tensor) -> None:
    def drop() -> torch.Tensor:
        return F.dropout(x, 0.5) + F.dropout(x, 0.3)

    torch.manual_seed(4)
    eager = [drop().tolist() for _ in range(5)]
    after = torch.rand(3, device=DEVICE).tolist()
    torch.manual_seed(4)
    graph, y = captured(drop)
    masks = replayed(graph, y, 2)
    assert masks == eager[:2]  # the capture itself has drawn nothing
    assert drop().tolist() == eager[2]  # between replays, outside of the graph
    assert replayed(graph, y, 2) == eager[3:]
    assert torch.rand(3, device=DEVICE).tolist() == after
    assert len({str(mask) for mask in eager}) == len(eager)


def test_a_new_seed_and_a_new_state_reach_the_graph(x: torch.Tensor) -> None:
    graph, y = captured(lambda: F.dropout(x, 0.5))
    torch.manual_seed(7)
    first = replayed(graph, y, 2)
    generator = default_generator(backends.get(DEVICE))
    state = generator.get_state()
    second = replayed(graph, y, 2)
    generator.set_state(state)
    assert replayed(graph, y, 2) == second
    torch.manual_seed(7)
    assert replayed(graph, y, 1) == first[:1]
    torch.manual_seed(7)
    assert [F.dropout(x, 0.5).tolist() for _ in range(2)] == first


def test_a_generator_of_the_users(card: None) -> None:
    generators = [torch.Generator(DEVICE).manual_seed(3) for _ in range(2)]
    default = torch.rand(2, device=DEVICE).tolist()
    torch.manual_seed(0)

    def draw(generator: torch.Generator) -> torch.Tensor:
        return torch.randn(5, device=DEVICE, generator=generator)

    eager = [draw(generators[0]).tolist() for _ in range(3)]
    graph, y = captured(lambda: draw(generators[1]))
    assert replayed(graph, y, 3) == eager
    assert torch.rand(2, device=DEVICE).tolist() == default  # nobody else has drawn
    assert graph._counts is not None
    assert [entry[0] for entry in graph._counts.draws] == [generators[1]]


def test_two_graphs_share_a_generator(x: torch.Tensor) -> None:
    torch.manual_seed(1)
    eager = [(F.dropout(x, 0.5).tolist(), torch.rand(3, device=DEVICE).tolist()) for _ in range(3)]
    torch.manual_seed(1)
    first, mask = captured(lambda: F.dropout(x, 0.5))
    second, drawn = captured(lambda: torch.rand(3, device=DEVICE))
    for wanted in eager:
        first.replay()
        second.replay()
        assert (mask.tolist(), drawn.tolist()) == wanted


def test_a_wrong_index_is_found_at_the_next_wait(card: None) -> None:
    table, index = nn.Embedding(5, 3).to(DEVICE), torch.tensor([1, 4]).to(DEVICE)

    def look_up() -> torch.Tensor:
        return table(index).sum()

    look_up()
    graph, y = captured(look_up)
    graph.replay()
    y.item()
    index.copy_(torch.tensor([1, 7]).to(DEVICE))
    graph.replay()
    with pytest.raises(IndexError, match="index 7 is out of bounds") as raised:
        y.item()
    line = look_up.__code__.co_firstlineno + 1
    assert f"test_user_graphs.py:{line}" in str(raised.value)
    index.copy_(torch.tensor([1, 2]).to(DEVICE))
    graph.replay()
    y.item()


def test_an_error_while_it_is_captured_changes_no_generator(x: torch.Tensor) -> None:
    torch.manual_seed(2)
    expected = torch.rand(2, device=DEVICE).tolist()
    torch.manual_seed(2)

    def fail() -> None:
        F.dropout(x, 0.5)
        raise KeyError("halfway")

    with pytest.raises(KeyError):
        captured(fail)
    assert torch.rand(2, device=DEVICE).tolist() == expected


def test_a_generator_that_draws_on_the_host_since(
    x: torch.Tensor, monkeypatch: pytest.MonkeyPatch
) -> None:
    graph, _ = captured(lambda: F.dropout(x, 0.5))
    monkeypatch.setattr(HostCounts, "is_stale", lambda self: True)
    with pytest.raises(RuntimeError, match="the state of an old one"):
        graph.replay()
