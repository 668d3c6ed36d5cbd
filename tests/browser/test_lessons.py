"""The lesson whose film needs a script: it plays after Run All, and saved, without a kernel."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from tests.browser.lab import ARTIFACTS, ROOT, Lab, appear, run_all, save

pytestmark = pytest.mark.browser

LESSON = ROOT / "notebooks" / "08_optimizers_racing.ipynb"
FILM = 'img[id^="_anim_img"]'
IS_THE_FILM = re.compile(r"FuncAnimation\(")
FRAME = f"() => document.querySelector('{FILM}')?.src ?? ''"


def shortened(lesson: dict[str, Any]) -> dict[str, Any]:
    """Return the lesson up to its film; the last cell says that it has come to its end."""
    cells = lesson["cells"]
    sources = ["".join(cell["source"]) for cell in cells]
    (film,) = [number for number, source in enumerate(sources) if IS_THE_FILM.search(source)]
    cells = [cell for cell in cells[: film + 1] if "viz.live" not in "".join(cell["source"])]
    rosenbrock = "def rosenbrock(x, y):\n    return (x - 1) ** 2 + 10 * (y - x**2) ** 2"
    # Paragraphs behind the film, so that it can be out of sight before the page is scrolled.
    tail = {"cell_type": "markdown", "id": "tail", "metadata": {}, "source": "below\n\n" * 100}
    last = {**cells[-1], "id": "last", "source": "print('the', 'end')", "outputs": []}
    first = {**cells[-1], "id": "first", "source": rosenbrock, "outputs": []}
    return {**lesson, "cells": [cells[0], first, *cells[1:], tail, last]}


def frames_shown(page: Any, wanted: int = 8) -> int:
    """Wait until the film has shown so many different pictures by itself; return their number."""
    seen: set[str] = set()
    for _ in range(200):
        seen.add(page.evaluate(FRAME))
        if len(seen - {""}) >= wanted:
            break
        page.wait_for_timeout(100)
    return len(seen - {""})


@pytest.fixture(scope="module")
def played(lab: Lab, browser: Any) -> tuple[Path, int]:
    """The lesson, run in JupyterLab and saved; and how many frames its film showed there."""
    path = lab.root / "film.ipynb"
    path.write_text(json.dumps(shortened(json.loads(LESSON.read_text()))))
    context = browser.new_context(viewport={"width": 1280, "height": 900})
    page = context.new_page()
    page.set_default_timeout(90_000)
    lab.open(page, path.name)
    run_all(page)
    appear(page, page.get_by_text("the end", exact=True))
    appear(page, page.locator(FILM))
    page.locator(FILM).scroll_into_view_if_needed()
    frames = frames_shown(page)
    page.screenshot(path=ARTIFACTS / "lesson-film.png")
    save(page)
    context.close()
    return path, frames


def test_the_film_plays_after_run_all(played: tuple[Path, int]) -> None:
    assert played[1] >= 8, "frames that were to be seen"


def test_the_saved_film_plays_without_a_kernel(
    lab: Lab, page: Any, played: tuple[Path, int]
) -> None:
    import nbformat
    from nbformat.sign import NotebookNotary

    notebook = json.loads(played[0].read_text())
    notebook["metadata"] = {
        "kernelspec": {"name": "gone", "display_name": "Gone", "language": "gone"},
        "language_info": {"name": "gone"},
    }
    NotebookNotary(data_dir=str(lab.root.parent / "data")).sign(nbformat.from_dict(notebook))
    (lab.root / "film-again.ipynb").write_text(json.dumps(notebook))
    page.goto(f"{lab.address}/lab/tree/film-again.ipynb?token={lab.token}&reset")
    page.locator(".jp-Dialog").get_by_role("button", name="No Kernel").click()
    page.locator(FILM).wait_for(state="attached")
    page.locator(FILM).scroll_into_view_if_needed()
    assert frames_shown(page) >= 8
    page.get_by_text("❚❚", exact=True).first.click()  # and its buttons work
    page.get_by_text("|◀", exact=True).first.click()  # none is before the first frame
    before = page.evaluate(FRAME)
    page.get_by_text("›", exact=True).first.click()
    page.wait_for_function(f"before => ({FRAME})() !== before", arg=before)
