"""What `notebooks/11_an_lstm.ipynb` promises."""

from __future__ import annotations

import re
from typing import Any

from tests.lessons.outputs import drawn_by_graphviz, printed

PROMISES = [r"rows at each step: \[3, 3, 3, 3, 3, 3, 2, 2, 2, 2, 2, 1\]"]
STRICT = """
keeper, writer = Keeper().to(device), Writer().to(device)
inputs, answers = (tensor.to(device) for tensor in memory_task(4))
F.mse_loss(keeper(inputs), answers).backward()
encoded = [encode(word) for word in ("list", "dictionary")]
batch = nn.utils.rnn.pad_sequence(encoded, batch_first=True, padding_value=PAD)
loss_of(writer, batch.to(device)).backward()
"""


def check(cell_outputs: list[Any]) -> None:
    assert drawn_by_graphviz(cell_outputs) == 2
    match = re.search(r"words never seen: ([\d.]+), baseline ([\d.]+)", printed(cell_outputs))
    assert match and float(match[1]) < 0.8 * float(match[2])
