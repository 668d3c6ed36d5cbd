"""The cells of one lesson, again and again; all lessons: `make test-long PART=course`."""

from __future__ import annotations

import os
import random
import re
import sys

import pytest

from tests.lessons.metadata import read, source, stems
from tests.lessons.reruns import GROWTH, Report, cells_of, chosen, is_explained, rerun

pytestmark = pytest.mark.slow

FASTEST = 20  # seconds that a lesson may take once, to be drawn
SEED = os.environ.get("EDUTORCH_COURSE_SEED", "0")


def one_lesson():
    """Return a lesson that is drawn from the fast ones."""
    seconds = {stem: read(stem)["metadata"].get("edutorch", {}).get("seconds") for stem in stems()}
    fast = [stem for stem, value in seconds.items() if value and value <= FASTEST]
    return random.Random(SEED).choice(fast or stems()[:3])


@pytest.mark.skipif(sys.platform != "linux", reason="reads the memory of a kernel from /proc")
def test_a_lesson_can_be_run_again_and_again():
    pytest.importorskip("jupyter_client", reason="needs the extra `lab`")
    pytest.importorskip("ipykernel", reason="needs the extra `lab`")
    report = rerun(one_lesson(), times=5)
    assert report.problems == {}, report
    assert report.after - report.before <= GROWTH, report


def test_an_unknown_lesson_is_named():
    assert chosen("") == stems()
    assert [stem[:2] for stem in chosen("02, 00")] == ["00", "02"]
    with pytest.raises(SystemExit, match="there is no lesson 99"):
        chosen("99")


def test_what_is_a_problem():
    assert is_explained("RuntimeError: matmul: the shapes do not fit\n  hint: try b.T")
    assert not is_explained("NameError: name 'x' is not defined")
    assert Report("a", before=100, after=100 + GROWTH).is_good
    assert not Report("a", before=100, after=101 + GROWTH).is_good
    assert not Report("a", problems={"code cell 3 again: TypeError": None}).is_good


def test_views_do_not_wait_for_eyes():
    for stem in stems():
        texts = "\n".join(cells_of(stem))
        assert set(re.findall(r"steps_per_second=(\S+?)[,)]", texts)) <= {"10_000"}
        count = sum(cell["cell_type"] == "code" for cell in read(stem)["cells"])
        assert len(cells_of(stem)) == count
        assert all(source(cell) for cell in read(stem)["cells"])
