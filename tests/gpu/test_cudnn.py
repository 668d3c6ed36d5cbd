"""Convolutions and attention by cuDNN: the frontend checks the graphs, a stand-in computes them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import edutorch as torch
from edutorch.backends.cupy import CupyBackend
from edutorch.backends.strict import StrictBackend
from edutorch.kernels.gpu.cudnn import (
    Window,
    attention_backward,
    attention_forward,
    convolution,
    use_cudnn,
)
from edutorch.kernels.gpu.module import use_launcher
from edutorch.nn import functional as F
from tests.gpu.cudnn_stand_in import Cudnn, cudnn
from tests.gpu.fibers import FiberLauncher
from tests.gpu.recording import recording


def no_launch(*arguments: Any) -> None:
    raise AssertionError(f"a kernel is launched: {arguments[1]}")


@pytest.fixture
def library() -> Iterator[Cudnn]:
    module = cudnn()
    with recording(), use_cudnn(module), use_launcher(no_launch):
        yield module


def names(library: Cudnn) -> list[str]:
    """Return the first node of each graph that was built."""
    return [graph.nodes[0].name.partition(".")[0] for graph in library.graphs]


def compare(function: Any, *tensors: torch.Tensor, tolerance: float) -> None:
    """Compare values and gradients on the strict device with those on the CPU in float32."""
    ours = [tensor.detach().to("strict").requires_grad_() for tensor in tensors]
    wide = [tensor.detach().float().requires_grad_() for tensor in tensors]
    results = [function(*arguments) for arguments in (ours, wide)]
    g = torch.randn(results[1].shape)
    results[0].backward(g.to(results[0].dtype).to("strict"))
    results[1].backward(g)
    pairs = [(results[0], results[1]), *((a.grad, b.grad) for a, b in zip(ours, wide, strict=True))]
    for value, expected in pairs:
        scale = max(1.0, float(expected.abs().max()))
        np.testing.assert_allclose(
            value.detach().cpu().float().numpy(), expected.detach().numpy(),
            atol=tolerance * scale, rtol=0,
        )  # fmt: skip


CASES = {
    "plain": ((2, 3, 8, 8), (4, 3, 3, 3), {}),
    "padding": ((2, 3, 7, 9), (4, 3, 3, 3), {"padding": (1, 2)}),
    "stride": ((1, 2, 9, 9), (2, 2, 3, 2), {"stride": 2, "dilation": (1, 2)}),
    "groups": ((2, 4, 6, 6), (6, 2, 3, 3), {"groups": 2, "padding": "same"}),
}


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_conv2d(library: Cudnn, name: str, dtype: torch.dtype) -> None:
    torch.manual_seed(0)
    x_shape, w_shape, settings = CASES[name]
    x, w, b = (torch.randn(*s).to(dtype) for s in (x_shape, w_shape, w_shape[:1]))
    tolerance = 1e-5 if dtype is torch.float32 else 3e-2
    compare(lambda x, w, b: F.conv2d(x, w, b, **settings), x, w, b, tolerance=tolerance)
    assert names(library) == ["conv_fprop", "conv_dgrad", "conv_wgrad"]
    compare(lambda x, w, b: F.conv2d(x, w, b, **settings), x, w, b, tolerance=tolerance)
    assert len(library.graphs) == 3  # one for each shape


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_backward_in_sixteen_bits(
    library: Cudnn, name: str, dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Gradients stay in 16 bits, as on a GPU; cuDNN adds them up in float32."""
    monkeypatch.setattr(StrictBackend, "half_products", CupyBackend.half_products)
    torch.manual_seed(0)
    x_shape, w_shape, settings = CASES[name]
    x, w, b = (torch.randn(*s).to(dtype) for s in (x_shape, w_shape, w_shape[:1]))
    tolerance = 4e-3 if dtype is torch.float16 else 3e-2
    compare(lambda x, w, b: F.conv2d(x, w, b, **settings), x, w, b, tolerance=tolerance)
    assert names(library) == ["conv_fprop", "conv_dgrad", "conv_wgrad"]
    expected = library.data_type.HALF if dtype is torch.float16 else library.data_type.BFLOAT16
    for graph in library.graphs:
        tensors = [*graph.nodes[0].inputs.values(), *graph.nodes[-1].outputs.values()]
        assert {tensor.data_type for tensor in tensors} == {expected}
        assert {node.compute_data_type for node in graph.nodes} == {library.data_type.FLOAT}


