"""The CUDA text of random numbers gives the CPU's, to the last bit, at any number of threads."""

from __future__ import annotations

import importlib

import numpy as np
import pytest

import edutorch
from edutorch.backends import get
from edutorch.backends.philox import PhiloxRandom, philox4x32
from edutorch.backends.philox_device import DeviceRandom
from edutorch.kernels.gpu import random
from edutorch.kernels.gpu.module import CudaModule, launch, use_launcher
from edutorch.kernels.gpu.nvrtc import compile_cubin
from tests.backends.test_philox import KNOWN_ANSWERS, as_words
from tests.gpu.fibers import FiberLauncher, KernelError, check_addresses, has_compiler

pytestmark = pytest.mark.skipif(not has_compiler(), reason="g++ is not installed")

SEED = 0xF2345678_9ABCDEF0
SIZES = [0, 1, 2, 3, 5, 31, 33, 1023]
MANY = 8193

BLOCKS = CudaModule.from_text(
    "philox_blocks",
    """
#include "philox.cuh"

extern "C" __global__ void words_of(const uint32 *counters, const uint32 *keys, uint32 *y) {
    int i = threadIdx.x;
    Words counter;
    for (int j = 0; j < 4; ++j) counter.at[j] = counters[4 * i + j];
    Words words = philox4x32(counter, joined(keys[2 * i], keys[2 * i + 1]));
    for (int j = 0; j < 4; ++j) y[4 * i + j] = words.at[j];
}
""",
)


@pytest.fixture(scope="module")
def launcher():
    return FiberLauncher([random.text(), BLOCKS])


@pytest.mark.parametrize(
    "arch",
    [
        "sm_90",
        *(pytest.param(arch, marks=pytest.mark.slow) for arch in ("sm_80", "sm_100", "sm_120")),
    ],
)
def test_the_text_compiles(arch):
    pytest.importorskip("cupy_backends", reason="NVRTC comes with CuPy's wheels")
    assert len(compile_cubin(random.text(), arch)) > 10_000


@pytest.fixture
def pair(launcher):
    """A generator whose kernels run, and the definition, in the same state."""
    with use_launcher(launcher):
        device, exact = DeviceRandom(np, SEED), PhiloxRandom(np, SEED)
        device.offset = exact.offset = 2**32 - 7  # the second word of the counter changes soon
        yield device, exact
        assert device.offset == exact.offset
        assert device.device_state().tolist() == [SEED, exact.offset, 0]


def test_the_known_answers_of_random123(launcher):
    counters, keys, expected = (
        np.array([as_words(row[column]) for row in KNOWN_ANSWERS], np.uint32) for column in range(3)
    )
    y = np.zeros_like(expected)
    with use_launcher(launcher):
        launch(BLOCKS, "words_of", 1, 3, (counters, keys, y))
    np.testing.assert_array_equal(y, expected)
    assert philox4x32(as_words(KNOWN_ANSWERS[0][0]), (0, 0)) == tuple(y[0])


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
@pytest.mark.parametrize("distribution", ["uniform", "normal"])
def test_floats(pair, distribution, dtype):
    numpy_dtype = getattr(edutorch, dtype).numpy
    for size in [*SIZES, MANY]:
        y, expected = (getattr(generator, distribution)((size,), numpy_dtype) for generator in pair)
        assert y.dtype == numpy_dtype
        np.testing.assert_array_equal(y, expected)


