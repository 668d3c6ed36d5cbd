"""Makes a folder that a class without a network can work with.

python -m edutorch classroom pack DIR --platform windows --platform linux --python 3.12

DIR/wheels/        edutorch and all libraries, for each platform and Python
DIR/notebooks/     the lessons
DIR/start.sh, start.bat, hand_in.sh, hand_in.bat, README.txt
"""

from __future__ import annotations

import argparse
import importlib.util
import re
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from ..errors import EdutorchError, missing_extra
from ..utils.course_folder import course_folder
from .new_folder import new_folder
from .pack_scripts import readme, scripts
from .pack_targets import PLATFORMS, Target, missing_requirements, this_machine

OP = "classroom pack"
ROUNDS = 8
"""Downloads for one target, until nothing is missing; two are usual."""


class PackError(EdutorchError, RuntimeError):
    """A pack that cannot be made, with pip's own words where it was pip."""


class Contents(NamedTuple):
    """What a pack is made of.

    Attributes:
        wheel: edutorch's own; None builds it from the checkout.
        extras: of edutorch, that are installed with it.
        notebooks: of the course.
    """

    targets: Sequence[Target]
    extras: tuple[str, ...]
    notebooks: Sequence[Path]
    wheel: Path | None

    @property
    def requirement(self) -> str:
        """What is installed, as pip calls it."""
        return f"edutorch[{','.join(self.extras)}]" if self.extras else "edutorch"


def python_version(text: str) -> str:
    """Return a version as "3.12", for argparse."""
    match = re.fullmatch(r"3\.(\d{1,2})", text)
    if match is None or int(match[1]) < 11:
        raise argparse.ArgumentTypeError(f"must be a version from 3.11 on, as 3.12, got {text!r}")
    return text


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `classroom pack`."""
    own = f"{sys.version_info.major}.{sys.version_info.minor}"
    parser.add_argument("folder", metavar="DIR", type=Path, help="the new folder")
    names = ", ".join(PLATFORMS)
    parser.add_argument("--platform", action="append", choices=PLATFORMS, metavar="NAME",
                        help=f"may be repeated: {names}; by default this one")  # fmt: skip
    parser.add_argument("--python", action="append", type=python_version, metavar="VERSION",
                        help=f"of the students, may be repeated; by default {own}")  # fmt: skip
    parser.add_argument("--extra", action="append", metavar="NAME",
                        help="of edutorch, may be repeated; by default lab")  # fmt: skip
    parser.add_argument("--notebooks", type=Path, metavar="FOLDER", help="by default the course's")
    parser.add_argument("--wheel", type=Path, metavar="FILE",
                        help="of edutorch; by default built from the checkout")  # fmt: skip


def pack(options: argparse.Namespace) -> int:
    """Make a pack; return 0."""
    if importlib.util.find_spec("packaging") is None:
        raise missing_extra("classroom-pack", OP, "packaging is not installed")
    contents = contents_of(options)
    with new_folder(OP, options.folder) as folder:
        fill(folder, contents)
        size = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
    names = ", ".join(str(target) for target in contents.targets)
    print(f"{options.folder}: {size / 1e6:,.0f} MB for {names}")
    return 0


def contents_of(options: argparse.Namespace) -> Contents:
    """Return what to pack.

    Raises: PackError: there are no notebooks, or there is no wheel of edutorch, nor a checkout.
    """
    notebooks_folder = options.notebooks or course_folder()
    if notebooks_folder is None:
        raise PackError(
            OP, "the notebooks of the course are not installed",
            hint="name their folder with --notebooks FOLDER",
        )  # fmt: skip
    notebooks = sorted(notebooks_folder.glob("*.ipynb"))
    if not notebooks:
        raise PackError(OP, f"there is no notebook in {str(notebooks_folder)!r}")
    if options.wheel is not None and not is_own_wheel(options.wheel):
        raise PackError(
            OP, f"{str(options.wheel)!r} is no wheel of edutorch",
            hint="give a file called edutorch-…-py3-none-any.whl, or leave out --wheel",
        )  # fmt: skip
    if options.wheel is None and checkout() is None:
        raise PackError(
            OP, "edutorch was not installed from a checkout, so its wheel cannot be built",
            hint="name the wheel that it was installed from with --wheel FILE",
        )  # fmt: skip
    platforms = dict.fromkeys(options.platform or [this_machine()])
    versions = dict.fromkeys(options.python or ["{}.{}".format(*sys.version_info)])
    targets = [Target(platform, version) for platform in platforms for version in versions]
    return Contents(targets, tuple(options.extra or ["lab"]), notebooks, options.wheel)


def is_own_wheel(path: Path) -> bool:
    return path.is_file() and re.fullmatch(r"edutorch-.+-py3-none-any\.whl", path.name) is not None


def checkout() -> Path | None:
    """Return the folder that the package can be built from; None where it is installed."""
    root = Path(__file__).resolve().parents[2]
    return root if (root / "pyproject.toml").is_file() else None


def fill(folder: Path, contents: Contents) -> None:
    """Write everything into a folder."""
    wheels, notebooks = folder / "wheels", folder / "notebooks"
    wheels.mkdir()
    wheel = own_wheel(contents, wheels)
    for target in contents.targets:
        print(f"{target}: wheels are downloaded", flush=True)
        download_wheels(f"{wheel}[{','.join(contents.extras)}]", wheels, contents, target)
    notebooks.mkdir()
    for path in contents.notebooks:
        shutil.copyfile(path, notebooks / path.name)
    versions = list(dict.fromkeys(target.python for target in contents.targets))
    for name, text in scripts(contents.requirement, versions).items():
        path = folder / name
        windows = name.endswith(".bat")
        path.write_text(text, encoding="ascii", newline="\r\n" if windows else "\n")
        if not windows:
            path.chmod(0o755)
    platforms = list(dict.fromkeys(target.platform for target in contents.targets))
    (folder / "README.txt").write_text(readme(platforms, versions), "utf-8", newline="\r\n")


def own_wheel(contents: Contents, wheels: Path) -> Path:
    """Put edutorch's own wheel into a folder, and return its path."""
    if contents.wheel is not None:
        return Path(shutil.copy(contents.wheel, wheels))
    run_pip(
        ["wheel", "--no-deps", "--wheel-dir", str(wheels), str(checkout())],
        "edutorch's own wheel could not be built",
    )
    built = [path for path in wheels.iterdir() if is_own_wheel(path)]
    if len(built) != 1:
        raise PackError(OP, "edutorch's own wheel could not be built: pip left none")
    return built[0]


