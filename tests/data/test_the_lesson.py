"""The lesson on data loading runs and shows what it promises."""

from __future__ import annotations

import sys

import pytest

from tests.test_notebooks import NOTEBOOKS, execute, outputs


@pytest.mark.skipif(sys.platform != "linux", reason="its workers are forked from the notebook")
def test_the_lesson_on_data_loading():
    pytest.importorskip("matplotlib", reason="needs the extra `lab`")
    pytest.importorskip("sklearn", reason="needs the extra `lab`")
    lesson = execute(next(path for path in NOTEBOOKS if path.stem.startswith("09_")))
    found = outputs(lesson)
    printed = "".join(each["text"] for each in found if each["output_type"] == "stream")
    texts = [each["data"].get("text/plain", "") for each in found if "data" in each]
    assert len([each for each in found if "image/png" in each.get("data", {})]) == 5
    assert "True" in texts, "the order is the same with and without workers"
    assert "[[0, 2, 4, 6], [1, 3, 5, 7]]" in texts
    assert "sample = 42 of the batch" in printed
    assert 'of the cell: raise ValueError("the picture is empty")' in printed
    assert "is killed by signal: SIGKILL" in printed
    assert texts[-1] == "[]", "no process is left"
    assert "two epochs differ:      True" in printed
    assert "two runs are the same:  True" in printed
