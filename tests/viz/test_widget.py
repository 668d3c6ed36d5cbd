"""The widget in a real kernel: its code, its messages, and what it leaves in the notebook."""

import re
import sys

import pytest

pytest.importorskip("anywidget")
nbclient = pytest.importorskip("nbclient")
nbformat = pytest.importorskip("nbformat")

from edutorch.viz.live.widget import LiveWidget, folder, modules, script, style  # noqa: E402


def test_the_page_gets_one_module_without_imports():
    assert not re.search(r"^import ", script(), re.M)
    assert re.findall(r"^export .*", script(), re.M) == ["export default { render };"]
    assert style()


FORBIDDEN = {
    r"\bimport\s*\(": "loads a script",
    r"\bimport\.meta\b": "asks where the script lies, which VS Code and Colab do not say",
    r"\bfetch\s*\(|XMLHttpRequest|WebSocket|EventSource|sendBeacon|importScripts": "calls out",
    r"https?://(?!www\.w3\.org/(?:2000/svg|1998/Math/MathML)\b)": "is an address",
    r"url\(|@import": "loads something by its style",
    r"\beval\s*\(|new Function\b": "a page's policy does not allow it",
    r"innerHTML|outerHTML|insertAdjacentHTML|document\.write": "takes text for markup",
    r"localStorage|sessionStorage|document\.cookie|indexedDB": "a frame of VS Code has none",
    r"\brequirejs\b|\brequire\s*\(|\bdefine\s*\(": "is of the classic notebook only",
    r"window\.(?:parent|top|opener)\b|\b(?:alert|confirm|prompt)\s*\(": "leaves its frame",
}
"""What a widget must not do that runs in VS Code, Colab and marimo as in JupyterLab."""


@pytest.mark.parametrize("pattern", FORBIDDEN, ids=FORBIDDEN.values())
def test_the_code_stays_where_it_is(pattern):
    code = re.sub(r"/\*.*?\*/|^\s*//.*$", "", f"{script()}\n{style()}", flags=re.S | re.M)
    assert re.findall(pattern, code) == []


def test_nothing_is_looked_for_by_id_in_the_page():
    """In a shadow DOM, as VS Code and marimo make one, `document` finds nothing of the widget."""
    looked_up = r"document\.(?:getElementById|querySelector\w*|getElementsBy\w+)"
    assert re.findall(looked_up, script()) == []


def test_every_file_of_the_browser_code_is_in_it():
    files = {path.stem for path in folder().glob("*.js") if not path.stem.endswith(".config")}
    assert files - {"flame", "replay"} == set(modules())  # those are in pages of their own


def test_each_module_stands_behind_what_it_imports():
    order = modules()
    for name in order:
        imported = re.findall(r'from "\./(\w+)\.js"', (folder() / f"{name}.js").read_text("utf-8"))
        before = order[: order.index(name)]
        assert set(imported) <= set(before), name
    assert len(order) == len(set(order)) and order[-1] == "live"


def test_names_are_unique_over_all_files():
    names = re.findall(r"^(?:async )?(?:function|class|const|let) (\w+)", script(), re.M)
    assert len(names) == len(set(names))


def test_a_message_is_what_the_widget_would_have_sent_itself(monkeypatch):
    """It is written directly, for speed. A page that is loaded anew asks for the whole state."""
    steps = [
        (
            {"nodes": [], "structure": "a"},
            {"step": 1, "state": "running"},
            b"12345678",
            {"loss": [[1, 0.5]]},
        ),
        (None, {"step": 2, "state": "running", "tiny": {"n1": "[1, 2]"}}, b"87654321", None),
        (None, {"step": 3, "state": "paused"}, b"", {}),
    ]
    widget, usual = LiveWidget(print), LiveWidget(print)
    sent, expected = [], []
    for item, messages in ((widget, sent), (usual, expected)):
        monkeypatch.setattr(
            item, "_send", lambda message, buffers=None, to=messages: to.append((message, buffers))
        )
    for picture, patch, values, curves in steps:
        widget.show(picture, patch, values, curves)
        changes = {"picture": picture, "patch": patch, "numbers": values, "curves": curves}
        with usual.hold_sync():
            for name, value in changes.items():
                if value is not None:
                    setattr(usual, name, value)
    assert sent == expected
    names = ("picture", "patch", "numbers", "curves")
    assert widget.get_state(names) == usual.get_state(names)


@pytest.mark.parametrize("notebook", [True, False])
@pytest.mark.parametrize("bundle", [dict, None])
def test_a_picture_stands_in_only_where_there_is_one_in_a_notebook(notebook, bundle, monkeypatch):
    """Else IPython shows it as it shows every other widget."""
    made = []
    module = sys.modules[LiveWidget.__module__]
    monkeypatch.setattr(module, "in_notebook", lambda: notebook)
    monkeypatch.setattr(module, "ViewWithFallback", lambda *arguments: made.append(arguments))
    widget = LiveWidget(print, bundle)
    if notebook and bundle:
        widget._ipython_display_()
    else:
        with pytest.raises(NotImplementedError):
            widget._ipython_display_()
    assert made == ([(widget, bundle)] if notebook and bundle else [])
    assert len(widget.key) == 12 and widget.key != LiveWidget(print).key


def test_one_message_carries_the_whole_step(monkeypatch):
    commands, sent = [], []
    widget = LiveWidget(commands.append)
    monkeypatch.setattr(widget, "_send", lambda message, buffers=None: sent.append(message))
    widget.show({"type": "picture"}, {"type": "patch", "state": "running"}, b"1234")
    widget.show(None, {"type": "patch", "state": "running", "step": 2}, b"5678")
    # Bytes travel beside the state, so `numbers` is not among its names.
    assert [set(message["state"]) - {"numbers"} for message in sent] == [
        {"patch", "picture"},
        {"patch"},
    ]
    assert [message["buffer_paths"] for message in sent] == [[["numbers"]], [["numbers"]]]
    widget._handle_custom_msg({"type": "pause"}, [])
    assert commands == [{"type": "pause"}]


LOOP = """
import edutorch
from edutorch import viz
w = edutorch.tensor([5.0, -3.0], requires_grad=True)
with viz.live({options}) as view:
    for step in range(5):
        w.grad = None
        (w * w).sum().backward()
"""


def run(*cells, allow_errors=False):
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell) for cell in cells])
    client = nbclient.NotebookClient(
        notebook, timeout=60, kernel_name="python3", allow_errors=allow_errors
    )
    client.execute()
    return notebook


def test_a_static_picture_stays_in_the_notebook():
    notebook = run(LOOP.format(options=""), LOOP.format(options="keep=True"), "view", "viz.draw(w)")
    replaced, kept, again, drawn = (cell.outputs for cell in notebook.cells)
    assert [set(output.data) for output in replaced] == [
        {"image/svg+xml", "image/png", "text/plain"}
    ]
    assert replaced[0].data["text/plain"].startswith("step 5, loss 34, finished")
    assert "<script" not in replaced[0].data["image/svg+xml"]
    widget, picture = kept
    assert "application/vnd.jupyter.widget-view+json" in widget.data
    assert "image/svg+xml" in picture.data
    assert "application/vnd.jupyter.widget-view+json" in again[0].data
    assert "image/png" in drawn[0].data


def test_a_loop_that_fails_leaves_its_picture_too():
    cell = LOOP.format(options="") + "        if step == 2: raise ValueError('stop')\n"
    picture, error = run(cell, allow_errors=True).cells[0].outputs
    assert picture.data["text/plain"].startswith("step 3, loss 34, failed")
    assert error.evalue == "stop"
