"""The command line: `python -m edutorch` (or just `edutorch`)."""

from __future__ import annotations

import argparse
import os
import sys

from .backends import ACCELERATOR
from .cli.doctor import faster_blas
from .errors import EdutorchError

CUDA_AS_CPU = "--cuda-as-cpu"
DEVICES_WITH_KERNELS = ("cpu", ACCELERATOR)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="edutorch", description="PyTorch to learn with.", allow_abbrev=False
    )
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")

    from .cli.run import add_cuda_as_cpu, add_options

    run = commands.add_parser("run", help="run a script that says `import torch`, unmodified")
    add_cuda_as_cpu(run)
    run.add_argument("-m", action="store_true", help="SCRIPT is the name of a module or package")
    run.add_argument("script", metavar="SCRIPT")
    run.add_argument("arguments", nargs=argparse.REMAINDER, help="handed to the script")

    graph = commands.add_parser(
        "graph",
        help="run a script and draw the graph of its last backward",
        description="Run a script that says `import torch`, and write the picture of what its "
        "last backward went through; without -o, a table. Other options are the script's own.",
        allow_abbrev=False,
    )
    add_options(graph)
    add_cuda_as_cpu(graph)
    graph.add_argument("script", metavar="SCRIPT")
    graph.add_argument("arguments", nargs=argparse.REMAINDER, help="handed to the script")

    doctor = commands.add_parser("doctor", help="what is installed, and what to do about the rest")
    doctor.add_argument("--json", action="store_true", help="print JSON")
    doctor.add_argument("--gpu", action="store_true", help="ten small proofs that the GPU works")

    kernels = commands.add_parser("kernels", help="the fast kernels, and what each replaces")
    kernels.add_argument(
        "--device", choices=DEVICES_WITH_KERNELS, default="cpu", help="cpu by default"
    )

    warmup = commands.add_parser(
        "warmup", help="compile the fast kernels now, so that no first step is slower"
    )
    warmup.add_argument(
        "--check", action="store_true", help="compile nothing, print as JSON which are ready"
    )
    from .cli.grade import add_options as add_options_of_grade
    from .cli.grade import add_options_of_merge

    add_options_of_grade(
        commands.add_parser("grade", help="grade the hand-ins of a class, in any layout")
    )
    add_options_of_merge(
        commands.add_parser("grade merge", help="put the results of `grade --shard` together")
    )
    from .cli.classroom import add_options as add_options_of_classroom

    add_options_of_classroom(
        commands.add_parser(
            "classroom", help="own values, similar answers, a class without network"
        )
    )
    from .cli.course import add_options as add_options_of_course

    add_options_of_course(
        commands.add_parser(
            "course",
            help="list the lessons of the course, open one, or make it new",
            description="List the lessons with your progress, or open one in JupyterLab.",
            allow_abbrev=False,
        )
    )
    from .cli.site.command import add_options as add_options_of_site

    add_options_of_site(
        commands.add_parser(
            "site",
            help="the course as a site for the browser",
            description="Write a site with the course that runs in a browser, or serve it.",
            allow_abbrev=False,
        )
    )
    from .cli.zoo import add_options as add_options_of_zoo

    add_options_of_zoo(
        commands.add_parser(
            "zoo",
            help="list the models that come along, or draw one",
            description="List the models that come with edutorch: parameters, memory, work.",
            allow_abbrev=False,
        )
    )
    from .cli.serve import add_options as add_options_of_serve

    add_options_of_serve(
        commands.add_parser(
            "serve",
            help="answer requests for a folder of models over HTTP",
            description="Answer requests for a folder of models: the Open Inference Protocol.",
            allow_abbrev=False,
        )
    )
    from .cli.distributed import add_options as add_options_of_distributed

    add_options_of_distributed(
        commands.add_parser(
            "distributed",
            help="write what runs a training on a cluster: Kubernetes, Kubeflow, Slurm",
            allow_abbrev=False,
        )
    )
    from .cli.packages.command import add_options as add_options_of_add
    from .cli.packages.command import add_options_of_remove

    add_options_of_add(
        commands.add_parser(
            "add",
            help="install packages written for PyTorch (torchvision, timm, …), without PyTorch",
            description="Install packages written for PyTorch, with all they need but PyTorch.",
            allow_abbrev=False,
        )
    )
    add_options_of_remove(
        commands.add_parser("remove", help="remove such packages", allow_abbrev=False)
    )
    commands.add_parser(
        "lab",
        help="open the five-minute tour in JupyterLab",
        description="Open the five-minute tour in JupyterLab. All other options are JupyterLab's: "
        "--no-browser, --port N, …",
        allow_abbrev=False,
    )
    return parser