@pytest.mark.parametrize("values", [1, 10, 3 * 2**30, 2**32, 3 * 2**61, 2**64])
def test_integers(pair, values):
    low = -(values // 2)
    for size in [*SIZES, MANY]:
        y, expected = (generator.integers(low, low + values, (size,)) for generator in pair)
        np.testing.assert_array_equal(y, expected)


def test_permutations(pair):
    for size in [*SIZES, MANY]:
        y, expected = (generator.permutation(size) for generator in pair)
        np.testing.assert_array_equal(y, expected)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
def test_dropout_drops_the_same_on_the_cpu_strict_and_the_gpu(launcher, dtype):
    """A GPU's whole `nn.functional.dropout`: the mask comes from one kernel."""
    x = edutorch.ones(11, 7, dtype=getattr(edutorch, dtype))
    masks = []
    for device in ("cpu", "strict"):
        edutorch.manual_seed(5)
        edutorch.rand(3, device=device)
        masks.append(edutorch.nn.functional.dropout(x.to(device), 0.3).cpu())
    with use_launcher(launcher):
        generator = DeviceRandom(np, 5)
        generator.uniform((3,), np.dtype(np.float32))
        mask = generator.dropout_mask((11, 7), 0.3, x._array.dtype)
    assert 0 < (mask == 0).sum() < 77
    for other in masks:
        np.testing.assert_array_equal(other.numpy() if dtype != "bfloat16" else other._array, mask)


def test_dropout_takes_the_kernel_of_a_gpu(launcher, monkeypatch):
    """On a device with kernels nothing else is launched, and the mask is that of the CPU."""
    strict = get("strict")
    monkeypatch.setattr(type(strict), "is_accelerator", True)
    generator = edutorch.Generator("strict")
    generator.random = DeviceRandom(strict.xp, 3)
    module = importlib.import_module("edutorch.nn.functional.dropout")
    monkeypatch.setattr(module, "random_source", lambda *_: generator.random)
    x = edutorch.full((6, 4), 2.0, device="strict")
    launcher.launched.clear()
    with use_launcher(launcher):
        y = edutorch.nn.functional.dropout(x, 0.5)
    assert launcher.launched == {("random", "fill_mask_float")}
    edutorch.manual_seed(3)
    expected = edutorch.nn.functional.dropout(edutorch.full((6, 4), 2.0), 0.5)
    assert edutorch.equal(y.cpu(), expected)


def test_a_replay_draws_other_numbers(launcher):
    """What a CUDA graph records is launched again and again with the same arguments."""
    with use_launcher(launcher):
        generator, exact = DeviceRandom(np, SEED), PhiloxRandom(np, SEED)
        y = np.empty(9, np.float32)
        state = generator.device_state()
        with generator.captured() as draws:
            generator.fill_uniform(y)
            state[:] = SEED, 0, 0  # a capture does not run it
        for _ in range(3):
            generator.replayed(draws)
            launch(random.text(), "fill_uniform_float", 1, 256, (
                state, np.uint64(draws.blocks), y, np.int64(9),
            ))  # fmt: skip
            np.testing.assert_array_equal(y, exact.uniform((9,), np.dtype(np.float32)))
        np.testing.assert_array_equal(
            generator.normal((3,), np.dtype(np.float64)), exact.normal((3,), np.dtype(np.float64))
        )


MUTANTS = {
    "no barrier": ("__syncthreads();  // all threads of this block have read it", ""),
    "a block too early": ("(uint64)gridDim.x - 1", "(uint64)gridDim.x - 2"),
    "the counter stays": ("memory->finished = 0;", ""),
    "another shift": ("(word >> 8) * 5.9", "(word >> 9) * 5.9"),
    "no upper half": ("(uint32)(block >> 32), attempt", "0u, attempt"),
    "one pack too many": ("if (count >= N)", "if (count > 0)"),
}


@pytest.mark.parametrize("name", MUTANTS)
def test_mistakes_are_found(name, monkeypatch):
    right, wrong = MUTANTS[name]
    text = random.text()
    assert right in text.text
    mutant = CudaModule("mutant", text.text.replace(right, wrong))
    monkeypatch.setattr(random, "text", lambda: mutant)
    dtype = np.dtype(np.float32)

    def agree() -> bool:
        with use_launcher(FiberLauncher([mutant])):
            device, exact = DeviceRandom(np, SEED), PhiloxRandom(np, SEED)
            device.offset = exact.offset = 2**33
            return all(
                np.array_equal(device.uniform((size,), dtype), exact.uniform((size,), dtype))
                for size in (4, 5000, 5001, 12)
            )

    try:
        assert not agree()
    except KernelError:
        pass  # a race, or a write out of bounds


def test_addresses(launcher):
    """Under AddressSanitizer, each kernel once, at sizes that leave parts of blocks."""
    with use_launcher(launcher):
        generator = DeviceRandom(np, SEED)
        launcher.record = []
        try:
            for dtype in map(np.dtype, (np.float32, np.float64)):
                generator.uniform((1027,), dtype), generator.normal((5,), dtype)
                generator.dropout_mask((31,), 0.5, dtype)
            generator.dropout_mask((33,), 0.5, np.dtype(np.float16))
            generator.integers(0, 10, (7,)), generator.integers(0, 2**40, (7,))
            generator.permutation(9)
            check_addresses(launcher.record)
        finally:
            launcher.record = None
