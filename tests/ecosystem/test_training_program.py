"""A program for PyTorch and torchvision learns real digits, with the real torchvision."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from edutorch.vision.datasets import write_digits
from tests.house import ROOT
from tests.vision.training_program import ACCURACY, TRAINING

WHERE = "import torchvision; print(torchvision.__version__, torchvision.__file__)\n"


@pytest.mark.slow
def test_the_program_learns_with_the_real_torchvision(tmp_path):
    pytest.importorskip("sklearn", reason="the digits are those of scikit-learn")
    write_digits(tmp_path / "data")
    (tmp_path / "program.py").write_text(WHERE + TRAINING + ACCURACY)
    command = [sys.executable, "-m", "edutorch", "run", "program.py"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, env=environment)
    assert done.returncode == 0, done.stderr
    print(done.stdout)
    assert "site-packages" in done.stdout.splitlines()[0]
    assert done.stdout.count("Loss:") == 5
    assert float(done.stdout.split()[-1]) >= 0.95
