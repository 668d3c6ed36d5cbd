"""What `notebooks/02_backprop_by_hand.ipynb` promises."""

from __future__ import annotations

from typing import Any

from tests.lessons.outputs import drawn_by_graphviz, pictures_of, printed

PROMISES = [
    r"(?s)(agrees: True.*){4}",
    r"gradcheck: True",
    r"backward     = 0\.6115",
    r"h\.grad = 7",
    r"norm of edges\.weight\.grad: (\S+) in the picture, \1 in the network",
]
STRICT = """
eye = Eye().to(device)
images, labels = torch.randn(16, 1, 8, 8, device=device), torch.arange(16, device=device) % 10
F.cross_entropy(eye(images), labels).backward()
ForgetfulTanh.apply(torch.ones(3, device=device, requires_grad=True)).sum().backward()
"""


def check(cell_outputs: list[Any]) -> None:
    """No line of a table wraps at the width of a notebook, and names are those of the network."""
    assert max(map(len, printed(cell_outputs).splitlines())) <= 100, "as many as JupyterLab shows"
    network = pictures_of(cell_outputs)[-1]
    assert {"edges · Conv2d", "votes · Linear", "images", "labels"} <= set(network)
    assert drawn_by_graphviz(cell_outputs) == 4
