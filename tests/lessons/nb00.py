"""What `notebooks/00_five_minute_tour.ipynb` promises."""

from __future__ import annotations

from typing import Any

from tests.lessons.outputs import drawn_by_graphviz, ends_with_step, percent, pictures_of, shown

STRICT = """
model = nn.Sequential(nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 10)).to(device)
images, targets = torch.rand(20, 64, device=device), torch.arange(20, device=device) % 10
nn.CrossEntropyLoss()(model(images), targets).backward()
"""


def check(cell_outputs: list[Any]) -> None:
    """The gradient is 8, the graph is drawn, the digits are read, a picture stays."""
    first, second, network = pictures_of(cell_outputs)
    for words in (first, second):
        assert {"x", "pow", "mul", "add", "y = add", "1"} <= set(words) and words.count("2") == 2
        assert not {"other", "exponent", "data"} & set(words)
    assert {"images", "targets"} <= set(network), "the inputs have the names of the loop"
    assert not {"data", "other", "getitem"} & set(network)
    assert ends_with_step(cell_outputs, 264), "12 epochs of 22 batches"
    assert "tensor(8.)" in [data.get("text/plain", "") for data in shown(cell_outputs)]
    assert drawn_by_graphviz(cell_outputs) == 3, "one of y, two that live views leave"
    assert percent(r"([\d.]+)% of \d+ new digits", cell_outputs) > 95
