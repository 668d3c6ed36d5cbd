"""What the first call of an op costs, in fresh processes with an empty cache of kernels.

No call waits for a compiler: the definition answers while the kernel is made. What is left is the
code that is written for an op at its first call, imports, and the GIL, for which the call and the
compiler compete. Shown is how much longer the first call takes than the quickest of the next ones,
forward and backward; the goal is at most 50 ms.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile

from . import report

GOAL = 0.05
"""Seconds that a first call may take more than a later one."""

INPUTS = """
x = lambda *shape: torch.rand(*shape).mul_(0.8).add_(0.1).requires_grad_()
matrix, image, layers = (256, 256), (8, 16, 32, 32), torch.nn
"""
ELEMENTWISE = (
    "exp", "log", "tanh", "sigmoid", "erf", "sqrt", "sin", "log1p", "square", "abs", "reciprocal",
    "F.relu", "F.gelu", "F.silu", "F.elu", "F.softplus", "F.leaky_relu", "F.hardtanh", "F.mish",
)  # fmt: skip
PAIRS = ("add", "mul", "div", "maximum", "pow", "atan2", "hypot", "matmul", "F.mse_loss")
ALONG = ("softmax", "log_softmax", "logsumexp", "sum", "mean", "var", "amax", "prod", "cumsum")
CALLS = {
    **{name: f"{name}(x(*matrix))" for name in ELEMENTWISE},
    **{name: f"{name}(x(*matrix), x(*matrix))" for name in PAIRS},
    **{name: f"{name}(x(*matrix), dim=-1)" for name in ALONG},
    "where": "where(x(*matrix) > 0.5, x(*matrix), x(*matrix))",
    "sort": "sort(x(*matrix), dim=-1)[0]",
    "median": "median(x(*matrix), dim=-1)[0]",
    "linear": "F.linear(x(*matrix), x(*matrix), x(256))",
    "layer_norm": "F.layer_norm(x(*matrix), (256,))",
    "rms_norm": "F.rms_norm(x(*matrix), (256,))",
    "group_norm": "F.group_norm(x(*image), 4)",
    "batch_norm": "F.batch_norm(x(*image), None, None, training=True)",
    "conv2d": "F.conv2d(x(*image), x(32, 16, 3, 3))",
    "conv_transpose2d": "F.conv_transpose2d(x(*image), x(16, 32, 3, 3))",
    "max_pool2d": "F.max_pool2d(x(*image), 2)",
    "avg_pool2d": "F.avg_pool2d(x(*image), 2)",
    "interpolate": "F.interpolate(x(*image), scale_factor=2)",
    "attention": "F.scaled_dot_product_attention(*[x(2, 4, 64, 32) for _ in range(3)])",
    "cross_entropy": "F.cross_entropy(x(*matrix), torch.arange(256))",
    "embedding": "F.embedding(torch.arange(256), x(*matrix))",
    "index": "index_select(x(*matrix), 0, torch.arange(256))",
    "dropout": "F.dropout(x(*matrix))",
    "rnn": "layers.RNN(64, 64)(x(16, 8, 64))[0]",
    "lstm": "layers.LSTM(64, 64)(x(16, 8, 64))[0]",
    "gru": "layers.GRU(64, 64)(x(16, 8, 64))[0]",
    "lstm_cell": "layers.LSTMCell(64, 64)(x(8, 64))[0]",
    "solve": "linalg.solve(x(*matrix) + 9 * torch.eye(256), x(*matrix))",
    "rfft": "fft.rfft(x(*matrix)).abs()",
}
PROGRAM = """
import json, os, sys, time
import {library} as torch
from {library}.nn import functional as F
{inputs}
(1 + torch.ones(3, requires_grad=True)).sum().backward()
def step():
    start, computed = time.perf_counter(), time.thread_time()
    {call}.sum().backward()
    return time.perf_counter() - start, time.thread_time() - computed
print(json.dumps([step() for _ in range(4)]), flush=True)
os._exit(0)  # without waiting for the compiler
"""


def first_and_later(name: str, library: str = "edutorch") -> tuple[float, float, float]:
    """Return the seconds of the first call and of the quickest later one, in a new process.

    The third is what the calling thread itself computes in the first call: the rest is waiting.
    """
    call = CALLS[name] if CALLS[name].startswith(("F.", "layers.")) else f"torch.{CALLS[name]}"
    program = PROGRAM.format(library=library, inputs=INPUTS, call=call)
    with tempfile.TemporaryDirectory() as cache:
        answer = subprocess.run(
            [sys.executable, "-W", "ignore", "-c", program], capture_output=True, text=True,
            check=True, env={**os.environ, "EDUTORCH_CACHE": cache},
        ).stdout  # fmt: skip
    (first, computed), *later = json.loads(answer)
    return first, min(seconds for seconds, _ in later), computed


def run(options: argparse.Namespace) -> str:
    """Call each op for the first time, in turns, and return the report."""
    names = [name for name in CALLS if not options.only or name in options.only]
    rows, slow = [], []
    for name in names:
        samples = [first_and_later(name) for _ in range(options.rounds)]
        over = statistics.median(first - later for first, later, _ in samples)
        medians = [statistics.median(times) for times in zip(*samples, strict=True)]
        rows.append([name, *(f"{time * 1e3:.1f}" for time in (*medians, over))])
        slow += [name] * (over > GOAL)
    head = ["first call, cold cache", "ms", "a later one", "computed in the first", "more"]
    verdict = ", ".join(slow) or "none"
    return f"{report.table(head, rows)}\n\nMore than {GOAL * 1e3:.0f} ms: {verdict}."
