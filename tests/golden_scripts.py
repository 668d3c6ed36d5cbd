"""The loss curves of `tests/scripts` under PyTorch: `python -m tests.golden_scripts` writes them.

The scripts are written as PyTorch's users write them and import nothing of ours.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path

FOLDER = Path(__file__).parent / "scripts"
GOLDEN = Path(__file__).parent / "golden" / "scripts.json"

Curves = dict[str, list[float]]

RUNS: dict[str, tuple[str, ...]] = {
    "gpt": ("gpt.py",),
    "gpt by hand": ("gpt.py", "--flash=False", "--bias=True", "--n_layer=1"),
    "dcgan": ("dcgan.py",),
    "vae": ("vae.py",),
    "reinforce": ("reinforce.py", "--plain-returns"),
    "reinforce exactly": ("reinforce.py", "--double"),
    "seq2seq bahdanau": ("seq2seq.py",),
    "seq2seq luong": ("seq2seq.py", "--attention", "luong"),
    "vision transformer": ("vit.py",),
    "vision transformer of layers": ("vit.py", "--library-layers"),
    "resnet": ("resnet.py",),
    "word language model": ("word_lm.py",),
    "dqn": ("dqn.py",),
    "wgan-gp": ("higher_order.py", "wgan_gp"),
    "maml": ("higher_order.py", "maml"),
    "pinn": ("higher_order.py", "pinn", "--lbfgs-steps=0"),
    "pinn exactly": ("higher_order.py", "pinn", "--double"),
    "style": ("higher_order.py", "style"),
}
"""Each script, with its arguments. It writes its curves to what `--out=` names.

Two runs are in float64. REINFORCE's loss with normalised returns is a sum that nearly cancels,
and a line search turns the last digit of a loss into another step: in float32 PyTorch itself is
as far from its own float64 as we are.
"""

# Each script gets its own folder first on the path, its arguments, and PyTorch's usual settings.
DRIVER = """
import json, os, runpy, sys
library, folder, runs = sys.argv[1], sys.argv[2], json.loads(sys.argv[3])
if library == "edutorch":
    from edutorch import alias
    alias.install()
import torch
sys.path[0] = folder
for script, *arguments in runs:
    torch.set_default_dtype(torch.float32)
    sys.argv = [os.path.join(folder, script), *arguments]
    runpy.run_path(sys.argv[0], run_name="__main__")
"""


def read(folder: Path, name: str) -> Curves:
    """Read the curves that one run has written."""
    return json.loads((folder / f"{name}.json").read_text())


def curves_with(library: str, folder: Path) -> dict[str, Curves]:
    """Run all scripts with `torch` or `edutorch`, one after the other in one new process."""
    runs = [[*run, f"--out={folder / name}.json"] for name, run in RUNS.items()]
    command = [sys.executable, "-c", DRIVER, library, str(FOLDER), json.dumps(runs)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    return {name: read(folder, name) for name in RUNS}


def curves_from_command_line(name: str, folder: Path) -> Curves:
    """Run a script by `python -m edutorch run`."""
    script, *arguments = RUNS[name]
    out = f"--out={folder / name}.json"
    command = [sys.executable, "-m", "edutorch", "run", str(FOLDER / script), *arguments, out]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, f"{name}: {done.stderr}"
    return read(folder, name)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as temporary:
        answers = curves_with("torch", Path(temporary))
    rounded = {
        name: {curve: [float(f"{x:.7g}") for x in values] for curve, values in curves.items()}
        for name, curves in answers.items()
    }
    GOLDEN.write_text(json.dumps(rounded, indent=1).replace("\n   ", " ") + "\n")
