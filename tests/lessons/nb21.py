"""What `notebooks/21_fast.ipynb` promises."""

from __future__ import annotations

import re
from typing import Any

from tests.lessons.outputs import ends_with_step, percent, pictures_of, printed

PACKAGES = ["statsmodels"]
PROMISES = [
    r"largest difference: 0\.0\n",
    r"moved before +after +state\n.*\n +fused_0 +mul pow_1 mul_1 add mul_2 tanh",
    r"300² in float16: +inf\n0\.00001² in float16: +0\.0\n1 \+ 0\.003 in bfloat16: +1\.0\n",
    r"\.item\(\) in each: 20 waits, all of them between",
    r"Recorded on an NVIDIA H100(.*\n){7}.*(no GPU, so nothing is measured|here, 128 hidden)",
]
STRICT = """
inputs, targets = torch.randn(64, PAST, device=device), torch.randn(64, NEXT, device=device)
model = Forecaster(mean=fast_mean).to(device)
F.mse_loss(model(inputs), targets).backward()
slow_mean(inputs)
step_time(device, hidden=16, batch=64)
"""


def check(cell_outputs: list[Any]) -> None:
    """Each sentence about a speed follows its ratio; casts and the fused call are drawn."""
    ratios_say_what_was_measured(printed(cell_outputs))
    assert ends_with_step(cell_outputs, 300)
    flame, *graphs = pictures_of(cell_outputs)
    assert flame == [], "it has no boxes of Graphviz"
    _, bell, fused, casts, _ = graphs
    assert {"pow", "tanh", "mul", "add"} <= set(bell)
    assert "compiled bell" in fused and "tanh" not in fused
    assert casts.count("to") == 2
    forecast, rule = re.search(
        r"off by ([\d.]+) ppm; as last year ([\d.]+)", printed(cell_outputs)
    ).groups()
    assert float(forecast) < 0.8 * float(rule)
    lost = r"lost without scaling: ([\d.]+)%, with 2\^12: ([\d.]+)%"
    without, with_scale = re.search(lost, printed(cell_outputs)).groups()
    assert float(without) > 5 > 10 * float(with_scale)
    assert percent(r"(\d+) steps were skipped", cell_outputs) >= 3
    plain, frugal = re.search(
        r"batch 2048: ([\d.]+) MB, with checkpoints ([\d.]+) MB", printed(cell_outputs)
    ).groups()
    assert float(frugal) < 0.75 * float(plain)


def ratios_say_what_was_measured(text: str) -> None:
    line = r"(.+): ([\d.]+) ms -> ([\d.]+) ms, ratio ([\d.]+): (.+)"
    lines = re.findall(line, text)
    assert [what for what, *_ in lines][:6] == [
        "the running mean",
        "the whole step",
        "bell, compiled",
        "the forecaster, compiled",
        "float32 to bfloat16",
        "checkpoints",
    ]
    for what, before, after, ratio, sentence in lines:
        measured = float(before) / float(after)
        rounded = 0.006 + 0.0006 * measured * (1 / float(before) + 1 / float(after))
        assert abs(float(ratio) - measured) < rounded, what
        if sentence.endswith("times as fast"):
            assert float(ratio) >= 1.15, what
        elif sentence.startswith("slower"):
            assert float(ratio) <= 0.87, what
        else:
            assert sentence == "no difference that matters" and 0.87 <= float(ratio) <= 1.15, what
    paid_off = re.search(r"took \d+ ms(: paid off after \d+ calls|, and never pays off)", text)
    assert paid_off, "whether the compilation pays"
