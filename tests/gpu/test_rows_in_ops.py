"""Ops on the strict device use the kernels, through their slots: whole steps, on fibers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import edutorch as torch
from edutorch import nn
from edutorch.kernels.gpu.module import LAUNCHES, CudaModule, use_launcher
from tests.gpu.fibers import FiberLauncher, has_compiler
from tests.gpu.row_checks import check_cross_entropy, row_modules

pytestmark = pytest.mark.skipif(not has_compiler(), reason="g++ is not installed")


@pytest.fixture(autouse=True)
def fibers(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Kernels run on the CPU, and no caller goes on before they are made."""
    monkeypatch.setenv("EDUTORCH_KERNELS", "wait")
    with use_launcher(FiberLauncher(row_modules(["float32"]), orders=(2,))):
        yield


class Attention(nn.Module):
    """Embedding, layer norm, softmax and cross entropy: what a language model has."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding, self.norm = nn.Embedding(11, 8), nn.LayerNorm(8)
        self.head = nn.Linear(8, 11)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        x = self.norm(self.embedding(tokens))
        weights = torch.softmax(x @ x.transpose(-1, -2), -1)
        y = self.head(weights @ x)
        loss = nn.functional.cross_entropy(y.reshape(-1, 11), tokens.reshape(-1))
        return loss + (y * y).mean()


def gradients(device: str) -> list[np.ndarray]:
    """Return the loss and the gradients of one step."""
    torch.manual_seed(0)
    model = Attention().to(device)
    tokens = torch.tensor([[1, 2, 3, 3, 1], [9, 0, 10, 9, 9]], device=device)
    loss = model(tokens)
    loss.backward()
    return [
        tensor.detach().cpu().numpy() for tensor in (loss, *[p.grad for p in model.parameters()])
    ]


def test_a_step_of_a_language_model_uses_them() -> None:
    LAUNCHES.clear()
    own, right = gradients("strict"), gradients("cpu")
    for y, expected in zip(own, right, strict=True):
        assert np.allclose(y, expected, atol=1e-6)
    kernels = {
        "softmax_rows", "softmax_rows_backward", "norm_rows", "norm_rows_backward",
        "add_sorted_rows", "sum_chunks", "cross_entropy_rows", "cross_entropy_rows_backward",
    }  # fmt: skip
    assert kernels <= set(LAUNCHES), kernels - set(LAUNCHES)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_cross_entropy_of_50_000_classes_is_as_right_as_of_few(dtype: str) -> None:
    with use_launcher(FiberLauncher(row_modules([dtype]), orders=(0,))):
        check_cross_entropy(dtype, sizes=(50_000,))


def test_cross_entropy_of_50_000_classes_keeps_no_softmax() -> None:
    """Besides the logits themselves nothing of their size is made, or kept for backward."""
    rows, classes = 3, 50_000
    torch.manual_seed(0)
    x = torch.randn(rows, classes, device="strict").requires_grad_()
    target = torch.tensor([0, 17, classes - 1], device="strict")
    kept: list[torch.Tensor] = []
    launcher = FiberLauncher(row_modules(["float32"]), orders=(0,))
    large: dict[str, set[int]] = {}  # by kernel, the addresses of arrays as large as the logits

    def note(module: CudaModule, kernel: str, *rest: Any) -> None:
        arrays = [a for a in rest[2] if isinstance(a, np.ndarray) and a.size >= x.numel()]
        large[kernel] = {array.ctypes.data for array in arrays}
        launcher(module, kernel, *rest)

    with use_launcher(note):
        with torch.autograd.graph.saved_tensors_hooks(lambda t: kept.append(t) or t, lambda t: t):
            loss = nn.functional.cross_entropy(x, target)
        loss.backward()
    assert kept, "what backward needs goes through the hooks"
    assert all(tensor.numel() < classes for tensor in kept if tensor is not x), kept
    logits = {x._array._values.ctypes.data}
    assert large["cross_entropy_rows"] == logits
    assert large["finish_cross_entropy"] == set()
    assert logits < large["cross_entropy_rows_backward"]
    assert len(large["cross_entropy_rows_backward"]) == 2, "the logits, and their gradient"
    assert len(large) == 3


def test_recurrent_layers_use_them() -> None:
    for layer, kernel in ((nn.LSTMCell, "lstm_gates"), (nn.GRUCell, "gru_gates")):
        LAUNCHES.clear()
        results = []
        for device in ("strict", "cpu"):
            torch.manual_seed(0)
            cell = layer(3, 4).to(device)
            x = torch.ones(2, 3, device=device, requires_grad=True)
            state = cell(x)
            sum(part.sum() for part in (state if isinstance(state, tuple) else (state,))).backward()
            results.append(x.grad.cpu().numpy())
        assert np.allclose(*results, atol=1e-6)
        assert {kernel, f"{kernel}_backward"} <= set(LAUNCHES)


def test_norms_of_channels_use_them() -> None:
    for layer, kernel in (
        (lambda: nn.BatchNorm2d(4), "set_moments"), (lambda: nn.GroupNorm(2, 4), "set_moments"),
        (lambda: nn.InstanceNorm1d(4, affine=True), "channel_gradients"),
    ):  # fmt: skip
        LAUNCHES.clear()
        results = []
        for device in ("strict", "cpu"):
            torch.manual_seed(0)
            norm = layer().to(device)
            x = torch.randn(3, 4, 5, 6) if "2d" in repr(norm) else torch.randn(3, 4, 30)
            x = x.to(device).requires_grad_()
            (norm(x) ** 3).sum().backward()
            grads = [x.grad, *[parameter.grad for parameter in norm.parameters()]]
            results.append(np.concatenate([grad.cpu().numpy().ravel() for grad in grads]))
        assert np.allclose(*results, atol=1e-3, rtol=1e-4)
        assert {kernel, "set_gradients", "channel_gradients"} <= set(LAUNCHES)


def test_running_sums_and_gather_use_them() -> None:
    LAUNCHES.clear()
    results = []
    for device in ("strict", "cpu"):
        torch.manual_seed(0)
        x = torch.randn(3, 40).to(device).requires_grad_()
        index = torch.tensor([[0, 3, 3], [39, 0, 1], [2, 2, 2]], device=device)
        picked = torch.gather(torch.cumsum(x, 1), 1, index)
        added = torch.index_add(x, 1, index[0], picked)
        (added**2).sum().backward()
        results.append(np.concatenate([t.detach().cpu().numpy() for t in (x.grad, added)]))
    assert np.allclose(*results, atol=1e-4)
    assert {"cumsum_rows", "gather_elements", "add_sorted_rows"} <= set(LAUNCHES)


def test_a_gathered_index_out_of_range_is_an_error() -> None:
    x = torch.ones(2, 3, device="strict")
    y = torch.gather(x, 1, torch.tensor([[3], [0]], device="strict"))
    with pytest.raises(torch.errors.DimError, match="index 3 is out of bounds"):
        y.cpu()


@pytest.mark.parametrize("classes", [-1, 4, 50])
def test_one_hot_vectors_use_theirs(classes: int) -> None:
    LAUNCHES.clear()
    index = torch.tensor([[0, 3, 3], [1, 0, 2]])
    y = nn.functional.one_hot(index.to("strict"), classes)
    assert torch.equal(y.cpu(), nn.functional.one_hot(index, classes))
    assert LAUNCHES["one_hot_elements"] == 1
    assert nn.functional.one_hot(index[:0].to("strict"), 3).shape == (0, 3, 3)
    with pytest.raises(torch.errors.DimError, match="from 0 to 2"):
        nn.functional.one_hot(index.to("strict"), 3).cpu()


def test_resizing_uses_them() -> None:
    for settings in ({"mode": "nearest"}, {"mode": "bilinear", "align_corners": True}):
        LAUNCHES.clear()
        results = []
        for device in ("strict", "cpu"):
            torch.manual_seed(0)
            x = torch.randn(2, 3, 5, 4).to(device).requires_grad_()
            y = nn.functional.interpolate(x, size=(7, 3), **settings)
            (y**2).sum().backward()
            results.append(np.concatenate([t.detach().cpu().numpy().ravel() for t in (x.grad, y)]))
        assert np.allclose(*results, atol=1e-5)
        assert LAUNCHES["sum_windows"] == 4, "two axes, forward and backward"
