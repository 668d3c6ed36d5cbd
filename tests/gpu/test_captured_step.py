"""A training step as one graph, on the recording stream: it equals the eager step.

The stream refuses what a capture on a GPU would (see `recording.py`). With "definitions" every op
is its definition; with "libraries" products are cuBLASLt's and convolutions cuDNN's, by stand-ins.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import edutorch as torch
from edutorch import nn
from edutorch.backends import strict_array
from edutorch.compilation.captured_step import CaptureMemoryError, use_graph_driver
from edutorch.compilation.cuda_graphs import CupyGraphs
from edutorch.kernels.gpu.module import use_launcher
from edutorch.ops import gather_scatter
from tests.gpu.fibers import FiberLauncher
from tests.gpu.libraries import use_device_random, use_libraries
from tests.gpu.recording import (
    GRAPHS,
    RECORDER,
    CUDARuntimeError,
    MemoryPool,
    RecordedLauncher,
    recording,
)
from tests.gpu.steps import NETWORKS, Training, batch

DEVICE = "strict"


@pytest.fixture
def recorded() -> Iterator[None]:
    with recording(), use_graph_driver(DEVICE, CupyGraphs):
        yield


@pytest.fixture(params=["definitions", "libraries"])
def computed(request: pytest.FixtureRequest, recorded: None) -> Iterator[Any]:
    """What computes: the stand-in for cuBLASLt, or None."""
    if request.param == "definitions":
        yield None
        return
    with use_libraries() as library:
        yield library


def assert_equal_steps(name: str, count: int, **settings: Any) -> Any:
    """Make steps eagerly and compiled, compare them, and return the compiled step."""
    eager, compiled = Training(name, DEVICE), Training(name, DEVICE)
    step = torch.compile(compiled.step, **settings)
    for number in range(count):
        x, y = (tensor.to(DEVICE) for tensor in batch(name, 4))
        expected, loss = eager.step(x, y), step(x, y)
        assert loss.item() == pytest.approx(expected.item(), abs=1e-5), number
        for value, wanted in zip(compiled.values(), eager.values(), strict=True):
            np.testing.assert_allclose(value, wanted, atol=1e-5, rtol=0, err_msg=str(number))
    assert not step.broken
    return step


def range_checks_wait() -> bool:
    """Whether the range check of an index still waits for the device."""
    table, index = torch.ones(3, 2).to(DEVICE), torch.tensor([0, 2]).to(DEVICE)
    try:
        with strict_array.no_synchronisation():
            torch.index_select(table, 0, index)
    except RuntimeError:
        return True
    return False


@pytest.mark.parametrize(
    "name", [*(name for name in NETWORKS if "gpt" not in name and "tanh" not in name),
             pytest.param("gpt", marks=pytest.mark.slow)],
)  # fmt: skip
def test_step_is_captured_and_equals_eager(
    name: str, computed: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    if range_checks_wait():  # as long as they do, a step with an embedding is launched
        monkeypatch.setattr(gather_scatter, "check_range", lambda *arguments: None)
    step = assert_equal_steps(name, 7)
    assert "one graph: captured 1 times" in step.explain()
    (graph,) = GRAPHS
    assert graph.launches >= 4
    if computed is not None:
        assert computed.products, "no product was computed by cuBLASLt"
        assert "fused_0(" in step.code
        assert "out=(" in step.code, "no parameter is updated where it is"


def test_sixteen_bits(recorded: None) -> None:
    pair = [Training("mlp", DEVICE) for _ in range(2)]
    for training in pair:
        training.model.to(torch.bfloat16)
    step = torch.compile(pair[1].step)
    for _ in range(6):
        x, y = (tensor.to(DEVICE) for tensor in batch("mlp", 4))
        x = x.to(torch.bfloat16)
        assert step(x, y).item() == pytest.approx(pair[0].step(x, y).item(), abs=1e-2)
    assert "captured 1 times" in step.explain()


def test_dropout_draws_anew_in_each_step(computed: Any) -> None:
    """Whether a generator can be captured or not, the numbers are those of the eager step."""
    models = []
    for _ in range(2):
        torch.manual_seed(0)
        models.append(nn.Sequential(nn.Linear(12, 8), nn.Dropout(0.5)).to(DEVICE))

    def step_of(model: nn.Module) -> Any:
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

        def step(x: torch.Tensor) -> torch.Tensor:
            optimizer.zero_grad()
            loss = model(x).square().mean()
            loss.backward()
            optimizer.step()
            return loss

        return step

    eager, compiled = step_of(models[0]), torch.compile(step_of(models[1]))
    losses = []
    for number in range(7):
        x = torch.ones(4, 12).to(DEVICE)
        results = []
        for step in (eager, compiled):
            torch.manual_seed(number)
            results.append(step(x).item())
        assert results[1] == pytest.approx(results[0], abs=1e-5)
        losses.append(results[1])
    assert compiled.broken == []
    assert len(set(losses)) == len(losses)
    text = compiled.explain()
    assert ("captured 1 times, replayed" if computed else "draws on the host") in text


def test_replays_draw_on_and_the_host_counts_along(recorded: None) -> None:
    """Masks of replays, and what is drawn after them, are the eager ones."""
    x = torch.ones(6, 5).to(DEVICE)

    def drop(x: torch.Tensor) -> torch.Tensor:
        return nn.functional.dropout(x, 0.5) + nn.functional.dropout(x, 0.3)

    results = []
    launcher = RecordedLauncher(FiberLauncher(orders=(0,), flags=("-O0",)))
    with use_device_random(), use_launcher(launcher):
        for function in (drop, torch.compile(drop)):
            torch.manual_seed(4)
            masks = [function(x).tolist() for _ in range(6)]
            results.append((masks, torch.rand(3, device=DEVICE).tolist()))
    assert results[0] == results[1]
    assert [graph.launches for graph in GRAPHS] == [GRAPHS[0].launches]
    assert GRAPHS[0].launches >= 3


@pytest.mark.parametrize("wrong_at", [1, 2, 3, 4, 5])
def test_a_wrong_index_is_found_at_the_next_wait(wrong_at: int, recorded: None) -> None:
    """Launched, captured and replayed: the error names the line of the call."""
    table = nn.Embedding(5, 3).to(DEVICE)

    def look_up(index: torch.Tensor) -> torch.Tensor:
        rows = table(index) * 2
        return rows.sum()

    step = torch.compile(look_up)
    for number in range(7):
        y = step(torch.tensor([1, 7 if number == wrong_at else 4]).to(DEVICE))
        if number != wrong_at:
            y.item()
            continue
        with pytest.raises(IndexError, match="index 7 is out of bounds") as raised:
            y.item()
        line = look_up.__code__.co_firstlineno + 1
        assert f"test_captured_step.py:{line}" in str(raised.value)
    assert sum(graph.launches for graph in GRAPHS) >= 4


def run_steps(name: str, count: int, **settings: Any) -> list[Any]:
    """Return the losses and the final values of compiled steps."""
    training = Training(name, DEVICE)
    step = torch.compile(training.step, **settings)
    torch.manual_seed(1)
    losses = []
    for _ in range(count):
        x, y = (tensor.to(DEVICE) for tensor in batch(name, 4))
        losses.append(step(x, y).item())
    return [np.array(losses), *training.values()]


@pytest.mark.parametrize("name", ["mlp", "cnn"])
def test_replays_equal_launches_bit_by_bit(name: str, recorded: None) -> None:
    replayed = run_steps(name, 40)
    assert sum(graph.launches for graph in GRAPHS) >= 35
    GRAPHS.clear()
    launched = run_steps(name, 40, mode="max-autotune-no-cudagraphs")
    assert not GRAPHS
    for first, second in zip(replayed, launched, strict=True):
        np.testing.assert_array_equal(first, second)


@pytest.mark.parametrize("off", ["mode", "option", "environment"])
def test_graphs_can_be_switched_off(
    off: str, recorded: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings: dict[str, Any] = {
        "mode": {"mode": "max-autotune-no-cudagraphs"},
        "option": {"options": {"triton.cudagraphs": False}},
    }.get(off, {})
    if off == "environment":
        monkeypatch.setenv("EDUTORCH_CUDA_GRAPHS", "off")
    step = assert_equal_steps("mlp", 4, **settings)
    assert not GRAPHS
    assert "launched in each call" in step.explain()


def test_another_shape_is_captured_anew(recorded: None) -> None:
    eager, compiled = Training("mlp", DEVICE), Training("mlp", DEVICE)
    step = torch.compile(compiled.step)
    for count in (4, 4, 4, 4, 6, 6, 6, 4, 6):
        x, y = (tensor.to(DEVICE) for tensor in batch("mlp", count))
        assert step(x, y).item() == pytest.approx(eager.step(x, y).item(), abs=1e-5)
    assert "shape (4, 12) before, now (6, 12)" in step.explain()
    assert len(step.entries) == 2
    # The second capture keeps the gradients that it has found: one more of the first version.
    assert len(GRAPHS) <= 3


def test_a_batch_in_the_same_memory_is_not_copied(recorded: None) -> None:
    eager, compiled = Training("mlp", DEVICE), Training("mlp", DEVICE)
    step = torch.compile(compiled.step)
    x, y = (tensor.to(DEVICE) for tensor in batch("mlp", 4))
    for number in range(8):
        if number == 5:  # from now on it is another tensor
            x = x.clone()
        with torch.no_grad():
            x.mul_(0.9)
        assert step(x, y).item() == pytest.approx(eager.step(x, y).item(), abs=1e-5)
    assert "captured 2 times" in step.explain()


def test_gradients_that_are_kept_stay_as_they_are(recorded: None) -> None:
    training = Training("mlp", DEVICE)
    step = torch.compile(training.step)
    parameter = next(iter(training.model.parameters()))
    kept: list[tuple[Any, np.ndarray]] = []
    for _ in range(7):
        x, y = (tensor.to(DEVICE) for tensor in batch("mlp", 4))
        step(x, y)
        assert parameter.grad is not None
        kept.append((parameter.grad, parameter.grad.cpu().numpy().copy()))
    for gradient, values in kept:
        np.testing.assert_array_equal(gradient.cpu().numpy(), values)


def test_results_that_are_kept_stay_as_they_are(recorded: None) -> None:
    training = Training("mlp", DEVICE)
    step = torch.compile(training.step)
    losses = [step(*(tensor.to(DEVICE) for tensor in batch("mlp", 4))) for _ in range(6)]
    assert len({loss.item() for loss in losses}) == 6


def test_accumulated_gradients(recorded: None) -> None:
    models = [Training("mlp", DEVICE).model for _ in range(2)]

    def accumulate(model: nn.Module) -> Any:
        def add(x: torch.Tensor) -> torch.Tensor:
            loss = model(x).square().mean()
            loss.backward()
            return loss

        return add

    eager, compiled = accumulate(models[0]), torch.compile(accumulate(models[1]))
    for _ in range(6):
        x = torch.randn(4, 12).to(DEVICE)
        assert compiled(x).item() == pytest.approx(eager(x).item(), abs=1e-5)
        for first, second in zip(models[0].parameters(), models[1].parameters(), strict=True):
            np.testing.assert_allclose(
                first.grad.cpu().numpy(), second.grad.cpu().numpy(), atol=1e-5
            )
    assert compiled.broken == []


def test_learning_rate_of_a_scheduler_reaches_the_graph(recorded: None) -> None:
    pair = [Training("mlp", DEVICE) for _ in range(2)]
    plans = [torch.optim.lr_scheduler.StepLR(t.optimizer, 2, gamma=0.5) for t in pair]
    step = torch.compile(pair[1].step)
    for _ in range(8):
        x, y = (tensor.to(DEVICE) for tensor in batch("mlp", 4))
        assert step(x, y).item() == pytest.approx(pair[0].step(x, y).item(), abs=1e-5)
        for plan in plans:
            plan.step()
    assert len(GRAPHS) == 1


def test_forward_alone_and_with_gradients_outside(recorded: None) -> None:
    model = Training("mlp", DEVICE).model
    compiled = torch.compile(model)
    for _ in range(4):
        x = torch.randn(4, 12).to(DEVICE)
        results = []
        for function in (model, compiled):
            model.zero_grad()
            y = function(x)
            y.square().sum().backward()
            grads = [parameter.grad.cpu().numpy().copy() for parameter in model.parameters()]
            results.append((y.detach().cpu().numpy(), *grads))
        for first, second in zip(*results, strict=True):
            np.testing.assert_allclose(first, second, atol=1e-5)


# What cannot be captured --------------------------------------------------------------------------


def after_a_wait(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function before which the host waits for the device."""

    def wait_and_compute(*values: Any) -> Any:
        strict_array.wait()
        return function(*values)

    return wait_and_compute


