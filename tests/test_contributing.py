"""The recipes of CONTRIBUTING.md are followed: a copy of the tree gets an op and an optimizer.

(The recipe of a live panel is followed in `tests/viz/test_panel.py`.)
"""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow
ROOT = Path(__file__).resolve().parent.parent
COPIED = ("edutorch", "tests", "widgets", "pyproject.toml", "CONTRIBUTING.md", "README.md")
LEFT_OUT = shutil.ignore_patterns("__pycache__", "node_modules", "golden", "mutants")


def recipe(title: str) -> list[str]:
    """Return the Python blocks of a section of CONTRIBUTING.md."""
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    section = re.search(rf"^## {title}.*?(?=^## )", text, re.DOTALL | re.MULTILINE)
    assert section is not None, f"CONTRIBUTING.md has no section {title}"
    blocks = re.findall(r"^ *```python\n(.*?)^ *```", section[0], re.DOTALL | re.MULTILINE)
    return [textwrap.dedent(block) for block in blocks]


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """Copy the tree."""
    for name in COPIED:
        source = ROOT / name
        if source.is_dir():
            shutil.copytree(source, tmp_path / name, ignore=LEFT_OUT)
        else:
            shutil.copy(source, tmp_path / name)
    return tmp_path


def edit(path: Path, old: str, new: str) -> None:
    text = path.read_text(encoding="utf-8")
    assert text.count(old) == 1, f"{old!r} stands {text.count(old)} times in {path.name}"
    path.write_text(text.replace(old, new), encoding="utf-8")


def run_tests(copy: Path, word: str, *paths: str) -> int:
    """Run the tests of a copy that a word chooses, and return how many passed."""
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-k", word, *paths]
    environment = {**os.environ, "PYTHONPATH": str(copy)}
    done = subprocess.run(command, cwd=copy, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-1000:]
    return int(re.findall(r"(\d+) passed", done.stdout)[-1])


def test_an_op_is_added_in_one_file(copy: Path) -> None:
    block, _ = recipe("Add an op")  # the other one is of a kernel
    path = copy / "edutorch/ops/elementwise.py"
    edit(path, '"ceil", ', '"bump", "ceil", ')
    path.write_text(f"{path.read_text(encoding='utf-8')}\n\n{block}", encoding="utf-8")
    every = [path.name for path in (copy / "tests").glob("test_every_op*.py")]
    assert run_tests(copy, "bump", *(f"tests/{name}" for name in every)) >= 10
    program = "import edutorch as t; x = t.ones(2); print(t.bump(x), x.bump_(), t.Tensor.bump)"
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=copy, capture_output=True, text=True, check=True,
        env={**os.environ, "PYTHONPATH": str(copy)},
    )  # fmt: skip
    assert "0.5000" in done.stdout


SIGN_DESCENT = """
import edutorch as torch
from edutorch.optim.fused import FusedKernel

step, was_fused = FusedKernel.step, []

def watched_step(self, *arguments):
    was_fused.append(step(self, *arguments))
    return was_fused[-1]

def weights(steps, kernel=True):
    FusedKernel.step = watched_step if kernel else lambda *arguments: False
    torch.manual_seed(0)
    model = torch.nn.Linear(200, 50)  # large enough for a kernel
    optimizer = torch.optim.SignDescent(model.parameters(), lr=0.01)
    x = torch.randn(50, 200)
    for _ in range(steps):
        optimizer.zero_grad()
        loss = (model(x) - x[:, :50]).square().mean()
        loss.backward()
        optimizer.step()
    return loss.item(), model.weight

first, last = weights(1)[0], weights(40)
by_the_rule = weights(40, kernel=False)
assert last[0] < first / 5, (first, last[0])
assert torch.equal(last[1], by_the_rule[1])
print("fused", sum(was_fused))
"""


def test_an_optimizer_is_a_file_and_an_import(copy: Path) -> None:
    (block,) = recipe("Add an optimizer")
    folder = copy / "edutorch/optim"
    header = (folder / "sgd.py").read_text(encoding="utf-8").partition("__all__")[0]
    imports = "from ..ops import zeros_like\nfrom .update_rule import check_not_negative\n"
    (folder / "sign_descent.py").write_text(f"{header}{imports}\n\n{block}", encoding="utf-8")
    edit(folder / "__init__.py", "from .sgd import SGD\n",
         "from .sgd import SGD\nfrom .sign_descent import SignDescent\n")  # fmt: skip
    edit(folder / "__init__.py", '"SGD", ', '"SGD", "SignDescent", ')
    done = subprocess.run(
        [sys.executable, "-c", SIGN_DESCENT], cwd=copy, capture_output=True, text=True,
        env={**os.environ, "PYTHONPATH": str(copy), "EDUTORCH_KERNELS": "wait"},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-2000:]
    if importlib.util.find_spec("numba"):
        assert int(done.stdout.removeprefix("fused ")) >= 30
