"""The walls of WebAssembly: each is tried, by code in it that would get around it."""

from __future__ import annotations

import json
import socket
import sys
from collections.abc import Callable
from typing import Any

MEANINGS = {
    "wasm files": "the code reads Python, its libraries and a copy of edutorch, and writes nothing",
    "wasm network": "it has no network, not even to this machine",
    "wasm processes": "it starts no process and no thread, and signals nobody",
    "wasm memory": "it has memory of its own, which is limited, and no address outside of it",
    "wasm deadline": "it is stopped when its time is up, whatever it does",
    "wasm output": "what it prints is cut off",
}
"""What each wall means. All are of one kind: WebAssembly can do only what it is given to do."""

TRIALS = """
import json, os, socket, subprocess, threading
def is_stopped(*actions):
    for action in actions:
        try:
            action()
        except (OSError, RuntimeError, AttributeError, MemoryError):
            continue
        return False
    return True
can_read = not is_stopped(lambda: open("/site/edutorch/__init__.py"))
print(json.dumps({{
    "wasm files": can_read and is_stopped(
        lambda: open({outside!r}), lambda: open("/site/../" + {outside!r}),
        lambda: open("/site/left", "w"), lambda: open("/tmp/left", "w"), lambda: os.listdir("/"),
    ),
    "wasm network": is_stopped(
        lambda: socket.create_connection(("127.0.0.1", {port}), 5),
        lambda: socket.socket().bind(("127.0.0.1", 0)),
    ),
    "wasm processes": is_stopped(
        lambda: os.fork(), lambda: subprocess.run([{outside!r}, "-c", "pass"]),
        lambda: threading.Thread(target=print).start(),
    ),
    "wasm memory": is_stopped(lambda: bytearray({memory})),
}}))
"""


def probe_walls(run: Callable[..., Any], memory: int) -> dict[str, tuple[bool | None, str]]:
    """Return, for each wall, whether it stands, and what is to be said about it.

    Args:
        run: runs Python code in WebAssembly; see `wasm.WasmFactory.run`.
        memory: bytes of an instance.
    """
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        trials = TRIALS.format(outside=sys.executable, port=port, memory=memory)
        text = run(trials, deadline_s=60).stdout
    try:
        stopped = json.loads(text)
    except ValueError:
        stopped = {}
    stopped["wasm deadline"] = run("while True: pass", deadline_s=0.1).trapped == "deadline"
    printed = run("print('x' * 100)", output_bytes=10, deadline_s=60)
    stopped["wasm output"] = len(printed.stdout) <= 10
    return {
        name: (True, "by WebAssembly")
        if stopped.get(name)
        else (False, "the trial was not stopped")
        for name in MEANINGS
    }
