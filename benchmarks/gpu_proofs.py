"""The smallest proofs of captured steps: what a GPU's libraries allow inside of a CUDA graph.

`gpu.sh first` runs them before anything else. Each is one line, "ok" or "FAILED" with the error,
and none stops the next. On the strict device, with stand-ins for the libraries, they run in the
tests (`tests/gpu/test_gpu_script.py`).
"""

from __future__ import annotations

import traceback
from collections.abc import Callable
from contextlib import AbstractContextManager
from time import perf_counter
from typing import Any

import numpy as np

Proof = Callable[[str], None]

PROOFS: dict[str, Proof] = {}
"""By what they prove, in the order in which they run."""


def proof(text: str) -> Callable[[Proof], Proof]:
    """Add a proof to the list, as a decorator."""

    def add(function: Proof) -> Proof:
        PROOFS[text] = function
        return function

    return add


def first(device: str = "cuda") -> int:
    """Run all proofs and print a line for each; return how many failed."""
    failed = 0
    for text, prove in PROOFS.items():
        start = perf_counter()
        try:
            prove(device)
        except Exception as error:  # noqa: BLE001  the next one is tried all the same
            failed += 1
            lines = traceback.format_exc().splitlines()
            place = next(line for line in reversed(lines) if line.startswith("  File"))
            print(f"FAILED  {text}: {type(error).__name__}: {error}\n       {place.strip()}")
        else:
            print(f"ok      {text} ({perf_counter() - start:.2f} s)", flush=True)
    print(f"{len(PROOFS) - failed} of {len(PROOFS)} proofs hold on {device}", flush=True)
    return failed


def arrays(device: str, *shapes: tuple[int, ...], dtype: str = "float32") -> list[Any]:
    """Return tensors of normal numbers on a device."""
    import edutorch

    random = np.random.default_rng(0)
    made = [edutorch.tensor(random.standard_normal(s).astype("float32")) for s in shapes]
    return [tensor.to(getattr(edutorch, dtype)).to(device)._array for tensor in made]


def compare(y: Any, expected: Any, tolerance: float = 1e-4) -> None:
    """Compare an array of the device with NumPy's.

    Raises: AssertionError: they differ.
    """
    np.testing.assert_allclose(
        y.get().astype("float32"), np.asarray(expected, "float32"), rtol=tolerance, atol=tolerance
    )


def captured(device: str, compute: Callable[[], Any]) -> list[Any]:
    """Launch a computation once, capture it, spoil its results, replay it, and return them."""
    import edutorch
    from edutorch.compilation.cuda_graphs import CupyGraphs

    def run() -> list[Any]:
        results = compute()
        assert results is not None, "it is left to the definition: is the library installed?"
        return list(results) if isinstance(results, tuple | list) else [results]

    driver = CupyGraphs(edutorch.backends.get(device))
    driver.launch(run)
    results, replay = driver.capture(run)
    for result in results:
        result[...] = 0
    replay()
    return results


@proof("the device computes")
def prove_device(device: str) -> None:
    a, b = arrays(device, (64, 32), (64, 32))
    compare(a + b, a.get() + b.get())


@proof("elementwise kernels of CuPy, captured and replayed")
def prove_capture(device: str) -> None:
    (a,) = arrays(device, (64, 32))
    (y,) = captured(device, lambda: a * 2 + 1)
    compare(y, a.get() * 2 + 1)


@proof("a product by cuBLASLt (nvmath), captured")
def prove_product(device: str) -> None:
    from edutorch.kernels.gpu.matmul import product

    a, b = arrays(device, (64, 32), (32, 48))
    (y,) = captured(device, lambda: product(a, b))
    compare(y, a.get() @ b.get(), 1e-3)


@proof("x Wᵀ + bias and ReLU in one product, captured")
def prove_epilogue(device: str) -> None:
    from edutorch.kernels.gpu.matmul import product

    x, w, b = arrays(device, (64, 32), (48, 32), (48,))
    (y,) = captured(device, lambda: product(x, w.T, b, "relu"))
    compare(y, np.maximum(x.get() @ w.get().T + b.get(), 0), 1e-3)


