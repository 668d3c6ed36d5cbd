"""Files that are damaged, or made to do harm: one clear error each, little memory, no escape."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.house import ROOT

pytest.importorskip("PIL", reason="needs the extra `vision`")
pytest.importorskip("scipy", reason="needs the extra `vision`")

CLEAR = ("DamagedFileError", "MissingFileError")


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="limits its memory as Linux can")
def test_hostile_files(tmp_path):
    root = tmp_path / "root"
    root.mkdir()
    command = [sys.executable, "-m", "tests.vision.hostile_files", root]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT)
    assert done.returncode == 0, done.stderr
    results = json.loads(done.stdout.splitlines()[-1])
    assert len(results) > 60
    wrong = {
        name: result
        for name, result in results.items()
        if result[0] not in CLEAR or str(root / name) not in result[1]
    }
    assert not wrong, json.dumps(wrong, indent=1)
    assert [path.name for path in tmp_path.iterdir()] == ["root"]
    written = {path.name for path in root.rglob("*")}
    assert not written & {"escaped.txt", "good.txt", "link", "bomb", "attacked"}
    assert not (ROOT / "attacked").exists() and not Path("/tmp/escaped.txt").exists()
