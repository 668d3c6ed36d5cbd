"""The CPU as a GPU: what is right passes, what is wrong in a kernel is found."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

from edutorch.kernels.gpu.module import CudaModule, launch, use_launcher
from tests.gpu.fibers import FiberLauncher, KernelError, check_addresses, has_compiler

pytestmark = pytest.mark.skipif(not has_compiler(), reason="g++ is not installed")

TEXT = """
#include "reduce.cuh"

extern "C" __global__ void moments(const float* x, float* y, int n) {
    __shared__ float scratch[WARP];
    float sum = 0, squares = 0;
    for (int i = threadIdx.x; i < n; i += blockDim.x) sum += x[blockIdx.x * n + i];
    float mean = block_reduce<Sum>(sum, scratch, 0.f) / n;
    for (int i = threadIdx.x; i < n; i += blockDim.x) {
        float centered = x[blockIdx.x * n + i] - mean;
        squares += centered * centered;
    }
    squares = block_reduce<Sum>(squares, scratch, 0.f);
    if (threadIdx.x == 0) y[blockIdx.x] = squares / n;
}

extern "C" __global__ void reversed(const bfloat16* x, float16* y, int n) {
    extern __shared__ float tile[];
    int i = threadIdx.x;
    if (i < n) tile[i] = widen(x[i]);
    __syncthreads();
    if (i < n) y[i] = narrow<float16>(tile[n - 1 - i]);
}

extern "C" __global__ void votes(const int* x, int* y) {
    int lane = threadIdx.x % 32;
    unsigned positive = __ballot_sync(ALL_LANES, x[threadIdx.x] > 0);
    int below = __popc(positive & ((1u << lane) - 1));
    int left = __shfl_up_sync(ALL_LANES, x[threadIdx.x], 1);
    if (x[threadIdx.x] > 0) atomicAdd(&y[64], 1);
    y[threadIdx.x] = 1000 * below + (lane ? left : 0) + __any_sync(ALL_LANES, x[threadIdx.x] > 8);
}
"""
MODULE = CudaModule.from_text("examples", TEXT)


def moments(module: CudaModule, n: int = 1023) -> float:
    """Return the largest error of the variances of three rows."""
    x, y = np.random.default_rng(0).normal(size=(3, n)).astype("f"), np.empty(3, "f")
    with use_launcher(FiberLauncher([MODULE])):
        launch(module, "moments", 3, 96, (x, y, np.int32(n)))
    return float(abs(y - x.astype("d").var(1)).max())


def reverse(module: CudaModule, n: int = 100, size: int = 100, shared_bytes: int = 400) -> bool:
    """Return whether a row of 16-bit floats was reversed."""
    x = np.random.default_rng(0).normal(size=size).astype(ml_dtypes.bfloat16)
    y = np.empty(size, np.float16)
    with use_launcher(FiberLauncher([MODULE])):
        launch(module, "reversed", 1, 128, (x, y, np.int32(n)), shared_bytes)
    return bool((y == x[::-1].astype("f").astype(np.float16)).all())


def mutant(old: str, new: str) -> CudaModule:
    """Return the examples with one change."""
    assert MODULE.text.count(old) >= 1, old
    return CudaModule("mutant", MODULE.text.replace(old, new))


def test_right_kernels_pass() -> None:
    assert moments(MODULE) < 1e-6
    assert reverse(MODULE)
    x = np.random.default_rng(0).integers(-9, 10, 64, dtype=np.int32)
    y = np.zeros(65, np.int32)
    with use_launcher(FiberLauncher([MODULE], orders=(0,))):
        launch(MODULE, "votes", 1, 64, (x, y))
    for warp in (slice(0, 32), slice(32, 64)):
        positive = np.r_[0, np.cumsum(x[warp] > 0)[:-1]]
        left = np.r_[0, x[warp][:-1]]
        assert (y[warp] == 1000 * positive + left + (x[warp] > 8).any()).all()
    assert y[64] == (x > 0).sum()


def test_every_missing_barrier_is_found() -> None:
    text, caught = MODULE.text, 0
    barriers = [place for place in range(len(text)) if text.startswith("__syncthreads();", place)]
    for place in barriers:
        changed = CudaModule("mutant", text[:place] + text[place + len("__syncthreads();") :])
        try:
            assert moments(changed) < 1e-6 and reverse(changed)
        except (KernelError, AssertionError):
            caught += 1
    assert caught == len(barriers) == 3


def test_undefined_behaviour_is_named() -> None:
    with pytest.raises(KernelError, match="byte 0 behind the dynamic shared memory"):
        reverse(MODULE, shared_bytes=396)
    with pytest.raises(KernelError, match="byte 200 of an array of 200 bytes was written"):
        reverse(MODULE, n=101, shared_bytes=404)
    divergent = mutant(
        "    __syncthreads();\n    if (i < n) y",
        "    if (i < n) __syncthreads();\n    if (i < n) y",
    )
    with pytest.raises(KernelError, match="threads wait for each other"):
        reverse(divergent)
    with pytest.raises(KernelError, match="does not name the lane"):
        moments(mutant("#define ALL_LANES 0xffffffffu", "#define ALL_LANES 0xfffffffeu"))


def test_types_of_arguments_are_checked() -> None:
    x, y = np.empty(4, np.float16), np.empty(4, np.float16)
    z = x.astype(ml_dtypes.bfloat16)
    with use_launcher(FiberLauncher([MODULE])):
        with pytest.raises(KernelError, match=r"parameter 0 is \*b2, the argument \*f2"):
            launch(MODULE, "reversed", 1, 32, (x, y, np.int32(4)), 16)
        with pytest.raises(KernelError, match="parameter 2 is i4, the argument i8"):
            launch(MODULE, "reversed", 1, 32, (z, y, np.int64(4)), 16)
        with pytest.raises(KernelError, match="3 parameters, 2 arguments"):
            launch(MODULE, "reversed", 1, 32, (x, y), 16)
    with pytest.raises(KernelError, match="g\\+\\+ refuses broken"):
        moments(CudaModule("broken", MODULE.text.replace("int n)", "int m)")))


@pytest.mark.slow
def test_a_read_out_of_bounds_is_found() -> None:
    """AddressSanitizer sees the element behind the last row."""
    launcher = FiberLauncher([MODULE], orders=(0,))
    launcher.record = []
    x, y = np.ones((3, 33), "f"), np.empty(3, "f")
    with use_launcher(launcher):
        launch(MODULE, "moments", 3, 32, (x, y, np.int32(33)))
    check_addresses(launcher.record)
    wrong = launcher.record[0]._replace(module=mutant("i < n; i +=", "i <= n; i +="))
    with pytest.raises(KernelError, match="heap-buffer-overflow"):
        check_addresses([wrong])
