"""What `notebooks/05_reading_graphs.ipynb` promises."""

from __future__ import annotations

import re
from base64 import b64decode
from typing import Any

from tests.lessons.outputs import shown, words_of

PROMISES = [
    r"loss: inf",
    r"loss: 3.0 gradient: tensor\(\[   nan, 0.5000, 0.2500\]\)",
    r"gradient: tensor\(\[0.0000, 0.5000, 0.2500\]\)\n✓ No trouble found.",
    r"`0\.weight`, `0\.bias`, `2\.weight` had a gradient of exactly 0 in all of the last",
    r"The gradients of earlier steps are still there and are added to: 0\.weight\.grad was not "
    r"cleared .*\n  at .*loss\.backward\(\)\n  → Call optimizer\.zero_grad\(\) before backward",
    r"\d+ graphs of earlier computations, with \d+ ops, kept alive by `losses`\.\n"
    r"  at .*\n  → Keep numbers: losses\.append\(loss\.item\(\)\)",  # the live view
    r"79 graphs of earlier computations, with \d+ ops and .*, kept alive by `losses`",
    r"linear: axis k is 8 in `input` but 4 in `weight`",
]
WARNINGS = ["NonFiniteGradientWarning: SqrtBackward0"]
STRICT = """
net = nn.Sequential(nn.Linear(3, 8), nn.ReLU(), nn.Linear(8, 2)).to(device)
scores = net(torch.randn(32, 3, device=device))
by_hand_fixed(scores, torch.arange(32, device=device) % 2).backward()
really_careful(torch.tensor([0.0, 1.0], device=device, requires_grad=True)).backward()
"""


def check(cell_outputs: list[Any]) -> None:
    """Each report says its sentence above its picture; a failed layer is in its own frame."""
    reports = [
        data for data in shown(cell_outputs) if 'label="trouble"' in data.get("text/html", "")
    ]
    texts = [data["text/plain"] for data in reports]
    for sentence in (
        "The first Inf is made by exp: exp of 100",
        "The first NaN in a gradient is made by the rule of sqrt: the slope of sqrt at 0",
        "`first.weight`, `first.bias` get no gradient: the chain is cut by detach()",
    ):
        assert [text for text in texts if sentence in text], sentence
    (failed,) = [data for data in reports if "✗ linear failed" in data["text/plain"]]
    picture = re.search(r"data:image/svg\+xml;base64,([^\"]*)", failed["text/html"])
    assert picture, "the report has a drawing"
    words = words_of(b64decode(picture[1]).decode())
    assert {"✗ linear", "32×8 with 2×4 with 2"} <= set(words)
    assert [word for word in words if word.endswith("2 · Linear")], "the layer has a frame"
    assert re.search(r"✗ linear +\S*2 +32×8", failed["text/plain"]), "and the box is in it"
