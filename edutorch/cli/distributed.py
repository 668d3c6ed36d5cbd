"""`python -m edutorch distributed manifest`: writes what runs a training on a cluster."""

from __future__ import annotations

import argparse
from pathlib import Path

# Those of `distributed.deploy.MANIFESTS`, which is imported when it is used.
KINDS = ("job", "pytorchjob", "trainjob", "runtime-torch", "runtime-mpi", "sbatch")
NUMBERS = (
    ("nodes", 1, "how many computers"),
    ("processes", 1, "on each of them"),
    ("gpus", 0, "on each of them"),
)


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `distributed`."""
    parts = parser.add_subparsers(dest="part", required=True, metavar="PART")
    manifest = parts.add_parser(
        "manifest", help="files for Kubernetes, Kubeflow or Slurm", allow_abbrev=False,
        description="Write files that run a program on a cluster. Nothing is sent anywhere. "
        "A model is served by `edutorch serve MODELS --manifest kserve`.",
    )  # fmt: skip
    add = manifest.add_argument
    add("--kind", choices=KINDS, required=True, help="for what")
    add("--name", default="", help="of the job (default: that of the program)")
    add("--image", default="edutorch:cpu", help="the container (default edutorch:cpu)")
    for name, default, text in NUMBERS:
        add(f"--{name}", type=int, default=default, metavar="N", help=f"{text} (default {default})")
    add("--runtime", default="edutorch-torch", metavar="NAME",
        help="of a TrainJob (default edutorch-torch; edutorch-mpi: by ssh)")  # fmt: skip
    add("-o", "--output", type=Path, default=Path("deploy"), metavar="FOLDER",
        help="where to (default deploy)")  # fmt: skip
    add("-m", action="store_true", help="the program is a module")
    add("program", nargs=argparse.REMAINDER, help="a script, and its arguments")


def distributed(options: argparse.Namespace) -> int:
    """Write the files, and print their paths.

    Raises: InvalidValueError: there is no program, or a number is too small.
    """
    from ..distributed.deploy import TrainingJob, write_manifest

    program = tuple(options.program[1:] if options.program[:1] == ["--"] else options.program)
    program = ("-m", *program) if options.m else program
    training = TrainingJob(
        program, options.name, options.image, options.nodes, options.processes, options.gpus,
        options.runtime,
    )  # fmt: skip
    for path in write_manifest(options.kind, training, options.output):
        print(f"written: {path}")
    return 0
