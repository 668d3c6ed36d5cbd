"""The numbers of a step go the short way, and are what the widget would have sent."""

import json
from types import SimpleNamespace

import pytest

pytest.importorskip("anywidget")
nbclient = pytest.importorskip("nbclient")
nbformat = pytest.importorskip("nbformat")

from edutorch.viz.live import interpreter  # noqa: E402
from edutorch.viz.live.interpreter import NEEDED, FastSender  # noqa: E402

BOTH_WAYS = """
import json, threading, time
from edutorch.viz.live.interpreter import current_kernel
from edutorch.viz.live.widget import LiveWidget

kernel = current_kernel()
thread, session = kernel.iopub_thread, kernel.session
widget = LiveWidget(print)
arrived = threading.Event()
thread.schedule(arrived.set)  # what opens the widget is gone
arrived.wait(10)
sent = []
thread._really_send = lambda frames, **options: sent.append(frames)
ways = []
for step in range(40):
    message = {"method": "update", "state": {"patch": {"step": step, "latest": {"loss": 0.5}}}}
    if step % 2:
        ways.append(widget._sender(message, [b"1234"]))
    else:
        widget._send(message, buffers=[b"1234"])
end = time.monotonic() + 10
while len(sent) < 40 and time.monotonic() < end:
    time.sleep(0.01)
del thread._really_send

def told(frames):
    frames = [bytes(frame) for frame in frames]
    header, parent, metadata, content = map(json.loads, frames[3:7])
    return {
        "topic": frames[0] == widget.comm.topic, "delimiter": frames[1].decode(),
        "signed": frames[2] == session.sign(frames[3:7]), "header": header, "parent": parent,
        "metadata": metadata, "content": content, "rest": [frame.decode() for frame in frames[7:]],
    }
print(json.dumps({"ways": ways, "sent": [told(frames) for frames in sent]}))
"""


@pytest.fixture(scope="module")
def both_ways():
    cell = nbformat.v4.new_code_cell(BOTH_WAYS)
    notebook = nbformat.v4.new_notebook(cells=[cell])
    nbclient.NotebookClient(notebook, timeout=60, kernel_name="python3").execute()
    return json.loads(
        "".join(output["text"] for output in cell.outputs if output["name"] == "stdout")
    )


def test_in_a_kernel_every_message_goes_the_short_way(both_ways):
    assert both_ways["ways"] == [True] * 20


def test_messages_of_both_ways_arrive_in_their_order(both_ways):
    steps = [
        both_way["content"]["data"]["state"]["patch"]["step"] for both_way in both_ways["sent"]
    ]
    assert steps == list(range(40))


def test_they_are_the_same_but_for_their_own_numbers_and_dates(both_ways):
    usual, short = both_ways["sent"][2:4]
    for item in (usual, short):
        assert item["topic"] and item["signed"]
        assert item["parent"]["msg_type"] == "execute_request"
        for own in ("msg_id", "date"):
            item["header"].pop(own)
        item["content"]["data"]["state"]["patch"].pop("step")
    assert usual == short
    identities = {both_way["header"].get("msg_id") for both_way in both_ways["sent"][4:]}
    assert len(identities) == 36


def a_kernel(**changes):
    thread = SimpleNamespace(**dict.fromkeys(NEEDED))
    thread.io_loop = SimpleNamespace(asyncio_loop=None)
    session = SimpleNamespace(adapt_version=0, debug=False, pid=0)
    return SimpleNamespace(**{"iopub_thread": thread, "session": session, **changes})


@pytest.mark.parametrize("kernel", [
    None,
    a_kernel(iopub_thread=None),
    a_kernel(iopub_thread=SimpleNamespace(_events=[])),  # another version, or another kernel
    a_kernel(session=None),
    a_kernel(session=SimpleNamespace(adapt_version=4, debug=False)),
])  # fmt: skip
def test_elsewhere_it_goes_the_usual_way(kernel, monkeypatch):
    monkeypatch.setattr(interpreter, "current_kernel", lambda: kernel)
    assert not FastSender(SimpleNamespace(_closed=False)).possible
    assert FastSender(SimpleNamespace(_closed=False))({}, []) is False


def test_nothing_is_sent_for_a_comm_that_is_closed_nor_in_another_process(monkeypatch):
    monkeypatch.setattr(interpreter, "current_kernel", a_kernel)
    comm = SimpleNamespace(_closed=False)
    assert FastSender(comm).possible
    assert FastSender(comm)({}, []) is False  # its session belongs to a process of another number
    comm._closed = True
    assert FastSender(comm)({}, []) is False
    assert not FastSender(None).possible
