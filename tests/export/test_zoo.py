"""The networks as files: read in a process without their source, at five sizes, bit by bit."""

from __future__ import annotations

import os
import subprocess
import sys

import numpy as np
import pytest

import edutorch as torch
from edutorch.export import export, save
from edutorch.utils._pytree import tree_flatten
from tests.export.networks import NETWORKS, SIZES, arguments_at, arguments_outside, network

LARGE = ("resnet18", "unet", "mobilenet_v3")
SMALL = [name for name in NETWORKS if name not in LARGE]

READER = """
import pathlib, sys
import numpy as np
import edutorch as torch
from edutorch.export import ProgramInputError, load
from edutorch.utils._pytree import tree_flatten

for path in sorted(pathlib.Path(sys.argv[1]).glob("*.edu")):
    program = load(path).module()
    calls = np.load(path.with_suffix(".npz"))

    def values(prefix):
        names = [name for name in calls.files if name.startswith(prefix + "_")]
        return [torch.from_numpy(calls[name]) for name in names]

    for number in range(SIZES):
        results = tree_flatten(program(*values(f"in{number}")))[0]
        for mine, theirs in zip(results, values(f"out{number}"), strict=True):
            assert np.array_equal(mine.detach().numpy(), theirs.numpy()), (path, number)
    try:
        program(*values("outside"))
    except ProgramInputError as error:
        print(path.stem, "|", str(error).replace("\\n", " "))
foreign = [name for name in sys.modules if name.startswith(("tests", "edutorch.vision"))]
assert not foreign, foreign
"""


def write_calls(folder, name: str) -> None:
    """Write a network's program, and beside it what it is called with and what it returns."""
    module, args, shapes = made = network(name)
    save(export(module, args, dynamic_shapes=shapes), folder / f"{name}.edu")
    arrays = {}
    for number in range(len(SIZES["batch"])):
        inputs = arguments_at(made, number)
        with torch.no_grad():
            outputs = tree_flatten(module(*inputs))[0]
        for prefix, values in ((f"in{number}", inputs), (f"out{number}", outputs)):
            arrays |= {f"{prefix}_{i}": value.numpy() for i, value in enumerate(values)}
    outside = arguments_outside(made)
    arrays |= {f"outside_{i}": value.numpy() for i, value in enumerate(outside)}
    np.savez(folder / f"{name}.npz", **arrays)


def read_elsewhere(folder, names) -> dict[str, str]:
    """Write networks, read them in another process; return what it says of sizes outside."""
    for name in names:
        write_calls(folder, name)
    root = os.path.dirname(os.path.dirname(torch.__file__))
    code = READER.replace("SIZES", str(len(SIZES["batch"])))
    done = subprocess.run(
        [sys.executable, "-c", code, str(folder)], capture_output=True, text=True, cwd=folder,
        env={**os.environ, "PYTHONPATH": root},
    )  # fmt: skip
    assert not done.returncode, done.stderr
    return dict(line.split(" | ", 1) for line in done.stdout.splitlines())


@pytest.mark.parametrize(
    "names", [SMALL, pytest.param(LARGE, marks=pytest.mark.slow)], ids=["small", "large"]
)
def test_files_are_programs_without_their_source(tmp_path, names):
    refusals = read_elsewhere(tmp_path, names)
    assert set(refusals) == set(names)
    for name, text in refusals.items():  # the first dynamic axis is the batch, from 1 to 64
        assert "has size 65 on axis 0" in text and "from 1 to 64" in text, (name, text)
