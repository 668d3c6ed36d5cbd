"""What runs in the jail: the student's code, and the question of the exercise.

One process answers the cases of one exercise. It is forked without the student's code, gets it
over a channel when all walls stand, runs the cells, and answers one case after the other.
"""

from __future__ import annotations

import random
import sys
from collections.abc import Mapping
from typing import Any

import numpy as np

import edutorch

from ..attempt import Attempt, first_line, namespace, run_answer
from .attempts import encode_attempt
from .forbidden import remove_functions
from .frames import Channel, Ended, receive_frame, send_frame
from .values import Decoder

REQUEST_LIMIT = 64 << 20  # of what the grader sends: it is trusted, a mistake in it is not


def serve(channel: Channel) -> None:
    """Answer the cases that come over a channel, until it ends."""
    request, _ = receive_frame(channel, REQUEST_LIMIT, 0)
    forbid = frozenset(request["forbid"])
    called = remove_functions(forbid)
    answer = define_answer(request["answer"])
    seed_random_numbers()
    names, error = run_cells(request["cells"])
    while True:
        try:
            data, body = receive_frame(channel, REQUEST_LIMIT, REQUEST_LIMIT)
        except Ended:
            return
        case = Decoder(body).decode(data)
        attempt = Attempt(case, error=error) if error else run_answer(answer, names, case, forbid)
        if called:
            attempt = Attempt(case, forbidden=tuple(sorted({*called, *attempt.forbidden})))
        send_frame(channel, *encode_or_explain(attempt))


def seed_random_numbers() -> None:
    """Let weights and samples be the same ones in each run."""
    edutorch.manual_seed(0)
    np.random.seed(0)
    random.seed(0)


def run_cells(cells: list[str]) -> tuple[dict[str, Any], str]:
    """Run the student's cells in a new module; return its names, and the error that ended it."""
    import types

    module = types.ModuleType("__main__")
    sys.modules["__main__"] = module
    names = vars(module)
    names.update(namespace())
    for number, cell in enumerate(cells, 1):
        file = f"<cell {number}>"
        remember_lines(file, cell)
        try:
            exec(compile(cell, file, "exec"), names)
        except Exception as error:  # noqa: BLE001  (whatever the student's code raises)
            return names, first_line(error)
    return names, ""


def remember_lines(file: str, cell: str) -> None:
    """Let tracebacks and pictures show the lines of a cell."""
    import linecache

    linecache.cache[file] = (len(cell), None, cell.splitlines(True), file)


def define_answer(source: str) -> Any:
    """Return the exercise's `answer` of its source: a function or a lambda."""
    scope: dict[str, Any] = dict(namespace())
    exec(compile(source, "<question>", "exec"), scope)
    return scope["answer"]


def encode_or_explain(attempt: Attempt) -> tuple[Mapping[str, Any], list[bytes]]:
    """Return an attempt as a frame; one that cannot be sent is an error of the student's."""
    try:
        return encode_attempt(attempt)
    except Exception as error:  # noqa: BLE001  (an answer may raise whatever it is asked)
        return encode_attempt(Attempt({}, error=first_line(error)))
