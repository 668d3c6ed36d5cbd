"""How long a lesson takes to open in a browser tab, and what watching a loop costs there.

It needs what `tests/browser/test_lite.py` needs: Chromium, and EDUTORCH_PYODIDE.
"""

from __future__ import annotations

import argparse
import os
import shutil
import statistics
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from edutorch.cli.lessons import read_lessons
from edutorch.cli.site import serve
from edutorch.cli.site.build import Site, build_site
from tests.browser.lite import Tab, write_notebook

KERNEL = """
() => jupyterapp.shell.currentWidget.sessionContext.session.kernel.info.then(() => true)
"""
PARTS = ("page", "kernel", "first cell", "graph")
LOOP = """
import time
import edutorch as torch
from edutorch import nn, viz
torch.manual_seed(0)
layers = [layer for _ in range({depth}) for layer in (nn.Linear(64, 64), nn.Tanh())]
model = nn.Sequential(*layers, nn.Linear(64, 10))
optimizer = torch.optim.SGD(model.parameters(), 0.01)
x, t = torch.randn(256, 64), torch.randint(0, 10, (256,))
def run(steps):
    start = time.perf_counter()
    for _ in range(steps):
        loss = nn.functional.cross_entropy(model(x), t)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return (time.perf_counter() - start) / steps * 1e3
run(20)
"""
WATCHED = """
bare = run(150)
with viz.live(model) as view:
    watched = run(150)
again = run(150)
print("nodes", len(view._recorder.snapshot.graph.nodes))
print("bare", min(bare, again), "watched", watched)
"""
DRAWN = """
for count in (10, 100, 500):
    y = torch.ones(3, requires_grad=True)
    for _ in range(count):
        y = y + 1
    start = time.perf_counter()
    size = len(viz.draw(y).svg)
    print("draw", count, time.perf_counter() - start)
"""


@contextmanager
def served(folder: Path) -> Iterator[tuple[str, list[int]]]:
    """Serve a site; give its address, and the bytes that were sent."""
    sent = [0]

    class Counted(serve.Handler):
        def copyfile(self, source: Any, outputfile: Any) -> None:
            data = source.read()
            sent[0] += len(data)
            outputfile.write(data)

    serve.Handler, before = Counted, serve.Handler  # type: ignore[misc]
    with serve.site_server(folder) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}", sent
        server.shutdown()
    serve.Handler = before  # type: ignore[misc]


def opened(tab: Tab) -> list[float]:
    """Open the tour and run it; return the seconds of each part."""
    start = time.perf_counter()
    ends = []
    tab.open("00_five_minute_tour.ipynb")
    ends.append(time.perf_counter())
    tab.run_all()
    tab.page.evaluate(KERNEL)
    ends.append(time.perf_counter())
    for is_there in (lambda: any(cell["outputs"] for cell in tab.cells()), tab.svgs):
        while not is_there():
            tab.page.wait_for_timeout(20)
        ends.append(time.perf_counter())
    return [end - begin for begin, end in zip([start, *ends], ends, strict=False)]


def said(tab: Tab, notebook: Path) -> list[str]:
    """Run a notebook; return what it printed."""
    tab.open(notebook.name)
    tab.run_all()
    tab.wait_for_cells(300)
    lines = [f"{notebook.stem}: {line}" for line in (*tab.text().splitlines(), *tab.errors())]
    tab.page.close()
    return lines


def run(options: argparse.Namespace) -> str:
    """Build the site, open the tour again and again, and watch a loop."""
    from playwright.sync_api import sync_playwright

    chromium = shutil.which("chromium") or shutil.which("google-chrome")
    rows = []
    with tempfile.TemporaryDirectory() as scratch, sync_playwright() as playwright:
        own = [
            write_notebook(Path(scratch) / f"loop{depth}.ipynb", LOOP.format(depth=depth), WATCHED,
                           DRAWN)
            for depth in (2, 20)
        ]  # fmt: skip
        lessons = [lesson.path for lesson in read_lessons() if lesson.in_browser]
        start = time.perf_counter()
        site = Site(Path(os.environ["EDUTORCH_PYODIDE"]), [*lessons, *own])
        build_site(Path(scratch) / "site", site)
        rows.append(f"built in {time.perf_counter() - start:.1f} s")
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        with served(Path(scratch) / "site") as (base, sent):
            samples: dict[str, list[list[float]]] = {"cold": [], "from the cache": []}
            for _ in range(options.rounds):
                context = browser.new_context()
                for taken in samples.values():
                    sent[0] = 0
                    page = context.new_page()
                    taken.append([*opened(Tab(page, base)), sent[0] / 1e6])
                    page.close()
                context.close()
            for name, taken in samples.items():
                *seconds, megabytes = map(statistics.median, zip(*taken, strict=True))
                totals = [sum(row[:-1]) for row in taken]
                parts = ", ".join(f"{p} {s:.1f}" for p, s in zip(PARTS, seconds, strict=True))
                rows.append(f"{name}: {statistics.median(totals):.1f} s (best {min(totals):.1f}): "
                            f"{parts}; {megabytes:.1f} MB")  # fmt: skip
            rows += [row for path in own for row in said(Tab(browser.new_page(), base), path)]
        browser.close()
    rows.append(f"load {os.getloadavg()[0]:.2f}")
    return "\n".join(rows)
