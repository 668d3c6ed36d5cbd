"""NVRTC compiles every kernel, for every architecture, without a GPU."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from edutorch.errors import CudaCompileError
from edutorch.kernels.gpu import module as gpu_module
from edutorch.kernels.gpu import nvrtc
from edutorch.kernels.gpu.module import CudaModule
from tests.gpu.all_texts import all_modules, elementwise_modules, fused_modules
from tests.gpu.row_checks import row_modules
from tests.gpu.training_cases import training_modules

pytest.importorskip("cupy_backends.cuda.libs.nvrtc", reason="CuPy and NVRTC are not installed")


def compile_all(modules: list[CudaModule], arch: str) -> None:
    """Compile distinct texts; each has machine code."""
    for module in dict.fromkeys(modules):
        assert len(nvrtc.compile_cubin(module, arch)) > 1000, module.name


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16", "float64"])
def test_elementwise_kernels_compile(dtype: str) -> None:
    compile_all(elementwise_modules(dtype), "sm_90")


def test_kernels_of_training_steps_compile() -> None:
    modules = training_modules()
    assert len(modules) >= 8  # optimizers, gradients
    compile_all(modules, "sm_90")


def test_fused_groups_and_kernels_on_rows_compile() -> None:
    compile_all([*fused_modules(), *row_modules(["float32", "bfloat16"])], "sm_90")


@pytest.mark.slow
@pytest.mark.parametrize("arch", ["sm_80", "sm_90", "sm_100", "sm_120"])
def test_everything_compiles_for_every_architecture(arch: str) -> None:
    compile_all(all_modules(), arch)


SCALE = """
#include "common.cuh"
extern "C" __global__ void scale(float *x, float factor, int size) {
    for (int i = global_index(); i < size; i += global_size()) x[i] *= factor;
}
"""


def test_a_text_that_does_not_compile_shows_the_line_and_the_log() -> None:
    wrong = CudaModule.from_text("wrong", SCALE.replace("*= factor", "*= facto"))
    with pytest.raises(CudaCompileError) as caught:
        nvrtc.compile_cubin(wrong, "sm_90")
    message = str(caught.value)
    assert 'identifier "facto" is undefined' in message
    assert "> " in message and "x[i] *= facto;" in message
    assert "EDUTORCH_KERNELS=off" in message
    assert isinstance(caught.value, RuntimeError)


def test_an_unknown_architecture_is_named_with_those_there_are() -> None:
    with pytest.raises(CudaCompileError, match=r"does not compile for sm_20[\s\S]*sm_90"):
        nvrtc.compile_cubin(CudaModule.from_text("scale", SCALE), "sm_20")


def test_machine_code_is_kept_by_text_and_architecture(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(nvrtc, "user_cache_folder", lambda name: tmp_path)
    module = CudaModule.from_text("scale", SCALE)
    first = nvrtc.compiled_file(module, "sm_90")
    stamp = Path(first).stat().st_mtime_ns
    assert nvrtc.compiled_file(module, "sm_90") == first
    assert Path(first).stat().st_mtime_ns == stamp  # not compiled again
    assert nvrtc.compiled_file(module, "sm_80") != first
    other = CudaModule.from_text("scale", SCALE.replace("*=", "+="))
    assert nvrtc.compiled_file(other, "sm_90") != first
    assert not list(tmp_path.glob("*.part"))


def test_a_header_is_written_out_once() -> None:
    module = CudaModule.from_text("twice", '#include "reduce.cuh"\n#include "common.cuh"\n')
    assert module.text.count("struct float16 {") == 1
    with pytest.raises(FileNotFoundError):
        CudaModule.from_text("none", '#include "there_is_none.cuh"\n')


def test_indices_are_64_bits_only_where_needed() -> None:
    assert gpu_module.index_type(2**30) is np.int32
    assert gpu_module.index_type(10, 2**31) is np.int64
