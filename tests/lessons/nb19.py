"""What `notebooks/19_tokens_and_bert.ipynb` promises."""

from __future__ import annotations

import re
from typing import Any

from tests.lessons.outputs import drawn_by_graphviz, ends_with_step, percent, printed, shown

PROMISES = [
    r"\('e', 's'\) 9 times",
    r"first: ␣t ␣a ",
    r"to name: \w+",
]
STRICT = """
model = Bert(tokens=30, width=64, heads=4).to(device)
tokens = torch.randint(2, 30, (2, 12)).to(device)
chosen = (torch.arange(24).reshape(2, 12) % 4 == 1).to(device)
loss = blank_loss(model, tokens, chosen)
loss.backward()
assert model.token.weight.grad.device == device
named = Namer(model).to(device)(tokens)
assert named.shape == (2, TOPICS)
named.sum().backward()
"""


def check(cell_outputs: list[Any]) -> None:
    """Reading without labels is worth at least three points; unasked scores have no gradient."""
    text = printed(cell_outputs)
    gain = re.search(r"fine-tuned [\d.]+%: ([+-][\d.]+) points", text)
    assert gain and float(gain[1]) >= 3
    losses = re.search(r"frequencies alone ([\d.]+), on passages it has not read ([\d.]+)", text)
    assert losses and float(losses[2]) < 0.85 * float(losses[1])
    assert percent(r"tokens: ([\d.]+) letters per token", cell_outputs) > 2.5
    assert ends_with_step(cell_outputs, 60)
    assert drawn_by_graphviz(cell_outputs) == 2, "backward of the loss, the tiny model"
    texts = [data.get("text/plain", "") for data in shown(cell_outputs)]
    tables = [re.search(r"visible\.grad +5×7 float32 +mean +([^ ]+)", text) for text in texts]
    (mean,) = (float(match[1]) for match in tables if match)
    assert mean == 0
