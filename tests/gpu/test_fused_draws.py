"""Dropout inside fused kernels: the mask is computed where it is read, and is that of the CPU."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import numpy as np
import pytest

import edutorch as torch
from edutorch import Tensor, nn
from edutorch.backends import get
from edutorch.backends.legacy_random import LegacyRandom
from edutorch.backends.philox import PhiloxRandom
from edutorch.backends.strict_array import StrictArray
from edutorch.compilation.captured_step import use_graph_driver
from edutorch.compilation.cuda_codegen import FusedKernel
from edutorch.compilation.cuda_graphs import CupyGraphs
from edutorch.kernels.gpu.elementwise_codegen import Element, Variable
from edutorch.kernels.gpu.module import LAUNCHES, use_launcher
from edutorch.nn import functional as F
from edutorch.ops.random import default_generator
from tests.gpu.fibers import FiberLauncher, has_compiler
from tests.gpu.recording import GRAPHS, RecordedLauncher, recording
from tests.gpu.test_captured_step import use_device_random

pytestmark = pytest.mark.skipif(not has_compiler(), reason="g++ is not installed")

DEVICE = "strict"


@contextmanager
def fibers(*orders: int) -> Iterator[None]:
    """Capture and replay on the strict device, with kernels and random numbers as a GPU's."""
    with ExitStack() as stack:
        stack.enter_context(recording())
        stack.enter_context(use_graph_driver(DEVICE, CupyGraphs))
        stack.enter_context(use_device_random())
        launcher = FiberLauncher(orders=orders, flags=("-O0",))
        stack.enter_context(use_launcher(RecordedLauncher(launcher)))
        yield


@pytest.fixture
def fast() -> Iterator[None]:
    with fibers(0):
        yield


def block(x: Tensor, bias: Tensor, residual: Tensor) -> Tensor:
    """What stands around a layer of a transformer: bias, GELU, dropout, and the way around it."""
    return F.dropout(F.gelu(x + bias), 0.3) + residual


def step(x: Tensor, bias: Tensor, residual: Tensor) -> tuple[Tensor, ...]:
    """Forward and backward of `block`."""
    inputs = [tensor.detach().requires_grad_() for tensor in (x, bias, residual)]
    y = block(*inputs)
    return y, *torch.autograd.grad(y, inputs, torch.ones_like(y))


def arrays(number: int, dtype: Any, shape: tuple[int, ...] = (7, 9)) -> list[Tensor]:
    """Return x, bias and residual; x and the residual never 0."""
    torch.manual_seed(100 + number)
    tensors = torch.randn(*shape) + 5, torch.randn(shape[-1]), torch.randn(*shape)
    return [tensor.to(dtype) for tensor in tensors]


def run(function: Callable[..., Any], device: str, dtype: Any, steps: int = 5) -> list[Any]:
    """Return the results of some steps, and numbers that are drawn after them."""
    results = []
    inputs = [[x.to(device) for x in arrays(number, dtype)] for number in range(steps)]
    torch.manual_seed(4)
    for tensors in inputs:
        y = function(*tensors)
        results.append([part.detach().cpu().float().numpy() for part in y])
    return [results, torch.rand(3, device=device).tolist()]


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16", "float64"])
def test_forward_and_backward_are_one_kernel_with_the_masks_of_the_cpu(dtype: str) -> None:
    dtype = getattr(torch, dtype)
    with fibers(0, 1, 2) if dtype is torch.float32 else fibers(0):
        eager, cpu = run(step, DEVICE, dtype), run(step, "cpu", dtype)
        compiled = torch.compile(step)
        LAUNCHES.clear()
        own = run(compiled, DEVICE, dtype)
        assert [graph.launches for graph in GRAPHS] == [3], "launched, captured, replayed"
        assert LAUNCHES["place_draw"] == 2, "in one launch and one capture"
        if dtype in (torch.float32, torch.float64):  # 16-bit floats are not decomposed yet
            assert LAUNCHES["fused"] == 2
        assert "fill_mask_float" not in LAUNCHES
        assert not compiled.broken
    assert own[1] == eager[1] == cpu[1], "what is drawn afterwards"
    tolerance = {torch.float32: 1e-6, torch.float64: 1e-12}.get(dtype, 0.1)
    for results in zip(own[0], eager[0], cpu[0], strict=True):
        masks = [gradient != 0 for _, gradient, *_ in results]
        assert 0 < masks[0].sum() < masks[0].size
        for mask in masks[1:]:
            np.testing.assert_array_equal(masks[0], mask)
        for parts in zip(*results, strict=True):
            for part in parts[1:]:
                np.testing.assert_allclose(parts[0], part, atol=tolerance, rtol=tolerance)
    if dtype is torch.float32:
        for first, second in zip(own[0], eager[0], strict=True):
            np.testing.assert_array_equal(first[0], second[0])  # the whole of the forward
    assert len({str(result[1]) for result in own[0]}) == len(own[0]), "each replay draws anew"


