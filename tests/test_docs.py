"""What the README and CONTRIBUTING show is true, and their links lead somewhere."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path

import pytest

import edutorch as torch
from tests.house import lines_of_code
from tests.oracle import require_torch

ROOT = Path(__file__).resolve().parent.parent
IGNORED = {".git", ".venv", "node_modules", ".pytest_cache", "build"}


def pages() -> Iterator[Path]:
    """Yield the Markdown files of the tree, without those of installed packages."""
    for folder, folders, names in os.walk(ROOT):
        folders[:] = [name for name in folders if name not in IGNORED]
        yield from (Path(folder) / name for name in names if name.endswith(".md"))


PAGES = sorted(pages())


def blocks(page: str) -> list[str]:
    """Return the Python examples of a page."""
    text = (ROOT / page).read_text(encoding="utf-8")
    return [textwrap.dedent(block) for block in re.findall(r"```python\n(.*?)```", text, re.DOTALL)]


def test_the_readme_runs():
    first, training, _ = blocks("README.md")
    loader = [(torch.randn(8, 64), torch.randint(0, 10, (8,))) for _ in range(3)]
    names = {"loader": loader}
    exec(first + training, names)
    assert repr(names["x"].grad) == "tensor(8.)"
    assert all(parameter.grad is not None for parameter in names["model"].parameters())


def test_the_readme_shows_the_real_source():
    shown = blocks("README.md")[-1]
    assert shown.strip() in (ROOT / "edutorch/ops/elementwise.py").read_text(encoding="utf-8")


def test_the_op_of_five_minutes_works():
    """In a process of its own: an op cannot be unregistered."""
    setting = """
        from __future__ import annotations
        from typing import Any
        from edutorch import *
        from edutorch.autograd import gradcheck
        from edutorch.backends.numpy import Array
        from edutorch.core.op import elementwise
    """
    check = """
        import doctest
        assert doctest.run_docstring_examples(bump, globals()) is None
        assert gradcheck(bump, tensor([0.2, -0.7], dtype=float64, requires_grad=True))
        print(tensor(1.0).bump_())
    """
    code = textwrap.dedent(setting) + blocks("CONTRIBUTING.md")[0] + textwrap.dedent(check)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert (done.stdout, done.stderr) == ("tensor(0.5000)\n", "")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_links_lead_somewhere(page):
    links = re.findall(r"\]\(([^)#\s]+)\)", page.read_text(encoding="utf-8"))
    here = [link for link in links if not link.startswith(("http:", "https:"))]
    assert [link for link in here if not (page.parent / link).exists()] == []


@pytest.mark.oracle
def test_the_coverage_page_is_up_to_date():
    """Names come and go between PyTorch's versions: the page counts those of 2.13."""
    if not require_torch().__version__.startswith("2.13."):
        pytest.skip("the page counts the names of PyTorch 2.13")
    made = subprocess.run(
        [sys.executable, ROOT / "docs" / "coverage.py", "--print"], capture_output=True, text=True
    )
    page = (ROOT / "docs" / "coverage.md").read_text(encoding="utf-8")
    assert made.stdout == page, "write it again: python docs/coverage.py"


def test_the_reading_path_is_short_and_counted():
    """Twelve files at most, 2,500 lines of code at most, and each count within a tenth."""
    page = (ROOT / "docs" / "reading.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| \d+ \| \[[^]]+\]\(\.\./([^)]+)\) \| (\d+) \|", page, re.MULTILINE)
    counts = {path: len(lines_of_code(ROOT / path)) for path, _ in rows}
    assert 8 <= len(rows) <= 12
    assert sum(counts.values()) <= 2500
    for path, written in rows:
        assert abs(int(written) - counts[path]) <= max(6, 0.1 * counts[path]), (path, counts[path])