@proof("GELU kept for backward, and its derivative with the bias's gradient, captured")
def prove_gelu(device: str) -> None:
    from edutorch.kernels.gpu.matmul import product, product_gradient

    x, w, b, g, after = arrays(device, (64, 32), (32, 48), (48,), (64, 16), (16, 48))

    def compute() -> Any:
        y, aux = product(x, w, b, "gelu", aux=True)
        return (y, *product_gradient(g, after, aux, "gelu", bias=True))

    y, gradient, total = captured(device, compute)
    before = x.get() @ w.get() + b.get()
    t = np.tanh(np.sqrt(2 / np.pi) * (before + 0.044715 * before**3))
    compare(y, 0.5 * before * (1 + t), 1e-2)
    inner = np.sqrt(2 / np.pi) * (1 + 0.134145 * before * before)
    slope = 0.5 * (1 + t) + 0.5 * before * (1 - t * t) * inner
    compare(gradient, (g.get() @ after.get()) * slope, 1e-2)
    compare(total, ((g.get() @ after.get()) * slope).sum(0), 5e-2)


@proof("a layer with ReLU and its gradients: one product for each, captured")
def prove_layer(device: str) -> None:
    import edutorch
    from edutorch.compilation.product_epilogues import (
        activation_gradients,
        linear_activation,
        parameter_gradients,
    )

    x, w, b, g, after = arrays(device, (64, 32), (48, 32), (48,), (64, 16), (16, 48))
    settings: dict[str, Any] = {"activation": "relu", "shape": (64, 48)}

    def compute() -> Any:
        y, kept = linear_activation(x, w, b, keeps=True, is_weight=True, **settings)
        assert kept.aux is not None, "cuBLASLt has no RELU_AUX_BIAS for these matrices"
        gradient, total = activation_gradients(g, after, y, kept, sums=True, **settings)
        return (y, gradient, total, *parameter_gradients(gradient, x))

    results = captured(device, compute)
    wide = [edutorch.tensor(array.get(), requires_grad=True) for array in (x, w, b)]
    before = edutorch.nn.functional.linear(*wide)
    before.retain_grad()
    y = before.relu()
    (y @ edutorch.tensor(after.get()).T).backward(edutorch.tensor(g.get()))
    expected = (y.detach(), before.grad, wide[2].grad, wide[1].grad, wide[2].grad)
    for result, wanted in zip(results, expected, strict=True):
        compare(result, wanted.numpy(), 1e-2)


@proof("a batch of products in bfloat16, captured")
def prove_bfloat16(device: str) -> None:
    from edutorch.kernels.gpu.matmul import product

    a, b = arrays(device, (8, 64, 32), (8, 32, 48), dtype="bfloat16")
    (y,) = captured(device, lambda: product(a, b))
    compare(y, a.get().astype("float32") @ b.get().astype("float32"), 5e-2)


@proof("a convolution with bias and ReLU by cuDNN, captured")
def prove_convolution(device: str) -> None:
    import edutorch
    from edutorch.kernels.gpu.cudnn import Window, convolution

    x, w, b = arrays(device, (4, 8, 16, 16), (16, 8, 3, 3), (16,))
    window = Window((1, 1), ((1, 1), (1, 1)), (1, 1))
    (y,) = captured(device, lambda: convolution(x, w, b, window, relu=True))
    x, w, b = (edutorch.tensor(array.get()) for array in (x, w, b))
    compare(y, edutorch.nn.functional.conv2d(x, w, b, padding=1).relu().numpy(), 1e-2)


@proof("gradients of a convolution by cuDNN in bfloat16, captured")
def prove_convolution_backward(device: str) -> None:
    import edutorch
    from edutorch.kernels.gpu.cudnn import transposed_convolutions, weight_gradients

    x, w, g = arrays(device, (4, 8, 16, 16), (16, 8, 3, 3), (4, 16, 16, 16), dtype="bfloat16")
    by_input, by_weight = transposed_convolutions(), weight_gradients()
    window = (1, 1), ((1, 1), (1, 1)), (1, 1), 1

    def compute() -> Any:
        made = by_input(g, w, (16, 16), *window), by_weight(x, g, (3, 3), *window)
        assert made[0] is not None, "cuDNN has no dgrad for these images"
        assert made[1] is not None, "cuDNN has no wgrad for these images"
        return made

    results = captured(device, compute)
    wide = [edutorch.tensor(a.get().astype("float32"), requires_grad=True) for a in (x, w)]
    y = edutorch.nn.functional.conv2d(*wide, padding=1)
    y.backward(edutorch.tensor(g.get().astype("float32")))
    for result, leaf in zip(results, wide, strict=True):
        assert leaf.grad is not None
        compare(result, leaf.grad.numpy(), 5e-2)