def download_wheels(wheel: str, wheels: Path, contents: Contents, target: Target) -> None:
    """Download what a target needs.

    pip asks the machine that it runs on which libraries only Windows or macOS needs. So what is
    missing is worked out from the wheels themselves, and downloaded, too.
    """
    wanted = {wheel}
    for _ in range(ROUNDS):
        run_pip(
            ["download", "--quiet", "--only-binary=:all:", "--dest", str(wheels),
             "--find-links", str(wheels), *target.pip_options(), *sorted(wanted)],
            f"the wheels for {target} could not be downloaded",
        )  # fmt: skip
        wanted = missing_requirements(wheels, contents.requirement, target)
        if not wanted:
            return
    raise PackError(
        OP, f"the wheels for {target} are incomplete: {', '.join(sorted(wanted))}",
        hint="leave out this platform, or pack on it",
    )  # fmt: skip


def run_pip(arguments: Sequence[str], failure: str) -> None:
    """Run pip.

    Args:
        failure: what it means if pip fails, for the error.

    Raises: PackError: it did; with its last message.
    """
    command = [sys.executable, "-m", "pip", "--disable-pip-version-check", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, errors="replace", check=False)
    if done.returncode:
        lines = [line.strip() for line in done.stderr.splitlines() if line.strip()]
        errors = [line for line in lines if line.startswith("ERROR")] or lines
        said = errors[-1].removeprefix("ERROR: ") if errors else f"exit code {done.returncode}"
        raise PackError(
            OP, f"{failure}. pip says: {said}",
            hint="is there a network, and a wheel for this Python and platform?",
        )  # fmt: skip
