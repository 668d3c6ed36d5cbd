"""The site in a real Chromium: the tour, a live view and its buttons, a walk, saved work.

EDUTORCH_PYODIDE names a folder with Pyodide and its wheels; `python -m tests.browser.pyodide` makes
it. With EDUTORCH_REQUIRE_LITE=1 its absence is a failure.
"""

from __future__ import annotations

import os
import re
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NoReturn

import pytest

from edutorch.cli.lessons import read_lessons
from edutorch.cli.site.build import Site, build_site
from edutorch.cli.site.serve import site_server
from tests.browser.lite import Tab, write_notebook

pytestmark = pytest.mark.browser

LOOP = """
import edutorch as torch
from edutorch import nn, viz
torch.manual_seed(0)
model = nn.Sequential(nn.Linear(8, 8), nn.Tanh(), nn.Linear(8, 3))
optimizer = torch.optim.SGD(model.parameters(), 0.1)
x, t = torch.randn(16, 8), torch.randint(0, 3, (16,))
def step():
    loss = nn.functional.cross_entropy(model(x), t)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    return loss
"""
LIVE = """
count = 0
with viz.live(model) as view:
    for count in range(1, 100_000):
        step()
"""
WALK = """
y = (x[:2] ** 2).sum()
a = torch.tensor(2.0, requires_grad=True)
loss = (a * 3).sin()
viz.walk(loss)
"""
DEAF = """
import pyodide.ffi
pyodide.ffi.can_run_sync = lambda: False
"""
BELOW = """
import time
with viz.live(model) as view:
    for count in range(60):
        step()
        time.sleep(0.1)  # the page looks at the view while the loop runs
"""
SOLVED = """
from edutorch.classroom.exercise import find_exercise
empty = torch.check("02.softmax", {})
space = {"torch": torch}
exec(find_exercise("02.softmax").solution, space)
right = torch.check("02.softmax", space)
print("checked", empty.is_right, right.is_right)
"""
BAD = """
try:
    torch.zeros(2**20, 2**12)
except MemoryError as error:
    print("memory", "1048576" in str(error), "float32" in str(error))
print("alive", torch.ones(3).sum().item())
try:
    torch.save({"a": torch.ones(2)}, "a.safetensors")
except ImportError as error:
    print("save:", "safetensors" in str(error))
data = torch.utils.data.TensorDataset(x, t)
loader = torch.utils.data.DataLoader(data, batch_size=4, num_workers=2)
print("batches", len(list(loader)))
%pip install torch
from edutorch.classroom import write_hand_in
import zipfile
names = zipfile.ZipFile(write_hand_in("Ada Lovelace")).namelist()
print("handed in", "Ada Lovelace/00_five_minute_tour.ipynb" in names)
"""


