"""Starts the parent of all jails: builds its root, imports edutorch, and serves."""

from __future__ import annotations

import gc
import json
import os
import socket
import sys
import warnings
from typing import Any

from . import bwrap, landlock, linux, seccomp
from .factory_process import Factory
from .isolation import map_user
from .package_copy import readable_paths
from .probe import can_change_user, probe_all
from .root import build_root
from .settings import Settings


def main() -> None:
    """Serve the grader at the socket whose number is the first argument."""
    control = socket.socket(fileno=int(sys.argv[1]))
    settings = Settings.from_json(control.recv(1 << 16))
    try:
        factory, walls = prepare(control, sys.argv[2], settings)
    except Exception as error:  # noqa: BLE001  (the grader says what it was)
        control.send(json.dumps({"error": f"{type(error).__name__}: {error}"[:2000]}).encode())
        return
    control.send(json.dumps({"walls": walls}).encode())
    factory.run()


def prepare(
    control: socket.socket, folder: str, settings: Settings
) -> tuple[Factory, dict[str, Any]]:
    """Return the factory, and which walls stand."""
    os.umask(0o022)
    proc = os.open("/proc", os.O_RDONLY | os.O_DIRECTORY)
    walls, program = probe_all(settings, proc)
    missing = [name for name, (stands, _) in walls.items() if stands is False]
    if missing and not settings.fewer_walls:
        raise RuntimeError(json.dumps({"missing": {name: walls[name][1] for name in missing}}))
    if walls["landlock"][0] is None:  # bwrap stands in
        missing.append("landlock")
    settings = settings.without_walls(missing)
    if program:

        def words(talk: int) -> list[str]:
            return bwrap.command(program, folder, settings, talk)

        return Factory(control, settings, proc, False, words), walls
    if settings.has("landlock"):
        landlock.prepare(readable_paths(folder), settings)
    if settings.has("seccomp"):
        seccomp.prepare()
    enter_factory_root(folder, settings, proc)
    preload()
    return Factory(control, settings, proc, walls["own uid"][0] is True), walls


def enter_factory_root(folder: str, settings: Settings, proc: int) -> None:
    """Leave the filesystem of the machine; the jails inherit what is left."""
    if not settings.has("mount namespace"):
        return
    uid, gid = os.geteuid(), os.getegid()
    if uid == 0 and can_change_user():
        linux.unshare(linux.CLONE_NEWNS)
    else:
        linux.unshare(linux.CLONE_NEWUSER | linux.CLONE_NEWNS)
        map_user(uid, gid, proc)
    build_root(folder)


def preload() -> None:
    """Import what answers need, also what Python would import later from files behind a wall."""
    import encodings.idna  # noqa: F401
    import linecache  # noqa: F401
    import random  # noqa: F401
    import traceback  # noqa: F401

    import edutorch
    import edutorch.nn
    import edutorch.viz.draw
    from edutorch.classroom.attempt import run_answer
    from edutorch.classroom.jail import forbidden, inside

    warnings.simplefilter("ignore")
    warm_up(edutorch, run_answer, inside)
    forbidden.library_functions()
    gc.collect()
    gc.freeze()  # so that a collection in a jail copies none of these pages


WARM_UP = """
model = nn.Sequential(nn.Linear(3, 3), nn.Tanh(), nn.Linear(3, 2))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
def f(x):
    y = (-x + 1 - 2 * x / 3) ** 2 @ torch.ones(3, 3)
    y = y.exp().log().relu().sqrt().abs().sigmoid().T.reshape(2, 3)[0] - y.mean(0, keepdim=True)
    y = y.clone()
    y[0] = 1
    loss = F.cross_entropy(model(y), torch.tensor([1])) + y.softmax(0).sum()
    loss.backward()
    optimizer.step()
    return {"y": torch.stack([y.detach(), torch.zeros_like(y)]), "gradient": x.grad}
"""
"""What exercises of any course do, with the commonest ops."""

QUESTION = "def answer(theirs): return theirs.f(torch.ones(2, 3, requires_grad=True))"


def warm_up(edutorch: Any, run_answer: Any, inside: Any) -> None:
    """Answer a question once, so that everything for it is there: each jail would make it anew."""
    names, _ = inside.run_cells([WARM_UP])
    attempt = run_answer(inside.define_answer(QUESTION), names, {})
    assert not attempt.error, attempt.error
    inside.encode_or_explain(attempt)
    sys.modules.pop("__main__", None)


if __name__ == "__main__":
    main()
