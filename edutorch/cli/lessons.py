"""The lessons of the course: what their notebooks and the course's README say of them."""

from __future__ import annotations

import importlib.util
import json
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from ..errors import EdutorchError
from ..utils.course_folder import PACKAGE, course_folder

OP = "edutorch course"
NAME = re.compile(r"(\d\d)_\w+")
IN_LAB = {
    "sklearn",
    "matplotlib",
    "tqdm",
    "PIL",
}  # packages of the extra `lab`; the others: `course`
INSTALL_AGAIN = 'install it again: pip install --force-reinstall "edutorch[lab,course]"'

NEEDS = {
    "gpu": "a GPU for some cells",
    "dist": "two processes",
    "onnx": "onnx and onnxruntime",
}


class CourseError(EdutorchError, ValueError):
    """The course, a lesson or a file of it cannot be read or written."""


class Progress(NamedTuple):
    """How many checks of a notebook there are, and how many say that the answer is right."""

    right: int
    total: int


class Lesson(NamedTuple):
    """One lesson.

    Attributes:
        path: the notebook of the package.
        part: "III. Seeing and making"; "" if no part lists it.
        minutes: what it takes to work it through; None if nobody says.
        needs: what it needs more than edutorch, in words.
        checks: how many exercises it has.
        in_browser: whether it runs in a browser tab.
    """

    path: Path
    title: str
    part: str
    minutes: int | None
    needs: tuple[str, ...]
    checks: int
    in_browser: bool = False

    @property
    def number(self) -> str:
        return self.path.name[:2]


def read_lessons() -> list[Lesson]:
    """Return all lessons in the order of the course.

    Raises: CourseError: they are not installed, or one of them is damaged.
    """
    folder = course_folder(PACKAGE)
    if folder is None:
        raise CourseError(
            OP, "the notebooks of the course are not installed",
            hint=INSTALL_AGAIN,
        )  # fmt: skip
    plan = read_plan(folder / "README.md")
    paths = [path for path in folder.glob("*.ipynb") if NAME.fullmatch(path.stem)]
    order = {stem: index for index, stem in enumerate(plan)}
    paths.sort(key=lambda path: (order.get(path.stem, len(order)), path.name))
    return [lesson_of(path, plan) for path in paths]


def read_plan(readme: Path) -> dict[str, tuple[str, int | None]]:
    """Return the part and the minutes of each notebook that the README lists, in its order."""
    try:
        text = readme.read_text("utf-8")
    except (OSError, ValueError):
        return {}
    plan: dict[str, tuple[str, int | None]] = {}
    part = ""
    for line in text.splitlines():
        if line.startswith("## "):
            part = line[3:].strip() if re.match(r"## [IVX]+\. ", line) else ""
        for stem in re.findall(r"(\d\d_\w+)\.ipynb", line):
            minutes = re.match(rf"\| *`{stem}\.ipynb` *\|[^|]*\| *(\d+) *\|", line)
            plan.setdefault(stem, (part, int(minutes[1]) if minutes else None))
    return plan


def lesson_of(path: Path, plan: dict[str, tuple[str, int | None]]) -> Lesson:
    notebook = read_notebook(path, INSTALL_AGAIN)
    said = dict_of(dict_of(notebook.get("metadata")).get("edutorch"))
    part, minutes = plan.get(path.stem, ("", None))
    if not part and isinstance(said.get("part"), str):
        part = said["part"]
    needs = [NEEDS.get(need, need) for need in texts_of(said.get("needs"))]
    needs += missing_packages(texts_of(said.get("packages")))
    return Lesson(
        path, title_of(notebook, path), part, minutes, tuple(needs), progress(notebook).total,
        said.get("browser") is True,
    )  # fmt: skip


def data_of(path: Path) -> list[str]:
    """Return the data sets that a notebook reads, as `datasets.write_data` calls them."""
    notebook = read_notebook(path, "open it, and save it again")
    cells = [cell for cell in cells_of(notebook) if cell.get("cell_type") == "code"]
    code = "\n".join(text_of(cell.get("source")) for cell in cells)
    calls = re.findall(r'\bdatasets\.load_(\w+)\((?:"(\w+)")?', code)
    return list(dict.fromkeys(f"{name} {argument}".strip() for name, argument in calls))


def missing_packages(packages: Iterable[str]) -> list[str]:
    """Return how to install those that are absent, each way once."""
    from ..datasets.packages import DISTRIBUTIONS, has_wheel  # other commands need no data

    ways = []
    for package in packages:
        if is_installed(package):
            continue
        name = DISTRIBUTIONS.get(package, package)
        if not has_wheel(package):
            ways.append(f"{name}, which has no wheel for this Python")
        else:
            extra = "lab" if package in IN_LAB else "course"
            ways.append(f'pip install "edutorch[{extra}]"')
    return list(dict.fromkeys(ways))


def is_installed(package: str) -> bool:
    try:
        return importlib.util.find_spec(package) is not None
    except (ImportError, ValueError):
        return False


# Notebooks -----------------------------------------------------------------------------------
#
# A student's file may hold anything that JSON can: nothing is taken for what it should be.


def read_notebook(path: Path, hint: str = "") -> dict[str, Any]:
    """Return a notebook as it is stored.

    Args:
        hint: what to do about a damaged one; by default `--reset`.

    Raises: CourseError: it cannot be read, or is none.
    """
    try:
        notebook = json.loads(path.read_text("utf-8"))
    except OSError as error:
        raise CourseError(OP, f"{path}: cannot be read ({error.strerror})") from None
    except (ValueError, RecursionError):
        raise damaged(path, hint) from None
    if not isinstance(notebook, dict) or not isinstance(notebook.get("cells"), list):
        raise damaged(path, hint)
    return notebook


def damaged(path: Path, hint: str) -> CourseError:
    hint = hint or f"edutorch course --reset {path.name[:2]} moves it aside, and makes a new one"
    return CourseError(OP, f"{path}: is damaged, or no notebook", hint=hint)


def title_of(notebook: dict[str, Any], path: Path) -> str:
    for cell in cells_of(notebook):
        heading = re.match(r"# +(\S.*)", text_of(cell.get("source")))
        if heading:
            return heading[1].strip()
    return path.stem[3:].replace("_", " ")


def progress(notebook: dict[str, Any]) -> Progress:
    """Return how many checks of a notebook have said "right" when they were last run."""
    outcomes = [
        any(re.match(r"✓ \d\d\.\w+: right\b", text) for text in printed(cell))
        for cell in cells_of(notebook)
        if cell.get("cell_type") == "code"
        and "check" in texts_of(dict_of(cell.get("metadata")).get("tags"))
    ]
    return Progress(sum(outcomes), len(outcomes))


def printed(cell: dict[str, Any]) -> Iterator[str]:
    """Yield the text of each output of a cell."""
    outputs = cell.get("outputs")
    for output in outputs if isinstance(outputs, list) else ():
        output = dict_of(output)
        yield text_of(dict_of(output.get("data")).get("text/plain", output.get("text")))


def cells_of(notebook: dict[str, Any]) -> Iterator[dict[str, Any]]:
    return (cell for cell in notebook["cells"] if isinstance(cell, dict))


def text_of(value: object) -> str:
    """Return a text that a notebook may store as a list of lines."""
    return value if isinstance(value, str) else "".join(texts_of(value))


def texts_of(value: object) -> list[str]:
    return [text for text in value if isinstance(text, str)] if isinstance(value, list) else []


def dict_of(value: object) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}
