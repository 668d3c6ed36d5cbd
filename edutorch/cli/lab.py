"""`python -m edutorch lab`: JupyterLab, opened on the five-minute tour."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import quote

from .. import kernels
from ..errors import EdutorchError, missing_extra
from ..utils.course_folder import PACKAGE, course_folder
from .doctor import faster_blas
from .lesson_files import copy_new

_WARM_UP = """
import os, sys
getattr(os, "nice", int)(19)
from edutorch.cli.doctor import warmup
sys.exit(warmup())
"""

TOUR = "00_five_minute_tour.ipynb"
_PACKAGE = PACKAGE

# Without these, JupyterLab accesses the internet for news, new versions and extensions. The
# settings in `jupyter/` keep it from asking the user for permission.
_STAYS_LOCAL = (
    "--LabApp.news_url=None",
    "--LabApp.check_for_updates_class=jupyterlab.NeverCheckForUpdate",
    "--LabApp.extension_manager=readonly",
)


def lab(arguments: list[str]) -> int:
    """Start JupyterLab with the tour; `arguments` are passed to JupyterLab.

    Raises: MissingExtraError: JupyterLab is not installed.
    """
    require_jupyterlab("edutorch lab")
    return start_jupyterlab(tour_notebook(Path.cwd()), arguments)


def require_jupyterlab(purpose: str) -> None:
    """Raise a MissingExtraError if JupyterLab is not installed."""
    if importlib.util.find_spec("jupyterlab") is None:
        raise missing_extra("lab", purpose, "JupyterLab is not installed")


def start_jupyterlab(notebook: Path, arguments: list[str]) -> int:
    """Start JupyterLab on a notebook; its folder is shown with those beside it."""
    from jupyterlab.labapp import main

    os.environ.update(faster_blas())  # for the notebooks' kernels, which start later
    paths = [os.environ.get("JUPYTER_CONFIG_PATH"), str(Path(__file__).with_name("jupyter"))]
    os.environ["JUPYTER_CONFIG_PATH"] = os.pathsep.join(filter(None, paths))
    root = notebook.parent.parent
    with warm_up_in_background():
        main(
            [
                f"--ServerApp.root_dir={root}",
                f"--LabApp.default_url=/lab/tree/{quote(notebook.relative_to(root).as_posix())}",
                *_STAYS_LOCAL,
                *(["--allow-root"] if _is_root() else []),
                *arguments,
            ]
        )
    return 0


@contextmanager
def warm_up_in_background() -> Iterator[None]:
    """Compile the fast kernels in the background, with low priority.

    A notebook compiles the kernels that it needs itself, but concurrently with its own steps.
    """
    if not kernels.is_available():
        yield
        return
    process = subprocess.Popen(
        [sys.executable, "-c", _WARM_UP],
        stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    try:
        yield
    finally:
        process.terminate()
        process.wait()


def tour_notebook(folder: Path) -> Path:
    """Return the tour of this checkout; otherwise a copy of the installed one in `folder`.

    An existing copy is not overwritten: it may contain the user's work.

    Raises: EdutorchError: the copy cannot be written.
    """
    notebooks = course_folder(_PACKAGE) or _PACKAGE.parent / "notebooks"
    if notebooks.parent != _PACKAGE:
        return notebooks / TOUR
    copy = folder / "notebooks" / TOUR
    try:
        copy_new(notebooks / TOUR, copy)
    except FileExistsError:
        pass
    except OSError as error:
        raise EdutorchError("edutorch lab", f"{copy} cannot be written ({error.strerror})",
                            hint="start it in a folder of your own") from None  # fmt: skip
    return copy


def _is_root() -> bool:
    """Return True if the user is root, as in a container: Jupyter needs an option for that."""
    return hasattr(os, "geteuid") and os.geteuid() == 0
