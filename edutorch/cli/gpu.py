"""`python -m edutorch kernels`, and `doctor --gpu`: ten small proofs that a GPU works."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from .. import kernels
from ..backends.cupy import problems
from ..backends.kernel_registry import runs
from ..errors import EdutorchError

__all__ = ["doctor_gpu", "list_kernels"]

Proof = Callable[[], None]


def list_kernels(device: str) -> int:
    """Print the kernels of a device, their files and their states; return the exit code."""
    print(kernels.report(device))
    return 0


def doctor_gpu() -> int:
    """Run ten proofs on the GPU, and print a table.

    Without a GPU it prints one sentence that says what is missing. Returns the exit code.
    """
    missing = problems()
    if missing:
        print(f"No GPU to examine: {'; '.join(missing)}. See `python -m edutorch doctor`.")
        return 1
    failed = 0
    for name, proof in PROOFS.items():
        start = time.perf_counter()
        try:
            proof()
            outcome = "ok"
        except Exception as error:  # noqa: BLE001 (each is reported; the next proof may hold)
            failed += 1
            outcome = f"{type(error).__name__}: {error}"
        print(f"{name:28} {1000 * (time.perf_counter() - start):8.1f} ms  {outcome}")
    print(f"{len(PROOFS) - failed} of {len(PROOFS)} proofs hold")
    return 1 if failed else 0


class WrongResultError(EdutorchError, AssertionError):
    """The GPU computes something else than the CPU."""


def compare(function: Callable[[Any], Any], *arguments: np.ndarray, tolerance: float) -> None:
    """Raise WrongResultError unless a function does the same on the GPU as on the CPU."""
    from ..ops import tensor

    on_host = function(*(tensor(argument) for argument in arguments)).detach().numpy()
    on_gpu = function(*(tensor(argument, device="cuda") for argument in arguments))
    error = float(np.abs(on_gpu.detach().cpu().numpy() - on_host).max())
    if not error <= tolerance:
        raise WrongResultError("cuda", f"differs from the CPU by {error:.3g}")


class NoKernelError(EdutorchError, RuntimeError):
    """The definition was computed where a kernel should have run."""


@contextmanager
def expect_kernels(*keys: str) -> Iterator[None]:
    """Raise NoKernelError unless the kernels of these ops or rules run inside the block."""
    before = dict(runs)
    yield
    missing = [key for key in keys if runs[key] == before.get(key, 0)]
    if missing:
        raise NoKernelError(
            "cuda", f"no kernel ran for {', '.join(missing)}: the definition computed it",
            hint="EDUTORCH_KERNELS=off and reference_only() switch kernels off",
        )  # fmt: skip


def samples(*shape: int) -> np.ndarray:
    """Return the same random numbers each time, in float32."""
    return np.random.default_rng(0).standard_normal(shape).astype(np.float32)


def gradient(function: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Return the function that computes the gradient of a function's sum."""

    def run(x: Any) -> Any:
        x.requires_grad_()
        function(x).sum().backward()
        return x.grad

    return run


def prove_copies() -> None:
    """To the GPU and back."""
    compare(lambda x: x, samples(1000), tolerance=0)


def prove_sums() -> None:
    """A kernel of CuPy."""
    compare(lambda x: x.sum(0), samples(1000, 8), tolerance=1e-3)


def prove_products() -> None:
    """cuBLAS."""
    compare(lambda x: x @ x.T, samples(64, 32), tolerance=0.1)  # TF32 has 11 bits


def prove_half_products() -> None:
    """Products of batches in bfloat16."""
    from ..dtypes import bfloat16

    compare(
        lambda x: (x.to(bfloat16) @ x.to(bfloat16)).float(), samples(4, 16, 16), tolerance=0.25
    )  # fmt: skip


def prove_compilation() -> None:
    """NVRTC, and a kernel of our own."""
    from ..nn.functional import gelu

    with expect_kernels("gelu"):
        compare(gelu, samples(1023), tolerance=1e-5)


def prove_derivatives() -> None:
    """Backward, by a kernel of our own."""
    from ..nn.functional import gelu

    with expect_kernels("gelu/input"):
        compare(gradient(gelu), samples(33, 31), tolerance=1e-4)


def prove_softmax() -> None:
    """Rows."""
    with expect_kernels("softmax", "softmax/input"):
        compare(gradient(lambda x: x.softmax(1).square()), samples(32, 100), tolerance=1e-4)


def prove_random_numbers() -> None:
    """The same seed gives the same numbers again."""
    from ..ops import rand
    from ..random import manual_seed

    manual_seed(0)
    first = rand(1000, device="cuda").cpu().numpy()
    manual_seed(0)
    second = rand(1000, device="cuda").cpu().numpy()
    if not np.array_equal(first, second) or not 0.4 < first.mean() < 0.6:
        raise WrongResultError("cuda", "random numbers do not repeat, or are not uniform")


def prove_convolution() -> None:
    """Convolution."""
    from ..nn.functional import conv2d

    weight = samples(4, 3, 3, 3)
    compare(conv2d, samples(2, 3, 16, 16), weight, tolerance=0.1)


def prove_training() -> None:
    """Three steps of AdamW."""
    from .. import optim
    from ..ops import tensor

    def train(device: str) -> np.ndarray:
        x = tensor(samples(20_000), device=device, requires_grad=True)
        optimizer = optim.AdamW([x], lr=0.01)
        for _ in range(3):
            optimizer.zero_grad()
            (x - 1).square().mean().backward()
            optimizer.step()
        return x.detach().cpu().numpy()

    with expect_kernels("FUSED_STEP"):
        on_gpu = train("cuda")
    error = float(np.abs(on_gpu - train("cpu")).max())
    if not error <= 1e-4:
        raise WrongResultError("cuda", f"differs from the CPU by {error:.3g}")


PROOFS: dict[str, Proof] = {
    "copies": prove_copies, "sums": prove_sums, "matrix products": prove_products,
    "bfloat16 batches": prove_half_products, "kernels by NVRTC": prove_compilation,
    "derivatives": prove_derivatives, "softmax": prove_softmax,
    "random numbers": prove_random_numbers, "convolution": prove_convolution,
    "three steps of AdamW": prove_training,
}  # fmt: skip
"""The ten smallest proofs, by what each of them shows."""
