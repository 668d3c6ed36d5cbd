"""What `notebooks/09_data_loading.ipynb` promises."""

from __future__ import annotations

import sys
from typing import Any

import pytest

from tests.lessons.outputs import printed, shown

STRICT = """
from edutorch.nn import Embedding, Flatten, Linear, Sequential
from edutorch.nn.functional import cross_entropy

words = [torch.tensor([1, 2, 3]), torch.tensor([4]), torch.tensor([5, 6])]
reader = Sequential(Embedding(27, 4), Flatten(), Linear(12, 2)).to(device)
labels = torch.tensor([0, 1, 0]).to(device)
cross_entropy(reader(pad(words).to(device)), labels).backward()
assert reader[0].weight.grad.device == device

pictures = [(wobble(torch.rand(8, 8)), digit) for digit in range(6)]
images, labels = next(iter(DataLoader(pictures, batch_size=6)))
reader = Sequential(Flatten(), Linear(64, 10)).to(device)
cross_entropy(reader(images.to(device)), labels.to(device)).backward()
assert reader[1].weight.grad.device == device
"""


def check(cell_outputs: list[Any]) -> None:
    if sys.platform != "linux":
        pytest.skip("its workers are forked from the notebook")
    for words in (
        "sample = 42 of the batch",
        'of the cell: raise ValueError("the picture is empty")',
        "is killed by signal: SIGKILL",
        "two epochs differ:      True",
        "two runs are the same:  True",
    ):
        assert words in printed(cell_outputs)
    texts = [data.get("text/plain", "") for data in shown(cell_outputs)]
    assert len([data for data in shown(cell_outputs) if "image/png" in data]) == 5
    assert "True" in texts, "the order is the same with and without workers"
    assert "[[0, 2, 4, 6], [1, 3, 5, 7]]" in texts
    assert texts[-1] == "[]", "no process is left"
