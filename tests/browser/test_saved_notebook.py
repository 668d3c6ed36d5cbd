"""A saved notebook shows its pictures without a kernel: reopened, untrusted, converted, served."""

from __future__ import annotations

import functools
import json
import re
import threading
from collections.abc import Iterator
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from tests.browser.lab import ARTIFACTS, Lab, appear, run_all, save, write_notebook

pytestmark = pytest.mark.browser

CELLS = (
    """
import edutorch as torch
from edutorch import nn, viz
net = nn.Linear(3, 2)
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
with viz.live(net) as view:
    view.history.every = 1
    for step in range(5):
        optimizer.zero_grad()
        loss = net(torch.ones(4, 3)).square().mean()
        loss.backward()
        optimizer.step()
""",
    "viz.draw(loss)",
    "view.compare(1, view.history.steps[-1])",
    "print('the', 'end')",
)
SHOWN = 3
PICTURES = """() => [...document.querySelectorAll("img, .jp-RenderedSVG svg, .jp-OutputArea svg")]
  .map((each) => ({
    kind: each.localName,
    width: each.getBoundingClientRect().width,
    height: each.getBoundingClientRect().height,
    drawn: each.localName !== "img" || (each.complete && each.naturalWidth > 0),
    source: (each.getAttribute("src") ?? "").slice(0, 22),
  }))
  .filter((each) => each.width > 150)"""


@pytest.fixture(scope="module")
def saved(lab: Lab, browser: Any) -> Path:
    """A notebook that was run and saved in JupyterLab."""
    name = "pictures.ipynb"
    write_notebook(lab.root / name, *CELLS)
    context = browser.new_context(viewport={"width": 1280, "height": 900})
    page = context.new_page()
    page.set_default_timeout(60_000)
    lab.open(page, name)
    run_all(page)
    appear(page, page.get_by_text("the end", exact=True))
    page.locator(".jp-Notebook-ExecutionIndicator[data-status=idle]").wait_for()
    page.wait_for_timeout(500)
    save(page)
    context.close()
    outputs = lab.outputs(name)
    assert not [output for output in outputs if output["output_type"] == "error"]
    return lab.root / name


@pytest.fixture
def site(tmp_path: Path) -> Iterator[tuple[Path, str]]:
    """A folder, and the address at which it is served as it is."""
    handler = functools.partial(SimpleHTTPRequestHandler, directory=str(tmp_path))
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield tmp_path, f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()


def assert_shown(page: Any, name: str) -> list[dict[str, Any]]:
    """Check that every picture is there, and keep what it looks like."""
    page.wait_for_function(f"() => ({PICTURES})().length >= {SHOWN}")
    pictures = page.evaluate(PICTURES)
    assert len(pictures) == SHOWN
    assert all(picture["drawn"] and picture["height"] > 30 for picture in pictures)
    ARTIFACTS.mkdir(exist_ok=True)
    page.screenshot(path=ARTIFACTS / f"saved-{name}.png", full_page=True)
    return pictures


def without_language(saved: Path) -> dict[str, Any]:
    notebook = json.loads(saved.read_text())
    notebook["metadata"] = {
        "kernelspec": {"name": "gone", "display_name": "Gone", "language": "gone"},
        "language_info": {"name": "gone"},
    }
    return notebook


def reopened(lab: Lab, page: Any, notebook: dict[str, Any], name: str) -> None:
    """Open a notebook of a language that nobody here speaks, and choose no kernel."""
    (lab.root / name).write_text(json.dumps(notebook))
    page.goto(f"{lab.address}/lab/tree/{name}?token={lab.token}&reset")
    page.locator(".jp-Dialog").get_by_role("button", name="No Kernel").click()
    page.locator(".jp-Notebook .jp-Cell").first.wait_for()
    page.locator(".jp-OutputArea-output").first.wait_for()


def test_the_notebook_keeps_pictures_and_no_widget(saved: Path) -> None:
    cells = json.loads(saved.read_text())["cells"]
    mime_types = [set(output.get("data", {})) for cell in cells for output in cell["outputs"]]
    pictures = [types for types in mime_types if "image/svg+xml" in types]
    assert len(pictures) == SHOWN
    assert all({"image/png", "text/plain"} <= picture for picture in pictures)
    assert not [
        types for types in mime_types if "application/vnd.jupyter.widget-view+json" in types
    ]


def test_reopened_without_a_kernel(lab: Lab, page: Any, saved: Path) -> None:
    import nbformat
    from nbformat.sign import NotebookNotary

    notebook = without_language(saved)
    home = lab.root.parent
    notary = NotebookNotary(data_dir=str(home / "data"))
    notary.sign(nbformat.from_dict(notebook))
    reopened(lab, page, notebook, "reopened.ipynb")
    assert_shown(page, "no-kernel")


def test_untrusted(lab: Lab, page: Any, saved: Path) -> None:
    notebook = without_language(saved)
    notebook["cells"].append(
        {"cell_type": "markdown", "id": "strange", "metadata": {}, "source": "changed"}
    )
    reopened(lab, page, notebook, "untrusted.ipynb")
    pictures = assert_shown(page, "untrusted")
    assert [picture["source"] for picture in pictures] == ["data:image/png;base64,"] * SHOWN


def test_converted_to_html_and_served(page: Any, saved: Path, site: tuple[Path, str]) -> None:
    exporters = pytest.importorskip("nbconvert.exporters")
    folder, address = site
    # nbconvert's own page would ask the network for MathJax and RequireJS: no picture needs them.
    exporter = exporters.HTMLExporter(mathjax_url="", require_js_url="", jquery_url="")
    text, _ = exporter.from_filename(str(saved))
    (folder / "notebook.html").write_text(text)
    page.goto(f"{address}/notebook.html")
    assert_shown(page, "html")
    page.goto("about:blank")


def test_converted_to_markdown(page: Any, saved: Path, site: tuple[Path, str]) -> None:
    exporters = pytest.importorskip("nbconvert.exporters")
    folder, address = site
    text, resources = exporters.MarkdownExporter().from_filename(str(saved))
    names = re.findall(r"!\[\w+\]\((.*?)\)", text)
    assert len(names) == SHOWN
    for name in names:
        (folder / name).write_bytes(resources["outputs"][name])
    images = "".join(f'<p><img src="{name}"></p>' for name in names)  # as a site writes ![](…)
    (folder / "index.html").write_text(images)
    page.goto(f"{address}/index.html")
    assert_shown(page, "markdown")
