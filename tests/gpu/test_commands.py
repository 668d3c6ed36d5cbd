"""`python -m edutorch kernels` and `doctor --gpu`, and the texts of kernels."""

from __future__ import annotations

import pytest

from edutorch import backends, kernels
from edutorch.__main__ import main
from edutorch.backends.cupy import problems
from edutorch.cli import gpu
from edutorch.errors import InvalidValueError
from edutorch.kernels.gpu.module import use_launcher
from tests.gpu.fibers import FiberLauncher, has_compiler


def test_all_kernels_of_a_device_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["kernels", "--device", "cuda"]) == 0
    printed = capsys.readouterr().out
    assert "gelu/input" in printed and "gpu/elementwise.py" in printed
    assert "FUSED_STEP" in printed
    assert main(["kernels"]) == 0
    assert "cpu/softmax.py" in capsys.readouterr().out


def test_a_device_without_kernels_is_refused() -> None:
    with pytest.raises(InvalidValueError, match="none for the device 'meta'"):
        kernels.report("meta")
    with pytest.raises(InvalidValueError, match="no kernel for 'there_is_none'"):
        kernels.source("there_is_none")


@pytest.mark.skipif(not problems(), reason="there is a GPU here")
def test_without_a_gpu_one_sentence_says_what_is_missing(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["doctor", "--gpu"]) == 1
    printed = capsys.readouterr().out
    assert printed.count("\n") == 1
    assert printed.startswith("No GPU to examine: ")


@pytest.fixture
def strict_as_cuda(monkeypatch: pytest.MonkeyPatch) -> None:
    """The device strict answers to "cuda"."""
    monkeypatch.setattr(gpu, "problems", list)
    monkeypatch.setitem(backends._BY_NAME, "cuda", backends.get("strict"))


@pytest.mark.skipif(not has_compiler(), reason="g++ is not installed")
def test_the_ten_proofs_hold_on_the_strict_device(
    strict_as_cuda: None, capsys: pytest.CaptureFixture[str]
) -> None:
    with use_launcher(FiberLauncher(orders=(0,))):
        code = gpu.doctor_gpu()
    printed = capsys.readouterr().out
    assert code == 0, printed
    assert "10 of 10 proofs hold" in printed


def test_a_proof_of_a_kernel_fails_where_none_ran(
    strict_as_cuda: None, capsys: pytest.CaptureFixture[str]
) -> None:
    assert gpu.doctor_gpu() == 1  # no launcher: definitions compute, and compute well
    printed = capsys.readouterr().out
    assert "no kernel ran for gelu: the definition computed it" in printed
    assert "6 of 10 proofs hold" in printed


def test_a_proof_that_fails_is_shown_and_counts(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail() -> None:
        raise gpu.WrongResultError("cuda", "differs")

    monkeypatch.setattr(gpu, "problems", list)
    monkeypatch.setattr(gpu, "PROOFS", {"one": fail})
    assert gpu.doctor_gpu() == 1
    assert "WrongResultError: cuda: differs" in capsys.readouterr().out


def test_the_text_of_a_kernel_names_its_definition() -> None:
    text = kernels.source("gelu")
    assert text.startswith("// gelu, as in edutorch/nn/functional/activation.py:")
    assert 'extern "C" __global__ void gelu_elements(' in text
    assert "Pack<float, 4>" in text
    assert "Pack<bfloat16, 8>" in kernels.source("gelu", dtype="bfloat16")
