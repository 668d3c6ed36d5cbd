"""A folder of models for the board of faults: some work, some are slow, wrong or hostile."""

from __future__ import annotations

import os
import pickle
from pathlib import Path

from tests.serve.running import write_handler, write_mlp

PAIR = """
    from edutorch.serve.served import Served, TensorSpec
    def load(folder):
        x, y = TensorSpec("x", "FP32", (-1, 2)), TensorSpec("y", "FP32", (-1, 2))
        return Served((x, y), (TensorSpec("sum", "FP32", (-1, 2)),),
                      lambda arrays: {"sum": arrays["x"] + arrays["y"]})
"""

TABLE = """
    from edutorch import nn
    INPUTS = [("index", "INT64", (-1, -1))]
    def load(folder):
        return nn.Embedding(10, 3)
"""

NOT = """
    from edutorch.serve.served import Served, TensorSpec
    def load(folder):
        x, y = TensorSpec("x", "BOOL", (-1, 4)), TensorSpec("y", "BOOL", (-1, 4))
        return Served((x,), (y,), lambda arrays: {"y": ~arrays["x"]})
"""

# What the model does depends on the first number, so that the warm-up passes.
MOODS = """
    import time
    import numpy as np
    from edutorch.serve.served import Served, TensorSpec
    def call(arrays):
        mood = arrays["x"][0]
        if mood == 1:
            time.sleep(0.5)
        if mood == 2:
            raise KeyError("a bug")
        return {"y": np.zeros(2, "f8") if mood == 3 else arrays["x"]}
    def load(folder):
        x, y = TensorSpec("x", "FP32", (2,)), TensorSpec("y", "FP32", (2,))
        return Served((x,), (y,), call)
"""

BROKEN = """
    from edutorch.serve.served import Served, TensorSpec
    def load(folder):
        x = TensorSpec("x", "FP32", (-1, 2))
        return Served((x,), (TensorSpec("y", "FP32", (-1, 3)),), lambda arrays: {"y": arrays["x"]})
"""


class Hostile:
    """Unpickled, it would make a folder."""

    def __init__(self, path: Path) -> None:
        self.path = str(path)

    def __reduce__(self) -> tuple:
        return os.mkdir, (self.path,)


def write_models(models: Path) -> list[str]:
    """Write all of them, and return the arguments that trust their handlers, but one."""
    write_mlp(models)
    for name, text in {
        "pair": PAIR, "table": TABLE, "not": NOT, "moods": MOODS, "spare": PAIR, "broken": BROKEN,
    }.items():  # fmt: skip
        write_handler(models, name, text)
    trusted = [str(path) for path in models.rglob("handler.py")]
    write_handler(models, "untrusted", f"open({str(models.parent / 'ran')!r}, 'w')\n" + "x = 1\n")
    damaged = models / "damaged" / "1"
    damaged.mkdir(parents=True)
    (damaged / "model.onnx").write_bytes(b"\x08\x09not a model")
    hostile = models / "hostile" / "1"
    hostile.mkdir(parents=True)
    (hostile / "model.pt").write_bytes(pickle.dumps(Hostile(models.parent / "ran")))
    (hostile / "model.json").write_text('{"inputs": []}')
    secret = models.parent / "secret" / "1"
    secret.mkdir(parents=True)
    (secret / "model.onnx").write_bytes(b"secret")
    linked = models / "linked" / "1"
    linked.mkdir(parents=True)
    (linked / "model.onnx").symlink_to(secret / "model.onnx")
    return [word for path in trusted for word in ("--trust-handler", path)]