def unavailable(reason: str) -> NoReturn:
    if os.environ.get("EDUTORCH_REQUIRE_LITE") == "1":
        pytest.fail(f"EDUTORCH_REQUIRE_LITE=1, but {reason}")
    pytest.skip(reason)


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a site with the lessons and the notebooks of these tests."""
    pyodide = os.environ.get("EDUTORCH_PYODIDE")
    if not pyodide:
        unavailable("EDUTORCH_PYODIDE names no folder with Pyodide and its wheels")
    own = tmp_path_factory.mktemp("own notebooks")
    notebooks = [
        write_notebook(own / "live.ipynb", LOOP, LIVE, "print('after', count)"),
        write_notebook(own / "deaf.ipynb", LOOP, DEAF, BELOW, "print('after', count)"),
        write_notebook(own / "walk.ipynb", LOOP, WALK, "print('walked', a.grad)"),
        write_notebook(own / "solved.ipynb", LOOP, SOLVED, BAD),
    ]
    lessons = [lesson.path for lesson in read_lessons() if lesson.in_browser]
    root = tmp_path_factory.mktemp("site") / "a school's site"
    site = build_site(root / "edutorch", Site(Path(pyodide), [*lessons, *notebooks]))
    assert site.is_dir()
    (root / "edutorch-site.json").write_text("{}")  # its parent is served: links work in a sub-path
    with site_server(root) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/edutorch"
        server.shutdown()


@pytest.fixture
def tab(browser: Any, base: str) -> Iterator[Tab]:
    context = browser.new_context(viewport={"width": 1200, "height": 1000})
    tab = Tab(context.new_page(), base)
    yield tab
    hosts = tab.requests - {"", base.split("/")[2]}
    context.close()
    assert not hosts, "a page asked other machines"


def step_of(tab: Tab) -> int:
    """Return the step that the view shows."""
    text = tab.page.locator("[data-view]").first.inner_text()
    return int(re.search(r"step ([\d,]+)", text)[1].replace(",", ""))


def test_the_tour_runs_and_is_kept(tab):
    tab.open("00_five_minute_tour.ipynb")
    tab.run_all()
    tab.wait_for_cells(240)
    assert not tab.errors()
    assert not tab.problems
    pictures = tab.svgs()
    assert len(pictures) >= 2
    assert all(label in pictures[0] for label in ("pow", "mul", "add"))
    assert re.search(r"9\d\.\d% of \d+ new digits", tab.text())
    tab.page.evaluate("""() => jupyterapp.shell.currentWidget.content.widgets[0].model.sharedModel
        .setSource("# My own words")""")
    tab.save()
    tab.page.wait_for_timeout(1000)
    # The page begins anew: what was written is there, and its pictures without any kernel.
    tab.page.goto("about:blank")
    tab.open("00_five_minute_tour.ipynb")
    first = "() => jupyterapp.shell.currentWidget.content.widgets[0].model.sharedModel.getSource()"
    assert tab.page.evaluate(first) == "# My own words"
    assert tab.svgs() == pictures


def test_a_watched_loop_hears_its_buttons(tab):
    tab.open("live.ipynb")
    tab.run_all()
    tab.page.locator("[data-view] svg").first.wait_for(timeout=120_000)
    tab.wait(lambda: step_of(tab) > 5, 30, "no steps")
    tab.press("Pause the training")
    tab.wait(lambda: "paused" in tab.page.locator("[data-view]").first.inner_text(), 20, "runs")
    held = step_of(tab)
    tab.page.wait_for_timeout(700)
    assert step_of(tab) == held
    tab.press("Run one training step, then pause again")
    tab.wait(lambda: step_of(tab) == held + 1, 20, "no step")
    tab.press("Resume the training")
    tab.wait(lambda: step_of(tab) > held + 5, 20, "does not go on")
    tab.press("Stop the training, as Ctrl-C does")
    tab.wait_for_cells(30)
    assert [error.split(":")[0] for error in tab.errors()] == ["<class 'KeyboardInterrupt'>"]
    assert "tanh" in tab.svgs()[-1]
    assert not tab.problems


def test_where_nothing_can_be_heard_pictures_still_move(tab):
    tab.open("deaf.ipynb")
    tab.run_all()
    view = tab.page.locator("[data-view]").first
    view.wait_for(timeout=120_000)
    tab.wait(lambda: "The buttons work when the cell has ended" in view.inner_text(), 20, "silent")
    tab.wait_for_cells(60)
    assert not tab.errors()
    assert "after 59" in tab.text()
    assert "tanh" in tab.svgs()[-1]


def test_a_walk_goes_back_by_hand(tab):
    tab.open("walk.ipynb")
    tab.run_all()
    tab.page.locator("[data-view]").first.wait_for(timeout=120_000)
    tab.wait_for_cells(30)
    assert not tab.errors()
    tab.press("Next: let the next node run (N)")
    walk = tab.page.locator("[data-view]").first
    tab.wait(lambda: "1 of" in walk.inner_text(), 30, "no step")
    tab.press("To the end: run all that is left (E)")
    tab.wait(lambda: re.search(r"(\d+) of \1", walk.inner_text()), 30, "no end")
    assert not tab.problems


def test_exercises_and_bad_input(tab):
    tab.open("solved.ipynb")
    tab.run_all()
    tab.wait_for_cells(150)
    assert not tab.errors()
    said = tab.text()
    assert "checked False True" in said
    assert "memory True True" in said
    assert "alive 3.0" in said
    assert "save: True" in said
    assert "batches 4" in said
    assert "handed in True" in said
    assert "torch is not installed: edutorch is in its place" in said


LESSONS = [lesson.path.name for lesson in read_lessons() if lesson.in_browser]
WITHOUT_SAFETENSORS = {"06_modules_and_state_dict.ipynb"}
"""These save a file of safetensors, which Pyodide 0.27 does not have."""


@pytest.mark.slow
@pytest.mark.parametrize("name", LESSONS)
def test_every_marked_lesson(tab, name):
    start = time.monotonic()
    tab.open(name)
    tab.run_all()
    tab.wait_for_cells(300)
    print(f"{name:<36} {time.monotonic() - start:5.0f} s")
    errors = tab.errors()
    if name in WITHOUT_SAFETENSORS:
        errors = [error for error in errors if "safetensors" not in error]
    assert not errors
    assert not tab.problems


def test_a_file_says_how_to_serve_it(browser, base, tmp_path_factory):
    root = next(tmp_path_factory.getbasetemp().glob("site*")) / "a school's site" / "edutorch"
    page = browser.new_page()
    page.goto((root / "lab" / "index.html").as_uri())
    assert "python -m edutorch site serve" in page.get_by_role("alert").inner_text()
    page.close()
