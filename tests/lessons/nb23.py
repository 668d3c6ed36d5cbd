"""What `notebooks/23_out.ipynb` promises."""

from __future__ import annotations

import re
from typing import Any

from tests.lessons.outputs import ends_with_step, percent, pictures_of, printed, shown

PACKAGES = ["onnx_ir", "onnxruntime", "starlette", "uvicorn"]
PROMISES = [
    r'relu: "float32\[batch, 8, 8, 8\]" = torch\.relu\(conv2d\)',
    r"`x` has size 65 on axis 0, and `batch` goes from 1 to 64",
    r"\.py:3: the way depends on the numbers of a tensor",
    r"# Gemm linear_Gemm\n.*torch\.nn\.functional\.linear",
    r"def forward\(self: __torch__\.Doubter, scores: Tensor\):\n  if torch\.max\(scores\) > 5:",
    r"class Program \{(.*\n)+.*edu::linear\(view, p_linear_weight, p_linear_bias\)",
    r"(output 0 \(6, 10\) differs from Python by \S+|no C\+\+ compiler here)",
    r"http://127\.0\.0\.1\n",
    r'"shape": \[\n +-1,\n +1,\n +8,\n +8\n',
    r"400 input 'x' has shape \[6, 1, 4, 16\], but the model takes \[-1, 1, 8, 8\]",
    r"ended with 0\n",
    r"rounded by at most 0\.0",
]
FORMS = ["exported program", "ONNX", "TorchScript", "server"]
STRICT = """
reader = Reader().to(device)
images, labels = torch.rand(4, 1, 8, 8, device=device), torch.arange(4, device=device)
F.cross_entropy(reader(images), labels).backward()
"""


def check(cell_outputs: list[Any]) -> None:
    """Each form answers as the network, and each has a picture of the same boxes."""
    text = printed(cell_outputs)
    said = dict(re.findall(r"(\w[\w +]*): largest difference (\S+)", text))
    assert set(FORMS) <= set(said) <= {*FORMS, "C++"}
    assert all(float(value) < 1e-5 for value in said.values())
    assert percent(r"([\d.]+)% of 397 new digits", cell_outputs) > 88
    assert ends_with_step(cell_outputs, 100)
    pictures = pictures_of(cell_outputs)
    assert len(pictures) == 6, "the live view, the call, the program, ONNX, TorchScript, the server"
    for words in pictures[1:]:
        assert {"conv2d", "relu", "linear"} <= set(words), words
    assert sum("image/png" in data for data in shown(cell_outputs)) >= 6
