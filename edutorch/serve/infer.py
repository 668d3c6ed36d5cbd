"""A request's way: its body is read within limits, its result awaited within its deadline."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

from starlette.requests import Request

from .errors import BadRequest, RequestError
from .repository import Version
from .served import Arrays
from .settings import Settings

DISCARDED_SECONDS = 2.0
"""So long a body that is too large is read and dropped: who still sends hears no answer."""

BODIES = 8
"""So many bodies of the largest size may be in memory before their requests are queued."""


@dataclass
class Reading:
    """How many bytes of bodies are being read, by all requests together."""

    size: int = 0


async def read_body(request: Request, settings: Settings, reading: Reading) -> bytes:
    """Return the body of a request.

    Raises: RequestError: it is too large (413), too slow (408), compressed (415), or there are too
            many at once (503).
        BadRequest: its length is no number.
    """
    limit = settings.max_body
    encoding = request.headers.get("content-encoding", "identity")
    if encoding != "identity":
        raise RequestError(415, f"content-encoding {encoding[:40]!r}: send the body as it is")
    length = request.headers.get("content-length", "0")
    if not (length.isascii() and length.isdigit()):
        raise BadRequest(f"content-length is {length[:40]!r}")
    if reading.size > BODIES * limit:
        raise RequestError(503, "too many large requests at once", {"Retry-After": "1"})
    chunks: list[bytes] = []
    size = 0
    try:
        async with asyncio.timeout(settings.body_timeout):
            while True:
                message = await request.receive()
                if message["type"] == "http.disconnect":
                    raise ConnectionAbortedError
                chunk = message.get("body", b"")
                size += len(chunk)
                reading.size += len(chunk)
                if max(size, int(length[:20])) > limit:
                    await discard(request, message)
                    raise RequestError(413, f"the body has more than {limit} bytes")
                chunks.append(chunk)
                if not message.get("more_body"):
                    return b"".join(chunks)
    except TimeoutError:
        seconds = settings.body_timeout
        raise RequestError(408, f"the body did not arrive within {seconds:g} s") from None
    finally:
        reading.size -= size


async def discard(request: Request, message: dict) -> None:
    """Read the rest of a body for a while, and drop it."""
    try:
        async with asyncio.timeout(DISCARDED_SECONDS):
            while message.get("more_body"):
                message = await request.receive()
    except TimeoutError:
        return


async def run_request(
    request: Request, version: Version, arrays: Arrays, timeout: float | None, settings: Settings
) -> Arrays:
    """Return the outputs for a request.

    Args:
        timeout: seconds that the client is ready to wait, if it has said so.

    Raises: RequestError: the queue is full or the server ends (503), or the deadline has passed
            (504).
        ConnectionAbortedError: the client went away; its request has left the batch.
    """
    seconds = min(settings.timeout, timeout or settings.timeout)
    pending = version.batcher.submit(arrays)
    future = pending.future

    def expire() -> None:
        if not future.done():
            future.set_exception(RequestError(504, f"no result within {seconds:g} s"))

    timer = asyncio.get_running_loop().call_later(seconds, expire)
    watcher = asyncio.ensure_future(request.receive())
    watcher.add_done_callback(lambda done: done.cancelled() or future.cancel())
    try:
        return await future
    except asyncio.CancelledError:
        if watcher.done():
            raise ConnectionAbortedError from None
        ends = "the server ends, and the model still runs"
        raise RequestError(503, ends, {"Retry-After": "1"}) from None
    finally:
        timer.cancel()
        watcher.cancel()
        version.batcher.withdraw(pending)
