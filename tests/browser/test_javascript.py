"""Types and unit tests of `widgets/`, where node and its packages are there."""

from __future__ import annotations

import os
import shutil
import subprocess

import pytest

from tests.browser.lab import ROOT

pytestmark = pytest.mark.browser


@pytest.mark.parametrize("script", ["types", "test"])
def test_the_browser_code(script: str) -> None:
    npm = shutil.which("npm")
    if npm is None or not (ROOT / "widgets" / "node_modules").is_dir():
        reason = "no node packages (cd widgets && npm install --no-package-lock)"
        if os.environ.get("EDUTORCH_REQUIRE_NODE") == "1":
            pytest.fail(f"EDUTORCH_REQUIRE_NODE=1, but {reason}")
        pytest.skip(reason)
    result = subprocess.run(
        [npm, "run", "--silent", script],
        cwd=ROOT / "widgets",
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert result.returncode == 0, result.stdout + result.stderr
