"""An autograder for Gradescope: a zip file in which our own grader runs.

    setup.sh          installs edutorch, once
    run_autograder    runs for each hand-in

Gradescope starts a machine of its own for each hand-in, so no student can reach another one's; our
jail keeps the student's code from the results, with the walls that stand there.
"""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ...utils.atomic_files import write_atomically
from ..results import StudentResult
from .files import zip_bytes
from .lessons import ExportError, Lesson

VISIBILITIES = ("visible", "after_due_date", "after_published", "hidden")

SETUP = """\
#!/usr/bin/env bash
# Runs once, when the autograder is built.
set -euo pipefail
apt-get update -qq
apt-get install -y -qq python3 python3-venv
python3 -c 'import sys; sys.exit(sys.version_info < (3, 11))' || {{
  echo "edutorch needs Python 3.11 or newer: choose a newer base image"
  exit 1
}}
python3 -m venv /autograder/venv
/autograder/venv/bin/python -m pip install --quiet {install}
"""

RUN = """\
#!/usr/bin/env bash
# Runs for each hand-in.
set -euo pipefail
root="${{AUTOGRADER_ROOT:-/autograder}}"
python="${{AUTOGRADER_PYTHON:-$root/venv/bin/python}}"
exec "$python" -m edutorch.classroom.interop.autograder "$root" {arguments}
"""


def export_gradescope(
    lessons: Sequence[Lesson], out: Path, install: str, visibility: str = "visible"
) -> Path:
    """Write the zip file of an autograder.

    Args:
        out: the zip file.
        install: what pip installs to have edutorch: a requirement, or the path of a wheel, which
            is then put into the zip file.
        visibility: when students see the result of a test.

    Raises: ExportError: there is something of this name already, or no such wheel.
    """
    if out.exists():
        raise ExportError(
            "export", f"{str(out)!r} is there already; nothing was written",
            hint="remove it, or choose another with --out",
        )  # fmt: skip
    files = {}
    wanted = shlex.quote(install)
    if install.endswith(".whl"):
        if not Path(install).is_file():
            raise ExportError("export", f"--install: there is no wheel {install!r}")
        name = Path(install).name
        files[name] = Path(install).read_bytes()
        wanted = shlex.quote(f"/autograder/source/{name}[classroom]")
    ids = [exercise.id for lesson in lessons for exercise in lesson.exercises]
    only = " ".join(f"--only {id}" for id in ids)
    files |= {
        "setup.sh": SETUP.format(install=wanted).encode(),
        "run_autograder": RUN.format(arguments=f"--visibility {visibility} {only}").encode(),
    }
    out.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(out, zip_bytes(files, programs=("setup.sh", "run_autograder")))
    return out


def gradescope_results(
    students: Sequence[StudentResult], visibility: str, run: dict[str, Any]
) -> dict[str, Any]:
    """Return `results.json` for one hand-in.

    Args:
        students: the results of it; of an exercise that is there twice, the better one counts (the
            names of its files may look like those of several students).
        run: when and how it was graded; only teachers see it.
    """
    best: dict[str, Any] = {}
    for student in students:
        for result in student.exercises:
            if result.exercise not in best or result.points > best[result.exercise].points:
                best[result.exercise] = result
    problems = [problem for student in students for problem in student.problems]
    tests = [
        {
            "name": result.exercise, "name_format": "text", "score": result.points,
            "max_score": result.maximum, "status": "passed" if not result.sentence else "failed",
            "output": result.sentence or "right", "output_format": "text",
            "visibility": visibility,
        }
        for _, result in sorted(best.items())
    ]  # fmt: skip
    return {
        "score": sum(test["score"] for test in tests), "output": "\n".join(problems),
        "output_format": "text", "visibility": "visible", "stdout_visibility": "hidden",
        "extra_data": run, "tests": tests,
    }  # fmt: skip
