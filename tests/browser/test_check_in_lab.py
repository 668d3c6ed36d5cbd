"""`edutorch.check` in JupyterLab and in the saved file, and the feedback of a class."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from edutorch.classroom.exercise import find_exercise
from tests.browser.lab import ARTIFACTS, Lab, appear, run_all, save, write_notebook
from tests.browser.test_saved_notebook import reopened, without_language

pytestmark = pytest.mark.browser

CENTRE, SOFTMAX = find_exercise("02.centre"), find_exercise("02.softmax")
CELLS = (
    "import edutorch as torch",
    CENTRE.mutants[1].code,
    'torch.check("02.centre", seed=1)',
    "_.walk()",
    CENTRE.solution,
    'torch.check("02.centre", seed=1)',
    "def gradient_of_logits(z, right):\n    return z.softmax(0)",
    'torch.check("02.softmax", seed=1)',
    SOFTMAX.solution,
    'torch.check("02.softmax", seed=1)',
    "print('the', 'end')",
)
DRAWN = """() => [...document.querySelectorAll("img")]
  .filter((image) => image.complete && image.naturalWidth > 100).length"""
DARK = """() => window.jupyterapp.commands.execute(
  "apputils:change-theme", { theme: "JupyterLab Dark" })"""


def picture(page: Any, name: str) -> None:
    ARTIFACTS.mkdir(exist_ok=True)
    page.screenshot(path=ARTIFACTS / f"check-{name}.png", full_page=True)


@pytest.fixture(scope="module")
def saved(lab: Lab, browser: Any) -> Path:
    """A notebook with wrong and right answers, run and saved in JupyterLab."""
    write_notebook(lab.root / "check.ipynb", *CELLS)
    context = browser.new_context(viewport={"width": 1100, "height": 2400})
    page = context.new_page()
    page.set_default_timeout(60_000)
    lab.open(page, "check.ipynb")
    run_all(page)
    appear(page, page.get_by_text("the end", exact=True))
    page.wait_for_function(f"() => ({DRAWN})() >= 2")
    walk = page.locator(".edutorch-live").first
    walk.get_by_text("1 of 2").wait_for()
    assert walk.get_by_text("y = Centre").count(), "the walk stands at the marked box"
    page.wait_for_timeout(1000)
    picture(page, "lab")
    page.evaluate(DARK)
    page.wait_for_timeout(1500)
    picture(page, "lab-dark")
    save(page)
    context.close()
    return lab.root / "check.ipynb"


def test_the_saved_file_has_sentence_picture_and_attempts(lab: Lab, saved: Path) -> None:
    outputs = [output for output in lab.outputs(saved.name) if "metadata" in output]
    about = [
        output["metadata"]["edutorch"] for output in outputs if "edutorch" in output["metadata"]
    ]
    assert [(one["exercise"], one["right"]) for one in about] == [
        ("02.centre", False), ("02.centre", True), ("02.softmax", False), ("02.softmax", True),
    ]  # fmt: skip
    html = ["".join(one["data"]["text/html"]) for one in outputs if "edutorch" in one["metadata"]]
    assert ["<img" in text for text in html] == [True, False, True, False]


def test_untrusted_it_still_shows_the_graph(lab: Lab, page: Any, saved: Path) -> None:
    notebook = without_language(saved)
    extra = {"cell_type": "markdown", "id": "strange", "metadata": {}, "source": "changed"}
    notebook["cells"].append(extra)
    page.set_viewport_size({"width": 1100, "height": 2400})
    reopened(lab, page, notebook, "check-untrusted.ipynb")
    page.wait_for_function(f"() => ({DRAWN})() >= 2")
    picture(page, "untrusted")


def test_converted_to_html(page: Any, saved: Path, tmp_path: Path) -> None:
    exporters = pytest.importorskip("nbconvert.exporters")
    exporter = exporters.HTMLExporter(mathjax_url="", require_js_url="", jquery_url="")
    text, _ = exporter.from_filename(str(saved))
    (tmp_path / "check.html").write_text(text, encoding="utf-8")
    page.goto((tmp_path / "check.html").as_uri())
    page.wait_for_function(f"() => ({DRAWN})() >= 2")
    picture(page, "nbconvert")
    page.goto("about:blank")


def test_feedback_opens_in_jupyterlab(lab: Lab, page: Any, tmp_path: Path) -> None:
    from tests.classroom.test_feedback import HALF_WRONG, graded

    (content,) = graded(HALF_WRONG, "notebook").feedback.values()
    (tmp_path / "feedback.ipynb").write_bytes(content)
    reopened(lab, page, without_language(tmp_path / "feedback.ipynb"), "feedback.ipynb")
    page.wait_for_function(f"() => ({DRAWN})() >= 1")
    picture(page, "feedback-notebook")
