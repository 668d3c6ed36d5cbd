"""What runs on Gradescope for each hand-in: `python -m edutorch.classroom.interop.autograder ROOT`.

It always writes `results.json`: if the hand-in could not be graded, with the reason.
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ...utils.atomic_files import write_atomically
from ..results import RESULTS, RUN, StudentResult, json_bytes
from .gradescope import VISIBILITIES, gradescope_results

TOLD = ("seed", "walls", "python", "seconds")
"""What of a run is kept in the results."""


def main(argv: list[str] | None = None) -> int:
    """Grade one hand-in."""
    parser = argparse.ArgumentParser(prog="autograder", allow_abbrev=False)
    parser.add_argument("root", metavar="ROOT", type=Path, help="/autograder")
    parser.add_argument("--only", action="append", required=True, metavar="EXERCISE")
    parser.add_argument("--visibility", choices=VISIBILITIES, default="visible")
    options = parser.parse_args(argv)
    with tempfile.TemporaryDirectory() as work:
        document = grade_hand_in(options.root / "submission", Path(work), options)
    results = options.root / "results"
    results.mkdir(exist_ok=True)
    write_atomically(results / "results.json", json_bytes(document))
    return 0


def grade_hand_in(submission: Path, work: Path, options: argparse.Namespace) -> dict[str, Any]:
    """Let our grader grade a hand-in as a class of one, and return what Gradescope shows."""
    # The names of a student's folders mean nothing here: all of it belongs to one student.
    shutil.copytree(submission, work / "class" / "submission", symlinks=True)
    done = subprocess.run(
        grade_command(work, options.only), text=True, stderr=subprocess.PIPE, check=False
    )
    print(done.stderr, file=sys.stderr)
    if not (work / "grades" / RESULTS).exists():
        return {"score": 0, "output": done.stderr.strip(), "tests": []}
    students = json.loads((work / "grades" / RESULTS).read_text("utf-8"))["students"]
    run = json.loads((work / "grades" / RUN).read_text("utf-8"))
    graded = [StudentResult.from_json(student) for student in students]
    about = {name: run[name] for name in TOLD if name in run}
    return gradescope_results(graded, options.visibility, about)


def grade_command(work: Path, only: Sequence[str]) -> list[str]:
    """Return the command that grades. In Gradescope's container not all walls can be built."""
    chosen = [argument for id in only for argument in ("--only", id)]
    return [sys.executable, "-m", "edutorch", "grade", str(work / "class"), "--out",
            str(work / "grades"), "--workers", "1", "--walls", "fewer", *chosen]  # fmt: skip


if __name__ == "__main__":
    sys.exit(main())