@proof("batch norm by cuDNN: in training, by statistics, backward, captured")
def prove_batch_norm(device: str) -> None:
    import edutorch
    from edutorch.kernels.gpu import cudnn_norms
    from edutorch.kernels.gpu.channel_norms import Sets, moments_of

    x, g, w, b = arrays(device, (4, 8, 16, 16), (4, 8, 16, 16), (8,), (8,))

    def compute() -> Any:
        made = cudnn_norms.batch_norm(x, w, b, 1e-5)
        assert made is not None, "cuDNN has no batch norm for these images: our kernels compute"
        again = cudnn_norms.batch_norm_by_statistics(x, made[1], made[2], w, b, 1e-5)
        assert again is not None, "cuDNN has no batch norm by statistics for these images"
        moments = moments_of(x, Sets.of(x.shape, None), 1e-5)
        gradients = cudnn_norms.batch_norm_backward(g, x, w, moments)
        assert gradients is not None, "cuDNN has no gradients of batch norm for these images"
        return (*made, again, *gradients)

    results = captured(device, compute)
    wide = [edutorch.tensor(array.get(), requires_grad=True) for array in (x, w, b)]
    y = edutorch.nn.functional.batch_norm(wide[0], None, None, *wide[1:], training=True)
    y.backward(edutorch.tensor(g.get()))
    values, axes = x.get(), (0, 2, 3)
    grads = [tensor.grad.numpy() for tensor in wide if tensor.grad is not None]
    y = y.detach().numpy()
    expected = (y, values.mean(axes), values.var(axes), y, *grads)
    for result, wanted in zip(results, expected, strict=True):
        compare(result, wanted, 1e-3)


@proof("attention by cuDNN in bfloat16, forward and backward, captured")
def prove_attention(device: str) -> None:
    import edutorch
    from edutorch.kernels.gpu.cudnn import attention_backward, attention_forward

    shape = (2, 4, 64, 32)
    q, k, v, g = arrays(device, shape, shape, shape, shape, dtype="bfloat16")
    forward, backward = attention_forward(), attention_backward()

    def compute() -> Any:
        return (forward(q, k, v, 32**-0.5, True), *backward(g, q, k, v, 32**-0.5, True))

    results = captured(device, compute)
    wide = [
        edutorch.tensor(array.get().astype("float32"), requires_grad=True) for array in (q, k, v)
    ]
    y = edutorch.nn.functional.scaled_dot_product_attention(*wide, is_causal=True)
    y.backward(edutorch.tensor(g.get().astype("float32")))
    for result, expected in zip(results, (y.detach(), *(t.grad for t in wide)), strict=True):
        compare(result, expected.numpy(), 5e-2)


@proof("random numbers, captured: each replay draws others")
def prove_random(device: str) -> None:
    import edutorch
    from edutorch.compilation.cuda_graphs import CupyGraphs

    backend = edutorch.backends.get(device)
    generator, driver = backend.generator(0), CupyGraphs(backend)

    def run() -> list[Any]:
        return [generator.uniform((64,), np.dtype("float32"))]

    driver.launch(run)
    (y,), replay = driver.capture(run)
    replay()
    before = y.get().copy()
    replay()
    assert not np.array_equal(before, y.get()), "two replays have drawn the same numbers"


def capture_stream() -> AbstractContextManager[Any]:
    """Return a block in which a stream that can be captured is the current one."""
    from edutorch import cuda

    return cuda.stream(cuda.Stream())


@proof("dropout in a torch.cuda.CUDAGraph: replays draw on as eager calls do")
def prove_user_graph(device: str) -> None:
    import edutorch
    from edutorch.cuda.graphs import CUDAGraph

    x = edutorch.ones(64).to(device)

    def drop() -> Any:
        return edutorch.nn.functional.dropout(x, 0.5)

    edutorch.manual_seed(3)
    eager = [drop().tolist() for _ in range(3)]
    edutorch.manual_seed(3)
    graph = CUDAGraph()
    with capture_stream():
        graph.capture_begin()
        y = drop()
        graph.capture_end()
    for number, wanted in enumerate(eager):
        graph.replay()
        assert y.tolist() == wanted, f"replay {number} has drawn other numbers"


@proof("a training step as one graph, compared with the eager step")
def prove_step(device: str) -> None:
    from .gpu_steps import Step

    eager, compiled = Step("mlp", device), Step("mlp", device, compiled=True)
    for _ in range(6):
        losses = eager.loss(), compiled.loss()
        assert abs(losses[0] - losses[1]) < 1e-4, f"the losses differ: {losses}"
    text = compiled.run.explain()
    assert "one graph: captured" in text, text
    from edutorch import backends

    if backends.get(device).kernels:  # a card's, or fibers
        assert "linear_activation(" in compiled.run.code, "bias and ReLU are not part of a product"
