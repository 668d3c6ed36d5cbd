"""`docs/applications.md`: what it links to exists, and (slow) each program reaches its figure."""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from edutorch.cli.packages.tried import TRIED

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "applications.md"
FOLDER = ROOT / "docs" / "applications"
PROGRAMS = sorted(path.stem for path in FOLDER.glob("*.py"))
MOST_LINES = 150

LEAST = {
    "audio_features": 0.95, "control": 0.85, "detection": 0.7, "question_answering": 0.95,
    "sentiment": 0.95, "speech_synthesis": 0.6, "tracking": 0.9,
}  # fmt: skip
"""What each program has to reach, at other roundings than those of the README's figures, too."""


def test_links_lead_to_files():
    links = re.findall(r"\]\(([^)#]+)\)", PAGE.read_text(encoding="utf-8"))
    assert len(links) > 20
    missing = [link for link in links if not (PAGE.parent / link).is_file()]
    assert not missing


def test_every_application_names_a_place_where_it_is():
    rows = re.findall(r"^\| (?!application|:)(.+?) \| (.*?) \|", PAGE.read_text("utf-8"), re.M)
    assert len(rows) >= 17
    assert [name for name, place in rows if "](" not in place] == []


def test_libraries_are_known():
    named = set(re.findall(r"`(?:python -m edutorch )?add ([\w-]+)`", PAGE.read_text("utf-8")))
    assert {"torchvision", "transformers"} <= named
    assert named <= set(TRIED)


@pytest.mark.parametrize("program", PROGRAMS)
def test_programs_are_short_and_listed(program):
    text = (FOLDER / f"{program}.py").read_text(encoding="utf-8")
    assert len(text.splitlines()) <= MOST_LINES
    assert f"python -m edutorch run docs/applications/{program}.py" in ast.get_docstring(
        ast.parse(text)
    )
    assert f"`{program}.py`" in (FOLDER / "README.md").read_text(encoding="utf-8")
    assert f"](../docs/applications/{program}.py)" in PAGE.read_text(encoding="utf-8")


def test_each_program_has_a_figure_to_reach():
    assert sorted(LEAST) == PROGRAMS


@pytest.mark.slow
@pytest.mark.parametrize("program", PROGRAMS)
def test_programs_learn(program):
    if program in ("audio_features", "speech_synthesis"):
        pytest.importorskip("espeakng_loader", reason="the speech is made by it")
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [sys.executable, "-m", "edutorch", "run", FOLDER / f"{program}.py"],
        capture_output=True, text=True, env=environment, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    print(done.stdout)
    figure = re.search(r"([\d.]+)%|F1 ([\d.]+)", done.stdout)
    reached = float(figure[1]) / 100 if figure[1] else float(figure[2])
    assert reached >= LEAST[program]
