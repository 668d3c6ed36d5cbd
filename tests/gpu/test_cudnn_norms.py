"""Batch norm by cuDNN: the frontend checks the graphs, a stand-in computes them by NumPy."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

import edutorch as torch
from edutorch import dtypes, nn
from edutorch.backends import kernel_registry
from edutorch.backends.strict_array import StrictArray
from edutorch.kernels.gpu import cudnn_norms
from edutorch.kernels.gpu.cudnn import use_cudnn
from edutorch.kernels.gpu.module import use_launcher
from edutorch.nn import functional as F
from tests.gpu.cudnn_stand_in import Cudnn, cudnn
from tests.gpu.fibers import FiberLauncher
from tests.gpu.recording import recording

SHAPE = (3, 4, 5, 6)


@pytest.fixture
def library() -> Iterator[Cudnn]:
    module = cudnn()
    launcher = FiberLauncher(orders=(0,), flags=("-O0",))
    with recording(), use_cudnn(module), use_launcher(launcher):
        yield module


def names(library: Cudnn) -> list[str]:
    """Return the node of each graph that was built."""
    return [graph.nodes[0].name.partition(".")[0] for graph in library.graphs]


def models(dtype: torch.dtype, **settings: object) -> list[nn.BatchNorm2d]:
    """Return the same layer on the CPU and on the strict device."""
    torch.manual_seed(0)
    made = [nn.BatchNorm2d(4, **settings) for _ in range(2)]  # type: ignore[arg-type]
    if made[0].affine:
        with torch.no_grad():
            made[0].weight.uniform_(0.5, 2)
            made[0].bias.normal_()
    made[1].load_state_dict(made[0].state_dict())
    return [made[0].to(dtype), made[1].to(dtype).to("strict")]


def compare(value: object, expected: object, tolerance: float) -> None:
    pair = [tensor.detach().cpu().float().numpy() for tensor in (value, expected)]  # type: ignore[attr-defined]
    np.testing.assert_allclose(*pair, atol=tolerance, rtol=tolerance)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("affine", [True, False])
def test_training_and_evaluation(library: Cudnn, dtype: torch.dtype, affine: bool) -> None:
    """Values, gradients and running statistics are those of the definition on the CPU."""
    layers = models(dtype, affine=affine)
    tolerance = 1e-5 if dtype is torch.float32 else 2e-2
    for number in range(3):
        values = torch.randn(*SHAPE) * 3 + number
        values = values.to(dtype)
        inputs = [values.clone().to(place).requires_grad_() for place in ("cpu", "strict")]
        g = torch.randn(*SHAPE).to(dtype)
        results = [layer(x) for layer, x in zip(layers, inputs, strict=True)]
        for y in results:
            y.backward(g.to(y.device))
        compare(results[1], results[0], tolerance)
        compare(inputs[1].grad, inputs[0].grad, tolerance)
        for first, second in zip(*(layer.parameters() for layer in layers), strict=True):
            compare(second.grad, first.grad, 10 * tolerance)
        for first, second in zip(*(layer.buffers() for layer in layers), strict=True):
            compare(second, first, tolerance)
    assert names(library) == ["batchnorm", "batchnorm_backward"]
    for layer in layers:
        layer.eval()
    with torch.no_grad():
        compare(layers[1](inputs[1]), layers[0](inputs[0]), tolerance)
    assert names(library)[2:] == ["batchnorm_inference"]
    compare(layers[1](inputs[1]), layers[0](inputs[0]), tolerance)  # by ops, which have gradients
    assert len(names(library)) == 3


@pytest.mark.parametrize("name", ["float32", "float16", "bfloat16"])
@pytest.mark.parametrize("wide", [True, False])
def test_kernels_of_sixteen_bits(library: Cudnn, name: str, wide: bool) -> None:
    """Images of 16 bits, and parameters of float32 or of 16 bits, without a cast of the image."""
    dtype = np.dtype(name) if name != "bfloat16" else dtypes.bfloat16.numpy
    random = np.random.default_rng(0)
    x, g = (random.standard_normal(SHAPE).astype(dtype) for _ in range(2))
    w, b = (random.standard_normal(4).astype("float32" if wide else dtype) for _ in range(2))
    arrays = [StrictArray(array) for array in (x, w, b)]
    made = cudnn_norms.batch_norm(*arrays, 1e-5)
    assert made is not None
    leaves = [torch.tensor(array.astype("float32")).requires_grad_() for array in (x, w, b)]
    y = F.batch_norm(leaves[0], None, None, *leaves[1:], training=True)
    y.backward(torch.tensor(g.astype("float32")))
    tolerance = {"float32": 1e-5, "float16": 2e-3, "bfloat16": 2e-2}[name]
    assert made[0].dtype == dtype
    assert made[1].dtype == made[2].dtype == np.float32
    np.testing.assert_allclose(made[0].get().astype("float32"), y.detach().numpy(), atol=tolerance)
    wide_x = x.astype("float64")
    np.testing.assert_allclose(made[1].get(), wide_x.mean((0, 2, 3)), atol=1e-5)
    np.testing.assert_allclose(made[2].get(), wide_x.var((0, 2, 3)), atol=1e-5, rtol=1e-5)
    slots = kernel_registry.slot("native_batch_norm/joint_vjp", "cuda")
    gradients = slots(StrictArray(g), *arrays, 1e-5)
    assert [array.dtype for array in gradients] == [dtype, np.float32, np.float32]
    for gradient, leaf in zip(gradients, leaves, strict=True):
        np.testing.assert_allclose(
            gradient.get().astype("float32"), leaf.grad.numpy(), atol=20 * tolerance, rtol=tolerance
        )
    assert names(library) == ["batchnorm", "batchnorm_backward"]


@pytest.mark.parametrize("case", ["float64", "three axes", "five axes", "empty", "integers"])
def test_what_is_left_to_other_kernels(library: Cudnn, case: str) -> None:
    shape = {"three axes": (3, 4, 5), "five axes": (3, 4, 5, 2, 2), "empty": (0, 4, 5, 6)}
    dtype = {"float64": np.float64, "integers": np.int64}.get(case, np.float32)
    x = StrictArray(np.ones(shape.get(case, SHAPE), dtype))
    w = StrictArray(np.ones(4, dtype))
    assert cudnn_norms.batch_norm(x, w, w, 1e-5) is None
    assert cudnn_norms.batch_norm_by_statistics(x, w, w, w, w, 1e-5) is None
    assert cudnn_norms.batch_norm_backward(x, x, w, StrictArray(np.ones((4, 3), "f4"))) is None
    assert library.graphs == []


def test_other_shapes_and_refused_graphs_are_computed_by_own_kernels(library: Cudnn) -> None:
    torch.manual_seed(1)
    for shape in ((6, 4, 5), SHAPE):
        if shape == SHAPE:
            library.refused.add("batchnorm")
            library.refused.add("batchnorm_backward")
        inputs = [torch.randn(*shape).requires_grad_()]
        inputs.append(inputs[0].detach().to("strict").requires_grad_())
        results = [F.batch_norm(x, None, None, training=True) for x in inputs]
        for y in results:
            y.square().sum().backward()
        compare(results[1], results[0], 1e-5)
        compare(inputs[1].grad, inputs[0].grad, 1e-4)
    assert library.graphs == []


def test_views_are_copied(library: Cudnn) -> None:
    """Images with the channels last are read row by row."""
    torch.manual_seed(2)
    x = torch.randn(3, 5, 6, 4).permute(0, 3, 1, 2)
    expected = F.batch_norm(x, None, None, training=True)
    moved = x.permute(0, 2, 3, 1).contiguous().to("strict").permute(0, 3, 1, 2)
    compare(F.batch_norm(moved, None, None, training=True), expected, 1e-5)
    assert names(library) == ["batchnorm"]


def test_the_stand_in_wants_all_that_the_lowering_needs(library: Cudnn) -> None:
    """Python takes a graph without running statistics, the compiled half does not."""
    dtype = library.data_type.FLOAT
    graph = library.pygraph(io_data_type=dtype)
    x, scale = (
        graph.tensor(dim=dim, stride=(4, 1, 1, 1), data_type=dtype)
        for dim in ((2, 4, 1, 1), (1, 4, 1, 1))
    )
    graph.batchnorm(input=x, scale=scale, bias=scale, epsilon=scale)
    with pytest.raises(AssertionError, match="batchnorm needs"):
        graph.build([library.heur_mode.A])
