"""What `notebooks/12_a_small_gpt.ipynb` promises."""

from __future__ import annotations

import re
from typing import Any

from edutorch.viz.render.style import ALARM
from tests.lessons.outputs import (
    boxes_of,
    drawn_by_graphviz,
    ends_with_step,
    percent,
    pictures_of,
    printed,
    shown,
)

PROMISES = [r"place 9 changed: \.{9}x\n", r"place 0 changed: x"]
STRICT = """
alphabet = "abcdefgh"
with device:  # a GPT asks for its places by itself: they are made where it runs
    numbers = torch.randint(0, 8, (2, LENGTH))
    loss_of(GPT(width=16), numbers[:, :-1], numbers[:, 1:]).backward()
"""


def check(cell_outputs: list[Any]) -> None:
    """The loss on text it has not seen is far below the marks of section 1; it writes words."""
    assert drawn_by_graphviz(cell_outputs) == 3, "the attention, the small model, the GPT"
    pictures = [data["image/svg+xml"] for data in shown(cell_outputs) if "image/svg+xml" in data]
    assert not [picture for picture in pictures if ALARM in picture], "a mask is no trouble"
    texts = [data.get("text/plain", "") for data in shown(cell_outputs)]
    assert not [text for text in texts if "✗" in text and not text.startswith("✗ 12.")]
    assert ends_with_step(cell_outputs, 90) and ends_with_step(cell_outputs, 900)
    attention, small, gpt = pictures_of(cell_outputs)
    assert {"inputs", "targets", "masked_fill", "softmax", "letter · Embedding"} <= set(small)
    assert not {"getitem", "unbind", "other"} & {*attention, *small}
    assert [label for label in gpt if label.startswith("blocks")], "folded: blocks are boxes"
    assert len(boxes_of(pictures[1])) <= 40 and len(boxes_of(pictures[2])) <= 40
    assert percent(r"temperature 0.3, top_k None: (\d+)% are words", cell_outputs) > 85
    assert percent(r"temperature 0.5, top_k None: (\d+)% are words", cell_outputs) > 75
    marks = re.search(r"letters alone ([\d.]+), pairs ([\d.]+)", printed(cell_outputs))
    reached = percent(r"on unseen text: ([\d.]+)", cell_outputs)
    assert marks and reached < float(marks[1]) - 0.7 and reached < float(marks[2])
