"""Without the extras `onnx` and `serve`, all of it imports; a call says what to install."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.serve.running import ROOT

EXTRAS = {
    "onnx": ["onnx", "onnx_ir", "onnxruntime"],
    "serve": ["starlette", "uvicorn", "prometheus_client", "httptools", "uvloop"],
}
BLOCKED = [name for names in EXTRAS.values() for name in names]
START = f"""
import sys
for name in {BLOCKED}:
    sys.modules[name] = None
import edutorch as torch
from edutorch import nn
model, x = nn.Linear(4, 2), torch.ones(3, 4)
"""


def run(code: str) -> subprocess.CompletedProcess[str]:
    """Run Python that has none of the extras."""
    words = [sys.executable, "-c", START + code]
    return subprocess.run(words, capture_output=True, text=True, cwd=ROOT)


def test_everything_else_imports_and_runs(tmp_path):
    done = run(f"""
import edutorch.export, edutorch.jit, edutorch.onnx, edutorch.serve
import edutorch.serve.loaders, edutorch.serve.manifests, edutorch.serve.protocol
program = torch.export.export(model, (x,))
torch.export.save(program, {str(tmp_path / "net.edu")!r})
traced = torch.jit.trace(model, x)
traced.save({str(tmp_path / "net.pt")!r})
assert torch.equal(torch.jit.load({str(tmp_path / "net.pt")!r})(x), model(x))
from edutorch.__main__ import main
sys.exit(main(["serve", {str(tmp_path)!r}, "--manifest", "container", "-o", {str(tmp_path)!r}]))
""")
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "Containerfile").is_file()


@pytest.mark.parametrize(
    ("code", "extra"),
    [
        ("torch.onnx.export(model, (x,), 'net.onnx')", "onnx"),
        ("edutorch.onnx.load('net.onnx')", "onnx"),
        ("import edutorch.serve as s; s.serve(s.Settings('.'))", "serve"),
    ],
)
def test_a_call_names_the_extra(code, extra):
    done = run(f"import edutorch.onnx\n{code}")
    assert done.returncode == 1
    assert "MissingExtraError" in done.stderr
    assert f'pip install "edutorch[{extra}]"' in done.stderr
