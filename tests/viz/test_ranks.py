"""The lanes of ranks: where their boxes are, and what the picture says."""

import os
from xml.etree import ElementTree

import pytest

from edutorch import viz
from edutorch.distributed.recorder import FOLDER_VARIABLE, LEFT, Recorder
from edutorch.viz.ranks.lanes import MOST, make_lanes, read_lanes
from edutorch.viz.ranks.timeline import Timeline
from tests.distributed.calls import call


def test_what_runs_at_the_same_time_lies_side_by_side():
    calls = [call(0, 10.0, 10.4), call(1, 10.1, 10.3), call(2, 10.35, 10.5), call(3, 10.6, 0.0)]
    (lane,) = make_lanes([(0, "", calls)])
    assert [box.row for box in lane.boxes] == [0, 1, 1, 0]
    assert [round(box.start, 2) for box in lane.boxes] == [0, 0.1, 0.35, 0.6]
    assert lane.rows == 2


def test_all_ranks_have_one_clock():
    lanes = make_lanes([(0, "", [call(0, 5.0, 5.2)]), (1, "", [call(0, 5.1, 0.0)])])
    assert [lane.boxes[0].start for lane in lanes] == [0, pytest.approx(0.1)]
    # What waits goes on to the right end: the newest moment of any rank.
    assert lanes[1].boxes[0].stop == pytest.approx(0.2)
    assert Timeline(lanes).text().splitlines()[1].endswith("waits in all_reduce")


def test_a_picture_has_the_newest_calls():
    calls = [call(number, float(number), number + 0.5) for number in range(100)]
    (lane,) = make_lanes([(0, "", calls)])
    assert [box.call.number for box in lane.boxes] == list(range(100 - MOST, 100))


def test_a_picture_is_read_from_records(tmp_path):
    for rank in (1, 0):
        recorder = Recorder(rank, 2, str(tmp_path))
        recorder.end(recorder.begin("broadcast", 0, 0, "float32", 7))
        if rank:
            recorder.set_state(LEFT)
        else:
            recorder.begin("all_reduce", 0, 1, "float32", 7)
    (tmp_path / "rank7.record").write_bytes(b"half")  # a rank that is about to write
    first, second = read_lanes(tmp_path)
    assert (first.rank, first.note, len(first.boxes)) == (0, "", 2)
    assert (second.rank, second.note, len(second.boxes)) == (1, "has left", 1)
    root = ElementTree.fromstring(Timeline([first, second]).svg)
    titles = [title.text or "" for title in root.iter("{http://www.w3.org/2000/svg}title")]
    assert [title.splitlines()[0].split(" (")[0] for title in titles[1:]] == [
        "broadcast of 7 float32", "all_reduce of 7 float32", "broadcast of 7 float32",
    ]  # fmt: skip
    assert sum("waits" in title for title in titles) == 2  # the box, and the text of all
    dashed = [r for r in root.iter("{http://www.w3.org/2000/svg}rect") if r.get("stroke-dasharray")]
    assert len(dashed) == 2  # in the legend, and the one that waits
    assert Timeline([first, second]).png().startswith(b"\x89PNG")


def test_a_block_leaves_nothing_behind(monkeypatch):
    monkeypatch.delenv(FOLDER_VARIABLE, raising=False)
    with viz.watch_ranks() as view:
        folder = os.environ[FOLDER_VARIABLE]
        recorder = Recorder(0, 1, os.path.join(folder, "job"))
        recorder.end(recorder.begin("barrier", 0, 0, "", 0))
    assert FOLDER_VARIABLE not in os.environ
    assert not os.path.exists(folder)
    assert repr(view).startswith("rank 0: 1 collectives")
    assert view.pictures >= 1
