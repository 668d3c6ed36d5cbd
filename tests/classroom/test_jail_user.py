"""The jail's tests once more, as an ordinary user: namespaces are then built without root."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

FOLDER = Path(__file__).parent
ROOT = FOLDER.parents[1]

AS_USER = """
import importlib.util, os, sys, tempfile
linux_file, prefix, *command = sys.argv[1:]
spec = importlib.util.spec_from_file_location("linux", linux_file)
linux = importlib.util.module_from_spec(spec)
spec.loader.exec_module(linux)
linux.unshare(linux.CLONE_NEWNS)
linux.mount("none", "/", "", linux.MS_REC | linux.MS_PRIVATE)
closed = [p for p in reversed([prefix, *map(str, __import__("pathlib").Path(prefix).parents)])
          if not os.stat(p).st_mode & 0o001]
if closed:  # Python is installed where only root may look: show this user that part alone
    hold = tempfile.mkdtemp()
    linux.mount(prefix, hold, "", linux.MS_BIND)
    linux.mount("tmpfs", closed[0], "tmpfs", 0, "mode=755")
    os.makedirs(prefix, exist_ok=True)
    linux.mount(hold, prefix, "", linux.MS_BIND)
    linux._libc.umount2(hold.encode(), linux.MNT_DETACH)
    os.rmdir(hold)
os.setgroups([])
os.setresgid(54321, 54321, 54321)
os.setresuid(54321, 54321, 54321)
linux.prctl(linux.PR_SET_DUMPABLE, 1)
os.execv(command[0], command)
"""


def run_as_user(*command):
    """Run Python as an ordinary user, and return the result."""
    linux_file = ROOT / "edutorch" / "classroom" / "jail" / "linux.py"
    environment = {**os.environ, "HOME": "/nonexistent", "PYTHONPATH": str(ROOT)}
    return subprocess.run(
        [sys.executable, "-c", AS_USER, str(linux_file), sys.base_prefix, sys.executable, *command],
        capture_output=True, text=True, cwd=ROOT, env=environment, timeout=1200,
    )  # fmt: skip


@pytest.mark.slow
@pytest.mark.skipif(
    not sys.platform.startswith("linux") or os.geteuid() != 0,
    reason="not root: the other tests of the jail run as an ordinary user already",
)
@pytest.mark.parametrize("file", ["test_jail.py", "test_jail_walls.py", "test_jail_hostile.py"])
def test_as_an_ordinary_user(file):
    result = run_as_user("-m", "pytest", "-q", "-p", "no:cacheprovider", str(FOLDER / file))
    assert result.returncode == 0, result.stdout[-5000:] + result.stderr[-2000:]
    assert " passed" in result.stdout