def main(argv: list[str] | None = None) -> int:
    """Run one command and return its exit code."""
    parser = _parser()
    own_process = argv is None
    argv = sys.argv[1:] if argv is None else argv
    if argv[:2] == ["grade", "merge"]:
        argv = ["grade merge", *argv[2:]]
    if argv[:2] == ["grade", "export"]:  # else DIR: a folder of this name is ./export
        from .classroom.interop.grade_export import export

        return export(argv[2:])
    # Arguments after "--" belong to the script; argparse would lose its position.
    cut = argv.index("--") if argv[:1] == ["graph"] and "--" in argv else len(argv)
    options, others = parser.parse_known_args(with_card_count(argv[:cut]))
    if others and options.command not in ("lab", "course"):
        parser.error(f"unknown arguments: {' '.join(others)}")

    if own_process and options.command in ("run", "graph"):
        restart_with_faster_blas()
    if message := simulate(getattr(options, "cuda_as_cpu", None)):
        parser.error(message)
    if options.command == "run":
        return run_script(options, own_process)
    if options.command == "graph":
        from .cli.run import graph

        return graph(options, argv[cut + 1 :])
    if options.command == "doctor" and not options.gpu:
        from .cli.doctor import doctor

        return doctor(as_json=options.json)
    if options.command == "warmup":
        from .cli.doctor import warmup

        return warmup(options.check)
    try:
        status = run_last_commands(options, others)
        sys.stdout.flush()
    except EdutorchError as error:
        print(error, file=sys.stderr)
        return 1
    except BrokenPipeError:  # what reads the output has ended, as `head` does
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # for what is still kept
        return 1
    return status


def run_script(options: argparse.Namespace, own_process: bool) -> int:
    """Run a script or a module; its processes find a command `torchrun`."""
    from .cli.run import run, run_module
    from .cli.torchrun import offer

    if own_process:
        offer()
    return (run_module if options.m else run)(options.script, options.arguments)


def with_card_count(argv: list[str]) -> list[str]:
    """Return the arguments with a 1 behind `--cuda-as-cpu`, where no number follows it."""
    if CUDA_AS_CPU not in argv:
        return argv
    place = argv.index(CUDA_AS_CPU) + 1
    follows = argv[place : place + 1]
    # As one word, so that -1 is not taken for an option.
    count = follows[0] if follows and follows[0].lstrip("-").isdigit() else "1"
    rest = argv[place + 1 :] if count in follows else argv[place:]
    return [*argv[: place - 1], f"{CUDA_AS_CPU}={count}", *rest]


def simulate(count: str | None) -> str:
    """Let simulated cards answer for "cuda", if any; return what is wrong with their number."""
    if count is None:
        return ""
    from .backends.simulated import start

    try:
        start(count, CUDA_AS_CPU)
    except EdutorchError as error:
        return str(error)
    return ""


def run_last_commands(options: argparse.Namespace, others: list[str]) -> int:
    """Run a command about kernels, a course or a class.

    Args:
        others: arguments that the command does not know, for JupyterLab.
    """
    from .cli.classroom import classroom
    from .cli.course import course
    from .cli.distributed import distributed
    from .cli.gpu import doctor_gpu, list_kernels
    from .cli.grade import grade, merge
    from .cli.lab import lab
    from .cli.packages.command import add, remove
    from .cli.serve import serve
    from .cli.site.command import site
    from .cli.zoo import zoo

    if options.command in ("doctor", "kernels"):
        return doctor_gpu() if options.command == "doctor" else list_kernels(options.device)
    if options.command == "course":
        return course(options, others)
    if options.command == "classroom":
        return classroom(options)
    if options.command == "site":
        return site(options)
    if options.command == "zoo":
        return zoo(options)
    if options.command == "serve":
        return serve(options)
    if options.command == "distributed":
        return distributed(options)
    if options.command in ("add", "remove"):
        return add(options) if options.command == "add" else remove(options)
    if options.command == "grade merge":
        return merge(options)
    return grade(options) if options.command == "grade" else lab(others)


def restart_with_faster_blas() -> None:
    """Restart the process with OpenBLAS settings, if OpenBLAS does not recognise the CPU.

    OpenBLAS reads the environment while NumPy is imported, which has already happened. The user's
    own settings are kept.
    """
    settings = faster_blas()
    if settings:
        sys.stdout.flush()
        command = [sys.executable, *sys.orig_argv[1:]]
        os.execve(sys.executable, command, {**os.environ, **settings})


if __name__ == "__main__":
    sys.exit(main())