def test_a_wait_inside_is_launched_instead(recorded: None) -> None:
    training, eager = Training("mlp", DEVICE), Training("mlp", DEVICE)
    step = torch.compile(training.step)
    for number in range(6):
        x, y = (tensor.to(DEVICE) for tensor in batch("mlp", 4))
        if number == 2:
            scope = step.entries[0].forward.device.text.scope
            scope["product"] = after_a_wait(scope["product"])
        assert step(x, y).item() == pytest.approx(eager.step(x, y).item(), abs=1e-5)
    text = step.explain()
    assert "the host waits for the device here" in text
    assert "launched in each call" in text
    assert all(graph.launches == 0 for graph in GRAPHS)
    assert RECORDER.operations is None


def test_out_of_memory_in_a_capture_is_one_sentence(
    recorded: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    training = Training("mlp", DEVICE)
    step = torch.compile(training.step)
    for _ in range(2):
        step(*(tensor.to(DEVICE) for tensor in batch("mlp", 4)))
    monkeypatch.setattr(MemoryPool, "limit", 2000)
    x, y = (tensor.to(DEVICE) for tensor in batch("mlp", 4))
    step(x, y)  # launched; the next call makes the graph
    with pytest.raises(CaptureMemoryError, match="out of memory while the step was captured"):
        step(x, y)
    assert RECORDER.operations is None
    monkeypatch.setattr(MemoryPool, "limit", None)
    eager = Training("mlp", DEVICE)
    eager.model.load_state_dict(training.model.state_dict())
    eager.optimizer.load_state_dict(training.optimizer.state_dict())
    assert step(x, y).item() == pytest.approx(eager.step(x, y).item(), abs=1e-5)


def add_on_another_stream(x: Any, cuda: Any) -> None:
    with cuda.Stream(non_blocking=True):
        x + 1


REFUSED: dict[str, tuple[str, Callable[[Any, Any], Any]]] = {
    "host": ("copies from the host", lambda x, cuda: x.set(np.ones(3, np.float32))),
    "list": ("copies from the host", lambda x, cuda: torch.backends.get(DEVICE).xp.asarray([1.0])),
    "pool": ("not from the graph's own pool", lambda x, cuda: x + 1),
    "stream": ("another stream", add_on_another_stream),
}


@pytest.mark.parametrize("what", REFUSED)
def test_the_recording_stream_refuses(what: str, recorded: None) -> None:
    cuda = torch.backends.get(DEVICE).xp.cuda
    x = torch.ones(3).to(DEVICE)._array
    pool, stream = cuda.MemoryPool(), cuda.Stream(non_blocking=True)
    with cuda.using_allocator(None if what == "pool" else pool.malloc), stream:
        stream.begin_capture()
        try:
            with pytest.raises(CUDARuntimeError, match=REFUSED[what][0]):
                REFUSED[what][1](x, cuda)
        finally:
            stream.end_capture()
