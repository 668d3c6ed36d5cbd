"""What `benchmarks/gpu.sh` runs on a GPU, run here on the strict device, with the stand-ins."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from benchmarks import gpu_proofs, gpu_steps
from edutorch.compilation.captured_step import use_graph_driver
from edutorch.compilation.cuda_graphs import CupyGraphs
from edutorch.kernels.gpu.cudnn import use_cudnn
from edutorch.kernels.gpu.matmul import use_bindings
from tests.gpu.libraries import use_libraries, use_user_graphs
from tests.gpu.recording import recording

SCRIPT = Path(gpu_steps.__file__).with_name("gpu.sh")


@pytest.fixture
def stand_ins() -> Iterator[None]:
    from tests.gpu.cudnn_stand_in import cudnn
    from tests.gpu.stand_ins import cublas_lt

    bindings, _ = cublas_lt()
    with ExitStack() as stack:
        stack.enter_context(recording())
        stack.enter_context(use_graph_driver("strict", CupyGraphs))
        stack.enter_context(use_bindings(bindings))
        stack.enter_context(use_cudnn(cudnn()))
        yield


def test_script_is_valid_bash_and_names_its_parts() -> None:
    subprocess.run(["bash", "-n", str(SCRIPT)], check=True)
    text = SCRIPT.read_text(encoding="utf-8")
    for part in ("first", "tests", "sanitize", "speed", "fuzz", "memory", "wheels"):
        assert f"\n{part})\n" in text
        assert re.search(rf"^#   {part} ", text, re.MULTILINE) or part == "wheels"
    wrong = subprocess.run(["bash", str(SCRIPT), "nothing"], capture_output=True, text=True)
    assert wrong.returncode == 2
    assert "no part nothing" in wrong.stderr


def test_no_part_takes_more_than_nine_minutes() -> None:
    text = SCRIPT.read_text(encoding="utf-8")
    parts = dict(re.findall(r"\n(\w+)\)\n(.*?)\n    ;;", text, re.DOTALL))
    for name, limit in (("first", 240), ("tests", 540), ("sanitize", 540), ("speed", 540)):
        seconds = [
            int(number)
            for number in re.findall(
                r"(?:pytest|run|INT) (?:\"\$\{SECONDS_OF_TESTS:-)?(\d+)", parts[name]
            )
        ]
        repeated = 2 if "for tool in" in parts[name] else 1
        assert seconds, name
        assert sum(seconds) * repeated <= limit, name


def test_the_code_in_the_script_is_there() -> None:
    text = SCRIPT.read_text(encoding="utf-8")
    names = re.findall(r"from (benchmarks\.\w+) import (\w+); (?:sys\.exit\()?(\w+)\(", text)
    assert {name for _, name, _ in names} == {"first", "all_speed", "memory"}
    for module, name, called in names:
        assert name == called
        loaded = __import__(module, fromlist=[name])
        assert callable(getattr(loaded, name))


def test_proofs_hold_on_the_stand_ins(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gpu_proofs, "capture_stream", use_user_graphs)
    with recording(), use_graph_driver("strict", CupyGraphs), use_libraries():
        failed = gpu_proofs.first("strict")
    lines = capsys.readouterr().out.splitlines()
    assert failed == 0, lines
    assert sum(line.startswith("ok") for line in lines) == len(gpu_proofs.PROOFS)


def test_a_proof_that_fails_is_one_line(
    stand_ins: None, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """On the strict device's own random numbers, which are NumPy's, one of them does."""
    text = "random numbers, captured: each replay draws others"
    monkeypatch.setattr(gpu_proofs, "PROOFS", {text: gpu_proofs.PROOFS[text]})
    assert gpu_proofs.first("strict") == 1
    assert capsys.readouterr().out.startswith(f"FAILED  {text}: ")


def test_replays_memory_and_rows(stand_ins: None) -> None:
    text = gpu_steps.replays(steps=22, device="strict")
    assert text.count("22 replays equal 22 launches") == 2, text
    furthest = [float(number) for number in re.findall(r"in 20 steps: (\S+)", text)]
    assert max(furthest) < 1e-4
    assert "after all of 20 steps: 0 bytes" in gpu_steps.memory(20, "strict")
    assert "goal 1.05" in gpu_steps.live_cost(turns=1, steps=2, device="strict", key="mlp")


def test_the_table_of_speeds(stand_ins: None, monkeypatch: pytest.MonkeyPatch) -> None:
    works: dict[str, Any] = {
        name: gpu_steps.Step("mlp", "strict", compiled=compiled)
        for name, compiled in ((gpu_steps.EAGER, False), (gpu_steps.COMPILED, True))
    }
    monkeypatch.setattr(gpu_steps, "works_of", lambda key, device: works)
    table = gpu_steps.speed(("mlp",), "strict", budget=0.5)
    assert "MLP 784-128-10, b64" in table
    assert "- / 1.3" in table


def test_networks_of_the_table_can_be_built() -> None:
    import edutorch

    assert set(gpu_steps.SMALL) <= set(gpu_steps.NETWORKS)
    with edutorch.device("meta"):
        model = gpu_steps.NETWORKS["gpt"].make(edutorch)
    assert sum(p.numel() for p in model.parameters()) > 120e6