LAYOUTS: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "transposed": lambda x, y: F.dropout(x.t() * 2, 0.5) + y.t(),
    "a row": lambda x, y: F.dropout(x, 0.5) * y[0],
    "a column": lambda x, y: F.dropout(x, 0.5) * y[:, :1],
    "channels": lambda x, y: F.dropout2d(x.view(2, 2, -1, 4), 0.5) + y.view(2, 2, -1, 4),
    "two draws": lambda x, y: F.dropout(x, 0.1) + F.dropout(y, 0.9),
    "between others": lambda x, y: torch.randn(*x.shape, device=x.device) + F.dropout(x, 0.5) + (
        torch.rand(*x.shape, device=x.device).sum()
    ),
    "a mask that is returned": lambda x, y: (torch.rand(*x.shape, device=x.device) > 0.5).float(),
    "alpha": lambda x, y: F.alpha_dropout(x, 0.5, True) - y,
}  # fmt: skip


@pytest.mark.parametrize("name", LAYOUTS)
def test_any_layout_has_the_numbers_of_the_eager_draw(name: str, fast: None) -> None:
    x, y = (tensor.to(DEVICE) for tensor in (torch.rand(4, 8) + 1, torch.rand(4, 8)))
    results = []
    for function in (LAYOUTS[name], torch.compile(LAYOUTS[name])):
        torch.manual_seed(3)
        results.append([function(x, y).tolist() for _ in range(4)])
        results[-1].append(torch.rand(2, device=DEVICE).tolist())
    np.testing.assert_allclose(np.array(results[0][:-1]), np.array(results[1][:-1]), rtol=1e-6)
    assert results[0][-1] == results[1][-1]


@pytest.mark.parametrize("dtype", ["float64", "float32", "bfloat16", "float16", "bool"])
@pytest.mark.parametrize("shape", [(1,), (31,), (8, 33), (1024,)])
def test_elements_share_a_block_of_words(dtype: str, shape: tuple[int, ...]) -> None:
    """One to sixteen elements are done at a time, each with the word of its position."""
    memory = getattr(torch, dtype).numpy
    line = "y = uniform_float(d) >= 0.25f;"
    element = Element(
        (), (Variable("y", memory),), (), (line,), "", '#include "philox.cuh"', ("d",)
    )
    seed, offset = 7, 2**32 - 2
    place = StrictArray(np.array([seed, offset], np.uint64))
    with use_launcher(FiberLauncher()):
        (y,) = FusedKernel(element, shape, (0,))(place)
    exact = PhiloxRandom(np, seed)
    exact.offset = offset
    expected = exact.uniform(shape, np.dtype(np.float32)) >= 0.25
    np.testing.assert_array_equal(y.get().astype(bool), expected)


def test_backward_computes_the_mask_again(fast: None) -> None:
    """Between the two kernels lies a product: no mask is kept for backward."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Dropout(0.4), nn.Linear(8, 3))
    models = [model.to(DEVICE), None]
    models[1] = nn.Sequential(*[type(layer)(*args) for layer, args in zip(
        model, ((6, 8), (), (0.4,), (8, 3)), strict=True)]).to(DEVICE)  # fmt: skip
    models[1].load_state_dict(model.state_dict())

    def train(model: nn.Module) -> Any:
        def step(x: Tensor) -> Tensor:
            model.zero_grad()
            loss = model(x).square().mean()
            loss.backward()
            return loss

        return step

    eager, compiled = train(models[0]), torch.compile(train(models[1]))
    losses = []
    for function in (eager, compiled):
        torch.manual_seed(1)
        losses.append([function(torch.ones(5, 6, device=DEVICE)).item() for _ in range(5)])
    np.testing.assert_allclose(*losses, rtol=1e-5)
    for first, second in zip(*(model.parameters() for model in models), strict=True):
        np.testing.assert_allclose(first.grad.cpu().numpy(), second.grad.cpu().numpy(), atol=1e-6)
    (place,) = [line for line in compiled.code.splitlines() if "place_of_draw(" in line]
    name = place.split("=")[0].strip()
    code = compiled.code.splitlines()
    readers = [line for line in code if re.search(rf"fused_\d\(.*\b{name}\b", line)]
    assert len(readers) == 2, compiled.code


def test_a_generator_in_an_old_state_draws_as_it_did(fast: None) -> None:
    """A state from before Philox goes on in its stream, on the host."""
    x = torch.ones(6, 5).to(DEVICE)

    def drop(x: Tensor) -> Tensor:
        return F.dropout(x * 2, 0.5)

    results = []
    for function in (drop, torch.compile(drop)):
        torch.manual_seed(0)
        masks = [function(x).tolist() for _ in range(4)]
        generator = default_generator(get(DEVICE))
        generator.random = LegacyRandom(get(DEVICE))
        masks += [function(x).tolist() for _ in range(3)]
        torch.manual_seed(1)
        results.append([*masks, function(x).tolist()])
    assert results[0] == results[1]
