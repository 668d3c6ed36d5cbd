"""Clients that keep a server busy: `python -m tests.serve.load URL SECONDS CLIENTS < BODY`.

Each is a connection that sends the same request again as soon as the answer is there. They share a
loop and do little, so that on a machine with two cores the server has one for itself.
"""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import time
from collections import Counter
from dataclasses import dataclass, field
from urllib.parse import urlsplit

import numpy as np

from tests.serve.running import ROOT


@dataclass
class Report:
    """What the clients have seen.

    Args:
        statuses: how many answers had each status.
        latencies: seconds, of each answer.
        broken: connections that ended in the midst of a request or its answer, with the reason.
        refused: connections that could not be made: the server listens no more.
    """

    statuses: Counter = field(default_factory=Counter)
    latencies: list[float] = field(default_factory=list)
    broken: list[str] = field(default_factory=list)
    refused: int = 0
    seconds: float = 0.0

    def quantile(self, share: float) -> float:
        """Return the latency that so large a share of the answers does not exceed."""
        return float(np.quantile(self.latencies, share)) if self.latencies else float("nan")


def infer_request(
    model: str, rows: np.ndarray, host: str, name: str = "x", binary: bool = True
) -> bytes:
    """Return the bytes of a whole request for a model with one input of float32."""
    entry: dict = {"name": name, "datatype": "FP32", "shape": list(rows.shape)}
    request: dict = {"inputs": [entry]}
    tail = b""
    if binary:
        tail = rows.astype("<f4").tobytes()
        entry["parameters"] = {"binary_data_size": len(tail)}
        request["parameters"] = {"binary_data_output": True}
    else:
        entry["data"] = rows.ravel().tolist()
    text = json.dumps(request).encode()
    lines = [f"POST /v2/models/{model}/infer HTTP/1.1", f"Host: {host}"]
    lines += [f"Content-Length: {len(text) + len(tail)}"]
    lines += [f"Inference-Header-Content-Length: {len(text)}"] if binary else []
    return "\r\n".join([*lines, "", ""]).encode() + text + tail


async def read_answer(reader: asyncio.StreamReader) -> tuple[int, bool]:
    """Read an answer, and return its status and whether the connection stays."""
    head = (await reader.readuntil(b"\r\n\r\n")).lower()
    length = int(head.partition(b"\r\ncontent-length:")[2].partition(b"\r\n")[0])
    await reader.readexactly(length)
    return int(head[9:12]), b"connection: close" not in head


async def client(host: str, port: int, request: bytes, end: float, report: Report) -> None:
    """Send a request again and again until a time, or until the server listens no more."""
    stays, writer = False, None
    while time.monotonic() < end:
        if not stays:
            if writer is not None:
                writer.close()
            try:
                reader, writer = await asyncio.open_connection(host, port)
            except OSError:
                report.refused += 1
                return
        start = time.perf_counter()
        try:
            writer.write(request)
            status, stays = await read_answer(reader)
        except (OSError, asyncio.IncompleteReadError) as error:
            report.broken.append(f"{type(error).__name__}: {error}")
            stays = False
        else:
            report.latencies.append(time.perf_counter() - start)
            report.statuses[status] += 1
    if writer is not None:
        writer.close()


async def run_clients(url: str, request: bytes, seconds: float, clients: int) -> Report:
    """Run clients for a while."""
    parts = urlsplit(url)
    report = Report()
    start = time.monotonic()
    arguments = (parts.hostname, parts.port, request, start + seconds, report)
    await asyncio.gather(*(client(*arguments) for _ in range(clients)))
    report.seconds = time.monotonic() - start
    return report


class Load:
    """Clients in a process of their own, so that they and the test do not share a thread.

    Args:
        request: the bytes that each of them sends.
    """

    def __init__(self, url: str, request: bytes, seconds: float, clients: int = 16) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "tests.serve.load", url, str(seconds), str(clients)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=ROOT,
        )  # fmt: skip
        self.process.stdin.write(request)
        self.process.stdin.close()

    def result(self) -> Report:
        """Wait for the end, and return what was seen."""
        text = self.process.stdout.read()
        assert self.process.wait() == 0
        entries = json.loads(text)
        entries["statuses"] = Counter({int(key): n for key, n in entries["statuses"].items()})
        return Report(**entries)


def main() -> None:
    url, seconds, clients = sys.argv[1:]
    request = sys.stdin.buffer.read()
    report = asyncio.run(run_clients(url, request, float(seconds), int(clients)))
    print(json.dumps(vars(report)))


if __name__ == "__main__":
    main()
