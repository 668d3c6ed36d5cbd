"""NVRTC compiles the kernels on rows, without a GPU."""

from __future__ import annotations

import pytest

from edutorch.kernels.gpu import nvrtc
from tests.gpu.row_checks import row_modules

pytest.importorskip("cupy_backends.cuda.libs.nvrtc", reason="CuPy and NVRTC are not installed")


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_they_compile(dtype: str) -> None:
    for module in row_modules([dtype]):
        assert len(nvrtc.compile_cubin(module, "sm_90")) > 1000, module.name


@pytest.mark.slow
@pytest.mark.parametrize("arch", ["sm_80", "sm_90", "sm_100", "sm_120"])
def test_they_compile_for_every_architecture(arch: str) -> None:
    for module in row_modules():
        assert len(nvrtc.compile_cubin(module, arch)) > 1000, module.name
