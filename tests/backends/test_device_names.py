"""A device's name decides nothing outside `backends/` and `cuda/`: see `backends.DEVICES`."""

import ast
from pathlib import Path

import edutorch
from edutorch import backends

PACKAGE = Path(edutorch.__file__).parent
EXEMPT = ("backends/", "cuda/", "compat/backends/")
DEVICES = {"cpu", "gpu", "cuda", "strict", "mps", "xpu", "auto", "meta"}


def is_gpu(node):
    name = node.value if isinstance(node, ast.Constant) else None
    return isinstance(name, str) and name.partition(":")[0] == backends.ACCELERATOR


def decisions(tree):
    """Yield where a string that names the GPU decides: compared, chosen, or looked up by.

    Calls, defaults of parameters and texts may name it. A collection counts if it holds devices.
    """
    for node in ast.walk(tree):
        if isinstance(node, ast.Compare):
            parts = [node.left, *node.comparators]
        elif isinstance(node, ast.IfExp):
            parts = [node.test, node.body, node.orelse]
        elif isinstance(node, ast.BoolOp):
            parts = node.values
        elif isinstance(node, ast.MatchValue):
            parts = [node.value]
        elif isinstance(node, ast.Subscript):
            parts = [node.slice]
        elif isinstance(node, ast.Dict | ast.Set | ast.Tuple | ast.List):
            parts = node.keys if isinstance(node, ast.Dict) else node.elts
            constants = [part.value for part in parts if isinstance(part, ast.Constant)]
            names = {str(constant).partition(":")[0] for constant in constants}
            parts = parts if names <= DEVICES else []
        else:
            continue
        yield from (part.lineno for part in parts if part is not None and is_gpu(part))


def test_nothing_is_decided_by_the_name_of_the_gpu():
    wrong = [
        f"{path.relative_to(PACKAGE)}:{line}"
        for path in sorted(PACKAGE.rglob("*.py"))
        if not str(path.relative_to(PACKAGE).as_posix()).startswith(EXEMPT)
        for line in decisions(ast.parse(path.read_text(encoding="utf-8")))
    ]
    assert not wrong, f"ask the Backend, the Device or backends.DEVICES instead: {wrong}"


def test_decisions_are_seen():
    for source in (
        'x.name == "cuda"', '"cuda" if x else "cpu"', 'x in ("cpu", "cuda:0")', 'd or "cuda"',
        '{"cpu": 1, "cuda": 2}', 'table["cuda"]', 'match x:\n case "cuda": pass',
    ):  # fmt: skip
        assert list(decisions(ast.parse(source))), source
    for source in ('get("cuda")', 'def f(d="cuda"): "cuda"', '("cuda", "copy_")'):
        assert not list(decisions(ast.parse(source))), source


def test_a_device_is_registered_in_one_place():
    for name, device in backends.DEVICES.items():
        assert edutorch.device(name).is_accelerator == device.is_accelerator
        if not device.is_accelerator:
            backend = backends.get(name)
            assert (backend.name, type(backend).__name__) == (name, device.backend)
            assert backend.is_accelerator == device.is_accelerator
    assert backends.from_dlpack_type(1) is backends.CPU
    assert backends.from_dlpack_type(99) is backends.CPU
