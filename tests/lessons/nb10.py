"""What `notebooks/10_a_cnn_that_sees.ipynb` promises."""

from __future__ import annotations

from typing import Any

from tests.lessons.outputs import drawn_by_graphviz, percent

PROMISES = [r"instead of edges, a linear layer would have 66,560"]
STRICT = """
eye = Eye().to(device)
images, labels = torch.rand(20, 1, 8, 8, device=device), torch.arange(20, device=device) % 10
F.cross_entropy(eye(images), labels).backward()
grad_cam(eye, images[0], digit=3)
"""


def check(cell_outputs: list[Any]) -> None:
    assert drawn_by_graphviz(cell_outputs) == 1
    assert percent(r"([\d.]+)% of 397 digits it has never seen", cell_outputs) > 95
