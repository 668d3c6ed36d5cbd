"""A layer is one product of cuBLASLt in each direction, with its bias and its activation."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import edutorch as torch
from edutorch import backends, nn
from edutorch.backends.cupy import CupyBackend
from edutorch.backends.strict import StrictBackend
from edutorch.compilation.captured_step import use_graph_driver
from edutorch.compilation.cuda_graphs import CupyGraphs
from edutorch.compilation.product_epilogues import (
    Kept,
    activation_gradients,
    linear_activation,
    parameter_gradients,
)
from edutorch.kernels.gpu.matmul import use_bindings
from edutorch.nn import functional as F
from tests.gpu.libraries import use_libraries
from tests.gpu.recording import recording
from tests.gpu.stand_ins import CublasLt, cublas_lt
from tests.gpu.steps import Training, batch

DEVICE = "strict"


@pytest.fixture
def library() -> Iterator[CublasLt]:
    with recording(), use_graph_driver(DEVICE, CupyGraphs), use_libraries() as library:
        yield library


def products_of(name: str, library: CublasLt, **settings: Any) -> tuple[Any, Counter[str]]:
    """Compare captured steps with eager ones; return the step, and the products in its graph."""
    eager, compiled = Training(name, DEVICE), Training(name, DEVICE)
    step = torch.compile(compiled.step, **settings)
    captured: list[str] = []
    for number in range(5):
        x, y = (tensor.to(DEVICE) for tensor in batch(name, 4))
        expected = eager.step(x, y)
        library.products.clear()
        assert step(x, y).item() == pytest.approx(expected.item(), abs=1e-5), number
        captured = library.products.copy() or captured
        for value, wanted in zip(compiled.values(), eager.values(), strict=True):
            np.testing.assert_allclose(value, wanted, atol=1e-5, rtol=0, err_msg=str(number))
    assert not step.broken
    assert library.products == [], "a replay calls cuBLASLt from Python"
    return step, Counter(captured)


def test_an_mlp_has_one_product_for_each_layer_and_direction(library: CublasLt) -> None:
    step, products = products_of("mlp tanh", library)
    assert products == {
        "RELU_AUX_BIAS": 1, "GELU_AUX_BIAS": 1, "BIAS": 1,  # forward
        "DGELU_BGRAD": 1, "DRELU_BGRAD": 1,  # the gradients of the inputs of two layers
        "BGRADB": 1, "DEFAULT": 2,  # those of the weights
    }  # fmt: skip
    for function in ("relu_gradients_", "sum(", "sum_4("):
        assert f"= {function}" not in step.code, "it is a kernel of its own"
    assert "captured 1 times" in step.explain()


def test_the_exact_gelu_is_not_cublaslts(library: CublasLt) -> None:
    _, products = products_of("mlp", library)
    assert products == {
        "RELU_AUX_BIAS": 1, "DEFAULT": 3, "BIAS": 1, "DRELU_BGRAD": 1, "BGRADB": 2
    }  # fmt: skip


@pytest.mark.slow
def test_a_gpt(library: CublasLt) -> None:
    _, products = products_of("gpt tanh", library)
    # Of each block: 2 + 5 of attention; forward q k v, and two whose bias is added along with the
    # residual; backward three to the input, and two weights without a bias of their own. And 3 of
    # the head.
    plain = 2 * (2 + 5 + 3 + 3 + 2) + 3
    assert products == {"GELU_AUX_BIAS": 2, "DGELU_BGRAD": 2, "BGRADB": 4, "DEFAULT": plain}


@pytest.mark.parametrize("refused", ["forward", "backward", "all"])
def test_what_the_library_refuses_is_computed_in_steps(refused: str, library: CublasLt) -> None:
    forward = {"RELU_AUX_BIAS", "GELU_AUX_BIAS"}
    backward = {"DRELU_BGRAD", "DGELU_BGRAD", "BGRADB"}
    library.refused = {"forward": forward, "backward": backward}.get(refused, forward | backward)
    _, products = products_of("mlp tanh", library)
    assert not set(products) & library.refused
    assert "BIAS" in products
    assert ("RELU_AUX_BIAS" in products) == (refused == "backward")
    # Without what forward keeps there is no such product in backward.
    assert ("BGRADB" in products) == (refused == "forward")
    assert "DRELU_BGRAD" not in products


class Mixed(nn.Module):
    """Layers whose parts are read elsewhere, so that not all of them can be fused."""

    def __init__(self, case: str) -> None:
        super().__init__()
        self.case, self.first, self.last = case, nn.Linear(5, 7), nn.Linear(7, 7)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        before = self.first(x)
        if self.case == "before is read":
            return self.last(F.relu(before)) + before
        if self.case == "gelu is read twice":
            y = F.gelu(before, approximate="tanh")
            return self.last(y) + y
        if self.case == "another bound":
            return self.last(before.clamp(min=0.25))
        return self.last(F.relu(before)) * 2 + F.relu(before)


@pytest.mark.parametrize(
    "case", ["before is read", "gelu is read twice", "another bound", "relu is read twice"]
)
def test_what_is_read_elsewhere(case: str, library: CublasLt) -> None:
    torch.manual_seed(0)
    models = [Mixed(case).to(DEVICE) for _ in range(2)]
    models[1].load_state_dict(models[0].state_dict())

    def step_of(model: nn.Module) -> Any:
        def step(x: torch.Tensor) -> torch.Tensor:
            model.zero_grad()
            loss = model(x).square().mean()
            loss.backward()
            return loss

        return step

    steps = [step_of(models[0]), torch.compile(step_of(models[1]))]
    for _ in range(4):
        x = torch.randn(6, 5).to(DEVICE)
        losses = [step(x).item() for step in steps]
        assert losses[1] == pytest.approx(losses[0], abs=1e-5)
        for pair in zip(models[0].parameters(), models[1].parameters(), strict=True):
            values = [parameter.grad.cpu().numpy() for parameter in pair]
            np.testing.assert_allclose(*values, atol=1e-5)
    assert not any(name.startswith("DGELU") for name in library.products)


def test_forward_alone_keeps_nothing(library: CublasLt) -> None:
    model = Training("mlp tanh", DEVICE).model
    compiled, products = torch.compile(model), list[str]()
    with torch.no_grad():
        for _ in range(4):
            x = torch.randn(4, 12).to(DEVICE)
            expected = model(x)
            library.products.clear()
            y = compiled(x)
            products = library.products.copy() or products
            np.testing.assert_allclose(y.cpu().numpy(), expected.cpu().numpy(), atol=1e-5)
    assert Counter(products) == {"RELU_BIAS": 1, "GELU_BIAS": 1, "BIAS": 1}


@pytest.mark.parametrize("autocast", [False, True])
def test_sixteen_bits(autocast: bool, library: CublasLt, monkeypatch: pytest.MonkeyPatch) -> None:
    """On a device whose products add up in float32 the layers of 16-bit floats are fused, too."""
    monkeypatch.setattr(StrictBackend, "half_products", CupyBackend.half_products)
    pair = [Training("mlp tanh", DEVICE) for _ in range(2)]

    def step_of(training: Training) -> Any:
        model, optimizer = training.model, torch.optim.SGD(training.model.parameters(), lr=0.1)

        def step(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
            optimizer.zero_grad()
            with torch.autocast(DEVICE, dtype=torch.bfloat16, enabled=autocast):
                loss = F.cross_entropy(model(x), y)
            loss.backward()
            optimizer.step()
            return loss

        return step

    for training in pair:
        training.model.to(torch.float32 if autocast else torch.bfloat16)
    steps = [step_of(pair[0]), torch.compile(step_of(pair[1]))]
    for _ in range(3):
        x, y = (tensor.to(DEVICE) for tensor in batch("mlp", 4))
        x = x if autocast else x.to(torch.bfloat16)
        expected = steps[0](x, y).item()
        library.products.clear()
        assert steps[1](x, y).item() == pytest.approx(expected, abs=2e-2)
    assert Counter(library.products) == {
        "RELU_AUX_BIAS": 1, "GELU_AUX_BIAS": 1, "BIAS": 1, "DGELU_BGRAD": 1, "DRELU_BGRAD": 1,
        "BGRADB": 1, "DEFAULT": 2,
    }  # fmt: skip
    for first, second in zip(*(training.model.parameters() for training in pair), strict=True):
        assert first.grad is not None
        values = [tensor.grad.float().cpu().numpy() for tensor in (first, second)]
        np.testing.assert_allclose(*values, atol=2e-2)


@pytest.mark.parametrize("has_library", [True, False])
@pytest.mark.parametrize("activation", ["relu", "gelu"])
def test_functions(activation: str, has_library: bool) -> None:
    """With cuBLASLt and without it, against the derivatives of the ops on the CPU."""
    torch.manual_seed(1)
    shapes = (2, 3, 5), (8, 5), (8,), (6, 8), (2, 3, 6)
    x, w, b, after, g = (torch.randn(*shape) for shape in shapes)
    leaves = [tensor.requires_grad_() for tensor in (x, w, b)]
    before = F.linear(*leaves)
    y = F.relu(before) if activation == "relu" else F.gelu(before, approximate="tanh")
    before.retain_grad()
    F.linear(y, after).backward(g)
    settings = {"activation": activation, "shape": (2, 3, 8)}
    bindings, library = cublas_lt()
    library.refused = set() if has_library else set(library.lt.Epilogue.__members__)
    with recording(), use_bindings(bindings):
        device = [tensor.detach().to(DEVICE)._array for tensor in (x, w, b, after, g)]
        made, kept = linear_activation(*device[:3], keeps=True, is_weight=True, **settings)
        gradient, total = activation_gradients(
            device[4], device[3], made, kept, sums=True, **settings
        )
        weight, bias = parameter_gradients(gradient, device[0])
    assert isinstance(kept, Kept)
    assert (kept.aux is not None) == has_library
    pairs = [(made, y), (gradient, before.grad), (total, b.grad), (weight, w.grad), (bias, b.grad)]
    for value, expected in pairs:
        assert value.shape == expected.shape
        np.testing.assert_allclose(value.get(), expected.detach().numpy(), atol=1e-4)
    assert backends.of(made) is backends.get(DEVICE)
