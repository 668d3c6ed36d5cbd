"""What stays of a view in a saved notebook, in a real kernel."""

import pytest

from tests.viz.notebook_kernel import running_kernel

pytest.importorskip("jupyter_client", reason="needs the extra `lab`")
pytest.importorskip("ipykernel", reason="needs the extra `lab`")
pytest.importorskip("anywidget", reason="needs the extra `lab`")

LIMIT = 120
WIDGET = "application/vnd.jupyter.widget-view+json"

FIRST = """
import time, threading
import edutorch
from edutorch import nn, viz
from edutorch.viz.live import fallback_picture as still
still.AFTER = 0.1
model = nn.Linear(2, 1)
x = edutorch.ones(3, 2)

def train(seconds, **options):
    with viz.live(model, **options) as view:
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            model.zero_grad()
            model(x).sum().backward()
    return view

def settled():
    drawn = threading.Event()
    still.drawer.submit(drawn.set)
    assert drawn.wait(20)
"""


@pytest.fixture(scope="module")
def kernel():
    with running_kernel() as client:
        outputs(client, FIRST)
        yield client


def outputs(client, code):
    """Run a cell, and return what a notebook holds of it in the end: a bundle for each output."""
    shown, positions = [], {}

    def hear(message):
        message_type, content = message["msg_type"], message["content"]
        assert "traceback" not in content, "\n".join(content["traceback"])
        id = content.get("transient", {}).get("display_id")
        if message_type in ("display_data", "execute_result"):
            if id:
                positions.setdefault(id, []).append(len(shown))
            shown.append(content["data"])
        elif message_type == "update_display_data":
            for place in positions.get(id, ()):
                shown[place] = content["data"]

    client.execute_interactive(code, timeout=LIMIT, output_hook=hear)
    return shown


def test_a_long_loop_leaves_its_picture_and_its_words(kernel):
    picture, words = outputs(kernel, "view = train(1.0)")
    assert "image/svg+xml" in picture and WIDGET not in picture
    assert set(words) == {"text/plain"}
    assert words["text/plain"].startswith("step ") and "finished" in words["text/plain"]


def test_a_long_loop_that_keeps_its_widget_leaves_the_picture_below_it(kernel):
    widget, picture = outputs(kernel, "view = train(1.0, keep=True)")
    assert WIDGET in widget
    assert "image/svg+xml" in picture


def test_a_short_loop_leaves_one_picture(kernel):
    code = "still.AFTER = 60.0\nview = train(0.3)\nstill.AFTER = 0.1"
    [picture] = outputs(kernel, code)
    assert "image/svg+xml" in picture


@pytest.mark.parametrize("body", ["pass", "edutorch.ones(3)"])
def test_a_loop_in_which_nothing_is_recorded_leaves_its_widget(kernel, body):
    [widget] = outputs(kernel, f"with viz.live(model):\n    {body}")
    assert WIDGET in widget


VIEWS = {
    "explore": "page = viz.draw(model(x).sum()).explore()\nshow(page)",
    "touch": "page = viz.touch(lambda a: a * a, a=2.0)\nshow(page)",
    "toy": "page = viz.toy('line')\nshow(page)",
    "walk": "page = viz.walk(model(x).sum())\nshow(page)",
}
SHOW = """
from IPython.display import display
def show(page):
    display(page)
    settled()
"""


@pytest.mark.parametrize("name", VIEWS)
def test_a_view_has_a_picture_for_a_page_that_loses_it(kernel, name):
    widget, below = outputs(kernel, SHOW + VIEWS[name])
    key = outputs(kernel, "getattr(page, 'key', None) or (getattr(page, 'page_state', None) or "
                          "page._view.page_state).page.key")  # fmt: skip
    key = key[0]["text/plain"].strip("'")
    assert WIDGET in widget
    assert "text/html" in below and f'data-of="{key}"' in below["text/html"]
    assert 'src="data:image/' in below["text/html"]
    assert "run it again" in below["text/plain"]


@pytest.mark.parametrize("name", ["toy", "walk"])
def test_what_is_finished_leaves_a_picture_and_a_text(kernel, name):
    code = f"{SHOW}{VIEWS[name]}\npage.finish()\nNone"
    picture, text = outputs(kernel, code)
    assert "image/png" in picture and WIDGET not in picture
    assert set(text) == {"text/plain"} and text["text/plain"]


THREAD = """
from IPython.display import display
go = threading.Event()
def later():
    go.wait(20)
    {}
    settled()
thread = threading.Thread(target=later)
thread.start()
"""


@pytest.mark.parametrize("code", ["display(viz.walk(model(x).sum()))", "display(viz.toy('line'))"])
def test_what_a_thread_shows_is_below_the_cell_that_started_it(kernel, code):
    started = kernel.execute(THREAD.format(code))
    later = kernel.execute("go.set()\nthread.join(20)")
    cells, over = [], False
    while not over:
        message = kernel.get_iopub_msg(timeout=LIMIT)
        parent = message["parent_header"].get("msg_id")
        if message["msg_type"] == "display_data":
            cells.append(parent)
        idle = message["content"].get("execution_state") == "idle"
        over = idle and parent == later
    assert cells == [started, started]
