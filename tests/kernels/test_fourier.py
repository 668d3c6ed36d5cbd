"""SciPy's Fourier transforms of real rows against the definition."""

from __future__ import annotations

import os
import subprocess
import sys

import numpy as np
import pytest

import edutorch
from edutorch import fft
from edutorch.backends import reference_only

pytest.importorskip("scipy", reason="the kernel is SciPy's")

SHAPES = {"rows": ((50, 100), -1), "columns": ((100, 51), 0), "a batch": ((3, 40, 64), 1),
          "one row": ((5000,), 0), "odd": ((70, 99), 1)}  # fmt: skip


@pytest.mark.parametrize("norm", ["backward", "ortho", "forward"])
@pytest.mark.parametrize("name", SHAPES)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_transforms_are_those_of_the_definition(name, norm, dtype):
    shape, dim = SHAPES[name]
    x = edutorch.tensor(np.random.default_rng(0).standard_normal(shape).astype(dtype))
    n = shape[dim]
    spectra = fft.rfft(x, dim=dim, norm=norm)
    signal = fft.irfft(spectra, n, dim=dim, norm=norm)
    with reference_only():
        expected = fft.rfft(x, dim=dim, norm=norm)
        back = fft.irfft(expected, n, dim=dim, norm=norm)
    tolerance = 1e-5 if dtype is np.float32 else 1e-13
    assert spectra.dtype == expected.dtype
    assert signal.dtype == back.dtype
    largest = expected.abs().max()
    assert (spectra - expected).abs().max() <= tolerance * largest
    assert (signal - back).abs().max() <= tolerance * back.abs().max()


def test_slices_and_what_is_not_finite():
    x = edutorch.tensor(np.random.default_rng(0).standard_normal((100, 200)))
    x[3, 4] = edutorch.inf
    part = x[::2, 1::2]
    with reference_only():
        expected = fft.rfft(part)
    ours = fft.rfft(part)
    assert (ours.isfinite() == expected.isfinite()).all()
    assert edutorch.allclose(ours[0], expected[0])


def test_gradients_pass():
    x = edutorch.rand(60, 80, requires_grad=True)
    fft.irfft(fft.rfft(x) * 2, 80).sum().backward()
    assert edutorch.allclose(x.grad, edutorch.full((60, 80), 2.0), atol=1e-5)


FORKS = """
import os
import edutorch
for _ in range(4):  # the kernel is loaded beside the first calls
    edutorch.fft.irfft(edutorch.fft.rfft(edutorch.rand(200, 1024)), 1024)
for _ in range(300):
    if os.fork() == 0:
        os._exit(0)
    os.wait()
print("done")
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork")
def test_a_process_that_has_transformed_can_fork():
    # SciPy's own threads are ended and begun anew by a fork, in which a process was seen to hang.
    command = [sys.executable, "-W", "ignore", "-c", FORKS]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.stdout == "done\n", done.stderr