@pytest.mark.parametrize("shape", [(1, 2, 9), (1, 2, 4, 5, 4)])
def test_other_convolutions_in_sixteen_bits(
    library: Cudnn, shape: tuple[int, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of one axis, which is left to the definition, of three, and transposed."""
    monkeypatch.setattr(StrictBackend, "half_products", CupyBackend.half_products)
    torch.manual_seed(4)
    axes = len(shape) - 2
    x, w = torch.randn(*shape).bfloat16(), torch.randn(3, 2, *(2,) * axes).bfloat16()
    with use_launcher(FiberLauncher(orders=(0,), flags=("-O0",))):
        compare(F.conv1d if axes == 1 else F.conv3d, x, w, tolerance=3e-2)
        transposed = F.conv_transpose1d if axes == 1 else F.conv_transpose3d
        compare(transposed, x, w.transpose(0, 1), tolerance=3e-2)
    assert bool(library.graphs) == (axes == 3)


def test_conv3d_and_transposed(library: Cudnn) -> None:
    torch.manual_seed(1)
    compare(F.conv3d, torch.randn(1, 2, 4, 5, 4), torch.randn(3, 2, 2, 2, 2), tolerance=1e-5)
    compare(
        lambda x, w: F.conv_transpose2d(x, w, stride=2),
        torch.randn(2, 3, 4, 4), torch.randn(3, 2, 3, 3), tolerance=1e-5,
    )  # fmt: skip
    assert set(names(library)) == {"conv_fprop", "conv_dgrad", "conv_wgrad"}


def test_bias_and_relu_are_part_of_the_convolution(library: Cudnn) -> None:
    torch.manual_seed(2)
    x, w, b = torch.randn(2, 3, 6, 6), torch.randn(4, 3, 3, 3), torch.randn(4)
    arrays = [tensor.to("strict")._array for tensor in (x, w, b)]
    y = convolution(*arrays, Window((1, 1), ((1, 1), (1, 1)), (1, 1)), relu=True)
    expected = F.conv2d(x, w, b, padding=1).relu().numpy()
    np.testing.assert_allclose(y.get(), expected, atol=1e-5)
    (graph,) = library.graphs
    assert len(graph.nodes) == 3


@pytest.mark.parametrize("is_causal", [False, True])
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_attention(library: Cudnn, is_causal: bool, dtype: torch.dtype) -> None:
    torch.manual_seed(3)
    # As a GPT splits its heads: the memory is by time, then by head.
    q, k, v = (torch.randn(2, 5, 3, 8).to(dtype).transpose(1, 2) for _ in range(3))
    g = torch.randn(2, 3, 5, 8).to(dtype)
    arrays = [tensor.to("strict")._array for tensor in (q, k, v)]
    wide = [tensor.float().requires_grad_() for tensor in (q, k, v)]
    expected = F.scaled_dot_product_attention(*wide, is_causal=is_causal)
    expected.backward(g.float())
    y = attention_forward()(*arrays, 8**-0.5, is_causal)
    gradients = attention_backward()(g.to("strict")._array, *arrays, 8**-0.5, is_causal)
    tolerance = 2e-3 if dtype is torch.float16 else 2e-2
    pairs = [(y, expected), *zip(gradients, (tensor.grad for tensor in wide), strict=True)]
    for value, wanted in pairs:
        np.testing.assert_allclose(
            value.get().astype("float32"), wanted.detach().numpy(), atol=tolerance, rtol=tolerance
        )
    assert names(library) == ["sdpa", "sdpa_backward"]  # and the first one again


@pytest.mark.parametrize("case", ["float32", "heads of 6", "wide", "causal, longer keys"])
def test_attention_that_is_left_to_the_definition(library: Cudnn, case: str) -> None:
    size = {"heads of 6": 6, "wide": 136}.get(case, 8)
    dtype = torch.float32 if case == "float32" else torch.float16
    q = torch.ones(1, 2, 5, size).to(dtype)
    k = torch.ones(1, 2, 7 if "longer" in case else 5, size).to(dtype)
    arrays = [tensor.to("strict")._array for tensor in (q, k, k)]
    assert attention_forward()(*arrays, 1.0, "causal" in case) is None
    assert attention_backward()(arrays[0], *arrays, 1.0, "causal" in case) is None
    assert library.graphs == []
