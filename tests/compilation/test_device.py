"""Compiled functions of tensors on another device than the CPU: on the strict device."""

from __future__ import annotations

import numpy as np
import pytest

import edutorch as torch
from edutorch import fx, nn
from edutorch.compilation import pipeline
from edutorch.compilation.device_program import DeviceLowered, run_definitions
from edutorch.compilation.device_split import SplitError, split_by_device
from edutorch.fx.passes import standard
from edutorch.nn import functional as F
from edutorch.ops.random import forget_generators

DEVICE = "strict"


def on_device(*shape: int) -> torch.Tensor:
    return torch.randn(*shape).to(DEVICE)


FUNCTIONS = {
    "elements": lambda x: (x * 2 - 1).sigmoid() / 3,
    "views": lambda x: x.t().reshape(-1)[4:13].view(3, 3) + x[1:, 1:].sum(),
    "sums": lambda x: torch.cat([x.sum(0), x.mean(1), x.amax(1), x.var(0)]),
    "softmax": lambda x: F.log_softmax(x, 1) + F.gelu(x),
    "where": lambda x: torch.where(x > 0, x, torch.full_like(x, -1.0)),
    "products": lambda x: torch.einsum("ij,kj->ik", x, x) @ x + torch.bmm(x[None], x.mT[None])[0],
    "writes": lambda x: (x.clone().fill_(2.0).add_(x)[0]).clone(),
    "casts": lambda x: (x.double() * 2).float().half().float(),
    "indices": lambda x: x[torch.tensor([0, 2], device=DEVICE)].cumsum(0),
}  # fmt: skip


@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions(name: str) -> None:
    function = FUNCTIONS[name]
    compiled = torch.compile(function)
    for _ in range(3):
        x = on_device(4, 4)
        result = compiled(x)
        assert result.device.type == DEVICE
        np.testing.assert_allclose(
            result.cpu().numpy(), function(x).cpu().numpy(), rtol=1e-5, atol=1e-5
        )
    assert compiled.broken == []
    assert "on strict: " in compiled.explain()
    assert isinstance(compiled.entries[0].forward, DeviceLowered)


@pytest.mark.parametrize("backend", ["edutorch", "eager", "aot_eager"])
def test_backends(backend: str) -> None:
    model = nn.Sequential(nn.Linear(4, 3), nn.Tanh(), nn.LayerNorm(3)).to(DEVICE)
    compiled = torch.compile(model, backend=backend)
    for _ in range(3):
        x = on_device(2, 4)
        np.testing.assert_allclose(
            compiled(x).detach().cpu().numpy(), model(x).detach().cpu().numpy(), atol=1e-6
        )


def test_users_backend_gets_examples_on_the_device() -> None:
    seen = []

    def backend(module, examples):
        seen.extend(example.device.type for example in examples)
        return module

    compiled = torch.compile(lambda x: x + 1, backend=backend)
    for _ in range(2):
        assert compiled(on_device(3)).device.type == DEVICE
    assert seen == [DEVICE]


def test_a_number_of_the_cpu_beside_the_device() -> None:
    factor = torch.tensor(3.0)
    compiled = torch.compile(lambda x: x * factor)
    for _ in range(3):
        x = on_device(3)
        np.testing.assert_array_equal(compiled(x).cpu().numpy(), (x * factor).cpu().numpy())
        factor.add_(1)
    assert compiled.broken == []


def test_counts_of_steps_are_computed_on_the_host() -> None:
    model = nn.Linear(3, 2).to(DEVICE)
    optimizer = torch.optim.Adam(model.parameters())

    def step(x):
        optimizer.zero_grad()
        loss = model(x).square().sum()
        loss.backward()
        optimizer.step()
        return loss

    compiled = torch.compile(step)
    for _ in range(4):
        compiled(on_device(2, 3))
    lowered = compiled.entries[0].forward
    names = [node.name for node in lowered.split.host.nodes if node.op == "placeholder"]
    assert names == ["lr", "opt_state_0_step_", "opt_state_1_step_"] or len(names) == 3
    assert lowered.split.scalars == 4
    # In the order of `add_step`, the last step has been counted.
    assert [state["step"].item() for state in optimizer.state.values()] == [4.0, 4.0]


def test_capture_keeps_the_device_and_runs_by_definitions() -> None:
    x = on_device(4, 3)
    captured = fx.capture(lambda x: (x @ x.T).softmax(1).sum(0), x)
    assert captured.reasons == []
    assert {node.meta["device"] for node in captured.graph.nodes if "device" in node.meta} == {
        DEVICE
    }
    y = on_device(4, 3)
    (result,) = run_definitions(standard(captured.graph))([y._array])
    expected = (y @ y.T).softmax(1).sum(0)
    np.testing.assert_allclose(result.get(), expected.cpu().numpy(), atol=1e-6)


def test_tensors_of_two_devices_are_refused_as_without_a_capture() -> None:
    compiled = torch.compile(lambda x, y: x + y)
    with pytest.raises(torch.errors.DeviceError):
        compiled(on_device(3), torch.ones(3))


def test_what_moves_to_the_host_runs_op_by_op() -> None:
    compiled = torch.compile(lambda x: x.cpu() + 1)
    with pytest.warns(UserWarning, match="moves an array from the device to the host"):
        compiled(on_device(3))
    x = on_device(3)
    result = compiled(x)
    assert result.device.type == "cpu"
    np.testing.assert_array_equal(result.numpy(), x.cpu().numpy() + 1)


def test_the_host_needs_no_number_of_the_device() -> None:
    graph = fx.Graph()
    x = graph.placeholder("x")
    x.meta.update(shape=(2,), dtype=np.dtype("float32"), device="strict")
    y = graph.call_function(torch.relu, (x,))
    y.meta.update(shape=(2,), dtype=np.dtype("float32"), device="cpu")
    graph.output((y,))
    with pytest.raises(SplitError, match="moves an array from the device to the host"):
        split_by_device(graph)


def test_the_first_draw_of_a_device_is_compiled() -> None:
    """Its default generator is made before the capture, not in it."""
    forget_generators("strict")
    x = torch.ones(3, 4, device="strict")
    drop = torch.compile(lambda x: F.dropout(x, 0.5))
    drop(x)
    assert not drop.broken, drop.explain()
    assert len({str(drop(x).tolist()) for _ in range(3)}) > 1


def test_unknown_code_runs_op_by_op(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*arguments):
        raise ValueError("no code")

    monkeypatch.setattr("edutorch.compilation.device_program.DeviceLowered", fail)
    graph = fx.capture(lambda x: x.exp(), on_device(2)).graph
    with pytest.warns(UserWarning, match="ops run singly"):
        run = pipeline.edutorch_backend(graph)
    x = on_device(2)
    np.testing.assert_allclose(run([x._array])[0].get(), x.exp().cpu().numpy(), rtol=1e-6)
