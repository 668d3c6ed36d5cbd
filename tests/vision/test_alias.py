"""`import torchvision` means `edutorch.vision` where the real one is not installed."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys

import pytest

from tests.house import ROOT
from tests.vision.training_program import ACCURACY, TRAINING

pytest.importorskip("PIL", reason="needs the extra `vision`")
pytestmark = pytest.mark.skipif(
    importlib.util.find_spec("torchvision") is not None, reason="the real torchvision is installed"
)

IMPORTS = """
import edutorch.vision as vision
import torchvision
from torchvision import datasets, transforms
from torchvision.transforms import functional as F
import torchvision.transforms.functional as TF
import torchvision.transforms.v2 as v2
from torchvision.datasets.folder import default_loader
from torchvision.datasets.mnist import MNIST
from torchvision.datasets.utils import download_url
from torchvision.utils import make_grid, save_image
from torchvision.io import read_image

assert torchvision is vision and transforms is vision.transforms
assert F is TF is vision.transforms.functional and v2 is vision.transforms.v2
assert MNIST is datasets.MNIST is vision.datasets.MNIST
try:
    import torchvision.transfroms
except ModuleNotFoundError as error:
    print(error)
"""


def run(script: str, folder) -> str:
    path = folder / "program.py"
    path.write_text(script)
    command = [sys.executable, "-m", "edutorch", "run", path]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(command, capture_output=True, text=True, cwd=folder, env=environment)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_modules_are_ours(tmp_path):
    assert run(IMPORTS, tmp_path) == "edutorch has no torchvision.transfroms (yet)\n"


@pytest.mark.slow
def test_a_training_program_learns_real_digits(tmp_path):
    pytest.importorskip("sklearn", reason="needs the extra `lab`")
    from edutorch.vision.datasets import write_digits

    write_digits(tmp_path / "data")
    printed = run(TRAINING + ACCURACY, tmp_path)
    assert printed.count("Loss:") == 5
    assert float(printed.split()[-1]) >= 0.95, printed
