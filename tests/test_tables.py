"""Rows that run in one item are reported as if each had been a test."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

CONFTEST = """
from tests import tables
def pytest_addoption(parser):
    tables.add_option(parser)
def pytest_configure(config):
    config.pluginmanager.register(tables)
"""
TESTS = """
import pytest

@pytest.mark.parametrize("n", range(5))
def test_rows(n):
    if n == 1:
        assert n == 7, "by an assertion"
    if n == 2:
        pytest.fail("by a call")
    if n == 3:
        pytest.skip("no third row here")
    if n == 4:
        with pytest.raises(ValueError):
            pass

@pytest.mark.parametrize("n", [1, 2])
def test_folders(n, tmp_path):
    assert not list(tmp_path.iterdir())
    (tmp_path / "file").touch()

@pytest.mark.parametrize("n", [1, 2])
def test_all_skipped(n):
    pytest.skip("not at all")
"""


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("project")
    (folder / "conftest.py").write_text(CONFTEST)
    (folder / "test_it.py").write_text(TESTS)
    return folder


def run(project: Path, *options: str) -> str:
    root = Path(__file__).resolve().parent.parent
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-rs", *options],
        cwd=project, capture_output=True, text=True,
        env={**os.environ, "PYTHONPATH": str(root)},
    )  # fmt: skip
    assert done.returncode == 1, done.stdout + done.stderr
    return done.stdout


def test_each_row_that_fails_and_each_reason_is_shown(project: Path) -> None:
    shown = run(project)
    assert "3 of 5 rows fail" in shown
    for word in ("by an assertion", "by a call", "DID NOT RAISE", "no third row here"):
        assert word in shown
    assert "not at all" in shown
    assert "1 failed, 2 passed, 1 skipped" in shown  # each folder is a test of its own
    assert "rows of tables: 3 failed, 3 skipped, 1 passed" in shown


@pytest.mark.parametrize("option", ["--no-tables", "-ktest"])
def test_rows_are_tests_where_one_is_chosen(project: Path, option: str) -> None:
    assert "3 failed, 3 passed, 3 skipped" in run(project, option)
